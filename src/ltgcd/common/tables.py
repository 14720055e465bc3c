"""Tables of N items by K classes that nobody holds as a whole.

At a million items and a thousand classes one of them takes 4 GB, and a pipeline would hold several. So what a model
says is a `RowTable`: rows are computed when they are asked for, block by block. Only what needs the rows of arbitrary
other items (neighbours) keeps something of all of them: the most likely classes of each, `TopClasses`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.numerics import softmax

BUFFER = 64 * 2**20  # bytes of a block of rows in float64
WHOLE = 2**26  # entries of a table that is kept whole: 256 MB. A constant, so that no machine gives another answer
LEAST = 32  # classes of an item that are always kept
PAIR = 8  # bytes of a class and its probability

Rows = slice | NDArray[np.int64]


class Table(Protocol):
    """Rows by columns of numbers: an array, or a `RowTable`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows and of columns."""
        ...

    def __getitem__(self, rows: Any, /) -> NDArray[Any]:  # noqa: ANN401 - arrays take much, here are slices and rows
        """Some rows, as an array."""
        ...


@dataclass(frozen=True, eq=False)
class RowTable:
    """A table (N, K) whose rows are computed when they are asked for, never all at once.

    Attributes
    ----------
    shape : tuple of int
        (N, K).
    compute : callable
        Gives an array (n, K) for a slice or for row numbers (n,).
    """

    shape: tuple[int, int]
    compute: Callable[[Rows], NDArray[np.float32]]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Rows) -> NDArray[np.float32]:
        return self.compute(rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:  # noqa: ANN401 - numpy's own
        """The whole table, for whoever knows that it is small."""
        return np.asarray(self.compute(slice(0, self.shape[0])), dtype=dtype)

    def map(self, function: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> RowTable:
        """The table whose blocks of rows are a function of this one's, with as many columns."""
        return RowTable(self.shape, lambda rows: function(self.compute(rows)))


def probabilities(logits: Table, temperature: float) -> RowTable:
    """Class probabilities (N, K) of logits (N, K) at a temperature, block by block."""
    n, k = logits.shape
    return RowTable((n, k), lambda rows: softmax(logits[rows], temperature))


def blocks(table: Table, rows: NDArray[np.int64] | None = None) -> Iterator[tuple[Rows, NDArray[Any]]]:
    """Blocks of rows of a table, or of some of its rows in their order: which places they take, and the rows."""
    n = table.shape[0] if rows is None else len(rows)
    step = block_rows(table.shape[1])
    for start in range(0, n, step):
        place = slice(start, min(start + step, n))
        yield place, table[place if rows is None else rows[place]]


def block_rows(columns: int) -> int:
    """Rows of a block: a multiple of 256, so that blocks are whole batches of a model."""
    return max(256, BUFFER // (8 * max(columns, 1)) // 256 * 256)


def most_likely(p: Table, rows: NDArray[np.int64] | None = None) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Column with the largest number and that number, of every row or of some of them (n,)."""
    n = p.shape[0] if rows is None else len(rows)
    column, largest = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.float32)
    for place, block in blocks(p, rows):
        column[place], largest[place] = block.argmax(axis=1), block.max(axis=1)
    return column, largest


def at_columns(table: Table, columns: NDArray[np.int64]) -> NDArray[np.float32]:
    """The number of each row (N,) in its own column (N,)."""
    own = np.empty(len(columns), dtype=np.float32)
    for place, block in blocks(table):
        own[place] = block[np.arange(len(block)), columns[place]]
    return own


# ---------------------------------------------------------------- what is kept of all items


@dataclass(frozen=True, eq=False)
class TopClasses:
    """The T most likely classes of each of N items, of K; what is left of an item is shared by its other classes.

    The product of two items' probabilities leaves the others out. It loses at most the (T + 1)-th largest of each: a
    class that is dropped has no more, and the other item's probabilities sum to 1.

    Attributes
    ----------
    k : int
        Number of classes.
    classes : ndarray of int32, shape (N, T)
        Ascending.
    p : ndarray of float32, shape (N, T)
        Their probabilities.
    other : ndarray of float32, shape (N,)
        Probability of each class that is not among them.
    """

    k: int
    classes: NDArray[np.int32]
    p: NDArray[np.float32]
    other: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.p)

    def weighted_sum(self, items: NDArray[np.int64], weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Sums (B, K) of the weighted (B, m) probabilities of items (B, m)."""
        other = self.other[items]
        total = np.repeat((weights * other).sum(axis=1, dtype=np.float32)[:, None], self.k, axis=1)
        line = np.arange(len(items))[:, None]
        for column, weight, least in zip(items.T, weights.T, other.T, strict=True):
            # The classes of an item are distinct, so that no entry is added to twice.
            total[line, self.classes[column]] += weight[:, None] * (self.p[column] - least[:, None])
        return total

    def products(self, rows: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.float32]:
        """p_i · p_j of some items (B,) with some others each (B, m), shape (B, m)."""
        own = np.zeros((len(rows), self.k), dtype=np.float32)
        own[np.arange(len(rows))[:, None], self.classes[rows]] = self.p[rows]
        met = own[np.arange(len(rows))[:, None, None], self.classes[others]]
        return np.asarray(np.einsum("nkt,nkt->nk", met, self.p[others]), dtype=np.float32)


Kept = NDArray[np.float32] | TopClasses  # all classes of every item where that is a small table, else the most likely


def kept_classes(n: int, k: int) -> int:
    """How many classes of each of n items are kept: all, or as many as the memory of `WHOLE` holds."""
    return k if n * k <= WHOLE else min(k, max(LEAST, 4 * WHOLE // (PAIR * n)))


def keep_most_likely(p: Table, rows: NDArray[np.int64] | None = None) -> Kept:
    """The probabilities of every row of a table, or of some of them (n,), or of their most likely classes."""
    n, k = p.shape[0] if rows is None else len(rows), p.shape[1]
    t = kept_classes(n, k)
    whole = np.empty((n, t), dtype=np.float32)
    classes = np.empty((n, t) if t < k else (0, 0), dtype=np.int32)
    for place, block in blocks(p, rows):
        if t == k:
            whole[place] = block
            continue
        top = np.sort(np.argpartition(block, k - t, axis=1)[:, k - t :], axis=1)
        classes[place], whole[place] = top, np.take_along_axis(block, top, axis=1)
    if t == k:
        return whole
    return TopClasses(k, classes, whole, np.maximum(1 - whole.sum(axis=1), 0) / np.float32(k - t))
