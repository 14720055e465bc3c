"""What stands on the features: the projector of the contrastive losses and the cosine prototypes (METHODS §3)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

HIDDEN, PROJECTION = 2048, 256


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


class Head(nn.Module):
    """Projector (where the contrastive losses are on) and prototypes, side by side on the same features."""

    def __init__(self, dim: int, k: int, *, contrastive: bool) -> None:
        super().__init__()
        self.prototypes = CosinePrototypes(dim, k)
        self.projector = projector(dim) if contrastive else None

    def forward(self, features: torch.Tensor) -> dict[str, torch.Tensor]:
        """Cosines "logits" (B, K) and, with a projector and in training, unit projections "z" (B, 256)."""
        outputs = {"logits": self.prototypes(features)}
        if self.projector is not None and self.training:
            outputs["z"] = F.normalize(self.projector(features), dim=1)
        return outputs
