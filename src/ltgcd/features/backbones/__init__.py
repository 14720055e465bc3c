"""Backbones: a frozen trunk whose activations are cached, and a tail that is trained."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ltgcd.common.errors import InputError
from ltgcd.features.backbones.base import Backbone, Kind

EFFICIENTNETS = ("efficientnet_lite0", "efficientnet_lite2")
VITS = (
    "dino_vits16",
    "dino_vits8",
    "dino_vitb16",
    "dino_vitb8",
    "dinov2_vits14",
    "dinov2_vitb14",
    "dinov2_vitl14",
    "dinov2_vits14_reg",
    "dinov2_vitb14_reg",
    "dinov2_vitl14_reg",
)
NAMES = (*EFFICIENTNETS, *VITS, "minilm", "embeddings")

__all__ = ["NAMES", "Backbone", "backbone_of", "default_backbone", "load_backbone"]


def default_backbone(kind: Kind) -> str:
    """The backbone for a kind of item whose weights need no download."""
    return {"image": "efficientnet_lite2", "text": "minilm", "vector": "embeddings"}[kind]


def load_backbone(
    name: str,
    *,
    image_size: int | None = None,
    weights: str | Path | None = None,
    trained_blocks: int = 1,
    dim: int | None = None,
) -> Backbone:
    """Load a backbone by its name.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    image_size : int, optional
        Height and width of a view, for image backbones; by default what the network was made for.
    weights : path or str, optional
        Other weights than the usual ones: a file or folder, as the backbone's own module says.
    trained_blocks : int
        How many of the last blocks of an image backbone belong to the tail.
    dim : int, optional
        Length of the vectors, for ``"embeddings"``.

    Returns
    -------
    Backbone
        Trunk, tail and preprocessing.

    Raises
    ------
    InputError
        If the name is unknown, an option does not apply to the backbone, or its weights cannot be had.
    """
    # Each backbone is imported when it is asked for: transformers alone takes seconds.
    # ruff: noqa: PLC0415
    if name in EFFICIENTNETS:
        _refuse(name, dim=dim)
        from ltgcd.features.backbones.efficientnet_lite import load_efficientnet_lite

        return load_efficientnet_lite(name, image_size=image_size, weights=weights, trained_blocks=trained_blocks)
    if name in VITS:
        _refuse(name, dim=dim)
        from ltgcd.features.backbones.vit import load_vit

        size = 224 if image_size is None else image_size
        return load_vit(name, weights=weights, image_size=size, trained_blocks=trained_blocks)
    other_blocks = trained_blocks if trained_blocks != 1 else None
    if name == "minilm":
        _refuse(name, dim=dim, image_size=image_size, trained_blocks=other_blocks)
        from ltgcd.features.backbones.minilm import load_minilm

        return load_minilm(weights=weights)
    if name == "embeddings":
        _refuse(name, image_size=image_size, weights=weights, trained_blocks=other_blocks)
        if dim is None:
            raise InputError("The backbone 'embeddings' needs dim, the length of the vectors; give it.")
        from ltgcd.features.backbones.embeddings import load_embeddings

        return load_embeddings(dim)
    raise InputError(f"There is no backbone called {name!r}; choose one of {', '.join(NAMES)}.")


def backbone_of(key: dict[str, Any], weights: str | Path | None = None) -> Backbone:
    """Load the image backbone that cached features were made with, from the key in their ``features.json``."""
    crop = re.search(r"\bcrop=(\d+)\b", key.get("preprocessing") or "")
    if crop is None or key.get("backbone") not in (*EFFICIENTNETS, *VITS):
        raise InputError(
            f"The last stage of {key.get('backbone')} can't be trained by name; train on the frozen features."
        )
    backbone = load_backbone(key["backbone"], image_size=int(crop[1]), weights=weights)
    if backbone.fingerprint != key["trunk"]:
        raise InputError(
            f"The features were made with other weights of {key['backbone']} than the ones at hand; "
            "give the weights that they were made with."
        )
    return backbone


def _refuse(name: str, **options: object) -> None:
    for option, value in options.items():
        if value is not None:
            raise InputError(f"The backbone {name!r} has no {option}; leave it out.")
