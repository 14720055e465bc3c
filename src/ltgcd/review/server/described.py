"""The classes of a review as the page shows them. After an action only what changed is described anew.

An action costs what it names: the columns of items are mended where they differ, counts and sums lose what an item was
and gain what it is (both exactly, so that an undo gives the same figures to the last digit), and what depends on where
the items of a class lie is computed for the classes that gained or lost an item, or were told something.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from ltgcd.data.collection import UNLABELLED
from ltgcd.discovery.classes import JUNK
from ltgcd.graph.class_shapes import shapes_after
from ltgcd.output.report.class_figures import ClassFigures
from ltgcd.output.report.tally import mask_of
from ltgcd.review.server.columns import columns_of_review, mended
from ltgcd.review.state import Review


class Described(ClassFigures):
    """The classes of a review.

    Parameters
    ----------
    z : ndarray of float32, shape (N, d)
        What `ltgcd.output.report.geometry.whitened_features` gives.
    y : ndarray of int64, shape (N,)
        Labels of the source, -1 for none.
    review : Review
        What it is like at first.
    """

    def __init__(self, z: NDArray[np.float32], y: NDArray[np.int64], review: Review) -> None:
        super().__init__(z, y)
        self._begin(review)

    def _begin(self, review: Review) -> None:
        """Describe everything: at first, and after another fit."""
        self.review = review
        self.odd: NDArray[np.int64] | None = None  # odd ones of this fit, once somebody has asked for them
        self._found_confidence = np.asarray(review.base.column("confidence").to_numpy(), dtype=np.float32)
        now = columns_of_review(review, self.labelled)
        self.describe(now, review.class_names(), self._known_mask(review, review.next_code))

    @staticmethod
    def _known_mask(review: Review, k: int) -> NDArray[np.bool_]:
        return mask_of(np.array(sorted(review.known_classes()), dtype=np.int64), k)

    def _kept_apart(self) -> Collection[frozenset[int]]:
        return self.review.distinct

    def update(self, review: Review) -> NDArray[np.int64]:
        """Take another state of the review; gives the rows whose class, status or mark changed."""
        if review.base is not self.review.base:
            before = self.now
            self._begin(review)
            now = self.now
            differs = (before.code != now.code) | (before.status != now.status) | (before.given != now.given)
            return np.flatnonzero(differs).astype(np.int64)
        rows = self._differing(review)
        now, k = self.now, max(review.next_code, len(self.shapes.counts))
        self._make_room(k)
        code, status, given = now.code[rows], now.status[rows], now.given[rows]
        members, examples = now.members[rows], now.examples[rows]
        had_sure = self.tally.sizes > 0
        self.tally.add(now, self.labelled, rows, -1)
        mended(now, review, self.labelled, rows, self._found_confidence)
        self.review = review
        self.tally.add(now, self.labelled, rows, 1)
        moved = self._mend_shapes(rows, members, examples, had_sure)
        anew = _codes(code, now.code[rows], moved)
        self._compare(self.rows_in(anew), anew)
        for one in anew.tolist():
            self._terms.pop(one, None)
        self._describe(review.class_names(), self._known_mask(review, k))
        changed = (code != now.code[rows]) | (status != now.status[rows]) | (given != now.given[rows])
        return np.asarray(rows[changed])

    def _differing(self, review: Review) -> NDArray[np.int64]:
        """Rows whose columns may be others in this state: those spoken of, and those of a class that got a name."""
        before = self.review
        differs = self.now.code != review.code
        for name in ("given", "junk", "unsure"):
            held, fresh = getattr(before, name), getattr(review, name)
            if held is not fresh:
                differs |= held != fresh
        renamed = np.array(sorted(before.known_classes() ^ review.known_classes()), dtype=np.int64)
        if len(renamed):
            differs |= mask_of(renamed, review.next_code)[review.code]
        return np.flatnonzero(differs).astype(np.int64)

    def _make_room(self, k: int) -> None:
        self.tally.grow(k)
        more = k - len(self.far)
        if more > 0:
            self._share, self.far = np.append(self._share, np.zeros(more)), np.append(self.far, [0] * more)

    def _mend_shapes(
        self,
        rows: NDArray[np.int64],
        members: NDArray[np.int64],
        examples: NDArray[np.int64],
        had_sure: NDArray[np.bool_],
    ) -> NDArray[np.int64]:
        """Mend which items show what their class is like; gives the classes whose members are others.

        The unsure items of a class count only as long as it has no sure one, so they come and go with the first.
        """
        now, has_sure, k = self.now, self.tally.sizes > 0, len(self.tally.sizes)
        turned = np.flatnonzero(has_sure != had_sure).astype(np.int64)
        if len(turned):
            others = np.setdiff1d(self.rows_in(turned), rows)
            rows, members = np.append(rows, others), np.append(members, now.members[others])
            examples = np.append(examples, now.examples[others])
        code = now.code[rows]
        shows = now.sure[rows] | (~has_sure[code] & (now.status[rows] != JUNK))
        now.members[rows] = np.where(shows, code, UNLABELLED)
        changes = [(members, now.members[rows]), (examples, now.examples[rows])]
        self.shapes, self.example_shapes = shapes_after([self.shapes, self.example_shapes], self.z, rows, changes, k)
        gone = members != now.members[rows]
        return _codes(members[gone], now.members[rows[gone]])

    def rows_in(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of some classes, junk included."""
        if len(codes) == 1:
            return np.flatnonzero(self.now.code == codes[0]).astype(np.int64)
        return np.flatnonzero(mask_of(codes, len(self.tally.sizes))[self.now.code]).astype(np.int64)

    def doubt(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Chance that each of some rows (n,) is wrong: by its confidence, or for it lies far from the given ones."""
        return np.asarray(np.maximum(1.0 - self.now.confidence[rows], self._foreign[rows]))


def _codes(*groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Classes that occur in any of these columns."""
    found = np.zeros(2 + max((int(group.max()) for group in groups if len(group)), default=0), dtype=np.bool_)
    for group in groups:
        found[group + 1] = True  # the first is that of no class
    return np.flatnonzero(found[1:]).astype(np.int64)
