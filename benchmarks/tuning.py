"""The same tuning for each method that is asked for: the learning rate, by held-out labelled items of CIFAR-100-LT.

    python benchmarks/tuning.py --work ltgcd-bench [--regime last-stage] [--methods orca,rankstats]

A fifth of the labelled items of each class is treated as unlabelled; the figure is their balanced accuracy at the
end (frozen features or the last stage, seed 0). No item of D^u is scored.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ltgcd.bench.cells import Workshop
from ltgcd.bench.tables import cell_of, read_settings, read_tables
from ltgcd.common.tables import most_likely
from ltgcd.features.backbones import backbone_of
from ltgcd.features.views import CachedViews
from ltgcd.run.train import rows_in, vectors
from ltgcd.training.config import changed
from ltgcd.training.fit import fit_model, hold_out
from ltgcd.training.methods import METHODS, method_names
from ltgcd.training.problem import Problem

RATES = {"frozen": (0.02, 0.1, 0.3), "last-stage": (0.005, 0.02, 0.1, 0.3)}
HELD_OUT = 0.2
TABLES = Path(__file__).parent / "tables"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("ltgcd-bench"))
    parser.add_argument("--methods", default=",".join(method_names(lambda m: m.trained and m.name != "ltgcd-crest")))
    parser.add_argument("--regime", default="frozen", choices=("frozen", "last-stage"))
    options = parser.parse_args()
    table, settings = read_tables(TABLES)["main"], read_settings(TABLES)
    trained = next(row for row in table.rows if METHODS[row.method].trained)  # what only clusters needs no views
    cell = cell_of(table, table.columns[0], trained, settings, None, options.regime, 0)
    source, store, _ = Workshop(options.work, None, settings).prepared(cell)
    collection = source.collection
    k = cell.n_old + cell.n_new
    problem = Problem(vectors(source), collection.y, collection.n_old, k, 0)
    if options.regime == "last-stage":
        assert store is not None
        views = CachedViews(store, rows_in(store, collection))
        problem = problem._replace(views=views, tail=backbone_of(store.key, None).tail)
    held_out = hold_out(problem.y, HELD_OUT, problem.random_state)[1]
    rows, rates = np.flatnonzero(held_out >= 0), RATES[options.regime]
    true = held_out[rows]
    print("| method | " + " | ".join(f"learning rate {rate:g}" for rate in rates) + " | the preset's |")
    print("|---" * (len(rates) + 2) + "|")
    for method in options.methods.split(","):
        preset = METHODS[method].preset(options.regime)
        own = preset.schedule.learning_rate
        line = []
        for rate in rates:
            experiment = changed(preset, {"schedule.learning_rate": rate, "held_out": HELD_OUT})
            said = most_likely(fit_model(problem, experiment).probabilities, rows)[0]
            line.append(100 * np.mean([(said[true == c] == c).mean() for c in np.unique(true)]))
        shown = " | ".join(f"**{v:.1f}**" if v == max(line) else f"{v:.1f}" for v in line)
        print(f"| {method} | {shown} | {own:g} |", flush=True)


if __name__ == "__main__":
    main()
