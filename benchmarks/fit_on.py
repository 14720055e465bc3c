"""What a fit of a part of the items costs in accuracy: ``discover`` with ``--fit-on`` beside all of them.

    python benchmarks/fit_on.py FEATURES.npz … [--shares 0.5 0.25]

Each ``.npz`` holds `x` and `y_true`. Every other class is known, and half of its items are labelled; the number of
classes is estimated. Printed are K̂, balanced accuracies of the unlabelled items (All / Old / New), the share of
unlabelled items that are sure, and how many of 100 sure ones are right. The truth is used for scoring only.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path

import numpy as np

from ltgcd.discovery.discover import discover
from ltgcd.discovery.memory import processes_that_fit
from ltgcd.discovery.task import Hooks, Task, configure
from ltgcd.evaluation.metric import evaluate
from ltgcd.graph.matching import confusion, matched_clusters


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("features", type=Path, nargs="+")
    parser.add_argument("--shares", type=float, nargs="*", default=[0.5, 0.25])
    arguments = parser.parse_args()
    print("| set | items | fit on | K̂ (true) | All / Old / New | sure | of these right | seconds |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for path in arguments.features:
        with np.load(path) as held:
            x, true = held["x"], np.unique(held["y_true"], return_inverse=True)[1]
        k = int(true.max()) + 1
        # Known classes first, as the metric has them.
        true = np.argsort(np.argsort(np.arange(k) % 2, kind="stable"), kind="stable")[true]
        n_old = (k + 1) // 2
        y = np.where((true < n_old) & (np.random.RandomState(0).rand(len(true)) < 0.5), true, -1)
        free = y == -1
        hooks = Hooks(processes=partial(processes_that_fit, *x.shape))
        for share in (1.0, *arguments.shares):
            size = None if share == 1 else int(share * len(x))
            began = time.perf_counter()
            found = discover(Task(x, y, n_old), configure(fit_on=size), hooks)
            seconds = time.perf_counter() - began
            score = evaluate(true[free], found.labels[free], n_old)
            balanced = " / ".join(f"{v:.1f}" for v in score.balanced_acc)
            partner = matched_clusters(confusion(true[free], found.labels[free]))
            sure = ~found.unsure[free]
            right = (
                partner[np.unique(true[free], return_inverse=True)[1]]
                == np.unique(found.labels[free], return_inverse=True)[1]
            )
            print(
                f"| {path.stem} | {len(x):,} | {size or len(x):,} | {found.k} ({k}) | {balanced} | "
                f"{100 * sure.mean():.0f} % | {100 * right[sure].mean():.0f} | {seconds:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
