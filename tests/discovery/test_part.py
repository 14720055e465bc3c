"""A fit of a part of the items, whose model labels the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ltgcd
from conftest import call_cli
from ltgcd.common.errors import InputError
from ltgcd.data.order import content_order
from ltgcd.discovery.discover import discover
from ltgcd.discovery.memory import MAPPED, check_memory, discovering
from ltgcd.discovery.part import rows_of_part, task_of_part
from ltgcd.discovery.task import Hints, Hooks, Task, configure
from ltgcd.output.report.layout import FITTED
from ltgcd.run.directory import Run

KINDS = 6


def blobs(n: int = 1500, old: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.RandomState(0)
    true = random.choice(KINDS, size=n, p=np.array([8, 6, 4, 3, 5, 2]) / 28)
    x = (np.eye(KINDS, 16)[true] * 5 + random.randn(n, 16)).astype(np.float32)
    return x, np.where((true < old) & (random.rand(n) < 0.1), true, -1).astype(np.int64), true


def test_the_others_are_labelled_by_the_model_of_a_part() -> None:
    x, y, true = blobs()
    x[7] = x[8] = x[9]  # copies, some of which may have a part in the fit
    y[7:10] = -1
    told: list[str] = []
    seen: list[dict[str, np.ndarray]] = []
    hooks = Hooks(notify=told.append, watch=lambda _epoch, sets: seen.append(sets))
    found = discover(Task(x, y, 4), configure(fit_on=400, rehearsals=1), hooks)
    assert any("the fit is on 400 of the 1,500 items, and its model labels the others" in one for one in told)
    assert found.k == KINDS and found.estimate is not None and found.estimate.evidence["sample"]["items"] == 400
    assert np.array_equal(found.labels[y >= 0], y[y >= 0])
    named = np.array([np.bincount(true[found.labels == c]).argmax() for c in range(KINDS)])
    assert sorted(named.tolist()) == list(range(KINDS))
    free = y < 0
    assert (named[found.labels] == true)[free].mean() > 0.97
    assert len(found.confidence) == len(found.unsure) == 1500 and found.runner_up is not None
    assert (found.runner_up != found.labels).all()
    assert len(set(found.labels[7:10])) == len(set(found.confidence[7:10])) == 1, "equal items, equal answers"
    masks = [mask for sets in seen for mask in sets.values()]
    assert masks and all(mask.shape == (1500,) and mask.sum() <= 400 for mask in masks)


def test_no_order_and_no_number_changes_an_answer() -> None:
    x, y, _ = blobs()
    config = configure(fit_on=300, rehearsals=0, k=KINDS)
    random = np.random.RandomState(1)
    rows, classes = random.permutation(len(x)), random.permutation(4)
    one = discover(Task(x, y, 4), config)
    two = discover(Task(x[rows], np.where(y < 0, -1, classes[y])[rows], 4), config)
    number = np.concatenate([classes, np.arange(4, KINDS)])
    assert np.array_equal(number[one.labels][rows], two.labels)
    assert np.array_equal(one.confidence[rows], two.confidence)


def test_of_more_labels_than_half_a_part_a_share_of_each_class_is_in_it() -> None:
    x, _, true = blobs()
    y = np.where((true < 4) & (np.arange(len(true)) % 3 > 0), true, -1)
    task, order = Task(x, y, 4), content_order(x, y, 4)
    rows = rows_of_part(task, 300, None, order, 0)
    counts = np.bincount(y[rows][y[rows] >= 0])
    assert len(rows) == pytest.approx(300, abs=5) and (y >= 0).sum() > 600
    assert counts.sum() == pytest.approx(150, abs=5) and counts.min() >= 20
    assert counts[0] / counts[1] == pytest.approx((y == 0).sum() / (y == 1).sum(), rel=0.15)
    found = discover(task, configure(fit_on=300, rehearsals=1, k=KINDS))
    assert np.array_equal(found.labels[y >= 0], y[y >= 0]) and not found.unsure[y >= 0].any()


def test_a_part_that_is_all_is_all() -> None:
    x, y, _ = blobs(300)
    plain, whole = (discover(Task(x, y, 4), configure(fit_on=n, rehearsals=1)) for n in (None, 300))
    assert np.array_equal(plain.labels, whole.labels) and np.array_equal(plain.confidence, whole.confidence)


def test_everything_that_was_said_is_in_the_part_and_of_each_category_something() -> None:
    x, y, _ = blobs()
    start = np.where(y < 0, 4 + np.arange(len(x)) % 2, -1)
    start[np.flatnonzero(y < 0)[:3]] = 6  # a category of three items
    free = np.flatnonzero(y < 0)
    hints = Hints(start, 3, (free[100:110], np.full(10, 4)), (free[200:205], np.full(5, 5)))
    task = Task(x, y, 4, hints=hints)
    order = content_order(x, y, 4)
    rows = rows_of_part(task, 400, start[order.rows], order, 0)
    assert len(rows) == 400 and np.array_equal(rows, np.unique(rows))
    assert (y >= 0).sum() < 200
    assert set(np.flatnonzero(y >= 0)) | set(free[100:110]) | set(free[200:205]) | set(free[:3]) <= set(rows)
    part = task_of_part(task, rows)
    assert part.hints is not None and np.array_equal(part.x, x[rows])
    assert np.array_equal(rows[part.hints.forbidden[0]], free[100:110])
    assert np.array_equal(rows[part.hints.placed[0]], free[200:205])
    assert np.array_equal(part.hints.start, start[rows])


def test_a_doubt_is_said_once_and_of_the_rows_that_were_given() -> None:
    x, y, _ = blobs()
    x[[1200, 1300]] = 0
    y[[1200, 1300]] = -1
    with pytest.warns(UserWarning) as told:
        discover(Task(x, y, 4), configure(fit_on=1400, rehearsals=0, k=KINDS))
    said = [str(one.message) for one in told if "are zero" in str(one.message)]
    assert len(said) == 1 and "2 of 1500 embeddings are zero (the first is row 1200)" in said[0]


def test_what_can_not_be_is_a_sentence() -> None:
    x, y, _ = blobs()
    with pytest.raises(InputError, match="A fit on 110 items has no room for 20 of each class and others beside"):
        discover(Task(x, y, 4), configure(fit_on=110, k=KINDS))
    with pytest.raises(InputError, match="A fit takes 100 items or more, not 7"):
        configure(fit_on=7)
    with pytest.raises(InputError, match="'kmeans' leaves no model that could label the other items"):
        configure("kmeans", fit_on=500)


def test_a_part_takes_the_memory_of_a_part() -> None:
    said: list[str] = []
    check_memory(10_000_000, 384, 1000, "32G", said.append, work=discovering(1_000_000))
    with pytest.raises(InputError, match=r"about .* of the items would fit; learn from as many with --fit-on, or"):
        check_memory(10_000_000, 384, 1000, "24G", said.append)
    with pytest.raises(InputError, match="fit on fewer, or take a machine with more"):
        check_memory(10_000_000, 384, 1000, "24G", said.append, work=discovering(5_000_000))
    assert MAPPED == FITTED
    assert discovering(1_000_000).needed(10_000_000, 384, 1000) < 32 << 30


def test_the_command_python_and_a_refit(npz: Callable[..., Path], tmp_path: Path) -> None:
    """Same answer from both; `refine` fits a part again, with everything that was said in it."""
    x, y, true = blobs()
    ids = np.array([f"i{n}" for n in range(len(x))])
    source = npz(x=x, y=y, y_true=true, ids=ids, class_names=np.array(["ant", "bee", "cat", "dog"]))
    options: tuple[Any, ...] = (source, "--fit-on", 400, "--out", tmp_path / "run")
    assert call_cli("discover", *options).code == 0
    assert "is finished" in call_cli("discover", *options).err
    assert "holds another run" in call_cli("discover", source, "--out", tmp_path / "run").err
    model = ltgcd.CategoryDiscovery(fit_on=400).fit(x, [["ant", "bee", "cat", "dog"][c] if c >= 0 else None for c in y])
    table = Run(tmp_path / "run").assignments()
    assert table.column("name").to_pylist() == model.labels_.tolist()
    assert np.array_equal(table.column("confidence").to_numpy(), model.confidence_)
    novel = [name for name in model.classes_.tolist() if name.startswith("novel")]
    wasps = np.flatnonzero(model.labels_ == novel[0])[:12]
    (tmp_path / "said.csv").write_text("id,label\n" + "".join(f"i{n},wasp\n" for n in wasps))
    assert call_cli("relabel", tmp_path / "run", tmp_path / "said.csv").code == 0
    done = call_cli("refine", tmp_path / "run")
    assert done.code == 0 and "the fit is on 400 of the 1,500 items" in done.err
    again = Run(tmp_path / "run").assignments()
    names = np.array(again.column("name").to_pylist())
    assert (names[wasps] == "wasp").all() and len(again) == 1500
    assert (names == "wasp").sum() > 60, "the others of its kind followed, also those that had no part in the fit"
    assert call_cli("check", tmp_path / "run").code == 0
