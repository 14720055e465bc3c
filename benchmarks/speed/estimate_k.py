"""The default estimate of K against `kmeans-brent` on the same features, in one run.

`kmeans-brent` is bounded below: one of its k-means (ten starts, K = |Y_l|, its smallest) is timed, and multiplied by
the number of K that bounded Brent tries on [80, 1000] for a smooth objective. With --whole it is run to its end.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from ltgcd.estimate_k import estimate_k
from ltgcd.k_search import search_k
from ltgcd.methods import kmeans
from ltgcd.whitening import normalise

N, D, K, N_OLD = 15_000, 1280, 100, 80


def data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A Gaussian mixture of the size of CIFAR-100-LT with EfficientNet-Lite2, long-tailed, 80 of 100 classes known."""
    random = np.random.RandomState(seed)
    share = 10.0 ** -(np.arange(K) / (K - 1))
    true = random.permutation(K)[random.choice(K, N, p=share / share.sum())]
    x = random.randn(K, D)[true] + 1.5 * random.randn(N, D)
    return x.astype(np.float32), np.where((true < N_OLD) & (random.rand(N) < 0.3), true, -1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", action="store_true", help="run kmeans-brent to its end (an hour)")
    options = parser.parse_args()
    x, y = data()
    default = estimate_k(x, y)
    print(f"default: K = {default.k} [{default.low}, {default.high}] in {default.seconds:.1f} s, everything included")
    if options.whole:
        rival = estimate_k(x, y, "kmeans-brent")
        print(f"kmeans-brent: K = {rival.k} in {rival.seconds:.0f} s, {rival.seconds / default.seconds:.0f}×")
        return
    started = time.perf_counter()
    kmeans.cluster(normalise(x), N_OLD, 0)
    one = time.perf_counter() - started
    _, tried = search_k(lambda k: -abs(k - K), N_OLD, 1000)
    print(f"kmeans-brent: one k-means with K = {N_OLD} takes {one:.1f} s = {one / default.seconds:.1f}×;")
    least = len(tried) * one / default.seconds
    print(f"  bounded Brent tries {len(tried)} values of K, most of them larger: at least {least:.0f}×")


if __name__ == "__main__":
    main()
