"""UNO+ (Fini et al. 2021, with one objective over all classes; docs/methods.md §5.2).

Labels and pseudo labels are targets of the same cross-entropy over known and novel classes: one-hot for a labelled
item, for an unlabelled one what Sinkhorn-Knopp makes of the batch, the classes sharing it equally. "+" is the change
that generalised category discovery asks for: unlabelled items may be of known classes, so Sinkhorn runs on the logits
of all K classes and not of the novel ones alone. Equal shares are wrong under a long tail; `sinkhorn_prior` says so.

Each view is predicted from the other view's target. Several heads for the novel classes are trained side by side, and
as many that over-cluster them; the one with the least loss in the last epoch labels the items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from ltgcd.common.errors import InputError
from ltgcd.common.settings import check_fields
from ltgcd.common.tables import probabilities
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.feature_graph import FeatureGraph
from ltgcd.training.config import Experiment, Preset, Regime, cpu_schedule
from ltgcd.training.heads import HIDDEN, CosinePrototypes, JointHead, NovelHead
from ltgcd.training.loop import Batch, Plan, Snapshot
from ltgcd.training.losses import TAU_STUDENT
from ltgcd.training.method import Method
from ltgcd.training.problem import Problem
from ltgcd.training.smoothing import class_prior

SMOOTHING = 0.1  # share of the estimated prior that is uniform, so that no class is given up


@dataclass(frozen=True)
class UNOConfig:
    """Heads and pseudo labels.

    Attributes
    ----------
    n_heads : int
        Heads for the novel classes, and as many that over-cluster.
    overclustering : int
        Clusters of these for each novel class.
    hidden : int
        Width of their MLPs; 2048 in the authors' code.
    epsilon : float
        ε of Sinkhorn: logits are divided by it.
    rounds : int
        Iterations of Sinkhorn.
    sinkhorn_prior : {"uniform", "estimated"}
        Shares of the classes in D^u: equal, as in the paper, or the mean prediction as the epoch begins.
    """

    n_heads: int = 4
    overclustering: int = 3
    hidden: int = HIDDEN
    epsilon: float = 0.05
    rounds: int = 3
    sinkhorn_prior: Literal["uniform", "estimated"] = "uniform"

    def __post_init__(self) -> None:
        many = (1, np.inf)
        check_fields(self, "UNO+", n_heads=many, overclustering=many, hidden=many, rounds=many, epsilon=(0, np.inf))
        if not self.epsilon:
            raise InputError("'epsilon' of UNO+ is more than 0: logits are divided by it.")


# ---------------------------------------------------------------- targets and loss


def sinkhorn(logits: torch.Tensor, prior: torch.Tensor, epsilon: float, rounds: int) -> torch.Tensor:
    """Soft pseudo labels, rows that sum to 1: exp(logits / ε), scaled to the classes' shares and to rows in turn.

    Parameters
    ----------
    logits : torch.Tensor, shape (…, B, C)
        Cosines of B items to the prototypes of C classes.
    prior : torch.Tensor, shape (C,)
        Shares of the classes, positive.
    epsilon, rounds : float, int
        The smaller ε, the harder the labels; the more rounds, the closer the shares.
    """
    log_q = logits.detach() / epsilon
    for _ in range(rounds):
        log_q = log_q - torch.logsumexp(log_q, dim=-2, keepdim=True) + prior.log()
        log_q = log_q - torch.logsumexp(log_q, dim=-1, keepdim=True)
    return log_q.exp()


def joint_targets(
    logits: torch.Tensor, y: torch.Tensor, prior: torch.Tensor, epsilon: float, rounds: int
) -> torch.Tensor:
    """Targets (2, H, B, C) for logits of that shape: one-hot of the labels, Sinkhorn for each view and head.

    Parameters
    ----------
    logits : torch.Tensor, shape (2, H, B, C)
        Of two views and H heads.
    y : torch.Tensor of int64, shape (B,)
        Labels, -1 for unlabelled.
    prior, epsilon, rounds
        See `sinkhorn`.
    """
    labelled = y != UNLABELLED
    targets = torch.zeros_like(logits)
    targets[:, :, labelled] = F.one_hot(y[labelled], logits.shape[-1]).to(logits.dtype)
    targets[:, :, ~labelled] = sinkhorn(logits[:, :, ~labelled], prior, epsilon, rounds)
    return targets


def swapped_prediction(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy (H,) of each view at τ = 0.1 with the other view's target, mean over views and rows."""
    log_p = F.log_softmax(logits / TAU_STUDENT, dim=-1)
    return -(targets.flip(0) * log_p).sum(dim=-1).mean(dim=(0, 2))


def split_prior(prior: torch.Tensor, n_old: int, factor: int) -> torch.Tensor:
    """Shares (n_old + factor · n_new,) where each novel class is `factor` clusters; their sum is spread evenly."""
    known, novel = prior[:n_old], prior[n_old:]
    return torch.cat([known, (novel.sum() / max(factor * len(novel), 1)).repeat(factor * len(novel))])


# ---------------------------------------------------------------- heads and losses


