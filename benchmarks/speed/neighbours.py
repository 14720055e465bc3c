"""Speed of the kNN graph as a share of what the machine's matrix product allows.

    python benchmarks/speed/neighbours.py            # exact, 15,000 × 1280, k = 30
    python benchmarks/speed/neighbours.py --large    # and partitioned, 200,000 × 384

Two rates are given for the exact search. "Full" counts the 2·N²·D operations of the product of all rows with all rows,
as every other library does; "done" counts the half of them that the search really does, since x xᵀ is symmetric. The
rate of the machine is the better of torch's and NumPy's product of blocks of the same shape, before and after.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from ltgcd.neighbour_search import COLUMNS, ROWS
from ltgcd.neighbours import knn_graph


def seconds(call: Callable[[], object], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


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


def gemm_rate(d: int, repeat: int = 5) -> float:
    """GFLOP/s of one block of the product in float32: the better of torch and NumPy."""
    a, b = (np.random.RandomState(0).rand(n, d).astype(np.float32) for n in (ROWS, COLUMNS))
    left, right = torch.from_numpy(a), torch.from_numpy(b)
    out = np.empty((ROWS, COLUMNS), dtype=np.float32)
    into = torch.from_numpy(out)
    best = min(
        seconds(lambda: torch.mm(left, right.T, out=into), repeat), seconds(lambda: np.matmul(a, b.T, out=out), repeat)
    )
    return 2e-9 * ROWS * COLUMNS * d / best


def exact(n: int, d: int, k: int, repeat: int) -> None:
    x = mixture(n, d, 100, 32)
    before = gemm_rate(d)
    took = seconds(lambda: knn_graph(x, k, exact=True), repeat)
    machine = max(before, gemm_rate(d))
    full = 2e-9 * n * n * d / took
    done = full * (n + COLUMNS) / (2 * n)
    print(f"machine   {machine:7.1f} GFLOP/s (float32 product, blocks of {ROWS} × {COLUMNS} × {d}, best of 20)")
    print(f"exact     {n} × {d}, k = {k}: {took:.2f} s, everything included, best of {repeat}")
    print(f"  full    {full:7.1f} GFLOP/s = {full / machine:.0%} of the machine's rate")
    print(f"  done    {done:7.1f} GFLOP/s = {done / machine:.0%} (the upper triangle only)")


def partitioned(n: int, d: int, k: int) -> None:
    for name, rank in (("16 directions a class", 16), ("all directions alike", d)):
        x = mixture(n, d, 1000, rank)
        started = time.perf_counter()
        graph = knn_graph(x, k, exact=False)
        took = time.perf_counter() - started
        print(f"partition {n} × {d}, k = {k}, {name}: {took:.1f} s, recall {graph.recall:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--n", type=int, default=15_000)
    parser.add_argument("--d", type=int, default=1280)
    parser.add_argument("--k", type=int, default=30)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="also 200,000 × 384 by the partitioned search")
    options = parser.parse_args()
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, NumPy {np.__version__}")
    exact(options.n, options.d, options.k, options.repeat)
    if options.large:
        partitioned(200_000, 384, options.k)


if __name__ == "__main__":
    main()
