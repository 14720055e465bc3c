from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.experiments import changed, preset
from ltgcd.fitting import Task, fit_model
from ltgcd.rehearsal import HELD_OUT, PARTS, hide, judge, rehearse

EXPERIMENT = changed(preset("ltgcd", "frozen"), {"schedule.epochs": 3})


def blobs(spread: float, n_classes: int = 12, n_each: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(seed)
    true = np.repeat(np.arange(n_classes), n_each)
    centres = random.randn(n_classes, 16)
    return (centres[true] + spread * random.randn(len(true), 16)).astype(np.float32), true


def half_labelled(true: np.ndarray, n_old: int, seed: int = 0) -> np.ndarray:
    return np.where((true < n_old) & (np.random.RandomState(seed).rand(len(true)) < 0.5), true, -1)


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(0, 3), st.integers(0, 50))
def test_what_is_hidden(n_old: int, part: int, seed: int) -> None:
    x, true = blobs(0.3)
    y = half_labelled(true, n_old, seed)
    problem = hide(Task(x, y, n_old, 14, seed), part)
    asked = np.zeros(len(y), dtype=bool)
    asked[problem.asked] = True
    assert not (asked & (y == -1)).any(), "only items that people labelled are asked for"
    np.testing.assert_array_equal(problem.y[asked], -1)
    left = ~asked & (y >= 0)
    np.testing.assert_array_equal(problem.visible[problem.y[left]], y[left])
    hidden = np.setdiff1d(np.arange(n_old), problem.visible)
    assert np.isin(y, hidden)[asked].sum() == np.isin(y, hidden).sum(), "a hidden class has no label left"
    if n_old < PARTS:
        assert not len(hidden)
    else:
        assert len(hidden) in (n_old // PARTS, -(-n_old // PARTS))
    shown = np.isin(y, problem.visible)
    assert (asked & shown).sum() == pytest.approx(HELD_OUT * shown.sum(), abs=n_old)


def test_the_parts_hide_every_class_once_and_none_where_nothing_is_novel() -> None:
    x, true = blobs(0.3)
    task = Task(x, half_labelled(true, 10), 10, 12, 0)
    hidden = [np.setdiff1d(np.arange(10), hide(task, part).visible) for part in range(PARTS)]
    assert sorted(np.concatenate(hidden)) == list(range(10))
    assert len(hide(task._replace(k=10), 0).visible) == 10


def test_judged_by_hand() -> None:
    """Classes 2 and 5 are known, 3 and 4 hidden; said are 0 and 1 (known) and the novel 2, 3 and 4."""
    visible = np.array([2, 5])
    labels = np.array([2, 2, 5, 5, 3, 3, 3, 4, 4, 4])
    said = np.array([0, 1, 1, 4, 2, 2, 3, 2, 3, 0])
    p = np.full((10, 5), 0.1, dtype=np.float32)
    p[np.arange(10), said] = 0.6
    got = judge(p, np.array([7, 8, 9, 10, 11]), labels, visible)
    # 3 is matched to 2 (two of its items) and 4 to 3 (one of its items); together three, no other matching has more.
    np.testing.assert_array_equal(got.right, [1, 0, 1, 0, 1, 1, 0, 0, 1, 0])
    np.testing.assert_array_equal(got.novel, said >= 2)
    np.testing.assert_array_equal(got.classes, labels)
    np.testing.assert_array_equal(got.hidden, np.isin(labels, [3, 4]))
    np.testing.assert_array_equal(got.size, np.array([7, 8, 9, 10, 11])[said])
    np.testing.assert_allclose(got.confidence, 0.6)


def test_the_confidence_of_novel_items_is_worth_what_it_says() -> None:
    """On overlapping blobs, by the truth of D^u, which nothing saw: calibrated far better than the model's own."""
    x, true = blobs(1.0, n_classes=24, n_each=60)
    y = half_labelled(true, 14)
    task = Task(x, y, 14, 24, 0)
    fit = fit_model(task, EXPERIMENT)
    free = y == -1
    said = fit.probabilities.argmax(axis=1)
    found = rehearse(task, EXPERIMENT, float((said[free] >= 14).mean()), 2)
    assert found is not None
    own = fit.probabilities.max(axis=1)[free]
    judged = found.apply(own, said[free] >= 14, fit.fitted.sizes[said[free]])
    problem = judge(fit.probabilities[free], fit.fitted.sizes, true[free], np.arange(14))
    off = [abs(float((p - problem.right).mean())) for p in (judged, own)]
    assert off[0] < 0.08
    assert off[0] < off[1]


def test_too_few_labels_teach_nothing_and_two_runs_say_the_same() -> None:
    x, true = blobs(0.3, n_classes=6)
    few = np.full(len(x), -1)
    few[::40] = true[::40]
    few[1::40] = true[1::40]
    few[few >= 4] = -1
    assert rehearse(Task(x, few, 4, 6, 0), EXPERIMENT, 0.5, 2) is None
    task = Task(x, half_labelled(true, 4), 4, 6, 0)
    assert rehearse(task, EXPERIMENT, 0.5, 1) == rehearse(task, EXPERIMENT, 0.5, 1)
