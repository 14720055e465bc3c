"""GCD (Vaze et al. 2022; docs/methods.md §4): contrastive learning of features, then semi-supervised k-means on them.

L = (1 − λ) InfoNCE on all rows + λ SupCon on the labelled ones. There is no classifier in training: the classes are
found at the end, among the features of D^l ∪ D^u, and what is left is a head that gives the nearest centre.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from ltgcd.common.settings import check_fields
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.feature_graph import FeatureGraph
from ltgcd.graph.semi_kmeans import semi_kmeans
from ltgcd.graph.whitening import normalise
from ltgcd.training import losses
from ltgcd.training.config import Experiment, Preset, Regime, cpu_schedule
from ltgcd.training.heads import PROJECTION, CentreHead, CosinePrototypes, projector
from ltgcd.training.loop import Batch, Plan, Snapshot
from ltgcd.training.method import Method
from ltgcd.training.problem import Problem

GRAM_FROM = 4 * PROJECTION  # width from which on WᵀW is surely regular


@dataclass(frozen=True)
class GCDConfig:
    """Losses and clustering.

    Attributes
    ----------
    supervised_weight : float
        λ, share of SupCon.
    width : int
        Outputs of the last layer, which the losses are on; 65,536 in the authors' code.
    n_init : int
        Restarts of semi-supervised k-means; 100 in the authors' script.
    """

    supervised_weight: float = 0.35
    width: int = 65_536
    n_init: int = 100

    def __post_init__(self) -> None:
        check_fields(self, "GCD", supervised_weight=(0, 1), width=(1, np.inf), n_init=(1, np.inf))


def same_cosines(weight: torch.Tensor) -> torch.Tensor:
    """A matrix R (d, r) such that z R has the inner products of z Wᵀ, with r = d where W is much longer than wide.

    The losses see the last layer's outputs o = z Wᵀ only through o_i·o_j = z_i (WᵀW) z_jᵀ. With the Cholesky factor R
    of WᵀW, d numbers a row do the work of 65,536.

    Parameters
    ----------
    weight : torch.Tensor, shape (width, d)
        W, rows of unit length.
    """
    if len(weight) < GRAM_FROM:
        return weight.T
    with torch.autocast(weight.device.type, enabled=False):  # half precision would not be enough
        root: torch.Tensor = torch.linalg.cholesky(weight.T @ weight)
    return root


class ContrastiveHead(nn.Module):
    """DINO's head: the projector, unit length, a weight-normalised layer with many outputs, unit length again."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.projector = projector(dim)
        self.last = CosinePrototypes(PROJECTION, width)

    def forward(self, features: torch.Tensor) -> dict[str, torch.Tensor]:
        """In training "z" (B, r), unit rows with the cosines that the outputs (B, width) have; otherwise nothing."""
        if not self.training:
            return {}
        z = F.normalize(self.projector(features), dim=1)
        return {"z": F.normalize(z @ same_cosines(F.normalize(self.last.weight, dim=1)), dim=1)}


def cluster(
    features: NDArray[np.float32], y: NDArray[np.int64], n_old: int, k: int, config: GCDConfig, random_state: int
) -> CentreHead:
    """Semi-supervised k-means on the features (N, D) of D^l ∪ D^u, scaled to unit length, as a head.

    Its logits put an unlabelled item where the next E-step would.
    """
    clusters = semi_kmeans(normalise(features), y, n_old, k, n_init=config.n_init, random_state=random_state)
    return CentreHead(torch.from_numpy(clusters.centres))


class GCD:
    """GCD's representation learning for `ltgcd.training.loop`; `cluster` is its end."""

    def __init__(self, y: NDArray[np.int64], config: GCDConfig) -> None:
        self.config = config
        self.unlabelled = np.flatnonzero(y == UNLABELLED)

    def plan(self, _done: float, _snapshot: Callable[[], Snapshot]) -> Plan:
        """All of D^u, in every epoch."""
        return Plan(self.unlabelled, {})

    def losses(
        self, _features: torch.Tensor, outputs: dict[str, torch.Tensor], batch: Batch
    ) -> dict[str, torch.Tensor]:
        """InfoNCE at T = 1 on all 2B rows and SupCon at T = 0.07 on the labelled ones."""
        y, z, supervised = batch.y.repeat(2), outputs["z"], self.config.supervised_weight
        labelled = y != UNLABELLED
        return {
            "self_con": (1 - supervised) * losses.info_nce(z),
            "sup_con": supervised * losses.sup_con(z[labelled], y[labelled]),
        }


# ---------------------------------------------------------------- the method


def presets(regime: Regime, _name: Preset) -> Experiment:
    """The authors' losses, in all presets, but for the width on frozen features.

    Only a small adapter learns from the losses there, and at 16 times the length of what goes in the layer still keeps
    cosines nearly as they are.
    """
    return Experiment("gcd", cpu_schedule(regime), GCDConfig(width=4096 if regime == "frozen" else 65_536))


def build(problem: Problem, config: GCDConfig, start: FeatureGraph) -> tuple[ContrastiveHead, GCD]:
    """DINO's head and the contrastive losses."""
    return ContrastiveHead(start.features.shape[1], config.width), GCD(problem.y, config)


def centres(_head: nn.Module, snapshot: Snapshot, problem: Problem, config: GCDConfig) -> CentreHead:
    """The centres of the trained features."""
    return cluster(snapshot.features, problem.y, problem.n_old, problem.k, config, problem.random_state)


METHOD = Method(
    "gcd",
    "GCD: contrastive learning, then semi-supervised k-means",
    config=GCDConfig,
    presets=presets,
    build=build,
    final_classifier=centres,
    can_choose_epoch=False,
)
