"""The same items give the same class number: whatever their order, the numbers of classes, threads, one long row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import PACKAGES, blobs, few_draws  # noqa: F401 - the fixture is used by all
from threadpoolctl import threadpool_limits

from ltgcd.class_number import interval
from ltgcd.class_number.estimate import ESTIMATORS, KEstimate, estimate_k
from ltgcd.class_number.evidence import row_folds


def assert_same_answer(a: KEstimate, b: KEstimate, order: np.ndarray, number: np.ndarray) -> None:
    """K, interval, curve, evidence and clusters of b are those of a, after permuting rows and renumbering classes."""
    assert (a.k, a.low, a.high, a.curve) == (b.k, b.low, b.high, b.curve)
    expected = a.labels[order]
    if a.method == "peaks":  # which numbers its clusters as the classes
        known = expected < len(number)
        expected = np.where(known, number[np.where(known, expected, 0)], expected)
    np.testing.assert_array_equal(b.labels, expected)
    peaks = b.evidence.pop("peaks", None)
    assert a.evidence.pop("peaks", None) == (None if peaks is None else [int(order[row]) for row in peaks])
    assert a.evidence == b.evidence


@pytest.mark.parametrize("method", list(ESTIMATORS))
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_order_of_rows_and_the_numbers_of_classes_do_not_matter(method: str, seed: int) -> None:
    if method in PACKAGES:
        pytest.importorskip(PACKAGES[method])
    random = np.random.RandomState(seed)
    x, y, _ = blobs(5, 3, seed, size=16, spread=0.6)
    order, number = random.permutation(len(x)), random.permutation(5)
    renumbered = np.where(y >= 0, number[y], -1)
    a = estimate_k(x, y, method, k_max=14, random_state=seed)
    b = estimate_k(x[order], renumbered[order], method, k_max=14, random_state=seed)
    assert_same_answer(a, b, order, number)


@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_nor_with_known_classes_without_a_label_and_copies_of_items(seed: int) -> None:
    random = np.random.RandomState(seed)
    x, y, _ = blobs(8, 3, seed, size=20)
    x, y = np.concatenate([x, x[:40]]), np.concatenate([y, y[:40]])
    y[y == 6] = -1  # known, but nobody labelled one; class 7 keeps its number
    order, number = random.permutation(len(x)), random.permutation(8)
    a = estimate_k(x, y, n_old=9, random_state=seed)
    b = estimate_k(x[order], np.where(y >= 0, number[y], -1)[order], n_old=9, random_state=seed)
    assert (a.k, a.low, a.high, a.curve) == (b.k, b.low, b.high, b.curve)
    labelled = y[order] >= 0
    np.testing.assert_array_equal(b.labels[labelled], number[y[order]][labelled])
    # The same clusters; two known classes without an item can't be told apart, so either may get either number.
    assert len({*zip(a.labels[order], b.labels, strict=True)}) == len({*a.labels}) == len({*b.labels})


def estimated() -> list[tuple[Any, ...]]:
    random = np.random.RandomState(0)
    true = np.repeat(np.arange(14), 60)
    x = random.randn(14, 24)[true] + 0.8 * random.randn(len(true), 24)
    y = np.where((true < 8) & (random.rand(len(true)) < 0.5), true, -1)
    answers = []
    with mock.patch.object(interval, "BOOTSTRAPS", 50):
        for method in ("peaks", "kmeans-brent-1", "ward"):
            got = estimate_k(x, y, method, k_max=30)
            answers.append((got.k, got.low, got.high, got.curve, got.labels.tolist()))
    return answers


def test_threads_do_not_matter(with_two_threads: Callable[..., Any]) -> None:
    with threadpool_limits(1):
        one = estimated()
    assert repr(one) == repr(with_two_threads(estimated))


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("factor", [1e5, 1e12])
def test_one_long_vector_does_not_decide(factor: float, labelled: bool) -> None:
    """True K 20, one of 800 rows 100,000 times as long: 15 [11, 84] or 10 [10, 41] where it had its length."""
    random = np.random.RandomState(0)
    true = np.repeat(np.arange(20), 40)
    x = (random.randn(20, 16)[true] + 0.6 * random.randn(800, 16)).astype(np.float32)
    y = np.where((true < 10) & (random.rand(800) < 0.5), true, -1)
    x[np.flatnonzero(y == 3 if labelled else true == 15)[0]] *= factor
    got = estimate_k(x, y)
    assert got.low is not None and got.high is not None
    assert abs(got.k - 20) <= 2
    assert got.low <= 20 <= got.high <= 30


def test_folds_stay_balanced_beside_a_long_row() -> None:
    z = np.random.RandomState(0).randn(500, 12).astype(np.float32)
    z[7] *= 1e9
    assert np.bincount(row_folds(z, 0), minlength=5).min() > 60
    assert np.bincount(row_folds(z[:, :1], 0), minlength=5).min() > 60


@pytest.mark.parametrize("method", list(ESTIMATORS))
@pytest.mark.parametrize("seed", [2**31 - 1, 2**32 - 1])
def test_the_largest_seeds(method: str, seed: int) -> None:
    if method in PACKAGES:
        pytest.importorskip(PACKAGES[method])
    x, y, _ = blobs(4, 2, size=12)
    assert estimate_k(x, y, method, k_max=12, random_state=seed).k >= 1
