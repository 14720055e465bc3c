"""The paper's setting from a dataset's files to the table, with a tiny ViT of random weights; also by two processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from conftest import ROOT
from ltgcd.bench.results import read_records
from ltgcd.features.backbones.vit import Variant, build_vit

SIZE = 32  # pixels of a view
VIT = ("dino_vits16", "someone/tiny", 24, 2, 2, 16, SIZE)  # a width of 24, 2 blocks, patches of 16
# The command with another network under a published name, for there is nothing to be fetched in a test.
COMMAND = f"""
import sys
from pathlib import Path
from ltgcd.features.backbones import vit
vit.VARIANTS["dino_vits16"] = vit.Variant(*{VIT!r})
weights = Path(sys.argv[1])
vit.download_weights = lambda variant: weights
sys.argv = ["ltgcd", *sys.argv[2:]]
from ltgcd.cli import main
main()
"""
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


def command(place: Path, *more: str) -> list[str]:
    arguments = ["bench", "tiny", "--seeds", "2", "--tables", place / "tables", "--results", place / "results"]
    arguments += ["--work", place / "work", "--data", place / "data", "--json", *more]
    return [sys.executable, "-c", COMMAND, str(place / "weights.safetensors"), *map(str, arguments)]


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


def test_the_paper_s_setting_from_files_to_the_table(place: Path) -> None:
    planned = subprocess.run(command(place, "--dry-run"), check=True, capture_output=True, text=True)
    assert json.loads(planned.stdout)["todo"] == 8
    done = subprocess.run(command(place), check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ran"] == 8
    check(place)


def test_two_processes_share_the_cells_of_the_paper_s_setting(place: Path) -> None:
    """One command for each GPU, started together in one folder: each cell is run by one of them."""
    both = [
        subprocess.Popen(command(place), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    said = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    ran = [json.loads(out)["ran"] for out, _ in said]
    assert sum(ran) == 8, said
    subprocess.run(command(place, "--render"), check=True, capture_output=True)
    check(place)
