"""What a method is: its name, its settings and presets, and how its model is made. One value of this type a method."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, get_args

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ltgcd.common.errors import InputError
from ltgcd.graph.feature_graph import FeatureGraph
from ltgcd.graph.kmeans import Assignment
from ltgcd.training.config import Experiment, Preset, Regime
from ltgcd.training.heads import Classifier
from ltgcd.training.loop import Objective, Snapshot
from ltgcd.training.problem import Problem

Presets = Callable[[Regime, Preset], Experiment]
Build = Callable[[Problem, Any, FeatureGraph], tuple[nn.Module, Objective]]
FinalClassifier = Callable[[nn.Module, Snapshot, Problem, Any], Classifier]
Cluster = Callable[[NDArray[np.floating], NDArray[np.int64], int, int, int], Assignment]


def trained_head(head: nn.Module, _snapshot: Snapshot, _problem: Problem, _config: object) -> Classifier:
    """The head as it was trained."""
    assert isinstance(head, Classifier)
    return head


def _not_of_this_method(*_arguments: object) -> NoReturn:
    raise AssertionError("a trained method does not cluster, and a clustering is not trained: ask Method.trained")


@dataclass(frozen=True)
class Method:
    """A method of discovering categories: either it is trained, or it only clusters the features.

    Attributes
    ----------
    name, summary : str
        As users type it, and what it is in a line.
    trained : bool
        Whether it is trained; the others have a `cluster` and nothing else.
    config : type
        Frozen dataclass of its settings; an `Experiment` of the method has one as its `method`.
    presets : callable
        (regime, preset name) → Experiment.
    build : callable
        (problem, settings, features before training and their neighbours) → the head that is trained and its losses.
    final_classifier : callable
        (trained head, what it says about all items, problem, settings) → what labels items in the end.
    cluster : callable
        (features (N, D), labels (N,), |Y_l|, K, seed) → class and confidence of every item.
    has_prototypes : bool
        Whether it has one prototype for each class: a start can place them, and an update can append to them.
    can_choose_epoch : bool
        Whether it has a classifier after every epoch, by which the best one can be told.
    """

    name: str
    summary: str
    trained: bool = True
    config: type[Any] = object
    presets: Presets = _not_of_this_method
    build: Build = _not_of_this_method
    final_classifier: FinalClassifier = trained_head
    cluster: Cluster = _not_of_this_method
    has_prototypes: bool = False
    can_choose_epoch: bool = True

    def preset(self, regime: Regime, name: Preset = "default") -> Experiment:
        """The configuration of the method in a regime.

        ``default`` is what we recommend, ``paper`` the corrected reading of the paper and nothing more, ``literal`` the
        paper as printed. For the baselines all three are the authors' losses and random prototypes. What is ours in all
        of them, to compare like with like: within-class whitening, a CPU's schedule, and the teacher's warm-up and ε
        that go with it (``--epochs 200 --set schedule.batch_size=128 --set whiten=false`` are the paper's).
        """
        if not self.trained:
            raise InputError(f"'{self.name}' is not trained: it clusters the features and has no settings.")
        if name not in get_args(Preset):
            raise InputError(f"There is no preset '{name}'; choose one of {', '.join(get_args(Preset))}.")
        # By this name the method is found again; a preset that another method made would bring that one's along.
        return dataclasses.replace(self.presets(regime, name), name=self.name)
