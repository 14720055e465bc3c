"""How ``ltgcd discover`` grows: 62,500, 250,000 and 1,000,000 × 384 embeddings, time and memory of each stage.

    python benchmarks/speed/growth.py [--items 62500 250000 1000000 437000] [--fit-on 250000] [--work DIR]

Made-up clusters of Zipf sizes in groups that lie near each other, half of the classes known, half of their items
labelled. Beside them 437,000 × 768 in 8,142 classes whose largest has 500 times the items of the smallest: the size of
the paper's largest set. The real commands are run, ``discover`` and ``export``, each in a process of its own; a stage
begins where the command says so. Seconds of computing stand beside those of the clock, for the machine may have been
busy. A line for every size is kept in benchmarks/results/growth.jsonl, and a size that is there is not run again; the
table and the plot are drawn from these lines. With ``--fit-on`` a part of the items teaches the classifier, and the
table has these sizes by themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

RESULTS = Path(__file__).parents[1] / "results"
KEPT, FIGURE = RESULTS / "growth.jsonl", RESULTS / "growth.png"
GROUPS = 60


class Shape(NamedTuple):
    """A made-up collection: items, numbers of each, classes; sizes fall evenly by `imbalance`, or as Zipf's."""

    n: int
    dim: int
    classes: int
    imbalance: float | None = None


GROWING = tuple(Shape(n, 384, k) for n, k in ((62_500, 300), (250_000, 550), (1_000_000, 1000)))
LARGEST_SET = Shape(437_000, 768, 8142, 500.0)
SHAPES = {shape.n: shape for shape in (*GROWING, LARGEST_SET)}
STEP = r"· (step \d of \d · )?"
# How the first line of a stage begins. What only names one, or says how far it is, begins none.
STAGES = (
    (re.compile(STEP + r"estimating the number of classes$"), "class number"),
    (re.compile(STEP + r"training with "), "training"),
    (re.compile(STEP + r"(rehearsals are on |\d+ rehearsals, |rehearsal \d+ of )"), "rehearsals"),
    (re.compile(STEP + r"drawing the report$"), "report"),
)


