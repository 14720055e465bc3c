"""From a model's own confidence to the probability that a label is right, learnt on items whose answer people gave.

Platt scaling with a second term. A label is right more often where the largest probability is high, and where many
items have it: small categories are the ones that are split, merged or made up. Known classes and novel categories have
a map each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.logistic import newton

LEAST = 30  # items below which nothing is learnt
SURE = 0.5  # a label that is more likely wrong than right is unsure
FOLDS, BINS = 5, 15
BIN_LEAST = 50  # items in a bin of the calibration error
CLIP = 1e-6
PENALTY = 1.0  # on the squares of a map's slopes, for columns of unit variance

Map = tuple[float, float, float]


@dataclass(frozen=True)
class Calibration:
    """P(right) = σ(offset + slope · log-odds of the confidence + by_size · log size of the category).

    Attributes
    ----------
    known, novel : Map
        Offset, slope and by_size for known classes and for novel categories; one map for both where either had too few
        items. The slope is never negative.
    n, n_novel : int
        Rows that the maps were learnt on, and how many of them were said to be novel.
    error, error_before : float
        Expected calibration error of the confidences, with the maps (each item judged by maps that were learnt without
        it) and without.
    chance : float
        Error that perfectly calibrated confidences would show on as many items: the noise of small bins. More is to be
        expected where whole classes are right or wrong together.
    reliability : tuple of (float, float, float)
        The bins of `error`, by rising confidence: mean confidence, share that is right, and share of all items. Empty
        in models of before it was kept.
    """

    known: Map
    novel: Map
    n: int
    n_novel: int
    error: float
    error_before: float
    chance: float
    reliability: tuple[tuple[float, float, float], ...] = ()

    @staticmethod
    def read(described: Any) -> Calibration:  # noqa: ANN401 - as a file holds it
        """From a table of its attributes, as a file holds them; a damaged one is one sentence."""
        try:
            maps = {name: tuple(float(number) for number in described[name]) for name in ("known", "novel")}
            counts = {name: int(described[name]) for name in ("n", "n_novel")}
            errors = {name: float(described[name]) for name in ("error", "error_before", "chance")}
            known, novel = maps.values()
            bins = tuple((float(p), float(right), float(w)) for p, right, w in described.get("reliability", ()))
            numbers = [*known, *novel, *errors.values(), *(number for part in bins for number in part)]
            if len(known) == len(novel) == 3 and np.isfinite(numbers).all():
                return Calibration(**maps, **counts, **errors, reliability=bins)  # type: ignore[arg-type]
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            pass
        raise InputError("The model's calibration is damaged; train again in a new folder.")

    def apply(
        self, confidence: NDArray[np.floating], novel: NDArray[np.bool_], size: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        """Probability that labels are right (n,), of this confidence and in categories of this size."""
        return _applied((self.known, self.novel), _columns(confidence, size), novel).astype(np.float32)


def learn_calibration(
    confidence: NDArray[np.floating],
    right: NDArray[np.bool_],
    novel: NDArray[np.bool_],
    size: NDArray[np.integer],
    classes: NDArray[np.integer],
    items: NDArray[np.integer],
    weights: NDArray[np.floating] | None = None,
    random_state: int = 0,
) -> Calibration | None:
    """Learn the maps from items (n,) whose label is right or not, or return None where there are too few of them.

    Parameters
    ----------
    confidence : ndarray, shape (n,)
        The model's largest probability.
    right, novel : ndarray of bool, shape (n,)
        Whether its label is right, and whether that is a novel category.
    size : ndarray of int, shape (n,)
        Unlabelled items that got the same label.
    classes : ndarray of int, shape (n,)
        Class that people gave each item: what sizes teach is worth as much as there are classes, not items.
    items : ndarray of int, shape (n,)
        Which item each row is about; rows about the same one are judged together.
    weights : ndarray, shape (n,), optional
        How many of the items that the maps are for each of these stands for.
    random_state : int
        Seed of the folds by which the error is judged.
    """
    n = len(right)
    if n < LEAST:
        return None
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    x = _columns(confidence, size)
    apart = _two_maps(novel, w)
    distinct, item = np.unique(items, return_inverse=True)
    fold = (np.random.RandomState(random_state).permutation(len(distinct)) % FOLDS)[item]
    judged = np.empty(n)
    for part in range(FOLDS):
        rest, own = fold != part, fold == part
        maps = _maps(x[rest], right[rest], novel[rest], classes[rest], w[rest], apart)
        judged[own] = _applied(maps, x[own], novel[own])
    errors = (calibration_error(judged, right, w), calibration_error(confidence, right, w))
    # Rows about the same item are right or wrong together, so that there are fewer chances than rows.
    chance = chance_error(judged, w) * np.sqrt(n / len(distinct))
    maps = _maps(x, right, novel, classes, w, apart)
    return Calibration(*maps, n, int(novel.sum()), *errors, float(chance), reliability(judged, right, w))


def _columns(confidence: NDArray[np.floating], size: NDArray[np.integer]) -> NDArray[np.float64]:
    """What a map multiplies (n, 2): the log-odds of the confidence, and the log-size of the category."""
    p = np.clip(np.asarray(confidence, dtype=np.float64), CLIP, 1 - CLIP)
    return np.stack([np.log(p) - np.log1p(-p), np.log1p(np.asarray(size, dtype=np.float64))], axis=1)


def _two_maps(novel: NDArray[np.bool_], w: NDArray[np.float64]) -> bool:
    """Whether there is enough to learn known and novel labels apart."""
    return all(part.sum() >= LEAST and w[part].sum() > 0 for part in (novel, ~novel))


def _maps(
    x: NDArray[np.float64],
    right: NDArray[np.bool_],
    novel: NDArray[np.bool_],
    classes: NDArray[np.integer],
    w: NDArray[np.float64],
    apart: bool,
) -> tuple[Map, Map]:
    """A map for known and one for novel labels, or one for both."""
    parts = [novel == side for side in (False, True)]
    if not apart or not all(w[part].sum() for part in parts):
        both = _platt(x, right, classes, w)
        return both, both
    of_known, of_novel = (_platt(x[part], right[part], classes[part], w[part]) for part in parts)
    return of_known, of_novel


def _applied(maps: tuple[Map, Map], x: NDArray[np.float64], novel: NDArray[np.bool_]) -> NDArray[np.float64]:
    offset, slope, by_size = np.array(maps)[np.asarray(novel, dtype=np.int64)].T
    return np.asarray(1 / (1 + np.exp(-(offset + slope * x[:, 0] + by_size * x[:, 1]))), dtype=np.float64)


def calibration_error(
    confidence: NDArray[np.floating], right: NDArray[np.bool_], weights: NDArray[np.float64] | None = None
) -> float:
    """Expected calibration error: Σ_b w_b · |share right in b − mean confidence in b| over bins of equal number."""
    w = np.ones(len(right)) if weights is None else weights
    gaps = [abs(float((w[part] * (right[part] - confidence[part])).sum())) for part in _bins(confidence)]
    return float(sum(gaps) / max(float(w.sum()), CLIP))


def reliability(
    confidence: NDArray[np.floating], right: NDArray[np.bool_], weights: NDArray[np.float64]
) -> tuple[tuple[float, float, float], ...]:
    """Mean confidence, share right and share of all items, for each bin of `calibration_error` that weighs anything."""
    total, found = float(weights.sum()), []
    for part in _bins(confidence):
        w = weights[part]
        if (own := float(w.sum())) > 0:
            means = float((w * confidence[part]).sum()) / own, float((w * right[part]).sum()) / own
            found.append((*means, own / total))
    return tuple(found)


def chance_error(confidence: NDArray[np.floating], weights: NDArray[np.float64] | None = None) -> float:
    """Calibration error that is expected of perfect confidences: E|x| of a normal x with each bin's variance."""
    w = np.ones(len(confidence)) if weights is None else weights
    spread = [float((w[part] ** 2 * confidence[part] * (1 - confidence[part])).sum()) for part in _bins(confidence)]
    return float(np.sqrt(2 / np.pi) * np.sqrt(spread).sum() / max(float(w.sum()), CLIP))


