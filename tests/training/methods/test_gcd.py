"""GCD: the losses on the wide last layer, and the clustering that ends it, against slow code."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from ltgcd.common.errors import InputError
from ltgcd.graph.semi_kmeans import semi_kmeans
from ltgcd.training import losses
from ltgcd.training.heads import CentreHead
from ltgcd.training.loop import Batch
from ltgcd.training.methods.gcd import GCD, ContrastiveHead, GCDConfig, cluster


def wide(head: ContrastiveHead, features: torch.Tensor) -> torch.Tensor:
    """The outputs as in the paper: unit projections times all unit rows of the last layer, scaled to unit length."""
    z = F.normalize(head.projector(features), dim=1)
    return F.normalize(z @ F.normalize(head.last.weight, dim=1).T, dim=1)


@pytest.mark.parametrize("width", [40, 1023, 1100])
def test_the_head_has_the_cosines_of_the_wide_layer_and_its_gradients(width):
    torch.manual_seed(0)
    head = ContrastiveHead(5, width).double().train()
    with torch.no_grad():
        head.last.weight[:, 0] += 0.05  # so that the layer is far from keeping cosines
    features = torch.randn(8, 5, dtype=torch.float64)
    z, o = head(features)["z"], wide(head, features)
    assert z.shape[1] == min(width, 256) or width == 1023
    torch.testing.assert_close(z @ z.T, o @ o.T, rtol=1e-9, atol=1e-12)
    plain = F.normalize(head.projector(features), dim=1)
    assert not torch.allclose(z @ z.T, plain @ plain.T, atol=1e-6)
    gradients = []
    for rows in (z, o):
        head.zero_grad()
        losses.info_nce(rows).backward(retain_graph=True)
        gradients.append([p.grad.clone() for p in head.parameters()])
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-12)


def test_outside_training_the_head_says_nothing():
    assert ContrastiveHead(5, 20).eval()(torch.randn(3, 5)) == {}


def test_losses_are_those_of_the_paper():
    torch.manual_seed(1)
    head = ContrastiveHead(5, 1500).train()
    y = np.array([0, 0, 1, -1, -1])
    features = torch.randn(10, 5)
    terms = GCD(y, GCDConfig(supervised_weight=0.3)).losses(
        features, head(features), Batch(torch.arange(5), torch.from_numpy(y), 0.0)
    )
    o = wide(head, features).detach().double().numpy()
    self_con = 0.0
    for i in range(10):
        other = (i + 5) % 10
        self_con -= math.log(math.exp(o[i] @ o[other]) / sum(math.exp(o[i] @ o[n]) for n in range(10) if n != i)) / 10
    rows = [0, 1, 2, 5, 6, 7]
    sup_con = 0.0
    for i in rows:
        others = [n for n in rows if n != i]
        total = sum(math.exp(o[i] @ o[n] / 0.07) for n in others)
        same = [n for n in others if y[n % 5] == y[i % 5]]
        sup_con -= sum(math.log(math.exp(o[i] @ o[q] / 0.07) / total) for q in same) / len(same) / len(rows)
    assert float(terms["self_con"].detach()) == pytest.approx(0.7 * self_con, rel=1e-5)
    assert float(terms["sup_con"].detach()) == pytest.approx(0.3 * sup_con, rel=1e-4)


def test_a_centre_head_gives_the_nearest_centre_and_not_the_largest_cosine():
    random = np.random.RandomState(0)
    centres = (random.randn(7, 4) * random.rand(7, 1)).astype(np.float32)
    x = random.randn(200, 4).astype(np.float32)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    logits = CentreHead(torch.from_numpy(centres))(torch.from_numpy(x))["logits"].numpy()
    distances = np.array([[np.sum((row - c) ** 2) for c in centres] for row in unit])
    np.testing.assert_allclose(logits, (1 - distances) / 2, atol=1e-5)
    cosines = unit @ (centres / np.linalg.norm(centres, axis=1, keepdims=True)).T
    assert (cosines.argmax(axis=1) != distances.argmin(axis=1)).any()


def test_the_end_is_semi_supervised_k_means():
    random = np.random.RandomState(0)
    true = np.repeat(np.arange(5), 30)
    x = (np.eye(5, 8)[true] * 3 + random.randn(150, 8) * 0.6).astype(np.float32) * random.rand(150, 1).astype(
        np.float32
    )
    y = np.where((true < 3) & (np.arange(150) % 2 == 0), true, -1)
    head = cluster(x, y, 3, 5, GCDConfig(n_init=5), 0)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    found = semi_kmeans(unit, y, 3, 5, n_init=5, random_state=0)
    labels = head(torch.from_numpy(x))["logits"].argmax(dim=1).numpy()
    assert (labels == found.labels)[y < 0].mean() > 0.98
    # Centres are means of their members, the labelled ones among them.
    for c in range(5):
        np.testing.assert_allclose(head.centres[c].numpy(), unit[found.labels == c].mean(axis=0), atol=2e-3)


def test_impossible_settings_are_a_sentence():
    for change in ({"width": 0}, {"n_init": 0}, {"supervised_weight": 1.5}):
        with pytest.raises(InputError):
            GCDConfig(**change)
