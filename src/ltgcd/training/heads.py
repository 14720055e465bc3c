"""Heads: projectors for the losses, and classifiers that label items (Eq. 2–3; docs/methods.md §3–5).

A head maps features (B, dim) to named outputs, rows first. One that labels items gives "logits" (B, K), can put its
classes in another order, and can be made anew from the tensors it was saved as: `Head` (cosines to prototypes),
`LinearHead` (RankStats+), `CentreHead` (the end of GCD), `JointHead` (the end of UNO+).
"""

from __future__ import annotations

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import nn
from torch.distributed.nn.functional import all_reduce
from torch.nn import functional as F

from ltgcd.training.losses import TAU_STUDENT

HIDDEN, PROJECTION = 2048, 256
Tensors = dict[str, torch.Tensor]


def projector(dim: int, hidden: int = HIDDEN, out: int = PROJECTION) -> nn.Sequential:
    """MLP dim → hidden → hidden → out with GELU, no normalisation; truncated normal (σ 0.02) weights, zero biases."""
    layers = nn.Sequential(
        nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, out)
    )
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.trunc_normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)
    return layers


class CosinePrototypes(nn.Module):
    """Logits are the cosines of a feature to K prototypes: a weight-normalised linear map with its gain fixed to 1.

    Attributes
    ----------
    weight : torch.nn.Parameter, shape (K, dim)
        Directions of the prototypes. Their lengths play no part in the logits, but the longer one is, the slower it
        turns.
    """

    def __init__(self, dim: int, k: int) -> None:
        super().__init__()
        # As in the authors' code, where the last layer is made after the others were initialised: length about 1/√3.
        self.weight = nn.Parameter(nn.init.uniform_(torch.empty(k, dim), -(dim**-0.5), dim**-0.5))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Map features (B, dim) to cosines (B, K)."""
        return F.normalize(features, dim=1) @ F.normalize(self.weight, dim=1).T

    def start_from(self, prototypes: NDArray[np.floating]) -> None:
        """Begin at given directions (K, dim), of length 1; a row of zeros, an empty cluster's, keeps its random one."""
        given = torch.from_numpy(np.asarray(prototypes, dtype=np.float32)).to(self.weight.device)
        if given.shape != self.weight.shape:
            raise ValueError(f"Prototypes of shape {tuple(given.shape)} for a head of {tuple(self.weight.shape)}.")
        with torch.no_grad():
            known = given.any(dim=1, keepdim=True)
            self.weight.copy_(F.normalize(torch.where(known, given, self.weight), dim=1))


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation with the statistics of the whole batch, also where several processes share it.

    torch's own for several processes runs on GPUs only. Every process must hold the same number of rows.
    """

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Map (b, dim) to (b, dim)."""
        processes = dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
        if not self.training or processes == 1:
            normalised: torch.Tensor = super().forward(rows)
            return normalised
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.momentum is not None
        mean = _mean_of_all(rows.float().mean(dim=0), processes)
        variance = _mean_of_all((rows.float() - mean).square().mean(dim=0), processes)
        n = processes * len(rows)
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * n / max(n - 1, 1), self.momentum)
        return (rows - mean) * (variance + self.eps).rsqrt() * self.weight + self.bias


def _mean_of_all(value: torch.Tensor, processes: int) -> torch.Tensor:
    total: torch.Tensor = all_reduce(value.contiguous())  # type: ignore[no-untyped-call]
    return total / processes


# ---------------------------------------------------------------- heads that label items


class Head(nn.Module):
    """Projector (where the contrastive losses are on) and prototypes, side by side on the same features."""

    temperature = TAU_STUDENT

    def __init__(self, dim: int, k: int, *, contrastive: bool) -> None:
        super().__init__()
        self.dim = dim
        self.prototypes = CosinePrototypes(dim, k)
        self.projector = projector(dim) if contrastive else None

    def forward(self, features: torch.Tensor) -> Tensors:
        """Cosines "logits" (B, K) and, with a projector and in training, unit projections "z" (B, 256)."""
        outputs = {"logits": self.prototypes(features)}
        if self.projector is not None and self.training:
            outputs["z"] = F.normalize(self.projector(features), dim=1)
        return outputs

    def reorder(self, order: torch.Tensor) -> None:
        """Put the classes in another order (K,)."""
        with torch.no_grad():
            self.prototypes.weight.copy_(self.prototypes.weight[order])

    @staticmethod
    def like(tensors: Tensors) -> Head:
        """A head that these tensors can be loaded into."""
        k, dim = tensors["prototypes.weight"].shape
        return Head(dim, k, contrastive=any(name.startswith("projector.") for name in tensors))


