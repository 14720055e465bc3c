"""Starting clusters: communities of the neighbour graph that keep the known classes apart.

Initial prototypes decide most of what training on a long tail arrives at. Random ones are SimGCD's; class means with
communities of the kNN graph are our default: a community is as large as it happens to be, so that the tail is not
merged into the head as k-means does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sknetwork.clustering import Louvain

from ltgcd.common.progress import progress
from ltgcd.common.tables import most_likely
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.knn import NeighbourGraph, knn_graph
from ltgcd.graph.semi_kmeans import semi_kmeans
from ltgcd.graph.whitening import class_means, cosines

Start = Literal["random", "semi-kmeans", "communities"]
NEIGHBOURS = 10
NOVEL_NEIGHBOURS = 15  # among items that are likely to be novel: without the others there is less to be led astray by
SMALLEST = 5  # items of a community that may become a class of its own
SEARCH_STEPS = 12
# Labels that what was found of a class is worth: with nothing but two labels a class, nearest means have New of 53.7,
# discovery has 53.5 (mean of six sets that had no part in anything here).
FOUND = 2
RESOLUTIONS = (0.05, 500.0)


def starting_clusters(
    white: NDArray[np.float32],
    y: NDArray[np.int64],
    n_old: int,
    k: int,
    start: Start,
    random_state: int,
    nearest: Callable[[int], NeighbourGraph] | None = None,
    given: NDArray[np.int64] | None = None,
    novel: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64] | None:
    """Cluster of every item (N,), 0 … |Y_l|−1 the known classes; None for a random start.

    Parameters
    ----------
    white : ndarray, shape (N, d)
        Whitened features, unit rows.
    y : ndarray of int64, shape (N,)
        Labels, -1 for unlabelled.
    n_old, k : int
        Number of known classes and of all classes.
    start : {"random", "semi-kmeans", "communities"}
        How. With fewer than `NEIGHBOURS` items a class on average, communities are semi-supervised k-means too: classes
        smaller than a neighbourhood leave no trace in the graph.
    random_state : int
        Seed.
    nearest : callable, optional
        Gives the graph of the k nearest neighbours of `white`, where somebody else needs it too; by default it is
        searched here.
    given : ndarray of int64, shape (N,), optional
        Class that each unlabelled item is in already: a known one, or one of the novel categories n_old … n_old + S − 1
        that are there; -1 for all others. They begin where they are, whatever `start` says, and only the rest is looked
        for.
    novel : ndarray of bool, shape (N,), optional
        Items that are likely to be of none of the classes that are there: communities are looked for among them alone.
    """
    if given is not None:
        return _from_given(white, y, n_old, k, given, random_state, nearest, novel)
    if start == "random":
        return None
    if start == "semi-kmeans" or len(white) < NEIGHBOURS * k:
        return semi_kmeans(white, y, n_old, k, random_state=random_state).labels
    centres = community_centres(white, y, n_old, k, random_state, nearest, novel)
    # Two rounds: the first moves the items of known classes out of the communities, the second settles.
    return semi_kmeans(white, y, n_old, k, init=centres, max_iter=2, random_state=random_state).labels


def placed_items(y: NDArray[np.int64], given: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Class of each item (N,) that is there already: its label, or the category that it is given; -1 for the others."""
    return y if given is None else np.where(y == UNLABELLED, given, y)


def _from_given(
    white: NDArray[np.float32],
    y: NDArray[np.int64],
    n_old: int,
    k: int,
    given: NDArray[np.int64],
    random_state: int,
    nearest: Callable[[int], NeighbourGraph] | None,
    novel: NDArray[np.bool_] | None,
) -> NDArray[np.int64]:
    """Clusters (N,) around known classes, around categories that are there, and around communities of the rest."""
    placed = placed_items(y, given)
    n_placed = max(n_old, int(placed.max(initial=UNLABELLED)) + 1)
    if k > n_placed:
        centres = community_centres(white, placed, n_placed, k, random_state, nearest, novel)
    else:
        centres = np.empty((k, white.shape[1]), dtype=np.float32)
    centres[:n_placed] = _means_so_far(white, y, given, n_placed)
    return semi_kmeans(white, y, n_old, k, init=centres, max_iter=2, random_state=random_state).labels


