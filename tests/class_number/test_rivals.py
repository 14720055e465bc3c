"""Rivals of the class-number estimate: what the labelled items choose, and the sentence where a package is missing."""

from __future__ import annotations

import sys
from unittest import mock

import numpy as np
import pytest

from ltgcd.class_number.estimate import estimate_k
from ltgcd.class_number.rivals import _choose
from ltgcd.common.errors import InputError

NEEDS = {"finch": "finch", "evoc": "evoc"}


def blobs(n_classes: int, size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(seed)
    true = np.repeat(np.arange(n_classes), size)
    return (random.randn(n_classes, 16)[true] + 0.15 * random.randn(len(true), 16)).astype(np.float32), true


# Few levels to choose from (FINCH, EVoC) and micro-clusters that cut a class (Ward) cost exactness.
@pytest.mark.parametrize(("method", "off"), [("ward", 4), ("leiden", 0), ("finch", 5), ("evoc", 5), ("hdbscan", 0)])
def test_rivals_count_clear_clusters(method: str, off: int) -> None:
    if method in NEEDS:
        with mock.patch("warnings.warn"):
            pytest.importorskip(NEEDS[method])
    x, true = blobs(12, 50)
    y = np.where((true < 8) & (np.arange(len(true)) % 2 == 0), true, -1)
    got = estimate_k(x, y, method)
    assert got.k == pytest.approx(12, abs=off)
    assert len(got.labels) == len(x)
    again = estimate_k(x, y, method)
    assert again.k == got.k
    np.testing.assert_array_equal(again.labels, got.labels)
    # Classes are whole: nearly all items of a class are in one cluster.
    best = [np.bincount(got.labels[true == c]).max() / 50 for c in range(12)]
    assert np.mean(best) > 0.9


def test_leiden_looks_at_more_than_one_resolution_and_stops_at_k_max() -> None:
    x, true = blobs(12, 50)
    y = np.where((true < 4) & (np.arange(len(true)) % 2 == 0), true, -1)
    curve = estimate_k(x, y, "leiden", k_max=30).curve
    assert len(curve) > 2
    assert max(k for k, _ in curve) <= 30


def test_ward_with_more_classes_than_a_twelfth_of_the_items() -> None:
    x, true = blobs(80, 10)
    y = np.where((true < 60) & (np.arange(len(true)) % 2 == 0), true, -1)
    got = estimate_k(x, y, "ward", k_max=1000)
    assert got.k >= 60
    assert got.curve[-1][0] == 2 * 60 - 1
    assert got.curve[-1][1] > 50  # SciPy's cut at all of the leaves would put everything into one cluster


def test_the_labelled_items_choose_by_hand() -> None:
    y = np.array([0, 0, 1, 1, -1, -1])
    coarse, good, fine = np.zeros(6, int), np.array([0, 0, 1, 1, 2, 2]), np.arange(6)
    noisy = np.array([0, 0, 1, -1, -1, -1])
    k, curve, labels, place = _choose([fine, noisy, good, coarse], y, 2, None)
    assert (k, place) == (3, 2)
    assert curve == ((1, 50.0), (2, 75.0), (3, 100.0), (6, 50.0))
    np.testing.assert_array_equal(labels, good)
    # Noise is one more cluster that is not counted.
    k, _, labels, place = _choose([fine, noisy, good, coarse], y, 2, 2)
    assert (k, place) == (2, 1)
    np.testing.assert_array_equal(labels, [0, 0, 1, 2, 2, 2])
    # None fits between |Y_l| = 4 and 5: 3 and 6 are equally far off, and the score decides.
    assert _choose([fine, good, coarse], y, 4, 5)[0] == 3
    # At equal score the coarser one.
    assert _choose([fine, coarse], y, 1, None)[0] == 1


@pytest.mark.parametrize(("method", "package"), [("finch", "finch-clust"), ("evoc", "evoc")])
def test_a_missing_package_is_one_sentence(method: str, package: str) -> None:
    x, true = blobs(4, 20)
    missing = mock.patch.dict(sys.modules, {NEEDS[method]: None})
    with missing, pytest.raises(InputError, match=rf"{package}.*ltgcd\[bench\]"):
        estimate_k(x, np.where(true < 2, true, -1), method)
