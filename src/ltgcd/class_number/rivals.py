"""Alternative estimators of the number of classes: Ward, Leiden, FINCH, EVoC and HDBSCAN, under one interface.

All but HDBSCAN give several partitions, and the labelled items choose: the one with the best balanced ACC on them, of
those with at least |Y_l| clusters. These see within-class whitened features, as our own estimators do. FINCH and EVoC
are packages of the ``bench`` extra and are imported only where they are asked for.
"""

from __future__ import annotations

import ctypes
import sys
import warnings
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.cluster.hierarchy import cut_tree, ward
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.exceptions import ConvergenceWarning
from sknetwork.clustering import Leiden

from ltgcd.class_number.search import Curve, labelled_accuracy, search_k
from ltgcd.common.errors import InputError
from ltgcd.graph.knn import knn_graph
from ltgcd.graph.whitening import principal_components, within_class_whitening

ChosenPartition = tuple[int, Curve, NDArray[np.int64], dict[str, Any]]  # K, curve, clusters at K, evidence

SMALLEST = 5  # items of a cluster of HDBSCAN
LARGEST = 6  # times |Y_l|: where a scan ends unless a largest K is given
NEIGHBOURS = 10  # of Leiden's graph, as the paper's k
COARSEST, FINER = 0.25, 2.0**0.25  # first resolution of Leiden, and the step from one to the next


