"""Run studies and keep their output as text: ``make bench``, or ``python benchmarks/run.py speed/embed purity``."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
from pathlib import Path

from ltgcd.run.files import versions

HERE = Path(__file__).parent
STUDIES = ("speed/embed", "speed/neighbours", "speed/estimate_k", "speed/semi_kmeans", "speed/training", "purity")


def main() -> None:
    for study in sys.argv[1:] or STUDIES:
        script = HERE / f"{study}.py"
        print(f"== {study}", flush=True)
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
        print(done.stdout, done.stderr if done.returncode else "", flush=True)
        if done.returncode:
            sys.exit(f"{study} failed; its results are left as they were.")
        found = ", ".join(f"{name} {version}" for name, version in versions().items())
        heading = f"{datetime.date.today()} · {platform.machine()}, {os.cpu_count()} cores, no GPU · {found}"
        out = HERE / "results" / f"{study.replace('/', '-')}.txt"
        out.parent.mkdir(exist_ok=True)
        out.write_text(f"$ python benchmarks/{study}.py\n# {heading}\n{done.stdout}", encoding="utf-8")


if __name__ == "__main__":
    main()
