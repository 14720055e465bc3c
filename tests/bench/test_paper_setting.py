"""The paper's setting from a dataset's files to the table, with a tiny ViT of random weights; also by two processes.

Two benches divide the cells, and two processes that torchrun starts share one training.
"""

from __future__ import annotations

import json
import socket
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

from conftest import ROOT, call_cli
from forks import Forked
from ltgcd.bench.results import read_records
from ltgcd.features.backbones import vit
from ltgcd.features.backbones.vit import Variant, build_vit

SIZE = 32  # pixels of a view
VIT = ("dino_vits16", "someone/tiny", 24, 2, 2, 16, SIZE)  # a width of 24, 2 blocks, patches of 16
TABLE = """
title = "Tiny"
paper = "tab. tiny"
runs = "train"
datasets = [{ id = "cifar10", title = "CIFAR-10", name = "cifar10", split = { preset = "gcd" } }]
rows = [
  { id = "kmeans", title = "k-means", method = "kmeans" },
  { id = "simgcd", title = "SimGCD", method = "simgcd" },
  { id = "ltgcd-paper", title = "The paper's method", method = "ltgcd", preset = "paper" },
  { id = "ltgcd", title = "Ours (default)", method = "ltgcd" },
]
claims = [{ says = "their method is above SimGCD on All", falling = ["ltgcd-paper", "simgcd"] }]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A CIFAR-10 of 20 images a class, random weights, a table, and the repository's own setting, but shorter."""
    random = np.random.RandomState(0)
    folder = tmp_path / "data" / "cifar10" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    (folder / "batches.meta.txt").write_text("\n".join(f"class-{c}" for c in range(10)) + "\n")
    paint = random.randint(0, 256, (10, 3, 1, 1))
    for batch in range(1, 6):
        lines = []
        for c in np.repeat(np.arange(10), 4):
            image = np.clip(paint[c] + random.randint(-30, 30, (3, 32, 32)), 0, 255).astype(np.uint8)
            lines.append(bytes([c]) + image.tobytes())
        (folder / f"data_batch_{batch}.bin").write_bytes(b"".join(lines))
    torch.manual_seed(0)
    trunk, tail = build_vit(Variant(*VIT), SIZE, 1)
    save_file({**trunk.state_dict(), **tail.state_dict()}, tmp_path / "weights.safetensors")
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "tiny.toml").write_text(TABLE)
    (tables / "backbones.toml").write_text(_shorter())
    return tmp_path


def _shorter() -> str:
    """The section of the paper's setting in the repository, for the tiny network, with two epochs and views."""
    text = (ROOT / "benchmarks" / "tables" / "backbones.toml").read_text()
    section = "[dino_vitb16]" + text.partition("[dino_vitb16]")[2].partition("\n[")[0]
    for old, new in (
        ("[dino_vitb16]", "[dino_vits16]"),
        ("image_size = 224", f"image_size = {SIZE}"),
        ('"schedule.epochs" = 200', '"schedule.epochs" = 2'),
        ("views = 8", "views = 2"),
    ):
        assert old in section
        section = section.replace(old, new)
    return section


def arguments(place: Path, *more: str) -> list[str]:
    words = ["bench", "tiny", "--seeds", "2", "--tables", place / "tables", "--results", place / "results"]
    words += ["--work", place / "work", "--data", place / "data", "--json", *more]
    return [str(word) for word in words]


def be_tiny(weights: Path, patch: pytest.MonkeyPatch) -> None:
    """Put another network under a published name, for there is nothing to be fetched in a test."""
    patch.setitem(vit.VARIANTS, "dino_vits16", Variant(*VIT))
    patch.setattr(vit, "download_weights", lambda _variant: weights)


def be_tiny_there(weights: Path) -> None:
    """In another process."""
    be_tiny(weights, pytest.MonkeyPatch())


