"""How often is a label right? Rehearsed: some labelled classes are hidden, and the method is run as it always is.

Items whose labels were hidden have an answer that people gave, and they are of both kinds: held-out items of known
classes, and whole classes that the method can only find as novel ones. What it says about them teaches
`ltgcd.calibration` what its confidence is worth, for novel categories too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ltgcd.calibration import Calibration, calibrate
from ltgcd.collection import UNLABELLED
from ltgcd.distributed import World
from ltgcd.experiments import Experiment
from ltgcd.fitting import Task, fit_model, hold_out

PARTS = 4  # the labelled classes are cut into as many, and one of them is hidden at a time
HELD_OUT = 0.2  # share of the labelled items of the other classes


class Hidden(NamedTuple):
    """A problem with labels taken away.

    Attributes
    ----------
    y : ndarray of int64, shape (N,)
        Labels that are left, as numbers of the `visible` classes, -1 without.
    visible : ndarray of int64, shape (V,)
        Classes that stay known, ascending.
    asked : ndarray of int64, shape (n,)
        Items whose label was taken away.
    """

    y: NDArray[np.int64]
    visible: NDArray[np.int64]
    asked: NDArray[np.int64]


def hide(task: Task, part: int) -> Hidden:
    """Hide one of the `PARTS` of the labelled classes, and `HELD_OUT` of the labelled items of all others.

    No class is hidden where nothing novel is looked for, or fewer than `PARTS` are labelled.
    """
    classes = np.unique(task.y[task.y != UNLABELLED])
    hidden = np.empty(0, dtype=np.int64)
    if len(classes) >= PARTS and task.k > task.n_old:
        hidden = np.array_split(np.random.RandomState(task.random_state).permutation(classes), PARTS)[part]
    visible = np.setdiff1d(np.arange(task.n_old), hidden)
    stays = np.isin(task.y, visible)
    y = np.where(stays, np.searchsorted(visible, task.y), UNLABELLED)
    y, _ = hold_out(y, HELD_OUT, task.random_state + part)
    return Hidden(y, visible, np.flatnonzero((task.y != UNLABELLED) & (y == UNLABELLED)))


class Rehearsed(NamedTuple):
    """What the method said about items that people had labelled.

    Attributes
    ----------
    confidence : ndarray, shape (n,)
        Of what it said.
    size : ndarray of int64, shape (n,)
        Unlabelled items about which it said the same.
    classes : ndarray of int64, shape (n,)
        What people had said.
    right, novel, hidden : ndarray of bool, shape (n,)
        Whether that is right, whether it is a novel category, and whether the class of the item was hidden.
    """

    confidence: NDArray[np.float32]
    size: NDArray[np.int64]
    classes: NDArray[np.int64]
    right: NDArray[np.bool_]
    novel: NDArray[np.bool_]
    hidden: NDArray[np.bool_]


def judge(
    p: NDArray[np.float32], sizes: NDArray[np.int64], labels: NDArray[np.int64], visible: NDArray[np.int64]
) -> Rehearsed:
    """Compare probabilities (n, K) of the asked items, in classes of these sizes (K,), with their labels (n,).

    An item of a visible class is right in that class. A hidden class is whichever novel category the Hungarian gives
    it, by the items of all hidden classes.
    """
    said = p.argmax(axis=1)
    novel, hidden = said >= len(visible), ~np.isin(labels, visible)
    right = ~hidden & (said == np.searchsorted(visible, labels))
    found = np.flatnonzero(hidden & novel)
    if len(found):
        classes, t = np.unique(labels[found], return_inverse=True)
        w = np.zeros((len(classes), p.shape[1]), dtype=np.int64)
        np.add.at(w, (t, said[found]), 1)
        rows, columns = linear_sum_assignment(-w)
        matched = np.full(len(classes), UNLABELLED)
        matched[rows] = columns
        right[found] = said[found] == matched[t]
    return Rehearsed(p.max(axis=1), sizes[said], labels, right, novel, hidden)


def rehearse(
    task: Task,
    experiment: Experiment,
    novel_share: float,
    times: int,
    *,
    folder: Path | None = None,
    notify: Callable[[str], None] = lambda _message: None,
    world: World | None = None,
) -> Calibration | None:
    """Learn what the method's confidence is worth on this task, or None where too few items are labelled.

    Parameters
    ----------
    task, experiment : Task, Experiment
        As they are given to `ltgcd.fitting.fit_model`.
    novel_share : float
        Share of D^u that the method has called novel: items of hidden and of visible classes count accordingly.
    times : int
        How many rehearsals, each with another part of the classes hidden; at most `PARTS`.
    folder : path, optional
        For the checkpoints: a rehearsal goes on where it was stopped.
    notify : callable
        Told in a sentence what happens.
    world : World, optional
        Processes that train together.
    """
    runs = []
    for part in range(min(times, PARTS)):
        problem = hide(task, part)
        if not len(problem.asked):
            return None
        n_hidden = task.n_old - len(problem.visible)
        notify(f"rehearsal {part + 1} of {times}, with {n_hidden} known classes hidden: what is a confidence worth?")
        fit = fit_model(
            task._replace(y=problem.y, n_old=len(problem.visible), random_state=task.random_state + 1 + part),
            experiment,
            folder=folder / str(part + 1) if folder else None,
            notify=notify,
            world=world,
        )
        asked = problem.asked
        runs.append(judge(fit.probabilities[asked], fit.fitted.sizes, task.y[asked], problem.visible))
    said = Rehearsed(*(np.concatenate(column) for column in zip(*runs, strict=True)))
    n_hidden = int(said.hidden.sum())
    weights = np.ones(len(said.right))
    if 0 < n_hidden < len(weights):
        weights = np.where(said.hidden, novel_share / n_hidden, (1 - novel_share) / (len(weights) - n_hidden))
        weights *= len(weights)
    return calibrate(said.confidence, said.right, said.novel, said.size, said.classes, weights, task.random_state)
