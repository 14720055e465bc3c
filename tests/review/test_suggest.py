"""What to look at next: shapes of classes against slow loops, the queue, merges, splits, growing and audits by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.graph.whitening import normalise
from ltgcd.review.class_shapes import (
    FAR,
    Shapes,
    class_shapes,
    class_similarity,
    coherence,
    contamination,
    own_cosines,
    rounded,
    shapes_after,
    within_cosine,
)
from ltgcd.review.suggest import (
    audit_order,
    fitted_temperature,
    grow,
    in_order,
    merge_proposals,
    neighbours,
    queue,
    split_proposal,
    whitened,
    whitening_of,
    wilson,
)


def blobs(sizes: list[int], d: int = 16, spread: float = 0.5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows around random directions, and the class of each."""
    random = np.random.RandomState(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    centres = normalise(random.standard_normal((len(sizes), d)))
    return normalise(centres[y] + spread * random.standard_normal((len(y), d)) / np.sqrt(d)), y


# ---------------------------------------------------------------- shapes


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
    part, whole = shapes_after(before, z, rows, y[rows], now[rows], 6), class_shapes(z, now, 6)
    np.testing.assert_array_equal(part.counts, whole.counts)
    np.testing.assert_array_equal(part.sums, whole.sums)
    back = shapes_after(part, z, rows, now[rows], y[rows], 6)
    np.testing.assert_array_equal(back.sums[:4], before.sums)


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


# ---------------------------------------------------------------- queue and rows


def test_the_queue_is_doubt_times_spread_and_not_items() -> None:
    found = queue(
        np.array([100, 100, 100, 10, 0]),
        np.array([0.9, 0.9, 0.9, 0.9, np.nan]),
        np.array([0, 0, 0, 0, 8]),
        np.array([0, 0.5, 0, 0, 0.0]),
        np.array([False, False, True, True, False]),
        np.array([0.5, 0.5, 0.5, 0.2, 0.5]),
    )
    np.testing.assert_allclose(found.doubt, [0.1, 1 - 0.9 * 0.5, 1 - 0.9 * 0.5, 1 - 0.9 * 0.5, 0])
    # A class of ten is worth two thirds of one of many; eight that lean to one count as two; some doubt always stays.
    many = 100 / 105
    expected = [0.1 * 0.5 * many, 0.55 * 0.5 * many, 0.55 * 0.5 * many, 0.55 * 0.8 * 10 / 15, 0.02 * 0.5 * 2 / 7]
    np.testing.assert_allclose(found.gain, expected)


def test_rows_are_ordered_and_what_was_given_comes_last() -> None:
    rows = np.array([10, 11, 12, 13])
    doubt, cosine = np.array([0.1, 0.8, 0.1, 0.9]), np.array([0.9, 0.1, 0.5, 0.8])
    is_given = np.array([False, False, False, True])
    assert in_order("centre", rows, doubt, cosine, is_given).tolist() == [10, 13, 12, 11]
    assert in_order("doubtful", rows, doubt, cosine, is_given).tolist() == [11, 12, 10, 13]
    nothing = np.empty(0)
    assert in_order("doubtful", rows[:0], nothing, nothing, is_given[:0]).tolist() == []
    assert len(in_order("doubtful", rows, doubt, np.full(4, np.nan), is_given)) == 4


# ---------------------------------------------------------------- merges and splits


def test_merges_are_the_most_alike_pairs_and_never_what_people_told_apart() -> None:
    s = np.array([[1, 0.9, 0.8, 0.1], [0.9, 1, 0.7, 0.2], [0.8, 0.7, 1, 0.3], [0.1, 0.2, 0.3, 1]], np.float32)
    sizes = np.array([5, 9, 7, 0])
    nobody = np.zeros(4, bool)
    found = merge_proposals(s, sizes, nobody, set())
    assert [(m.code, m.into) for m in found] == [(0, 1), (0, 2), (2, 1)], "empty classes have no partner"
    assert found[0].similarity == pytest.approx(0.9)
    assert found[0].mutual
    assert not found[2].mutual
    found = merge_proposals(s, sizes, nobody, {frozenset((1, 0))})
    assert [(m.code, m.into) for m in found] == [(0, 2), (2, 1)]
    known = np.array([True, True, False, False])
    assert [(m.code, m.into) for m in merge_proposals(s, sizes, known, set())] == [(2, 0), (2, 1)]
    assert merge_proposals(s, np.array([3, 0, 0, 0]), nobody, set()) == []
    assert len(merge_proposals(s, sizes, nobody, set(), limit=1)) == 1


def test_a_split_finds_the_two_and_keeps_what_people_gave() -> None:
    z, y = blobs([30, 50], spread=0.4)
    rows = np.arange(80)
    stays = np.isin(rows, [0, 1, 79])  # one of them is among the others
    parts, separation = split_proposal(z, rows, 2, stays, stays)
    assert sorted(parts[0].tolist()) == [*range(30), 79], "the part with most given items keeps the class"
    assert sorted(parts[1].tolist()) == list(range(30, 79))
    assert separation > 0.5
    accepted, _ = split_proposal(z, rows, 2, np.ones(80, bool), np.zeros(80, bool))
    assert sorted(map(len, accepted)) == [30, 50], "what was accepted as a whole can still be split"
    one, worse = split_proposal(z, rows[y == 1], 2, np.zeros(50, bool), np.zeros(50, bool))
    assert worse < separation
    assert sum(map(len, one)) == 50
    assert split_proposal(z, rows[:1], 3, stays[:1], stays[:1])[0][0].tolist() == [0]
    same = np.repeat(z[:1], 6, axis=0)
    assert sorted(
        np.concatenate(split_proposal(same, np.arange(6), 3, np.zeros(6, bool), np.zeros(6, bool))[0]).tolist()
    ) == [*range(6)]


# ---------------------------------------------------------------- growing, neighbours


def test_growing_brings_the_class_s_own_items_and_promises_what_it_holds() -> None:
    z, y = blobs([200, 200, 200], d=24, spread=1.2, seed=5)
    random = np.random.RandomState(0)
    strays = random.rand(len(y)) < 0.2
    code = np.where(strays & (y == 0), 1, y)  # a fifth of class 0 went to class 1
    right = code == y
    confidence = np.where(right, 0.9, 0.5)
    shapes = class_shapes(z, code, 4)
    t = fitted_temperature(z, np.where(right, y, -1), shapes)
    found = grow(z, 0, code, confidence, code != 0, shapes, t)
    n = int((~right).sum())
    assert (y[found.rows[:n]] == 0).mean() > 0.95
    assert (np.diff(found.chance) <= 0).all()
    assert not np.isin(found.rows, np.flatnonzero(code == 0)).any()
    leans = grow(z, 0, np.zeros(len(y), np.int64), confidence, y == 0, shapes, t)
    np.testing.assert_allclose(leans.chance, np.sort(confidence[y == 0])[::-1], atol=1e-12)
    assert len(grow(z, 3, code, confidence, code != 3, shapes, t).rows) == 0, "an empty class has no kind"
    assert len(grow(z, 0, code, confidence, np.zeros(len(y), bool), shapes, t).rows) == 0


def test_the_temperature_is_low_where_cosines_tell_and_high_where_they_do_not() -> None:
    z, y = blobs([60, 60, 60], spread=0.2)
    clear = fitted_temperature(z, y, class_shapes(z, y, 3))
    mixed = np.random.RandomState(0).permutation(y)
    unclear = fitted_temperature(z, mixed, class_shapes(z, mixed, 3))
    assert clear < unclear
    nobody = np.full(len(y), -1)
    assert fitted_temperature(z, nobody, Shapes(np.zeros((3, z.shape[1])), np.zeros(3, np.int64))) > 0


def test_neighbours_are_those_of_a_full_sort() -> None:
    z, _ = blobs([40, 30])
    z[7] = z[3]
    rows, cosines = neighbours(z, 3, 10)
    wanted = np.lexsort((np.arange(70), -(z @ z[3])))
    assert rows.tolist() == [row for row in wanted.tolist() if row != 3][:10]
    assert rows[0] == 7
    assert cosines[0] == pytest.approx(1)
    assert len(neighbours(z[:1], 0, 5)[0]) == 0
    assert len(neighbours(z[:3], 0, 5)[0]) == 2


def test_whitened_rows_are_those_of_the_whitening_in_one_go() -> None:
    z, y = blobs([40, 30, 20])
    labelled = np.where(np.arange(90) % 2 == 0, y, -1)
    whitening = whitening_of(z, labelled, 3)
    np.testing.assert_allclose(whitened(z, whitening), whitening.transform(z), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(whitened(z, whitening), axis=1), 1, atol=1e-5)


# ---------------------------------------------------------------- audit


def test_wilson_by_hand() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    low, high = wilson(18, 20)  # Wilson 1927, as in any table
    assert (round(low, 3), round(high, 3)) == (0.699, 0.972)
    assert wilson(20, 20)[1] == 1.0
    assert wilson(0, 20)[0] == 0.0


@settings(max_examples=20, deadline=None)
@given(st.sets(st.integers(0, 99), min_size=1), st.integers(1, 30))
def test_a_sample_lasts_as_rows_come_and_go(rows: set[int], n: int) -> None:
    code, inside = np.arange(100) % 3, np.isin(np.arange(100), sorted(rows))
    order = audit_order(code, inside)
    assert set(order.tolist()) == rows
    assert (np.diff(code[order]) >= 0).all()
    gone = min(rows)
    fewer = audit_order(code, inside & (np.arange(100) != gone))
    assert order[order != gone].tolist() == fewer.tolist()
