"""Sort rows and classes by their content, so that no answer depends on the order in which they are given.

Random draws, ties and sums depend on the order in which rows stand and on the numbers that classes have. A person who
sorts a table again, or renames a class, expects the same answer. So every computation that draws works on rows and
classes in the order of this module, and its result is put back into the caller's.

The order is that of a hash of each row's numbers: as good as a random one, and the same for the same rows. A class
stands where the sum of the hashes of its labelled rows puts it. Neither ids nor names have a say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.progress import progress
from ltgcd.data.collection import UNLABELLED

T = TypeVar("T", bound=np.generic)
BLOCK = 4096  # rows that are hashed at once
PART = 2**16  # and between two words on how far that is


@dataclass(frozen=True, eq=False)
class ContentOrder:
    """Where rows and classes stand by their content.

    Attributes
    ----------
    rows : ndarray of int64, shape (N,)
        Row of the caller's that stands at each place.
    classes : ndarray of int64, shape (C,)
        Class of the caller's that has each number.
    first_copy : ndarray of int64, shape (N,)
        For each place the first one that holds the same numbers and the same label: itself, where there is no copy.
    """

    rows: NDArray[np.int64]
    classes: NDArray[np.int64]
    first_copy: NDArray[np.int64]

    def labels(self, y: NDArray[np.int64]) -> NDArray[np.int64]:
        """The caller's labels (N,) in this order of rows, with these numbers of classes; -1 stays -1."""
        number = np.empty(len(self.classes) + 1, dtype=np.int64)
        number[self.classes] = np.arange(len(self.classes))
        number[-1] = UNLABELLED
        return np.asarray(number[y[self.rows]], dtype=np.int64)

    def caller_rows(self, values: NDArray[T]) -> NDArray[T]:
        """Values (N, …) of this order in the caller's order of rows."""
        out = np.empty_like(values)
        out[self.rows] = values
        return out

    def as_first_copy(self, values: NDArray[T]) -> NDArray[T]:
        """Values (N, …) of this order, with those of the first copy for all copies of an item."""
        return values[self.first_copy]

    def caller_classes(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of classes (n,) as the caller's; those behind the known classes stay as they are."""
        known = (labels >= 0) & (labels < len(self.classes))
        if not len(self.classes):
            return labels
        return np.where(known, self.classes[np.where(known, labels, 0)], labels)


def content_order(x: NDArray[np.float32], y: NDArray[np.int64], n_classes: int) -> ContentOrder:
    """Find the order of rows (N, D) with labels (N,), -1 for none, of `n_classes` known classes.

    Rows that are equal in every number and in their label can't be told apart; they keep the order they have, and
    `ContentOrder.as_first_copy` gives them the same answer.
    """
    keys = np.empty((len(x), 2), dtype=np.uint64)
    with progress("putting items in order", len(x)) as advance:
        for start in range(0, len(x), PART):
            keys[start : start + PART] = row_keys(x[start : start + PART])
            advance(min(PART, len(x) - start))
    labelled = np.flatnonzero(y != UNLABELLED)
    sums = np.zeros((n_classes, 2), dtype=np.uint64)
    np.add.at(sums, y[labelled], keys[labelled])  # modulo 2⁶⁴, so that no order of adding matters
    present = np.bincount(y[labelled], minlength=n_classes) > 0
    classes = np.lexsort((sums[:, 1], sums[:, 0], ~present)).astype(np.int64)
    place = np.empty(n_classes + 1, dtype=np.int64)
    place[classes], place[-1] = np.arange(n_classes), n_classes  # unlabelled copies behind labelled ones
    of = place[y]
    rows = np.lexsort((of, keys[:, 1], keys[:, 0])).astype(np.int64)
    same = np.zeros(len(rows), dtype=np.bool_)
    same[1:] = (keys[rows[1:]] == keys[rows[:-1]]).all(axis=1) & (of[rows[1:]] == of[rows[:-1]])
    first = np.maximum.accumulate(np.where(same, 0, np.arange(len(rows))))
    return ContentOrder(rows, classes, first.astype(np.int64))


def row_keys(x: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Two 64-bit hashes of the bits of each row (N, D), shape (N, 2): different rows differ but for one in 10³⁰."""
    x = np.ascontiguousarray(x, dtype=np.float32)
    odd = np.random.RandomState(20_111).randint(0, 2**32, size=(2, 2, x.shape[1]), dtype=np.uint64)
    factors = (odd[0] << np.uint64(32)) | odd[1] | np.uint64(1)
    keys = np.empty((len(x), 2), dtype=np.uint64)
    for start in range(0, len(x), BLOCK):
        bits = (x[start : start + BLOCK] + np.float32(0)).view(np.uint32).astype(np.uint64)  # -0.0 is 0.0
        bits = _mixed(bits + np.uint64(0x9E3779B97F4A7C15))
        keys[start : start + BLOCK] = bits @ factors.T
    return _mixed(keys)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Bits spread over the whole word (the finaliser of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
