"""The report of a run directory: gather what it needs, and write the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import read_json, read_metadata
from ltgcd.data.collection import Collection, Source
from ltgcd.data.items import Vectors
from ltgcd.data.sources import read_source
from ltgcd.report.page import write_report
from ltgcd.report.pictures import Pictures
from ltgcd.run.directory import read_assignments, read_config, read_run_labels


def report_run(
    folder: Path,
    source: Path | None = None,
    features: Path | None = None,
    *,
    pictures: Pictures | None = None,
    progress: Callable[[str], None] = lambda _stage: None,
) -> dict[str, Any]:
    """Write ``report.html`` into a run directory.

    The calibration error is what the metadata of ``assignments.parquet`` say beside ``k``.

    Parameters
    ----------
    folder : path
        A finished run.
    source : path, optional
        Images or texts to show, or embeddings; the features serve where it is not given, and cards then show ids.
    features : path, optional
        What ``ltgcd embed`` wrote, or an ``.npz``; by default ``features`` in the run directory, or the source itself.
    pictures : callable, optional
        See `write_report`.
    progress : callable
        Told the name of each stage as it starts.
    """
    config, assignments = read_run(folder)
    # What the run keeps of its items, see `ltgcd.run.kept`; after an update no other place has all of them.
    if features is None and (folder / "items.npz").is_file():
        features = folder / "items.npz"
    if source is None and (folder / "items.parquet").is_file():
        source = folder / "items.parquet"
    if features is None and (folder / "features").is_dir():
        features = folder / "features"
    if source is None and features is None:
        raise InputError(
            "The report needs features; give --features (what 'ltgcd embed' wrote), or --source with an .npz."
        )
    progress("reading the run")
    shown = read_source(source if source is not None else features)  # type: ignore[arg-type]  # one of them is given
    n_old = read_metadata(assignments.schema).get("n_old")
    shown = Source(_with_run_labels(shown.collection, folder, n_old), None)
    vectors = shown.collection if features is None else read_source(features).collection
    items = vectors.items
    if not isinstance(items, Vectors):
        raise InputError(
            f"{source} holds {items.kind}s; give its features too, with --features (the --out of 'ltgcd embed')."
        )
    shown, x = _joined(shown, vectors, items)
    estimate = folder / "k_estimate.json"
    decided = config.get("run", {})
    path = write_report(
        folder,
        shown,
        x,
        assignments,
        k_estimate=read_json(estimate) if estimate.is_file() else None,
        calibration_error=read_metadata(assignments.schema).get("calibration_error"),
        pictures=pictures,
        seed=decided.get("random_state"),
        progress=progress,
    )
    return {"report": str(path), "n": len(assignments), "bytes": path.stat().st_size}


def read_run(folder: Path) -> tuple[dict[str, Any], Any]:
    """Configuration and assignments of a finished run, or one sentence about what it lacks."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a run directory; give the --out of a run.")
    return read_config(folder), read_assignments(folder)


def _with_run_labels(collection: Collection, folder: Path, n_old: int | None) -> Collection:
    """The labels that the run was given, whatever the source says now.

    Of `n_old` known classes the run was trained with; one that an update named has its number behind the novel ones.
    """
    if not (folder / "split.parquet").is_file():
        return collection
    labels = read_run_labels(folder)
    at = pc.index_in(collection.ids, labels.ids)
    where = np.asarray(at.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
    known = ~np.asarray(at.is_null().to_numpy(zero_copy_only=False))
    y = np.where(known, labels.y[where] if len(labels.y) else -1, -1)
    names = labels.class_names if n_old is None else labels.class_names[:n_old]
    # The page asks only who is labelled, not as what.
    return Collection(collection.ids, collection.items, np.minimum(y, len(names) - 1).astype(np.int64), names)


def _joined(shown: Source, vectors: Collection, items: Vectors) -> tuple[Source, NDArray[np.floating]]:
    """Items that have features, and these, in one order: an image that could not be read has none."""
    at = pc.index_in(shown.collection.ids, vectors.ids)
    have = np.flatnonzero(~np.asarray(at.is_null().to_numpy(zero_copy_only=False)))
    if not len(have):
        raise InputError("No item of the source has features; give the features that were made from this source.")
    rows = np.asarray(at.take(have).to_numpy(zero_copy_only=False), dtype=np.int64)
    return Source(shown.collection.select(have), None), items.x[rows]
