"""What a person wants to know of each class and category: size, confidence, coherence, neighbours, a first name.

Unsure items lean towards a category but are in none: sizes, centres and means are those of the sure items. Only a
category that has none of these is described, not counted, by what leans towards it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.data.collection import Collection
from ltgcd.report.assigned import NOVEL, Assigned, align
from ltgcd.report.geometry import Geometry, directions, geometry, nearest_known, similarity
from ltgcd.report.layout import tail_sample
from ltgcd.report.terms import top_terms

TEXTS = 50_000  # texts that terms are taken from


class Neighbour(NamedTuple):
    """A known class beside a category, with the cosine of the two centres."""

    code: int
    name: str
    cosine: float


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
        How much nearer the items are to their own centre than to the next one (a simplified silhouette by cosine, in
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
    collection: Collection, features: NDArray[np.floating], assignments: pa.Table
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
    """
    assigned, z = assigned_directions(collection, features, assignments)
    return describe(collection, assigned, geometry(z, assigned))


def assigned_directions(
    collection: Collection, features: NDArray[np.floating], assignments: pa.Table
) -> tuple[Assigned, NDArray[np.float32]]:
    """The M items that have an assignment, and their directions (M, D); refuses what can't be described."""
    if len(features) != len(collection):
        raise InputError(f"The report needs features for all {len(collection)} items, but got {len(features)} rows.")
    assigned = align(collection, assignments)
    if not len(assigned.rows):
        raise InputError("No item has an assignment, so there is nothing to report; finish the run first.")
    return assigned, directions(np.asarray(features)[assigned.rows])


def describe(collection: Collection, assigned: Assigned, shape: Geometry) -> list[Category]:
    """As `describe_categories`, of items that are brought into order already."""
    n, members = len(assigned.labels), assigned.members
    sure = members >= 0
    sizes = np.bincount(members[sure], minlength=n)
    leaning = np.bincount(assigned.category[~sure], minlength=n)
    of_sure = np.bincount(members[sure], weights=assigned.confidence[sure], minlength=n)
    of_unsure = np.bincount(assigned.category[~sure], weights=assigned.confidence[~sure], minlength=n)
    confidence = np.where(sizes > 0, of_sure / np.maximum(sizes, 1), of_unsure / np.maximum(leaning, 1))
    labelled = np.bincount(assigned.category[collection.labelled[assigned.rows]], minlength=n)
    terms = _terms(collection, assigned)
    found = []
    for c, near in enumerate(nearest_known(assigned, shape.similarity)):
        code, novel = int(assigned.labels[c]), bool(assigned.kinds[c] == NOVEL)
        nearest = tuple(Neighbour(int(assigned.labels[other]), assigned.names[other], cosine) for other, cosine in near)
        found.append(
            Category(
                code=code,
                name=assigned.names[c],
                status="novel" if novel else "known",
                size=int(sizes[c]),
                leaning=int(leaning[c]),
                labelled=int(labelled[c]),
                confidence=float(confidence[c]),
                coherence=None if np.isnan(shape.coherence[c]) else float(shape.coherence[c]),
                nearest_known=nearest,
                terms=terms[c],
                suggested_name=suggested_name(terms[c], nearest) if novel else "",
            )
        )
    return found


def suggested_names(collection: Collection, features: NDArray[np.floating], assignments: pa.Table) -> dict[int, str]:
    """A name to start from for each novel category that has one, by code: as `describe_categories` finds them."""
    assigned, z = assigned_directions(collection, features, assignments)
    if not (assigned.kinds == NOVEL).any():
        return {}
    near, terms, found = nearest_known(assigned, similarity(z, assigned)), _terms(collection, assigned), {}
    for c in np.flatnonzero(assigned.kinds == NOVEL).tolist():
        nearest = tuple(Neighbour(int(assigned.labels[o]), assigned.names[o], cosine) for o, cosine in near[c])
        found[int(assigned.labels[c])] = suggested_name(terms[c], nearest)
    return {code: name for code, name in found.items() if name}


def suggested_name(terms: tuple[str, ...], nearest: tuple[Neighbour, ...]) -> str:
    """A name to start from: the first terms where there are texts, else the nearest known classes."""
    if terms:
        return " · ".join(terms[:3])
    return "near " + ", ".join(other.name for other in nearest[:2]) if nearest else ""


def _terms(collection: Collection, assigned: Assigned) -> list[tuple[str, ...]]:
    """The terms of each category, none where the items are no texts."""
    if collection.items.kind != "text":
        return [()] * len(assigned.labels)
    rows = tail_sample(assigned.category, TEXTS)
    texts = [str(text) for text in collection.items.take(assigned.rows[rows])]
    return [tuple(terms) for terms in top_terms(texts, assigned.core[rows], len(assigned.labels))]