class UNOHead(nn.Module):
    """Prototypes of the known classes and, side by side, several heads for the novel ones.

    Attributes
    ----------
    epoch_loss : torch.Tensor, shape (n_heads,)
        Clustering loss of each head, summed over the last epoch; kept with the weights, so that a run that goes on
        knows its best head.
    """

    epoch_loss: torch.Tensor

    def __init__(self, dim: int, n_old: int, k: int, config: UNOConfig) -> None:
        super().__init__()
        self.known = CosinePrototypes(dim, n_old)
        n_new = k - n_old
        self.novel = nn.ModuleList(NovelHead(dim, n_new, config.hidden) for _ in range(config.n_heads))
        self.over = nn.ModuleList(
            NovelHead(dim, config.overclustering * n_new, config.hidden) for _ in range(config.n_heads)
        )
        self.register_buffer("epoch_loss", torch.zeros(config.n_heads))

    def forward(self, features: torch.Tensor) -> dict[str, torch.Tensor]:
        """In training cosines "heads" (B, H, K) and "over" (B, H, C) of all heads, otherwise "logits" of the best."""
        if not self.training:
            logits: dict[str, torch.Tensor] = self.best()(features)
            return logits
        self._to_unit_length()
        known = self.known(features)[:, None].expand(-1, len(self.novel), -1)
        return {
            name: torch.cat([known, torch.stack([head(features) for head in heads], dim=1)], dim=2)
            for name, heads in (("heads", self.novel), ("over", self.over))
        }

    def best(self) -> JointHead:
        """The head with the least loss, with the known classes: what labels items."""
        novel = self.novel[int(self.epoch_loss.argmin())]
        assert isinstance(novel, NovelHead)
        return JointHead(self.known, novel).train(self.training)

    def _to_unit_length(self) -> None:
        """Before every step, as in the authors' code: prototypes that grow would turn ever more slowly."""
        with torch.no_grad():
            for module in self.modules():
                if isinstance(module, CosinePrototypes):
                    module.weight.copy_(F.normalize(module.weight, dim=1))


class UNO:
    """The losses of UNO+ for `ltgcd.training.loop`.

    Parameters
    ----------
    y : ndarray of int64, shape (N,)
        Labels, -1 for unlabelled.
    config : UNOConfig
        Heads and pseudo labels.
    head : UNOHead
        It keeps the losses of its heads.
    n_old, k : int
        Number of known classes and of all classes.
    """

    def __init__(self, y: NDArray[np.int64], config: UNOConfig, head: UNOHead, n_old: int, k: int) -> None:
        self.config, self.head, self.n_old = config, head, n_old
        self.unlabelled = np.flatnonzero(y == UNLABELLED)
        self.prior = torch.full((k,), 1 / k)

    def plan(self, done: float, snapshot: Callable[[], Snapshot]) -> Plan:
        """All of D^u; the losses of the heads start from zero, and the prior is estimated, from the second epoch on."""
        if self.config.sinkhorn_prior == "estimated" and done > 0:
            p = class_prior(probabilities(snapshot().outputs["logits"], TAU_STUDENT), self.unlabelled)
            self.prior = torch.from_numpy((1 - SMOOTHING) * p + SMOOTHING / len(p)).float()
        self.head.epoch_loss.zero_()
        return Plan(self.unlabelled, {})

    def losses(
        self, _features: torch.Tensor, outputs: dict[str, torch.Tensor], batch: Batch
    ) -> dict[str, torch.Tensor]:
        """Swapped prediction of all heads and of all over-clustering ones, half each."""
        config = self.config
        prior = self.prior.to(batch.y.device)
        priors = {"heads": prior, "over": split_prior(prior, self.n_old, config.overclustering)}
        by_head = {}
        for name, shares in priors.items():
            logits = torch.stack(outputs[name].chunk(2)).transpose(1, 2)
            targets = joint_targets(logits, batch.y, shares, config.epsilon, config.rounds)
            by_head[name] = swapped_prediction(logits, targets)
        self.head.epoch_loss += by_head["heads"].detach()
        return {"cluster": by_head["heads"].mean() / 2, "overcluster": by_head["over"].mean() / 2}


# ---------------------------------------------------------------- the method


def presets(regime: Regime, _name: Preset) -> Experiment:
    """The authors' losses, in all presets."""
    return Experiment("uno", cpu_schedule(regime, weight_decay=1.5e-4), UNOConfig())


def build(problem: Problem, config: UNOConfig, start: FeatureGraph) -> tuple[UNOHead, UNO]:
    """All heads side by side, and their losses."""
    head = UNOHead(start.features.shape[1], problem.n_old, problem.k, config)
    return head, UNO(problem.y, config, head, problem.n_old, problem.k)


def best_head(head: nn.Module, _snapshot: Snapshot, _problem: Problem, _config: UNOConfig) -> JointHead:
    """The head with the least loss in the last epoch."""
    assert isinstance(head, UNOHead)
    return head.best()


METHOD = Method(
    "uno",
    "UNO+: one cross-entropy of labels and of pseudo labels by Sinkhorn",
    config=UNOConfig,
    presets=presets,
    build=build,
    final_classifier=best_head,
)
