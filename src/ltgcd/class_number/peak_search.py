"""Clusters from density peaks: the paper's estimator of K in its readings, and a partition for a K that is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import cut_tree, linkage

from ltgcd.class_number.search import Curve, Search, labelled_accuracy, search_k
from ltgcd.common.progress import progress
from ltgcd.common.tables import Kept, RowTable, blocks, keep_most_likely, most_likely, probabilities
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.density import density
from ltgcd.graph.knn import NeighbourGraph
from ltgcd.graph.peaks import Overlap, Rule, find_peaks, iou_k, iou_threshold, nmds
from ltgcd.graph.whitening import class_means, cosines, normalise

MAX_PEAKS = 4000  # the densest of more peaks are merged: the linkage is quadratic in them
BOOTSTRAPS = 3
BOOTSTRAP_TEMPERATURE = 0.1


@dataclass(frozen=True)
class PeakConfig:
    """How the paper's section on class numbers is read (docs/methods.md §6.3).

    Attributes
    ----------
    k, k_s : int
        Neighbours of the density and of IoUK.
    lam, rule, overlap
        Of `ltgcd.graph.peaks.nmds`.
    connectivity : {"affinity", "bootstrap"}
        e_ij = 1, or from a classifier whose prototypes are the peaks of the round before.
    path : {"merge", "top"}
        What varies K: peaks merged by average linkage, or the K densest peaks.
    balanced : bool
        Objective: balanced or instance ACC of the labelled items.
    search : str
        See `ltgcd.class_number.search.search_k`.
    """

    k: int = 10
    k_s: int = 30
    lam: float = 0.8
    rule: Rule = "greedy"
    overlap: Overlap = "jaccard-distance"
    connectivity: Literal["affinity", "bootstrap"] = "affinity"
    path: Literal["merge", "top"] = "merge"
    balanced: bool = True
    search: Search = "brent+scan"


LITERAL = PeakConfig(
    rule="literal", overlap="iou", connectivity="bootstrap", path="top", balanced=False, search="brent"
)


def density_peaks(
    unit: NDArray[np.float32], graph: NeighbourGraph, config: PeakConfig, candidates: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Peaks after NMDS by falling density, and the density of all items."""
    d = density(graph, k=config.k)
    peaks = find_peaks(d, graph, config.k, candidates=candidates)
    if config.connectivity == "bootstrap":
        for _ in range(BOOTSTRAPS):
            prototypes = peaks[np.argsort(-d[peaks], kind="stable")][:MAX_PEAKS]
            d = density(graph, _classified(unit, unit[prototypes]), config.k)
            found = find_peaks(d, graph, config.k, candidates=candidates)
            if np.array_equal(found, peaks):
                break
            peaks = found
    overlaps = iou_k(graph, peaks, config.k_s, iou_threshold(config.lam, config.overlap))
    kept = nmds(peaks, d, overlaps, config.lam, config.rule, config.overlap)
    return kept[np.argsort(-d[kept], kind="stable")], d


def _classified(unit: NDArray[np.float32], prototypes: NDArray[np.float32]) -> Kept:
    """Probabilities of unit rows (N, d) in as many classes as there are prototypes (P, d), unit rows too."""
    return keep_most_likely(probabilities(_products(unit, prototypes), BOOTSTRAP_TEMPERATURE))


def search_peaks(
    unit: NDArray[np.float32],
    y: NDArray[np.int64],
    n_old: int,
    graph: NeighbourGraph,
    config: PeakConfig,
    k_max: int | None = None,
) -> tuple[int, Curve, NDArray[np.int64], NDArray[np.int64]]:
    """K by the labelled objective between |Y_l| and the number of peaks, or `k_max`: K, curve, clusters at K, peaks."""
    peaks, _ = density_peaks(unit, graph, config)
    peaks = peaks[:MAX_PEAKS]
    high = len(peaks) if k_max is None else min(len(peaks), k_max)
    if len(peaks) <= n_old:
        clusters = nearest(unit, unit[peaks])
        score = labelled_accuracy(clusters, y, balanced=config.balanced)
        return n_old, ((n_old, round(score, 4)),), clusters, peaks
    if config.path == "merge":
        own = nearest(unit, unit[peaks])
        tree = linkage(unit[peaks].astype(np.float64), "average", metric="cosine")

        def clusters_at(k: int) -> NDArray[np.int64]:
            return cut_tree(tree, [k])[:, 0].astype(np.int64)[own]
    else:

        def clusters_at(k: int) -> NDArray[np.int64]:
            return nearest(unit, unit[peaks[:k]])

    k, curve = search_k(
        lambda k: labelled_accuracy(clusters_at(k), y, balanced=config.balanced), n_old, high, config.search
    )
    return k, curve, clusters_at(k), peaks


def partition(
    white: NDArray[np.float32],
    y: NDArray[np.int64],
    n_old: int,
    k: int,
    peaks: NDArray[np.int64],
    novelty: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Clusters for a given K: prototypes are the known class means and the peaks that look most novel.

    Labelled items keep their class. One pass of re-centring follows the assignment, as in semi-supervised k-means.

    Parameters
    ----------
    white : ndarray, shape (N, d)
        Unit rows.
    peaks : ndarray of int64
        Density peaks among the unlabelled items.
    novelty : ndarray, shape (N,)
        P(novel) of each item; 0 for labelled ones.
    """
    means, counts = class_means(white, y, n_old)
    chosen = peaks[np.argsort(-novelty[peaks], kind="stable")][: max(k - n_old, 0)]
    prototypes = normalise(np.concatenate([means[counts > 0], white[chosen]]))
    codes = np.concatenate([np.flatnonzero(counts > 0), n_old + np.arange(len(chosen))])
    missing = np.setdiff1d(np.arange(min(k, len(white))), codes)
    closest = most_likely(cosines(white, prototypes))[1] if len(missing) else np.empty(0)
    for code in missing:
        # Too few peaks, or a known class without a labelled item: the item that is farthest from every prototype.
        far = int(closest.argmin())
        prototypes = np.concatenate([prototypes, normalise(white[far : far + 1])])
        closest = np.maximum(closest, white @ prototypes[-1])
        codes = np.append(codes, code)
    labelled = y != UNLABELLED
    for _ in range(2):
        labels = codes[nearest(white, prototypes)]
        labels[labelled] = y[labelled]
        centres, sizes = class_means(white, labels, int(codes.max()) + 1)
        filled = sizes[codes] > 0
        prototypes[filled] = normalise(centres[codes[filled]])
    return labels


def nearest(unit: NDArray[np.float32], prototypes: NDArray[np.float32]) -> NDArray[np.int64]:
    """Position of the prototype (P, d) with the greatest cosine, for each row (N, d)."""
    products, closest = _products(unit, prototypes), np.empty(len(unit), dtype=np.int64)
    with progress("sorting items to prototypes", len(unit)) as advance:
        for place, block in blocks(products):
            closest[place] = block.argmax(axis=1)
            advance(len(block))
    return closest


def _products(unit: NDArray[np.float32], prototypes: NDArray[np.float32]) -> RowTable:
    """Products (N, P) of unit rows (N, d) with prototypes (P, d), block by block."""
    return RowTable((len(unit), len(prototypes)), lambda rows: unit[rows] @ prototypes.T)
