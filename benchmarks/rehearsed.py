"""Does each part of the default earn its place? Asked of labelled items alone, with some classes hidden.

    python benchmarks/rehearsed.py --work ltgcd-bench

Two sets of images and two of texts, frozen, three seeds, four rehearsals each (`ltgcd.discovery.rehearsal`): a quarter
of the known classes and a fifth of the other labels are hidden, the method is trained, and its answers about these
items are scored by class. No item of D^u is. Old are the held-out items of visible classes, New the hidden classes; All
weighs the two as D^u has its classes. Finished problems are kept in ``rehearsed.jsonl`` of the work folder and not
trained again; remove it when the preset has changed.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltgcd.bench.cells import Workshop
from ltgcd.bench.tables import cell_of, read_settings, read_tables
from ltgcd.common.tables import Table
from ltgcd.data.collection import UNLABELLED
from ltgcd.discovery.rehearsal import PARTS, Hidden, judge, with_hidden_classes
from ltgcd.graph.knn import knn_graph
from ltgcd.run.train import vectors
from ltgcd.training.config import changed
from ltgcd.training.fit import fit_model
from ltgcd.training.methods import METHODS
from ltgcd.training.problem import Problem
from ltgcd.training.smoothing import adjusted, class_prior, smoothed

TABLES = Path(__file__).parent / "tables"
SETS = {"cifar100": "main", "plankton": "main", "banking77": "class_number_grid", "clinc150": "class_number_grid"}
SEEDS = (0, 1, 2)
TRAINED: dict[str, dict[str, Any]] = {
    "default": {},
    "neighbours searched in every epoch": {"neighbour_weight": 0.0, "selection.graph": "epoch"},
    "with neighbour loss, neighbours searched in every epoch": {"neighbour_weight": 0.3, "selection.graph": "epoch"},
}
STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)  # of the adjustment; it and the smoothing need no further training
ROUNDS = (0, 1, 2, 3)
DEFAULT = ("default", 1, 0.5)


def scores(p: Table, sizes: NDArray[np.int64], problem: Problem, hidden: Hidden) -> dict[str, float]:
    """Mean recall, in percent, of the visible and of the hidden classes of a rehearsal."""
    said = judge(hidden.asked, p, sizes, problem.y[hidden.asked], hidden.visible)
    recall = {c: said.right[said.classes == c].mean() for c in np.unique(said.classes)}
    away = np.isin(list(recall), said.classes[said.hidden])
    values = np.array(list(recall.values()))
    return {name: round(100 * float(values[mask].mean()), 2) for name, mask in (("old", ~away), ("new", away))}


def rehearsed(problem: Problem, hidden: Hidden, number: int, changes: dict[str, Any]) -> list[dict[str, Any]]:
    """Train once, and score every adjustment and smoothing of what came out."""
    experiment = changed(METHODS["ltgcd"].preset("frozen"), {**changes, "adjustment": 0.0, "smoothing": 0})
    fit = fit_model(
        problem._replace(y=hidden.y, n_old=len(hidden.visible), random_state=problem.random_state + number), experiment
    )
    graph, lines = knn_graph(fit.features, 10), []
    for rounds in ROUNDS:
        p = smoothed(fit.alone, graph, hidden.y, rounds)
        prior = class_prior(p, np.flatnonzero(hidden.y == UNLABELLED))
        for strength in STRENGTHS:
            now = p.map(lambda block, prior=prior, strength=strength: adjusted(block, prior, strength))
            found = scores(now, fit.fitted.sizes, problem, hidden)
            lines.append({"smoothing": rounds, "adjustment": strength, **found})
    return lines


def run(work: Path, kept: Path, names: list[str]) -> list[dict[str, Any]]:
    """Every line of every problem, trained in these ways; those that are kept are not trained again."""
    tables, settings = read_tables(TABLES), read_settings(TABLES)
    workshop = Workshop(work, None, settings)
    lines = [json.loads(line) for line in kept.read_text().splitlines()] if kept.is_file() else []
    found = Counter((line["dataset"], line["seed"], line["problem"], line["trained"]) for line in lines)
    done = {problem for problem, n in found.items() if n == len(ROUNDS) * len(STRENGTHS)}
    lines = [line for line in lines if (line["dataset"], line["seed"], line["problem"], line["trained"]) in done]
    for dataset, name_of_table in SETS.items():
        table = tables[name_of_table]
        column = next(c for c in table.columns if c.id == dataset)
        for seed in SEEDS:
            wanted = [(n, name) for n in range(1, PARTS + 1) for name in names]
            missing = [(n, name) for n, name in wanted if (dataset, seed, n, name) not in done]
            if not missing:
                continue
            cell = cell_of(table, column, table.rows[0], settings, None, "frozen", seed)
            source = workshop.prepared(cell).source
            problem = Problem(vectors(source), source.collection.y, cell.n_old, cell.n_old + cell.n_new, seed)
            hidden = with_hidden_classes(problem, PARTS)
            for n, name in missing:
                share = round(cell.n_new / problem.k, 4)
                about = {"dataset": dataset, "new_share": share, "seed": seed, "problem": n, "trained": name}
                new = [{**about, **line} for line in rehearsed(problem, hidden[n - 1], n, TRAINED[name])]
                with kept.open("a") as file:
                    file.writelines(json.dumps(line) + "\n" for line in new)
                lines += new
    return lines


def difference(values: list[float]) -> str:
    """Mean and its standard error over the problems."""
    return f"{np.mean(values):+.1f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("ltgcd-bench"))
    parser.add_argument(
        "--trained", action="append", choices=TRAINED, help="one way of training beside the default (else all)"
    )
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(["default", *(options.trained or TRAINED)]))  # all others are compared with it
    lines = run(options.work, options.work / "rehearsed.jsonl", names)
    by = {(r["dataset"], r["trained"], r["smoothing"], r["adjustment"], r["seed"], r["problem"]): r for r in lines}
    for dataset in SETS:
        n = len([key for key in by if key[:4] == (dataset, *DEFAULT)])
        told = f"smoothing {DEFAULT[1]}, adjustment {DEFAULT[2]}"
        print(f"\n**{dataset}**: difference to the default ({told}) over {n} problems\n")
        print("| trained | smoothing | adjustment | All | Old | New |\n|---|---|---|---|---|---|")
        for setting in dict.fromkeys(key[1:4] for key in by if key[0] == dataset):
            pairs = [(r, by[(dataset, *DEFAULT, *key[4:])]) for key, r in by.items() if key[:4] == (dataset, *setting)]
            old, new = ([a[part] - b[part] for a, b in pairs] for part in ("old", "new"))
            share = pairs[0][0]["new_share"]
            everything = [(1 - share) * o + share * w for o, w in zip(old, new, strict=True)]
            shown = " | ".join(difference(d) for d in (everything, old, new))
            print(f"| {setting[0]} | {setting[1]} | {setting[2]:g} | {shown} |")


if __name__ == "__main__":
    main()