@pytest.fixture
def tiny(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    be_tiny(place / "weights.safetensors", monkeypatch)


def check(place: Path) -> None:
    """Every cell once, with the last block trained and the paper's rate, and all of them on the page."""
    lines = (place / "results" / "train.jsonl").read_text().splitlines()
    records = read_records(place / "results")
    assert len(lines) == len(records) == 8
    assert len({record["split_checksum"] for record in records.values()}) == 2  # one a seed
    for record in records.values():
        cell = record["cell"]
        assert cell["backbone"] == "dino_vits16"
        if cell["method"] != "kmeans":
            assert (cell["regime"], cell["image_size"], cell["views"]) == ("last-stage", SIZE, 2)
            schedule = record["settings"]["schedule"]
            assert (schedule["epochs"], schedule["batch_size"], schedule["learning_rate"]) == (2, 128, 0.1)
    page = (place / "RESULTS.md").read_text()
    assert "DINO ViT-B/16, 224 px, 200 epochs, last-stage" in page
    for row in ("k-means", "SimGCD", "The paper's method", "Ours (default)"):
        (line,) = [line for line in page.splitlines() if line.startswith(f"| {row} | ")]
        assert "| 0, 1 |" in line


@pytest.mark.usefixtures("tiny")
def test_the_paper_s_setting_from_files_to_the_table(place: Path) -> None:
    planned = call_cli(*arguments(place, "--dry-run"))
    assert planned.code == 0, planned.err
    assert planned.json["todo"] == 8
    done = call_cli(*arguments(place))
    assert done.code == 0, done.err
    assert done.json["ran"] == 8
    check(place)


@pytest.mark.usefixtures("tiny")
def test_two_processes_share_the_cells_of_the_paper_s_setting(place: Path) -> None:
    """One command for each GPU, started together in one folder: each cell is run by one of them."""
    before = partial(be_tiny_there, place / "weights.safetensors")
    both = [Forked(*arguments(place), before=before) for _ in range(2)]
    said = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    ran = [json.loads(out)["ran"] for out, _ in said]
    assert sum(ran) == 8, said
    rendered = call_cli(*arguments(place, "--render"))
    assert rendered.code == 0, rendered.err
    check(place)


def as_torchrun_starts(rank: int, port: int) -> dict[str, str]:
    """The variables that ``torchrun --nproc-per-node 2`` sets for each of its processes."""
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    return {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.usefixtures("tiny")
def test_two_processes_share_one_training_of_the_last_block(place: Path) -> None:
    """Each computes its half of every batch, in the paper's setting: the losses and labels are those of one process."""
    weights = place / "weights.safetensors"
    for words in (
        ["split", "cifar10", "--preset", "gcd", "--data", place / "data", "--out", place / "split"],
        ["embed", place / "split", "--backbone", "dino_vits16", "--image-size", SIZE, "--views", 2,
         "--out", place / "features"],
    ):  # fmt: skip
        done = call_cli(*map(str, words), "--json")
        assert done.code == 0, done.err
    words = ["train", place / "features", "--k", 10, "--preset", "paper", "--regime", "last-stage", "--epochs", 2]
    words += ["--set", "schedule.batch_size=128", "--set", "schedule.learning_rate=0.1", "--set", "whiten=false"]
    words += ["--json", "--out"]
    before, port = partial(be_tiny_there, weights), free_port()
    both = [Forked(*words, place / "two", before=before, **as_torchrun_starts(rank, port)) for rank in range(2)]
    said = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert json.loads(said[0][0])["method"] == "ltgcd"
    assert said[1][0] == ""  # the first one speaks
    alone = call_cli(*map(str, words), str(place / "one"))
    assert alone.code == 0, alone.err

    def first_epoch(name: str) -> dict[str, Any]:
        return dict(json.loads((place / name / "metrics.jsonl").read_text().splitlines()[0]))

    losses = [{key: value for key, value in first_epoch(name).items() if "loss" in key} for name in ("one", "two")]
    assert losses[0]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
    labels = [pq.read_table(place / name / "assignments.parquet")["label"].to_numpy() for name in ("one", "two")]
    assert (labels[0] == labels[1]).mean() > 0.9


def test_a_bench_is_not_shared_by_torchrun(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes of one world at two cells would average gradients of different runs, or wait for ever."""
    for name, value in as_torchrun_starts(0, free_port()).items():
        monkeypatch.setenv(name, value)
    refused = call_cli(*arguments(place))
    assert refused.code == 2
    assert "start 'ltgcd bench' once for each process or GPU" in refused.json["error"]
    assert call_cli(*arguments(place, "--dry-run")).code == 0
