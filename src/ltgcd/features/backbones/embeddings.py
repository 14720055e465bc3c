"""Vectors that the user brings: nothing to compute, a small adapter to train, dropout for a view."""

from __future__ import annotations

import torch
from torch import nn

from ltgcd.common.errors import InputError
from ltgcd.features.backbones.base import Backbone


class VectorTrunk(nn.Module):
    """The identity on rows of `dim` numbers."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the vectors (B, dim) as float32."""
        if vectors.ndim != 2 or vectors.shape[1] != self.dim:
            shape = " × ".join(str(n) for n in vectors.shape)
            raise InputError(f"The vectors have shape {shape}; this model takes rows of {self.dim} numbers.")
        return vectors.float()


class ResidualAdapter(nn.Module):
    """h + W h with W zero at first: training starts from the features as they are."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, dim, bias=False)
        nn.init.zeros_(self.linear.weight)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Map features (B, dim) to features (B, dim)."""
        adapted: torch.Tensor = features + self.linear(features)
        return adapted


def feature_dropout(features: torch.Tensor, p: float = 0.3, generator: torch.Generator | None = None) -> torch.Tensor:
    """Make a view of features that have no image to augment: zero a share `p`, scale the rest by 1 / (1 − p).

    Parameters
    ----------
    features : torch.Tensor, shape (B, D)
        Activations of a vector or text trunk.
    p : float
        Probability that a number is dropped.
    generator : torch.Generator, optional
        Source of randomness, on the device of `features`.

    Returns
    -------
    torch.Tensor, shape (B, D)
        A new tensor with the same expectation.
    """
    if not 0 <= p < 1:
        raise InputError(f"The dropout probability is {p}; it must lie between 0 and 1, and below 1.")
    kept = torch.rand(features.shape, generator=generator, device=features.device) >= p
    return features * kept / (1 - p)


def load_embeddings(dim: int) -> Backbone:
    """Make the backbone for vectors of length `dim`: the identity as the trunk, a residual adapter as the tail."""
    if dim < 1:
        raise InputError(f"dim is {dim}; vectors need at least one number.")
    return Backbone(
        name="embeddings",
        kind="vector",
        trunk=VectorTrunk(dim),
        tail=ResidualAdapter(dim),
        activation_shape=(dim,),
        dim=dim,
    )
