"""The table of assignments: a label, a name, a status and a confidence for every item. `ltgcd.run` writes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.common.files import with_metadata
from ltgcd.data.collection import UNLABELLED

ASSIGNMENT_COLUMNS = ("id", "label", "name", "status", "confidence")


def names_of_classes(k: int, class_names: tuple[str, ...], named: dict[int, str] | None = None) -> list[str]:
    """Names of `k` classes: those of the known ones, then ``novel-001`` and so on; a name that is taken is left out.

    A label that was read from an export may be called "novel-001", and is then a known class. Names stay what they are
    when classes are added: nobody gives a later class the name of an earlier one.

    Parameters
    ----------
    k : int
        Number of classes.
    class_names : tuple of str
        Names of the classes that were known in training, the first labels.
    named : dict, optional
        Names that people gave to later classes, by label.
    """
    named = named or {}
    names, taken, number = list(class_names[:k]), {*class_names, *named.values()}, 0
    for label in range(len(class_names), k):
        number += 1
        while label not in named and f"novel-{number:03d}" in taken:
            number += 1
        names.append(named.get(label) or f"novel-{number:03d}")
    return names


def class_name(label: int, class_names: tuple[str, ...]) -> str:
    """Name of a class: its own if it is known, else ``novel-001`` and so on."""
    return names_of_classes(label + 1, class_names)[label]


def core(labels: NDArray[np.int64], sure: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Label of each item that shows what its category is like, -1 for the others, shape (N,).

    These are the sure items; in a category without any, those that lean towards it.
    """
    empty = np.setdiff1d(labels, labels[sure])
    return np.where(sure | np.isin(labels, empty), labels, UNLABELLED).astype(np.int64)


def assignments_table(
    ids: pa.StringArray,
    labels: NDArray[np.int64],
    confidence: NDArray[np.float32],
    class_names: tuple[str, ...],
    k: int,
    unsure: NDArray[np.bool_] | None = None,
    note: dict[str, Any] | None = None,
    named: dict[int, str] | None = None,
) -> pa.Table:
    """A row for every item: id, label, name, status, confidence.

    Parameters
    ----------
    ids : pyarrow.StringArray, length N
        Ids of the items.
    labels : ndarray of int64, shape (N,)
        Class of each item; of an unsure one, the class that it leans to.
    confidence : ndarray of float32, shape (N,)
        Probability that the label is right.
    class_names : tuple of str
        Names of the classes that were known in training.
    k : int
        Number of classes, empty ones included; kept in the table's metadata.
    unsure : ndarray of bool, shape (N,), optional
        Items whose label is more likely wrong than right.
    note : dict, optional
        What else is kept in the metadata.
    named : dict, optional
        Names of classes that people named after training, by label: they are known, whatever their number.
    """
    named = named or {}
    names = names_of_classes(int(labels.max(initial=0)) + 1, class_names, named)
    status = np.where((labels < len(class_names)) | np.isin(labels, list(named)), "known", "novel")
    if unsure is not None:
        status = np.where(unsure, "unsure", status)
    table = pa.table(
        {
            "id": ids,
            "label": pa.array(labels, pa.int64()),
            "name": pa.array(names, pa.string()).take(pa.array(labels)),
            "status": pa.array(status),
            "confidence": pa.array(confidence, pa.float32()),
        }
    )
    return with_metadata(table, {"k": k, **(note or {})})
