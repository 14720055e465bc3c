"""Likely novel items are told where labels can tell, left alone where they can't, and the start makes use of them."""

from __future__ import annotations

import numpy as np

from ltgcd.graph.communities import NEIGHBOURS, community_centres, starting_clusters
from ltgcd.graph.whitening import fit_whitening, normalise
from ltgcd.training import novelty
from ltgcd.training.novelty import probably_novel


def problem(
    n_old: int = 8, n_new: int = 8, size: int = 40, noise: float = 0.35, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels of half of the items of the first classes, and the truth, in random order."""
    random = np.random.RandomState(seed)
    true = np.repeat(np.arange(n_old + n_new), size)
    x = (random.randn(n_old + n_new, 24)[true] + noise * random.randn(len(true), 24)).astype(np.float32)
    y = np.where((true < n_old) & (np.arange(len(true)) % 2 == 0), true, -1)
    order = random.permutation(len(true))
    return x[order], y[order].astype(np.int64), true[order]


def test_clear_classes_are_told_apart() -> None:
    x, y, true = problem()
    novel = probably_novel(x, y)
    assert novel is not None
    assert not novel[y >= 0].any()
    assert (novel[true >= 8]).mean() > 0.95
    assert (novel[(true < 8) & (y < 0)]).mean() < 0.05


def test_what_nothing_can_tell_is_not_told() -> None:
    x, y, _ = problem(noise=8.0)
    assert probably_novel(x, y) is None
    x, y, _ = problem()
    assert probably_novel(x, np.where(y == 0, 0, -1)) is None  # one class shows nothing of what a hidden one looks like
    first = np.unique(y, return_index=True)[1]
    alone = np.full_like(y, -1)
    alone[first] = y[first]
    assert probably_novel(x, alone) is None  # nor do classes of one item
    assert probably_novel(x, np.maximum(y, 0)) is None  # nothing is free


def test_many_items_are_left_to_the_communities_of_all(monkeypatch) -> None:
    x, y, _ = problem()
    monkeypatch.setattr(novelty, "LARGEST", len(x) - 1)
    assert probably_novel(x, y) is None


def test_neither_order_of_rows_nor_numbers_that_are_free_matter() -> None:
    x, y, _ = problem()
    novel = probably_novel(x, y)
    order = np.random.RandomState(3).permutation(len(x))
    again = probably_novel(x[order], y[order])
    assert novel is not None and again is not None
    assert (novel[order] == again).mean() > 0.99
    gaps = probably_novel(x, np.where(y >= 4, y + 5, y))  # classes 4 … 8 have no item: people have taken them away
    assert gaps is not None
    assert (gaps == novel).mean() > 0.99


def test_the_start_looks_for_communities_among_likely_novel_items() -> None:
    x, y, true = problem(noise=0.6)
    white = fit_whitening(x, y, 8).transform(x)
    centres = community_centres(white, y, 8, 16, 0, None, true >= 8)
    nearest = (normalise(centres) @ normalise(np.stack([white[true == c].mean(axis=0) for c in range(16)])).T).argmax(1)
    assert nearest[:8].tolist() == list(range(8))
    assert sorted(nearest[8:]) == list(range(8, 16))
    # Fewer likely novel items than classes need are no base: the communities of all items serve.
    few = np.zeros(len(x), dtype=bool)
    few[np.flatnonzero(true >= 8)[: 8 * NEIGHBOURS - 1]] = True
    without = community_centres(white, y, 8, 16, 0)
    assert np.array_equal(community_centres(white, y, 8, 16, 0, None, few), without)


def test_categories_that_people_have_left_are_no_novel_ones() -> None:
    x, y, true = problem(noise=0.6)
    given = np.where((true == 8) | (true == 9), true, -1)
    novel = probably_novel(x, np.where(y < 0, given, y))
    assert novel is not None
    assert not novel[given >= 0].any()
    white = fit_whitening(x, y, 8).transform(x)
    got = starting_clusters(white, y, 8, 16, "communities", 0, None, given, novel)
    assert got is not None
    for c in (8, 9):
        assert (got[true == c] == c).mean() > 0.9
    assert len(np.unique(got[true >= 10])) >= 6
