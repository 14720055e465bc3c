"""Progress is told on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ltgcd.common.progress
from conftest import call_cli
from ltgcd.class_number.estimate import estimate_k
from ltgcd.common.progress import progress, rate, time_left
from ltgcd.data.npz import read_npz, write_npz
from ltgcd.graph.communities import communities
from ltgcd.graph.knn import knn_graph
from ltgcd.graph.semi_kmeans import semi_kmeans
from ltgcd.output.report.geometry import whitened_features
from ltgcd.output.report.layout import places_on_map


def test_rates_and_times_in_words() -> None:
    assert [rate(speed) for speed in (0.25, 1.0, 3.14, 57.3)] == ["4.0 s each", "1.0/s", "3.1/s", "57/s"]
    assert [time_left(s) for s in (4.4, 89, 300, 7500)] == ["4 s", "89 s", "5 min", "2 h 5 min"]


def test_a_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter([0.0, 10.0, 40.0, 50.0, 80.0, 120.0])
    monkeypatch.setattr(ltgcd.common.progress.time, "monotonic", lambda: next(clock))
    with progress("training", 100) as advance:
        for done in (10, 10, 10, 20, 50):
            advance(done)
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "· training: 20 of 100, 2.0 s each, 3 min left",
        "· training: 50 of 100, 1.6 s each, 80 s left",
    ]


def on_terminal(code: str) -> str:
    """What some code that ends well shows on a terminal."""
    reader, writer = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80"}
    process = subprocess.Popen([sys.executable, "-c", code], stderr=writer, stdout=writer, env=environment)
    os.close(writer)
    shown = b""
    while True:
        try:
            block = os.read(reader, 65536)
        except OSError:  # the other end is closed
            break
        if not block:
            break
        shown += block
    os.close(reader)
    assert process.wait(timeout=60) == 0, shown.decode()
    return shown.decode()


def test_a_terminal_sees_step_stage_rate_and_time_left() -> None:
    text = on_terminal(
        "import time\nfrom ltgcd.common.progress import progress, step, steps\n"
        "from ltgcd.cli.common import status\n"
        "with steps('embedding', 'training'):\n"
        "    step('embedding')\n    status('embedding 1,200 texts')\n    status('this needs disk')\n"
        "    with progress('embedding (x)', 1200) as advance:\n"
        "        for _ in range(40):\n            time.sleep(0.05)\n            advance(30)\n"
        "    step('rehearsals')\n    step('training')\n    status('training with x')\n"
        "status('over')\n"
    )
    told = [line.strip() for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r", "\n").split("\n")]
    said = [line for line in told if line.startswith("·")]
    assert said == [
        "· step 1 of 2 · embedding 1,200 texts",
        "· this needs disk",
        "· step 2 of 2 · training with x",
        "· over",
    ]
    bars = [line for line in told if line.startswith("step 1 of 2 · embedding (x) ")]
    assert any(re.search(r" [1-9][\d,]* of 1,200 · \d+/s · \d s left$", line) for line in bars), bars


def test_what_is_over_at_once_draws_nothing() -> None:
    text = on_terminal(
        "from ltgcd.common import progress as shown\nfrom ltgcd.common.progress import progress\n"
        "shown.SHOWN_SECONDS = 10  # however busy the machine is\n"
        "for n in range(50):\n    with progress('short', 10) as advance:\n        advance(10)\nprint('end')\n"
    )
    assert text.strip() == "end"


def test_training_tells_how_far_it_is(
    npz: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ltgcd.common.progress.LINE_SECONDS", 0.0)
    options = ("--k", 3, "--epochs", 2, "--set", "schedule.batch_size=8", "--out", tmp_path / "run", "--json")
    done = call_cli("train", npz(), *options)
    assert done.code == 0, done.err
    # Step by step: of many classes an epoch takes minutes.
    assert "· training: 1 of 10, " in done.err and " left" in done.err


@pytest.mark.parametrize("exact", [True, False])
def test_the_search_of_neighbours_tells_how_far_it_is(
    exact: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The longest stage of a large collection: 200,000 items with 1,000 classes take minutes before the first epoch."""
    monkeypatch.setattr("ltgcd.common.progress.LINE_SECONDS", 0.0)
    monkeypatch.setattr("ltgcd.graph.knn.QUERIES", 1000)
    random = np.random.RandomState(1)
    x = random.randn(40, 24)[random.randint(0, 40, 6000)] + 0.5 * random.randn(6000, 24)
    assert knn_graph(x.astype(np.float32), 15, exact=exact).exact is exact
    said = capsys.readouterr().err
    assert said.count("· searching neighbours: 1,000 of 6,000, ") == 1
    assert said.count("· sorting items into cells: 1,000 of 6,000, ") == (0 if exact else 1)


