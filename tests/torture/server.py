"""A review page sends edits without pause, and its server is killed at any moment: each is kept, and none twice."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from .commands import REAL_TIMEOUT
from .problems import World
from .promise import HANG, LOST, broken

ROOT = Path(__file__).parents[2]


def trial(random: random.Random, folder: Path, _world: World) -> int:
    """A server that is killed a few times; returns the number of kills. What it promises is checked after each.

    In a process of its own, for it computes, and a process that has computed can't be forked for other trials.
    """
    folder.mkdir(parents=True)
    n, seed = random.randint(3, 12), random.randrange(2**31)
    command = [sys.executable, "-m", "tests.review.server.kills", "--kills", str(n), "--seed", str(seed)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=n * REAL_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        broken(HANG, f"a review server killed {n} times, seed {seed}")
    if done.returncode:
        broken(LOST, f"a review server killed {n} times, seed {seed}: {done.stderr[-4000:]}")
    return n
