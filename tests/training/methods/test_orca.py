"""ORCA: the adaptive margin, the partners and the losses, against slow code."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.common.errors import InputError
from ltgcd.training.loop import Batch, Snapshot
from ltgcd.training.methods.orca import ORCA, ORCAConfig, agreement, margin_cross_entropy, partners, uncertainty


def slow_softmax(row: np.ndarray) -> np.ndarray:
    e = np.exp(row.astype(float))
    return e / e.sum()


def test_uncertainty_by_hand():
    logits = np.array([[0.0, 0.0], [0.1 * math.log(3), 0.0]], dtype=np.float32)  # sure by 1/2 and by 3/4
    assert uncertainty(logits) == pytest.approx(1 - (0.5 + 0.75) / 2, rel=1e-5)
    assert uncertainty(logits[:0]) == 0


def test_the_margin_helps_the_right_class():
    cosines, y = torch.tensor([[0.3, 0.1, -0.2], [0.0, 0.5, 0.2]]), torch.tensor([1, 1])
    expected = 0.0
    for row, c in zip(cosines.tolist(), y.tolist(), strict=True):
        helped = [10 * (value + (0.25 if k == c else 0)) for k, value in enumerate(row)]
        expected -= math.log(math.exp(helped[c]) / sum(map(math.exp, helped))) / 2
    assert float(margin_cross_entropy(cosines, y, 0.25)) == pytest.approx(expected, rel=1e-5)
    assert float(margin_cross_entropy(cosines, y, 0.25)) < float(margin_cross_entropy(cosines, y, 0.0))
    assert float(margin_cross_entropy(cosines[:0], y[:0], 0.25)) == 0


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12))
def test_partners_are_of_the_class_or_nearest(seed, n):
    random = np.random.RandomState(seed)
    x, y = random.randn(n, 3).astype(np.float32), random.randint(-1, 3, n)
    chosen = partners(torch.from_numpy(x), torch.from_numpy(y), torch.Generator().manual_seed(seed)).tolist()
    for i, partner in enumerate(chosen):
        if y[i] == -1:
            cosine = [x[i] @ x[j] / np.linalg.norm(x[i]) / np.linalg.norm(x[j]) if j != i else -2 for j in range(n)]
            assert partner != i
            assert cosine[partner] == pytest.approx(max(cosine), abs=1e-5)
        elif (y == y[i]).sum() == 1:
            assert partner == i
        else:
            assert partner != i
            assert y[partner] == y[i]


def test_partners_of_a_class_are_drawn_evenly():
    y = torch.zeros(4, dtype=torch.int64)
    random = torch.Generator().manual_seed(0)
    drawn = np.stack([partners(torch.ones(4, 2), y, random).numpy() for _ in range(900)])
    counts = np.stack([np.bincount(drawn[:, i], minlength=4) for i in range(4)])
    assert (np.diag(counts) == 0).all()
    assert (np.abs(counts[~np.eye(4, dtype=bool)] - 300) < 70).all()


def test_agreement_by_hand_and_where_it_is_nil():
    p_a, p_b = torch.tensor([[0.5, 0.5], [0.9, 0.1]]), torch.tensor([[1.0, 0.0], [0.2, 0.8]])
    assert float(agreement(p_a, p_b)) == pytest.approx(-(math.log(0.5) + math.log(0.26)) / 2, rel=1e-5)
    apart = torch.tensor([[1.0, 0.0]], requires_grad=True)
    agreement(apart, torch.tensor([[0.0, 1.0]])).backward()
    assert torch.isfinite(apart.grad).all()


def test_the_margin_is_the_uncertainty_about_unlabelled_items_as_the_epoch_begins():
    y = np.array([0, -1, -1])
    sure = np.array([[0.0, 0.0], [2.0, 0.0], [0.1 * math.log(3), 0.0]], dtype=np.float32)
    method = ORCA(y, ORCAConfig(largest_margin=0.5))
    plan = method.plan(0.0, lambda: Snapshot(np.zeros((3, 1), np.float32), {"logits": sure}))
    assert method.margin == pytest.approx(0.125, abs=1e-4)
    assert plan.record == {"uncertainty": 0.125}
    assert plan.pool.tolist() == [1, 2]
    flat = {"logits": np.zeros((3, 4), np.float32)}  # 1 − 1/4 is more than the bound
    method.plan(0.1, lambda: Snapshot(np.zeros((3, 1), np.float32), flat))
    assert method.margin == 0.5


def test_losses_against_slow_code():
    random = np.random.RandomState(0)
    y = np.array([0, -1, 0, -1, 1])
    features, cosines = random.randn(10, 3).astype(np.float32), random.rand(10, 3).astype(np.float32)
    method = ORCA(y, ORCAConfig(entropy_weight=2.0, pair_weight=3.0))
    method.margin = 0.2
    terms = method.losses(
        torch.from_numpy(features),
        {"logits": torch.from_numpy(cosines)},
        Batch(torch.arange(5), torch.from_numpy(y), 0.4),
    )
    p = np.stack([slow_softmax(10 * row) for row in cosines])
    ce = 0.0
    for i in (0, 2, 4):
        helped = 10 * (cosines[i] + 0.2 * np.eye(3)[y[i]])
        ce -= math.log(slow_softmax(helped)[y[i]]) / 3
    unit = features[:5] / np.linalg.norm(features[:5], axis=1, keepdims=True)
    nearest = (unit @ unit.T - 9 * np.eye(5)).argmax(axis=1)
    partner = [2, nearest[1], 0, nearest[3], 4]  # each class has one other row, or none
    pairs = -np.mean([math.log(p[i] @ p[5 + partner[i]]) for i in range(5)])
    mean = p[:5].mean(axis=0)
    assert float(terms["supervised"]) == pytest.approx(ce, rel=1e-5)
    assert float(terms["pairs"]) == pytest.approx(3 * pairs, rel=1e-5)
    assert float(terms["entropy"]) == pytest.approx(2 * (math.log(3) + (mean * np.log(mean)).sum()), rel=1e-4)


def test_impossible_settings_are_a_sentence():
    for name in ("largest_margin", "entropy_weight", "pair_weight"):
        with pytest.raises(InputError, match=name):
            ORCAConfig(**{name: -0.1})
