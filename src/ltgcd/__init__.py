"""Find the categories nobody labelled: generalized category discovery under a long-tailed distribution.

The rooms, each of which imports only those that come before it:

================  ======================================================================================================
``common``        errors, files that are whole or not there, progress, settings; where work runs (``common/engine``)
``data``          what a collection is and where it comes from; splits and datasets
``features``      from items to vectors: backbones, embedding, the cache
``graph``         what vectors say of each other: neighbours, density, peaks and their suppression (NMDS), k-means
``class_number``  how many classes there are
``training``      losses, selection, the loop; ``training/methods`` has a file for each method and the dict `METHODS`
``discovery``     `discover`: the whole pipeline as one pure function; rehearsals, adding new items
``evaluation``    the metric
``review``        what a person says about a run, and what follows from it; above ``run`` its page (``review/server``)
``output``        what people take away: the page (``output/report``), the formats of other tools (``output/export``)
``run``           the run directory: names of files (``run/paths.py``), who writes them (``run/directory.py:Run``)
``estimator.py``  `CategoryDiscovery`
``plot``          charts of a fitted model or a run, as matplotlib axes
``bench``         the paper's tables
``cli``           the commands: parse, call, print
================  ======================================================================================================

Where each equation of the paper is: ``PAPER.md``. The names below are imported when they are first used, so that
``import ltgcd`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ltgcd import plot
    from ltgcd.class_number.estimate import KEstimate, estimate_k
    from ltgcd.class_number.sampled import estimate_class_number
    from ltgcd.common.errors import InputError
    from ltgcd.data.collection import Collection, Source, Truth
    from ltgcd.data.sources import read_source
    from ltgcd.data.splits import SplitConfig, draw_split
    from ltgcd.data.write_source import write_source
    from ltgcd.discovery.discover import Discovery, discover
    from ltgcd.discovery.task import Task, configure
    from ltgcd.estimator import CategoryDiscovery
    from ltgcd.evaluation.metric import Evaluation, evaluate
    from ltgcd.features.backbones import load_backbone
    from ltgcd.features.cache import open_features
    from ltgcd.features.embed import embed
    from ltgcd.run.directory import Run

_HOME = {
    "CategoryDiscovery": "estimator",
    "Collection": "data.collection",
    "Discovery": "discovery.discover",
    "Evaluation": "evaluation.metric",
    "InputError": "common.errors",
    "KEstimate": "class_number.estimate",
    "Run": "run.directory",
    "Source": "data.collection",
    "SplitConfig": "data.splits",
    "Task": "discovery.task",
    "Truth": "data.collection",
    "configure": "discovery.task",
    "discover": "discovery.discover",
    "draw_split": "data.splits",
    "embed": "features.embed",
    "estimate_class_number": "class_number.sampled",
    "estimate_k": "class_number.estimate",
    "evaluate": "evaluation.metric",
    "load_backbone": "features.backbones",
    "open_features": "features.cache",
    "read_source": "data.sources",
    "write_source": "data.write_source",
}

__all__ = [
    "CategoryDiscovery",
    "Collection",
    "Discovery",
    "Evaluation",
    "InputError",
    "KEstimate",
    "Run",
    "Source",
    "SplitConfig",
    "Task",
    "Truth",
    "configure",
    "discover",
    "draw_split",
    "embed",
    "estimate_class_number",
    "estimate_k",
    "evaluate",
    "load_backbone",
    "open_features",
    "plot",
    "read_source",
    "write_source",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the names above
    if name == "plot":
        return importlib.import_module("ltgcd.plot")
    if name not in _HOME:
        raise AttributeError(f"module 'ltgcd' has no attribute '{name}'")
    return getattr(importlib.import_module(f"ltgcd.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
