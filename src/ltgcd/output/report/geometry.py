"""The two spaces that items are seen in: directions for the map, whitened rows for who is like whom."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.engine.threads import numpy_in_one_thread
from ltgcd.common.errors import InputError
from ltgcd.common.progress import progress
from ltgcd.data.collection import UNLABELLED
from ltgcd.data.order import row_keys
from ltgcd.graph.whitening import Whitening, fit_whitening, normalise

ROWS = 4096  # rows of a block
DIMENSIONS = 128  # of the whitened features
FITTED = 20_000  # rows that the whitening is fitted on


def directions(features: NDArray[np.floating], *, in_place: bool = False) -> NDArray[np.float32]:
    """Features (M, D) seen from their mean, at unit length: embeddings often share a large part that says nothing.

    `in_place`, the features are gone afterwards: of a million, each copy takes gigabytes.
    """
    x = np.asarray(features, dtype=np.float32)
    for start in range(0, len(x), ROWS):
        _check_finite(x[start : start + ROWS])
    mean = x.mean(axis=0, dtype=np.float64).astype(np.float32)
    unit = x if in_place else np.empty_like(x)
    for start in range(0, len(x), ROWS):
        unit[start : start + ROWS] = normalise(x[start : start + ROWS] - mean)
    return unit


@numpy_in_one_thread()
def whitened_features(x: NDArray[np.floating], y: NDArray[np.int64]) -> NDArray[np.float32]:
    """Features (N, D), maybe a map of a file, as whitened rows (N, d) of unit length; labels y (N,) are -1 for none.

    The report, the page of a review, the proposed names and `categories_` all measure likeness here, so that they name
    the same classes. Of too many rows a sample is fitted, labelled ones first; for the same reason the rows themselves
    tell which, and not where they stand.

    Labels draw together the rows that they are of more than other rows of the same class: with ten labels a class, two
    thirds of the others would look different from them. So the labelled rows are whitened in two halves, each by the
    labels of the other.
    """
    rows = np.arange(len(x)) if len(x) <= FITTED else _sample(x, y)
    for start in range(0, len(x), ROWS):
        _check_finite(x[start : start + ROWS])
    half = _halves(x, y)
    whole = fit_whitening(x[rows], np.full(len(rows), UNLABELLED), 0, DIMENSIONS)  # principal components, no labels
    scores = (np.asarray(x[rows], dtype=np.float32) - whole.mean) @ whole.matrix
    z = np.empty((len(x), whole.matrix.shape[1]), dtype=np.float32)
    with progress("whitening items for the page", len(x)) as advance:
        for unseen in (UNLABELLED, 0, 1):
            seen = np.where(half[rows] == unseen, UNLABELLED, y[rows])
            fitted = fit_whitening(scores, seen, int(y.max(initial=-1)) + 1, DIMENSIONS)
            whitening = Whitening(whole.mean + whole.matrix @ fitted.mean, whole.matrix @ fitted.matrix)
            own = np.flatnonzero(half == unseen)
            for start in range(0, len(own), ROWS):
                part = own[start : start + ROWS]
                z[part] = whitening.transform(x[part])
                advance(len(part))
    return z


def _halves(x: NDArray[np.floating], y: NDArray[np.int64]) -> NDArray[np.int64]:
    """Half (N,) of each labelled row, 0 or 1, two of a class at a time: a single one says nothing of its spread.

    -1 for an unlabelled row.
    """
    labelled = np.flatnonzero(y != UNLABELLED)
    by_content = labelled[np.lexsort(_keys(x, labelled).T)]
    _, first, code = np.unique(y[by_content], return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))[code]  # of its class, by its first row: its number plays no part
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], place[order])
    half = np.full(len(y), UNLABELLED)
    half[by_content[order]] = ((np.arange(len(order)) - starts) // 2 + place[order]) % 2
    return half


def _keys(x: NDArray[np.floating], rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Two numbers (n, 2) for each of some rows, as good as random, that its content gives."""
    parts = [row_keys(x[rows[start : start + ROWS]]) for start in range(0, len(rows), ROWS)]
    return np.concatenate([np.empty((0, 2), np.uint64), *parts])


def _sample(x: NDArray[np.floating], y: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows that the whitening is fitted on, in an order as good as random that their content gives."""
    keys = _keys(x, np.arange(len(x)))
    shuffled = np.lexsort((y, keys[:, 1], keys[:, 0]))
    rows = shuffled[np.argsort(y[shuffled] < 0, kind="stable")][: FITTED // 2]
    rest = shuffled[~np.isin(shuffled, rows)][: FITTED - len(rows)]
    return np.concatenate([rows, rest])


def _check_finite(x: NDArray[np.floating]) -> None:
    if not np.isfinite(x).all():
        raise InputError("The features hold NaN or infinite values; embed these items again.")
