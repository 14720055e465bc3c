"""Progress is told on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ltgcd.common.progress
from conftest import call_cli
from ltgcd.common.progress import progress, rate, time_left
from ltgcd.graph.knn import knn_graph


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


def test_a_terminal_sees_stage_rate_and_time_left() -> None:
    code = (
        "import time\nfrom ltgcd.common.progress import progress\n"
        "with progress('embedding (x)', 40) as advance:\n"
        "    for _ in range(40):\n        time.sleep(0.02)\n        advance(1)\n"
    )
    reader, writer = pty.openpty()
    done = subprocess.run([sys.executable, "-c", code], stderr=writer, check=True, timeout=60)
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
    text = shown.decode()
    assert done.returncode == 0
    assert "embedding (x)" in text
    assert "/40" in text
    assert "/s" in text
    assert "left" in text


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
