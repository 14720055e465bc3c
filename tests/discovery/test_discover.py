"""The pure pipeline: no file, no order of rows, no numbering of classes and no number of threads changes an answer."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from ltgcd.common.errors import InputError
from ltgcd.data.order import content_order
from ltgcd.discovery.discover import Discovery, _caller_numbers, discover
from ltgcd.discovery.task import Hooks, Task, configure
from ltgcd.training.checkpoints import Checkpoints
from ltgcd.training.methods import METHODS
from ltgcd.training.problem import Problem


def blobs(
    n: int = 240, seed: int = 0, classes: int = 6, old: int = 4, width: int = 16
) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(seed)
    true = random.randint(classes, size=n)
    x = (np.eye(classes, width)[true] * 3 + random.randn(n, width)).astype(np.float32)
    return x, np.where((true < old) & (random.rand(n) < 0.6), true, -1).astype(np.int64)


def same(one: Discovery, two: Discovery, rows: np.ndarray, classes: np.ndarray) -> None:
    """`two` is of rows `rows`, with old class c called classes[c]."""
    assert (one.k, one.n_old) == (two.k, two.n_old)
    number = np.concatenate([classes, np.arange(one.n_old, one.k)])
    assert np.array_equal(number[one.labels][rows], two.labels)
    assert np.array_equal(one.confidence[rows], two.confidence)
    assert np.array_equal(one.unsure[rows], two.unsure)
    if one.estimate is not None:
        assert (one.estimate.low, one.estimate.high) == (two.estimate.low, two.estimate.high)
        assert one.estimate.curve == two.estimate.curve


@pytest.mark.parametrize("method", list(METHODS))
def test_order_of_rows_and_numbers_of_classes_change_nothing(method: str) -> None:
    x, y = blobs()
    x[5] = x[6] = x[7]  # copies
    y[5:8] = -1
    epochs = {"schedule.epochs": 3} if METHODS[method].trained else {}
    ours = method == "ltgcd"
    config = configure(method, k=None if ours else 6, changes=epochs, rehearsals="auto" if ours else len(epochs))
    random = np.random.RandomState(1)
    rows, classes = random.permutation(len(x)), random.permutation(4)
    one = discover(Task(x, y, 4), config)
    two = discover(Task(x[rows], np.where(y < 0, -1, classes[y])[rows], 4), config)
    same(one, two, rows, classes)
    assert len(set(one.labels[5:8])) == len(set(one.confidence[5:8])) == 1, "equal items, equal answers"


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.data(), st.integers(0, 10_000), st.integers(2, 5), st.sampled_from([6, 16, 300]))
def test_no_order_and_no_number_changes_an_answer(data: st.DataObject, seed: int, old: int, width: int) -> None:
    """Of drawn collections with copies, wide and narrow, overlapping or not: K, interval and labels to the last bit."""
    random = np.random.RandomState(seed)
    n, far = data.draw(st.integers(60, 140)), data.draw(st.sampled_from([0.5, 2.0, 6.0]))
    true = random.choice(old + 2, size=n, p=random.dirichlet(np.ones(old + 2)))
    true[: 2 * old] = np.arange(2 * old) % old  # every known class is shown twice
    x = (random.randn(old + 2, width)[true] * far + random.randn(n, width)).astype(np.float32)
    y = np.where((true < old) & (random.rand(n) < 0.5), true, -1).astype(np.int64)
    y[: 2 * old] = true[: 2 * old]
    y[-1] = -1
    for _ in range(data.draw(st.integers(0, 4))):
        one, other = random.randint(n, size=2)
        x[one], y[one], true[one] = x[other], y[other], true[other]
    y = np.unique(y, return_inverse=True)[1].astype(np.int64) - (y.min() < 0)  # a copy may have hidden a class
    old = int(y.max()) + 1
    rows, classes = random.permutation(n), random.permutation(old)
    config = configure(changes={"schedule.epochs": 2}, rehearsals=data.draw(st.integers(0, 1)), random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # copies with two labels are doubted
        first = discover(Task(x, y, old), config)
        second = discover(Task(x[rows], np.where(y < 0, -1, classes[y])[rows], old), config)
    same(first, second, rows, classes)


def test_the_model_has_the_callers_numbers() -> None:
    from ltgcd.features.views import VectorViews

    x, y = blobs()
    for method in ("ltgcd", "uno", "gcd", "rankstats"):
        config = configure(method, k=6, changes={"schedule.epochs": 4}, rehearsals=0)
        found = discover(Task(x, y, 4), config)
        assert found.fitted is not None
        predicted = found.fitted.predict(VectorViews(x)).argmax(axis=1)
        free = y < 0
        assert (predicted == found.labels)[free].mean() > (0.85 if method == "ltgcd" else 0.999), method


def test_novel_categories_come_by_their_sure_items() -> None:
    """Unsure items are counted in no category: a large one that nobody is sure of is not novel-001."""
    labels = np.repeat([0, 1, 2, 3], [2, 5, 3, 4])
    unsure = np.isin(np.arange(14), [3, 4, 5, 6, 12, 13])  # four of category 1, two of category 3
    answer = Discovery(4, 1, labels, np.ones(14, np.float32), unsure)
    y = np.where(np.arange(14) == 0, 0, -1)
    numbers = _caller_numbers(answer, Problem(np.eye(14, dtype=np.float32), y, 1, 4), content_order(np.eye(14), y, 1))
    assert numbers.tolist() == [0, 2, 3, 1]


def found(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[int | None]]:
    answer = discover(Task(x, y, 4), configure())
    assert answer.estimate is not None
    return answer.labels, answer.confidence, [answer.k, answer.estimate.low, answer.estimate.high]


def test_threads_change_nothing(with_two_threads: Callable[..., Any]) -> None:
    x, y = blobs(600, width=200)  # wide enough for OpenBLAS to share its products between threads
    with threadpool_limits(1):
        one = found(x, y)
    two = with_two_threads(found, x, y)
    for name, a, b in zip(("labels", "confidence", "k"), one, two, strict=True):
        assert np.array_equal(a, b), name


def test_nothing_is_read_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = blobs(150)
    config = configure(k=6, changes={"schedule.epochs": 1}, rehearsals=1)
    for _ in range(2):  # what is imported late is imported now, and its libraries are looked for
        discover(Task(x, y, 4), config)
    monkeypatch.chdir(tmp_path)

    def refuse(*arguments: object, **_keywords: object) -> None:
        raise AssertionError(f"opened {arguments[0]}")

    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(os, "open", refuse)
    discover(Task(x, y, 4), config)
    assert not list(tmp_path.iterdir())


def test_stopped_anywhere_it_goes_on_to_the_same_answer(tmp_path: Path) -> None:
    x, y = blobs()
    config = configure(k=6, changes={"schedule.epochs": 3}, rehearsals=2)
    whole = discover(Task(x, y, 4), config)

    class Stopped(Exception):
        pass

    class Stopping(Checkpoints):
        def save(self, epoch: int, model: torch.nn.Module, optimiser: torch.optim.Optimizer) -> None:
            super().save(epoch, model, optimiser)
            left.pop()
            if not left:
                raise Stopped

    for stop_at in range(1, 9, 2):
        left = [None] * stop_at
        folder = tmp_path / str(stop_at)
        with pytest.raises(Stopped):
            discover(Task(x, y, 4), config, Hooks(checkpoints=lambda stage, at=folder: Stopping(at / stage)))
        done = discover(Task(x, y, 4), config, Hooks(checkpoints=lambda stage, at=folder: Checkpoints(at / stage)))
        same(whole, done, np.arange(len(x)), np.arange(4))


def test_how_many_rehearse_side_by_side_is_asked_with_the_number_that_was_found() -> None:
    """A rehearsal in thousands of classes takes more memory, and nobody knows how many there are before."""
    x, y = blobs()
    asked: list[int] = []
    config = configure(changes={"schedule.epochs": 1}, rehearsals=1)
    answer = discover(Task(x, y, 4), config, Hooks(processes=lambda k: len(asked) or asked.append(k) or 1))
    assert asked == [answer.k]


def test_an_estimate_that_is_there_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = blobs()
    config = configure(changes={"schedule.epochs": 1}, rehearsals=0)
    kept: list = []
    one = discover(Task(x, y, 4), config, Hooks(estimated=kept.append))
    assert kept == [one.estimate]
    monkeypatch.setattr(
        "ltgcd.discovery.discover.estimate_class_number", lambda *_, **__: pytest.fail("estimated again")
    )
    two = discover(Task(x, y, 4), config, Hooks(estimate=dataclasses.replace(kept[0])))
    same(one, two, np.arange(len(x)), np.arange(4))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"method": "magic"}, "no method 'magic'"),
        ({"method": "kmeans", "rehearsals": 2}, "rehearsed"),
        ({"method": "kmeans", "changes": {"k": 1}}, "no settings to change"),
        ({"rehearsals": 9}, "0 to 4 rehearsals"),
        ({"preset": "best"}, "no preset 'best'"),
        ({"labels_from": "moon"}, "not from 'moon'"),
    ],
)
def test_what_does_not_go_together_is_a_sentence(arguments: dict, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        configure(**arguments)


def test_an_impossible_number_of_classes_is_a_sentence() -> None:
    x, y = blobs()
    for k in (3, len(x) + 1):
        with pytest.raises(InputError, match="is impossible"):
            discover(Task(x, y, 4), configure(k=k))


def test_a_novel_category_never_has_the_name_of_a_known_class() -> None:
    """An export that was labelled and read again has known classes called "novel-001"."""
    from ltgcd.discovery.assignments import names_of_classes

    known = ("cat", "novel-001", "novel-003")
    assert names_of_classes(6, known) == [*known, "novel-002", "novel-004", "novel-005"]
    # A class that a person names later takes no name from those that are there, and later ones leave its name out.
    named = {5: "novel-006"}
    assert names_of_classes(9, known, named) == [
        *known, "novel-002", "novel-004", "novel-006", "novel-007", "novel-008", "novel-009",
    ]  # fmt: skip
    for k in range(1, 9):
        assert names_of_classes(k, known, named) == names_of_classes(9, known, named)[:k]
    assert names_of_classes(5, ("a", "b"), {3: "77"}) == ["a", "b", "novel-001", "77", "novel-003"]
