from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.calibration import LEAST, calibrate, calibration_error


def draw(n: int, seed: int, over: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Confidences that are `over` times too sure in log-odds, and whether the label is right."""
    random = np.random.RandomState(seed)
    z = random.normal(1.0, 1.5, n)
    return 1 / (1 + np.exp(-over * z)), random.rand(n) < 1 / (1 + np.exp(-z))


def test_calibration_error_by_hand():
    confidence = np.concatenate([np.full(50, 0.9), np.full(50, 0.6)])
    right = np.concatenate([np.arange(50) < 40, np.arange(50) < 30])  # 0.8 and 0.6 of them
    assert calibration_error(confidence, right) == pytest.approx(0.5 * 0.1 + 0.5 * 0.0)
    assert calibration_error(np.array([]), np.array([], dtype=bool)) == 0.0


def test_an_overconfident_model_is_mended():
    confidence, right = draw(4000, 0, over=3.0)
    found = calibrate(confidence, right)
    assert found.slope == pytest.approx(1 / 3, abs=0.03)
    assert found.offset == pytest.approx(0, abs=0.15)
    assert found.error_before > 0.1
    assert found.error < 0.03
    fresh, right = draw(4000, 1, over=3.0)
    assert calibration_error(found.apply(fresh), right) < 0.03


def test_a_calibrated_model_is_left_alone():
    found = calibrate(*draw(4000, 2))
    assert found.slope == pytest.approx(1, abs=0.1)
    assert found.error < 0.03


def test_too_few_items_teach_nothing():
    assert calibrate(*draw(LEAST - 1, 0)) is None
    assert calibrate(*draw(LEAST, 0)) is not None


@settings(deadline=None)
@given(st.integers(0, 100), st.sampled_from(["all right", "all wrong", "upside down", "constant"]))
def test_odd_cases_stay_probabilities_and_in_order(seed, case):
    confidence, right = draw(60, seed)
    if case == "all right":
        right[:] = True
    elif case == "all wrong":
        right[:] = False
    elif case == "upside down":
        right = confidence < np.median(confidence)
    else:
        confidence[:] = 1.0
    found = calibrate(confidence, right)
    grid = found.apply(np.linspace(0, 1, 50))
    assert np.isfinite(grid).all()
    assert ((grid > 0) & (grid < 1)).all()
    assert (np.diff(grid) >= 0).all(), "more confidence never means less"
    if case == "all right":
        assert found.apply(confidence).mean() > 0.9
    if case == "all wrong":
        assert found.apply(confidence).mean() < 0.1


def test_chance_is_what_perfect_confidences_would_show() -> None:
    """Few items, large bins of noise: a perfect model is as far off as `chance` says, and far less with many items."""
    random = np.random.RandomState(0)
    shown, said = [], []
    for n in (400, 20_000):
        p = random.uniform(0.3, 0.95, n)
        errors = [calibration_error(p, random.rand(n) < p) for _ in range(30)]
        found = calibrate(p, random.rand(n) < p)
        assert found is not None
        shown.append(float(np.mean(errors)))
        said.append(found.chance)
    assert said == pytest.approx(shown, rel=0.2)
    assert said[1] < said[0] / 3
