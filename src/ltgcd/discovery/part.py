"""More items than a fit can hold: a part of them teaches the classifier, which then labels all the others.

In the part are labelled items, all of them or those that make up a half of it, and a random share of the others, which
their content draws; also every item that somebody has said more of than a label. The class number is estimated on
samples of as many items, with what a sample changes measured (`ltgcd.class_number.sampled`). What had no part in the
fit keeps its label, or is labelled by the fitted model, block by block (`ltgcd.discovery.labelling`), as new items are:
its neighbours have no say.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.data.collection import UNLABELLED
from ltgcd.data.order import ContentOrder
from ltgcd.data.samples import stratified_sample
from ltgcd.discovery.task import Hints, Hooks, Task

FEWEST = 20  # items of a known class, and of a category that an earlier answer found: of fewer it could not begin there


def rows_of_part(
    task: Task, size: int, start: NDArray[np.int64] | None, order: ContentOrder, random_state: int
) -> NDArray[np.int64]:
    """Rows (m,) of `size` items that teach the classifier, ascending: half of them labelled ones at most.

    Parameters
    ----------
    task : Task
        N items.
    size : int
        How many.
    start : ndarray of int64, shape (N,), optional
        Class that each item was in by an earlier answer, in the order of the content; of each of them some are drawn.
    order : ContentOrder
        Of the rows: which of them are drawn depends on their content alone.
    random_state : int
        Seed.
    """
    is_hinted = np.zeros(len(task.y), dtype=np.bool_)
    if task.hints is not None:
        is_hinted[task.hints.forbidden[0]] = is_hinted[task.hints.placed[0]] = True
    y = order.labels(task.y)
    places = np.flatnonzero(~is_hinted[order.rows])  # of the content's order
    labelled, others = places[y[places] != UNLABELLED], places[y[places] == UNLABELLED]
    n = size - int(is_hinted.sum())
    some = _drawn(y[labelled], min(len(labelled), n // 2), random_state)
    strata = np.zeros(len(others), dtype=np.int64) if start is None else start[others] + 1
    rest = _drawn(strata, n - len(some), random_state)
    if not len(rest) or (len(labelled) and not len(some)):
        raise InputError(
            f"A fit on {size:,} items has no room for {FEWEST} of each class and others beside; fit on more."
        )
    drawn = order.rows[np.concatenate([labelled[some], others[rest]])]
    return np.sort(np.concatenate([np.flatnonzero(is_hinted), drawn]))


def _drawn(strata: NDArray[np.int64], n: int, random_state: int) -> NDArray[np.int64]:
    """Which of some items (n,) are drawn, of every stratum something; none where there is no room for so many."""
    if n >= len(strata):
        return np.arange(len(strata))
    least = int(np.minimum(np.bincount(strata), FEWEST).sum())
    return stratified_sample(strata, n, random_state, FEWEST).rows if least <= n else np.empty(0, dtype=np.int64)


def task_of_part(task: Task, rows: NDArray[np.int64]) -> Task:
    """The same task on some rows (m,), among which is every item that somebody has said more of than a label."""
    place = np.full(len(task.y), UNLABELLED, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    hints: Hints | None = task.hints
    if hints is not None:
        (not_of, no_class), (put, into) = hints.forbidden, hints.placed
        hints = hints._replace(start=hints.start[rows], forbidden=(place[not_of], no_class), placed=(place[put], into))
    x = np.asarray(task.x[rows], dtype=np.float32)
    return task._replace(
        x=x, y=task.y[rows], views=task.views.select(rows) if task.views is not None else None, hints=hints
    )


def hooks_of_part(hooks: Hooks, rows: NDArray[np.int64], n: int) -> Hooks:
    """The same hooks, told of all n items what happens to those of the part."""

    def watch(epoch: int, sets: dict[str, NDArray[np.bool_]]) -> None:
        def of_all(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
            found = np.zeros(n, dtype=np.bool_)
            found[rows] = mask
            return found

        hooks.watch(epoch, {name: of_all(mask) for name, mask in sets.items()})

    return dataclasses.replace(hooks, watch=watch)
