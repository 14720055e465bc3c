"""Several image backbones as one: the features of each, of unit length, side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F

from ltgcd.common.errors import InputError
from ltgcd.features.backbones.base import Backbone


class JoinedTrunk(nn.Module):
    """Trunks that see the same images; their activations, flattened, one after the other."""

    def __init__(self, trunks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.trunks = nn.ModuleList(trunks)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map images (B, 3, H, W) to all activations (B, sum of their sizes)."""
        return torch.cat([trunk(images).flatten(1) for trunk in self.trunks], dim=1)


class JoinedTail(nn.Module):
    """The tails of these trunks; what each gives has unit length, so that none rules."""

    def __init__(self, tails: Sequence[nn.Module], shapes: Sequence[tuple[int, ...]]) -> None:
        super().__init__()
        self.tails = nn.ModuleList(tails)
        self.shapes = tuple(shapes)

    def forward(self, activations: torch.Tensor) -> torch.Tensor:
        """Map what `JoinedTrunk` gives to features (B, sum of their lengths)."""
        parts = torch.split(activations, [math.prod(shape) for shape in self.shapes], dim=1)
        features = [
            F.normalize(tail(part.reshape(-1, *shape)), dim=1)
            for tail, part, shape in zip(self.tails, parts, self.shapes, strict=True)
        ]
        return torch.cat(features, dim=1)


def join(backbones: Sequence[Backbone]) -> Backbone:
    """One backbone of several that prepare images in the same way.

    Parameters
    ----------
    backbones : sequence of Backbone
        Of kind "image", with views of the same size. The name of the new one is theirs with ``+`` between.
    """
    first, *others = backbones
    for other in others:
        if other.preprocessing != first.preprocessing:
            raise InputError(
                f"{first.name} and {other.name} prepare images in different ways and can't share them; choose "
                "backbones of one family."
            )
    shapes = [backbone.activation_shape for backbone in backbones]
    return Backbone(
        name="+".join(backbone.name for backbone in backbones),
        kind="image",
        trunk=JoinedTrunk([backbone.trunk for backbone in backbones]),
        tail=JoinedTail([backbone.tail for backbone in backbones], shapes),
        activation_shape=(sum(math.prod(shape) for shape in shapes),),
        dim=sum(backbone.dim for backbone in backbones),
        preprocessing=first.preprocessing,
        trained_blocks=first.trained_blocks,
    )
