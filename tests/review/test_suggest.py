"""What to look at next: rows in order, merges, splits, growing and audits by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.graph.class_shapes import Shapes, class_shapes
from ltgcd.graph.whitening import normalise
from ltgcd.review.suggest import (
    audit_order,
    fitted_temperature,
    grow,
    how_many_odd,
    in_order,
    merge_proposals,
    neighbours,
    odd_ones,
    split_proposal,
    twins,
    wilson,
)


def blobs(sizes: list[int], d: int = 16, spread: float = 0.5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows around random directions, and the class of each."""
    random = np.random.RandomState(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    centres = normalise(random.standard_normal((len(sizes), d)))
    return normalise(centres[y] + spread * random.standard_normal((len(y), d)) / np.sqrt(d)), y


# ---------------------------------------------------------------- rows


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


def test_odd_ones_end_where_nothing_is_odd() -> None:
    z, y = blobs([40, 40], spread=0.3)
    odd = normalise(np.random.RandomState(3).standard_normal((3, z.shape[1])))
    x = np.concatenate([z, odd]).astype(np.float32)
    shapes = class_shapes(x, np.append(y, [-1, -1, -1]), 2)
    every = np.ones(len(x), bool)
    found = odd_ones(x, shapes, every, limit=0.6)
    assert sorted(found.tolist()) == [80, 81, 82]
    assert odd_ones(x, shapes, every)[:3].tolist() == found.tolist(), "the first ones are the same"
    assert len(odd_ones(x, shapes, every)) == 83


def test_pairs_that_nobody_has_labelled_come_first_and_twins_are_nearest_to_each_other() -> None:
    s = np.array([[1, 0.9, 0.3, 0.3, 0.1], [0.9, 1, 0.5, 0.3, 0.2], [0.3, 0.5, 1, 0.6, 0.3], [0.3, 0.3, 0.6, 1, 0.3],
                  [0.1, 0.2, 0.3, 0.3, 1]], np.float32)  # fmt: skip
    sizes, labelled = np.array([5, 9, 7, 3, 4]), np.array([True, False, False, False, False])
    found = merge_proposals(s, sizes, labelled, set())
    assert [(m.code, m.into, m.mutual) for m in found[:2]] == [(3, 2, True), (2, 1, False)]
    assert (found[-1].code, found[-1].into) == (4, 0), "and the least alike with labels at the end"
    assert twins(s, sizes, labelled, ()) == {2: 3, 3: 2}, "not class 1, of which a labelled one is the nearest"
    assert twins(s, sizes, labelled, {frozenset((2, 3))}) == {}, "who said never is not asked again"
    assert twins(s, np.array([5, 9, 7, 0, 4]), labelled, ()) == {}, "an empty class has none"
    assert twins(s, sizes, np.zeros(5, bool), ()) == {0: 1, 1: 0, 2: 3, 3: 2}
    assert twins(0.3 * s, sizes, labelled, ()) == {}, "alike enough is from 0.4 on"


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


def test_odd_ones_are_unlike_every_class_and_unlike_each_other() -> None:
    """Two kinds of which no class has the centre come first, one of each, then their second items."""
    z, y = blobs([40, 40, 6, 6], spread=0.1)
    shapes = class_shapes(z, np.where(y < 2, y, -1), 2)
    is_open = np.ones(len(z), dtype=bool)
    found = odd_ones(z, shapes, is_open, 4)
    assert set(y[found[:2]].tolist()) == {2, 3}
    closest = (z @ shapes.centres.T).max(axis=1)
    for row in found:  # slowly, by the definition
        assert closest[row] == closest.min()
        closest = np.maximum(closest, z @ z[row])
        closest[row] = 2
    is_open[found[0]] = False
    assert found[0] not in odd_ones(z, shapes, is_open, 4)


def test_more_odd_ones_are_shown_of_more_items_as_long_as_that_takes_no_longer() -> None:
    """By hand: an eighth of 8,000 would be 1,000, but 240 among 20,000 take as long as 600 among 8,000."""
    shown = {n: how_many_odd(n) for n in (0, 100, 1920, 2400, 6000, 8000, 20_000)}
    assert shown == {0: 240, 100: 240, 1920: 240, 2400: 300, 6000: 750, 8000: 600, 20_000: 240}


def test_odd_ones_of_little_or_of_much(monkeypatch: pytest.MonkeyPatch) -> None:
    z, y = blobs([30, 30])
    shapes, nothing = class_shapes(z, y, 2), class_shapes(z, np.full(len(z), -1), 2)
    assert len(odd_ones(z, shapes, np.zeros(len(z), dtype=bool))) == 0
    assert sorted(odd_ones(z, nothing, np.ones(len(z), dtype=bool)).tolist()) == list(range(60)), "each once"
    monkeypatch.setattr("ltgcd.review.suggest.ODD_AMONG", 10)
    some = odd_ones(z, shapes, y == 1)
    assert len(set(some.tolist())) == 10 and (y[some] == 1).all()
    back = odd_ones(z[::-1].copy(), shapes, y[::-1] == 1)
    assert (len(z) - 1 - back).tolist() == some.tolist(), "the same items, whatever the order of the rows"
