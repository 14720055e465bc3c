"""The export command on run directories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from conftest import WIDE, fails
from ltgcd.cli import output
from ltgcd.data.collection import Source
from ltgcd.data.sources import read_source
from ltgcd.discovery.assignments import ASSIGNMENT_COLUMNS
from ltgcd.output.export.formats import FORMATS
from ltgcd.output.export.publish import PREFIX
from ltgcd.run.directory import Run

ROWS = [
    ("cat/a.png", 0, "cat", "known", 0.9),
    ("cat/b.png", 0, "cat", "known", 0.8),
    ("dog/c.jpg", 1, "dog", "known", 0.7),
    ("unlabelled/d.png", 2, "novel-001", "novel", 0.6),
    ("unlabelled/deep/e.jpg", 2, "novel-001", "unsure", 0.3),
]


def write_run(folder: Path, source: Source, rows: list[tuple[Any, ...]]) -> Path:
    Run(folder).begin({"method": "kmeans", "k": 3, "random_state": 0}, source)
    columns: dict[str, Any] = dict(zip(ASSIGNMENT_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    columns["confidence"] = pa.array(columns["confidence"], pa.float32())
    pq.write_table(pa.table(columns), folder / "assignments.parquet")
    return folder


@pytest.fixture
def run(image_folder: Path, tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", read_source(image_folder), ROWS)


def cli(*arguments: object) -> Any:
    app = typer.Typer()
    app.command("report")(output.report_page)
    app.command("export")(output.export)
    return CliRunner(env=WIDE).invoke(app, ["export", *(str(a) for a in arguments)])


def test_the_command(run: Path, image_folder: Path, tmp_path: Path) -> None:
    options = ("--source", image_folder, "--status", "novel", "--status", "unsure", "--out", tmp_path / "out")
    done = cli(run, "--format", "folders", *options, "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert {"format": "folders", "n": 2, "path": str(tmp_path / "out")}.items() <= result.items()
    assert "5 items as csv" in cli(run, "--format", "csv", "--out", tmp_path / "o.csv").output
    nothing = cli(run, "--format", "coco", "--source", image_folder, "--status", "known", "--out", tmp_path / "known")
    assert nothing.exit_code == 0
    assert {path.name for path in (tmp_path / "known" / "data").iterdir()} == {"a.png", "b.png", "c.jpg"}


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_is_ever_overwritten(form: str, run: Path, image_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    out.write_text("mine")
    done = cli(run, "--format", form, "--source", image_folder, "--out", out)
    assert done.exit_code == 2
    assert "nothing is overwritten" in done.output
    assert out.read_text() == "mine"
    out.unlink()
    out.symlink_to(tmp_path / "nowhere")
    assert cli(run, "--format", form, "--source", image_folder, "--out", out).exit_code == 2
    out.unlink()
    (tmp_path / "out-interface.xml").write_text("mine")
    cli(run, "--format", form, "--source", image_folder, "--out", out)
    assert (tmp_path / "out-interface.xml").read_text() == "mine"
    assert not list(tmp_path.glob(".*tmp"))


def test_a_refused_export_sweeps_what_a_killed_one_left(run: Path, tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}{0:016x}.tmp"
    left.mkdir()
    (left / "output").write_text("half")
    (tmp_path / "labels.csv").write_text("whole")
    assert "there already" in fails("export", run, "--format", "csv", "--out", tmp_path / "labels.csv")
    assert [path.name for path in tmp_path.glob(".*")] == [] and (tmp_path / "labels.csv").read_text() == "whole"


def test_what_is_refused(run: Path, image_folder: Path, npz, tmp_path: Path) -> None:
    out, vectors = tmp_path / "out", npz()
    unfinished = tmp_path / "unfinished"
    Run(unfinished).begin({"method": "kmeans"}, read_source(image_folder))
    for arguments, words in (
        ((tmp_path / "nowhere", "--format", "csv"), "is not there"),
        ((vectors, "--format", "csv"), "not a run directory"),
        ((image_folder, "--format", "csv"), "no config.toml"),
        ((unfinished, "--format", "csv"), "finish the run first"),
        ((run, "--format", "yolo"), "choose csv, parquet, folders"),
        ((run, "--format", "csv", "--status", "maybe"), "known, novel, unsure or junk"),
        ((run, "--format", "folders"), "--source"),
        ((run, "--format", "label-studio"), "--source"),
        ((run, "--format", "coco", "--source", tmp_path / "gone"), "is not there"),
        ((run, "--format", "fiftyone", "--source", vectors), "not in"),
    ):
        done = cli(*arguments, "--out", out)
        assert done.exit_code == 2, (arguments, done.output)
        assert words in done.output
        assert "Traceback" not in done.output
        assert not out.exists()
    assert not list(tmp_path.glob(".*tmp"))
