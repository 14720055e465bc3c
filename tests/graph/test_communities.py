"""Where prototypes begin: every known class in its place, K centres whatever happens, small classes not swallowed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.graph.communities import SMALLEST, _means_so_far, communities, community_centres, starting_clusters
from ltgcd.graph.knn import knn_graph
from ltgcd.graph.whitening import normalise

STARTS = ("communities", "semi-kmeans")


def blobs(
    sizes: tuple[int, ...], n_old: int, noise: float = 0.3, d: int = 12, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unit rows, labels of half of the items of the first n_old classes, and the truth, in random order."""
    random = np.random.RandomState(seed)
    true = np.repeat(np.arange(len(sizes)), sizes)
    x = normalise(random.randn(len(sizes), d)[true] + noise * random.randn(len(true), d))
    y = np.where((true < n_old) & (np.arange(len(true)) % 2 == 0), true, -1)
    order = random.permutation(len(true))
    return x[order], y[order], true[order]


def purity(labels: np.ndarray, true: np.ndarray) -> float:
    """Share of items whose cluster is mostly of their class."""
    hits = [np.bincount(true[labels == c]).max() for c in np.unique(labels)]
    return sum(hits) / len(true)


def test_a_random_start_has_no_clusters() -> None:
    x, y, _ = blobs((20, 20), 1)
    assert starting_clusters(x, y, 1, 2, "random", 0) is None


@pytest.mark.parametrize("start", STARTS)
def test_well_separated_classes_are_found_and_known_ones_keep_their_place(start: str) -> None:
    x, y, true = blobs((80, 60, 40, 30, 20, 15), 3, noise=0.15)
    got = starting_clusters(x, y, 3, 6, start, 0)
    assert got is not None
    assert got.dtype == np.int64
    assert np.array_equal(got[y >= 0], y[y >= 0])
    assert np.array_equal(np.where(true < 3, true, -1), np.where(got < 3, got, -1))
    assert purity(got, true) == 1
    assert len(np.unique(got)) == 6


def test_the_tail_is_not_merged_into_the_head_as_k_means_does() -> None:
    x, y, true = blobs((400, 300, 120, 60, 30, 20, 16, 14), 4, noise=0.45)
    tail = true >= 4
    found = {}
    for start in STARTS:
        got = starting_clusters(x, y, 4, 8, start, 0)
        found[start] = np.mean(
            [(np.bincount(got[true == c], minlength=8)).max() / (true == c).sum() for c in range(4, 8)]
        )
        assert len(np.unique(got[tail])) >= 3
    assert found["communities"] >= 0.85


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(
    ("sizes", "n_old", "k"),
    [
        ((4, 3), 1, 2),
        ((2, 1), 1, 2),
        ((1, 1), 1, 2),
        ((6, 5, 4), 2, 15),  # as many classes as items
        ((6, 5, 4), 3, 3),  # nothing novel
        ((60, 50, 40), 1, 12),
        ((60,), 1, 3),
    ],
)
def test_few_items_many_classes(start: str, sizes: tuple[int, ...], n_old: int, k: int) -> None:
    x, y, _ = blobs(sizes, n_old)
    got = starting_clusters(x, y, n_old, k, start, 0)
    assert got.shape == (len(x),)
    assert 0 <= got.min() <= got.max() < k
    assert np.array_equal(got[y >= 0], y[y >= 0])
    assert np.array_equal(got, starting_clusters(x, y, n_old, k, start, 0))


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 40), extra=st.integers(0, 20), copies=st.booleans())
def test_always_k_centres_and_no_nan(seed: int, n: int, extra: int, copies: bool) -> None:
    """More classes than items, duplicates, zero rows, a known class without a labelled item."""
    random = np.random.RandomState(seed)
    x = normalise(random.randn(n, 4))
    if copies:
        x[random.rand(n) < 0.5] = x[0]
        x[random.rand(n) < 0.2] = 0
    n_old = int(random.randint(1, 4))
    y = np.where(random.rand(n) < 0.4, random.randint(0, n_old, n), -1)
    k = n_old + extra
    centres = community_centres(x, y, n_old, k, 0)
    assert centres.shape == (k, 4)
    assert centres.dtype == np.float32
    assert np.isfinite(centres).all()
    for c in np.unique(y[y >= 0]):
        np.testing.assert_allclose(centres[c], x[y == c].mean(axis=0), atol=1e-6)


