"""Speed of the kNN graph beside plain FAISS, on top of which it stands, and scikit-learn, in one run.

    python benchmarks/speed/neighbours.py            # exact, 15,000 × 1280, k = 30
    python benchmarks/speed/neighbours.py --large    # and partitioned, 100,000 × 384, and vectors without structure

Each search runs with one thread, and the seconds are those of its own CPU: other work on the machine meets all alike.
The graph has more to do than the others: it scales the rows, finds duplicates, computes similarities again in float64,
orders ties, and where it is partitioned it chooses how many cells to look into and measures its recall.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import faiss  # noqa: E402 - after the number of threads
import numpy as np  # noqa: E402
from sklearn.neighbors import NearestNeighbors  # noqa: E402

from ltgcd.graph.knn import SPARE, TARGET_RECALL, knn_graph  # noqa: E402

SAMPLE = 500


def cpu_seconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def mixture(n: int, d: int, classes: int, rank: int, seed: int = 0) -> np.ndarray:
    """Long-tailed Gaussian classes; within a class the features vary along `rank` directions and a little in all."""
    random = np.random.RandomState(seed)
    share = 1.0 / (np.arange(classes) + 1)
    y = np.sort(random.choice(classes, n, p=share / share.sum()))
    x = (0.1 * random.standard_normal((n, d)) / np.sqrt(d)).astype(np.float32)
    for rows in np.split(np.arange(n), np.searchsorted(y, np.arange(1, classes))):
        centre, spread = random.standard_normal((1, d)), 0.8 * random.standard_normal((rank, d)) / np.sqrt(rank)
        x[rows] += ((centre + random.standard_normal((len(rows), rank)) @ spread) / np.sqrt(d)).astype(np.float32)
    return x[random.permutation(n)]


def unit_rows(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x / np.linalg.norm(x, axis=1, keepdims=True), dtype=np.float32)


def exact(name: str, x: np.ndarray, k: int, *, sklearn: bool) -> None:
    unit = unit_rows(x)

    def flat() -> None:
        index = faiss.IndexFlatIP(unit.shape[1])
        index.add(unit)
        index.search(unit, k + SPARE + 1)

    took = {"knn_graph": cpu_seconds(lambda: knn_graph(x, k, exact=True)), "faiss.IndexFlatIP": cpu_seconds(flat)}
    if sklearn:
        brute = NearestNeighbors(n_neighbors=k + 1, algorithm="brute").fit(unit)
        took["scikit-learn, brute"] = cpu_seconds(lambda: brute.kneighbors(unit))
    report(f"exact, {name}", took, "")


def partitioned(name: str, x: np.ndarray, k: int) -> None:
    """Plain FAISS is told the least number of probes that has the recall of our graph, on a sample."""
    unit, n_cells = unit_rows(x), int(2 * np.sqrt(len(x)))
    started = time.process_time()
    graph = knn_graph(x, k, exact=False)
    took = {"knn_graph": time.process_time() - started}
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(x.shape[1]), x.shape[1], n_cells, faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.spherical, index.cp.max_points_per_centroid = 8, True, 64
    sample = unit[np.random.RandomState(0).permutation(len(unit))[:SAMPLE]]
    true = faiss.knn(sample, unit, k + 1, metric=faiss.METRIC_INNER_PRODUCT)[0][:, -1:]
    started = time.process_time()
    index.train(unit)
    index.add(unit)
    trained = time.process_time() - started

    def recall_with(probes: int) -> float:
        index.nprobe = probes
        return float((index.search(sample, k + 1)[0] >= true - 1e-6).mean())

    low, high = 0, n_cells // 4  # of a quarter of the cells the search is called exact
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if recall_with(middle) >= min(graph.recall, TARGET_RECALL) else (middle, high)
    recall = recall_with(high)
    took["faiss.IndexIVFFlat"] = trained + cpu_seconds(lambda: index.search(unit, k + SPARE + 1))
    kind = "exact after all" if graph.exact else f"recall {graph.recall:.3f}"
    report(f"partitioned, {name}", took, f"{kind}; IVF with {index.nprobe} of {n_cells} cells, recall {recall:.3f}")


def report(name: str, took: dict[str, float], words: str) -> None:
    ours = took["knn_graph"]
    parts = [f"{other} {seconds:.1f} s ({seconds / ours:.2f}×)" for other, seconds in took.items()]
    print(f"{name}: {', '.join(parts)}{'; ' if words else ''}{words}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--n", type=int, default=15_000)
    parser.add_argument("--d", type=int, default=1280)
    parser.add_argument("--k", type=int, default=30)
    parser.add_argument("--features", type=Path, help="an .npz with x: real features to search, too")
    parser.add_argument("--large", action="store_true", help="also partitioned, and without structure")
    options = parser.parse_args()
    print(f"k = {options.k}, CPU seconds with one thread, in brackets as times of knn_graph's")
    n, d, k = options.n, options.d, options.k
    exact(f"mixture {n:,} × {d}", mixture(n, d, 100, 32), k, sklearn=True)
    if options.features is not None:
        with np.load(options.features) as file:
            x = file["x"].astype(np.float32)
        exact(f"{options.features.stem} {len(x):,} × {x.shape[1]}", x, k, sklearn=True)
    if options.large:
        diffuse = np.random.RandomState(0).standard_normal((30_000, 256)).astype(np.float32)
        exact("without structure 30,000 × 256", diffuse, k, sklearn=True)
        partitioned("without structure 30,000 × 256", diffuse, k)
        partitioned("mixture 200,000 × 384", mixture(200_000, 384, 700, 16), k)


if __name__ == "__main__":
    main()
