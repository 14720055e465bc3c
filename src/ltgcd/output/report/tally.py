"""Labels of items as columns, and how many items are what in each class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltgcd.data.collection import UNLABELLED
from ltgcd.discovery.assignments import core
from ltgcd.discovery.classes import JUNK, STATUSES, UNSURE

GRAIN = 2.0**30  # confidences are added up as whole numbers of this part of 1: exact, in any order


@dataclass(frozen=True, eq=False)
class Now:
    """The columns that everything else about the classes of N items follows from.

    Attributes
    ----------
    code, status, confidence : ndarray, shape (N,)
        Class, position in `STATUSES` and confidence of each item.
    given : ndarray of bool, shape (N,)
        Items that a person has said something about in a review.
    sure : ndarray of bool, shape (N,)
        Items that are in a class: neither unsure nor junk.
    members : ndarray of int64, shape (N,)
        Class of each item that shows what its class is like, -1 for the others.
    examples : ndarray of int64, shape (N,)
        Class of each item that a person gave it, in the source or in a review; -1 for the others.
    """

    code: NDArray[np.int64]
    status: NDArray[np.uint8]
    confidence: NDArray[np.float32]
    given: NDArray[np.bool_]
    sure: NDArray[np.bool_]
    members: NDArray[np.int64]
    examples: NDArray[np.int64]


def columns_of(
    code: NDArray[np.int64],
    status: NDArray[np.uint8],
    confidence: NDArray[np.float32],
    given: NDArray[np.bool_],
    labelled: NDArray[np.bool_],
) -> Now:
    """The columns of N items, of which some are `given` by a person and some `labelled` in the source."""
    junk = status == JUNK
    sure = (status != UNSURE) & ~junk
    members = core(np.where(junk, UNLABELLED, code), sure)
    examples = np.where((given | labelled) & sure, code, UNLABELLED).astype(np.int64)
    return Now(code, status, confidence, given | junk, sure, members, examples)


def mask_of(codes: NDArray[np.int64], k: int) -> NDArray[np.bool_]:
    """Which of k classes (K,) are among some."""
    found = np.zeros(k, dtype=np.bool_)
    found[codes] = True
    return found


class Tally:
    """Numbers of items by class (K,), and of all, kept exact by taking off what an item was and adding what it is."""

    NAMES = ("sizes", "open_items", "leaning", "given", "labelled", "examples")

    def __init__(self, k: int) -> None:
        self.sizes, self.open_items, self.leaning, self.given, self.labelled, self.examples = (
            np.zeros(k) for _name in self.NAMES
        )
        self.sure_confidence, self.open_confidence, self.unsure_confidence = (np.zeros(k) for _ in range(3))
        self.statuses = np.zeros(len(STATUSES), dtype=np.int64)
        self.given_items = self.settled = 0

    def grow(self, k: int) -> None:
        """Make room for classes that are new."""
        for name, held in vars(self).items():
            if name != "statuses" and isinstance(held, np.ndarray) and len(held) < k:
                setattr(self, name, np.append(held, np.zeros(k - len(held))))

    def add(self, now: Now, labelled: NDArray[np.bool_], rows: slice | NDArray[np.int64], sign: int) -> None:
        """Count some rows in (1) or out (-1)."""
        code, status, sure, given = now.code[rows], now.status[rows], now.sure[rows], now.given[rows]
        is_example = now.examples[rows] >= 0
        part = np.rint(now.confidence[rows].astype(np.float64) * GRAIN)
        k = len(self.sizes)
        # Every item is of one of 32 kinds, so that two counts, by class and kind, give all of them.
        flags = (sure, is_example, status == UNSURE, given, labelled[rows])
        kind = np.packbits(flags[::-1], axis=0)[0] >> 3  # one byte an item, the first flag its lowest bit
        place = code * 32 + kind
        n = sign * np.bincount(place, minlength=32 * k).reshape(k, 32).astype(np.float64)
        confidence = sign * np.bincount(place, part, minlength=32 * k).reshape(k, 32)
        is_sure, example, unsure, by_person, from_source = (
            (np.arange(32) >> bit & 1).astype(np.bool_) for bit in range(5)
        )
        is_open = is_sure & ~example
        self.sizes += n[:, is_sure].sum(axis=1)
        self.open_items += n[:, is_open].sum(axis=1)
        self.leaning += n[:, unsure].sum(axis=1)
        self.given += n[:, by_person & is_sure].sum(axis=1)
        self.labelled += n[:, from_source & is_sure].sum(axis=1)
        self.examples += n[:, example].sum(axis=1)
        self.sure_confidence += confidence[:, is_sure].sum(axis=1)
        self.open_confidence += confidence[:, is_open].sum(axis=1)
        self.unsure_confidence += confidence[:, unsure].sum(axis=1)
        self.statuses += sign * np.bincount(status, minlength=len(STATUSES))
        self.given_items += sign * int(given.sum())
        self.settled += sign * int((is_example | (status == JUNK)).sum())

    def mean(self, total: NDArray[np.float64], count: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean confidence (K,) of a kind of items by class; 0 where there is none."""
        return np.asarray(total / GRAIN / np.maximum(count, 1))
