"""Clusters matched to classes one to one: the Hungarian that evaluation and the search for K share."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

Matching = Literal["instance", "balanced"]


def confusion(classes: NDArray[np.int64], clusters: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts w[t, p] over the classes and clusters that occur: (true classes, clusters), both in ascending order."""
    _, t = np.unique(classes, return_inverse=True)
    _, p = np.unique(clusters, return_inverse=True)
    n_p = int(p.max()) + 1
    flat = np.bincount(t.astype(np.int64) * n_p + p, minlength=(int(t.max()) + 1) * n_p)
    return flat.reshape(-1, n_p).astype(np.int64, copy=False)


def match(w: NDArray[np.int64], matching: Matching = "instance") -> NDArray[np.int64]:
    """Items of each true class that lie in the cluster matched to it, shape (true classes,); 0 for an unmatched class.

    ``instance`` maximises the number of matched items; of several such matchings it takes one with the greatest mean
    recall, so that the balanced figures don't hang on the numbering of the clusters. ``balanced`` maximises the mean
    recall itself.
    """
    n_t = w.sum(axis=1, keepdims=True)
    gain = w / n_t
    if matching == "instance":
        # Recalls sum to at most C, so the second term stays below one item: it only ever breaks ties.
        gain *= 1.0 / (len(w) + 1)
        gain += w
    np.negative(gain, out=gain)  # in place: SciPy's own `maximize` would copy the matrix
    matched = np.zeros(len(w), dtype=np.int64)
    # Fewer columns than rows makes SciPy transpose by a copy of its own; the result is the same.
    rows, columns = linear_sum_assignment(gain)
    matched[rows] = w[rows, columns]
    return matched
