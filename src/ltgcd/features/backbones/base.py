"""What a backbone is: a frozen trunk that is computed once and cached, and a tail that is trained."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn

if TYPE_CHECKING:
    from ltgcd.features.backbones.preprocessing import Preprocessing

Kind = Literal["image", "text", "vector"]


@dataclass(frozen=True, eq=False)
class Backbone:
    """A model split in two: ``tail(trunk(batch))`` is the feature h of the paper.

    Any pair of modules will do; there is nothing to subclass.

    Attributes
    ----------
    name : str
        What `load_backbone` knows it by; kept with the features, so that the same model can be loaded again.
    kind : {"image", "text", "vector"}
        What the trunk takes: a float32 batch (B, 3, H, W) made by `preprocessing`, a list of B strings, or a
        float32 batch (B, D).
    trunk : torch.nn.Module
        Frozen. Returns the activations that are cached, a float tensor (B, *activation_shape).
    tail : torch.nn.Module
        Trained. Takes those activations and returns the features h, (B, dim), not normalised. Parameters that
        must stay fixed inside it (DINO's final LayerNorm) have ``requires_grad`` switched off.
    activation_shape : tuple of int
        Shape of one item's cached activation.
    dim : int
        Length of a feature.
    preprocessing : Preprocessing or None
        How an image becomes a row of the batch; None for texts and vectors.
    trained_blocks : int or None
        How many of a published network's last blocks are the tail; None where that is no choice.
    """

    name: str
    kind: Kind
    trunk: nn.Module
    tail: nn.Module
    activation_shape: tuple[int, ...]
    dim: int
    preprocessing: Preprocessing | None = None
    trained_blocks: int | None = None

    def __post_init__(self) -> None:
        self.trunk.requires_grad_(False).eval()

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the trunk's class, weights and buffers: what decides the activations."""
        return _fingerprint(self.trunk, str(self.activation_shape))

    @cached_property
    def tail_fingerprint(self) -> str:
        """Hash of the tail before training: with the trunk's, what decides the features."""
        return _fingerprint(self.tail, str(self.dim))


def _fingerprint(module: nn.Module, shape: str) -> str:
    digest = hashlib.sha256(f"{type(module).__qualname__}{shape}".encode())
    for key, value in sorted(module.state_dict().items()):
        digest.update(f"{key}{value.dtype}{tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
