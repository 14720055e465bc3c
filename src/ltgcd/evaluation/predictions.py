"""Score a file of predictions that any tool wrote: against a source by id, or against its own column of truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ltgcd.common.errors import InputError
from ltgcd.data.collection import Truth, check_unique
from ltgcd.data.items import Vectors
from ltgcd.data.labels import codes_of, is_number, label_names, read_csv, sorted_names, stored_labels, strings
from ltgcd.data.parquet import read_parquet
from ltgcd.data.sources import encode_labels, read_source
from ltgcd.evaluation.metric import Evaluation, evaluate_assignments


def evaluate_predictions(path: Path, truth: Path | None = None, n_old: int | None = None) -> Evaluation:
    """Score the column ``label`` of a CSV or parquet file.

    Parameters
    ----------
    path : path
        Columns ``id, label``, and where `truth` is not given also ``y_true`` and optionally ``y``.
    truth : path, optional
        A source with y_true. Its labelled items are not scored.
    n_old : int, optional
        Without `truth` and without a column ``y``: integer true classes below this are Old.
    """
    table = _read(path)
    columns = set(table.column_names)
    if "label" not in columns:
        raise InputError(f"{path} has no column 'label' (the prediction); its columns are {table.column_names}.")
    ids = strings(table.column("id"), "id", path) if "id" in columns else None
    if ids is not None:
        check_unique(ids, path)
    predicted = stored_labels(table, "label", path)
    assert predicted is not None
    if truth is not None:
        if ids is None:
            raise InputError(f"{path} has no column 'id' to join it with {truth}; add one.")
        source = read_source(truth)
        if source.truth is None:
            raise InputError(f"{truth} tells no true classes (y_true), so nothing can be scored against it.")
        collection = source.collection
        coded, labelled_ids = source.truth, collection.ids.filter(pa.array(collection.labelled))
        x = collection.items.x if isinstance(collection.items, Vectors) else None
    else:
        ids = ids if ids is not None else pa.array(np.arange(len(table))).cast(pa.string())
        coded, labelled_ids = _own_truth(path, table, ids, n_old)
        x = None
    labels = codes_of(predicted, sorted_names(predicted))
    scored = pc.and_(pc.is_in(ids, coded.ids), pc.invert(pc.is_in(ids, labelled_ids)))
    absent = np.asarray(scored) & (labels < 0)
    if absent.any():
        raise InputError(f"{path} has {absent.sum()} rows without a label; give every unlabelled item a prediction.")
    try:
        return evaluate_assignments(coded, labelled_ids, ids, labels, x=x)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _own_truth(path: Path, table: pa.Table, ids: pa.StringArray, n_old: int | None) -> tuple[Truth, pa.StringArray]:
    """Truth from the file's own columns: ``y_true``, and ``y`` or `n_old` to tell Old from New."""
    if "y_true" not in table.column_names:
        raise InputError(f"{path} has no column 'y_true'; add one, or give the true classes with --truth SOURCE.")
    true = label_names(table.column("y_true"), path)
    if "y" in table.column_names:
        given = label_names(table.column("y"), path)
        _, y, coded = encode_labels(ids, given, true, None)
        labelled_ids = ids.filter(pa.array(y >= 0))
    elif n_old is not None:
        names = sorted_names(true)
        if not all(is_number(name) for name in names):
            raise InputError(f"{path} has true classes that are not integers; give a column 'y' instead of --n-old.")
        if n_old < 0:
            raise InputError(f"The number of old classes is {n_old}; give 0 or more with --n-old.")
        known = [name for name in names if int(name) < n_old]
        _, _, coded = encode_labels(ids, pa.nulls(len(ids), pa.string()), true, known)
        labelled_ids = pa.array([], pa.string())
    else:
        raise InputError(
            f"{path} does not tell which classes are old; add a column 'y' with the labels that were given, use "
            "--n-old, or --truth SOURCE."
        )
    assert coded is not None
    return coded, labelled_ids


def _read(path: Path) -> pa.Table:
    if not path.is_file():
        raise InputError(f"{path} is not there; give a run directory or a .csv or .parquet file of predictions.")
    return read_parquet(path) if path.suffix.lower() == ".parquet" else read_csv(path)