def test_a_known_class_without_a_label_and_missing_communities_get_far_rows() -> None:
    x = np.eye(4, dtype=np.float32)[np.repeat([0, 1, 2, 3], [6, 6, 1, 1])]
    y = np.full(14, -1)
    y[:3] = 0  # class 1 is known but nobody labelled one
    centres = community_centres(x, y, 2, 5, 0)
    assert centres[0].tolist() == [1, 0, 0, 0]
    assert {tuple(row) for row in np.round(centres, 3).tolist()} >= {(0, 0, 1, 0), (0, 0, 0, 1)}


def test_novel_centres_are_the_communities_with_the_lowest_labelled_share() -> None:
    x, y, true = blobs((60, 50, 40, 30), 2, noise=0.1)
    centres = community_centres(x, y, 2, 4, 0)
    means = np.stack([x[true == c].mean(axis=0) for c in range(4)])
    closeness = normalise(centres[2:]) @ normalise(means).T
    assert set(closeness.argmax(axis=1)) == {2, 3}
    assert closeness.max(axis=1).min() > 0.99


@pytest.mark.parametrize(("k", "noise"), [(5, 1.2), (20, 0.3), (40, 0.3)])
def test_about_as_many_communities_as_asked_for(k: int, noise: float) -> None:
    """With little noise the graph falls into 20 parts, and there can't be fewer."""
    x, _, _ = blobs((50,) * 20, 1, noise=noise)
    sizes = np.bincount(communities(knn_graph(x, 10), k, 0))
    assert abs((sizes >= SMALLEST).sum() - k) <= max(1, 0.2 * k)


@pytest.mark.parametrize(("n_classes", "size"), [(4, 3), (10, 6), (25, 8), (50, 10)])
def test_small_collections_do_not_fall_apart(n_classes: int, size: int) -> None:
    """Asked for more communities than can have SMALLEST items, the search must not end with every item alone."""
    x, _, _ = blobs((size,) * n_classes, 1, noise=0.3)
    sizes = np.bincount(communities(knn_graph(x, 10), n_classes, 0))
    assert sizes[sizes >= SMALLEST].sum() >= len(x) / 2


def test_classes_smaller_than_a_neighbourhood_are_left_to_k_means() -> None:
    x, y, _ = blobs((6,) * 10, 5)
    both = [starting_clusters(x, y, 5, 10, start, 3) for start in STARTS]
    assert np.array_equal(both[0], both[1])


def test_the_seed_decides_and_the_names_of_known_classes_do_not() -> None:
    x, y, _ = blobs((60, 50, 40, 30), 2)
    a = starting_clusters(x, y, 2, 4, "communities", 1)
    assert np.array_equal(a, starting_clusters(x, y, 2, 4, "communities", 1))
    swapped = starting_clusters(x, np.where(y >= 0, 1 - y, -1), 2, 4, "communities", 1)
    assert np.array_equal(np.array([1, 0, 2, 3])[a], swapped)


def test_what_was_found_of_a_class_counts_like_two_labels_of_it() -> None:
    """By hand: class 0 has a label at (1, 0) and 100 found items at (0, 1); 1 three labels and one found; 2 none."""
    rows = [((1, 0), 0, -1), *[((0, 1), -1, 0)] * 100, *[((0, 1), 1, -1)] * 3, ((1, 0), -1, 1), *[((1, 0), -1, 2)] * 4]
    white, y, found = (np.array(column) for column in zip(*rows, strict=True))
    means = _means_so_far(white.astype(np.float32), y, found, 4)
    assert np.allclose(means, [[1 / 3, 2 / 3], [1 / 4, 3 / 4], [1, 0], [0, 0]])


def test_a_category_does_not_become_the_one_item_that_was_confirmed_of_it() -> None:
    """Two novel categories; somebody confirms an item of the first that lies beside the second."""
    rng = np.random.RandomState(0)
    kind = np.repeat([0, 1, 2], 60)
    white = normalise((4 * np.eye(8)[kind] + 0.5 * rng.randn(180, 8)).astype(np.float32))
    odd = 60
    white[odd] = normalise(0.45 * np.eye(8, dtype=np.float32)[1:2] + 0.55 * np.eye(8, dtype=np.float32)[2:3])
    y = np.where(kind == 0, 0, -1)
    y[odd] = 1
    already = np.where(kind == 1, 1, np.where(kind == 2, 2, -1))
    already[odd] = -1
    found = starting_clusters(white, y, 2, 3, "communities", 0, given=already)
    assert found is not None
    assert (found == kind).all()