class LinearHead(nn.Module):
    """K logits as a linear map of the features, with biases: the head of RankStats+."""

    temperature = 1.0

    def __init__(self, dim: int, k: int) -> None:
        super().__init__()
        self.dim = dim
        self.linear = nn.Linear(dim, k)

    def forward(self, features: torch.Tensor) -> Tensors:
        """Outputs "logits" (B, K)."""
        return {"logits": self.linear(features)}

    def reorder(self, order: torch.Tensor) -> None:
        """Put the classes in another order (K,)."""
        with torch.no_grad():
            self.linear.weight.copy_(self.linear.weight[order])
            self.linear.bias.copy_(self.linear.bias[order])

    @staticmethod
    def like(tensors: Tensors) -> LinearHead:
        """A head that these tensors can be loaded into."""
        k, dim = tensors["linear.weight"].shape
        return LinearHead(dim, k)


class CentreHead(nn.Module):
    """The nearest of K cluster centres: logits are x·c − ‖c‖²/2 for x of unit length.

    That is the squared distance, times −1/2, but for a constant, so the largest logit is the E-step of k-means. A
    centre of unit length gives its cosine, less a half; a mean of scattered items is shorter, which a cosine forgets.

    Attributes
    ----------
    centres : torch.Tensor, shape (K, dim)
        They are not trained.
    """

    temperature = TAU_STUDENT
    centres: torch.Tensor

    def __init__(self, centres: torch.Tensor) -> None:
        super().__init__()
        self.dim = centres.shape[1]
        self.register_buffer("centres", centres)

    def forward(self, features: torch.Tensor) -> Tensors:
        """Outputs "logits" (B, K)."""
        return {"logits": F.normalize(features, dim=1) @ self.centres.T - self.centres.square().sum(dim=1) / 2}

    def reorder(self, order: torch.Tensor) -> None:
        """Put the classes in another order (K,)."""
        self.centres = self.centres[order]

    @staticmethod
    def like(tensors: Tensors) -> CentreHead:
        """A head that these tensors can be loaded into."""
        return CentreHead(torch.zeros_like(tensors["centres"]))


class NovelHead(nn.Module):
    """UNO's head for novel classes: MLP dim → hidden (batch norm, ReLU) → out, unit length, cosines to prototypes."""

    def __init__(self, dim: int, k: int, hidden: int = HIDDEN, out: int = PROJECTION) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), BatchNorm(hidden), nn.ReLU(), nn.Linear(hidden, out))
        self.prototypes = CosinePrototypes(out, k)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Map features (B, dim) to cosines (B, k)."""
        cosines: torch.Tensor = self.prototypes(self.mlp(features))
        return cosines


class JointHead(nn.Module):
    """Cosines to the prototypes of the known classes, on the features, beside those of a head for novel classes."""

    temperature = TAU_STUDENT

    def __init__(self, known: CosinePrototypes, novel: NovelHead) -> None:
        super().__init__()
        self.n_old, self.dim = known.weight.shape
        self.known, self.novel = known, novel

    def forward(self, features: torch.Tensor) -> Tensors:
        """Outputs "logits" (B, K), known classes first."""
        return {"logits": torch.cat([self.known(features), self.novel(features)], dim=1)}

    def reorder(self, order: torch.Tensor) -> None:
        """Put the known classes, first in `order` (K,), and the novel ones behind them in another order."""
        prototypes = self.novel.prototypes
        with torch.no_grad():
            self.known.weight.copy_(self.known.weight[order[: self.n_old]])
            prototypes.weight.copy_(prototypes.weight[order[self.n_old :] - self.n_old])

    @staticmethod
    def like(tensors: Tensors) -> JointHead:
        """A head that these tensors can be loaded into."""
        n_old, dim = tensors["known.weight"].shape
        n_new, out = tensors["novel.prototypes.weight"].shape
        hidden = len(tensors["novel.mlp.0.weight"])
        return JointHead(CosinePrototypes(dim, n_old), NovelHead(dim, n_new, hidden, out))


Classifier = Head | LinearHead | CentreHead | JointHead
CLASSIFIERS: dict[str, type[Classifier]] = {
    "prototypes": Head,
    "linear": LinearHead,
    "centres": CentreHead,
    "joint": JointHead,
}
