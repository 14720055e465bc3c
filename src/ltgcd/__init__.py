"""Find the categories nobody labelled: generalized category discovery under a long-tailed distribution.

The names below are imported when they are first used, so that ``import ltgcd`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ltgcd.collection import Collection, Source, Truth
    from ltgcd.discovery import CategoryDiscovery
    from ltgcd.errors import InputError
    from ltgcd.evaluation import Evaluation, evaluate
    from ltgcd.sources import read_source, write_source
    from ltgcd.splits import SplitConfig, draw_split

_HOME = {
    "CategoryDiscovery": "discovery",
    "Collection": "collection",
    "Evaluation": "evaluation",
    "InputError": "errors",
    "Source": "collection",
    "SplitConfig": "splits",
    "Truth": "collection",
    "draw_split": "splits",
    "evaluate": "evaluation",
    "read_source": "sources",
    "write_source": "sources",
}

__all__ = [
    "CategoryDiscovery",
    "Collection",
    "Evaluation",
    "InputError",
    "Source",
    "SplitConfig",
    "Truth",
    "draw_split",
    "evaluate",
    "read_source",
    "write_source",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the names above
    if name not in _HOME:
        raise AttributeError(f"module 'ltgcd' has no attribute '{name}'")
    return getattr(importlib.import_module(f"ltgcd.{_HOME[name]}"), name)
