"""The same answer to the last bit from command and Python, of ``discover`` and ``update``, on three kinds of source:
whatever the order of the rows, the names and numbers of classes, the number of threads and of worker processes.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import ltgcd
from conftest import Result, call_cli
from ltgcd.data.collection import Source
from ltgcd.data.digits import digits_source
from ltgcd.data.write_source import write_source
from ltgcd.run.directory import Run

Rows = dict[str, tuple[str, str, float]]  # name, status, confidence by item
Call = Callable[..., Result]  # runs a command

RENAMED = {"red": "zebra", "green": "apple", "0": "seven", "1": "a", "2": "z", "3": "m", "4": "b", "5": "k"}


@pytest.fixture
def other_process(with_two_threads: Callable[..., Result]) -> Call:
    """Runs a command in another process, which has two threads."""
    return partial(with_two_threads, call_cli)


def command(source: Path, out: Path, *more: object, call: Call = call_cli) -> tuple[dict[str, Any], Rows]:
    done = call("discover", source, "--out", out, "--image-size", "32", *more, "--json")
    assert done.code == 0, done.err
    return done.json, rows_of(out)


def updated(run: Path, new: Path, call: Call = call_cli) -> tuple[int, Rows]:
    """Number of classes and all rows after an update, which changes none of the old ones."""
    before = rows_of(run)
    done = call("update", run, new, "--json")
    assert done.code == 0, done.err
    after = rows_of(run)
    assert {name: after[name] for name in before} == before
    assert len(after) - len(before) == done.json["n_added"] > 0
    return done.json["k"], after


def renamed(rows: Rows, ids: dict[str, str]) -> Rows:
    return {ids.get(i, i): (RENAMED.get(name, name), *rest) for i, (name, *rest) in rows.items()}


def rows_of(run: Path) -> Rows:
    table = Run(run).assignments()
    return {row["id"]: (row["name"], row["status"], row["confidence"]) for row in table.to_pylist()}


def python(run: Path) -> tuple[ltgcd.CategoryDiscovery, list[str]]:
    """The same from Python, on the vectors that the command has made."""
    kept = Run(run).features()
    assert kept is not None
    labels, ids = Run(run).labels(), kept.ids.to_pylist()
    pairs = zip(labels.ids.to_pylist(), labels.y, strict=True)
    given = {name: labels.class_names[c] if c >= 0 else None for name, c in pairs}
    return ltgcd.CategoryDiscovery().fit(kept.x, [given[name] for name in ids]), ids


def check_python(result: dict[str, Any], rows: Rows, run: Path) -> None:
    model, ids = python(run)
    assert (model.n_classes_, model.k_estimate_.low, model.k_estimate_.high) == tuple(
        result[name] for name in ("k", "low", "high")
    )
    found = zip(model.labels_.tolist(), model.status_.tolist(), model.confidence_.tolist(), strict=True)
    assert dict(zip(ids, found, strict=True)) == rows


def check_same(one: tuple[dict[str, Any], Rows], two: tuple[dict[str, Any], Rows], ids: dict[str, str]) -> None:
    """The second is the first with other ids and RENAMED classes."""
    names = ("k", "low", "high", "known", "novel", "unsure", "calibration_error")
    assert [one[0][name] for name in names] == [two[0][name] for name in names]
    assert renamed(one[1], ids) == two[1]


def check_updates(one: Path, two: Path, new: Path, other: Path, ids: dict[str, str], call: Call) -> None:
    """Two runs, the second with other ids and RENAMED classes, say the same of the same new items in another order."""
    k, rows = updated(one, new)
    assert (k, renamed(rows, ids)) == updated(two, other, call)


def test_embeddings(tmp_path: Path, other_process: Call) -> None:
    whole = digits_source()
    source = Source(whole.collection.select(np.arange(0, len(whole.collection), 3)), None)
    one = command(write_source(tmp_path / "one.npz", source), tmp_path / "one")
    check_python(*one, tmp_path / "one")
    held = source.collection
    order = np.random.RandomState(0).permutation(len(held))
    names = [RENAMED[name] for name in held.class_names]
    ids = np.array(held.ids.to_pylist())
    np.savez(tmp_path / "two.npz", x=held.items.x[order], y=held.y[order], ids=ids[order], class_names=np.array(names))
    check_same(one, command(tmp_path / "two.npz", tmp_path / "two", call=other_process), {})
    later = whole.collection.select(np.arange(1, len(whole.collection), 9))
    x, ids = later.items.x, np.array(later.ids.to_pylist())
    for name, rows in (("new", np.arange(len(x))), ("other", np.random.RandomState(1).permutation(len(x)))):
        np.savez(tmp_path / f"{name}.npz", x=x[rows], ids=ids[rows])
    news = tmp_path / "new.npz", tmp_path / "other.npz"
    check_updates(tmp_path / "one", tmp_path / "two", *news, {}, other_process)


def test_a_folder_of_images(tmp_path: Path, other_process: Call) -> None:
    random = np.random.RandomState(0)
    moved: dict[str, str] = {}
    for number in range(75):
        kind = ("red", "green", "blue")[number % 3]
        shade = {"red": (200, 60, 60), "green": (60, 200, 60), "blue": (60, 60, 200)}[kind]
        pixels = np.clip(np.array(shade) + random.normal(0, 40, (24, 24, 3)), 0, 255).astype(np.uint8)
        folder = kind if kind != "blue" and number < 30 else "unlabelled"
        first = f"{folder}/{number:02d}.png"
        second = f"{RENAMED.get(folder, folder)}/{(number * 7) % 75:02d}.png"  # another order of names
        moved[first] = second
        for root, name in (("one", first), ("two", second)):
            path = tmp_path / (root if number < 60 else f"{root}-new") / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
    one = command(tmp_path / "one", tmp_path / "run-one")
    check_python(*one, tmp_path / "run-one")
    two = command(tmp_path / "two", tmp_path / "run-two", "--workers", 2, call=other_process)
    check_same(one, two, moved)
    news = tmp_path / "one-new", tmp_path / "two-new"
    check_updates(tmp_path / "run-one", tmp_path / "run-two", *news, moved, other_process)


def test_openvino_gives_the_same_labels(tmp_path: Path) -> None:
    """It rounds otherwise, so that confidences may differ; labels only where two classes are as good."""
    pytest.importorskip("openvino", reason="OpenVINO is not installed")
    random = np.random.RandomState(0)
    for number in range(45):
        shade = np.zeros(3) + 60
        shade[number % 3] = 200
        pixels = np.clip(shade + random.normal(0, 40, (24, 24, 3)), 0, 255).astype(np.uint8)
        folder = ("red", "green", "unlabelled")[number % 3] if number < 24 else "unlabelled"
        (tmp_path / "source" / folder).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "source" / folder / f"{number:02d}.png")
    found = []
    for engine in ("torch", "openvino"):
        done, rows = command(tmp_path / "source", tmp_path / engine, "--engine", engine, "--k", 3)
        found.append((done["k"], {name: row[:2] for name, row in rows.items()}))
    assert found[0] == found[1]


def test_texts(tmp_path: Path, other_process: Call) -> None:
    pytest.importorskip("transformers", reason="the text encoder is not installed")
    random = np.random.RandomState(0)
    words = {
        "red": ["my", "card", "was", "stolen", "and", "i", "want", "a", "new", "one", "please"],
        "green": ["what", "is", "the", "exchange", "rate", "of", "euros", "in", "dollars", "today"],
        "blue": ["how", "do", "i", "change", "the", "address", "of", "my", "account"],
    }
    lines = []
    for number in range(108):
        kind = ("red", "green", "blue")[number % 3]
        text = " ".join(random.permutation(words[kind])[: random.randint(3, 9)]) + "!" * (number // 3 % 4)
        lines.append((f"t{number:02d}", text, kind if kind != "blue" and number < 45 else ""))
    order = random.permutation(90)
    for name, rows in (
        ("one", lines[:90]),
        ("two", [(lines[i][0], lines[i][1], RENAMED.get(lines[i][2], lines[i][2])) for i in order]),
        ("new", lines[90:]),
        ("other", lines[:89:-1]),
    ):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("id", "text", "label"), *rows])
    one = command(tmp_path / "one.csv", tmp_path / "run-one")
    check_python(*one, tmp_path / "run-one")
    two = command(tmp_path / "two.csv", tmp_path / "run-two", "--workers", 2, call=other_process)
    check_same(one, two, {})
    news = tmp_path / "new.csv", tmp_path / "other.csv"
    check_updates(tmp_path / "run-one", tmp_path / "run-two", *news, {}, other_process)
