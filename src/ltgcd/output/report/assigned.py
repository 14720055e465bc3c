"""Assignments brought into the order of the items that they are about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata
from ltgcd.data.collection import UNLABELLED, Collection, positions
from ltgcd.discovery.classes import classes_of

STATUSES = ("known", "novel", "unsure")
KNOWN, NOVEL, UNSURE = range(3)


@dataclass(frozen=True, eq=False)
class Assigned:
    """The items of a collection that got a label, in the collection's order.

    Attributes
    ----------
    rows : ndarray of int64, shape (M,)
        Rows of the collection.
    category : ndarray of int64, shape (M,)
        Position of the item's category in `labels`; for an unsure item the one that it leans towards.
    status : ndarray of int64, shape (M,)
        0 known, 1 novel, 2 unsure.
    confidence : ndarray of float32, shape (M,)
        In [0, 1].
    labels : ndarray of int64, shape (C,)
        The labels that occur, ascending.
    names : tuple of str
        Names of these categories.
    kinds : ndarray of int64, shape (C,)
        0 for a known class, 1 for a novel category.
    given : ndarray of bool, shape (M,)
        Items that a person has confirmed or moved in a review.
    """

    rows: NDArray[np.int64]
    category: NDArray[np.int64]
    status: NDArray[np.int64]
    confidence: NDArray[np.float32]
    labels: NDArray[np.int64]
    names: tuple[str, ...]
    kinds: NDArray[np.int64]
    given: NDArray[np.bool_]

    @property
    def members(self) -> NDArray[np.int64]:
        """Category of each sure item, -1 for an unsure one, shape (M,)."""
        return np.where(self.status == UNSURE, UNLABELLED, self.category).astype(np.int64)


def align(collection: Collection, assignments: pa.Table) -> Assigned:
    """Bring assignments (id, label, name, status, confidence) into the order of the collection's items.

    What people have called junk is left out.
    """
    note = read_metadata(assignments.schema)
    assignments = assignments.filter(pc.not_equal(assignments.column("status"), "junk"))
    ids = assignments.column("id").combine_chunks()
    rows = positions(ids, collection.ids, "the source", "give the source that the run was made from")
    order = np.argsort(rows, kind="stable")
    status = pc.index_in(assignments.column("status").combine_chunks().cast(pa.string()), pa.array(STATUSES))
    if status.null_count:
        raise InputError("Assignments have a status that is not known, novel, unsure or junk; make the run again.")
    codes = np.asarray(status.to_numpy(zero_copy_only=False), dtype=np.int64)[order]
    label = np.asarray(assignments.column("label").to_numpy(), dtype=np.int64)[order]
    confidence = np.asarray(assignments.column("confidence").to_numpy(), dtype=np.float32)[order]
    given = np.zeros(len(order), dtype=np.bool_)
    if "given" in assignments.column_names:
        given = np.asarray(pc.fill_null(assignments.column("given"), False), dtype=np.bool_)[order]
    labels, category = np.unique(label, return_inverse=True)
    if labels.min(initial=0) < 0:
        raise InputError("Assignments have a label below 0, which no class has; make the run again.")
    # Another tool may have dropped the note, and a file of predictions need not have one.
    classes = classes_of({"k": int(labels.max(initial=0)) + 1, **note}, collection.class_names)
    place = np.searchsorted(classes.codes, labels)
    kinds = np.where(np.array(classes.known)[place], KNOWN, NOVEL).astype(np.int64)
    names = [classes.names[at] for at in place]
    # The name of a category is that of any sure member; an unsure item's own may be that of the bin.
    sure = np.flatnonzero(codes != UNSURE)
    first, at = np.unique(category[sure], return_index=True)
    kinds[first] = codes[sure[at]]
    called = assignments.column("name").take(pa.array(order[sure[at]])).to_pylist()
    for where, name in zip(first.tolist(), called, strict=True):
        names[where] = name or names[where]
    return Assigned(
        rows[order],
        category.astype(np.int64),
        codes,
        np.clip(np.nan_to_num(confidence), 0.0, 1.0),
        labels,
        tuple(names),
        kinds,
        given,
    )
