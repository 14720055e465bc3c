"""Semi-supervised k-means against the way of the reference code, from the same initial centres, in one run.

    python benchmarks/speed/semi_kmeans.py                              # synthetic, 15,000 × 1280, K = 100, 80 known
    python benchmarks/speed/semi_kmeans.py --features features.npz      # x and y (all labels; a long tail is drawn)

The reference computes `((x[:, None] - c[None]) ** 2).sum(-1)` in batches of 1024 rows, loops over the clusters in the
M-step and does one restart after another. To its end that takes the better part of an hour, so two of its rounds are
timed and multiplied by the number of rounds that its restarts need. That number comes from plain Lloyd rounds in
float64 from the same centres, which are run to their end and give the inertia to compare with too. The reference is
timed in two ways: as it is written, with a new array of half a gigabyte for every step, and, kinder to it, with one
array that is kept. Its k-means++, which compares all rows with all centres again for each seed, is not counted; our
time includes everything. Times are CPU seconds, so that other work on the machine counts as little as it can.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from ltgcd.graph import semi_kmeans as ours
from ltgcd.graph.whitening import normalise

N, D, K, N_OLD, N_INIT, MAX_ITER = 15_000, 1280, 100, 80, 10, 200


def synthetic(random: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping Gaussian classes in 48 directions, long-tailed, and a little noise in all directions."""
    share = 10.0 ** -(np.arange(K) / (K - 1))
    true = random.permutation(K)[random.choice(K, N, p=share / share.sum())]
    latent = random.randn(K, 48)[true] + 1.2 * random.randn(N, 48)
    return (latent @ random.randn(48, D) + random.randn(N, D)).astype(np.float32), true


def long_tail(path: Path, random: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """N rows of a file, drawn so that class sizes fall from 10 to 1."""
    with np.load(path) as file:
        x, true = file["x"], file["y"]
    weight = 10.0 ** -(random.permutation(K) / (K - 1))
    rows = random.choice(len(x), N, replace=False, p=weight[true] / weight[true].sum())
    return x[rows], true[rows]


def reference_round(
    u: torch.Tensor, known: torch.Tensor, y: torch.Tensor, centres: torch.Tensor, kept: torch.Tensor | None
) -> torch.Tensor:
    """One round of the reference: labels of the unlabelled rows; the centres are overwritten."""
    distance = torch.zeros(len(u), len(centres))
    for i in range(0, len(u), 1024):
        block = u[i : i + 1024, None]
        if kept is None:
            distance[i : i + 1024] = ((block - centres[None]) ** 2).sum(-1)
        else:
            distance[i : i + 1024] = torch.sub(block, centres[None], out=kept[: len(block)]).square_().sum(-1)
    labels = distance.min(dim=1).indices
    everything, every_label = torch.cat([known, u]), torch.cat([y, labels])
    for c in range(len(centres)):
        centres[c] = everything[every_label == c].mean(dim=0)
    return labels


def time_reference(x: np.ndarray, y: np.ndarray, start: np.ndarray, *, keep: bool) -> tuple[float, np.ndarray]:
    """Seconds of the faster of two rounds, and the labels of the unlabelled rows after the first."""
    u, known, of = (torch.from_numpy(a) for a in (x[y < 0], x[y >= 0], y[y >= 0]))
    kept = torch.zeros(1024, K, D) if keep else None
    centres, took, labels = torch.from_numpy(start.copy()), [], []
    for _ in range(2):
        started = time.process_time()
        labels.append(reference_round(u, known, of, centres, kept).numpy())
        took.append(time.process_time() - started)
    return min(took), labels[0]


def plain_lloyd(x: np.ndarray, y: np.ndarray, start: np.ndarray) -> tuple[float, int, np.ndarray]:
    """Rounds of one restart to its end, by a full matrix product: inertia, rounds, labels (U,) after the first."""
    centres, labels, u = start.astype(x.dtype), y.copy(), x[y < 0]
    for rounds in range(1, MAX_ITER + 1):
        labels[y < 0] = ((centres**2).sum(axis=1) - 2 * u @ centres.T).argmin(axis=1)
        if rounds == 1:
            first = labels[y < 0].copy()
        means = np.stack([x[labels == c].mean(axis=0) for c in range(K)])
        shift, centres = np.linalg.norm(means - centres, axis=1).sum(), means
        if shift**2 < 1e-4:
            break
    return float(((x - centres[labels]) ** 2).sum()), rounds, first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--features", type=Path, help="an .npz with x (N×1280) and the labels y of 100 classes")
    options = parser.parse_args()
    random = np.random.RandomState(0)
    x, true = long_tail(options.features, random) if options.features else synthetic(random)
    x = normalise(x)
    y = np.where((true < N_OLD) & (random.rand(N) < 0.4), true, -1)
    starts: list[np.ndarray] = []
    plus_plus, mean = ours._plus_plus, x.mean(axis=0)

    def recorded(u: np.ndarray, given: np.ndarray, draws: np.ndarray) -> np.ndarray:
        seeds = plus_plus(u, given, draws)
        starts.extend(np.concatenate([given, one]) + mean for one in seeds)
        return seeds

    ours._plus_plus = recorded
    started = time.process_time()
    found = ours.semi_kmeans(x, y, N_OLD, K, n_init=N_INIT, max_iter=MAX_ITER)
    took = time.process_time() - started
    written, first = time_reference(x, y, starts[0], keep=False)
    kept, _ = time_reference(x, y, starts[0], keep=True)
    started = time.process_time()
    _, some, _ = plain_lloyd(x, y, starts[0])
    product = (time.process_time() - started) / some
    exact = x.astype(np.float64)
    runs = [plain_lloyd(exact, y, start) for start in starts]
    rounds, inertia = sum(run[1] for run in runs), min(run[0] for run in runs)

    print(f"N = {N} ({(y < 0).sum()} unlabelled), d = {D}, K = {K} ({N_OLD} known), {N_INIT} restarts,", end=" ")
    print(f"{rounds} rounds in all; {torch.get_num_threads()} thread(s)")
    print(f"{'':44s}{'s a round':>10s}{'CPU s':>9s}{'ratio':>9s}")
    print(f"{'ours, everything included':44s}{took / rounds:10.3f}{took:9.1f}{1:8.1f}×")
    for name, one in (
        ("reference as written *", written),
        ("reference, one array kept *", kept),
        ("full float32 matrix product, no batching *", product),
    ):
        print(f"{name:44s}{one:10.3f}{one * rounds:9.1f}{one * rounds / took:8.1f}×")
    print(f"* timed rounds (two; of the product {some}) times {rounds}, from the same centres, without k-means++")
    print(f"inertia {found.inertia:.4f}, float64 rounds from the same centres {inertia:.4f}:", end=" ")
    print(f"relative difference {abs(found.inertia - inertia) / inertia:.1e};")
    print(f"after its timed round {(first == runs[0][2]).mean():.2%} of the reference's labels agree with float64")


if __name__ == "__main__":
    main()
