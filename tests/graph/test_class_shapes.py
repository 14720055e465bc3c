"""Shapes of classes from their sums, against slow loops over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.graph.class_shapes import (
    FAR,
    _same,
    class_shapes,
    class_similarity,
    coherence,
    contamination,
    own_cosines,
    rounded,
    shapes_after,
    within_cosine,
)
from ltgcd.graph.whitening import normalise


def blobs(sizes: list[int], d: int = 16, spread: float = 0.5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows around random directions, and the class of each."""
    random = np.random.RandomState(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    centres = normalise(random.standard_normal((len(sizes), d)))
    return normalise(centres[y] + spread * random.standard_normal((len(y), d)) / np.sqrt(d)), y


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 7), min_size=2, max_size=5))
def test_shapes_are_those_of_loops_over_all_pairs(seed: int, sizes: list[int]) -> None:
    z, y = blobs(sizes, seed=seed)
    k = len(sizes)
    shapes = class_shapes(z, y, k)
    assert shapes.counts.tolist() == sizes
    similarity, within = class_similarity(shapes), within_cosine(shapes)
    for c in range(k):
        for e in range(k):
            pairs = [z[i] @ z[j] for i in np.flatnonzero(y == c) for j in np.flatnonzero(y == e)]
            wanted = np.mean(pairs) / np.sqrt(within[c] * within[e]) if pairs else 0.0
            if c != e:
                assert similarity[c, e] == pytest.approx(np.clip(wanted, -1, 1), abs=1e-4)
    rows = np.arange(len(z))
    found = own_cosines(z, rows, y, np.ones(len(z), bool), shapes)
    for i in rows:
        others = z[(y == y[i]) & (rows != i)].sum(axis=0)
        wanted = np.nan if (y == y[i]).sum() == 1 else z[i] @ others / np.linalg.norm(others)
        assert found[i] == pytest.approx(wanted, abs=1e-4, nan_ok=True)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.data())
def test_shapes_of_what_changed_are_those_of_all(seed: int, data: st.DataObject) -> None:
    z, y = blobs([9, 6, 4, 1], seed=seed)
    z = rounded(z)
    before = class_shapes(z, y, 4)
    now = y.copy()
    for row in data.draw(st.lists(st.integers(0, 19), max_size=5)):
        now[row] = data.draw(st.integers(-1, 5))
    rows = np.flatnonzero(now != y)
    given, given_now = np.where(y == 1, y, -1), np.where(now < 2, now, -1)  # in another respect
    rows_of_both = np.union1d(rows, np.flatnonzero(given != given_now))
    changes = [(y[rows_of_both], now[rows_of_both]), (given[rows_of_both], given_now[rows_of_both])]
    both = [before, class_shapes(z, given, 4)]
    parts = shapes_after(both, z, rows_of_both, changes, 6)
    for part, labels in zip(parts, (now, given_now), strict=True):
        whole = class_shapes(z, labels, 6)
        np.testing.assert_array_equal(part.counts, whole.counts)
        np.testing.assert_array_equal(part.sums, whole.sums)
    for back, shapes in zip(shapes_after(parts, z, rows_of_both, [c[::-1] for c in changes], 6), both, strict=True):
        np.testing.assert_array_equal(back.sums[:4], shapes.sums)
        np.testing.assert_array_equal(back.counts[:4], shapes.counts)


def test_two_halves_of_a_class_are_the_same_however_noisy() -> None:
    z, y = blobs([400, 400, 400], d=64, spread=3.0)
    y = np.where((y == 0) & (np.arange(len(y)) % 20 == 0), 3, y)  # twenty of them
    similarity = class_similarity(class_shapes(z, y, 4))
    plain = class_shapes(z, y, 4).centres
    assert similarity[0, 3] > 0.9
    assert plain[0] @ plain[3] < 0.85, "the plain cosine of few noisy items is too small"
    assert abs(similarity[0, 1]) < 0.4


def test_coherence_is_one_for_points_and_below_zero_for_strangers() -> None:
    z = normalise(np.array([[1, 0], [1, 0], [0, 1], [0, 1], [1, 0], [0, 1.0]]))
    found = coherence(class_shapes(z, np.array([0, 0, 1, 1, 2, 2]), 4))
    assert found[0] == pytest.approx((1 - 0.5**0.5) / (1 - 0.5**0.5)), "its items are one point, class 2 the nearest"
    assert found[2] < 0
    assert np.isnan(found[3])


def test_contamination_finds_the_class_whose_assigned_items_are_others() -> None:
    z, y = blobs([300, 300, 40], d=32, spread=0.8, seed=3)
    code = np.where(y == 2, 0, y)  # a species that nobody labelled was assigned to class 0
    is_given = (np.arange(len(y)) % 3 == 0) & (y < 2)
    shapes = class_shapes(z, np.where(is_given, code, -1), 2)
    cosine = own_cosines(z, np.arange(len(z)), code, is_given, shapes)
    share, far, foreign = contamination(cosine, code, is_given, ~is_given, 2)
    assert far[0] == pytest.approx(40 + FAR * 200, abs=12)
    assert share[0] == pytest.approx(40 / 240, abs=0.06)
    assert share[1] < 0.06
    assert foreign[y == 2].mean() > 0.6, "items of the other species are called foreign"
    assert foreign[(y == 0) & ~is_given].mean() < 0.1
    nobody = np.zeros(len(y), bool)
    assert contamination(cosine, code, nobody, ~is_given, 2).share.tolist() == [0, 0]


@pytest.mark.parametrize("k", [1, 7, 5000])
def test_rows_that_are_alike_in_all_columns_are_of_one_kind(k: int) -> None:
    """Counted where there are few kinds, sorted where there may be many: the same kinds."""
    random = np.random.RandomState(k)
    columns = [random.randint(-1, min(k, 9), 400) for _ in range(4)]
    first, kind = _same(columns, 400, k)
    table = np.stack(columns, axis=1)
    every, at, wanted = np.unique(table, axis=0, return_index=True, return_inverse=True)
    assert np.array_equal(table[first], every) and np.array_equal(first, at)
    assert np.array_equal(kind, wanted.ravel())
    assert [len(part) for part in _same([np.empty(0, np.int64)] * 2, 0, k)] == [0, 0]
