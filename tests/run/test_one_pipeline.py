"""Command and Python give the same answer to the last bit, whatever the order of the rows and the names of classes."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import ltgcd
from conftest import call_cli, run_cli
from ltgcd.data.collection import Source
from ltgcd.data.digits import digits_source
from ltgcd.data.sources import write_source
from ltgcd.run.directory import Run

Rows = dict[str, tuple[str, str, float]]  # name, status, confidence by item

RENAMED = {"red": "zebra", "green": "apple", "0": "seven", "1": "a", "2": "z", "3": "m", "4": "b", "5": "k"}


def command(source: Path, out: Path, **environment: str) -> tuple[dict[str, Any], Rows]:
    arguments = ("discover", source, "--out", out, "--image-size", "32", "--json")
    done = run_cli(*arguments, **environment) if environment else call_cli(*arguments)
    assert done.code == 0, done.err
    return done.json, rows_of(out)


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
    expected = {ids.get(i, i): (RENAMED.get(name, name), *rest) for i, (name, *rest) in one[1].items()}
    assert {i: tuple(row) for i, row in expected.items()} == two[1]


def test_embeddings(tmp_path: Path) -> None:
    whole = digits_source()
    source = Source(whole.collection.select(np.arange(0, len(whole.collection), 3)), None)
    one = command(write_source(tmp_path / "one.npz", source), tmp_path / "one")
    check_python(*one, tmp_path / "one")
    held = source.collection
    order = np.random.RandomState(0).permutation(len(held))
    names = [RENAMED[name] for name in held.class_names]
    ids = np.array(held.ids.to_pylist())
    np.savez(tmp_path / "two.npz", x=held.items.x[order], y=held.y[order], ids=ids[order], class_names=np.array(names))
    check_same(one, command(tmp_path / "two.npz", tmp_path / "two", OMP_NUM_THREADS="2"), {})


def test_a_folder_of_images(tmp_path: Path) -> None:
    random = np.random.RandomState(0)
    moved: dict[str, str] = {}
    for number in range(60):
        kind = ("red", "green", "blue")[number % 3]
        shade = {"red": (200, 60, 60), "green": (60, 200, 60), "blue": (60, 60, 200)}[kind]
        pixels = np.clip(np.array(shade) + random.normal(0, 40, (24, 24, 3)), 0, 255).astype(np.uint8)
        folder = kind if kind != "blue" and number < 30 else "unlabelled"
        first = f"{folder}/{number:02d}.png"
        second = f"{RENAMED.get(folder, folder)}/{(number * 7) % 60:02d}.png"  # another order of names
        moved[first] = second
        for root, name in (("one", first), ("two", second)):
            path = tmp_path / root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
    one = command(tmp_path / "one", tmp_path / "run-one")
    check_python(*one, tmp_path / "run-one")
    check_same(one, command(tmp_path / "two", tmp_path / "run-two", OMP_NUM_THREADS="2"), moved)


def test_texts(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the text encoder is not installed")
    random = np.random.RandomState(0)
    words = {
        "red": ["my", "card", "was", "stolen", "and", "i", "want", "a", "new", "one", "please"],
        "green": ["what", "is", "the", "exchange", "rate", "of", "euros", "in", "dollars", "today"],
        "blue": ["how", "do", "i", "change", "the", "address", "of", "my", "account"],
    }
    lines = []
    for number in range(90):
        kind = ("red", "green", "blue")[number % 3]
        text = " ".join(random.permutation(words[kind])[: random.randint(3, 9)]) + "!" * (number // 3 % 4)
        lines.append((f"t{number:02d}", text, kind if kind != "blue" and number < 45 else ""))
    order = random.permutation(len(lines))
    for name, rows in (
        ("one", lines),
        ("two", [(lines[i][0], lines[i][1], RENAMED.get(lines[i][2], lines[i][2])) for i in order]),
    ):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("id", "text", "label"), *rows])
    one = command(tmp_path / "one.csv", tmp_path / "run-one")
    check_python(*one, tmp_path / "run-one")
    check_same(one, command(tmp_path / "two.csv", tmp_path / "run-two", OMP_NUM_THREADS="2"), {})
