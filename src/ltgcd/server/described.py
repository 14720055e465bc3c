"""The classes of a review as the page shows them. After an action only what changed is described anew.

Counts are taken again each time, from columns of N small numbers. What needs the features of items, sums and cosines,
is kept and mended for the classes that gained or lost an item.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltgcd.data.collection import UNLABELLED
from ltgcd.discovery.assignments import core
from ltgcd.discovery.classes import JUNK, UNSURE
from ltgcd.report.categories import Neighbour, suggested_name
from ltgcd.report.terms import Vocabulary
from ltgcd.review.class_shapes import class_shapes, class_similarity, coherence, contamination, own_cosines
from ltgcd.review.state import Review
from ltgcd.review.suggest import Queue, queue

NEAREST = 3  # known classes beside a class


@dataclass(frozen=True, eq=False)
class Now:
    """The columns of a review that everything else follows from.

    Attributes
    ----------
    review : Review
        The review.
    code, status, confidence : ndarray, shape (N,)
        Class, position in `STATUSES` and confidence of each item.
    given : ndarray of bool, shape (N,)
        Items that a person has said something about in this review.
    sure : ndarray of bool, shape (N,)
        Items that are in a class: neither unsure nor junk.
    members : ndarray of int64, shape (N,)
        Class of each item that shows what its class is like, -1 for the others.
    examples : ndarray of int64, shape (N,)
        Class of each item that a person gave it, in the source or here; -1 for the others.
    """

    review: Review
    code: NDArray[np.int64]
    status: NDArray[np.uint8]
    confidence: NDArray[np.float32]
    given: NDArray[np.bool_]
    sure: NDArray[np.bool_]
    members: NDArray[np.int64]
    examples: NDArray[np.int64]


def columns_of(review: Review, labelled: NDArray[np.bool_]) -> Now:
    """The columns of a review of items of which some (N,) are labelled in the source."""
    code, status = review.code, review.status_code
    junk = status == JUNK
    sure = (status != UNSURE) & ~junk
    members = core(np.where(junk, UNLABELLED, code), sure)
    examples = np.where((review.given | labelled) & sure, code, UNLABELLED).astype(np.int64)
    return Now(review, code, status, review.confidence, review.given | junk, sure, members, examples)


class Described:
    """The classes of a review.

    Parameters
    ----------
    z : ndarray of float32, shape (N, d)
        Whitened rows of unit length.
    labelled : ndarray of bool, shape (N,)
        Items that were labelled in the source.
    review : Review
        What it is like at first.
    """

    def __init__(self, z: NDArray[np.float32], labelled: NDArray[np.bool_], review: Review) -> None:
        self.z, self.labelled = z, labelled
        self.vocabulary: Vocabulary | None = None
        self._texts = np.empty(0, dtype=np.int64)  # rows of the vocabulary
        self._terms: dict[int, tuple[str, ...]] = {}
        self.now = columns_of(review, labelled)
        k = review.next_code
        self.shapes = class_shapes(z, self.now.members, k)
        self.example_shapes = class_shapes(z, self.now.examples, k)
        everything = np.arange(len(z), dtype=np.int64)
        self._cosine = own_cosines(z, everything, self.now.code, self.now.examples >= 0, self.example_shapes)
        self._describe()

    def update(self, review: Review) -> NDArray[np.int64]:
        """Take another state of the review; gives the rows whose class, status or mark changed."""
        before, self.now = self.now, columns_of(review, self.labelled)
        now, k = self.now, max(review.next_code, len(self.shapes.counts))
        differs = before.members != now.members
        moved = _codes(before.members[differs], now.members[differs])
        self.shapes = class_shapes(self.z, now.members, k, self.shapes, moved)
        differs = before.examples != now.examples
        told = _codes(before.examples[differs], now.examples[differs])
        self.example_shapes = class_shapes(self.z, now.examples, k, self.example_shapes, told)
        is_told = np.zeros(k, dtype=np.bool_)
        is_told[told] = True
        rows = np.flatnonzero(is_told[now.code] | (before.code != now.code) | differs)
        self._cosine[rows] = own_cosines(self.z, rows, now.code[rows], now.examples[rows] >= 0, self.example_shapes)
        for code in moved.tolist():
            self._terms.pop(code, None)
        self._describe()
        changed = (before.code != now.code) | (before.status != now.status) | (before.given != now.given)
        return np.flatnonzero(changed).astype(np.int64)

    def set_vocabulary(self, vocabulary: Vocabulary, rows: NDArray[np.int64]) -> None:
        """Describe classes by words, too, from the texts of some rows: counted beside, for that takes seconds."""
        self.vocabulary, self._texts = vocabulary, rows

    # ------------------------------------------------------------ figures of all classes

    def _describe(self) -> None:
        now, k = self.now, len(self.shapes.counts)
        is_example = now.examples >= 0
        is_open = now.sure & ~is_example
        self.sizes = _count(now.code, now.sure, k)
        self.open_items = _count(now.code, is_open, k)
        self.leaning = _count(now.code, now.status == UNSURE, k)
        self.given = _count(now.code, now.given & now.sure, k)
        self.labelled_items = _count(now.code, self.labelled & now.sure, k)
        self.similarity = class_similarity(self.shapes)
        self.coherence = coherence(self.shapes)
        contaminated, self.far, self._foreign = contamination(self._cosine, now.code, is_example, is_open, k)
        open_confidence = _mean(now.code, now.confidence, is_open, k)
        self.confidence = np.where(
            self.sizes > 0,
            _mean(now.code, now.confidence, now.sure, k),
            _mean(now.code, now.confidence, now.status == UNSURE, k),
        )
        self.names, known = now.review.class_names(), now.review.known_classes()
        self.known = np.isin(np.arange(k), list(known))
        nameless = ~self.known & (_count(now.code, is_example, k) == 0)
        self.queue: Queue = queue(self.open_items, open_confidence, self.leaning, contaminated, nameless)
        self.accepted = (self.sizes > 0) & (self.open_items == 0)
        self._nearest = self._nearest_known()
        self.shown = [code for code in self.names if self.sizes[code] or self.leaning[code] or self.known[code]]
        self.shown.sort(key=lambda code: (-self.queue.gain[code], code))

    def _nearest_known(self) -> list[list[tuple[int, float]]]:
        """The most similar known classes of each class, itself left out."""
        eligible = np.flatnonzero(self.known & (self.shapes.counts > 0))
        cosines = self.similarity[:, eligible].copy()
        cosines[eligible, np.arange(len(eligible))] = -2.0
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :NEAREST]
        chosen = np.take_along_axis(cosines, best, axis=1)
        return [
            [
                (int(eligible[at]), round(float(cosine), 3))
                for at, cosine in zip(columns, row, strict=True)
                if cosine > -2
            ]
            for columns, row in zip(best, chosen, strict=True)
        ]

    def doubt(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Chance that each of some rows (n,) is wrong: by its confidence, or for it lies far from the given ones."""
        return np.asarray(np.maximum(1.0 - self.now.confidence[rows], self._foreign[rows]))

    # ------------------------------------------------------------ one class

    def classes(self) -> list[dict[str, Any]]:
        """Every class that the page shows, in the order of the queue."""
        return [self._class(code) for code in self.shown]

    def _class(self, code: int) -> dict[str, Any]:
        terms = self.terms(code)
        near = [Neighbour(other, self.names[other], cosine) for other, cosine in self._nearest[code]]
        has_shape = bool(self.shapes.counts[code])
        return {
            "code": code,
            "name": self.names[code],
            "known": bool(self.known[code]),
            "size": int(self.sizes[code]),
            "given": int(self.given[code]),
            "leaning": int(self.leaning[code]),
            "labelled": int(self.labelled_items[code]),
            "confidence": round(float(self.confidence[code]), 3),
            "coherence": None if np.isnan(self.coherence[code]) else round(float(self.coherence[code]), 3),
            "suggested": "" if self.known[code] or not has_shape else suggested_name(terms, tuple(near)),
            "terms": list(terms),
            "nearest": [[other, cosine] for other, cosine in self._nearest[code]] if has_shape else [],
            "gain": round(float(self.queue.gain[code]), 2),
            "why": self._why(code),
            "contaminated": round(float(self.queue.contaminated[code]), 3),
            "accepted": bool(self.accepted[code]),
        }

    def terms(self, code: int) -> tuple[str, ...]:
        """Words that tell a class from the others; none where the items are no texts."""
        if self.vocabulary is None:
            return ()
        if code not in self._terms:
            rows = np.flatnonzero(self.now.members[self._texts] == code)
            self._terms[code] = tuple(self.vocabulary.terms(rows))
        return self._terms[code]

    def _why(self, code: int) -> str:
        """One sentence: why a class stands where it does in the queue."""
        n, leaning = int(self.open_items[code]), int(self.leaning[code])
        doubts = self.queue
        if n == 0:
            if leaning:
                return f"{leaning:,} unsure items lean to it."
            return "Every item is confirmed." if self.sizes[code] else "No item is in it."
        if doubts.nameless[code]:
            return f"New: nobody has looked at its {n:,} items yet." if n > 1 else "New: one item, not looked at yet."
        if doubts.contaminated[code] > max(doubts.wrong[code], 0.05):
            return f"{int(self.far[code]):,} of {n:,} assigned items lie far from the ones that people gave."
        wrong = round(n * float(doubts.wrong[code]))
        if wrong:
            return f"About {wrong:,} of {n:,} items that nobody has confirmed are wrong."
        return f"{n:,} items are not confirmed; nearly all should be right."


def _codes(*groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Classes that occur in any of these columns."""
    return np.setdiff1d(np.concatenate(groups), [UNLABELLED])


def _count(code: NDArray[np.int64], where: NDArray[np.bool_], k: int) -> NDArray[np.int64]:
    return np.bincount(code[where], minlength=k).astype(np.int64)


def _mean(
    code: NDArray[np.int64], values: NDArray[np.floating], where: NDArray[np.bool_], k: int
) -> NDArray[np.float64]:
    """Mean (K,) of some items' values by class; 0 where there is none."""
    total = np.bincount(code[where], weights=values[where], minlength=k)
    return np.asarray(total / np.maximum(np.bincount(code[where], minlength=k), 1))
