"""After training: average with neighbours, and adjust for the class prior (docs/methods.md §10.4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.numerics import softmax
from ltgcd.common.tables import Kept, Rows, RowTable, Table, TopClasses, blocks, keep_most_likely
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.knn import NeighbourGraph

STEP = 0.5  # share of an item's probabilities that comes from its neighbours in a round of smoothing
LEAST = 1e-9  # smallest prior that is divided by
LEAST_WEIGHT = 1e-6  # of a neighbour, so that one whose neighbours all look away still has a mean of them


def class_prior(p: Table, rows: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """Mean prediction (K,) over the items of a table (N, K), or over some of them (n,); uniform over none."""
    n, k = p.shape[0] if rows is None else len(rows), p.shape[1]
    if not n:
        return np.full(k, 1 / k)
    total = np.zeros(k)
    for _, block in blocks(p, rows):
        # Row after row, as one sum over all of them would go: the number of blocks changes no bit.
        total = np.add.reduce(np.concatenate([total[None], block.astype(np.float64)]), axis=0)
    return total / n


def adjusted(p: NDArray[np.floating], prior: NDArray[np.floating], strength: float) -> NDArray[np.float32]:
    """Logit adjustment: p ∝ p / prior^strength, rows (n, K) that sum to 1. The head loses what the tail gains."""
    if not strength:
        return np.asarray(p, dtype=np.float32)
    with np.errstate(divide="ignore"):  # what is impossible stays so, also for a class with no prior
        return softmax(np.log(p) - strength * np.log(np.maximum(prior, LEAST)))


def smoothed(p: Table, graph: NeighbourGraph, y: NDArray[np.int64], rounds: int, k: int = 10) -> RowTable:
    """Average probabilities with those of the k nearest neighbours, some rounds; labelled neighbours are clamped.

    p_i ← (1 − s) p_i + s Σ_j a_ij p_j / Σ_j a_ij with s = `STEP`, a_ij the positive part of the cosine and p_j one-hot
    for a labelled j. The own p_i of a labelled i is not clamped: it says what the model and the neighbours think of it.

    An item's own probabilities are computed anew whenever they are asked for. What its neighbours see of it is kept:
    all of its classes in a small table, else the most likely ones (`ltgcd.common.tables.keep_most_likely`).

    Parameters
    ----------
    p : array or RowTable of float32, shape (N, K)
        Class probabilities; rows sum to 1.
    graph : NeighbourGraph
        At least `k` neighbours an item.
    y : ndarray of int64, shape (N,)
        Labels, -1 for unlabelled.
    rounds : int
        How often.
    k : int
        Neighbours to take.
    """
    n, n_classes = p.shape
    graph = graph.first(k)
    weights = np.maximum(graph.similarities, 0) + np.float32(LEAST_WEIGHT)
    weights /= weights.sum(axis=1, keepdims=True)
    seen: list[Kept] = []  # in each round, what neighbours see

    def compute(rows: Rows) -> NDArray[np.float32]:
        own = p[rows]
        for kept in seen:
            own = (1 - STEP) * own + STEP * _mean_of_neighbours(kept, graph.indices[rows], weights[rows], n_classes)
        return own

    table = RowTable((n, n_classes), compute)
    for _ in range(rounds if graph.k else 0):  # a single item has no neighbours
        seen.append(_clamped(keep_most_likely(table), y))
    return table


def _mean_of_neighbours(
    seen: Kept, neighbours: NDArray[np.int64], weights: NDArray[np.float32], n_classes: int
) -> NDArray[np.float32]:
    """Weighted mean (B, K) of what the neighbours (B, k) of some items are seen as."""
    if isinstance(seen, TopClasses):
        return seen.weighted_sum(neighbours, weights)
    near = np.zeros((len(neighbours), n_classes), dtype=np.float32)
    # A neighbour at a time: gathering all of them at once would take k times the memory.
    for column, weight in zip(neighbours.T, weights.T, strict=True):
        near += weight[:, None] * seen[column]
    return near


def _clamped(seen: Kept, y: NDArray[np.int64]) -> Kept:
    """Probabilities with those of labelled items one-hot, in place."""
    labelled = np.flatnonzero(y != UNLABELLED)
    if isinstance(seen, TopClasses):
        last = seen.p.shape[1] - 1
        seen.classes[labelled] = np.arange(last + 1)
        seen.classes[labelled, last] = np.maximum(y[labelled], last)
        seen.p[labelled], seen.other[labelled] = 0, 0
        seen.p[labelled, np.minimum(y[labelled], last)] = 1
    else:
        seen[labelled] = 0
        seen[labelled, y[labelled]] = 1
    return seen
