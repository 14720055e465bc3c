"""After training: average with neighbours, and adjust for the class prior (docs/methods.md §10.4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.numerics import softmax
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.knn import NeighbourGraph

STEP = 0.5  # share of an item's probabilities that comes from its neighbours in a round of smoothing
LEAST = 1e-9  # smallest prior that is divided by
LEAST_WEIGHT = 1e-6  # of a neighbour, so that one whose neighbours all look away still has a mean of them


def class_prior(p: NDArray[np.floating]) -> NDArray[np.float64]:
    """Mean prediction (K,) over some items (n, K); uniform over none."""
    if not len(p):
        return np.full(p.shape[1], 1 / p.shape[1])
    return np.asarray(p.mean(axis=0, dtype=np.float64))


def adjusted(p: NDArray[np.floating], prior: NDArray[np.floating], strength: float) -> NDArray[np.float32]:
    """Logit adjustment: p ∝ p / prior^strength, rows (n, K) that sum to 1. The head loses what the tail gains."""
    if not strength:
        return np.asarray(p, dtype=np.float32)
    with np.errstate(divide="ignore"):  # what is impossible stays so, also for a class with no prior
        return softmax(np.log(p) - strength * np.log(np.maximum(prior, LEAST)))


def smoothed(
    p: NDArray[np.float32], graph: NeighbourGraph, y: NDArray[np.int64], rounds: int, k: int = 10
) -> NDArray[np.float32]:
    """Average probabilities with those of the k nearest neighbours, some rounds; labelled neighbours are clamped.

    p_i ← (1 − s) p_i + s Σ_j a_ij p_j / Σ_j a_ij with s = `STEP`, a_ij the positive part of the cosine and p_j one-hot
    for a labelled j. The own p_i of a labelled i is not clamped: it says what the model and the neighbours think of it.

    Parameters
    ----------
    p : ndarray of float32, shape (N, K)
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
    graph = graph.first(k)
    if graph.k == 0:  # a single item
        return p
    weights = np.maximum(graph.similarities, 0) + np.float32(LEAST_WEIGHT)
    weights /= weights.sum(axis=1, keepdims=True)
    labelled = np.flatnonzero(y != UNLABELLED)
    for _ in range(rounds):
        seen = p.copy()
        seen[labelled] = 0
        seen[labelled, y[labelled]] = 1
        # A neighbour at a time: gathering all of them at once would take k times the memory of p.
        near = np.zeros_like(p)
        for column in range(graph.k):
            near += weights[:, column, None] * seen[graph.indices[:, column]]
        p = (1 - STEP) * p + STEP * near
    return p
