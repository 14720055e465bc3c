"""The k-means row: known classes get their clusters, and every number is below K."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.graph.kmeans import fit, number_clusters


def blobs(centres: list[tuple[float, float]], size: int = 12) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(0)
    true = np.repeat(np.arange(len(centres)), size)
    return np.array(centres)[true] + 0.02 * random.randn(len(true), 2), true


def test_numbers_by_hand() -> None:
    """Class 1 holds cluster 2, class 0 cluster 0; the others are novel by falling size."""
    clusters = np.array([0, 0, 2, 2, 1, 3, 3, 3])
    y = np.array([0, -1, 1, -1, -1, -1, -1, -1])
    np.testing.assert_array_equal(number_clusters(clusters, y, 4, n_old=2, k=4), [0, 3, 1, 2])


def test_known_classes_that_share_a_cluster() -> None:
    """Three known classes in one cluster of three: the others fill up, and no number reaches K."""
    clusters, y = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 1, 1, -1, -1, -1])
    np.testing.assert_array_equal(number_clusters(clusters, y, 3, n_old=3, k=3), [1, 0, 2])
    np.testing.assert_array_equal(number_clusters(clusters, y, 3, n_old=2, k=3), [1, 2, 0])


def test_labels_stay_below_k_when_the_known_classes_lie_together() -> None:
    """K = 3 of three known classes, of which k-means sees two as one: it gave {0, 3, 4}."""
    x, true = blobs([(1, 0), (0, 1), (-1, 0)])
    y = np.where(true == 0, np.arange(len(true)) % 3, -1)
    got = fit(x, y, n_old=3, k=3, random_state=0)
    assert set(got.labels) == {0, 1, 2}
    assert got.centres.shape == (3, 2)
    nearest = (x / np.linalg.norm(x, axis=1, keepdims=True) @ got.centres.T).argmax(axis=1)
    np.testing.assert_array_equal(nearest, got.labels)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_old=st.integers(1, 4), more=st.integers(0, 4))
def test_numbers_are_different_and_below_k(seed: int, n_old: int, more: int) -> None:
    random = np.random.RandomState(seed)
    k = n_old + more
    clusters, y = random.randint(0, k, 30), random.randint(-1, n_old, 30)
    numbers = number_clusters(clusters, y, k, n_old, k)
    assert sorted(numbers.tolist()) == list(range(k))
    # Nothing known is given away: the labelled items that keep their class are as many as any naming keeps.
    kept = sum(((numbers[clusters] == y) & (y >= 0)).tolist())
    for c in range(n_old):
        assert kept >= max(((clusters == p) & (y == c)).sum() for p in range(k))


@pytest.mark.parametrize("seed", [2**31 - 1, 2**32 - 1])
def test_the_largest_seeds(seed: int) -> None:
    x, true = blobs([(1, 0), (0, 1), (-1, 0)])
    got = fit(x, np.where(np.arange(len(true)) % 2 == 0, np.minimum(true, 1), -1), n_old=2, k=4, random_state=seed)
    assert got.labels.max() < 4


def test_fewer_items_than_classes() -> None:
    x, _ = blobs([(1, 0), (0, 1)], size=2)
    got = fit(x, np.array([0, -1, -1, -1]), n_old=1, k=6, random_state=0)
    assert got.labels.max() < 6
    assert got.centres.shape == (6, 2)
