"""How many classes? Search for the K that clusters the labelled items best, with the whole curve as evidence."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from ltgcd.collection import UNLABELLED
from ltgcd.errors import InputError
from ltgcd.matching import confusion, match
from ltgcd.methods import kmeans


@dataclass(frozen=True, eq=False)
class KEstimate:
    """An estimated number of classes.

    Attributes
    ----------
    method : str
        Name of the estimator.
    k : int
        The estimate.
    curve : tuple of (int, float)
        Every K that was tried, ascending, with its score (labelled ACC in percent).
    labels : ndarray of int64, shape (N,)
        Clusters at `k`.
    seconds : float
        Time it took.
    evidence : dict
        Bounds of the search and the number of evaluations.
    """

    method: str
    k: int
    curve: tuple[tuple[int, float], ...]
    labels: NDArray[np.int64]
    seconds: float
    evidence: dict[str, Any] = field(default_factory=dict)


def labelled_accuracy(clusters: NDArray[np.int64], y: NDArray[np.int64], *, balanced: bool) -> float:
    """ACC of the labelled items after a Hungarian matching, in percent; `balanced` takes the mean over classes."""
    labelled = y != UNLABELLED
    w = confusion(y[labelled], clusters[labelled])
    matched, sizes = match(w), w.sum(axis=1)
    return float(100.0 * ((matched / sizes).mean() if balanced else matched.sum() / sizes.sum()))


def kmeans_brent(
    x: NDArray[np.floating], y: NDArray[np.int64], n_old: int, *, k_max: int | None = None, random_state: int = 0
) -> KEstimate:
    """Vaze et al.: bounded Brent over K on the Hungarian ACC of the labelled items after plain k-means (METHODS §4).

    Labels are not used inside the clustering. The objective is constant between integers, so it is remembered for
    each, and the best K that was ever evaluated is returned rather than the last.

    Parameters
    ----------
    x : ndarray, shape (N, D)
        Features of D^l ∪ D^u.
    y : ndarray of int64, shape (N,)
        Labels, -1 for unlabelled.
    n_old : int
        Number of known classes: the lower bound.
    k_max : int, optional
        Upper bound; by default the reference's 1000, or a fifth of the items where there are fewer.
    random_state : int
        Seed of every k-means.
    """
    upper = min(1000, max(n_old + 1, len(x) // 5)) if k_max is None else k_max
    search = _KmeansSearch(x, y, n_old, upper, random_state, balanced=False)
    search.score(n_old)  # SciPy's bounded search never evaluates its end-points
    minimize_scalar(lambda k: -search.score(int(k)), bounds=(n_old, upper), method="bounded", options={"xatol": 0.5})
    return search.estimate("kmeans-brent")


def kmeans_balanced(
    x: NDArray[np.floating], y: NDArray[np.int64], n_old: int, *, k_max: int | None = None, random_state: int = 0
) -> KEstimate:
    """The same search made fit for a long tail: balanced labelled ACC, and every K up to `k_max` (4·n_old by default).

    Instance ACC is decided by the head classes, and its best K lies far too low under a long tail (FINDINGS.md).
    """
    upper = min(4 * n_old, len(x)) if k_max is None else k_max
    search = _KmeansSearch(x, y, n_old, upper, random_state, balanced=True)
    for k in range(n_old, upper + 1):
        search.score(k)
    return search.estimate("kmeans-balanced")


ESTIMATORS = {"kmeans-brent": kmeans_brent, "kmeans-balanced": kmeans_balanced}


class _KmeansSearch:
    """Scores of the K tried so far, each clustered once."""

    def __init__(
        self,
        x: NDArray[np.floating],
        y: NDArray[np.int64],
        n_old: int,
        upper: int,
        random_state: int,
        *,
        balanced: bool,
    ) -> None:
        if upper <= n_old:
            raise InputError(f"The largest number of classes ({upper}) must be above the {n_old} known ones.")
        self.started = time.perf_counter()
        self.unit, self.y, self.bounds = kmeans.normalise(x), y, (n_old, upper)
        self.random_state, self.balanced = random_state, balanced
        self.seen: dict[int, tuple[float, NDArray[np.int64]]] = {}

    def score(self, k: int) -> float:
        if k not in self.seen:
            clusters = kmeans.cluster(self.unit, k, self.random_state).labels_.astype(np.int64)
            self.seen[k] = (labelled_accuracy(clusters, self.y, balanced=self.balanced), clusters)
        return self.seen[k][0]

    def estimate(self, method: str) -> KEstimate:
        best = max(self.seen, key=lambda k: (self.seen[k][0], -k))
        curve = tuple((k, round(self.seen[k][0], 4)) for k in sorted(self.seen))
        evidence = {"k_lower": self.bounds[0], "k_upper": self.bounds[1], "evaluations": len(self.seen)}
        return KEstimate(method, best, curve, self.seen[best][1], time.perf_counter() - self.started, evidence)
