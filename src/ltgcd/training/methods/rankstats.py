"""RankStats+ (AutoNovel, Han et al. 2020, with one head over all classes; docs/methods.md §5.1).

Two unlabelled items are taken for the same class if the same k features are their largest. "+" is the change that
generalised category discovery asks for: unlabelled items may be of known classes, so a single linear head has all K
outputs. The authors' three stages are one here, since the backbone is pretrained.

L = CE on D^l, over the known classes + BCE on pairs of D^u + w · MSE between the views; of the first view where the
authors' code takes one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from ltgcd.common.errors import InputError
from ltgcd.common.settings import check_fields
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.feature_graph import FeatureGraph
from ltgcd.training import losses
from ltgcd.training.config import Experiment, Preset, Regime, cpu_schedule
from ltgcd.training.heads import LinearHead
from ltgcd.training.loop import Batch, Plan, Snapshot
from ltgcd.training.method import Method
from ltgcd.training.problem import Problem

EPSILON = 1e-7  # inside the logarithms of the pairs


@dataclass(frozen=True)
class RankStatsConfig:
    """Pairs and the consistency term.

    Attributes
    ----------
    k : int
        Largest features that are compared.
    rank_match : {"exact", "overlap"}
        Whether all of them must be the same, as in the paper, or `least` of them. In features of many dimensions few
        pairs agree in all, so that nearly every pair is negative.
    least : int
        Features in common that make a pair positive ("overlap" only).
    consistency : float
        ρ, largest weight of the MSE: 50 for CIFAR-100, 5 for CIFAR-10, 10 for ImageNet in the authors' scripts.
    rampup : float
        Share of the training in which the weight rises; 150 of 200 epochs for CIFAR-100.
    """

    k: int = 5
    rank_match: Literal["exact", "overlap"] = "exact"
    least: int = 3
    consistency: float = 50.0
    rampup: float = 0.75

    def __post_init__(self) -> None:
        check_fields(self, "RankStats+", k=(1, math.inf), consistency=(0, math.inf), rampup=(0, 1))
        if not 1 <= self.least <= self.k:
            raise InputError(f"'least' of RankStats+ lies between 1 and k = {self.k}, but is {self.least}.")


def ranking_pairs(features: torch.Tensor, k: int, least: int) -> torch.Tensor:
    """Which pairs of rows share at least `least` of their k largest features; bool, (M, M), the diagonal included.

    The order among the k does not matter. Rows have shape (M, D); where D < k all D are the largest.
    """
    k = min(k, features.shape[1])
    largest = features.topk(k, dim=1).indices
    member = torch.zeros_like(features).scatter_(1, largest, 1.0)
    return member @ member.T > min(least, k) - 0.5


def pairwise_bce(p_a: torch.Tensor, p_b: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
    """BCE of s_ij = ⟨p_i, p_j'⟩: −log(s_ij + 1e-7) of positive pairs, −log(1 − s_ij + 1e-7) of others, mean; 0 of none.

    Parameters
    ----------
    p_a, p_b : torch.Tensor, shape (M, K)
        Probabilities of the same items in the first and in the second view.
    positive : torch.Tensor of bool, shape (M, M)
        For all ordered pairs.
    """
    if not len(p_a):
        return p_a.sum()
    s = p_a @ p_b.T
    # A sum of products of probabilities may exceed 1 by rounding.
    return -torch.log(torch.where(positive, s, (1 - s).clamp(min=0)) + EPSILON).mean()


def ramp_up(progress: float, length: float) -> float:
    """exp(−5 (1 − min(t, R)/R)²) at a share t of the training, with R = `length`: from 0.0067 to 1."""
    return math.exp(-5 * (1 - min(progress, length) / length) ** 2) if length else 1.0


class RankStats:
    """The losses of RankStats+ for `ltgcd.training.loop`."""

    def __init__(self, y: NDArray[np.int64], config: RankStatsConfig, n_old: int) -> None:
        self.config, self.n_old = config, n_old
        self.unlabelled = np.flatnonzero(y == UNLABELLED)

    def plan(self, _done: float, _snapshot: Callable[[], Snapshot]) -> Plan:
        """All of D^u, in every epoch."""
        return Plan(self.unlabelled, {})

    def losses(self, features: torch.Tensor, outputs: dict[str, torch.Tensor], batch: Batch) -> dict[str, torch.Tensor]:
        """Cross-entropy of the first view, pairs across the views, consistency of the views."""
        config, y = self.config, batch.y
        labelled = y != UNLABELLED
        first = outputs["logits"][: len(y)]
        p_a, p_b = F.softmax(outputs["logits"], dim=1).chunk(2)
        rows = features[: len(y)][~labelled].detach()
        positive = ranking_pairs(rows, config.k, config.k if config.rank_match == "exact" else config.least)
        weight = config.consistency * ramp_up(batch.progress, config.rampup)
        return {
            "supervised": losses.cross_entropy(first[labelled, : self.n_old], y[labelled], temperature=1.0),
            "pairs": pairwise_bce(p_a[~labelled], p_b[~labelled], positive),
            "consistency": weight * F.mse_loss(p_a, p_b),
        }


# ---------------------------------------------------------------- the method


def presets(regime: Regime, _name: Preset) -> Experiment:
    """The authors' losses, in all presets; their rate of 0.1 is 0.02 by held-out items (``benchmarks/tuning.py``)."""
    return Experiment("rankstats", cpu_schedule(regime, learning_rate=0.02, weight_decay=1e-4), RankStatsConfig())


def build(problem: Problem, config: RankStatsConfig, start: FeatureGraph) -> tuple[LinearHead, RankStats]:
    """One linear head over all classes, and the three losses."""
    return LinearHead(start.features.shape[1], problem.k), RankStats(problem.y, config, problem.n_old)


METHOD = Method(
    "rankstats",
    "RankStats+: pairs of items with the same largest features",
    config=RankStatsConfig,
    presets=presets,
    build=build,
)
