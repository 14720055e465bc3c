"""Density of every item on the kNN graph: d_i = mean over its neighbours of e_ij · a_ij.

Paper §3.3, docs/methods.md §6.1. a_ij is the cosine of two neighbours and e_ij = 2 p_i·p_j − 1 their connectivity under
a classifier. p_i·p_j is the probability that both are of one class, so e_ij stands for HiLander's linkage, +1 for the
same class and −1 otherwise. A diffuse classifier breaks it: over K classes p_i·p_j falls to 1/K even for twins, every
e_ij nears −1, the density turns upside down and outliers become its peaks (3,540 instead of 113 among 14,671 items).
`judge_classifier` notices that on labelled neighbours, says at which temperature the classifier can be used, or that
the density does without it, and why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from ltgcd.common.errors import InputError
from ltgcd.common.numerics import softmax
from ltgcd.common.tables import WHOLE, Table, TopClasses
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.knn import NeighbourGraph

K_NEIGHBOURS = 10  # the paper's k
BUFFER = 64 * 2**20  # bytes of a gather of probabilities
MIN_PAIRS = 20  # same-class labelled neighbour pairs below which nothing can be said about the classifier
MAX_PAIRS = 20_000  # pairs that the search for a temperature looks at
TEMPERATURES = (1e-3, 1e1)  # bounds of that search

Form = Literal["classifier", "calibrated", "affinity"]


@dataclass(frozen=True)
class DensityReport:
    """What labelled neighbours say about a classifier.

    Attributes
    ----------
    form : {"classifier", "calibrated", "affinity"}
        What the density is to be of: classifier as given, classifier at another temperature, or the mean cosine alone.
    temperature : float
        To divide the logits by; 1.0 unless `form` is ``calibrated``.
    n_same, n_different : int
        Labelled neighbour pairs of one class and of two.
    same_before, same_after : float or None
        Mean e_ij of the same-class pairs with the classifier as given and at its best temperature, where one was
        looked for; None without such pairs.
    different_before, different_after : float or None
        The same for pairs of two classes.
    """

    form: Form
    temperature: float
    n_same: int
    n_different: int
    same_before: float | None
    same_after: float | None
    different_before: float | None
    different_after: float | None

    @property
    def sentence(self) -> str:
        """The same for people."""
        name = {
            "classifier": "the density uses the classifier as given",
            "calibrated": "the density uses the classifier at another temperature",
            "affinity": "the density uses the mean cosine alone, without the classifier",
        }[self.form]
        if self.n_same < MIN_PAIRS or self.same_before is None:
            return f"{name}: only {self.n_same} labelled neighbour pairs share a class, too few to check it by"
        why = f"{name}: labelled neighbours of one class have mean connectivity {self.same_before:+.2f}"
        if self.form == "classifier":
            return why
        mended = f"at {self.temperature:.3g} times the temperature it is {self.same_after:+.2f}"
        return f"{why}, which would turn it over; {'no temperature mends that' if self.form == 'affinity' else mended}"


# ---------------------------------------------------------------- density


def connectivity(
    graph: NeighbourGraph, p: NDArray[np.floating] | TopClasses, k: int = K_NEIGHBOURS
) -> NDArray[np.float32]:
    """e_ij = 2 p_i·p_j − 1 of every item and its k nearest neighbours, shape (N, k), in [-1, 1].

    Parameters
    ----------
    graph : NeighbourGraph
        At least `k` neighbours an item.
    p : ndarray, shape (N, K), or TopClasses
        Class probabilities; rows sum to 1. Or the most likely classes of each item, of many.
    k : int
        Neighbours to take.
    """
    graph = graph.first(k)
    if isinstance(p, TopClasses):
        return _sparse_connectivity(graph, p)
    p = np.asarray(p)
    _check_rows(graph, p, "Class probabilities")
    e = np.empty(graph.indices.shape, dtype=np.float32)
    step = max(1, BUFFER // (4 * p.shape[1] * (graph.k + 1)))
    for start in range(0, graph.n, step):
        own = p[start : start + step].astype(np.float32)
        if not (np.abs(own.sum(axis=1) - 1) < 1e-2).all() or own.min() < -1e-3:
            raise InputError("Class probabilities must be 0 or more and sum to 1 in every row; apply a softmax first.")
        others = p[graph.indices[start : start + step]].astype(np.float32, copy=False)
        # einsum adds up each pair by itself, so that equal pairs give equal bits wherever they stand in a block.
        e[start : start + step] = np.einsum("nkc,nc->nk", others, own)
    e *= 2
    e -= 1
    return e


def _sparse_connectivity(graph: NeighbourGraph, p: TopClasses) -> NDArray[np.float32]:
    e = np.empty(graph.indices.shape, dtype=np.float32)
    step = max(1, BUFFER // (4 * (p.k + 3 * graph.k * p.p.shape[1])))
    for start in range(0, graph.n, step):
        near = graph.indices[start : start + step]
        e[start : start + step] = 2 * p.products(np.arange(start, start + len(near)), near) - 1
    return e


def density(
    graph: NeighbourGraph, p: NDArray[np.floating] | TopClasses | None = None, k: int = K_NEIGHBOURS
) -> NDArray[np.float32]:
    """Eq. 7: d_i = (1/k) Σ_j e_ij · a_ij over the k nearest neighbours of each item, shape (N,).

    Without `p` the affinity alone, d_i = (1/k) Σ_j a_ij. An item without neighbours (N = 1) has density 0.

    Parameters
    ----------
    graph : NeighbourGraph
        At least `k` neighbours an item.
    p : ndarray, shape (N, K), or TopClasses, optional
        Class probabilities; rows sum to 1.
    k : int
        Neighbours to take.
    """
    graph = graph.first(k)
    if graph.k == 0:
        return np.zeros(graph.n, dtype=np.float32)
    weight = np.ones((1, 1), dtype=np.float32) if p is None else connectivity(graph, p, k)
    # Summed in float64 and rounded: the order of tied neighbours must not turn a tie of densities into a difference.
    total: NDArray[np.float64] = np.sum(weight * graph.similarities, axis=1, dtype=np.float64)
    return (total / graph.k).astype(np.float32)


# ---------------------------------------------------------------- calibration


def judge_classifier(
    graph: NeighbourGraph,
    logits: Table,
    y: NDArray[np.int64],
    k: int = K_NEIGHBOURS,
    *,
    random_state: int = 0,
) -> DensityReport:
    """Ask labelled neighbours which density a classifier is good for.

    If same-class labelled neighbours have a mean e_ij ≥ 0, the classifier is used as it is. If not, its temperature
    is set to the one that minimises the Brier score of p_i·p_j as the probability of one class, on labelled neighbour
    pairs with same-class and other pairs weighing half each: the least squares fit of e_ij to HiLander's ±1. If there
    are fewer than `MIN_PAIRS` same-class pairs, or if no temperature makes their mean e_ij positive and higher than
    that of the other pairs, the density is the affinity alone.

    Parameters
    ----------
    graph : NeighbourGraph
        Over D^l or more, at least `k` neighbours an item.
    logits : array or RowTable, shape (N, K)
        Logits of the classifier, or the logarithm of its probabilities. Only those of labelled neighbours are read.
    y : ndarray of int64, shape (N,)
        Labels, -1 for D^u.
    k : int
        Neighbours to take.
    random_state : int
        Seed of the draw where there are more than `MAX_PAIRS` labelled pairs, or than a table of a few hundred MB
        holds the logits of.
    """
    graph, y = graph.first(k), np.asarray(y)
    _check_rows(graph, logits, "Logits")
    if y.shape != (graph.n,):
        raise InputError(f"There are {graph.n} items but labels of shape {y.shape}; give one for each, -1 if unknown.")
    pairs, same = _labelled_pairs(graph, y)
    n_same, n_different = int(same.sum()), int((~same).sum())
    most = min(MAX_PAIRS, max(MIN_PAIRS, WHOLE // (2 * logits.shape[1])))
    if len(pairs) > most:
        drawn = np.sort(np.random.RandomState(random_state).permutation(len(pairs))[:most])
        pairs, same = pairs[drawn], same[drawn]
    items, place = np.unique(pairs, return_inverse=True)
    own, pairs = logits[items], place.reshape(pairs.shape)
    if np.isnan(own.max(initial=-np.inf)) or own.max(initial=-np.inf) == np.inf:
        raise InputError("The logits hold NaN or infinity.")

    def mean_e(temperature: float) -> tuple[float | None, float | None]:
        e = _pair_connectivity(own, pairs, temperature)
        return (float(e[same].mean()) if same.any() else None, float(e[~same].mean()) if not same.all() else None)

    before = after = mean_e(1.0)
    form: Form = "affinity"
    temperature = 1.0
    if n_same >= MIN_PAIRS and before[0] is not None:
        if before[0] >= 0:
            form = "classifier"
        else:
            best = _best_temperature(own, pairs, same)
            after = mean_e(best)
            if after[0] is not None and after[0] > max(0.0, -1.0 if after[1] is None else after[1]):
                form, temperature = "calibrated", best
    return DensityReport(form, temperature, n_same, n_different, before[0], after[0], before[1], after[1])


def _labelled_pairs(graph: NeighbourGraph, y: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Pairs (i, j) of labelled items with j among the neighbours of i, shape (M, 2), and whether they share a class."""
    i, column = np.nonzero((y[:, None] != UNLABELLED) & (y[graph.indices] != UNLABELLED))
    j = graph.indices[i, column]
    return np.stack([i, j], axis=1), y[i] == y[j]


