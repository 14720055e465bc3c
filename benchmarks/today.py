"""Beside what people use today: k-means, EVoC, UMAP + HDBSCAN (BERTopic's way) and ltgcd on the same embeddings.

    pip install '.[bench]'
    python benchmarks/today.py --work ltgcd-bench [--only banking77:0 …]

Half of the classes are labelled (CIFAR-100-LT: 80 of 100). Only k-means is told the number of classes; EVoC and UMAP +
HDBSCAN have their authors' settings and see no label, for they can use none; ltgcd is `discover` with its estimated
number and without rehearsals, which change no label. Items that a rival calls noise are one cluster of their own.
Balanced ACC of the unlabelled items by one Hungarian matching. CPU-seconds are of one process with one thread, after a
first call on a few items, which compiles what is compiled. Finished rows are kept in ``today.jsonl`` there.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ltgcd.bench.cells import Workshop
from ltgcd.bench.tables import cell_of, read_settings, read_tables
from ltgcd.common.engine.threads import torch_threads
from ltgcd.data.collection import UNLABELLED
from ltgcd.discovery.discover import discover
from ltgcd.discovery.task import Task, configure
from ltgcd.evaluation.metric import evaluate
from ltgcd.run.train import vectors

HERE = Path(__file__).parent
SETS = {
    "banking77": "class_number_grid",
    "clinc150": "class_number_grid",
    "cub200": "ssb",
    "stanford-cars": "ssb",
    "cifar100": "main",
    "plankton": "main",
}
SHOWN = ("all", "new", "k", "noise", "cpu_seconds")
Labels = Callable[[np.ndarray, np.ndarray, int, int, int], np.ndarray]


def k_means(x: np.ndarray, _y: np.ndarray, _n_old: int, k: int, seed: int) -> np.ndarray:
    """scikit-learn's, with ten starts, at the true number of classes."""
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import normalize

    return KMeans(k, n_init=10, random_state=seed).fit_predict(normalize(x))


def evoc(x: np.ndarray, _y: np.ndarray, _n_old: int, _k: int, seed: int) -> np.ndarray:
    """EVoC as its page shows it; of its layers the one that it takes itself."""
    from evoc import EVoC

    return EVoC(random_state=seed).fit_predict(x)


def umap_hdbscan(x: np.ndarray, _y: np.ndarray, _n_old: int, _k: int, seed: int) -> np.ndarray:
    """BERTopic's defaults: UMAP to five dimensions, then HDBSCAN with clusters of ten or more."""
    from sklearn.cluster import HDBSCAN
    from umap import UMAP

    z = UMAP(n_neighbors=15, n_components=5, min_dist=0.0, metric="cosine", random_state=seed).fit_transform(x)
    return HDBSCAN(min_cluster_size=10).fit_predict(z)


def ours(x: np.ndarray, y: np.ndarray, n_old: int, _k: int, seed: int) -> np.ndarray:
    """`ltgcd.discover` with its own number of classes."""
    return discover(Task(x, y, n_old), configure(rehearsals=0, random_state=seed)).labels


ROWS: dict[str, Labels] = {
    "k-means, true K": k_means,
    "EVoC": evoc,
    "UMAP + HDBSCAN": umap_hdbscan,
    "ltgcd": ours,
}


def scored(row: str, x: np.ndarray, y: np.ndarray, true: np.ndarray, n_old: int, seed: int) -> dict[str, Any]:
    """Labels of a row, scored on the unlabelled items."""
    k, free = int(true.max()) + 1, y == UNLABELLED
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        some = np.random.RandomState(0).permutation(len(x))[:300]
        if row in ("EVoC", "UMAP + HDBSCAN"):
            ROWS[row](x[some], y[some], n_old, k, seed)
        started = time.process_time()
        with torch_threads(1):
            labels = ROWS[row](x, y, n_old, k, seed)
    seconds = time.process_time() - started
    noise = float((labels[free] < 0).mean())
    found = evaluate(true[free], np.where(labels < 0, labels.max() + 1, labels)[free], n_old).balanced_acc
    figures = {name: round(float(value or 0), 1) for name, value in zip(("all", "old", "new"), found, strict=True)}
    n = len(np.unique(labels[labels >= 0]))
    return {**figures, "k": n, "k_true": k, "noise": round(noise, 3), "cpu_seconds": round(seconds, 1)}


def run(work: Path, only: list[str]) -> list[dict[str, Any]]:
    """All rows of these problems; those that are kept are not run again."""
    kept = work / "today.jsonl"
    lines = [json.loads(line) for line in kept.read_text().splitlines()] if kept.is_file() else []
    done = {(line["dataset"], line["seed"], line["row"]) for line in lines}
    tables, settings = read_tables(HERE / "tables"), read_settings(HERE / "tables")
    workshop = Workshop(work, None, settings, lambda said: print(said, flush=True))
    for one in only:
        name, seed = one.split(":")[0], int(one.split(":")[1])
        table = tables[SETS[name]]
        column = next(c for c in table.columns if c.name == name)
        source = workshop.prepared(cell_of(table, column, table.rows[0], settings, None, "frozen", seed)).source
        assert source.truth is not None
        x, y = np.asarray(vectors(source), dtype=np.float32), source.collection.y
        for row in ROWS:
            if (name, seed, row) not in done:
                found = scored(row, x, y, source.truth.y_true, source.truth.n_old, seed)
                lines.append({"dataset": name, "seed": seed, "n": len(x), "row": row, **found})
                print(json.dumps(lines[-1]), flush=True)
                with kept.open("a") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
    return lines


def table_of(lines: list[dict[str, Any]]) -> str:
    """A row a set: All / New, the number of classes that was found, and CPU-seconds; means over the seeds."""
    told = ["| | " + " | ".join(ROWS) + " |", "|---|" + "---|" * len(ROWS)]
    for name in dict.fromkeys(line["dataset"] for line in lines):
        mine = [line for line in lines if line["dataset"] == name]
        cells = []
        for row in ROWS:
            some = [line for line in mine if line["row"] == row]
            if not some:
                cells.append("–")
                continue
            m = {
                key: float(np.mean([line[key] for line in some])) for key in ("all", "new", "k", "noise", "cpu_seconds")
            }
            noise = f", {100 * m['noise']:.0f} % noise" if m["noise"] else ""
            cells.append(f"{m['all']:.1f} / {m['new']:.1f}, K {m['k']:.0f}{noise}, {m['cpu_seconds']:.0f} s")
        seeds = len({line["seed"] for line in mine})
        told.append(f"| {name}, {mine[0]['k_true']} classes, {seeds} seed{'s' * (seeds > 1)} | {' | '.join(cells)} |")
    return "\n".join(told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("ltgcd-bench"))
    parser.add_argument("--only", nargs="*", default=[f"{name}:{seed}" for seed in range(3) for name in SETS])
    options = parser.parse_args()
    lines = run(options.work, options.only)
    print("\nBalanced All / New in percent, number of classes found, CPU-seconds\n")
    print(table_of(lines))


if __name__ == "__main__":
    main()
