"""What a rehearsal on a sample says, beside one on all items: the bias of `ltgcd.discovery.rehearsal`'s sample.

    python benchmarks/rehearsal_sample.py FEATURES.npz … [--share 0.33]

Each ``.npz`` holds `x` and `y_true`. Every other class is known, and half of its items are labelled. The method is
fitted once; its labels are then judged by four rehearsals on all items, and by four on a stratified sample. Printed is
the mean probability of being right that either gives to known and to novel labels of unlabelled items. No truth of an
unlabelled item is used.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ltgcd.common.tables import most_likely
from ltgcd.discovery import rehearsal
from ltgcd.training.fit import fit_model
from ltgcd.training.methods import METHODS
from ltgcd.training.problem import Problem


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("features", type=Path, nargs="+")
    parser.add_argument("--share", type=float, default=0.33)
    arguments = parser.parse_args()
    print("| set | items | sample | known: all | sample | novel: all | sample |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for path in arguments.features:
        with np.load(path) as held:
            x, true = held["x"], np.unique(held["y_true"], return_inverse=True)[1]
        random = np.random.RandomState(0)
        k = int(true.max()) + 1
        y = np.where((true % 2 == 0) & (random.rand(len(true)) < 0.5), true // 2, -1)
        problem = Problem(x, y, (k + 1) // 2, k, 0)
        experiment = METHODS["ltgcd"].preset("frozen")
        fit = fit_model(problem, experiment)
        labels, confidence = most_likely(fit.probabilities)
        free = y == -1
        rows = {}
        for name, limit in (("all", len(x)), ("sample", int(arguments.share * len(x)))):
            rehearsal.ITEMS, rehearsal.FEWEST = limit, min(20, limit // (4 * k))
            rows[name] = rehearsal.rehearse(problem, experiment, np.where(free, labels, y), 4)
        cells = []
        for novel in (False, True):
            asked = free & ((labels >= problem.n_old) == novel)
            for found in rows.values():
                assert found is not None
                size = fit.fitted.sizes[labels[asked]]
                p = found.together.apply(confidence[asked], labels[asked] >= problem.n_old, size)
                cells.append(f"{100 * float(p.mean()):.1f}")
        taken = rows["sample"].sample if rows["sample"] else None
        print(f"| {path.stem} | {len(x):,} | {taken:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
