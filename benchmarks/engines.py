"""Whether `discover` gives the same labels to the last bit in one process, in two worker processes, and on Ray.

    python benchmarks/engines.py [--items 60000] [--rehearsals 0]

60,000 × 384 made-up vectors (those of speed/growth.py): class number, training and every item's label; with
--rehearsals 2 or more these, too, side by side where there are processes. "2 processes" share each search for
neighbours (and rehearse); "Ray" is `--cluster ray` on this machine. Checksums of labels, confidences and statuses, with
the seconds of each and how busy the machine was when it began, are written to benchmarks/results/engines.txt.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import sys
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from speed.growth import Shape, problem

from ltgcd.cli.common import status
from ltgcd.common.engine.rows import Sharing, shared
from ltgcd.data.sources import read_source
from ltgcd.run.directory import Run
from ltgcd.run.discover import Embedding, discover_source

RESULTS = Path(__file__).parent / "results" / "engines.txt"
CLASSES = 300


class Engine(NamedTuple):
    """Who does the work: processes that rehearse, processes that search for neighbours, or a cluster that does."""

    name: str
    embedding: Embedding
    searching: int | None = None

    def sharing(self, folder: Path) -> AbstractContextManager[None]:
        return shared(None if self.searching is None else Sharing(folder, self.searching, notify=status))


ENGINES = (
    Engine("in process", Embedding(workers=1)),
    Engine("2 processes", Embedding(workers=2), searching=2),
    Engine("Ray", Embedding(workers=2, cluster="ray")),
)


def checksums(run: Run) -> dict[str, str]:
    """Of the bytes of each column, in the order of the source."""
    table = run.assignments()
    return {
        name: hashlib.sha256(np.ascontiguousarray(table.column(name).to_numpy()).tobytes()).hexdigest()
        if name != "status"
        else hashlib.sha256("\n".join(table.column(name).to_pylist()).encode()).hexdigest()
        for name in ("label", "confidence", "status")
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=60_000)
    parser.add_argument("--rehearsals", type=int, default=0)
    arguments = parser.parse_args()
    lines = [
        f"discover, {arguments.items:,} × 384 made-up vectors in {CLASSES} classes, {arguments.rehearsals} rehearsals",
        f"Python {platform.python_version()}, NumPy {np.__version__}, {os.cpu_count()} cores",
        "",
        f"{'engine':12} {'seconds':>8} {'load':>5} {'K':>4}  SHA-256 of label, confidence, status (first 16 digits)",
    ]
    found = []
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        problem(work / "source.npz", Shape(arguments.items, 384, CLASSES))
        source = read_source(work / "source.npz")
        for engine in ENGINES:
            print(engine.name, file=sys.stderr, flush=True)
            folder, load, started = work / engine.name, os.getloadavg()[0], time.perf_counter()
            with engine.sharing(work / "shared"):
                result = discover_source(
                    source, folder, rehearsals=arguments.rehearsals, embedding=engine.embedding, notify=status
                )
            found.append(checksums(Run(folder)))
            seconds = time.perf_counter() - started
            digits = " ".join(checksum[:16] for checksum in found[-1].values())
            lines.append(f"{engine.name:12} {seconds:8.0f} {load:5.1f} {result['k']:4d}  {digits}")
            print(lines[-1], flush=True)
    is_same = all(each == found[0] for each in found)
    lines += ["", *(f"{name:12} {checksum}" for name, checksum in found[0].items())]
    lines += ["", f"the same to the last bit: {'yes' if is_same else 'no'}"]
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    sys.exit(not is_same)


if __name__ == "__main__":
    main()
