"""From a model's own confidence to the probability that a label is right, learnt on held-out labelled items.

Platt scaling of the log-odds of the largest probability. Held-out items are of known classes, the only ones whose truth
a person has; items of novel classes get the same map, for want of a better one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

LEAST = 30  # held-out items below which nothing is learnt
SURE = 0.5  # a label that is more likely wrong than right is unsure
FOLDS, BINS = 5, 15
BIN_LEAST = 50  # items in a bin of the calibration error
CLIP = 1e-6


@dataclass(frozen=True)
class Calibration:
    """P(right) = σ(slope · log-odds of the confidence + offset).

    Attributes
    ----------
    slope, offset : float
        Of the map; the slope is never negative.
    n : int
        Held-out items that it was learnt on.
    error, error_before : float
        Expected calibration error of the confidences, with the map (each item judged by a map that was learnt without
        it) and without.
    chance : float
        Error that perfectly calibrated confidences would show on as many items: the noise of small bins.
    """

    slope: float
    offset: float
    n: int
    error: float
    error_before: float
    chance: float = 0.0

    def apply(self, confidence: NDArray[np.floating]) -> NDArray[np.float32]:
        """Probability that a label of this confidence is right."""
        z = self.slope * _log_odds(confidence) + self.offset
        return np.asarray(1 / (1 + np.exp(-z)), dtype=np.float32)


def calibrate(confidence: NDArray[np.floating], right: NDArray[np.bool_], random_state: int = 0) -> Calibration | None:
    """Learn the map from held-out items (n,), or None where there are too few of them."""
    n = len(right)
    if n < LEAST:
        return None
    fold = np.random.RandomState(random_state).permutation(n) % FOLDS
    judged = np.empty(n)
    for part in range(FOLDS):
        slope, offset = _platt(confidence[fold != part], right[fold != part])
        judged[fold == part] = 1 / (1 + np.exp(-(slope * _log_odds(confidence[fold == part]) + offset)))
    slope, offset = _platt(confidence, right)
    errors = (calibration_error(judged, right), calibration_error(confidence, right))
    return Calibration(slope, offset, n, *errors, chance_error(judged))


def calibration_error(confidence: NDArray[np.floating], right: NDArray[np.bool_], bins: int = BINS) -> float:
    """Expected calibration error: Σ_b n_b/n · |share right in b − mean confidence in b| over bins of equal number."""
    gaps = [abs(float(right[part].sum()) - float(confidence[part].sum())) for part in _bins(confidence, bins)]
    return float(sum(gaps) / max(len(right), 1))


def chance_error(confidence: NDArray[np.floating], bins: int = BINS) -> float:
    """Calibration error that is expected of perfect confidences: E|x| of a normal x with each bin's variance."""
    spread = [float((confidence[part] * (1 - confidence[part])).sum()) for part in _bins(confidence, bins)]
    return float(np.sqrt(2 / np.pi) * np.sqrt(spread).sum() / max(len(confidence), 1))


def _bins(confidence: NDArray[np.floating], bins: int) -> list[NDArray[np.int64]]:
    """Rows by rising confidence, in bins of equal number.

    Not of equal width: confidences crowd near 1, and an empty bin says nothing. With few items in each, the gap would
    be the noise of a small sample.
    """
    order = np.argsort(confidence, kind="stable")
    return np.array_split(order, min(bins, max(1, len(order) // BIN_LEAST)))


def _platt(confidence: NDArray[np.floating], right: NDArray[np.bool_]) -> tuple[float, float]:
    """Slope and offset, with Platt's soft targets: finite also where all items are right, or all wrong."""
    z = _log_odds(confidence)
    n_right, n_wrong = int(right.sum()), int((~right).sum())
    target = np.where(right, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))
    model = LogisticRegression(C=1e6).fit(
        np.tile(z, 2)[:, None], np.repeat([1, 0], len(z)), sample_weight=np.concatenate([target, 1 - target])
    )
    slope, offset = float(model.coef_[0, 0]), float(model.intercept_[0])
    if slope < 0:  # confidence says nothing about these items: the same probability for all
        return 0.0, float(np.log((n_right + 1) / (n_wrong + 1)))
    return slope, offset


def _log_odds(confidence: NDArray[np.floating]) -> NDArray[np.float64]:
    p = np.clip(np.asarray(confidence, dtype=np.float64), CLIP, 1 - CLIP)
    return np.asarray(np.log(p) - np.log1p(-p))
