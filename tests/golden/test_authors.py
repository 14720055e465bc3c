"""Figures that the authors' own published code gave: metric, losses, Sinkhorn and semi-supervised k-means.

``authors.npz`` holds inputs and outputs of GCD's, SimGCD's and UNO's functions; no code of theirs is needed to test.
A move or a rewrite that changes a number of the field's tables fails here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from ltgcd.evaluation.metric import Scores, evaluate
from ltgcd.graph.semi_kmeans import semi_kmeans
from ltgcd.training.losses import info_nce, mean_entropy, mean_prediction, self_distillation, sup_con
from ltgcd.training.methods.uno import sinkhorn

with np.load(Path(__file__).with_name("authors.npz")) as file:
    AUTHORS = {name: file[name] for name in file.files}


def numbers(prefix: str) -> list[int]:
    """The cases of one kind: 0, 1, …"""
    return sorted({int(name.split("_")[prefix.count("_") + 1]) for name in AUTHORS if name.startswith(f"{prefix}_")})


def tensor(name: str) -> torch.Tensor:
    return torch.from_numpy(AUTHORS[name])


@pytest.mark.parametrize("case", numbers("metric"))
def test_metric(case: int) -> None:
    """GCD's v1 and v2 and SimGCD's balanced v2b, where a single matching is optimal."""
    y, clusters = (AUTHORS[f"metric_{case}_{name}"].astype(np.int64) for name in ("y", "clusters"))
    got = evaluate(y, clusters, int(AUTHORS[f"metric_{case}_n_old"]))

    def percent(name: str) -> Scores:
        return Scores(*(100 * AUTHORS[f"metric_{case}_{name}"]))

    np.testing.assert_allclose(got.acc.all, 100 * AUTHORS[f"metric_{case}_acc"], rtol=1e-12)
    np.testing.assert_allclose(got.acc, percent("v2"), rtol=1e-12)
    np.testing.assert_allclose(got.balanced_acc, percent("v2b"), rtol=1e-12)
    np.testing.assert_allclose(got.acc_v1, percent("v1"), rtol=1e-12)


@pytest.mark.parametrize("case", numbers("contrast"))
def test_contrastive_losses(case: int) -> None:
    """SimGCD's InfoNCE and SupCon on two views."""
    z, y = tensor(f"contrast_{case}_z"), tensor(f"contrast_{case}_y")
    unsupervised = info_nce(z, float(AUTHORS[f"contrast_{case}_temperature"]))
    np.testing.assert_allclose(unsupervised, AUTHORS[f"contrast_{case}_info_nce"], rtol=1e-12)
    np.testing.assert_allclose(sup_con(z, y.repeat(2)), AUTHORS[f"contrast_{case}_sup_con"], rtol=1e-12)


@pytest.mark.parametrize("epoch", [0, 10, 60])
@pytest.mark.parametrize("case", numbers("distil"))
def test_distillation(case: int, epoch: int) -> None:
    """SimGCD's self-distillation at three teacher temperatures of its schedule."""
    temperature = float(AUTHORS[f"distil_{case}_epoch{epoch}_temperature"])
    got = self_distillation(tensor(f"distil_{case}_cosines"), temperature)
    np.testing.assert_allclose(got, AUTHORS[f"distil_{case}_epoch{epoch}"], rtol=1e-12)


@pytest.mark.parametrize("case", numbers("distil"))
def test_mean_entropy(case: int) -> None:
    got = mean_entropy(mean_prediction(tensor(f"distil_{case}_cosines")))
    np.testing.assert_allclose(got, AUTHORS[f"distil_{case}_mean_entropy_loss"], rtol=1e-12)


@pytest.mark.parametrize("case", numbers("sinkhorn"))
def test_sinkhorn(case: int) -> None:
    """UNO's pseudo labels, ε = 0.05, three rounds, classes of equal shares."""
    logits = tensor(f"sinkhorn_{case}_logits")
    uniform = torch.full((logits.shape[1],), 1 / logits.shape[1], dtype=logits.dtype)
    got = sinkhorn(logits, uniform, epsilon=0.05, rounds=3)
    np.testing.assert_allclose(got, AUTHORS[f"sinkhorn_{case}_eps05_3"], rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("seed", numbers("semi_kmeans"))
def test_semi_supervised_kmeans(seed: int) -> None:
    """GCD's clusters, five starts: the same partition, hence the same inertia."""
    x, y, labels = (AUTHORS[f"semi_kmeans_{seed}_{name}"] for name in ("x", "y", "labels"))
    got = semi_kmeans(x, y, 6, 12, n_init=5, random_state=seed)
    assert adjusted_rand_score(labels, got.labels) == 1.0
    np.testing.assert_array_equal(got.labels[y >= 0], y[y >= 0])
    assert got.inertia == pytest.approx(float(AUTHORS[f"semi_kmeans_{seed}_inertia"]), rel=1e-6)
