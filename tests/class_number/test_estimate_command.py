"""The class number from the command line and Python's class: the same answer, its sentences and its picture."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from PIL import Image
from problems import blobs, few_draws  # noqa: F401 - the fixture is used by all
from typer.testing import CliRunner

from conftest import WIDE
from ltgcd import CategoryDiscovery
from ltgcd.class_number.estimate import estimate_k
from ltgcd.cli import app
from ltgcd.common.errors import InputError
from ltgcd.output.report.k_plot import k_plotter


def run_cli(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner(env=WIDE).invoke(app, [str(a) for a in arguments])
    return done.exit_code, done.stdout, done.stderr


def test_labels_from_elsewhere_in_every_way_to_run(tmp_path: Path) -> None:
    """The estimator, a run and the command line agree; a run that was started otherwise is not gone on with."""
    x, y, _true = blobs(6, 4)
    want = estimate_k(x, y, labels_from="elsewhere").k
    assert want > estimate_k(x, y).k
    np.savez(tmp_path / "b.npz", x=x, y=y)
    run, options = tmp_path / "run", ["--method", "kmeans", "--labels-from", "elsewhere", "--json"]
    done = CliRunner(env=WIDE).invoke(app, ["train", str(tmp_path / "b.npz"), "--out", str(run), *options])
    assert json.loads(done.stdout)["k"] == want
    assert json.loads((run / "k_estimate.json").read_text())["evidence"]["labels_from"] == "elsewhere"
    options[3] = "collection"
    other = CliRunner(env=WIDE).invoke(app, ["train", str(tmp_path / "b.npz"), "--out", str(run), *options])
    assert other.exit_code == 2
    for command in (
        ["train", "--out", str(tmp_path / "c")],
        ["discover", "--out", str(tmp_path / "c")],
        ["estimate-k"],
    ):
        command[1:1] = [str(tmp_path / "b.npz"), "--labels-from", "nowhere"]
        refused = CliRunner(env=WIDE).invoke(app, command)
        assert (refused.exit_code, "not from 'nowhere'" in refused.stderr) == (2, True)
    model = CategoryDiscovery(labels_from="elsewhere", epochs=1).fit(x, y)
    assert model.n_classes_ == want


def test_what_the_command_says_in_words(tmp_path: Path) -> None:
    x, y, _ = blobs(6, 3)
    np.savez(tmp_path / "b.npz", x=x, y=y)
    got = estimate_k(x, y)
    code, out, _ = run_cli("estimate-k", tmp_path / "b.npz")
    assert code == 0
    assert f"Estimated number of classes: {got.k}, 90 % interval {got.low} to {got.high} (6 known)." in out
    assert f"About {got.evidence['known_share']:.0%} of the unlabelled items belong to known classes." in out
    assert "never seen" not in out and "Chao1" not in out


def test_the_curve_as_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    x, y, _ = blobs(6, 3)
    np.savez(tmp_path / "b.npz", x=x, y=y)
    code, out, _ = run_cli("estimate-k", tmp_path / "b.npz", "--plot", tmp_path / "new" / "k.svg", "--json")
    assert code == 0
    result = json.loads(out)
    assert result["plot"] == str(tmp_path / "new" / "k.svg")
    for name in ("k.png", "again.svg"):
        k_plotter(tmp_path / "new" / name)(result)
    assert (tmp_path / "new" / "k.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / "new" / "k.svg").read_text()
    assert f"{result['k']} classes, 90 % interval {result['low']} to {result['high']}" in svg
    assert "6 known" in svg
    assert svg == (tmp_path / "new" / "again.svg").read_text()
    assert Image.open(tmp_path / "new" / "k.png").size == (1120, 640)


def test_a_picture_of_one_point_or_of_equal_scores(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    flat = {"method": "hdbscan", "k": 5, "low": None, "high": None, "n_old": 5, "curve": [[5, 40.0]], "evidence": {}}
    for result in (flat, {**flat, "curve": [[5, 1.0], [9, 1.0]]}, {**flat, "low": 5, "high": 5}):
        k_plotter(tmp_path / "k.svg")(result)
        assert "5 classes" in (tmp_path / "k.svg").read_text()


@pytest.mark.parametrize("name", ["k.gif", "k", "folder.png"])
def test_a_picture_that_can_not_be_drawn_is_refused_before_the_work(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    code, _, error = run_cli("estimate-k", tmp_path / "not-there.npz", "--plot", tmp_path / name)
    assert code == 2
    assert ".png or .svg" in error or "is a folder" in error


def test_without_matplotlib_one_sentence(tmp_path: Path) -> None:
    with (
        mock.patch.dict(sys.modules, {"matplotlib": None, "matplotlib.figure": None}),
        pytest.raises(InputError, match=r"needs matplotlib.*ltgcd\[plot\]"),
    ):
        k_plotter(tmp_path / "k.png")


def test_labels_that_show_nothing_are_said_everywhere(tmp_path: Path) -> None:
    x, y, _ = blobs(8, 12)
    np.savez(tmp_path / "one.npz", x=x, y=np.where(y == 0, 0, -1))
    code, out, _ = run_cli("estimate-k", tmp_path / "one.npz")
    assert code == 0
    assert "Careful: it takes two classes" in out
    code, _, messages = run_cli("train", tmp_path / "one.npz", "--epochs", 1, "--out", tmp_path / "run")
    assert code == 0
    assert "careful with the" in messages
    assert run_cli("report", tmp_path / "run", "--source", tmp_path / "one.npz")[0] == 0
    assert "it takes two classes" in (tmp_path / "run" / "report.html").read_text()


def test_a_ceiling_that_was_reached_is_said(tmp_path: Path) -> None:
    x, y, _ = blobs(6, 8)
    np.savez(tmp_path / "b.npz", x=x, y=y)
    assert "raise --k-max" in run_cli("estimate-k", tmp_path / "b.npz", "--k-max", 8)[1]
