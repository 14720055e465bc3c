"""The k-means row of the paper's tables: no training, no labels inside the clustering (METHODS §4)."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from ltgcd.common.numerics import softmax
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.whitening import normalise

TEMPERATURE = 0.1  # of the softmax over cosines that turns centres into a confidence; SimGCD's τ_s


class Assignment(NamedTuple):
    """Class and confidence of every item, and the centres (K, D) in the order of the classes."""

    labels: NDArray[np.int64]
    confidence: NDArray[np.float32]
    centres: NDArray[np.float32]


def cluster(x: NDArray[np.float32], k: int, random_state: int, n_init: int = 10) -> KMeans:
    """Plain k-means on unit rows (N, D); with fewer distinct rows than k some clusters stay empty."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return KMeans(n_clusters=min(k, len(x)), n_init=n_init, random_state=random_state).fit(x)


def name_clusters(clusters: NDArray[np.int64], y: NDArray[np.int64], n_old: int, k: int) -> NDArray[np.int64]:
    """Class id of each cluster, shape (k,): matched known classes first, the others novel by falling size.

    A cluster is matched to a known class by a Hungarian on the labelled items alone.
    """
    labelled = y != UNLABELLED
    w = np.zeros((n_old, k), dtype=np.int64)
    np.add.at(w, (y[labelled], clusters[labelled]), 1)
    known, matched = linear_sum_assignment(-w)
    held = w[known, matched] > 0
    names = np.full(k, UNLABELLED, dtype=np.int64)
    names[matched[held]] = known[held]
    rest = np.flatnonzero(names == UNLABELLED)
    by_size = rest[np.argsort(-np.bincount(clusters, minlength=k)[rest], kind="stable")]
    names[by_size] = n_old + np.arange(len(by_size))
    return names


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
    names = name_clusters(clusters, y, n_old, len(model.cluster_centers_))
    p = softmax(unit @ normalise(model.cluster_centers_).T, TEMPERATURE)
    centres = np.zeros((int(names.max()) + 1, unit.shape[1]), dtype=np.float32)
    centres[names] = model.cluster_centers_
    return Assignment(names[clusters], p[np.arange(len(p)), clusters], centres)
