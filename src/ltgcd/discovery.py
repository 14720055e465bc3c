"""The whole pipeline on one screen: how many classes, which class has each item, how good is it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.collection import Source
from ltgcd.errors import InputError
from ltgcd.estimate_k import LabelsFrom, estimate_k
from ltgcd.evaluation import Evaluation, evaluate_assignments
from ltgcd.items import Vectors
from ltgcd.methods import METHODS
from ltgcd.runs import append_metrics, open_run, read_assignments, read_config, read_run_labels, write_assignments
from ltgcd.storage import read_metadata, write_json


def estimate_source(
    source: Source,
    method: str = "peaks",
    random_state: int = 0,
    k_max: int | None = None,
    labels_from: str = "collection",
) -> dict[str, Any]:
    """Estimate the number of classes of a source of embeddings; the result is what ``k_estimate.json`` holds."""
    collection = source.collection
    collection.require_partial_labels()
    if labels_from not in get_args(LabelsFrom):
        raise InputError(f"Labels come from {' or '.join(get_args(LabelsFrom))}, not from '{labels_from}'.")
    estimate = estimate_k(
        _vectors(source),
        collection.y,
        method,
        n_old=collection.n_old,
        k_max=k_max,
        labels_from=cast(LabelsFrom, labels_from),
        random_state=random_state,
    )
    evidence = dict(estimate.evidence)
    if "peaks" in evidence:  # rows mean nothing outside; ids do
        evidence["peaks"] = collection.ids.take(np.array(evidence["peaks"], dtype=np.int64)).to_pylist()
    return {
        "method": estimate.method,
        "k": estimate.k,
        "low": estimate.low,
        "high": estimate.high,
        "n_old": collection.n_old,
        "seconds": round(estimate.seconds, 3),
        "curve": [list(point) for point in estimate.curve],
        "evidence": evidence,
    }


def train(
    source: Source,
    folder: Path,
    *,
    method: str = "kmeans",
    k: int | None = None,
    random_state: int = 0,
    progress: Callable[[str], None] = lambda _stage: None,
) -> dict[str, Any]:
    """Run a method on a source and leave a run directory.

    Parameters
    ----------
    source : Source
        What to run on; the method sees the collection, only the evaluation at the end sees the truth.
    folder : path
        Run directory. If it holds the same run, finished, that run is reported and nothing is computed.
    method : str
        A key of `ltgcd.methods.METHODS`.
    k : int, optional
        Number of classes; estimated if None.
    random_state : int
        Seed.
    progress : callable
        Told the name of each stage as it starts.
    """
    collection = source.collection
    if method not in METHODS:
        raise InputError(f"There is no method '{method}'; choose one of {', '.join(METHODS)}.")
    collection.require_partial_labels()
    if k is not None and not collection.n_old <= k <= len(collection):
        raise InputError(
            f"K = {k} is impossible: there are {collection.n_old} known classes and {len(collection)} items."
        )
    x = _vectors(source)
    started = time.perf_counter()
    open_run(folder, {"method": method, "k": "auto" if k is None else k, "random_state": random_state}, source)
    if not (folder / "assignments.parquet").is_file():
        estimate = None
        if k is None:
            progress("estimating the number of classes")
            estimate = estimate_source(source, random_state=random_state)
            write_json(folder / "k_estimate.json", estimate)
        progress(f"assigning every item ({method})")
        chosen = int(estimate["k"]) if estimate else int(k or 0)
        result = METHODS[method](x, collection.y, collection.n_old, chosen, random_state)
        append_metrics(folder, {"method": method, "k": chosen, "seconds": time.perf_counter() - started})
        write_assignments(folder, collection, result.labels, result.confidence, chosen)
    scorable = source.truth is not None and source.truth.tells_any(~collection.labelled)
    scores = evaluate_run(folder).as_dict() if scorable else {"acc": None, "balanced_acc": None}
    return {
        "method": method,
        "k": _k_of(read_assignments(folder)),
        "n_old": collection.n_old,
        **{key: scores[key] for key in ("acc", "balanced_acc")},
        "seconds": round(time.perf_counter() - started, 3),
        "run": str(folder),
    }


def evaluate_run(folder: Path) -> Evaluation:
    """Score a finished run on its unlabelled items."""
    read_config(folder)
    labels = read_run_labels(folder)
    if labels.truth is None:
        raise InputError(f"{folder} can't be evaluated: its source had no y_true.")
    table = read_assignments(folder)
    labelled_ids = labels.ids.filter(pa.array(labels.y >= 0))
    predicted = np.asarray(table.column("label").to_numpy(), dtype=np.int64)
    ids = table.column("id").combine_chunks()
    try:
        return evaluate_assignments(labels.truth, labelled_ids, ids, predicted, k=_k_of(table))
    except InputError as error:
        raise InputError(f"{folder}: {error}") from error


def _k_of(assignments: pa.Table) -> int | None:
    """Classes of the method, empty ones included; None where another tool rewrote the file and dropped it."""
    k = read_metadata(assignments.schema).get("k")
    return None if k is None else int(k)


def _vectors(source: Source) -> NDArray[np.floating]:
    items = source.collection.items
    if not isinstance(items, Vectors):
        raise InputError(f"This needs embeddings, but the source holds {items.kind}s; run 'ltgcd embed' on it first.")
    return items.x
