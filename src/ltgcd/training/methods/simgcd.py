"""SimGCD (Wen et al. 2023; docs/methods.md §3): cosine prototypes, self-distillation and a mean-entropy term.

Faithful to the authors' code: random prototypes, the whole of D^u in every epoch, no re-selection.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ltgcd.common.settings import check_fields
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.feature_graph import FeatureGraph
from ltgcd.training import losses
from ltgcd.training.config import Experiment, Preset, Regime, cpu_schedule
from ltgcd.training.heads import Head
from ltgcd.training.loop import Batch, Plan, Snapshot
from ltgcd.training.method import Method
from ltgcd.training.problem import Problem


@dataclass(frozen=True)
class SimGCDConfig:
    """Weights of the losses.

    Attributes
    ----------
    supervised_weight : float
        λ_cls = λ_rep: share of the supervised terms.
    entropy_weight : float
        ε of the mean-entropy term ("memax"): 1, or 4 for CIFAR-100, in the authors' scripts.
    teacher_warmup : float
        Share of the training in which τ_t falls from 0.07 to 0.04; 30 of 200 epochs in the authors' code.
    contrastive : bool
        Whether InfoNCE and SupCon are on; they shape a trained backbone, on frozen features they add nothing.
    """

    supervised_weight: float = 0.35
    entropy_weight: float = 1.0
    teacher_warmup: float = 0.15
    contrastive: bool = True

    def __post_init__(self) -> None:
        check_fields(self, "SimGCD", supervised_weight=(0, 1), entropy_weight=(0, math.inf), teacher_warmup=(0, 1))


def base_losses(
    outputs: dict[str, torch.Tensor], batch: Batch, p_mean: torch.Tensor, config: SimGCDConfig
) -> dict[str, torch.Tensor]:
    """L_base = L_rep + L_cls by terms, weighted.

    Parameters
    ----------
    outputs : dict of torch.Tensor
        "logits" (2B, K) and, with the contrastive losses, "z" (2B, 256).
    batch : Batch
        The B items.
    p_mean : torch.Tensor, shape (K,)
        p̄ of the batch.
    config : SimGCDConfig
        Weights.
    """
    y = batch.y.repeat(2)
    labelled = y != UNLABELLED
    logits, supervised = outputs["logits"], config.supervised_weight
    tau = losses.teacher_temperature(batch.progress, config.teacher_warmup)
    terms = {
        "supervised": supervised * losses.cross_entropy(logits[labelled], y[labelled]),
        "distillation": (1 - supervised) * losses.self_distillation(logits, tau),
        "entropy": (1 - supervised) * config.entropy_weight * losses.mean_entropy(p_mean),
    }
    if config.contrastive:
        z = outputs["z"]
        terms["self_con"] = (1 - supervised) * losses.info_nce(z)
        terms["sup_con"] = supervised * losses.sup_con(z[labelled], y[labelled])
    return terms


class SimGCD:
    """SimGCD's losses for `ltgcd.training.loop`."""

    def __init__(self, y: NDArray[np.int64], config: SimGCDConfig) -> None:
        self.config = config
        self.unlabelled = np.flatnonzero(y == UNLABELLED)

    def plan(self, _done: float, _snapshot: Callable[[], Snapshot]) -> Plan:
        """All of D^u, in every epoch."""
        return Plan(self.unlabelled, {})

    def losses(
        self, _features: torch.Tensor, outputs: dict[str, torch.Tensor], batch: Batch
    ) -> dict[str, torch.Tensor]:
        """L_base."""
        return base_losses(outputs, batch, losses.mean_prediction(outputs["logits"]), self.config)


# ---------------------------------------------------------------- the method


def base_config(regime: Regime) -> SimGCDConfig:
    """SimGCD's losses as our presets have them: ε and the teacher's warm-up that go with a CPU's schedule."""
    return SimGCDConfig(entropy_weight=2.0, teacher_warmup=0.3, contrastive=regime != "frozen")


def presets(regime: Regime, _name: Preset) -> Experiment:
    """The authors' losses and random prototypes, in all presets."""
    return Experiment("simgcd", cpu_schedule(regime), base_config(regime))


def build(problem: Problem, config: SimGCDConfig, start: FeatureGraph) -> tuple[Head, SimGCD]:
    """Prototypes, with a projector for the contrastive losses, and L_base."""
    return Head(start.features.shape[1], problem.k, contrastive=config.contrastive), SimGCD(problem.y, config)


METHOD = Method(
    "simgcd",
    "SimGCD: cosine prototypes, self-distillation, mean entropy",
    config=SimGCDConfig,
    presets=presets,
    build=build,
    has_prototypes=True,
)
