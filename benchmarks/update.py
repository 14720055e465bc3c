"""`ltgcd update` with 10 % new items against starting again with all of them, in one run, on BANKING77's texts.

    python benchmarks/update.py

Half of the classes are labelled. Four of the others are absent from the first 90 % and come with the new items. The
truth is used for scoring only.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from discover import ltgcd

from ltgcd.data.datasets import load_pool
from ltgcd.data.splits import SplitConfig, draw_split
from ltgcd.run.directory import Run

ABSENT = 4


def timed(*arguments: object) -> tuple[dict, float]:
    started = time.perf_counter()
    result = ltgcd(*arguments)
    return result, time.perf_counter() - started


def main() -> None:
    pool = load_pool("banking77")
    order = np.random.RandomState(0).permutation(77).tolist()
    split = draw_split(pool.y, order, 38, SplitConfig("natural"))
    names = np.array(pool.class_names)[split.classes]
    label = [names[c] if known else None for c, known in zip(split.y_true, split.labelled, strict=True)]
    texts = pool.items.select(split.rows).take(np.arange(len(split.rows)))
    table = pa.table({"id": pool.ids.take(split.rows), "text": pa.array(texts), "label": pa.array(label, pa.string())})
    absent = split.y_true >= len(names) - ABSENT
    shuffled = np.random.RandomState(1).permutation(np.flatnonzero(~absent & ~split.labelled))
    late = absent.copy()
    late[shuffled[: max(len(absent) // 10 - int(absent.sum()), 0)]] = True
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        for name, rows in (("old", ~late), ("new", late), ("all", np.ones(len(late), dtype=bool))):
            pq.write_table(table.filter(pa.array(rows)), base / f"{name}.parquet")
        _, first = timed("discover", base / "old.parquet", "--out", base / "run")
        before = Run(base / "run").assignments()
        result, update = timed("update", base / "run", base / "new.parquet")
        after = Run(base / "run").assignments()
        _, again = timed("discover", base / "all.parquet", "--out", base / "again")
    same = after.slice(0, len(before)).replace_schema_metadata(None).equals(before.replace_schema_metadata(None))
    print(f"{len(before):,} items, {result['n_added']:,} new ones ({100 * late.mean():.0f} %); first run {first:.0f} s")
    print(f"update {update:.1f} s, starting again {again:.1f} s: {again / update:.1f}× (at least 5×)")
    print(f"no old id, label, status or confidence changed: {same}")
    appended = {row["label"] for row in result["categories_added"]}
    found = dict(zip(after.column("id").to_pylist(), after.column("label").to_pylist(), strict=True))
    ids, true = np.array(table.column("id").to_pylist()), split.y_true
    in_new = np.array([found[i] in appended for i in ids[late]])
    gone = absent[late]
    purity = [np.bincount(true[late][[found[i] == c for i in ids[late]]]).max() for c in appended]
    print(
        f"categories added: {len(appended)} ({ABSENT} were absent); of {gone.sum()} items of absent classes "
        f"{(in_new & gone).sum()} are in them, of the other {(~gone).sum()} new items {(in_new & ~gone).sum()}; "
        f"purity {sum(purity) / max(in_new.sum(), 1):.2f}"
    )


if __name__ == "__main__":
    main()
