"""Balanced All/Old/New of the default on plain embeddings: frozen, true K, beside what it is to be compared with.

    python benchmarks/plain_embeddings.py --work ltgcd-bench

Four sets of images and two of texts, three seeds of data and training. D^u's labels score, and choose nothing. With
each set stand its New errors (in an Old class, in another New one) and what the true class means would give on the same
features. Finished rows are kept in ``plain_embeddings.jsonl`` of the work folder; remove it when the method changes.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from ltgcd.bench.cells import Workshop
from ltgcd.bench.tables import cell_of, read_settings, read_tables
from ltgcd.data.collection import UNLABELLED
from ltgcd.evaluation.metric import evaluate, oracle_scores
from ltgcd.graph import semi_kmeans
from ltgcd.run.train import vectors
from ltgcd.training.config import changed
from ltgcd.training.fit import fit_model
from ltgcd.training.methods import METHODS
from ltgcd.training.problem import Problem

TABLES = Path(__file__).parent / "tables"
SETS = {
    "cifar100": "main",
    "plankton": "main",
    "banking77": "class_number_grid",
    "clinc150": "class_number_grid",
    "cub200": "ssb",
    "stanford-cars": "ssb",
}
SEEDS = (0, 1, 2)
BEFORE = "default, communities of all items"
ROWS = ("semi-supervised k-means", "SimGCD with our start", BEFORE, "default")


def labelled_by(row: str, problem: Problem) -> np.ndarray:
    """Class of every item (N,) by one of the `ROWS`."""
    if row == ROWS[0]:
        return semi_kmeans.fit(problem.x, problem.y, problem.n_old, problem.k, problem.random_state).labels
    if row == ROWS[1]:
        experiment = changed(METHODS["simgcd"].preset("frozen"), {"start": "communities"})
    else:
        experiment = METHODS["ltgcd"].preset("frozen")
    if row == BEFORE:
        with patch("ltgcd.training.fit.probably_novel", lambda *_: None):
            return np.asarray(fit_model(problem, experiment).probabilities).argmax(axis=1)
    return np.asarray(fit_model(problem, experiment).probabilities).argmax(axis=1)


def run(work: Path, names: list[str], rows: list[str]) -> list[dict[str, Any]]:
    kept = work / "plain_embeddings.jsonl"
    lines = [json.loads(line) for line in kept.read_text().splitlines()] if kept.is_file() else []
    done = {(line["dataset"], line["seed"], line["row"]) for line in lines}
    tables, settings = read_tables(TABLES), read_settings(TABLES)
    workshop = Workshop(work, None, settings, print)
    for seed in SEEDS:
        for dataset in names:
            missing = [row for row in rows if (dataset, seed, row) not in done]
            if not missing:
                continue
            table = tables[SETS[dataset]]
            column = next(c for c in table.columns if c.name == dataset)
            cell = cell_of(table, column, table.rows[0], settings, None, "frozen", seed)
            source = workshop.prepared(cell).source
            assert source.truth is not None
            truth, y = source.truth, source.collection.y
            x, k = np.asarray(vectors(source), dtype=np.float32), len(truth.class_names)
            free = y == UNLABELLED
            oracle = oracle_scores(x, truth.y_true, free, truth.n_old)["balanced_acc"]
            for row in missing:
                started = time.process_time()
                labels = labelled_by(row, Problem(x, y, truth.n_old, k, seed))
                found = evaluate(truth.y_true[free], labels[free], truth.n_old)
                line = {
                    "dataset": dataset,
                    "seed": seed,
                    "row": row,
                    "scores": [round(v, 2) for v in found.balanced_acc],
                    "new_in_old": round(found.errors["new"]["in_old"], 2),
                    "new_in_new": round(found.errors["new"]["in_new"], 2),
                    "oracle": [round(v, 2) for v in oracle],
                    "cpu_seconds": round(time.process_time() - started, 1),
                }
                with kept.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                lines.append(line)
                print(line, flush=True)
    return lines


def told(values: list[list[float]]) -> str:
    return "/".join(f"{v:.1f}" for v in np.mean(values, axis=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("ltgcd-bench"))
    parser.add_argument("--dataset", action="append", choices=SETS)
    parser.add_argument("--row", action="append", choices=ROWS)
    options = parser.parse_args()
    names = options.dataset or list(SETS)
    lines = run(options.work, names, options.row or list(ROWS))
    print("\n| balanced All/Old/New | " + " | ".join(names) + " | mean |\n" + "|---" * (len(names) + 2) + "|")
    for row in ROWS:
        by = {n: [r["scores"] for r in lines if (r["dataset"], r["row"]) == (n, row)] for n in names}
        if all(by.values()):
            means = [np.mean(by[n], axis=0).tolist() for n in names]
            print(f"| {row} | " + " | ".join(told(by[n]) for n in names) + f" | {told(means)} |")
    default = {n: [r for r in lines if (r["dataset"], r["row"]) == (n, "default")] for n in names}
    if all(default.values()):
        cells = [told([r["oracle"] for r in default[n]]) for n in names]
        print("| *true class means* | " + " | ".join(cells) + " | |")
        cells = [
            f"{np.mean([r['new_in_old'] for r in default[n]]):.1f}, "
            f"{np.mean([r['new_in_new'] for r in default[n]]):.1f}"
            for n in names
        ]
        print("| *New of the default: in Old, in another New (%)* | " + " | ".join(cells) + " | |")


if __name__ == "__main__":
    main()
