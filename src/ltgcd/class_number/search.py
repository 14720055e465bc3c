"""Brent's search for the K that clusters the labelled items best: of the paper and of Vaze et al., not the default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from ltgcd.common.errors import InputError
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.matching import confusion, match

Search = Literal["bounded", "brent", "brent+scan", "exhaustive"]
Curve = tuple[tuple[int, float], ...]

SCAN = 5  # K on each side of the best that a local scan looks at


def labelled_accuracy(clusters: NDArray[np.int64], y: NDArray[np.int64], *, balanced: bool) -> float:
    """ACC of the labelled items after a Hungarian matching, in percent; `balanced` takes the mean over classes."""
    labelled = y != UNLABELLED
    w = confusion(y[labelled], clusters[labelled])
    matched, sizes = match(w), w.sum(axis=1)
    return float(100.0 * ((matched / sizes).mean() if balanced else matched.sum() / sizes.sum()))


def search_k(score: Callable[[int], float], low: int, high: int, how: Search = "brent") -> tuple[int, Curve]:
    """The K in [low, high] with the best score among those tried, the smaller at equal score, and all that were tried.

    ``bounded`` is SciPy's bounded Brent as Vaze et al. use it, which tries neither end-point. The score is constant
    between integers, so each is computed once, and steps below half a class are not taken. ``brent`` adds the
    end-points, ``brent+scan`` then looks at the neighbours of the best; ``exhaustive`` tries every K.
    """
    if not 1 <= low <= high:
        raise InputError(f"The number of classes is searched between {low} and {high}; the second must be the larger.")
    seen: dict[int, float] = {}

    def tried(k: int) -> float:
        if k not in seen:
            seen[k] = score(k)
        return seen[k]

    def best() -> int:
        return max(seen, key=lambda k: (seen[k], -k))

    if how == "exhaustive":
        for k in range(low, high + 1):
            tried(k)
    else:
        if how != "bounded" or high == low:
            tried(low)
            tried(high)
        if high > low:
            minimize_scalar(lambda k: -tried(int(k)), bounds=(low, high), method="bounded", options={"xatol": 0.5})
        if how == "brent+scan":
            centre = best()
            for k in range(max(low, centre - SCAN), min(high, centre + SCAN) + 1):
                tried(k)
    return best(), tuple((k, round(seen[k], 4)) for k in sorted(seen))
