"""Label items with a fitted model alone, block by block: new ones, or those that had no part in the fit."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.engine.rows import Arrays, Compute, by_rows
from ltgcd.common.tables import RowTable, blocks
from ltgcd.data.collection import UNLABELLED
from ltgcd.features.views import VectorViews, Views
from ltgcd.training.model import FittedModel

LABELLED = 2**15  # vectors of a block, in whole batches


class Said(NamedTuple):
    """What a model says of n items.

    Attributes
    ----------
    labels, largest : ndarrays, shape (n,)
        Class, most often the likeliest, and its probability.
    runner_up : ndarray of int64, shape (n,)
        Most likely class besides.
    """

    labels: NDArray[np.int64]
    largest: NDArray[np.float32]
    runner_up: NDArray[np.int64]


def said_of(fitted: FittedModel, views: Views, y: NDArray[np.int64] | None = None) -> Said:
    """What a model says of items, as `answers` does; vectors block by block, which others may share."""
    n = len(views)
    if not isinstance(views, VectorViews):
        return answers(fitted.table(views), y)
    arrays: dict[str, NDArray[Any]] = {"x": views.x} if y is None else {"x": views.x, "y": y}
    said = _empty(n)
    columns: list[NDArray[Any]] = [*said]
    for place, found in by_rows(partial(_labeller, fitted), arrays, n, LABELLED, "labelling"):
        for column, part in zip(columns, found, strict=True):
            column[place] = part
    return said


def _labeller(fitted: FittedModel, arrays: Arrays) -> Compute:
    x, y = arrays["x"], arrays.get("y")

    def compute(start: int, stop: int) -> Said:
        table = fitted.table(VectorViews(np.array(x[start:stop])))
        return answers(table, None if y is None else np.array(y[start:stop]))

    return compute


def answers(p: RowTable, y: NDArray[np.int64] | None = None) -> Said:
    """Label, its probability, and the most likely class besides it, of every item (n,).

    An item that is labelled in `y` (n,), where it is given, keeps its label; its probability is what the model thinks
    of that.
    """
    n, k = p.shape
    said = _empty(n)
    for place, block in blocks(p):
        row, label = np.arange(len(block)), block.argmax(axis=1)
        if y is not None:
            label = np.where(y[place] != UNLABELLED, y[place], label)
        said.labels[place], said.largest[place] = label, block[row, label]
        block[row, label] = -1  # what is left is the runner-up
        said.runner_up[place] = block.argmax(axis=1) if k > 1 else label
    return said


def _empty(n: int) -> Said:
    return Said(np.empty(n, dtype=np.int64), np.empty(n, dtype=np.float32), np.empty(n, dtype=np.int64))
