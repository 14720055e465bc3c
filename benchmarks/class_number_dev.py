"""The class number on problems made of labelled items alone: what the default was designed on.

    python benchmarks/class_number_dev.py --work ltgcd-bench --data ../shared/data

From each split the labelled items are taken, and only these: some of their classes stay known (half of their items keep
the label), the others are to be found. No item of D^u takes part, so estimators may be chosen by these figures. (A
labelled item of one seed may be unlabelled in another.)
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ltgcd.bench.cells import Workshop
from ltgcd.bench.tables import cell_of, read_settings, read_tables
from ltgcd.class_number.estimate import ESTIMATORS, estimate_k
from ltgcd.data.collection import UNLABELLED
from ltgcd.data.splits import SplitConfig, draw_split
from ltgcd.run.train import vectors

TABLES = Path(__file__).parent / "tables"
# Column of the grid, share of the labelled classes that stay known, classes to be found (None: all others), seeds.
KINDS = [
    ("cifar100-80+20-10", 0.3, None, 4),
    ("cifar100-80+20-10", 0.5, None, 4),
    ("cifar100-80+20-10", 0.8, None, 4),
    ("cifar100-80+20-10", 0.5, 0, 4),
    ("plankton-60+61", 0.25, None, 6),
    ("plankton-60+61", 0.5, None, 6),
    ("plankton-60+61", 0.8, None, 6),
    ("plankton-60+61", 0.5, 15, 6),
    ("plankton-60+61", 0.5, 0, 6),
    ("banking77", 0.3, None, 4),
    ("banking77", 0.5, None, 4),
    ("banking77", 0.8, None, 4),
    ("banking77", 0.5, 0, 4),
    ("clinc150", 0.3, None, 4),
    ("clinc150", 0.5, None, 4),
    ("clinc150", 0.8, None, 4),
    ("clinc150", 0.5, 15, 4),
    ("clinc150", 0.5, 0, 4),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("ltgcd-bench"), help="work folder of `ltgcd bench`")
    parser.add_argument("--data", type=Path, help="folder of the datasets (default: $LTGCD_DATA)")
    parser.add_argument("--method", default="peaks", choices=ESTIMATORS)
    options = parser.parse_args()
    table, settings = read_tables(TABLES)["class_number_grid"], read_settings(TABLES)
    columns = {column.id: column for column in table.columns}
    workshop = Workshop(options.work, options.data, settings)
    print("| labelled items of | known + to be found | seeds | mean error | interval covers | mean width |")
    print("|---" * 6 + "|")
    means, covers = [], []
    for name, share, n_new, seeds in KINDS:
        errors, inside, widths, sizes = [], [], [], ""
        for seed in range(seeds):
            cell = cell_of(table, columns[name], table.rows[0], settings, None, None, seed)
            source = workshop.prepared(cell).source
            labelled = source.collection.labelled
            x, y, n_old = vectors(source)[labelled], source.collection.y[labelled], source.collection.n_old
            order = np.random.RandomState(seed + 100).permutation(n_old).tolist()
            known = max(2, round(share * n_old))
            split = draw_split(y, order, 1, SplitConfig("natural", 10.0, seed, known, n_new))
            given = np.where(split.labelled, split.y_true, UNLABELLED)
            got = estimate_k(x[split.rows], given, options.method, n_old=known, random_state=seed)
            k = len(split.classes)
            sizes = f"{known} + {k - known}"
            errors.append(abs(got.k / k - 1))
            if got.low is not None and got.high is not None:
                inside.append(got.low <= k <= got.high)
                widths.append(got.high - got.low)
        interval = f"{sum(inside)} of {len(inside)} | {np.mean(widths):.0f}" if inside else "– | –"
        print(f"| {columns[name].title} | {sizes} | {seeds} | {100 * np.mean(errors):.1f} % | {interval} |", flush=True)
        means.append(float(np.mean(errors)))
        covers += inside
    novel = [mean for mean, (*_, n_new, _seeds) in zip(means, KINDS, strict=True) if n_new != 0]
    covered = f", the interval covers {100 * np.mean(covers):.0f} % of {len(covers)}" if covers else ""
    print(f"\n{options.method}: mean over kinds {100 * np.mean(means):.1f} %, ", end="")
    print(f"over kinds with novel classes {100 * np.mean(novel):.1f} %{covered}")


if __name__ == "__main__":
    main()
