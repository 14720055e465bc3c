"""`ltgcd discover --cluster ray` whose driver is killed, and started again: with the cluster, and without it."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from forks import Forked
from ltgcd.common.engine import ray_cluster
from ltgcd.data.sources import read_source
from ltgcd.graph import knn
from ltgcd.run.directory import Run
from ltgcd.run.discover import discover_source


def quick(killed: bool) -> None:
    """Nothing to rehearse, blocks of 300 items; where it shall be killed, the first search never gets its third."""
    discover_source.__kwdefaults__["rehearsals"] = 0  # type: ignore[index]
    knn.QUERIES = 300
    following, given = ray_cluster._next, list[None]()

    def slow(shards: Iterator[Any]) -> tuple[Any, int] | None:
        given.append(None)
        if len(given) == 3:
            time.sleep(120)
        return following(shards)

    if killed:
        ray_cluster._next = slow


def discover(killed: bool, source: Path, run: Path, *options: str) -> Forked:
    """The real command."""
    return Forked("discover", source, "--out", run, "--k", "6", *options, before=partial(quick, killed))


def blocks(run: Path) -> list[Path]:
    return sorted(run.glob("shared/*/rows-*.npz"))


def test_a_driver_killed_at_its_first_block_goes_on_with_the_cluster_or_without_it(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    random = np.random.RandomState(0)
    true = random.randint(6, size=1200)
    x = (3 * np.eye(6, 12)[true] + random.randn(1200, 12)).astype(np.float32)
    source = tmp_path / "source.npz"
    np.savez(source, x=x, y=np.where((true < 4) & (random.rand(1200) < 0.5), true, -1))

    killed = discover(True, source, tmp_path / "again", "--cluster", "ray")
    until = time.monotonic() + 120
    while not blocks(tmp_path / "again"):
        assert killed.poll() is None, killed.communicate()
        assert time.monotonic() < until, "no block was finished"
        time.sleep(0.05)
    started = psutil.Process(killed.pid).children(recursive=True)
    actors = [process for process in started if "_Actor" in " ".join(process.cmdline())]
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    _, alive = psutil.wait_procs(actors, timeout=60)  # of Ray itself, two agents take a minute longer to notice
    assert actors and not alive, "who computes ends with the command"
    finished = len(blocks(tmp_path / "again"))
    assert 1 <= finished <= 2
    assert not (tmp_path / "again" / "assignments.parquet").exists()

    shutil.copytree(tmp_path / "again", tmp_path / "alone")
    ray = discover(False, source, tmp_path / "again", "--cluster", "ray")
    alone = discover(False, source, tmp_path / "alone")
    discover_source(read_source(source), tmp_path / "undisturbed", k=6, rehearsals=0)
    told = [process.communicate(timeout=240)[1] for process in (ray, alone)]
    assert [ray.returncode, alone.returncode] == [0, 0], told
    reused = f"searching neighbours: {finished} of 4 blocks were finished before"
    assert all(reused in text for text in told)
    assert ["Ray actors" in text for text in told] == [True, False]
    tables = [Run(tmp_path / name).assignments() for name in ("undisturbed", "again", "alone")]
    assert tables[1].equals(tables[0])
    assert tables[2].equals(tables[0])
    assert not any((tmp_path / name / "shared").exists() for name in ("again", "alone"))
