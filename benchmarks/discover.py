"""`ltgcd discover` from nothing on real collections: minutes, K̂, calibration, how much worse the unsure items are.

    python benchmarks/discover.py [plankton banking77]

Half of the classes are labelled, by the command that the walk-through documents. The truth is used for scoring only.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.optimize import linear_sum_assignment

from ltgcd.data.collection import positions
from ltgcd.data.datasets import data_root
from ltgcd.graph.matching import confusion
from ltgcd.run.directory import Run
from ltgcd.training.calibration import calibration_error


def ltgcd(*arguments: object) -> dict:
    command = [sys.executable, "-m", "ltgcd", *map(str, arguments), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def judged(run: Path, n_old: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of every unlabelled item: is its label wrong (one Hungarian over D^u), novel, unsure, and how confident."""
    labels, table = Run(run).labels(), Run(run).assignments()
    free = labels.y < 0
    at = positions(labels.ids.filter(pa.array(free)), table.column("id").combine_chunks(), run, "make the run again")
    said, true = table.column("label").to_numpy()[at], labels.truth.y_true[free]
    w = confusion(true, said)
    rows, columns = linear_sum_assignment(-w)
    classes, clusters = np.unique(true), np.unique(said)
    matched = dict(zip(clusters[columns], classes[rows], strict=True))
    right = np.array([matched.get(s, -1) for s in clusters])[np.searchsorted(clusters, said)] == true
    unsure = table.column("status").to_numpy(zero_copy_only=False)[at] == "unsure"
    return ~right, said >= n_old, unsure, table.column("confidence").to_numpy()[at]


def main() -> None:
    for name in sys.argv[1:] or ["banking77", "plankton"]:
        source = data_root() / name / "train.parquet"
        with tempfile.TemporaryDirectory() as folder:
            split, run = Path(folder) / "split", Path(folder) / "run"
            ltgcd("split", source, "--seed", 0, "--out", split)
            started = time.perf_counter()
            result = ltgcd("discover", source, "--labels", split / "labels.csv", "--out", run)
            minutes = (time.perf_counter() - started) / 60
            wrong, novel, unsure, confidence = judged(run, result["n_old"])
            scores = " / ".join(f"{v:.1f}" for v in result["balanced_acc"].values())
            size = Path(result["report"]).stat().st_size / 1e6
            print(f"{name}: {minutes:.1f} minutes from nothing; the report has {size:.1f} MB")
            interval = f"[{result['low']}, {result['high']}]"
            print(f"  K = {result['k']} {interval}, {result['n_old']} known; balanced {scores}")
            print(f"  known {result['known']}, novel {result['novel']}, unsure {result['unsure']}")
            off, chance = (100 * result[f"calibration_{name}"] for name in ("error", "chance"))
            print(f"  calibration error in rehearsals with labels hidden: {off:.1f} % ({chance:.1f} % would be chance)")
            parts = (np.ones_like(novel), ~novel, novel)
            by_truth = [100 * calibration_error(confidence[part], ~wrong[part]) for part in parts]
            print("  and on D^u, by the truth: {:.1f} % (known labels {:.1f} %, novel ones {:.1f} %)".format(*by_truth))
            print(
                f"  wrong among unsure: {100 * wrong[unsure].mean():.1f} %, among the others: "
                f"{100 * wrong[~unsure].mean():.1f} % ({wrong[unsure].mean() / wrong[~unsure].mean():.1f}×)",
                flush=True,
            )


if __name__ == "__main__":
    main()
