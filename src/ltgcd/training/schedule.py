"""How a model is optimised: epochs, batches, SGD, and a learning rate that falls along a cosine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from ltgcd.common.errors import InputError
from ltgcd.common.settings import check_fields


@dataclass(frozen=True)
class Schedule:
    """Optimisation, the same for every method unless its paper says otherwise.

    Attributes
    ----------
    epochs : int
        An epoch draws as many items as there are, half of them labelled.
    batch_size : int
        Items; each in two views.
    learning_rate : float
        At the start; falls to a thousandth of it along a cosine.
    momentum, weight_decay : float
        Of SGD; biases and other one-dimensional parameters do not decay.
    choose : {"last", "held-out"}
        Which epoch's weights are kept: the last, or the best by balanced accuracy on held-out labelled items. Never
        by anything about D^u.
    """

    epochs: int = 200
    batch_size: int = 128
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-5
    choose: Literal["last", "held-out"] = "last"

    def __post_init__(self) -> None:
        check_fields(
            self,
            "the schedule",
            epochs=(1, 1_000_000),
            batch_size=(2, 1_000_000),
            learning_rate=(0, math.inf),
            momentum=(0, 1),
            weight_decay=(0, math.inf),
        )


def check_schedule(schedule: Schedule, n_processes: int, *, can_choose: bool) -> None:
    """Refuse a schedule that can't be kept.

    Parameters
    ----------
    schedule : Schedule
        Optimisation.
    n_processes : int
        How many share a batch.
    can_choose : bool
        Whether labelled items are held out and checkpoints are kept.
    """
    if schedule.batch_size % (2 * n_processes):
        shared = f" and shared by {n_processes} processes" if n_processes > 1 else ""
        raise InputError(
            f"A batch of {schedule.batch_size} can't be halved{shared}; choose a multiple of {2 * n_processes}."
        )
    if schedule.choose == "held-out" and not can_choose:
        raise InputError(
            "The best epoch can only be chosen where labelled items are held out (held_out=0.1, for instance) and "
            "checkpoints are kept."
        )


def make_optimiser(model: nn.Module, schedule: Schedule) -> torch.optim.SGD:
    """SGD over what is trained; one-dimensional parameters do not decay."""
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": schedule.weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.SGD(groups, lr=schedule.learning_rate, momentum=schedule.momentum)


def cosine(first: float, done: float) -> float:
    """Learning rate at a share of the training: from `first` along a cosine to a thousandth of it."""
    return first * (1e-3 + (1 - 1e-3) * 0.5 * (1 + math.cos(math.pi * done)))
