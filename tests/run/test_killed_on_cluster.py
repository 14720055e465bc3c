"""`ltgcd discover --cluster ray` whose driver is killed, and started again: with the cluster, and without it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from ltgcd.data.sources import read_source
from ltgcd.run.directory import Run
from ltgcd.run.discover import discover_source

# The real command, with nothing to rehearse; neighbours are searched in blocks of 300 items, and where it shall be
# killed, the first search never gets its third.
RUNNER = """
import sys, time
from ltgcd.common.engine import ray_cluster
from ltgcd.graph import knn
from ltgcd.run.discover import discover_source
from ltgcd.__main__ import main
discover_source.__kwdefaults__["rehearsals"] = 0
knn.QUERIES, following, given = 300, ray_cluster._next, []
def slow(shards):
    given.append(None)
    if len(given) == 3:
        time.sleep(120)
    return following(shards)
if sys.argv.pop(1) == "killed":
    ray_cluster._next = slow
main()
"""


def discover(how: str, source: Path, run: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RUNNER, how, "discover", str(source), "--out", str(run), "--k", "6", *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment)


def blocks(run: Path) -> list[Path]:
    return sorted(run.glob("shared/*/rows-*.npz"))


def test_a_driver_killed_at_its_first_block_goes_on_with_the_cluster_or_without_it(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    random = np.random.RandomState(0)
    true = random.randint(6, size=1200)
    x = (3 * np.eye(6, 12)[true] + random.randn(1200, 12)).astype(np.float32)
    source = tmp_path / "source.npz"
    np.savez(source, x=x, y=np.where((true < 4) & (random.rand(1200) < 0.5), true, -1))

    killed = discover("killed", source, tmp_path / "again", "--cluster", "ray")
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
    ray = discover("whole", source, tmp_path / "again", "--cluster", "ray")
    alone = discover("whole", source, tmp_path / "alone")
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
