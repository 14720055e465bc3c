"""Run the standing trial: ``python -m tests.torture --minutes 10 --seed 0``, or one trial again with ``--repeat``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .trials import KINDS, heading, repeat, run_for, table

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--trials", type=int, help="Only this many of each kind (and one of the long ones).")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--failures", type=Path, help="Write every failure to this file as soon as it is found.")
    parser.add_argument("--out", type=Path, help="Write the table to this file, too.")
    parser.add_argument("--repeat", nargs=2, metavar=("KIND", "SEED"), help="Do one trial again, and keep its folder.")
    asked = parser.parse_args()
    if asked.repeat:
        sys.exit(repeat(asked.repeat[0], int(asked.repeat[1])))
    found = run_for(asked.minutes * 60, asked.seed, asked.workers, asked.kinds, asked.failures, asked.trials)
    text = f"{heading(asked.seed, asked.minutes, asked.workers)}\n{table(found)}"
    print(text)
    if asked.out:
        asked.out.write_text(text)
    sys.exit(1 if found.failures else 0)
