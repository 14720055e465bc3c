"""The names of the files of a run directory: nobody else asks for them by name.

=========================  =============================================================================================
``contents.json``          which file is which: their checksums, see `ltgcd.run.contents`
``config.toml``            what decides the result, with checksums of what went in; a folder with one is a run
``split.parquet``          id, label and, for evaluation, y_true of every item; what people said later
``k_estimate.json``        the estimate of the number of classes, with its evidence
``metrics.jsonl``          a line an epoch; ``tensorboard/`` has the same curves where TensorBoard is installed
``checkpoint/``            the last epochs of training and of the rehearsals, for a run that was stopped
``model.*``                the classifier (safetensors) and its description (TOML)
``assignments.parquet``    id, label, name, status, confidence of every item: `FittedRun.write_assignments`; a run that
                           has it is finished
``items.*``, ``map.npz``   features of the items, where they are or what they say, their places on the map
``images.parquet``         images that were only in memory when the run was made
``.ltgcd.lock``            held by whoever writes; its name and how it works: ``common/files.py``
``features/``              what the backbone made of images or texts
``shared/``                what the machines of a cluster work on; gone when it is done
``updates/001`` …          what each update added
``review.db``              what people said about the labels: every event, kept for good
``states/000.parquet`` …   the labels that these events are about, as each fit or update left them
``fits/001`` …             the classifier and the estimate of each ``ltgcd refine``
``report.html``            the page
``predictions.parquet``    labels of other items, by ``ltgcd predict`` without --out
=========================  =============================================================================================
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

METRICS, PROTOTYPES = "metrics.jsonl", "prototypes.safetensors"
CHECKPOINTS, UPDATES, EMBEDDED, TENSORBOARD = "checkpoint", "updates", "features", "tensorboard"
SHARED = "shared"
STATES, FITS = "states", "fits"


class RunFiles(NamedTuple):
    """Where the files of a run are, whether they are there or not; `files_of` says which is which."""

    contents: Path
    config: Path
    labels: Path
    estimate: Path
    metrics: Path
    tensors: Path
    model: Path
    assignments: Path
    features: Path
    items: Path
    images: Path
    map: Path
    review: Path
    report: Path
    predictions: Path


def files_of(folder: Path) -> RunFiles:
    """The files of the run in a folder."""
    return RunFiles(
        contents=folder / "contents.json",
        config=folder / "config.toml",
        labels=folder / "split.parquet",
        estimate=folder / "k_estimate.json",
        metrics=folder / METRICS,
        tensors=folder / "model.safetensors",
        model=folder / "model.toml",
        assignments=folder / "assignments.parquet",
        features=folder / "items.npz",
        items=folder / "items.parquet",
        images=folder / "images.parquet",
        map=folder / "map.npz",
        review=folder / "review.db",
        report=folder / "report.html",
        predictions=folder / "predictions.parquet",
    )