def ward_scan(
    x: NDArray[np.float32], y: NDArray[np.int64], n_old: int, k_max: int | None, random_state: int
) -> ChosenPartition:
    """One dendrogram gives every K (CMS, NCDLR): micro-clusters by k-means, then Ward, balanced labelled ACC.

    Parameters
    ----------
    x : ndarray, shape (N, D)
        Features.
    y : ndarray of int64, shape (N,)
        Labels, -1 for D^u.
    n_old : int
        |Y_l|, the smallest K.
    k_max : int or None
        The largest K; `LARGEST` times |Y_l| by default.
    random_state : int
        Seed.
    """
    unit = _whitened(x, y, n_old)
    n_micro = min(len(unit), max(50, len(unit) // 12, 2 * n_old))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # about duplicates, which make fewer micro-clusters
        micro = KMeans(n_micro, n_init=1, max_iter=20, random_state=random_state).fit(unit)
    tree = ward(micro.cluster_centers_.astype(np.float64))
    own = micro.labels_.astype(np.int64)
    high = max(n_old, min(_highest(n_old, k_max), n_micro - 1))  # SciPy cuts wrongly at all of the leaves
    cuts = cut_tree(tree, np.arange(n_old, high + 1))
    k, curve = search_k(
        lambda k: labelled_accuracy(cuts[:, k - n_old].astype(np.int64)[own], y, balanced=True),
        n_old,
        high,
        "exhaustive",
    )
    return k, curve, cuts[:, k - n_old].astype(np.int64)[own], {"micro_clusters": n_micro}


def leiden_scan(
    x: NDArray[np.float32], y: NDArray[np.int64], n_old: int, k_max: int | None, random_state: int
) -> ChosenPartition:
    """Leiden communities of the 10-NN graph, its edges weighted by cosine, from coarse to fine; arguments as above."""
    unit = _whitened(x, y, n_old)
    graph = knn_graph(unit, NEIGHBOURS)
    edges = np.maximum(graph.similarities, 1e-6).ravel().astype(np.float64)  # a weight of zero is no edge
    one_way = sparse.csr_matrix((edges, graph.indices.ravel(), np.arange(graph.n + 1) * graph.k), (graph.n, graph.n))
    adjacency = one_way + one_way.T
    partitions: list[NDArray[np.int64]] = []
    resolutions: list[float] = []
    resolution, high = COARSEST, min(_highest(n_old, k_max), len(unit))
    while True:
        _seed_of_c(random_state)
        fit = Leiden(resolution, shuffle_nodes=True, random_state=random_state, return_probs=False)
        labels = fit.fit_predict(adjacency).astype(np.int64)
        if partitions and labels.max() + 1 > high:
            break
        partitions.append(labels)
        resolutions.append(resolution)
        if labels.max() + 1 >= high or resolution > len(unit):
            break
        resolution *= FINER
    k, curve, labels, best = _choose(partitions, y, n_old, k_max)
    return k, curve, labels, {"resolution": round(resolutions[best], 4)}


def finch_levels(
    x: NDArray[np.float32], y: NDArray[np.int64], n_old: int, k_max: int | None, random_state: int
) -> ChosenPartition:
    """FINCH (Sarfraz et al. 2019): first neighbours linked, level by level; arguments as above, without a seed."""
    del random_state
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about approximate search, which it does not need with neighbours given
        finch = _package("finch", "finch-clust")
    unit = _whitened(x, y, n_old)
    first = knn_graph(unit, 1).indices[:, 0].astype(np.int32)
    levels, _, _ = finch.FINCH(unit, initial_rank=first, distance="cosine", ann_threshold=len(unit) + 1)
    k, curve, labels, best = _choose(levels.T.astype(np.int64), y, n_old, k_max)
    return k, curve, labels, {"levels": int(levels.shape[1]), "level": best}


def evoc_layers(
    x: NDArray[np.float32], y: NDArray[np.int64], n_old: int, k_max: int | None, random_state: int
) -> ChosenPartition:
    """EVoC: density clusters of a node embedding, layer by layer; arguments as above. Noise is no class."""
    evoc = _package("evoc", "evoc")
    unit = _whitened(x, y, n_old)
    layers = evoc.EVoC(random_state=random_state).fit(unit).cluster_layers_
    k, curve, labels, best = _choose([layer.astype(np.int64) for layer in layers], y, n_old, k_max)
    return k, curve, labels, {"layers": len(layers), "layer": best, "noise_share": _noise_share(layers[best])}


def hdbscan(
    x: NDArray[np.float32], y: NDArray[np.int64], n_old: int, k_max: int | None, random_state: int
) -> ChosenPartition:
    """HDBSCAN on 50 principal components, once and without labels; arguments as above. Noise is no class."""
    del n_old, k_max, random_state
    if len(x) < SMALLEST:
        raise InputError(f"HDBSCAN needs at least {SMALLEST} items, but there are {len(x)}; choose another estimator.")
    labels = HDBSCAN(min_cluster_size=SMALLEST, copy=True).fit(principal_components(x, 50)).labels_.astype(np.int64)
    k, score, clusters = _scored(labels, y)
    return k, ((k, round(score, 4)),), clusters, {"noise_share": _noise_share(labels)}


# ---------------------------------------------------------------- the pieces


def _whitened(x: NDArray[np.float32], y: NDArray[np.int64], n_old: int) -> NDArray[np.float32]:
    return within_class_whitening(principal_components(x), y, n_old)


def _highest(n_old: int, k_max: int | None) -> int:
    return LARGEST * n_old if k_max is None else k_max


def _package(module: str, name: str) -> Any:  # noqa: ANN401 - packages without types
    """A package of the ``bench`` extra."""
    try:
        return import_module(module)
    except ImportError:
        raise InputError(
            f"This estimator needs the package {name}; install it with: pip install 'ltgcd[bench]'."
        ) from None


def _seed_of_c(random_state: int) -> None:
    """Seed C's generator: scikit-network's refinement draws from it, and the package's own seed does not reach it."""
    library = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
    library.srand(ctypes.c_uint(random_state))


def _noise_share(labels: NDArray[np.int64]) -> float:
    return round(float((labels < 0).mean()), 4)


def _scored(labels: NDArray[np.int64], y: NDArray[np.int64]) -> tuple[int, float, NDArray[np.int64]]:
    """Number of clusters, balanced labelled ACC, and the clusters with noise (-1) as one more that is not counted."""
    k = max(int(labels.max()) + 1, 1)
    clusters = np.where(labels < 0, k, labels)
    return k, labelled_accuracy(clusters, y, balanced=True), clusters


def _choose(
    partitions: Iterable[NDArray[np.int64]], y: NDArray[np.int64], n_old: int, k_max: int | None
) -> tuple[int, Curve, NDArray[np.int64], int]:
    """The partition with the best balanced labelled ACC: K, curve, clusters, and its place.

    Among those of at least |Y_l| and at most `k_max` clusters; if there is none, those that miss it by the least. The
    coarser at equal score.
    """
    scored = [_scored(part, y) for part in partitions]
    excess = [max(n_old - k, k - (k_max or k), 0) for k, _, _ in scored]
    allowed = [i for i in range(len(scored)) if excess[i] == min(excess)]
    best = max(allowed, key=lambda i: (scored[i][1], -scored[i][0]))
    curve: dict[int, float] = {}
    for k, score, _ in scored:
        curve[k] = max(round(score, 4), curve.get(k, 0.0))
    k, _, labels = scored[best]
    return k, tuple(sorted(curve.items())), labels, best