def _bins(confidence: NDArray[np.floating]) -> list[NDArray[np.int64]]:
    """Rows by rising confidence, in bins of equal number.

    Not of equal width: confidences crowd near 1, and an empty bin says nothing. With few items in each, the gap would
    be the noise of a small sample.
    """
    order = np.argsort(confidence, kind="stable")
    return np.array_split(order, min(BINS, max(1, len(order) // BIN_LEAST)))


def _platt(
    x: NDArray[np.float64], right: NDArray[np.bool_], classes: NDArray[np.integer], weights: NDArray[np.float64]
) -> Map:
    """Offset and slopes, with Platt's soft targets: finite also where all items are right, or all wrong."""
    w = weights * len(weights) / weights.sum()  # a mean of one: the soft targets count items
    n_right, n_wrong = float(w[right].sum()), float(w[~right].sum())
    target = np.where(right, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))
    share = np.concatenate([w * target, w * (1 - target)])
    mean = np.average(x, axis=0, weights=w)
    scale = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=w))
    scale[scale < CLIP] = np.inf  # a column that is the same everywhere tells nothing
    # Items of a class are in few categories, whose size they have in common: a smaller column is a stronger penalty.
    scale[1] *= np.sqrt(len(x) / len(np.unique(classes)))
    slopes = np.zeros(2)
    # Where confidence speaks against a label it says nothing: then the size alone decides, or nothing does.
    for used in ([0, 1], [1]):
        columns = np.concatenate([((x - mean) / scale)[:, used].T, np.ones((1, len(x)))])
        pull = np.append(np.full(len(used), PENALTY), 0.0)
        both = np.repeat([1, 0], len(x))  # each item counts as right by its soft target, and as wrong by the rest
        b = newton(np.tile(columns, 2), both, share[None], pull, np.zeros(len(pull)))[0]
        if used == [1] or b[0] >= 0:
            slopes[used] = b[:-1] / scale[used]
            break
    return float(b[-1] - slopes @ mean), float(slopes[0]), float(slopes[1])