def _pair_connectivity(
    logits: NDArray[np.floating], pairs: NDArray[np.int64], temperature: float
) -> NDArray[np.float64]:
    """e_ij of some pairs, shape (M,)."""
    e = np.empty(len(pairs))
    step = max(1, BUFFER // (16 * logits.shape[1]))
    for start in range(0, len(pairs), step):
        i, j = pairs[start : start + step].T
        e[start : start + step] = np.einsum(
            "nc,nc->n", softmax(logits[i], temperature), softmax(logits[j], temperature)
        )
    return 2 * e - 1


def _best_temperature(logits: NDArray[np.floating], pairs: NDArray[np.int64], same: NDArray[np.bool_]) -> float:
    """Temperature with the least squared difference of e_ij from ±1, same and different pairs weighing half each."""

    def score(log_temperature: float) -> float:
        e = _pair_connectivity(logits, pairs, float(np.exp(log_temperature)))
        return float(sum(np.mean((e[m] - sign) ** 2) for m, sign in ((same, 1), (~same, -1)) if m.any()))

    # The score is flat where p is one-hot and where it is uniform: a grid finds the valley, a bounded search its floor.
    grid = np.linspace(np.log(TEMPERATURES[0]), np.log(TEMPERATURES[1]), 25)
    best = int(np.argmin([score(t) for t in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    refined = minimize_scalar(score, bounds=(low, high), method="bounded", options={"xatol": 0.02})
    return float(np.exp(refined.x if refined.fun < score(grid[best]) else grid[best]))


def _check_rows(graph: NeighbourGraph, table: Table, name: str) -> None:
    kind = table.dtype.kind if isinstance(table, np.ndarray) else "f"
    if len(table.shape) != 2 or table.shape[0] != graph.n or table.shape[1] == 0 or kind != "f":
        raise InputError(
            f"{name} must be a table of decimal numbers with a row for each of the {graph.n} items, "
            f"but have shape {table.shape}."
        )
