"""The losses of SimGCD and of the long-tailed method (docs/methods.md §3, §6), as pure functions of torch tensors.

B items in two views make 2B rows: view a of every item first, then view b, in the same order. All logarithms are
natural, all losses are means over rows, scalars.
"""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F

TAU_STUDENT = 0.1  # τ_s, also of the supervised cross-entropy
TAU_TEACHER = (0.07, 0.04)  # τ_t at the start and from the end of its warm-up on
T_SELF = 1.0  # temperature of InfoNCE in SimGCD's and GCD's code
T_SUPERVISED = 0.07  # temperature of SupCon


def teacher_temperature(progress: float, warmup: float) -> float:
    """τ_t, linear from 0.07 to 0.04 while `progress` (share of the training done) is below `warmup`, then constant."""
    first, last = TAU_TEACHER
    return last if progress >= warmup else first + (last - first) * progress / warmup


def info_nce(z: torch.Tensor, temperature: float = T_SELF) -> torch.Tensor:
    """SelfCon, the unsupervised part of L_rep (Eq. 1): the other view of an item against all other rows.

    −log exp(z_i·z_i'/T) / Σ_{n≠i} exp(z_i·z_n/T), mean over the 2B rows.

    Parameters
    ----------
    z : torch.Tensor, shape (2B, D)
        Projections of unit length, both views.
    temperature : float
        T.
    """
    n = len(z)
    similarity = (z @ z.T / temperature).masked_fill(torch.eye(n, dtype=torch.bool, device=z.device), -torch.inf)
    other_view = torch.arange(n, device=z.device).roll(n // 2)
    return F.cross_entropy(similarity, other_view)


def sup_con(z: torch.Tensor, y: torch.Tensor, temperature: float = T_SUPERVISED) -> torch.Tensor:
    """SupCon, the supervised part of L_rep (Eq. 1): all rows of the same class against all other rows.

    −1/|P(i)| Σ_{q∈P(i)} log exp(z_i·z_q/T) / Σ_{n≠i} exp(z_i·z_n/T), mean over the rows; P(i) are the other rows of
    i's class, its own other view among them. 0 without rows.

    Parameters
    ----------
    z : torch.Tensor, shape (2M, D)
        Projections of unit length of the labelled rows, both views.
    y : torch.Tensor of int64, shape (2M,)
        Their classes.
    temperature : float
        T.
    """
    if len(z) == 0:
        return z.sum()
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    log_p = F.log_softmax((z @ z.T / temperature).masked_fill(itself, -torch.inf), dim=1)
    positive = (y[:, None] == y[None, :]) & ~itself
    summed = log_p.masked_fill(~positive, 0.0).sum(dim=1)
    return -(summed / positive.sum(dim=1).clamp(min=1)).mean()


def cross_entropy(logits: torch.Tensor, y: torch.Tensor, temperature: float = TAU_STUDENT) -> torch.Tensor:
    """Supervised part of L_cls (Eq. 4) on labelled rows (M, K); 0 without rows."""
    return F.cross_entropy(logits / temperature, y) if len(y) else logits.sum() * 0.0


def self_distillation(logits: torch.Tensor, tau_teacher: float, temperature: float = TAU_STUDENT) -> torch.Tensor:
    """Eq. 4: each view learns the sharpened prediction of the other, −Σ_k q_k log p_k, both directions.

    q = softmax(logits of the other view / τ_t) without a gradient, p = softmax(logits / τ_s).

    Parameters
    ----------
    logits : torch.Tensor, shape (2B, K)
        Cosines to the prototypes, both views.
    tau_teacher, temperature : float
        τ_t and τ_s.
    """
    target = F.softmax(logits.detach() / tau_teacher, dim=1).roll(len(logits) // 2, dims=0)
    return soft_cross_entropy(target, logits, temperature)


def soft_cross_entropy(target: torch.Tensor, logits: torch.Tensor, temperature: float = TAU_STUDENT) -> torch.Tensor:
    """−Σ_k q_k log p_k of targets q (R, K) and p = softmax(logits / τ_s), mean over the rows."""
    return -(target * F.log_softmax(logits / temperature, dim=1)).sum(dim=1).mean()


def mean_prediction(logits: torch.Tensor, temperature: float = TAU_STUDENT) -> torch.Tensor:
    """p̄ (Eq. 5), shape (K,): mean over rows of the student's predictions; uniform over no rows."""
    if not len(logits):
        return logits.new_full((logits.shape[1],), 1 / logits.shape[1])
    return F.softmax(logits / temperature, dim=1).mean(dim=0)


def mean_entropy(p_mean: torch.Tensor) -> torch.Tensor:
    """SimGCD's term against empty classes, log K − H(p̄): 0 where p̄ (K,) is uniform."""
    return math.log(len(p_mean)) - prior_alignment(p_mean, p_mean)  # H(p̄) = CE(p̄, p̄)


def prior_alignment(p_prior: torch.Tensor, p_mean: torch.Tensor) -> torch.Tensor:
    """Eq. 10: L_prior = CE(p_prior, p̄) = −Σ_k p_prior_k log p̄_k, both of shape (K,)."""
    # The gradient of 0 · log 0 would not be a number.
    return -(p_prior * p_mean.clamp(min=torch.finfo(p_mean.dtype).tiny).log()).sum()
