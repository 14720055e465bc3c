"""A sample that stands for a collection: a share of every stratum, and something of the smallest ones too."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Sample(NamedTuple):
    """Items (n,), ascending, that stand for a collection, and how many of its items each of them stands for (n,)."""

    rows: NDArray[np.int64]
    counts: NDArray[np.float64]


def stratified_sample(strata: NDArray[np.int64], limit: int, random_state: int, fewest: int) -> Sample:
    """Draw about `limit` items: the same share of every stratum (N,), but at least `fewest` of its items.

    A class of the tail then stays a class. What has been drawn more often counts for less.
    """
    n, sizes = len(strata), np.bincount(strata)
    least = np.minimum(sizes, fewest)
    low, high = 0.0, 1.0
    for _ in range(40):  # the share with which they are as many as they may be
        share = (low + high) / 2
        fits = np.maximum(least, np.ceil(share * sizes)).sum() <= limit
        low, high = (share, high) if fits else (low, share)
    taken = np.maximum(least, np.ceil(low * sizes)).astype(np.int64)
    shuffled = np.random.RandomState(random_state).permutation(n)
    shuffled = shuffled[np.argsort(strata[shuffled], kind="stable")]
    rank = np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows = np.sort(shuffled[rank < taken[strata[shuffled]]])
    return Sample(rows, (sizes / np.maximum(taken, 1))[strata[rows]])
