"""The neighbour loss: each item learns the sharpened prediction of a nearest neighbour of the untrained features."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ltgcd.graph.feature_graph import FeatureGraph
from ltgcd.training import losses
from ltgcd.training.loop import Batch, Snapshot
from ltgcd.training.methods.ltgcd import LTGCD, LTGCDConfig
from ltgcd.training.methods.simgcd import SimGCDConfig

FEATURES = np.array([[1.0, 0.0], [0.99, 0.1], [0.0, 1.0], [0.1, 0.99]])  # the neighbours are 0–1 and 2–3
START = FeatureGraph(FEATURES)
LOGITS = np.array([[0.9, 0.1, 0.0], [0.8, 0.3, 0.1], [0.1, 0.9, 0.2], [0.0, 0.2, 0.7]], dtype=np.float32)


def make(**changes: float) -> LTGCD:
    base = SimGCDConfig(contrastive=False)
    return LTGCD(np.array([0, -1, 1, -1]), LTGCDConfig(base, neighbours=1, warmup=1.0, **changes), START)


def terms(method: LTGCD, done: float = 0.0) -> dict[str, torch.Tensor]:
    method.plan(done, lambda: Snapshot(FEATURES.astype(np.float32), {"logits": LOGITS}))
    both = {"logits": torch.from_numpy(np.concatenate([LOGITS, LOGITS[::-1].copy()]))}
    return method.losses(torch.zeros(8, 2), both, Batch(torch.arange(4), torch.tensor([0, -1, 1, -1]), done))


def test_both_views_learn_what_the_teacher_says_of_the_neighbour() -> None:
    tau = losses.teacher_temperature(0.0, SimGCDConfig().teacher_warmup)
    sharp = np.exp(LOGITS / tau) / np.exp(LOGITS / tau).sum(axis=1, keepdims=True)
    said = np.concatenate([LOGITS, LOGITS[::-1]]) / losses.TAU_STUDENT
    log_p = said - np.log(np.exp(said).sum(axis=1, keepdims=True))
    expected = -np.mean([sharp[near] @ log_p[row] for row, near in enumerate([1, 0, 3, 2, 1, 0, 3, 2])])
    assert float(terms(make(neighbour_weight=0.3))["neighbour"]) == pytest.approx(0.3 * expected, rel=1e-5)


def test_without_weight_nothing_is_looked_up_and_no_pass_over_the_items_is_made() -> None:
    method = make(neighbour_weight=0.0)

    def never() -> Snapshot:
        raise AssertionError("a pass over all items before the warm-up is over")

    assert method.plan(0.0, never).pool.tolist() == [1, 3]
    assert method.near is None


def test_the_draw_of_neighbours_depends_on_seed_and_epoch_alone() -> None:
    many = {"neighbours": 3, "neighbour_weight": 0.3}
    config = LTGCDConfig(SimGCDConfig(contrastive=False), warmup=1.0, **many)  # type: ignore[arg-type]
    drawn = [
        float(terms(LTGCD(np.array([0, -1, 1, -1]), config, START, random_state=seed), done)["neighbour"])
        for seed, done in ((0, 0.0), (0, 0.0), (0, 0.1), (1, 0.0), (2, 0.0), (3, 0.0))
    ]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1
