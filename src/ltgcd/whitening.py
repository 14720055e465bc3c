"""Within-class whitening: directions in which labelled classes spread count less, for known and novel classes alike.

FINDINGS.md: cheap, label-efficient, deterministic, and the neighbours of New items get purer too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import PCA

from ltgcd.collection import UNLABELLED
from ltgcd.methods.kmeans import normalise

DIMENSIONS = 256
SHRINKAGE = 0.2  # of the covariance towards its trace


def principal_components(x: NDArray[np.floating], dimensions: int = DIMENSIONS) -> NDArray[np.float32]:
    """Centred scores (N, d) on the first d = min(dimensions, D, N/4) principal components; no labels."""
    x = np.asarray(x, dtype=np.float32)
    d = max(1, min(dimensions, x.shape[1], len(x) // 4))
    solver = "covariance_eigh" if x.shape[1] <= 4 * len(x) else "full"
    with np.errstate(invalid="ignore"):  # shares of a variance of zero, where all rows are equal
        scores: NDArray[np.float32] = PCA(d, svd_solver=solver).fit_transform(x).astype(np.float32)
    return scores


def class_means(
    z: NDArray[np.float32], y: NDArray[np.int64], n_classes: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Means (n_classes, d) of the labelled rows of each class, zero for a class without any, and the class sizes."""
    rows = np.flatnonzero(y != UNLABELLED)
    counts = np.bincount(y[rows], minlength=n_classes).astype(np.int64)
    member = sparse.csr_array((np.ones(len(rows)), (y[rows], rows)), shape=(n_classes, len(y)))
    return ((member @ z) / np.maximum(counts, 1)[:, None]).astype(np.float32), counts


def within_class_whitening(z: NDArray[np.float32], y: NDArray[np.int64], n_classes: int) -> NDArray[np.float32]:
    """Whiten (N, d) by the covariance of the labelled rows around their class means, and scale to unit length."""
    labelled = y != UNLABELLED
    means, counts = class_means(z, y, n_classes)
    residuals = (z[labelled] - means[y[labelled]]).astype(np.float64)
    covariance = residuals.T @ residuals / max(1, len(residuals) - int((counts > 0).sum()))
    scale = np.trace(covariance) / len(covariance)
    if scale <= 0:  # no class has two labelled items that differ: there is nothing to whiten by
        return normalise(z)
    covariance = (1 - SHRINKAGE) * covariance + SHRINKAGE * scale * np.eye(len(covariance))
    # Any square root of the inverse will do, cosines being the same under a rotation; Cholesky's is the cheapest.
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    return normalise(z @ root.T.astype(np.float32))
