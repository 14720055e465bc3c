"""UNO+: Sinkhorn, joint targets, swapped prediction and the best head, against slow code."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ltgcd.common.errors import InputError
from ltgcd.training.heads import BatchNorm, JointHead
from ltgcd.training.loop import Batch, Snapshot
from ltgcd.training.methods.uno import UNO, UNOConfig, UNOHead, joint_targets, sinkhorn, split_prior, swapped_prediction


def slow_sinkhorn(logits: np.ndarray, prior: np.ndarray, epsilon: float, rounds: int) -> np.ndarray:
    """As in SwAV: a matrix of classes by items, rows scaled to the shares, columns to 1/B, times B in the end."""
    q = np.exp(logits.astype(float) / epsilon).T
    q = q / q.sum()
    n = q.shape[1]
    for _ in range(rounds):
        for c in range(len(q)):
            q[c] = q[c] / q[c].sum() * prior[c]
        for i in range(n):
            q[:, i] = q[:, i] / q[:, i].sum() / n
    return q.T * n


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 6), st.integers(1, 5))
def test_sinkhorn_against_slow_code(seed, n, c, rounds):
    random = np.random.RandomState(seed)
    cosines, prior = random.rand(n, c).astype(np.float32) * 2 - 1, random.rand(c) + 0.1
    prior /= prior.sum()
    ours = sinkhorn(torch.from_numpy(cosines), torch.from_numpy(prior).float(), 0.1, rounds).numpy()
    np.testing.assert_allclose(ours, slow_sinkhorn(cosines, prior, 0.1, rounds), rtol=2e-3, atol=1e-5)
    np.testing.assert_allclose(ours.sum(axis=1), 1, rtol=1e-4)


def test_sinkhorn_reaches_the_shares_and_keeps_the_rows_apart():
    random = np.random.RandomState(0)
    cosines = torch.from_numpy(random.rand(2, 60, 3).astype(np.float32))
    prior = torch.tensor([0.6, 0.3, 0.1])
    q = sinkhorn(cosines, prior, 0.2, 200)
    torch.testing.assert_close(q.mean(dim=1), prior.repeat(2, 1), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(q[1], sinkhorn(cosines[1], prior, 0.2, 200))  # each head on its own
    # No overflow where ε is small, and no rows are no rows.
    assert torch.isfinite(sinkhorn(cosines, prior, 1e-4, 3)).all()
    assert sinkhorn(cosines[:, :0], prior, 0.05, 3).shape == (2, 0, 3)


def test_targets_are_labels_or_pseudo_labels_over_all_classes():
    random = np.random.RandomState(1)
    logits = torch.from_numpy(random.rand(2, 3, 5, 4).astype(np.float32))
    y = torch.tensor([1, -1, 0, -1, -1])
    prior = torch.full((4,), 0.25)
    targets = joint_targets(logits, y, prior, 0.05, 3)
    for view in range(2):
        for head in range(3):
            np.testing.assert_array_equal(targets[view, head, [0, 2]].numpy(), np.eye(4)[[1, 0]])
            free = [1, 3, 4]
            expected = slow_sinkhorn(logits[view, head, free].numpy(), np.full(4, 0.25), 0.05, 3)
            np.testing.assert_allclose(targets[view, head, free].numpy(), expected, rtol=2e-3, atol=1e-5)
    assert targets[:, :, [1, 3, 4], :2].sum() > 0, "unlabelled items may be of known classes"


def test_each_view_is_predicted_from_the_other():
    random = np.random.RandomState(2)
    logits, targets = random.rand(2, 2, 3, 4), random.rand(2, 2, 3, 4)
    expected = np.zeros(2)
    for head in range(2):
        for view in range(2):
            for i in range(3):
                e = np.exp(logits[view, head, i] / 0.1)
                expected[head] -= (targets[1 - view, head, i] * np.log(e / e.sum())).sum() / 6
    ours = swapped_prediction(torch.from_numpy(logits), torch.from_numpy(targets))
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-9)


def test_the_prior_of_over_clusters_spreads_the_novel_share():
    prior = torch.tensor([0.4, 0.3, 0.2, 0.1])
    torch.testing.assert_close(split_prior(prior, 2, 3), torch.tensor([0.4, 0.3, *[0.05] * 6]))
    torch.testing.assert_close(split_prior(prior, 4, 3), prior)


def make(n_old: int = 2, k: int = 5, **changes: int | str) -> tuple[UNOHead, UNO]:
    torch.manual_seed(0)
    config = UNOConfig(n_heads=3, overclustering=2, hidden=8, **changes)
    head = UNOHead(6, n_old, k, config)
    return head, UNO(np.array([0, 1, -1, -1]), config, head, n_old, k)


def test_the_losses_of_the_heads_are_kept_apart_and_the_least_one_labels():
    head, method = make()
    method.plan(0.0, lambda: pytest.fail("no snapshot is needed"))
    batch = Batch(torch.arange(4), torch.tensor([0, 1, -1, -1]), 0.0)
    features = torch.randn(8, 6)
    outputs = head.train()(features)
    assert {name: tuple(o.shape) for name, o in outputs.items()} == {"heads": (8, 3, 5), "over": (8, 3, 8)}
    terms = method.losses(features, outputs, batch)
    expected = []
    for h in range(3):
        views = torch.stack([outputs["heads"][:4, h], outputs["heads"][4:, h]])[:, None]
        targets = joint_targets(views, batch.y, torch.full((5,), 0.2), 0.05, 3)
        expected.append(float(swapped_prediction(views, targets).detach()))
    assert head.epoch_loss.tolist() == pytest.approx(expected, rel=1e-5)
    assert float(terms["cluster"].detach()) == pytest.approx(sum(expected) / 6, rel=1e-5)
    assert len({round(value, 4) for value in expected}) == 3
    head.epoch_loss.copy_(torch.tensor([3.0, 1.0, 2.0]))
    best = head.eval().best()
    assert isinstance(best, JointHead)
    assert best.novel is head.novel[1]
    assert torch.equal(head(features)["logits"], best(features)["logits"])
    assert "epoch_loss" in head.state_dict(), "a checkpoint must hold it"
    method.plan(0.5, lambda: pytest.fail("no snapshot is needed"))
    assert not head.epoch_loss.any()


def test_prototypes_have_unit_length_before_a_step():
    head, _ = make()
    with torch.no_grad():
        head.known.weight *= 7
    head.train()(torch.randn(4, 6))
    weights = [head.known.weight, *(part.prototypes.weight for part in (*head.novel, *head.over))]
    for weight in weights:
        torch.testing.assert_close(weight.detach().norm(dim=1), torch.ones(len(weight)))


def test_an_estimated_prior_is_the_mean_prediction_about_unlabelled_items():
    _, method = make(sinkhorn_prior="estimated")
    logits = np.full((4, 5), -9.0, np.float32)
    logits[[0, 1, 2, 3], [4, 4, 1, 3]] = 9.0  # labelled rows, 0 and 1, do not count
    snapshot = Snapshot(np.zeros((4, 1), np.float32), {"logits": logits})
    method.plan(0.0, lambda: pytest.fail("the first epoch has nothing to go by"))
    assert method.prior.tolist() == pytest.approx([0.2] * 5)
    method.plan(0.1, lambda: snapshot)
    assert method.prior.tolist() == pytest.approx([0.02, 0.47, 0.02, 0.47, 0.02], rel=1e-4)


def test_without_novel_classes_the_known_ones_are_left():
    head, method = make(n_old=2, k=2)
    outputs = head.train()(torch.randn(8, 6))
    terms = method.losses(torch.zeros(8, 6), outputs, Batch(torch.arange(4), torch.tensor([0, 1, -1, -1]), 0.0))
    assert math.isfinite(float(sum(terms.values()).detach()))
    assert head.eval()(torch.randn(3, 6))["logits"].shape == (3, 2)


def test_a_joint_head_orders_novel_classes():
    head, _ = make()
    best, x = head.eval().best(), torch.randn(4, 6)
    before = best(x)["logits"].detach().clone()
    best.reorder(torch.tensor([0, 1, 4, 2, 3]))
    torch.testing.assert_close(best(x)["logits"].detach(), before[:, [0, 1, 4, 2, 3]])


def test_batch_norm_in_one_process_is_torch_s():
    ours, theirs, x = BatchNorm(3), nn.BatchNorm1d(3), torch.randn(7, 3)
    assert torch.equal(ours.train()(x), theirs.train()(x))
    assert torch.equal(ours.eval()(x), theirs.eval()(x))


def test_impossible_settings_are_a_sentence():
    for name in ("n_heads", "overclustering", "hidden", "rounds", "epsilon"):
        with pytest.raises(InputError, match=name):
            UNOConfig(**{name: 0})
