"""What goes into the pipeline: a task, what people said about an earlier answer, a configuration, and hooks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ltgcd.class_number.estimate import KEstimate, LabelsFrom, labels_origin
from ltgcd.common.errors import InputError
from ltgcd.discovery.rehearsal import PARTS, Calibrations
from ltgcd.features.views import CachedViews
from ltgcd.training.checkpoints import Checkpoints
from ltgcd.training.config import Experiment, Preset, Regime, changed
from ltgcd.training.distributed import World
from ltgcd.training.fit import check_experiment
from ltgcd.training.loop import Watch, unwatched
from ltgcd.training.methods import get_method

FEWEST_TO_FIT = 100  # items; a collection that has no more takes no time at all
# Rehearsals by what one costs: seconds to a minute, or as long as the run itself.
REHEARSALS: dict[Regime, int] = {"frozen": 4, "last-stage": 1}


class Hints(NamedTuple):
    """What people have said about an earlier answer, beyond labels (`ltgcd.review.refine`).

    Attributes
    ----------
    start : ndarray of int64, shape (N,)
        Class that each unlabelled item is in already: a known one, or n_old … n_old + S − 1 for the novel categories
        that are there; -1 for an item that is in none of them.
    n_start : int
        The number of these categories, S.
    forbidden : tuple of ndarrays of int64, each of shape (M,)
        Rows, and the class that each of them is not of: numbered in the same way.
    placed : tuple of ndarrays of int64, each of shape (P,)
        Rows that a person put somewhere without confirming them one by one (a part of a split, say), and the class that
        each of them was put into: numbered in the same way.
    calibrations : Calibrations or None
        What confidences were worth in the earlier answer, where nothing is rehearsed.
    """

    start: NDArray[np.int64]
    n_start: int
    forbidden: tuple[NDArray[np.int64], NDArray[np.int64]]
    placed: tuple[NDArray[np.int64], NDArray[np.int64]]
    calibrations: Calibrations | None = None


class Task(NamedTuple):
    """A partly labelled table of vectors.

    Attributes
    ----------
    x : ndarray of float32, shape (N, D)
        Features of the items.
    y : ndarray of int64, shape (N,)
        Labels 0 … n_old − 1, -1 for an unlabelled item.
    n_old : int
        Number of known classes.
    views : CachedViews or None
        Cached views of the same items, where the last stage of the backbone is trained.
    tail : torch.nn.Module or None
        That last stage, with its pretrained weights.
    hints : Hints or None
        What people have said about an earlier answer.
    """

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    n_old: int
    views: CachedViews | None = None
    tail: nn.Module | None = None
    hints: Hints | None = None


@dataclass(frozen=True)
class DiscoveryConfig:
    """Everything besides the data that decides the answer; made by `configure`.

    Attributes
    ----------
    method : str
        A key of `ltgcd.training.methods.METHODS`.
    regime : {"frozen", "last-stage"}
        Whether an adapter on the features is trained, or the last stage of the backbone on cached views.
    experiment : Experiment or None
        Settings of a trained method; None for one that only clusters.
    k : int or None
        Number of classes; None to estimate it.
    rehearsals : int
        How often the method is trained once more with known classes hidden, to learn how often its labels are right.
        At 0, confidences are the model's own and no item is unsure.
    labels_from : {"collection", "elsewhere", "random-items"}
        Where the labelled items come from, for the estimate of K (`ltgcd.class_number.estimate.estimate_k`).
    fit_on : int or None
        How many items teach the classifier, at most half of them labelled ones, which then labels the others; None for
        all. For collections that a fit can't hold.
    random_state : int
        Seed.
    """

    method: str = "ltgcd"
    regime: Regime = "frozen"
    experiment: Experiment | None = None
    k: int | None = None
    rehearsals: int = 0
    labels_from: LabelsFrom = "collection"
    random_state: int = 0
    fit_on: int | None = None


def configure(
    method: str = "ltgcd",
    *,
    preset: Preset = "default",
    regime: Regime = "frozen",
    changes: dict[str, Any] | None = None,
    k: int | None = None,
    rehearsals: int | Literal["auto"] = "auto",
    labels_from: str = "collection",
    fit_on: int | None = None,
    random_state: int = 0,
    n_processes: int = 1,
    keeps_checkpoints: bool = False,
) -> DiscoveryConfig:
    """Put a configuration together, and refuse in a sentence what does not go together.

    Parameters
    ----------
    method, regime, k, labels_from, fit_on, random_state
        See `DiscoveryConfig`.
    preset : {"default", "paper", "literal"}
        Reading of the paper that the settings begin from.
    changes : dict, optional
        Settings by path, see `ltgcd.training.config.changed`.
    rehearsals : int or "auto"
        "auto" is `REHEARSALS` of the regime for a trained method, none for one that only clusters.
    n_processes : int
        How many processes train together.
    keeps_checkpoints : bool
        Whether the best epoch can be gone back to.
    """
    chosen, experiment = get_method(method), None
    if chosen.trained:
        experiment = changed(chosen.preset(regime, preset), changes or {})
        check_experiment(experiment, n_processes, keeps=keeps_checkpoints)
    elif changes:
        raise InputError(f"'{method}' has no settings to change; leave out {', '.join(map(str, changes))}.")
    if rehearsals == "auto":
        rehearsals = REHEARSALS[regime] if chosen.trained else 0
    if not isinstance(rehearsals, int | np.integer) or not 0 <= rehearsals <= PARTS:
        raise InputError(f"There can be 0 to {PARTS} rehearsals, not {rehearsals!r}.")
    if rehearsals and not chosen.trained:
        raise InputError(f"'{method}' trains nothing that could be rehearsed; leave out the rehearsals.")
    if fit_on is not None and not chosen.trained:
        raise InputError(
            f"'{method}' leaves no model that could label the other items; leave out the number to fit on."
        )
    if fit_on is not None and (not isinstance(fit_on, int | np.integer) or fit_on < FEWEST_TO_FIT):
        raise InputError(f"A fit takes {FEWEST_TO_FIT:,} items or more, not {fit_on!r}.")
    origin = labels_origin(labels_from)
    fitted = None if fit_on is None else int(fit_on)
    return DiscoveryConfig(method, regime, experiment, k, int(rehearsals), origin, random_state, fitted)


def check_class_number(k: int | None, n_old: int, n: int) -> None:
    """Refuse a number of classes that `n` items with `n_old` known classes can't have."""
    if k is not None and not n_old <= k <= n:
        raise InputError(f"K = {k} is impossible: there are {n_old} known classes and {n} items.")


@dataclass(frozen=True)
class Hooks:
    """What a caller wants to be told, or to keep, while `discover` works.

    Attributes
    ----------
    notify : callable
        Told in a sentence what happens.
    estimate : KEstimate or None
        An estimate of K that the same call made before it was stopped.
    estimated : callable
        Gets the estimate of K as soon as it is there.
    checkpoints : callable
        Gives the `Checkpoints` of a stage by its name ("main", "rehearsal-1", …), or None to keep none.
    record : callable
        Gets a dict for each epoch of the main training.
    watch : callable
        Told, when an epoch begins, which items it draws from: masks (N,) by name.
    world : World
        The other processes, where several train together.
    processes : callable
        How many rehearsals may run side by side, each in a process of its own, with so many classes: what one takes
        grows with their number. No bit of the answer hangs on it.
    """

    notify: Callable[[str], None] = lambda _message: None
    estimate: KEstimate | None = None
    estimated: Callable[[KEstimate], None] = lambda _estimate: None
    checkpoints: Callable[[str], Checkpoints | None] = lambda _stage: None
    record: Callable[[dict[str, Any]], None] = lambda _line: None
    watch: Watch = unwatched
    world: World = field(default_factory=World)
    processes: Callable[[int], int] = lambda _k: 1