def problem(path: Path, shape: Shape, seed: int = 0) -> None:
    """An ``.npz`` of overlapping clusters; every other class is half labelled."""
    n, dim, k, imbalance = shape
    random = np.random.default_rng(seed)
    share = 1 / np.arange(1, k + 1) if imbalance is None else imbalance ** -np.linspace(0, 1, k)
    kind = np.concatenate([np.repeat(np.arange(k), 5), random.choice(k, n - 5 * k, p=share / share.sum())])
    kind = random.permutation(kind)
    groups = random.standard_normal((GROUPS, dim), dtype=np.float32)
    centres = 0.8 * groups[random.integers(GROUPS, size=k)] + 0.6 * random.standard_normal((k, dim), dtype=np.float32)
    x = random.standard_normal((n, dim), dtype=np.float32)
    for start in range(0, n, 2**16):
        x[start : start + 2**16] += centres[kind[start : start + 2**16]]
    known = (kind % 2 == 0) & (random.random(n) < 0.5)
    np.savez(path, x=x, y=np.where(known, kind // 2, -1), y_true=kind)


def measured(command: list[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Run a command; its stages with seconds, CPU-seconds and the most memory of each, and what it printed."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True)
        about, peak, stop = psutil.Process(process.pid), [0], threading.Event()
        last = {"cpu": 0.0}

        def watch() -> None:
            while not stop.wait(0.1):
                try:
                    processes = [about, *about.children(recursive=True)]
                    peak[0] = max(peak[0], sum(map(memory_of, processes)))
                    last["cpu"] = max(last["cpu"], sum(map(cpu_of, processes)))
                except psutil.Error:
                    if not about.is_running():
                        return

        threading.Thread(target=watch, daemon=True).start()
        stages = [{"stage": "reading", "at": time.perf_counter(), "cpu": 0.0, "peak": 0}]

        def close(now: float) -> None:
            stage = stages[-1]
            stage |= {"seconds": now - stage.pop("at"), "cpu": last["cpu"] - stage["cpu"], "peak": peak[0]}
            peak[0] = 0

        assert process.stderr is not None
        for line in process.stderr:
            print(f"    {line.rstrip()}", file=sys.stderr, flush=True)
            found = next((name for begins, name in STAGES if begins.match(line.rstrip())), None)
            if found is None or found == stages[-1]["stage"]:
                continue
            now, cpu = time.perf_counter(), last["cpu"]
            close(now)
            stages.append({"stage": found, "at": now, "cpu": cpu, "peak": 0})
        code = process.wait()
        stop.set()
        close(time.perf_counter())
        out.seek(0)
        if code:
            sys.exit(f"{' '.join(command)} ended with exit code {code}")
        return stages, json.loads(out.read())


def memory_of(process: psutil.Process) -> int:
    """Bytes that a process holds; pages that it shares with others count in each of them."""
    return int(process.memory_info().rss)


def cpu_of(process: psutil.Process) -> float:
    """CPU-seconds of a process and of those that it has started and that have ended."""
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def run(shape: Shape, work: Path, fit_on: int | None) -> dict[str, Any]:
    """Everything from an ``.npz`` to labels, page and CSV."""
    n = shape.n
    source, folder, csv = work / f"{n}.npz", work / f"run-{n}", work / f"{n}.csv"
    problem(source, shape)
    shutil.rmtree(folder, ignore_errors=True)
    csv.unlink(missing_ok=True)
    ltgcd, load = [sys.executable, "-m", "ltgcd"], os.getloadavg()[0]
    part = [] if fit_on is None else ["--fit-on", str(fit_on)]
    stages, found = measured([*ltgcd, "discover", str(source), "--out", str(folder), "--json", *part])
    exported, _ = measured([*ltgcd, "export", str(folder), "--format", "csv", "--out", str(csv), "--json"])
    stages += [{**stage, "stage": "export"} for stage in exported]
    rounded = [{name: v if isinstance(v, str | int) else round(v, 2) for name, v in stage.items()} for stage in stages]
    kept = ("k", "low", "high", "known", "novel", "unsure", "calibration_error", "balanced_acc")
    line = {
        **shape._asdict(),
        **({} if fit_on is None else {"fit_on": fit_on}),
        "cores": os.cpu_count(),
        "load": round(load, 1),
        "stages": rounded,
    }
    for path in (source, csv):
        path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    return line | {name: found[name] for name in kept if name in found}


# ---------------------------------------------------------------- table and plot


def total(line: dict[str, Any], key: str, stage: str | None = None) -> float:
    """Sum over the stages of a line, or over those of one name; of memory the most."""
    values = [each[key] for each in line["stages"] if stage in (None, each["stage"])]
    return float(max(values, default=0) if key == "peak" else sum(values))


def exponent(small: dict[str, Any], large: dict[str, Any], key: str, stage: str | None) -> str:
    """By which power of N it grew."""
    a, b = total(small, key, stage), total(large, key, stage)
    return f"{np.log(b / a) / np.log(large['n'] / small['n']):.2f}" if a > 1 and b > 1 else ""


def table(lines: list[dict[str, Any]]) -> str:
    """Stages by sizes: seconds of the clock / of computing, the most memory in GiB, and the exponent of the growth."""
    names = list(dict.fromkeys(stage["stage"] for line in lines for stage in line["stages"]))
    heads = [
        f"{line['n']:,} × {line['dim']}, {line['classes']} classes"
        + (f", fit on {line['fit_on']:,}" if "fit_on" in line else "")
        for line in lines
    ]
    rows = [["stage", *heads, "exponent (CPU)"], ["---"] * (len(lines) + 2)]
    for name in [*names, None]:
        cells = [
            f"{total(line, 'seconds', name):.0f} s / {total(line, 'cpu', name):.0f} CPU-s, "
            f"{total(line, 'peak', name) / 2**30:.1f} GiB"
            for line in lines
        ]
        rows.append([name or "**all**", *cells, exponent(lines[-2], lines[-1], "cpu", name) if len(lines) > 1 else ""])
    rows.append(["load when it began", *(str(line["load"]) for line in lines), ""])
    rows.append(["K̂ [interval]", *(f"{line['k']} [{line.get('low')}, {line.get('high')}]" for line in lines), ""])
    scores = [line.get("balanced_acc") or {} for line in lines]
    rows.append(["balanced ACC all / old / new", *(" / ".join(f"{v:.1f}" for v in s.values()) for s in scores), ""])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def draw(lines: list[dict[str, Any]]) -> None:
    """CPU-seconds of the stages and the most memory over N, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    n = [line["n"] for line in lines]
    for name in dict.fromkeys(stage["stage"] for line in lines for stage in line["stages"]):
        left.loglog(n, [max(total(line, "cpu", name), 0.5) for line in lines], "o-", label=name, lw=1, ms=3)
    left.loglog(n, [total(line, "cpu") for line in lines], "ko-", label="all")
    left.set(xlabel="items", ylabel="CPU-seconds")
    left.legend(fontsize=7, frameon=False)
    right.loglog(n, [total(line, "peak") / 2**30 for line in lines], "ko-")
    right.set(xlabel="items", ylabel="most memory, GiB")
    figure.savefig(FIGURE, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, nargs="*", default=list(SHAPES), choices=SHAPES)
    parser.add_argument("--fit-on", type=int, default=None)
    parser.add_argument("--work", type=Path, default=None)
    arguments = parser.parse_args()
    lines = [json.loads(line) for line in KEPT.read_text().splitlines()] if KEPT.is_file() else []
    with tempfile.TemporaryDirectory() as name:
        work = arguments.work or Path(name)
        work.mkdir(parents=True, exist_ok=True)
        for n in arguments.items:
            if (n, arguments.fit_on) not in {(line["n"], line.get("fit_on")) for line in lines}:
                lines.append(run(SHAPES[n], work, arguments.fit_on))
                with KEPT.open("a") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
    whole = [line for line in lines if "fit_on" not in line]
    growing, largest = (
        sorted((line for line in whole if line["n"] in {shape.n for shape in shapes}), key=lambda line: line["n"])
        for shapes in (GROWING, (LARGEST_SET,))
    )
    parts = [line for line in lines if "fit_on" in line]
    for some in filter(None, (growing, largest, parts)):
        print(table(some), end="\n\n")
    if len(growing) > 1:
        draw(growing)


if __name__ == "__main__":
    main()
