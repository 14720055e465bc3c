"""Backbones by name: a frozen trunk whose activations are cached, and a tail that is trained.

Besides the names here, ``package.module:function`` is one: a function of yours that returns a `Backbone`. Backbones of
images that are of one family may be joined: ``efficientnet_lite0+efficientnet_lite2`` has the features of both.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ltgcd.common.errors import InputError
from ltgcd.features.backbones.base import Backbone, Kind
from ltgcd.features.cache import cache_key, differing_features

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

__all__ = ["NAMES", "Backbone", "backbone_of", "check_backbone", "check_kind", "default_backbone", "load_backbone"]


def default_backbone(kind: Kind) -> str:
    """The backbone for a kind of item whose weights need no download."""
    return {"image": "efficientnet_lite2", "text": "minilm", "vector": "embeddings"}[kind]


def check_backbone(name: str, kind: Kind, views: int = 0) -> None:
    """Refuse a backbone that does not exist or does not take such items, before anything is loaded or embedded.

    Parameters
    ----------
    name : str
        As `load_backbone` takes it. What a function of yours takes is known only once it has been called.
    kind : {"image", "text", "vector"}
        What the items are.
    views : int
        Training views that shall be embedded.
    """
    if ":" in name:
        _module_and_function(name)
        takes = kind
    elif _is_of_images(name):
        takes = "image"
    elif name in NAMES:
        takes = {"minilm": "text", "embeddings": "vector"}[name]  # type: ignore[assignment]
    else:
        raise _unknown(name)
    check_kind(name, takes, kind, views)


def check_kind(name: str, takes: Kind, kind: Kind, views: int) -> None:
    """Refuse items that a backbone does not take, and views of items that have none."""
    if takes != kind:
        raise InputError(
            f"The source holds {kind}s, but {name} takes {takes}s; choose another backbone "
            f"({default_backbone(kind)} takes {kind}s)."
        )
    if views < 0:
        raise InputError(f"The number of views is {views}; give 0 or more.")
    if views and kind != "image":
        raise InputError(f"Only images have views; leave out --views for {kind}s.")


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
        One of `NAMES`; several of one family with ``+`` between, for the features of all of them; or
        ``package.module:function``: the module is imported, also from the current folder, and the function called
        without arguments.
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
    if "+" in name and _is_of_images(name):
        _refuse(name, dim=dim, weights=weights)
        return _joined(name.split("+"), image_size, trained_blocks)
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
    if ":" in name:
        _refuse(name, dim=dim, image_size=image_size, weights=weights, trained_blocks=other_blocks)
        return _own_backbone(name)
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
    raise _unknown(name)


def backbone_of(key: dict[str, Any], weights: str | Path | None = None) -> Backbone:
    """Load the very backbone that cached features were made with.

    Parameters
    ----------
    key : dict
        What is kept with the features (``features.json``, `FeatureStore.key`).
    weights : path or str, optional
        The weights they were made with, where these were not the usual ones.

    Raises
    ------
    InputError
        If what can be loaded now is not what the features were made with; the sentence says what differs.
    """
    name = key.get("backbone")
    if not isinstance(name, str):
        raise InputError("It is not known which backbone these features were made with; embed the items again.")
    if ":" in name and name not in _TRUSTED:
        raise InputError(
            f"These features were made with a backbone of somebody's own, '{name}', whose code would be run; if it is "
            f"yours, say so with --backbone {name} (from Python: load_backbone('{name}') first)."
        )
    options: dict[str, Any] = {"weights": weights}
    if _is_of_images(name):
        options |= {"image_size": key.get("image_size"), "trained_blocks": key.get("trained_blocks", 1)}
    if name == "embeddings":
        options |= {"dim": key.get("dim")}
    backbone = load_backbone(name, **options)
    if difference := differing_features(key, cache_key(backbone, 0, "")):
        raise InputError(f"The backbone can't be loaded again as it was: {difference}")
    return backbone


def _is_of_images(name: str) -> bool:
    """Whether a name is that of an image backbone, or of several different ones joined."""
    parts = name.split("+")
    return set(parts) <= {*EFFICIENTNETS, *VITS} and len(set(parts)) == len(parts)


def _joined(names: list[str], image_size: int | None, trained_blocks: int) -> Backbone:
    """Several backbones that see the same images: by default of the largest size that one of them was made for."""
    from ltgcd.features.backbones.joined import join

    parts = [load_backbone(name, image_size=image_size, trained_blocks=trained_blocks) for name in names]
    size = max(part.preprocessing.image_size for part in parts if part.preprocessing is not None)
    if image_size is None:
        parts = [load_backbone(name, image_size=size, trained_blocks=trained_blocks) for name in names]
    return join(parts)


# ---------------------------------------------------------------- a backbone of the user's own

# Names that were typed in this process. A file may name any module: it is imported only if a person has named it, too.
_TRUSTED: set[str] = set()


def trust_backbone(name: str | None) -> None:
    """Allow the code of a backbone that a person has named, where a file names it."""
    if name is not None and ":" in name:
        _TRUSTED.add(name)


def _own_backbone(name: str) -> Backbone:
    """Call the function ``package.module:function`` and give what it returns this name."""
    module, function = _module_and_function(name)
    trust_backbone(name)
    with _current_folder_importable():
        try:
            make = getattr(importlib.import_module(module), function, None)
        except ImportError as error:
            raise InputError(f"The backbone '{name}' can't be imported ({error}); correct the module.") from error
        if not callable(make):
            raise InputError(f"The module '{module}' has no function '{function}'; correct the backbone's name.")
        made = make()
    if not isinstance(made, Backbone):
        raise InputError(f"'{name}' gave a {type(made).__name__}; it must return an ltgcd Backbone.")
    return dataclasses.replace(made, name=name)


def _module_and_function(name: str) -> tuple[str, str]:
    """Both parts of ``package.module:function``; a sentence if the module is nowhere to be found."""
    module, _, function = name.partition(":")
    if not function.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise InputError(f"There is no backbone '{name}'; a backbone of your own is called package.module:function.")
    with _current_folder_importable():
        if find_spec(module.partition(".")[0]) is None:
            raise InputError(
                f"There is no module '{module}' for the backbone '{name}'; run from the folder that holds it, or "
                "install it."
            )
    return module, function


@contextmanager
def _current_folder_importable() -> Iterator[None]:
    """As with ``python -m``: modules of the current folder can be imported inside."""
    here = os.getcwd()  # noqa: PTH109 - sys.path holds strings
    sys.path.insert(0, here)
    importlib.invalidate_caches()  # a module may have been written a moment ago
    try:
        yield
    finally:
        sys.path.remove(here)


def _unknown(name: str) -> InputError:
    choices = (
        f"choose one of {', '.join(NAMES)}, different ones of one family with + between, or package.module:function "
        "for one of your own"
    )
    return InputError(f"There is no backbone called {name!r}; {choices}.")


def _refuse(name: str, **options: object) -> None:
    for option, value in options.items():
        if value is not None:
            raise InputError(f"The backbone {name!r} has no {option}; leave it out.")
