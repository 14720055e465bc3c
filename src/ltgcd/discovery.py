"""The whole pipeline on one screen: how many classes, which class has each item, how good is it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.collection import Source
from ltgcd.errors import InputError
from ltgcd.estimate_k import ESTIMATORS, KEstimate
from ltgcd.evaluation import Evaluation, evaluate_assignments
from ltgcd.items import Vectors
from ltgcd.methods import METHODS
from ltgcd.runs import append_metrics, open_run, read_assignments, read_config, read_run_labels, write_assignments
from ltgcd.storage import read_metadata, write_json


def estimate_source(
    source: Source, method: str = "kmeans-balanced", random_state: int = 0, k_max: int | None = None
) -> KEstimate:
    """Estimate the number of classes of a source of embeddings."""
    collection = source.collection
    if method not in ESTIMATORS:
        raise InputError(f"There is no estimator '{method}'; choose one of {', '.join(ESTIMATORS)}.")
    collection.require_partial_labels()
    x = _vectors(source)
    return ESTIMATORS[method](x, collection.y, collection.n_old, k_max=k_max, random_state=random_state)


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
            write_json(folder / "k_estimate.json", describe(estimate, collection.n_old))
        progress(f"assigning every item ({method})")
        chosen = estimate.k if estimate else int(k or 0)
        result = METHODS[method](x, collection.y, collection.n_old, chosen, random_state)
        append_metrics(folder, {"method": method, "k": chosen, "seconds": time.perf_counter() - started})
        write_assignments(folder, collection, result.labels, result.confidence, chosen)
    scores = evaluate_run(folder).as_dict() if source.truth else {"acc": None, "balanced_acc": None}
    return {
        "method": method,
        "k": _k_of(folder),
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
    return evaluate_assignments(
        labels.truth, labelled_ids, table.column("id").combine_chunks(), predicted, k=_k_of(folder)
    )


def describe(estimate: KEstimate, n_old: int) -> dict[str, Any]:
    """An estimate as JSON."""
    return {
        "method": estimate.method,
        "k": estimate.k,
        "low": None,
        "high": None,
        "n_old": n_old,
        "seconds": round(estimate.seconds, 3),
        "curve": [list(point) for point in estimate.curve],
        "evidence": estimate.evidence,
    }


def _k_of(folder: Path) -> int:
    return int(read_metadata(read_assignments(folder).schema)["k"])


def _vectors(source: Source) -> NDArray[np.floating]:
    items = source.collection.items
    if not isinstance(items, Vectors):
        raise InputError(f"This needs embeddings, but the source holds {items.kind}s; run 'ltgcd embed' on it first.")
    return items.x