def made_up(n: int, k: int, d: int = 24) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(1)
    true = random.randint(k, size=n)
    x = (random.randn(k, d)[true] + 0.5 * random.randn(n, d)).astype(np.float32)
    return x, np.where((true % 2 == 0) & (random.rand(n) < 0.5), true // 2, -1)


def test_what_takes_long_says_that_it_has_begun(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A call of a library can't tell how far it is: a log shows all the same what is going on. What is short is silent.

    Once a line has told how far it is, that it has begun is no news.
    """
    monkeypatch.setattr("ltgcd.common.progress.BEGAN_SECONDS", 0.1)
    with progress("finding principal components", 1):
        time.sleep(0.5)
    assert capsys.readouterr().err == "· finding principal components …\n"
    monkeypatch.setattr("ltgcd.common.progress.BEGAN_SECONDS", 0.5)
    with progress("short", 1):
        pass
    monkeypatch.setattr("ltgcd.common.progress.LINE_SECONDS", 0.0)
    with progress("training", 3) as advance:
        advance(1)
        time.sleep(1.0)
    said = capsys.readouterr().err
    assert said.startswith("· training: 1 of 3, ") and said.count("\n") == 1


def test_what_is_part_of_something_else_has_a_bar_below_it() -> None:
    """Two displays on one terminal would write over each other."""
    on_terminal(
        "import time\nfrom ltgcd.common import progress\nprogress.SHOWN_SECONDS = 0.05\n"
        "with progress.progress('training', 2) as outer:\n"
        "    time.sleep(1)\n"
        "    with progress.progress('searching', 1):\n"
        "        time.sleep(1)\n"
        "        assert len(progress._bars) == 1 and len(progress._bars[0].tasks) == 2\n"
        "    outer(1)\n    assert [task.description for task in progress._bars[0].tasks] == ['training']\n"
        "assert not progress._bars\n"
        "with progress.progress('alone', 1):\n    time.sleep(1)\n    assert len(progress._bars) == 1\n"
        "assert not progress._bars\n"
    )


def test_every_long_stage_tells_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """In a large collection each of these takes from seconds to minutes, and was silent."""
    monkeypatch.setattr("ltgcd.common.progress.BEGAN_SECONDS", 600.0)  # however busy the machine is
    x, y = made_up(2000, 20)
    silent = estimate_k(x, y)
    assert not capsys.readouterr().err, "in a small one nothing is said"
    monkeypatch.setattr("ltgcd.common.progress.LINE_SECONDS", 0.0)
    assert estimate_k(x, y).labels.tolist() == silent.labels.tolist()
    communities(knn_graph(x, 10), 300, 0)
    semi_kmeans(x, y, 10, 20)
    monkeypatch.setattr("ltgcd.output.report.layout.SAMPLE", 100)
    monkeypatch.setattr("ltgcd.output.report.layout.ROWS", 1000)
    monkeypatch.setattr("ltgcd.output.report.layout.ITERATIONS", 250)
    places_on_map(x, np.arange(2000) % 20)
    whitened_features(x, y)
    write_npz(tmp_path / "large.npz", {"x": np.zeros((2**20, 5), np.float32)})
    read_npz(tmp_path / "large.npz")
    said = capsys.readouterr().err
    for stage in (
        "merging density peaks", "learning what tells known from novel", "counting hidden classes",
        "drawing what chance may have decided", "looking for communities", "drawing the first centres",
        "comparing items with centres", "placing items on the map", "whitening items for the page",
        "writing large.npz (MB)", "looking at every byte (MB)", "reading large.npz (MB)",
    ):  # fmt: skip
        assert re.search(rf"· {re.escape(stage)}: [\d,]+ of [\d,]+, .* left\n", said), stage
