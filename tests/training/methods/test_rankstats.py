"""RankStats+: ranking statistics and the three losses, against slow code."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.common.errors import InputError
from ltgcd.training.loop import Batch
from ltgcd.training.methods.rankstats import RankStats, RankStatsConfig, pairwise_bce, ramp_up, ranking_pairs


def slow_pairs(x: np.ndarray, k: int, least: int) -> list[list[bool]]:
    tops = [set(sorted(range(len(row)), key=lambda d: -row[d])[:k]) for row in x]
    return [[len(a & b) >= least for b in tops] for a in tops]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 9), st.integers(1, 8), st.integers(1, 6), st.integers(1, 6))
def test_pairs_compare_sets_of_the_largest_features(seed, n, dim, k, least):
    least, k = min(least, k, dim), min(k, dim)
    x = np.random.RandomState(seed).permutation(n * dim).reshape(n, dim).astype(np.float32) - n * dim / 2
    assert ranking_pairs(torch.from_numpy(x), k, least).tolist() == slow_pairs(x, k, least)


def test_pairs_by_hand():
    x = torch.tensor([[9.0, 8, 1, 0], [5.0, 7, 0, 1], [9.0, 1, 8, 0], [-9.0, -8, -1, 0]])
    # Largest two: {0,1}, {0,1} in another order, {0,2}, {2,3}: by value, not by size.
    assert ranking_pairs(x, 2, 2).long().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert ranking_pairs(x, 2, 1).long().tolist() == [[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 1, 1]]
    assert ranking_pairs(x, 9, 9).all(), "fewer features than are asked for are all the same"


def test_bce_by_hand():
    p_a = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    p_b = torch.tensor([[0.8, 0.2], [0.3, 0.7]])
    # s = [[0.8, 0.3], [0.5, 0.5]]
    expected = -(math.log(0.8) + math.log(1 - 0.3) + math.log(1 - 0.5) + math.log(0.5)) / 4
    assert float(pairwise_bce(p_a, p_b, torch.eye(2, dtype=torch.bool))) == pytest.approx(expected, rel=1e-5)
    assert float(pairwise_bce(p_a[:0], p_b[:0], torch.zeros(0, 0, dtype=torch.bool))) == 0
    # What is sure and wrong is finite, with a finite gradient.
    sure = torch.tensor([[1.0 + 1e-7, 0.0]], requires_grad=True)
    loss = pairwise_bce(sure, sure.detach(), torch.zeros(1, 1, dtype=torch.bool))
    loss.backward()
    assert float(loss.detach()) == pytest.approx(-math.log(1e-7), rel=1e-4)
    assert torch.isfinite(sure.grad).all()


def test_ramp_up_by_hand():
    assert ramp_up(0.0, 0.75) == pytest.approx(math.exp(-5))
    assert ramp_up(0.375, 0.75) == pytest.approx(math.exp(-1.25))
    assert ramp_up(0.75, 0.75) == ramp_up(0.9, 0.75) == ramp_up(0.0, 0.0) == 1.0


@pytest.mark.parametrize(("match", "least"), [("exact", 2), ("overlap", 1)])
def test_losses_against_slow_code(match, least):
    random = np.random.RandomState(0)
    y = np.array([0, -1, 1, -1, -1])
    features, logits = random.randn(10, 6).astype(np.float32), random.randn(10, 4).astype(np.float32)
    config = RankStatsConfig(k=2, rank_match=match, least=least, consistency=7.0, rampup=0.8)
    terms = RankStats(y, config, n_old=2).losses(
        torch.from_numpy(features),
        {"logits": torch.from_numpy(logits)},
        Batch(torch.arange(5), torch.from_numpy(y), 0.4),
    )
    p = np.exp(logits.astype(float))
    p /= p.sum(axis=1, keepdims=True)
    ce = 0.0
    for i in (0, 2):  # the first view, the two known classes alone
        ce -= math.log(math.exp(logits[i, y[i]]) / (math.exp(logits[i, 0]) + math.exp(logits[i, 1]))) / 2
    free = [1, 3, 4]
    positive = slow_pairs(features[free], 2, least)
    bce = 0.0
    for a, i in enumerate(free):
        for b, j in enumerate(free):
            s = float(p[i] @ p[5 + j])
            bce -= math.log((s if positive[a][b] else 1 - s) + 1e-7) / 9
    mse = np.mean([(p[i, c] - p[5 + i, c]) ** 2 for i in range(5) for c in range(4)])
    assert float(terms["supervised"]) == pytest.approx(ce, rel=1e-5)
    assert float(terms["pairs"]) == pytest.approx(bce, rel=1e-5)
    assert float(terms["consistency"]) == pytest.approx(7 * math.exp(-5 * 0.25) * mse, rel=1e-5)


def test_a_batch_may_hold_no_unlabelled_or_no_labelled_items():
    for y in (np.array([0, 1]), np.array([-1, -1])):
        logits = torch.randn(4, 3, requires_grad=True)
        terms = RankStats(y, RankStatsConfig(), 2).losses(
            torch.randn(4, 6), {"logits": logits}, Batch(torch.arange(2), torch.from_numpy(y), 0.5)
        )
        torch.stack(list(terms.values())).sum().backward()
        assert torch.isfinite(logits.grad).all()


def test_impossible_settings_are_a_sentence():
    for change in ({"k": 0}, {"least": 6}, {"consistency": -1.0}, {"rampup": 2.0}):
        with pytest.raises(InputError):
            RankStatsConfig(**change)
