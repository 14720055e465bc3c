"""The two spaces that items are seen in: directions for the map, whitened rows for who is like whom."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.engine.threads import numpy_in_one_thread
from ltgcd.common.errors import InputError
from ltgcd.data.order import row_keys
from ltgcd.graph.whitening import fit_whitening, normalise

ROWS = 4096  # rows of a block
DIMENSIONS = 128  # of the whitened features
FITTED = 20_000  # rows that the whitening is fitted on


def directions(features: NDArray[np.floating]) -> NDArray[np.float32]:
    """Features (M, D) seen from their mean, at unit length: embeddings often share a large part that says nothing."""
    x = np.asarray(features, dtype=np.float32)
    _check_finite(x)
    return normalise(x - x.mean(axis=0, dtype=np.float64).astype(np.float32))


@numpy_in_one_thread()
def whitened_features(x: NDArray[np.floating], y: NDArray[np.int64]) -> NDArray[np.float32]:
    """Features (N, D), maybe a map of a file, as whitened rows (N, d) of unit length; labels y (N,) are -1 for none.

    The report, the page of a review, the proposed names and `categories_` all measure likeness here, so that they name
    the same classes. Of too many rows a sample is fitted, labelled ones first; for the same reason the rows themselves
    tell which, and not where they stand.
    """
    rows = np.arange(len(x)) if len(x) <= FITTED else _sample(x, y)
    for start in range(0, len(x), ROWS):
        _check_finite(x[start : start + ROWS])
    whitening = fit_whitening(x[rows], y[rows], int(y.max(initial=-1)) + 1, DIMENSIONS)
    z = np.empty((len(x), whitening.matrix.shape[1]), dtype=np.float32)
    for start in range(0, len(x), ROWS):
        z[start : start + ROWS] = whitening.transform(x[start : start + ROWS])
    return z


def _sample(x: NDArray[np.floating], y: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows that the whitening is fitted on, in an order as good as random that their content gives."""
    keys = np.concatenate([row_keys(x[start : start + ROWS]) for start in range(0, len(x), ROWS)])
    shuffled = np.lexsort((y, keys[:, 1], keys[:, 0]))
    rows = shuffled[np.argsort(y[shuffled] < 0, kind="stable")][: FITTED // 2]
    rest = shuffled[~np.isin(shuffled, rows)][: FITTED - len(rows)]
    return np.concatenate([rows, rest])


def _check_finite(x: NDArray[np.floating]) -> None:
    if not np.isfinite(x).all():
        raise InputError("The features hold NaN or infinite values; embed these items again.")
