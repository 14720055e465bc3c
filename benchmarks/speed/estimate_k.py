"""The default estimate of K against k-means + Brent on the same features, in one run.

    python benchmarks/speed/estimate_k.py                        # a Gaussian mixture of the size of CIFAR-100-LT
    python benchmarks/speed/estimate_k.py --work ltgcd-bench     # CIFAR-100-LT, λ = 10, seed 0

k-means + Brent with one start (`kmeans-brent-1`) is run to its end. With ten starts (`kmeans-brent`) one k-means, at
K = |Y_l|, is timed, and multiplied by the number of K that the search with one start has tried: a lower bound, as all
of them are larger. With --whole it is run to its end too (an hour).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from ltgcd.bench.cells import Workshop
from ltgcd.bench.tables import cell_of, read_settings, read_tables
from ltgcd.class_number.estimate import estimate_k
from ltgcd.graph import kmeans
from ltgcd.graph.whitening import normalise
from ltgcd.run.train import vectors

N, D, K, N_OLD = 15_000, 1280, 100, 80
TABLES = Path(__file__).parents[1] / "tables"


def mixture(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A Gaussian mixture of the size of CIFAR-100-LT with EfficientNet-Lite2, long-tailed, 80 of 100 classes known."""
    random = np.random.RandomState(seed)
    share = 10.0 ** -(np.arange(K) / (K - 1))
    true = random.permutation(K)[random.choice(K, N, p=share / share.sum())]
    x = random.randn(K, D)[true] + 1.5 * random.randn(N, D)
    return x.astype(np.float32), np.where((true < N_OLD) & (random.rand(N) < 0.3), true, -1)


def cifar(work: Path) -> tuple[np.ndarray, np.ndarray]:
    """CIFAR-100-LT, λ = 10, seed 0, with frozen EfficientNet-Lite2 features; 80 of 100 classes known."""
    table, settings = read_tables(TABLES)["main"], read_settings(TABLES)
    cell = cell_of(table, table.columns[0], table.rows[0], settings, None, "frozen", 0)
    source = Workshop(work, None, settings).prepared(cell).source
    return vectors(source), source.collection.y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="work folder of `ltgcd bench`, for real features")
    parser.add_argument("--whole", action="store_true", help="run kmeans-brent with ten starts to its end (an hour)")
    options = parser.parse_args()
    x, y = cifar(options.work) if options.work else mixture()
    estimate_k(x[:500], y[:500])  # what is imported and compiled once
    default = estimate_k(x, y)
    print(f"{'CIFAR-100-LT' if options.work else 'Gaussian mixture'}, {x.shape[0]:,} × {x.shape[1]}")
    print(f"default: K = {default.k} [{default.low}, {default.high}] in {default.seconds:.1f} s, everything included")
    one = estimate_k(x, y, "kmeans-brent-1")
    ratio = one.seconds / default.seconds
    print(
        f"k-means + Brent, one start: K = {one.k} in {one.seconds:.0f} s, {len(one.curve)} values tried: {ratio:.0f}×"
    )
    if options.whole:
        ten = estimate_k(x, y, "kmeans-brent")
        print(f"k-means + Brent, ten starts: K = {ten.k} in {ten.seconds:.0f} s: {ten.seconds / default.seconds:.0f}×")
        return
    started = time.perf_counter()
    kmeans.cluster(normalise(x), N_OLD, 0)
    single = time.perf_counter() - started
    about = len(one.curve) * single / default.seconds  # of a search that tries as many K, none of them larger
    print(f"k-means + Brent, ten starts: one k-means at K = {N_OLD} takes {single:.1f} s, so about {about:.0f}×")


if __name__ == "__main__":
    main()
