"""What a person wants to know of each class and category: size, confidence, coherence, neighbours, a first name.

Unsure items lean towards a category but are in none: sizes, centres and means are those of the sure items. Only a
category that has none of these is described, not counted, by what leans towards it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.data.collection import Collection
from ltgcd.data.items import Items
from ltgcd.discovery.classes import JUNK
from ltgcd.output.report.assigned import KNOWN, Assigned, align
from ltgcd.output.report.class_figures import ClassFigures, Neighbour
from ltgcd.output.report.geometry import whitened_features
from ltgcd.output.report.layout import tail_sample
from ltgcd.output.report.tally import columns_of
from ltgcd.output.report.terms import Vocabulary

TEXTS = 50_000  # texts that terms are taken from


@dataclass(frozen=True)
class Category:
    """A known class or a novel category.

    Attributes
    ----------
    code : int
        Its number in the assignments.
    name : str
        What it is called: the name of a known class, or ``novel-001`` and so on.
    status : {"known", "novel"}
        Whether people labelled some of it.
    size : int
        Sure items, labelled ones included.
    leaning : int
        Unsure items that lean towards it; they are not part of `size`.
    labelled : int
        Items that people labelled.
    confidence : float
        Mean confidence of the sure items; if there is none, of those that lean towards it.
    coherence : float or None
        How much nearer the items are to their own centre than to the next one (a silhouette of the whole by cosine, in
        [-1, 1]); None for a single item, or where there is no other category.
    nearest_known : tuple of Neighbour
        The most similar known classes, the nearest first; itself left out.
    terms : tuple of str
        Words that tell it from the others; empty unless the items are texts.
    suggested_name : str
        A name to start from; empty for a known class.
    """

    code: int
    name: str
    status: Literal["known", "novel"]
    size: int
    leaning: int
    labelled: int
    confidence: float
    coherence: float | None
    nearest_known: tuple[Neighbour, ...]
    terms: tuple[str, ...]
    suggested_name: str


def describe_categories(
    collection: Collection,
    features: NDArray[np.floating],
    assignments: pa.Table,
    y: NDArray[np.int64] | None = None,
) -> list[Category]:
    """Describe every class and category that some item was assigned to, by code.

    Parameters
    ----------
    collection : Collection
        The items, with the labels that were given. Texts give names by their words, others by the nearest classes.
    features : ndarray, shape (N, D)
        Features of the items, in the collection's order.
    assignments : pyarrow.Table
        ``id, label, name, status, confidence``, in any order; items without an assignment are left out.
    y : ndarray of int64, shape (N,), optional
        All labels of the source, -1 for none, where the collection knows only those of the fit.
    """
    assigned, figures = assigned_figures(collection, features, assignments, y)
    return [_category(figures, int(code)) for code in assigned.labels]


def _category(figures: ClassFigures, code: int) -> Category:
    return Category(
        code=code,
        name=figures.names[code],
        status="known" if figures.known[code] else "novel",
        size=int(figures.sizes[code]),
        leaning=int(figures.leaning[code]),
        labelled=int(figures.labelled_items[code]),
        confidence=float(figures.confidence[code]),
        coherence=figures.coherence_of(code),
        nearest_known=figures.nearest(code),
        terms=figures.terms(code),
        suggested_name=figures.suggested(code),
    )


def assigned_figures(
    collection: Collection,
    features: NDArray[np.floating],
    assignments: pa.Table,
    y: NDArray[np.int64] | None = None,
) -> tuple[Assigned, ClassFigures]:
    """The M items that have an assignment, and the figures of their classes; refuses what can't be described."""
    n = len(collection)
    if len(features) != n:
        raise InputError(f"The report needs features for all {n} items, but got {len(features)} rows.")
    assigned = align(collection, assignments)
    if not len(assigned.rows):
        raise InputError("No item has an assignment, so there is nothing to report; finish the run first.")
    y = collection.y if y is None else y
    # Items without an assignment are, like junk, in no class; their features and labels count all the same.
    code, status = np.zeros(n, dtype=np.int64), np.full(n, JUNK, dtype=np.uint8)
    confidence, given = np.zeros(n, dtype=np.float32), np.zeros(n, dtype=np.bool_)
    rows = assigned.rows
    code[rows], status[rows] = assigned.labels[assigned.category], assigned.status
    confidence[rows], given[rows] = assigned.confidence, assigned.given
    known = np.zeros(int(assigned.labels.max()) + 1, dtype=np.bool_)
    known[assigned.labels] = assigned.kinds == KNOWN
    figures = ClassFigures(whitened_features(features, y), y)
    names = dict(zip(assigned.labels.tolist(), assigned.names, strict=True))
    figures.describe(columns_of(code, status, confidence, given, figures.labelled), names, known)
    if collection.items.kind == "text":
        figures.set_vocabulary(*vocabulary(collection.items, code, status != JUNK))
    return assigned, figures


def vocabulary(
    texts: Items, code: NDArray[np.int64], is_in_class: NDArray[np.bool_]
) -> tuple[Vocabulary, NDArray[np.int64]]:
    """Words of texts and the rows that were read: of many a sample that keeps the tail of the classes (N,), no junk."""
    inside = np.flatnonzero(is_in_class)
    rows = inside[tail_sample(np.unique(code[inside], return_inverse=True)[1].astype(np.int64), TEXTS)]
    return Vocabulary([str(text) for text in texts.take(rows)]), rows


def suggested_names(
    collection: Collection,
    features: NDArray[np.floating],
    assignments: pa.Table,
    y: NDArray[np.int64] | None = None,
) -> dict[int, str]:
    """A name to start from for each novel category that has one, by code: as `describe_categories` finds them."""
    assigned, figures = assigned_figures(collection, features, assignments, y)
    found = {int(code): figures.suggested(int(code)) for code in assigned.labels[assigned.kinds != KNOWN]}
    return {code: name for code, name in found.items() if name}
