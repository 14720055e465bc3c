"""`ltgcd update` with 10 % new items, half of them of four absent classes, on BANKING77, plankton and CUB-200.

    python benchmarks/update.py --work ltgcd-bench

The features are those of the benchmark's work folder. Half of the classes are labelled. Four of the others are absent
from the first 90 % and come with the new items, together at most half of these. `update` is timed beside starting again
with all items. The truth is used for scoring only; what numbers `update` has were chosen on other sets
(`ltgcd.discovery.new_categories`).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from discover import ltgcd

from ltgcd.bench.cells import Workshop
from ltgcd.bench.tables import cell_of, read_settings, read_tables
from ltgcd.data.collection import UNLABELLED
from ltgcd.run.directory import Run
from ltgcd.run.train import vectors

TABLES = Path(__file__).parent / "tables"
SETS = {"banking77": "class_number_grid", "plankton": "main", "cub200": "ssb"}
ABSENT, LARGE = 4, 20


def timed(*arguments: object) -> tuple[dict, float]:
    started = time.perf_counter()
    result = ltgcd(*arguments)
    return result, time.perf_counter() - started


def late_items(y: np.ndarray, true: np.ndarray, n_old: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which items come late, which of them are of absent classes, and which are left out altogether, each (N,)."""
    random, n = np.random.RandomState(seed), len(true)
    gone = random.permutation(np.arange(n_old, int(true.max()) + 1))[:ABSENT]
    absent = np.isin(true, gone)
    kept = random.permutation(np.flatnonzero(absent))[: n // 20]
    late = np.zeros(n, dtype=bool)
    late[kept] = True
    left_out = absent & ~late
    others = random.permutation(np.flatnonzero(~absent & (y == UNLABELLED)))
    late[others[: max(n // 10 - len(kept), 0)]] = True
    return late, absent & late, left_out


def scored(dataset: str, seed: int, workshop: Workshop, *, again: bool) -> None:
    table = read_tables(TABLES)[SETS[dataset]]
    column = next(c for c in table.columns if c.name == dataset)
    source = workshop.prepared(cell_of(table, column, table.rows[0], workshop.settings, None, "frozen", seed)).source
    assert source.truth is not None
    x, y, true = np.asarray(vectors(source)), source.collection.y, source.truth.y_true
    late, absent, left_out = late_items(y, true, source.truth.n_old, seed)
    ids = np.array([f"item-{i}" for i in range(len(y))])
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        for name, rows in (("old", ~late & ~left_out), ("new", late), ("all", ~left_out)):
            np.savez(base / f"{name}.npz", x=x[rows], y=y[rows], ids=ids[rows])
        _, first = timed("discover", base / "old.npz", "--out", base / "run")
        before = Run(base / "run").assignments()
        result, update = timed("update", base / "run", base / "new.npz")
        after = Run(base / "run").assignments()
        repeated = timed("discover", base / "all.npz", "--out", base / "again")[1] if again else None
    fixed = ["id", "label", "name", "status", "confidence"]  # proposed names of categories may change
    old, now = (table.select(fixed).replace_schema_metadata(None) for table in (before, after.slice(0, len(before))))
    same = now.equals(old)
    appended = [row["label"] for row in result["categories_added"]]
    at = {name: row for row, name in enumerate(after.column("id").to_pylist())}
    rows = np.array([at[i] for i in ids[late]])
    said, t, gone = after.column("label").to_numpy()[rows], true[late], absent[late]
    sure = after.column("status").to_numpy(zero_copy_only=False)[rows] != "unsure"
    classes, sizes = np.unique(t[gone], return_counts=True)
    large = gone & np.isin(t, classes[sizes >= LARGE])
    print(f"\n**{dataset}**, seed {seed}: {len(before):,} items, {late.sum():,} new ones; first run {first:.0f} s")
    if repeated:
        print(f"update {update:.1f} s, starting again {repeated:.1f} s: {repeated / update:.1f}×")
    print(f"no old id, label, name, status or confidence changed: {same}")
    print(f"absent classes of {', '.join(map(str, sorted(sizes)[::-1]))} items; categories added: {len(appended)}")
    # An unsure item is counted in no category by the product; what it leans to is told beside.
    for words, inside in (("in them", np.isin(said, appended) & sure), ("or lean to them", np.isin(said, appended))):
        pure = sum(int(np.bincount(t[inside & (said == c)]).max(initial=0)) for c in appended)
        print(
            f"- {words}: of {large.sum()} items of absent classes with {LARGE} or more {(inside & large).sum()} "
            f"({100 * (inside & large).sum() / max(large.sum(), 1):.0f} %), of the other {(~gone).sum()} new items "
            f"{(inside & ~gone).sum()} ({100 * (inside & ~gone).sum() / max((~gone).sum(), 1):.1f} %); purity "
            f"{pure / max(inside.sum(), 1):.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("ltgcd-bench"))
    parser.add_argument("--dataset", action="append", choices=SETS)
    parser.add_argument("--seed", type=int, action="append")
    parser.add_argument("--again", action="store_true", help="also time starting again with all items")
    options = parser.parse_args()
    workshop = Workshop(options.work, None, read_settings(TABLES), print)
    for dataset in options.dataset or SETS:
        for seed in options.seed or [0]:
            scored(dataset, seed, workshop, again=options.again)


if __name__ == "__main__":
    main()
