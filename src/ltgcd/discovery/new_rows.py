"""Which of some rows a fitted collection has already: `CategoryDiscovery.update` asks it, as ``ltgcd update`` does."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltgcd.data.collection import UNLABELLED
from ltgcd.data.content_ids import content_digests, content_ids
from ltgcd.data.identity import compare_items
from ltgcd.data.items import Vectors
from ltgcd.data.row_ids import as_text
from ltgcd.discovery.fitted_collection import FittedCollection


class NewRows(NamedTuple):
    """Rows that a collection does not have yet.

    Attributes
    ----------
    rows : ndarray of int64, shape (m,)
        Which of those that were given.
    ids : list or None
        Ids of all items of the collection and then of these rows; None where all are numbers of rows.
    notes : list of str
        What a person should know of the others.
    """

    rows: NDArray[np.int64]
    ids: list[Any] | None
    notes: list[str]


def new_rows(
    held: FittedCollection, x: NDArray[np.float32], ids: list[Any] | None, labels: tuple[NDArray[np.int64], list[Any]]
) -> NewRows:
    """Tell rows that a collection has already from those that it has not.

    A row is its id and its content, or its content alone where neither it nor the collection has ids.

    Parameters
    ----------
    held : FittedCollection
        N items.
    x : ndarray of float32, shape (M, D)
        Vectors.
    ids : list, optional
        Ids of the rows, where they have any of their own.
    labels : tuple
        What people say of the rows, as `ltgcd.discovery.fitted_collection.add_items` takes it.
    """
    given, there = Vectors(x), Vectors(held.x)
    are_counted = ids is None and held.ids is None
    own = list(range(len(held.x))) if held.ids is None else held.ids
    names = content_ids(given) if ids is None else as_text(ids)
    of_held = content_ids(there) if are_counted else as_text(own)
    found = compare_items(names, content_digests(given), of_held, content_digests(there))
    rows = np.flatnonzero(found.is_new)
    # Under the names that have nothing to do with content, a renamed one is text; the others are what they were.
    called = [
        new if ids is None or new != name else ids[row]
        for row, (name, new) in enumerate(zip(names.to_pylist(), found.ids.to_pylist(), strict=True))
    ]
    notes = found.sentences("the collection")
    if n := len(x) - len(rows):
        notes.append(f"{n} of {len(x)} rows were there already and are left as they are.")
        if m := _labels_without_effect(held, ~found.is_new, of_held.to_pylist(), found.ids.to_pylist(), labels):
            notes.append(
                f"{m} labels of rows that were there already have no effect; say them with refine({{id: label}})."
            )
    return NewRows(rows, None if are_counted else [*own, *(called[row] for row in rows)], notes)


def _labels_without_effect(
    held: FittedCollection,
    is_there: NDArray[np.bool_],
    ids: list[str],
    found: list[str],
    labels: tuple[NDArray[np.int64], list[Any]],
) -> int:
    """How many labels of rows that are there already are not the ones that people gave these before."""
    codes, classes = labels
    place = {name: row for row, name in enumerate(ids)}
    told = [(place[found[row]], classes[codes[row]]) for row in np.flatnonzero(is_there & (codes != UNLABELLED))]
    return sum(held.given[at] == UNLABELLED or held.classes[held.given[at]] != label for at, label in told)
