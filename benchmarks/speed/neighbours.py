"""Speed of the kNN graph as a share of what the machine's matrix product allows.

    python benchmarks/speed/neighbours.py            # exact, 15,000 × 1280, k = 30
    python benchmarks/speed/neighbours.py --large    # and partitioned, 200,000 × 384

Two rates are given for the exact search. "Full" counts the 2·N²·D operations of the product of all rows with all rows,
as every other library does; "done" counts the half of them that the search really does, since x xᵀ is symmetric. The
rate of the machine is that of the bare product, all N rows with all N in the same blocks, by torch or by NumPy,
whichever is faster. Bare product and search take turns and the best of each counts, so that other work on the machine
meets both alike.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from ltgcd.graph.knn import knn_graph
from ltgcd.graph.knn_search import COLUMNS, ROWS


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


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


def product(x: np.ndarray, *, by_torch: bool) -> None:
    """All of x xᵀ, block by block, nothing kept."""
    out = np.empty((ROWS, COLUMNS), dtype=np.float32)
    for top in range(0, len(x), ROWS):
        for start in range(0, len(x), COLUMNS):
            a, b = x[top : top + ROWS], x[start : start + COLUMNS]
            s = out.ravel()[: len(a) * len(b)].reshape(len(a), len(b))
            if by_torch:
                torch.mm(torch.from_numpy(a), torch.from_numpy(b).T, out=torch.from_numpy(s))
            else:
                np.matmul(a, b.T, out=s)


def exact(n: int, d: int, k: int, repeat: int) -> None:
    x = mixture(n, d, 100, 32)
    turns = [
        [
            seconds(call)
            for call in (
                lambda: product(x, by_torch=True),
                lambda: product(x, by_torch=False),
                lambda: knn_graph(x, k, exact=True),
            )
        ]
        for _ in range(repeat)
    ]
    by_torch, by_numpy, search = np.min(turns, axis=0)
    work, share = 2e-9 * n * n * d, (n + COLUMNS) / (2 * n)
    machine = work / min(by_torch, by_numpy)
    print(
        f"product   {n} × {d}: torch {by_torch:.2f} s, NumPy {by_numpy:.2f} s; the machine does {machine:.0f} GFLOP/s"
    )
    print(f"search    k = {k}, exact, everything included: {search:.2f} s (best of {repeat})")
    print(f"  full    {work / search:.0f} GFLOP/s = {work / search / machine:.0%} of the machine's rate")
    print(
        f"  done    {share * work / search:.0f} GFLOP/s = {share * work / search / machine:.0%}, of the upper triangle"
    )


def partitioned(n: int, d: int, k: int) -> None:
    for name, rank in (("16 directions a class", 16), ("all directions alike", d)):
        x = mixture(n, d, 1000, rank)
        started = time.perf_counter()
        graph = knn_graph(x, k, exact=False)
        took = time.perf_counter() - started
        kind = "exact after all" if graph.exact else f"recall {graph.recall:.3f}"
        print(f"partition {n} × {d}, k = {k}, {name}: {took:.0f} s, {kind}", flush=True)


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
