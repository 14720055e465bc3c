"""Labels for items that training never saw: CIFAR-100's test split against D^u, frozen regime, three data seeds.

ltgcd embed cifar100/test.parquet --image-size 128 --engine openvino --out features/cifar100test
python benchmarks/new_items.py --features features
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from training import problem

from ltgcd.datasets import get_dataset
from ltgcd.datasets.base import class_order
from ltgcd.evaluation import evaluate
from ltgcd.experiments import preset
from ltgcd.fitting import fit_model
from ltgcd.splits import SplitConfig, draw_split
from ltgcd.views import VectorViews


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, default=Path("features"))
    root = parser.parse_args().features
    dataset = get_dataset("cifar100")
    with np.load(root / "cifar100" / "features.npz") as file:
        y = file["y"].astype(np.int64)
    with np.load(root / "cifar100test" / "features.npz") as file:
        new, new_y = file["x"].astype(np.float32), file["y"].astype(np.int64)
    for seed in range(3):
        task, true = problem("cifar100", 10.0, seed, root, None)
        result = fit_model(task, preset("ltgcd", "frozen"))
        free = task.y < 0
        inside = evaluate(true[free], result.probabilities.argmax(axis=1)[free], task.n_old).balanced_acc
        config = SplitConfig("paper-counts", 10.0, seed)
        split = draw_split(y, class_order(dataset, seed), dataset.n_old, config, dataset.heads["paper-counts"])
        code = np.empty(len(split.classes), dtype=np.int64)
        code[np.array(split.classes)] = np.arange(len(split.classes))
        predicted = result.fitted.predict(VectorViews(new)).argmax(axis=1)
        outside = evaluate(code[new_y], predicted, task.n_old).balanced_acc
        shown = [" / ".join(f"{v:.1f}" for v in scores) for scores in (inside, outside)]
        print(f"seed {seed}: D^u {shown[0]}, test split {shown[1]} (balanced All / Old / New)", flush=True)


if __name__ == "__main__":
    main()
