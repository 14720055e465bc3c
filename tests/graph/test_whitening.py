"""Whitening as a map for later items: the same cosines as whitening the training rows, and the covariance by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.graph.whitening import (
    SHRINKAGE,
    class_means,
    fit_whitening,
    normalise,
    principal_components,
    within_class_whitening,
    without_long_rows,
)


def data(seed: int = 0, n: int = 160, d: int = 12, classes: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Classes that all spread along the same directions, far from the origin."""
    random = np.random.RandomState(seed)
    true = random.randint(0, classes, n)
    spread = np.linspace(0.1, 2.0, d)
    x = 3 + random.randn(classes, d)[true] + spread * random.randn(n, d)
    return x.astype(np.float32), np.where((true < classes // 2) & (random.rand(n) < 0.6), true, -1), true


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), dimensions=st.integers(1, 20), scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_the_map_gives_the_cosines_of_whitened_training_rows(seed: int, dimensions: int, scale: float) -> None:
    x, y, _ = data(seed)
    x = x * np.float32(scale)
    mapped = fit_whitening(x, y, 2, dimensions).transform(x)
    expected = within_class_whitening(principal_components(x, dimensions), y, 2)
    assert mapped.shape == (160, min(dimensions, 12))
    assert mapped.dtype == np.float32
    np.testing.assert_allclose(mapped @ mapped.T, expected @ expected.T, atol=2e-3)
    np.testing.assert_allclose(np.linalg.norm(mapped, axis=1), 1, atol=1e-5)


def test_new_rows_are_mapped_one_by_one_as_the_old_ones_were() -> None:
    x, y, _ = data()
    whitening = fit_whitening(x[:120], y[:120], 2)
    new = whitening.transform(x[120:])
    np.testing.assert_allclose(
        np.concatenate([whitening.transform(x[i : i + 1]) for i in range(120, 160)]), new, atol=1e-5
    )
    np.testing.assert_allclose(whitening.transform(x)[120:], new, atol=1e-5)
    assert whitening.transform(x[:0]).shape == (0, 12)
    assert not whitening.transform(whitening.mean[None]).any()  # the mean has no direction


def test_the_spread_within_labelled_classes_becomes_nearly_round() -> None:
    """W Wᵀ is the inverse of (1−s) C + s tr(C)/d I, C by a loop; so Wᵀ C W is round but for the shrinkage."""
    x, y, _ = data(n=2000)
    whitening = fit_whitening(x, y, 2)
    residuals = np.concatenate([x[y == c] - x[y == c].astype(np.float64).mean(axis=0) for c in range(2)])
    c = sum(np.outer(r, r) for r in residuals) / (len(residuals) - 2)
    shrunk = (1 - SHRINKAGE) * c + SHRINKAGE * np.trace(c) / 12 * np.eye(12)
    w = whitening.matrix.astype(np.float64)
    np.testing.assert_allclose(w @ w.T, np.linalg.inv(shrunk), atol=1e-3 * np.abs(np.linalg.inv(shrunk)).max())
    before, after = np.linalg.eigvalsh(c), np.linalg.eigvalsh(w.T @ c @ w)
    assert before[-1] / before[0] > 100
    assert after[-1] / after[0] < 0.2 * before[-1] / before[0]


def test_only_the_labelled_rows_shape_it_and_the_names_of_classes_do_not() -> None:
    x, y, _ = data()
    a = fit_whitening(x, y, 2).transform(x)
    b = fit_whitening(x, np.where(y >= 0, 1 - y, -1), 2).transform(x)
    np.testing.assert_allclose(a @ a.T, b @ b.T, atol=1e-4)
    fewer = np.where(np.arange(160) < 80, y, -1)
    assert np.abs(fit_whitening(x, fewer, 2).transform(x) @ a.T - a @ a.T).max() > 1e-2


@pytest.mark.parametrize(
    "y", [np.full(160, -1), np.r_[0, 1, np.full(158, -1)], np.r_[0, np.full(159, -1)]], ids=["none", "one-each", "one"]
)
def test_nothing_to_whiten_by_leaves_centred_features(y: np.ndarray) -> None:
    x, _, _ = data()
    got, centred = fit_whitening(x, y, 2).transform(x), normalise(x - x.mean(axis=0))
    np.testing.assert_allclose(got @ got.T, centred @ centred.T, atol=1e-4)


def test_equal_rows_few_rows_and_a_class_without_items() -> None:
    x, y, _ = data()
    same = fit_whitening(np.ones((20, 5)), np.zeros(20, dtype=np.int64), 1)
    assert not same.transform(np.ones((3, 5))).any()
    few = fit_whitening(x[:3], np.array([0, 0, -1]), 1)
    assert few.transform(x[:3]).shape == (3, 1)
    assert np.isfinite(few.transform(x)).all()
    wide = fit_whitening(np.random.RandomState(0).randn(8, 100), np.zeros(8, dtype=np.int64), 1)
    assert wide.matrix.shape == (100, 2)
    gap = fit_whitening(x, np.where(y == 1, 4, y), 5)
    np.testing.assert_allclose(
        gap.transform(x) @ gap.transform(x).T, (w := fit_whitening(x, y, 2).transform(x)) @ w.T, atol=1e-4
    )


def test_class_means_by_hand() -> None:
    means, counts = class_means(
        np.array([[1.0, 2], [3, 4], [5, 6], [7, 8]], dtype=np.float32), np.array([0, -1, 0, 2]), 4
    )
    assert means.tolist() == [[3, 4], [0, 0], [7, 8], [0, 0]]
    assert counts.tolist() == [2, 0, 1, 0]


def test_normalise() -> None:
    got = normalise(np.array([[3, 4], [0, 0], [-2, 0]]))
    np.testing.assert_allclose(got, [[0.6, 0.8], [0, 0], [-1, 0]])
    assert got.dtype == np.float32


def test_a_row_of_another_length_keeps_its_direction_and_loses_its_length() -> None:
    x = np.random.RandomState(0).randn(50, 6).astype(np.float32)
    usual = np.median(np.linalg.norm(x, axis=1))
    np.testing.assert_array_equal(without_long_rows(x), x)
    long = x.copy()
    long[3] *= 1e30
    got = without_long_rows(long)
    assert np.linalg.norm(got[3]) == pytest.approx(usual, rel=0.1)
    np.testing.assert_allclose(normalise(got), normalise(x), atol=1e-6)
    np.testing.assert_array_equal(got[4:], x[4:])
    np.testing.assert_array_equal(without_long_rows(np.zeros((3, 2))), np.zeros((3, 2)))


def test_one_long_row_does_not_decide_the_whitening() -> None:
    random = np.random.RandomState(0)
    y = np.repeat(np.arange(10), 30)
    x = random.randn(10, 12)[y] + 0.4 * random.randn(300, 12)
    before = fit_whitening(x, y, 10).transform(x)
    x[5] *= 1e6
    after = fit_whitening(x, y, 10).transform(x)
    assert np.median((before * after).sum(axis=1)) > 0.99
