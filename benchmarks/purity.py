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

from ltgcd.backbones import load_backbone
from ltgcd.features import embed
from ltgcd.sources import read_source
from ltgcd.splits import make_split


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
    options = parser.parse_args()
    backbone = load_backbone("efficientnet_lite2", image_size=128)
    ranges = {"cifar100": (0.47, 0.51), "plankton": (0.51, 0.56)}
    for name, (low, high) in ranges.items():
        with tempfile.TemporaryDirectory() as folder:
            split = make_split(name, Path(folder) / "split", imbalance=10.0, seed=0)
            started = time.perf_counter()
            result = embed(read_source(split["path"]), backbone, Path(folder) / "features", engine=options.engine)
            seconds = time.perf_counter() - started
            source = read_source(Path(folder) / "features")
            value = purity(source.collection.items.x, source.truth.y_true)
        verdict = "within" if low <= value <= high else "OUTSIDE"
        print(
            f"{name} ({split['preset']}, {result.n} images, {seconds:.0f} s): 10-NN purity {value:.3f}, "
            f"{verdict} {low}–{high}"
        )


if __name__ == "__main__":
    main()