def _means_so_far(
    white: NDArray[np.float32], y: NDArray[np.int64], given: NDArray[np.int64], n: int
) -> NDArray[np.float32]:
    """Mean (n, d) of the labelled items of each class and of those that an earlier answer has put there.

    All of the latter together count like `FOUND` labels: a category of a hundred items does not become the one of them
    that somebody confirmed, and a dozen confirmed ones decide what a class is.
    """
    (labelled, n_labelled), (found, n_found) = class_means(white, y, n), class_means(white, given, n)
    weight = (np.minimum(n_found, FOUND) / np.maximum(n_labelled + np.minimum(n_found, FOUND), 1))[:, None]
    return np.asarray((1 - weight) * labelled + weight * found, dtype=np.float32)


def community_centres(
    white: NDArray[np.float32],
    y: NDArray[np.int64],
    n_old: int,
    k: int,
    random_state: int,
    nearest: Callable[[int], NeighbourGraph] | None = None,
    novel: NDArray[np.bool_] | None = None,
) -> NDArray[np.float32]:
    """Known class means and the means of k − |Y_l| communities, (k, d).

    Of likely `novel` items the largest communities are taken. Where it is not told which these are, or they are fewer
    than `NEIGHBOURS` a class, communities of all items are looked for, and those with the lowest labelled share taken.

    Where there are fewer communities of `SMALLEST` items, and for a known class without a labelled item, rows that are
    far from every centre so far stand in.
    """
    likely = np.flatnonzero(novel) if novel is not None else np.empty(0, dtype=np.int64)
    if len(likely) >= NEIGHBOURS * max(k - n_old, 1):
        found = communities(knn_graph(white[likely], NOVEL_NEIGHBOURS), k - n_old, random_state)
        labels = np.full(len(white), UNLABELLED, dtype=np.int64)
        labels[likely] = found
        sizes = np.bincount(found)
        order = np.argsort(-sizes, kind="stable")
    else:
        labels = communities(nearest(NEIGHBOURS) if nearest else knn_graph(white, NEIGHBOURS), k, random_state)
        sizes = np.bincount(labels)
        share = np.bincount(labels, weights=y != UNLABELLED) / sizes
        order = np.lexsort((-sizes, share))
    chosen = order[sizes[order] >= SMALLEST][: k - n_old]
    means, counts = class_means(white, y, n_old)
    centres = np.concatenate([means, class_means(white, labels, len(sizes))[0][chosen]])
    given = np.concatenate([counts > 0, np.ones(len(chosen), dtype=bool)])
    missing = np.concatenate([np.flatnonzero(~given), np.arange(len(centres), k)])
    if not len(missing):
        return centres
    closeness = np.full(len(white), -1, dtype=np.float32)
    if given.any():
        closeness = most_likely(cosines(white, centres[given]))[1]
    centres = np.concatenate([centres, np.zeros((k - len(centres), white.shape[1]), dtype=np.float32)])
    for place in missing:
        far = int(closeness.argmin())
        centres[place] = white[far]
        closeness = np.maximum(closeness, white @ white[far])
    return centres


def communities(graph: NeighbourGraph, k: int, random_state: int) -> NDArray[np.int64]:
    """Louvain communities (N,) of the kNN graph, at the resolution with about k of them that have `SMALLEST` items."""
    n = graph.n
    rows = np.repeat(np.arange(n), graph.k)
    edges = sparse.csr_matrix((np.ones(rows.size), (rows, graph.indices.ravel())), shape=(n, n))
    edges = edges.maximum(edges.T)
    low, high = RESOLUTIONS
    best: tuple[int, NDArray[np.int64]] | None = None
    with progress("looking for communities", SEARCH_STEPS) as advance:
        for _ in range(SEARCH_STEPS):
            resolution = float(np.sqrt(low * high))
            labels = Louvain(resolution=resolution, random_state=random_state).fit_predict(edges).astype(np.int64)
            sizes = np.bincount(labels)
            found = int((sizes >= SMALLEST).sum())
            if best is None or abs(found - k) < best[0]:
                best = abs(found - k), labels
            if abs(found - k) <= 0.01 * k:
                break
            # Large communities become more with the resolution, but for noise, until most items are in small ones.
            coarse = found < k and sizes[sizes >= SMALLEST].sum() >= n / 2
            low, high = (resolution, high) if coarse else (low, resolution)
            advance(1)
    assert best is not None
    return best[1]
