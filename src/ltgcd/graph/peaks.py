"""Density peaks, the overlap of their neighbourhoods, and Non-Maximum Density Suppression (paper, Sec. 3.2, Alg. 1).

The paper can be read in several ways (docs/methods.md §6.3 a, b, f); each reading is a value of a switch, and
everywhere equal densities are decided for the lower index. Nothing here is quadratic in the number of peaks.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ltgcd.common.errors import InputError
from ltgcd.graph.knn import NeighbourGraph

PeakTest = Literal["strict", "ge"]
Rule = Literal["greedy", "flip", "literal"]
Overlap = Literal["jaccard-distance", "iou"]

BLOCK_ENTRIES = 2_000_000  # entries of the sparse product that are held at once


def find_peaks(
    density: NDArray[np.floating],
    graph: NeighbourGraph,
    k: int = 10,
    test: PeakTest = "strict",
    candidates: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """Eq. 8: items that are denser than each of their k nearest neighbours, ascending.

    Parameters
    ----------
    density : ndarray, shape (N,)
        d_i.
    graph : NeighbourGraph
        At least `k` neighbours an item.
    k : int
        Neighbours to compare with.
    test : {"strict", "ge"}
        ``strict``: d_i > d_j for all neighbours (the paper's K section), where at equal density the lower index counts
        as denser, so that exactly one of several duplicates is a peak. ``ge``: d_i ≥ d_j as in the paper's equation,
        which makes a peak of every one of them.
    candidates : ndarray of bool, shape (N,), optional
        Items that may be peaks, for instance D^u; all others still count as neighbours.
    """
    density = _checked_density(density, graph.n)
    graph = graph.first(k)
    others = density[graph.indices]
    own = density[:, None]
    beaten = others > own
    if test == "strict":
        beaten |= (others == own) & (graph.indices < np.arange(graph.n)[:, None])
    elif test != "ge":
        raise InputError(f"The peak test is 'strict' or 'ge', not '{test}'.")
    is_peak = ~beaten.any(axis=1)
    if candidates is not None:
        is_peak &= np.asarray(candidates, dtype=bool)
    return np.flatnonzero(is_peak)


def iou_k(
    graph: NeighbourGraph, candidates: NDArray[np.int64], k_s: int = 30, min_iou: float = 0.0
) -> sparse.csr_array:
    """IoUK(x_i, x_j) = |N_i ∩ N_j| / |N_i ∪ N_j| over k_s nearest neighbours, for all pairs of candidates that overlap.

    Parameters
    ----------
    graph : NeighbourGraph
        At least `k_s` neighbours an item. A neighbourhood holds no item itself, as in the density.
    candidates : ndarray of int64, shape (P,)
        Items to compare.
    k_s : int
        Size of the neighbourhoods; at most N − 1.
    min_iou : float
        Only pairs with a greater IoU are returned; it bounds the memory where hubs are shared by thousands of peaks.

    Returns
    -------
    csr_array of float64, shape (P, P)
        Symmetric; the diagonal is empty.
    """
    candidates = np.asarray(candidates, dtype=np.int64)
    neighbours = graph.first(k_s).indices[candidates]
    n_peaks, k_s = neighbours.shape
    if n_peaks == 0 or k_s == 0:
        return sparse.csr_array((n_peaks, n_peaks), dtype=np.float64)
    start_of = np.arange(n_peaks + 1) * k_s
    member = sparse.csr_array(
        (np.ones(neighbours.size, dtype=np.int32), neighbours.ravel(), start_of), shape=(n_peaks, graph.n)
    )
    holders = member.T.tocsr()
    # Row i of the product has at most Σ_{j ∈ N_i} (peaks that hold j) entries: cut the rows where that adds up.
    expected = np.cumsum(np.diff(holders.indptr)[neighbours].sum(axis=1, dtype=np.int64))
    cuts = np.searchsorted(expected, np.arange(BLOCK_ENTRIES, expected[-1], BLOCK_ENTRIES), side="right")
    bounds = np.unique(np.concatenate([[0], cuts, [n_peaks]]))
    rows, columns, values = [], [], []
    for start, stop in pairwise(bounds):
        shared = (member[start:stop] @ holders).tocoo()
        iou = shared.data / (2 * k_s - shared.data)
        kept = (iou > min_iou) & (shared.row + start != shared.col)
        rows.append(shared.row[kept] + start)
        columns.append(shared.col[kept])
        values.append(iou[kept])
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return sparse.csr_array(entries, shape=(n_peaks, n_peaks))


def iou_threshold(lam: float, overlap: Overlap) -> float:
    """IoU above which two peaks overlap: 1 − λ if λ is a Jaccard distance, λ itself if it is an IoU.

    A hair above: an IoU of 10/50 does not overlap at λ = 0.8, though 1 − 0.8 < 0.2 in floating point.
    """
    if not 0 <= lam <= 1:
        raise InputError(f"λ_NMDS must lie between 0 and 1, but is {lam}.")
    if overlap == "jaccard-distance":
        return 1 - lam + 1e-9
    if overlap == "iou":
        return lam + 1e-9
    raise InputError(f"The overlap is read as 'jaccard-distance' or 'iou', not '{overlap}'.")


def nmds(
    peaks: NDArray[np.int64],
    density: NDArray[np.floating],
    iou: sparse.csr_array,
    lam: float = 0.8,
    rule: Rule = "greedy",
    overlap: Overlap = "jaccard-distance",
) -> NDArray[np.int64]:
    """Alg. 1: peaks that survive Non-Maximum Density Suppression, in the order in which they were given.

    Parameters
    ----------
    peaks : ndarray of int64, shape (P,)
        Items that are peaks.
    density : ndarray, shape (N,)
        d_i of all items.
    iou : csr_array, shape (P, P)
        `iou_k` of the peaks, in their order.
    lam : float
        λ_NMDS.
    rule : {"greedy", "flip", "literal"}
        ``greedy``: visit the peaks by falling density (equal ones by rising index) and drop one that overlaps a kept
        one. ``flip``: drop every peak that overlaps a denser one, kept or not (at equal density: one with a lower
        index). ``literal``: as printed, drop every peak that overlaps a *less* dense one (at equal density, where the
        paper drops neither: one with a lower index).
    overlap : {"jaccard-distance", "iou"}
        Two peaks overlap if 1 − IoU < λ, so that a larger λ leaves fewer peaks, as the paper's tables say; or if
        IoU > λ, as its algorithm says, which leaves more.
    """
    peaks, density = np.asarray(peaks, dtype=np.int64), np.asarray(density)
    if iou.shape != (len(peaks), len(peaks)):
        raise InputError(f"There are {len(peaks)} peaks, but their IoU has shape {iou.shape}.")
    threshold = iou_threshold(lam, overlap)
    pairs = iou.tocoo()
    chosen = pairs.data > threshold
    i, j = pairs.row[chosen].astype(np.int64), pairs.col[chosen].astype(np.int64)
    d = density[peaks]
    rank = np.empty(len(peaks), dtype=np.int64)  # 0 wins over all others
    rank[np.lexsort((peaks, d if rule == "literal" else -d))] = np.arange(len(peaks))
    forward = rank[i] < rank[j]
    winner, loser = i[forward], j[forward]
    if rule in ("flip", "literal"):
        dropped = np.zeros(len(peaks), dtype=bool)
        dropped[loser] = True
    elif rule == "greedy":
        dropped = _greedy(winner, loser, len(peaks))
    else:
        raise InputError(f"The NMDS rule is 'greedy', 'flip' or 'literal', not '{rule}'.")
    return peaks[~dropped]


def _greedy(winner: NDArray[np.int64], loser: NDArray[np.int64], n: int) -> NDArray[np.bool_]:
    """Which of n peaks a visit in the order of their ranks drops, given the pairs that overlap.

    A peak that no undecided one wins over is kept and drops those that it wins over; repeated, this is the visit, with
    as many rounds as the longest chain of wins instead of one step a peak.
    """
    dropped = np.zeros(n, dtype=bool)
    while len(winner):
        waits = np.zeros(n, dtype=bool)
        waits[loser] = True
        dropped[loser[~waits[winner]]] = True
        # Dropped peaks decide nothing any more, and the pairs of a kept one have done their work.
        open_pair = ~dropped[winner] & ~dropped[loser]
        winner, loser = winner[open_pair], loser[open_pair]
    return dropped


def _checked_density(density: NDArray[np.floating], n: int) -> NDArray[np.floating]:
    density = np.asarray(density)
    if density.shape != (n,):
        raise InputError(f"There are {n} items but densities of shape {density.shape}; give one for each.")
    if np.isnan(density).any():
        raise InputError("The density holds NaN.")
    return density
