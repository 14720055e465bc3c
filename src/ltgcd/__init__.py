"""Find the categories nobody labelled: generalized category discovery under a long-tailed distribution.

The names below are imported when they are first used, so that ``import ltgcd`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ltgcd.common.errors import InputError
    from ltgcd.data.collection import Collection, Source, Truth
    from ltgcd.data.sources import read_source, write_source
    from ltgcd.data.splits import SplitConfig, draw_split
    from ltgcd.estimator import CategoryDiscovery
    from ltgcd.evaluation.metric import Evaluation, evaluate

_HOME = {
    "CategoryDiscovery": "estimator",
    "Collection": "data.collection",
    "Evaluation": "evaluation.metric",
    "InputError": "common.errors",
    "Source": "data.collection",
    "SplitConfig": "data.splits",
    "Truth": "data.collection",
    "draw_split": "data.splits",
    "evaluate": "evaluation.metric",
    "read_source": "data.sources",
    "write_source": "data.sources",
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
