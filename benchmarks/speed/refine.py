"""``ltgcd relabel`` and ``ltgcd refine`` beside ``ltgcd discover``, on 10,000 made-up items, in one run.

    python benchmarks/speed/refine.py [--items 10000]

Sixty classes of sizes that fall like 1/rank, half of them known. The corrections name ten novel categories, confirm
twenty items of each, move and reject some. Printed: seconds of each command's work, the ratios, whether every confirmed
item kept its label, and whether the categories that nobody touched have the same names and numbers as before.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from ltgcd.data.sources import read_source
from ltgcd.run.directory import Run
from ltgcd.run.discover import discover_source
from ltgcd.run.refine import refine_run
from ltgcd.run.relabel import relabel_run


def problem(folder: Path, n: int, classes: int = 60, dim: int = 256) -> Path:
    """An ``.npz`` of n items in long-tailed, overlapping clusters; the odd classes are half labelled."""
    rng = np.random.RandomState(0)
    share = 1 / np.arange(1, classes + 1)
    kind = rng.choice(classes, n, p=share / share.sum())
    x = (rng.randn(classes, dim)[kind] * 0.55 + rng.randn(n, dim)).astype(np.float32)
    y = np.where((kind % 2 == 1) & (rng.rand(n) < 0.5), kind // 2, -1)
    np.savez(folder / "x.npz", x=x, y=y, ids=np.array([f"i{i}" for i in range(n)]), y_true=kind)
    return folder / "x.npz"


def corrections(run: Run, path: Path) -> set[str]:
    """Names for the ten largest novel categories and twenty confirmed items of each; the categories they are about."""
    table = run.assignments()
    names, ids = np.array(table.column("name").to_pylist()), np.array(table.column("id").to_pylist())
    novel = np.array(table.column("status").to_pylist()) == "novel"
    found, sizes = np.unique(names[novel], return_counts=True)
    chosen = found[np.argsort(-sizes, kind="stable")[:10]]
    lines = ["id,label,category,name"] + [f",,{name},named {at}" for at, name in enumerate(chosen)]
    for at, name in enumerate(chosen):
        lines += [f"{item},named {at},," for item in ids[novel & (names == name)][:20]]
    path.write_text("\n".join(lines) + "\n")
    return set(chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000)
    n = parser.parse_args().items
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = problem(folder, n)
        load, started = os.getloadavg()[0], time.perf_counter()
        discover_source(read_source(source), folder / "run")
        discovered = time.perf_counter() - started
        run = Run(folder / "run")
        touched = corrections(run, folder / "c.csv")
        before = run.assignments()
        started = time.perf_counter()
        told = relabel_run(run, folder / "c.csv")
        relabelled = time.perf_counter() - started
        said = run.assignments()
        started = time.perf_counter()
        kept = refine_run(run).keep()
        refined = time.perf_counter() - started
        after = run.assignments()
    given = np.array(said.column("given").to_pylist())
    same = np.array(said.column("label")) == np.array(after.column("label"))
    ids_of = [
        {
            (row["label"], row["name"])
            for row in table.select(["label", "name", "status"]).to_pylist()
            if row["status"] == "novel"
        }
        for table in (before, after)
    ]
    untouched = {pair for pair in ids_of[0] if pair[1] not in touched}
    print(f"{n:,} items, load of the machine {load:.1f}")
    print(
        f"discover {discovered:.1f} s, relabel {relabelled:.2f} s ({told['confirmed'] + told['moved']} items), "
        f"refine with its page {refined:.1f} s: {refined / discovered:.2f} of discover"
    )
    print(f"confirmed items that kept their label: {int(same[given].sum())} of {int(given.sum())}")
    print(
        f"novel categories that nobody touched: {len(untouched)}, with the same name and number after: "
        f"{len(untouched & ids_of[1])}; gone: {sorted(name for _, name in untouched - ids_of[1])}"
    )
    print(f"items that changed their class: {kept['changed']:,}")


if __name__ == "__main__":
    main()
