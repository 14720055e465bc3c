from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_small_seed_of_the_standing_trial_keeps_every_promise() -> None:
    # In a process of its own: one that has computed with torch can't be forked.
    # One worker does the trials that two would share, and imports everything once.
    command = [sys.executable, "-m", "tests.torture", "--trials", "3", "--seed", "0", "--workers", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 failures" in done.stdout
