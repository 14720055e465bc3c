"""Score a finished run on its unlabelled items, where the truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata
from ltgcd.evaluation.metric import Evaluation, evaluate_assignments
from ltgcd.run.directory import Run
from ltgcd.run.items import Features
from ltgcd.run.same_content import features_of_run
from ltgcd.run.train import Notify, silent


def evaluate_run(run: Run, *, oracle: bool = False, base: Path | None = None, notify: Notify = silent) -> Evaluation:
    """Every figure of a finished run.

    Parameters
    ----------
    run : Run
        A finished run whose source told the truth.
    oracle : bool
        Whether also what the true class means would give on its features, as far as they are at hand.
    base : path, optional
        Embeddings of the run's items, for a run that does not keep them.
    notify : callable
        Told in a sentence if features that the run did keep are gone.
    """
    labels = run.labels()
    if labels.truth is None:
        raise InputError(f"{run} can't be evaluated: its source had no y_true.")
    table = run.assignments()
    labelled_ids = labels.ids.filter(pa.array(labels.y >= 0))
    predicted = np.asarray(table.column("label").to_numpy(), dtype=np.int64)
    ids = table.column("id").combine_chunks()
    x = None
    if oracle and (base is not None or run.features() is not None):
        x = Features(ids, features_of_run(run, table, base)).of(labels.truth.ids, run)
    elif oracle and run.contents.is_missing(run.files.features):
        notify(f"{run.files.features} is missing, so nothing is said of true class means; 'ltgcd check' tells more")
    try:
        return evaluate_assignments(labels.truth, labelled_ids, ids, predicted, k=class_count(table), x=x)
    except InputError as error:
        raise InputError(f"{run}: {error}") from error


def accuracies(run: Run) -> dict[str, Any]:
    """Accuracies of a finished run, each {all, old, new} in percent; None where no unlabelled item has a true class."""
    labels = run.labels()
    scorable = labels.truth is not None and labels.truth.tells_any(labels.y < 0)
    scores = evaluate_run(run).as_dict() if scorable else {}
    return {key: scores.get(key) for key in ("acc", "balanced_acc")}


def class_count(assignments: pa.Table) -> int | None:
    """Classes of the method, empty ones included; None where another tool rewrote the file and dropped it."""
    k = read_metadata(assignments.schema).get("k")
    return None if k is None else int(k)
