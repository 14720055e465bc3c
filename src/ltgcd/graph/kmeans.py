"""The k-means row of the paper's tables: no training, no labels inside the clustering (docs/methods.md §4)."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from ltgcd.common.tables import at_columns, probabilities
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.whitening import cosines, normalise

TEMPERATURE = 0.1  # of the softmax over cosines that turns centres into a confidence; SimGCD's τ_s


class Assignment(NamedTuple):
    """Class (0 … K − 1, the known ones first) and confidence of every item (N,), and the centres (K, D) of the classes.

    The centre of a class that there is no cluster for is 0.
    """

    labels: NDArray[np.int64]
    confidence: NDArray[np.float32]
    centres: NDArray[np.float32]


def cluster(x: NDArray[np.float32], k: int, random_state: int, n_init: int = 10) -> KMeans:
    """Plain k-means on unit rows (N, D); with fewer distinct rows than k some clusters stay empty."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return KMeans(n_clusters=min(k, len(x)), n_init=n_init, random_state=random_state).fit(x)


def number_clusters(
    clusters: NDArray[np.int64], y: NDArray[np.int64], n_clusters: int, n_old: int, k: int
) -> NDArray[np.int64]:
    """Class of each cluster, shape (n_clusters,), all different and below k: known classes first, then novel ones.

    A cluster is matched to a known class by a Hungarian on the labelled items alone. The others are novel, by falling
    size. Where known classes share a cluster, more clusters than novel classes are left: the smallest of them fill the
    numbers of the known classes that went without.
    """
    labelled = y != UNLABELLED
    w = np.zeros((n_old, n_clusters), dtype=np.int64)
    np.add.at(w, (y[labelled], clusters[labelled]), 1)
    known, matched = linear_sum_assignment(-w)
    held = w[known, matched] > 0
    numbers = np.full(n_clusters, UNLABELLED, dtype=np.int64)
    numbers[matched[held]] = known[held]
    rest = np.flatnonzero(numbers == UNLABELLED)
    by_size = rest[np.argsort(-np.bincount(clusters, minlength=n_clusters)[rest], kind="stable")]
    free = np.concatenate([np.arange(n_old, k), np.setdiff1d(np.arange(n_old), known[held])])
    numbers[by_size] = free[: len(by_size)]
    return numbers


def fit(x: NDArray[np.floating], y: NDArray[np.int64], n_old: int, k: int, random_state: int) -> Assignment:
    """Cluster D^u into k clusters and give the known classes their clusters.

    Parameters
    ----------
    x : ndarray, shape (N, D)
        Features of D^l ∪ D^u.
    y : ndarray of int64, shape (N,)
        Labels, -1 for D^u. Used only to tell which cluster is which known class.
    n_old, k : int
        Number of known classes and of all classes.
    random_state : int
        Seed.
    """
    unit = normalise(x)
    model = cluster(unit[y == UNLABELLED], k, random_state)
    clusters = model.predict(unit).astype(np.int64)
    numbers = number_clusters(clusters, y, len(model.cluster_centers_), n_old, k)
    own = at_columns(probabilities(cosines(unit, model.cluster_centers_), TEMPERATURE), clusters)
    centres = np.zeros((k, unit.shape[1]), dtype=np.float32)
    centres[numbers] = model.cluster_centers_
    return Assignment(numbers[clusters], own, centres)
