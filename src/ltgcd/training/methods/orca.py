"""ORCA (Cao et al. 2022; docs/methods.md §5.3): a margin that slows known classes down, and pairs of neighbours.

Known classes are learnt faster than novel ones. While the model is unsure about D^u, the logit of the right class of a
labelled item is helped, so that less is asked of it. Every item learns to agree with a partner: a labelled one of its
class, or the nearest neighbour in the batch. The prototypes are SimGCD's, and 10 times a cosine is a logit.

L = CE with the margin + BCE on the pairs − H(p̄); of the first view where the authors' code takes one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from ltgcd.common.settings import check_fields
from ltgcd.common.tables import Table, most_likely, probabilities
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.feature_graph import FeatureGraph
from ltgcd.training import losses
from ltgcd.training.config import Experiment, Preset, Regime, cpu_schedule
from ltgcd.training.heads import Head
from ltgcd.training.loop import Batch, Plan, Snapshot
from ltgcd.training.losses import TAU_STUDENT
from ltgcd.training.method import Method
from ltgcd.training.problem import Problem


@dataclass(frozen=True)
class ORCAConfig:
    """Strength of the three terms.

    Attributes
    ----------
    largest_margin : float
        What the margin is bounded by.
    entropy_weight, pair_weight : float
        η_2 and η_1 of the paper, 1 each.
    """

    largest_margin: float = 0.5
    entropy_weight: float = 1.0
    pair_weight: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self, "ORCA", largest_margin=(0, np.inf), entropy_weight=(0, np.inf), pair_weight=(0, np.inf))


def uncertainty(logits: Table, rows: NDArray[np.int64] | None = None) -> float:
    """1 − mean of the largest probability of items with cosines (N, K), or of some: u of the margin; 0 of none."""
    if not (logits.shape[0] if rows is None else len(rows)):
        return 0.0
    return 1 - float(most_likely(probabilities(logits, TAU_STUDENT), rows)[1].mean())


def margin_cross_entropy(logits: torch.Tensor, y: torch.Tensor, margin: float) -> torch.Tensor:
    """Cross-entropy of s (cos + m at the right class), s = 10, of cosines (M, K) and classes (M,); 0 of none."""
    return losses.cross_entropy(logits + margin * F.one_hot(y, logits.shape[1]), y)


def partners(features: torch.Tensor, y: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Partner of each item, (B,): the nearest other row; for a labelled item a random other row of its class.

    A labelled item that is alone with its class is its own partner (in the other view).

    Parameters
    ----------
    features : torch.Tensor, shape (B, D)
        Of one view; compared by their cosines.
    y : torch.Tensor of int64, shape (B,)
        Labels, -1 for unlabelled.
    generator : torch.Generator
        On the CPU.
    """
    itself = torch.eye(len(y), dtype=torch.bool, device=y.device)
    unit = F.normalize(features, dim=1)
    nearest = (unit @ unit.T).masked_fill(itself, -torch.inf).argmax(dim=1)
    same = (y[:, None] == y[None, :]) & ~itself
    draw = torch.rand(same.shape, generator=generator).to(y.device)
    drawn = draw.masked_fill(~same, -1.0).argmax(dim=1)
    drawn = torch.where(same.any(dim=1), drawn, torch.arange(len(y), device=y.device))
    return torch.where(y == UNLABELLED, nearest, drawn)


def agreement(p_a: torch.Tensor, p_b: torch.Tensor) -> torch.Tensor:
    """BCE with target 1 of the inner products of partners' probabilities (B, K): −log ⟨p_i, p_π(i)⟩, mean."""
    s = (p_a * p_b).sum(dim=1).clamp(max=1.0)
    return F.binary_cross_entropy(s, torch.ones_like(s))


class ORCA:
    """ORCA's losses for `ltgcd.training.loop`.

    Parameters
    ----------
    y : ndarray of int64, shape (N,)
        Labels, -1 for unlabelled.
    config : ORCAConfig
        Strengths.
    random_state : int
        Seed of the draw of partners.
    """

    def __init__(self, y: NDArray[np.int64], config: ORCAConfig, random_state: int = 0) -> None:
        self.config, self.random_state = config, random_state
        self.unlabelled = np.flatnonzero(y == UNLABELLED)
        self.margin = 0.0
        self.random = torch.Generator()

    def plan(self, done: float, snapshot: Callable[[], Snapshot]) -> Plan:
        """The margin is the uncertainty about D^u as the epoch begins; all of D^u is drawn from."""
        unsure = uncertainty(snapshot().outputs["logits"], self.unlabelled)
        self.margin = min(unsure, self.config.largest_margin)
        self.random = torch.Generator().manual_seed(self.random_state * 100_003 + round(1e4 * done))
        return Plan(self.unlabelled, {"uncertainty": round(unsure, 4)})

    def losses(self, features: torch.Tensor, outputs: dict[str, torch.Tensor], batch: Batch) -> dict[str, torch.Tensor]:
        """Margin, pairs across the views, and the entropy of the mean prediction."""
        config, y = self.config, batch.y
        labelled = y != UNLABELLED
        first = outputs["logits"][: len(y)]
        p_a, p_b = F.softmax(outputs["logits"] / TAU_STUDENT, dim=1).chunk(2)
        chosen = partners(features[: len(y)].detach(), y, self.random)
        return {
            "supervised": margin_cross_entropy(first[labelled], y[labelled], self.margin),
            "pairs": config.pair_weight * agreement(p_a, p_b[chosen]),
            "entropy": config.entropy_weight * losses.mean_entropy(p_a.mean(dim=0)),
        }


# ---------------------------------------------------------------- the method


def presets(regime: Regime, _name: Preset) -> Experiment:
    """The authors' losses, in all presets; their rate of 0.1 is another by held-out items (``benchmarks/tuning.py``).

    The last stage of a backbone ends with one class for all items at 0.1 and above.
    """
    rate = 0.3 if regime == "frozen" else 0.02
    return Experiment("orca", cpu_schedule(regime, learning_rate=rate, weight_decay=5e-4), ORCAConfig())


def build(problem: Problem, config: ORCAConfig, start: FeatureGraph) -> tuple[Head, ORCA]:
    """SimGCD's prototypes, and the three losses."""
    return Head(start.features.shape[1], problem.k, contrastive=False), ORCA(problem.y, config, problem.random_state)


METHOD = Method(
    "orca",
    "ORCA: a margin that slows known classes down, and pairs of neighbours",
    config=ORCAConfig,
    presets=presets,
    build=build,
    has_prototypes=True,
)
