from __future__ import annotations

import tomllib
from dataclasses import asdict

import numpy as np
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.training.calibration import LEAST, Calibration, calibration_error, learn_calibration


def draw(n: int, seed: int, over: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Confidences that are `over` times too sure in log-odds, and whether the label is right."""
    random = np.random.RandomState(seed)
    z = random.normal(1.0, 1.5, n)
    return 1 / (1 + np.exp(-over * z)), random.rand(n) < 1 / (1 + np.exp(-z))


def calibrate(confidence: np.ndarray, right: np.ndarray) -> Calibration | None:
    """All of known classes of the same size."""
    rows = np.arange(len(right))
    return learn_calibration(confidence, right, rows < 0, np.full(len(right), 20), rows, rows)


def applied(found: Calibration, confidence: np.ndarray) -> np.ndarray:
    return found.apply(confidence, np.zeros(len(confidence), dtype=bool), np.full(len(confidence), 20))


def test_calibration_error_by_hand():
    confidence = np.concatenate([np.full(50, 0.9), np.full(50, 0.6)])
    right = np.concatenate([np.arange(50) < 40, np.arange(50) < 30])  # 0.8 and 0.6 of them
    assert calibration_error(confidence, right) == pytest.approx(0.5 * 0.1 + 0.5 * 0.0)
    assert calibration_error(np.array([]), np.array([], dtype=bool)) == 0.0


def test_an_overconfident_model_is_mended():
    confidence, right = draw(4000, 0, over=3.0)
    found = calibrate(confidence, right)
    assert found.known[1] == pytest.approx(1 / 3, abs=0.03)
    assert found.known[0] == pytest.approx(0, abs=0.15)
    assert found.error_before > 0.1
    assert found.error < 0.03
    fresh, right = draw(4000, 1, over=3.0)
    assert calibration_error(applied(found, fresh), right) < 0.03


def test_a_calibrated_model_is_left_alone():
    found = calibrate(*draw(4000, 2))
    assert found.known[1] == pytest.approx(1, abs=0.1)
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
    grid = applied(found, np.linspace(0, 1, 50))
    assert np.isfinite(grid).all()
    assert ((grid > 0) & (grid < 1)).all()
    assert (np.diff(grid) >= 0).all(), "more confidence never means less"
    if case == "all right":
        assert applied(found, confidence).mean() > 0.9
    if case == "all wrong":
        assert applied(found, confidence).mean() < 0.1


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


def test_known_and_novel_labels_and_large_and_small_categories_are_told_apart() -> None:
    """P(right) is drawn from a rule; the maps find the rule again, and the error is that of chance."""
    random = np.random.RandomState(3)
    n = 20_000
    z, novel, size = random.normal(0.5, 1.5, n), random.rand(n) < 0.5, random.randint(0, 300, n)
    rule = {False: (0.3, 1.2, 0.0), True: (-2.5, 0.5, 0.4)}
    logit = np.where(novel, -2.5 + 0.5 * z + 0.4 * np.log1p(size), 0.3 + 1.2 * z)
    right = random.rand(n) < 1 / (1 + np.exp(-logit))
    found = learn_calibration(1 / (1 + np.exp(-z)), right, novel, size, *2 * (np.arange(n),))
    assert found.known == pytest.approx(rule[False], abs=0.15)
    assert found.novel == pytest.approx(rule[True], abs=0.2)
    assert found.n_novel == novel.sum()
    assert found.error < 2 * found.chance < 0.02
    assert found.error_before > 5 * found.error


def test_weights_are_repetitions() -> None:
    confidence, right = draw(300, 5)
    random = np.random.RandomState(5)
    novel, size, times = random.rand(300) < 0.4, random.randint(1, 50, 300), random.randint(1, 4, 300)
    columns = (confidence, right, novel, size, np.arange(300), np.arange(300))
    weighted = learn_calibration(*columns, times)
    again = [np.repeat(column, times) for column in columns]
    repeated = learn_calibration(*again)
    grid = (np.tile(np.linspace(0.05, 0.95, 9), 2), np.repeat([False, True], 9), np.tile([1, 10, 50], 6))
    # Not to the last digit: the soft targets and the small penalty count rows.
    np.testing.assert_allclose(weighted.apply(*grid), repeated.apply(*grid), atol=0.03)
    assert weighted.error_before == pytest.approx(repeated.error_before, abs=0.02)


def test_rows_about_one_item_are_one_chance() -> None:
    confidence, right = draw(1500, 4)
    columns = [confidence, right, np.zeros(1500, dtype=bool), np.full(1500, 9), np.arange(1500), np.arange(1500)]
    once, twice = learn_calibration(*columns), learn_calibration(*(np.tile(column, 2) for column in columns))
    assert twice.chance == pytest.approx(once.chance, rel=0.02)
    assert twice.error == pytest.approx(once.error, abs=0.005)
    columns[-1] = np.arange(3000)
    apart = learn_calibration(*(np.tile(column, 2) for column in columns[:-1]), columns[-1])
    assert apart.chance == pytest.approx(once.chance / np.sqrt(2), rel=0.02)


def test_few_novel_labels_share_the_map_of_the_known() -> None:
    confidence, right = draw(500, 6)
    novel = np.arange(500) < LEAST - 1
    found = learn_calibration(confidence, right, novel, np.full(500, 9), *2 * (np.arange(500),))
    assert found.known == found.novel


def test_sizes_of_few_categories_teach_little() -> None:
    """The same items, of two classes or of hundreds: what only two categories say about size is no rule."""
    random = np.random.RandomState(8)
    n = 600
    size = np.where(np.arange(n) < n // 2, 20, 200)
    right = random.rand(n) < np.where(size == 20, 0.3, 0.9)
    columns = (np.full(n, 0.8), right, np.ones(n, dtype=bool), size)
    two, many = (
        learn_calibration(*columns, classes, np.arange(n)) for classes in ((size > 20).astype(int), np.arange(n))
    )
    assert many.novel[2] > 1.0
    assert 0 < two.novel[2] < many.novel[2] / 2


def test_it_can_be_written_and_read() -> None:
    confidence, right = draw(200, 9)
    found = learn_calibration(confidence, right, np.arange(200) % 2 == 0, np.arange(200), *2 * (np.arange(200),))
    assert found.known != found.novel
    assert Calibration.read(tomllib.loads(tomli_w.dumps(asdict(found)))) == found
