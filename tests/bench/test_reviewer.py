"""The simulated reviewer: it pays for every key, sees only what it looks at, and its edits are those of the page."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ltgcd.bench.review_desk import Desk, Material
from ltgcd.bench.review_scores import Truth, label_single_items, scores
from ltgcd.bench.reviewer import SEEN, STRIP, Oracle, best_acceptance, clicks, evenly, screens
from ltgcd.discovery.assignments import assignments_table
from ltgcd.discovery.task import configure
from ltgcd.review.state import Review, begin

NAMES = ("ant", "bee", "cat", "dog", "elk", "fox")


@pytest.fixture
def made() -> tuple[Review, Material, Truth]:
    """Six classes of 40, three known; dog and elk were found as one category, fox as two."""
    draw = np.random.RandomState(0)
    y = np.repeat(np.arange(6), 40)
    x = (8 * np.eye(12)[y] + draw.randn(len(y), 12)).astype(np.float32)
    source = np.where((y < 3) & (np.arange(len(y)) % 2 == 0), y, -1)
    code = np.where(y == 4, 3, y)
    code[y == 5] = np.where(np.arange(40) < 30, 4, 5)
    ids = pa.array([f"i{n}" for n in range(len(y))])
    table = assignments_table(ids, code, np.full(len(y), 0.8, np.float32), NAMES[:3], 6, np.zeros(len(y), np.bool_))
    return begin(table, NAMES[:3]), Material(x, source, 3, configure(rehearsals=0), None), Truth(y, NAMES)


def test_an_oracle_splits_merges_names_and_accepts(made: tuple[Review, Material, Truth]) -> None:
    review, material, truth = made
    seen: list[int] = []
    desk = Desk(material, review, 100, lambda _review, spent, _cost: seen.append(spent))
    Oracle(desk, truth).review()
    labelled = material.source >= 0
    before, after = (scores(r, truth, labelled, 3) for r in (review, desk.review))
    # By hand: ant, bee, cat whole, dog 40 of 40 by one category, elk 0, fox 30 of 40.
    assert before["balanced"] == pytest.approx(100 * (3 + 1 + 0 + 0.75) / 6)
    assert before["named"] == 50 and before["settled"] == 0
    assert after["balanced"] == after["named"] == after["found"] == after["precision"] == 100
    assert after["settled"] == (~labelled).sum(), "everything was accepted"
    # Parts and a name for elk, names for dog and fox, a merge of two or three, an accept each, and a key to the next.
    assert desk.spent <= 30 and seen == sorted(seen)
    assert desk.done["part"] >= 3 and desk.done["name"] == 4


def test_a_class_that_nobody_found_is_named_by_its_odd_ones() -> None:
    """Three of a seventh class lie far from all others, in the categories of bee and dog."""
    draw = np.random.RandomState(0)
    y = np.concatenate([np.repeat(np.arange(6), 40), [6, 6, 6]])
    x = (8 * np.eye(12)[y] + draw.randn(len(y), 12)).astype(np.float32)
    source = np.where((y < 3) & (np.arange(len(y)) % 2 == 0), y, -1)
    code = np.append(y[:-3], [1, 3, 3])
    ids = pa.array([f"i{n}" for n in range(len(y))])
    sure = np.where(y < 6, 0.8, 0.6).astype(np.float32)
    review = begin(assignments_table(ids, code, sure, NAMES[:3], 6, np.zeros(len(y), np.bool_)), NAMES[:3])
    truth = Truth(y, (*NAMES, "gnu"))
    desk = Desk(Material(x, source, 3, configure(rehearsals=0), None), review, 8)
    oracle = Oracle(desk, truth)
    assert oracle.there() == set(range(6)), "a glance at the queue shows all but it"
    oracle.name_missing()
    shown = [row for row in Desk(desk.material, review, 0).odd().tolist() if row >= 240]
    assert len(shown) == 2, "the third one is like these, and so is not odd beside them"
    gnu = desk.code_of("gnu")
    assert gnu is not None and np.flatnonzero(desk.review.code == gnu).tolist() == sorted(shown)
    assert desk.spent == 1 + 2 + 2 and desk.done == {"name what is missing": 4}


def test_nothing_is_done_that_is_not_paid_for(made: tuple[Review, Material, Truth]) -> None:
    review, material, truth = made
    for budget in (0, 1, 4):
        desk = Desk(material, review, budget)
        Oracle(desk, truth).review()
        assert desk.spent <= budget and sum(desk.done.values()) <= budget
    assert not Desk(material, review, 0).act("accept", [{"op": "assign", "rows": [1], "code": 0}], 1)


def test_single_items_cost_one_each_and_the_first_names_its_category(made: tuple[Review, Material, Truth]) -> None:
    review, material, truth = made
    for order in ("random", "least-sure"):
        desk = Desk(material, review, 30)
        label_single_items(desk, truth, (), order)
        figures = scores(desk.review, truth, material.source >= 0, 3)
        assert desk.spent == figures["settled"] == 30 and figures["precision"] == 100


def test_what_is_accepted_is_worth_its_clicks_and_clean_as_far_as_one_sees() -> None:
    everything = np.ones(40, dtype=np.bool_)
    assert best_acceptance(everything, everything) == (0, pytest.approx([]), 1)
    right = everything.copy()
    right[:6] = False
    plan = best_acceptance(right, everything)
    assert plan is not None and (plan.cut, len(plan.out), plan.cost) == (5, 0, 3), "a head goes as a range"
    right = everything.copy()
    right[[3, 30]] = False
    plan = best_acceptance(right, everything)
    assert plan is not None and (plan.cut, len(plan.out), plan.cost) == (0, 2, 3), "two clicks, and accept"
    assert best_acceptance(~everything, everything) is None
    many = np.ones(1000, dtype=np.bool_)
    many[SEEN - 20 : SEEN + 300] = np.arange(320) % 4 > 0
    seen = np.isin(np.arange(1000), screens(np.arange(1000)))
    plan = best_acceptance(many, seen)
    assert plan is not None and plan.cut == 1000 - SEEN, "what is not seen may be as bad as what is seen beside it"


def test_a_range_is_two_clicks() -> None:
    assert clicks(np.array([True, False, True, True, True, False, True, True])) == 1 + 2 + 2
    assert clicks(np.zeros(3, dtype=np.bool_)) == 0


def test_a_strip_is_as_mixed_as_its_part() -> None:
    rows = np.arange(100)
    shown = evenly(rows)
    assert len(shown) == STRIP and shown[0] == 0 and shown[-1] == 99 and np.diff(shown).max() <= 5
    assert evenly(rows[:7]).tolist() == list(range(7))
