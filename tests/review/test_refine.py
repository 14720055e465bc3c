"""What people said becomes constraints of the next fit, and categories keep their codes and names."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from ltgcd.common.errors import InputError
from ltgcd.discovery.assignments import assignments_table
from ltgcd.discovery.discover import discover
from ltgcd.discovery.task import Task, configure
from ltgcd.review.refine import constraints, difference, refine
from ltgcd.review.state import Review, begin, replay

CONFIG = configure("ltgcd", k=6, rehearsals=0, changes={"schedule.epochs": 2})
FREE = -np.ones(10, dtype=np.int64)


@pytest.fixture
def small() -> Review:
    """Ten items: classes ant and bee, novel-001 and novel-002; the last one is unsure."""
    labels = np.array([0, 0, 1, 1, 2, 2, 2, 3, 3, 2])
    table = assignments_table(
        pa.array([f"i{n}" for n in range(10)]), labels, np.full(10, 0.7, np.float32), ("ant", "bee"), 4, labels > 9
    )
    table = table.set_column(3, "status", pa.array(["known"] * 4 + ["novel"] * 5 + ["unsure"]))
    return begin(table.append_column("runner_up", pa.array([1, 1, 0, 0, 3, 3, 3, 2, 2, 3])), ("ant", "bee"))


def test_constraints_by_hand(small: Review) -> None:
    source = np.array([0, -1, 1, -1, -1, -1, -1, -1, -1, -1])
    said = constraints(small, source)
    assert said.labelled.tolist() == [0, 1] and said.started.tolist() == [2, 3]
    assert said.y.tolist() == [0, -1, 1, -1, -1, -1, -1, -1, -1, -1]
    assert said.start.tolist() == [-1, -1, -1, -1, 2, 2, 2, 3, 3, -1], "an unsure item is no start of its category"
    after = replay(
        small,
        [
            {"op": "assign", "rows": [7], "code": 3},  # novel-002 has a confirmed item: known to the fit
            {"op": "junk", "rows": [1]},
            {"op": "split", "code": 2, "parts": [[4]]},
            {"op": "reject", "rows": [5, 9], "code": 2},
            {"op": "assign", "rows": [2], "code": 0},  # the source said bee
        ],
    )
    said = constraints(after, source)
    assert said.rows.tolist() == [0, 2, 3, 4, 5, 6, 7, 8, 9]
    assert said.labelled.tolist() == [0, 3]
    assert said.y.tolist() == [0, 0, -1, -1, -1, -1, 1, -1, -1]
    # bee has no label any more, but an item; 5 and 9 went to their runner-up, novel-002.
    assert said.started.tolist() == [1, 2, 4]
    assert said.start.tolist() == [-1, -1, 2, 4, -1, 3, -1, 1, -1], "of novel-002 more is there than what is confirmed"
    rows, classes = said.forbidden
    assert rows.tolist() == [4, 8] and classes.tolist() == [3, 3], "positions: of item 5 and 9, and of novel-001"
    rows, classes = said.placed
    assert rows.tolist() == [3] and classes.tolist() == [4], "item 4 was split off; what was turned down is nowhere yet"


def test_what_the_source_said_gives_way_to_what_was_moved(small: Review) -> None:
    source = np.where(np.arange(10) < 2, 0, -1)
    merged = replay(small, [{"op": "merge", "code": 0, "into": 2}])
    assert constraints(merged, source).y.tolist()[:2] == [0, 0], "merged, a label is one of the merged class"
    split = replay(small, [{"op": "split", "code": 0, "parts": [[1]]}])
    assert constraints(split, source).y.tolist()[:2] == [0, -1], "split off, it begins in its part"


def test_nothing_to_learn_from_is_a_sentence(small: Review) -> None:
    with pytest.raises(InputError, match="accept a category first"):
        refine(small, FREE, np.zeros((10, 2), np.float32), CONFIG)


@pytest.fixture(scope="module")
def found() -> tuple[np.ndarray, np.ndarray, np.ndarray, Review]:
    """Six kinds of items in 16 dimensions, three of them partly labelled, and what was found of them."""
    rng = np.random.RandomState(0)
    kind = np.repeat(np.arange(6), [60, 40, 30, 40, 30, 20])
    x = (4 * rng.randn(6, 16)[kind] + rng.randn(len(kind), 16)).astype(np.float32)
    y = np.where((kind < 3) & (rng.rand(len(kind)) < 0.5), kind, -1)
    answer = discover(Task(x, y, 3), CONFIG)
    assert answer.runner_up is not None
    assert (answer.runner_up != answer.labels).all()
    ids = pa.array([f"i{n}" for n in range(len(x))])
    table = assignments_table(ids, answer.labels, answer.confidence, ("a", "b", "c"), 6, answer.unsure)
    return x, y, kind, begin(table.append_column("runner_up", pa.array(answer.runner_up)), ("a", "b", "c"))


def test_confirmed_items_never_move_and_categories_keep_their_names(found: tuple) -> None:
    x, y, _, review = found
    wrong = np.flatnonzero(review.code == 3)[:5]  # said to be of class 0, though they look otherwise
    said = replay(
        review,
        [
            {"op": "assign", "rows": wrong, "code": 0},
            {"op": "assign", "rows": np.flatnonzero(review.code == 4)[:6], "code": 4},
            {"op": "rename", "code": 4, "name": "wasp"},
            {"op": "junk", "rows": [0, 1]},
        ],
    )
    done = refine(said, y, x, CONFIG)
    after = begin(done.table, ())
    assert (after.code[said.given] == said.code[said.given]).all()
    assert after.given.tolist() == said.given.tolist() and after.junk.tolist() == said.junk.tolist()
    names = after.class_names()
    assert names[4] == "wasp" and 4 in after.known_classes()
    for code in (3, 5):  # what nobody touched is what it was
        assert names[code] == review.class_names()[code]
        before = (review.code == code) & ~said.given
        assert (after.code[before] == code).mean() > 0.8
    told = done.difference
    assert told["kept"] == said.given.sum() == 11
    assert told["changed"] == ((after.code != said.code) & ~said.junk).sum()


def test_what_an_item_is_not_it_does_not_become(found: tuple) -> None:
    x, y, _, review = found
    rows = np.flatnonzero((review.code == 3) & (y < 0))[:8]
    known = np.flatnonzero((review.code == 1) & (y < 0))[:4]
    said = replay(review, [{"op": "reject", "rows": rows, "code": 3}, {"op": "reject", "rows": known, "code": 1}])
    after = begin(refine(said, y, x, CONFIG).table, ())
    assert not (after.code[rows] == 3).any() and not (after.code[known] == 1).any()


def test_a_merge_is_one_class_and_a_split_gives_its_parts(found: tuple) -> None:
    x, y, kind, review = found
    one, other = (np.bincount(review.code[kind == k]).argmax() for k in (3, 4))
    said = replay(review, [{"op": "merge", "code": int(one), "into": int(other)}])
    done = refine(said, y, x, dataclasses.replace(CONFIG, k=5))
    after = begin(done.table, ())
    assert one not in after.class_names() and other in after.class_names()
    assert (after.code[(kind == 3) | (kind == 4)] == other).mean() > 0.9
    back = replay(
        after, [{"op": "split", "code": int(other), "parts": [np.flatnonzero((kind == 3) & (after.code == other))]}]
    )
    (new,) = back.created
    assert new >= review.next_code and back.class_names()[new] not in review.class_names().values()
    parted = begin(refine(back, y, x, CONFIG).table, ())
    assert (parted.code[kind == 3] == new).mean() > 0.9 and (parted.code[kind == 4] == other).mean() > 0.9


def test_what_was_split_off_stays_unless_the_fit_is_sure_and_no_class_comes_by_itself(found: tuple) -> None:
    x, y, kind, review = found
    code = int(np.bincount(review.code[kind == 3]).argmax())
    own = np.flatnonzero((review.code == code) & (y < 0))
    # Half of a class that is one, drawn at random: features alone would not keep the halves apart.
    part = np.sort(np.random.RandomState(0).permutation(own)[: len(own) // 2])
    said = replay(
        review, [{"op": "split", "code": code, "parts": [part]}, {"op": "distinct", "code": code, "other": 6}]
    )
    loose = dataclasses.replace(CONFIG, k=None)  # what is there counts, not an estimate
    done = refine(said, y, x, loose)
    after = begin(done.table, ())
    assert done.found.k == 7 and done.found.estimate is None
    stayed = (after.code[part] == 6).mean()
    assert stayed > 0.8
    moved = constraints(said, y).placed[0]
    assert moved.tolist() == part.tolist()


def test_the_order_of_rows_and_the_numbers_of_classes_change_nothing(found: tuple) -> None:
    x, y, _, review = found
    events = [{"op": "assign", "rows": [3, 100], "code": 4}, {"op": "reject", "rows": [200], "code": 5}]
    first = refine(replay(review, events), y, x, CONFIG).table
    order = np.random.RandomState(1).permutation(len(x))
    place = np.argsort(order)
    moved = [{**event, "rows": place[event["rows"]]} for event in events]
    shuffled = dataclasses.replace(
        review,
        base=review.base.take(order),
        **{n: getattr(review, n)[order] for n in ("code", "given", "junk", "unsure")},
    )
    second = refine(replay(shuffled, moved), y[order], x[order], CONFIG).table
    assert (
        first.select(["id", "label", "name", "confidence"]).take(order).to_pylist()
        == second.select(["id", "label", "name", "confidence"]).to_pylist()
    )


def test_a_difference_by_hand(small: Review) -> None:
    table = replay(
        small, [{"op": "assign", "rows": [7, 8], "code": 2}, {"op": "assign", "rows": [9], "code": 0}]
    ).table()
    told = difference(small, table)
    assert told["changed"] == 3 and told["kept"] == 0
    assert told["grown"] == [
        {"code": 0, "name": "ant", "before": 2, "after": 3},
        {"code": 2, "name": "novel-001", "before": 3, "after": 5},
    ]
    assert told["vanished"] == [{"code": 3, "name": "novel-002", "before": 2, "after": 0}]
    assert told["appeared"] == told["shrunk"] == [] and told["unchanged"] == 1
    assert told["moves"][0] == {"from": "novel-002", "to": "novel-001", "codes": [3, 2], "n": 2, "sure": 2}
    assert (told["surer"], told["less_sure"]) == (1, 0), "the ant was unsure"


def test_a_category_to_which_items_lean_has_not_vanished(small: Review) -> None:
    """Both of its items are unsure now: it has shrunk, and grows again when they are sure."""
    sure = small.table()
    leaning = dataclasses.replace(small, unsure=small.unsure | (small.code == 3))
    row = {"code": 3, "name": "novel-002"}
    told = difference(small, leaning.table())
    assert told["shrunk"] == [{**row, "before": 2, "after": 0}] and told["vanished"] == []
    assert (told["less_sure"], told["surer"], told["changed"]) == (2, 0, 0), "sure or not, they are where they were"
    told = difference(leaning, sure)
    assert told["grown"] == [{**row, "before": 0, "after": 2}] and told["appeared"] == []
