"""How items lie to one another and to the centres of their categories: arrays in, arrays out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.whitening import class_means, normalise
from ltgcd.report.assigned import KNOWN, Assigned

ROWS = 4096  # rows of a block
NEAREST = 3  # known classes beside a category


def directions(features: NDArray[np.floating]) -> NDArray[np.float32]:
    """Features (M, D) seen from their mean, at unit length: embeddings often share a large part that says nothing."""
    x = np.asarray(features, dtype=np.float32)
    if not np.isfinite(x).all():
        raise InputError("The features hold NaN or infinite values; embed these items again.")
    return normalise(x - x.mean(axis=0, dtype=np.float64).astype(np.float32))


@dataclass(frozen=True, eq=False)
class Geometry:
    """How items lie to the categories' centres.

    Attributes
    ----------
    closeness : ndarray of float32, shape (M,)
        Cosine of each item to the centre of its category, the item itself left out of the centre.
    coherence : ndarray of float64, shape (C,)
        Mean simplified silhouette of the core items, in [-1, 1]; NaN for fewer than two, or without another category.
    similarity : ndarray of float32, shape (C, C)
        Cosines of the centres.
    """

    closeness: NDArray[np.float32]
    coherence: NDArray[np.float64]
    similarity: NDArray[np.float32]


def geometry(z: NDArray[np.float32], assigned: Assigned) -> Geometry:
    """Lay the items (M, D) against the centres of the categories.

    The silhouette of an item is s = (b − a) / max(a, b), with a and b its cosine distances to the centre of its own
    category and to the nearest other one.
    """
    members, n = assigned.core, len(assigned.labels)
    means, counts = class_means(z, members, n)
    sums, centres = means * counts[:, None], normalise(means)
    inside, own = members != UNLABELLED, assigned.category
    dot = np.einsum("nd,nd->n", z, sums[own])
    length = np.einsum("nd,nd->n", z, z)
    squared = np.einsum("cd,cd->c", sums, sums)[own]
    # A member is taken out of the sum that its own centre is made of: |S − z|² = |S|² − 2 z·S + |z|².
    rest = np.where(inside, squared - 2 * dot + length, squared)
    closeness = np.where(inside, dot - length, dot) / np.sqrt(np.maximum(rest, 1e-12))
    closeness = np.clip(closeness, -1, 1).astype(np.float32)
    other = np.full(len(z), -1.0, dtype=np.float32)
    filled = counts > 0
    for start in range(0, len(z), ROWS):
        cosines = z[start : start + ROWS] @ centres.T
        cosines[:, ~filled] = -1.0
        cosines[np.arange(len(cosines)), own[start : start + ROWS]] = -1.0
        other[start : start + ROWS] = cosines.max(axis=1)
    a, b = 1.0 - closeness, 1.0 - other
    silhouette = (b - a) / np.maximum(np.maximum(a, b), 1e-12)
    total = np.bincount(own[inside], weights=silhouette[inside], minlength=n)
    with np.errstate(invalid="ignore", divide="ignore"):
        coherence = np.where((counts > 1) & (filled.sum() > 1), total / counts, np.nan)
    return Geometry(closeness, coherence, centres @ centres.T)


def similarity(z: NDArray[np.float32], assigned: Assigned) -> NDArray[np.float32]:
    """Cosines (C, C) of the centres alone, as `geometry` has them."""
    centres = normalise(class_means(z, assigned.core, len(assigned.labels))[0])
    return np.asarray(centres @ centres.T)


def nearest_known(assigned: Assigned, cosines_of_centres: NDArray[np.float32]) -> list[list[tuple[int, float]]]:
    """The `NEAREST` known classes of each category, itself excluded, with the cosine of the centres."""
    core = assigned.core
    sizes = np.bincount(core[core >= 0], minlength=len(assigned.labels))
    eligible = np.flatnonzero((assigned.kinds == KNOWN) & (sizes > 0))
    cosines = cosines_of_centres[:, eligible].copy()
    cosines[eligible, np.arange(len(eligible))] = -2.0  # not itself
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :NEAREST]
    return [
        [(int(eligible[j]), round(float(row[j]), 3)) for j in columns if row[j] > -2.0] if size else []
        for row, columns, size in zip(cosines, best, sizes, strict=True)
    ]
