"""10-NN purity of frozen features (cosine, centred): do the backbone and the preprocessing do what they should?

The share of an item's ten nearest neighbours that are of its class, mean over all items of D^l ∪ D^u.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import faiss
import numpy as np

from ltgcd.data.sources import read_source
from ltgcd.data.splits import make_split
from ltgcd.features.backbones import load_backbone
from ltgcd.features.embed import embed


def purity(x: np.ndarray, y: np.ndarray, k: int = 10) -> float:
    x = x - x.mean(axis=0)
    x = np.ascontiguousarray(x / np.linalg.norm(x, axis=1, keepdims=True), dtype=np.float32)
    index = faiss.IndexFlatIP(x.shape[1])
    index.add(x)
    _, found = index.search(x, k + 1)
    is_self = found == np.arange(len(x))[:, None]
    same = (y[found] == y[:, None]) & ~is_self
    return float(same.sum() / (len(x) * k))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="openvino")
    parser.add_argument("--seeds", type=int, default=3, help="splits of CIFAR-100-LT: which classes are large matters")
    options = parser.parse_args()
    backbone = load_backbone("efficientnet_lite2", image_size=128)
    plan = {"cifar100": (options.seeds, 0.47, 0.51), "plankton": (1, 0.51, 0.56)}
    for name, (seeds, low, high) in plan.items():
        values = []
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            for seed in range(seeds):  # into one folder: what two splits share is embedded once
                split = make_split(name, Path(folder) / f"split-{seed}", imbalance=10.0, seed=seed)
                result = embed(read_source(split["path"]), backbone, Path(folder) / "features", engine=options.engine)
                source = read_source(Path(folder) / "features")
                values.append(purity(source.collection.items.x, source.truth.y_true))
            seconds = time.perf_counter() - started
        mean = float(np.mean(values))
        verdict = "within" if low <= mean <= high else "OUTSIDE"
        each = ", ".join(f"{value:.3f}" for value in values)
        print(
            f"{name} ({split['preset']}, {result.n} images a split, {seconds:.0f} s): 10-NN purity {mean:.3f} "
            f"({each}), {verdict} {low}–{high}",
            flush=True,
        )


if __name__ == "__main__":
    main()
