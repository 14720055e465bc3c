from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.data.order import content_order, row_keys


def problem(seed: int, n: int = 40, classes: int = 5) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(seed)
    return random.randn(n, 3).astype(np.float32), random.randint(-1, classes, n).astype(np.int64)


@given(st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_permuted_and_renumbered_rows_give_the_same_table(seed: int) -> None:
    x, y = problem(seed)
    random = np.random.RandomState(seed + 1)
    shuffle, renumber = random.permutation(len(x)), random.permutation(5)
    other_y = np.where(y < 0, -1, renumber[y])[shuffle]
    one, two = content_order(x, y, 5), content_order(x[shuffle], other_y, 5)
    assert np.array_equal(x[one.rows], x[shuffle][two.rows])
    assert np.array_equal(one.labels(y), two.labels(other_y))
    answer = np.arange(len(x), dtype=np.int64)
    assert np.array_equal(one.caller_rows(answer)[shuffle], two.caller_rows(answer))
    known = np.arange(5)
    assert np.array_equal(renumber[one.caller_classes(known)], two.caller_classes(known))


def test_round_trip_and_novel_classes() -> None:
    x, y = problem(0)
    order = content_order(x, y, 5)
    back = order.caller_classes(order.caller_rows(order.labels(y)))
    assert np.array_equal(back, y)
    assert order.caller_classes(np.array([5, 9, -1])).tolist() == [5, 9, -1]


def test_copies_get_one_answer_and_labelled_ones_stand_first() -> None:
    x = np.tile(np.array([[1.0, 2.0]], np.float32), (4, 1))
    order = content_order(x, np.array([-1, 0, -1, -1]), 1)
    assert order.rows[0] == 1
    assert order.caller_rows(order.as_first_copy(np.arange(4))).tolist() == [1, 0, 1, 1]


def test_keys_differ_where_rows_do_and_zero_has_no_sign() -> None:
    x = np.zeros((3, 4), np.float32)
    x[1, 2] = 1e-45  # the smallest number there is
    x[2, 1] = -0.0
    keys = row_keys(x)
    assert (keys[0] == keys[2]).all() and (keys[0] != keys[1]).any()
    x = np.random.RandomState(0).randint(0, 2, (4000, 16)).astype(np.float32)
    assert len(np.unique(row_keys(x), axis=0)) == len(np.unique(x, axis=0))


def test_a_class_without_labelled_items_is_last() -> None:
    x, _ = problem(3)
    order = content_order(x, np.where(np.arange(len(x)) < 20, 2, -1), 4)
    assert order.classes[0] == 2 and sorted(order.classes) == [0, 1, 2, 3]
