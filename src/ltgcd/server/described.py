"""The classes of a review as the page shows them. After an action only what changed is described anew.

An action costs what it names: the columns of items are mended where they differ, counts and sums lose what an item was
and gain what it is (both exactly, so that an undo gives the same figures to the last digit), and what depends on where
the items of a class lie is computed for the classes that gained or lost an item, or were told something.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltgcd.data.collection import UNLABELLED
from ltgcd.discovery.classes import JUNK
from ltgcd.report.categories import Neighbour, suggested_name
from ltgcd.report.terms import Vocabulary
from ltgcd.review.class_shapes import (
    Spread,
    class_shapes,
    class_similarity,
    coherence,
    contamination,
    own_cosines,
    rounded,
    shapes_after,
    within_cosine,
)
from ltgcd.review.state import Review
from ltgcd.review.suggest import Queue, queue
from ltgcd.server.columns import Tally, columns_of, mask_of, mended

NEAREST = 3  # known classes beside a class


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
        self.z, self.labelled = rounded(z), labelled
        self.vocabulary: Vocabulary | None = None
        self._texts = np.empty(0, dtype=np.int64)  # rows of the vocabulary
        self._terms: dict[int, tuple[str, ...]] = {}
        self._begin(review)

    def _begin(self, review: Review) -> None:
        """Describe everything: at first, and after another fit."""
        self.now, k = columns_of(review, self.labelled), review.next_code
        self._found_confidence = np.asarray(review.base.column("confidence").to_numpy(), dtype=np.float32)
        self.shapes = class_shapes(self.z, self.now.members, k)
        self.example_shapes = class_shapes(self.z, self.now.examples, k)
        self.tally = Tally(k)
        self.tally.add(self.now, self.labelled, slice(None), 1)
        self._usual = self._spread_of_source(k)
        self._share, self.far = np.zeros(k), np.zeros(k, dtype=np.int64)
        self._foreign = np.zeros(len(self.z))
        self._terms.clear()
        self._compare(np.arange(len(self.z), dtype=np.int64), np.arange(k, dtype=np.int64))
        self._describe()

    def _spread_of_source(self, k: int) -> Spread:
        """How far the labelled items of the source lie from their centres: no edit changes that."""
        rows = np.flatnonzero(self.labelled).astype(np.int64)
        own = np.asarray(self.now.review.base.column("label").to_numpy(), dtype=np.int64)[rows]
        x = self.z[rows]
        every, inside = np.arange(len(rows), dtype=np.int64), np.ones(len(rows), dtype=np.bool_)
        return Spread.of(own_cosines(x, every, own, inside, class_shapes(x, own, k)), own, k)

    def update(self, review: Review) -> NDArray[np.int64]:
        """Take another state of the review; gives the rows whose class, status or mark changed."""
        if review.base is not self.now.review.base:
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
        self.now = mended(now, review, self.labelled, rows, self._found_confidence)
        self.tally.add(self.now, self.labelled, rows, 1)
        now = self.now
        moved = self._mend_members(rows, members, had_sure)
        told = rows[examples != now.examples[rows]]
        was = examples[examples != now.examples[rows]]
        self.example_shapes = shapes_after(self.example_shapes, self.z, told, was, now.examples[told], k)
        anew = _codes(code, now.code[rows], moved)
        self._compare(self.rows_in(anew), anew)
        for one in anew.tolist():
            self._terms.pop(one, None)
        self._describe()
        changed = (code != now.code[rows]) | (status != now.status[rows]) | (given != now.given[rows])
        return np.asarray(rows[changed])

    def _differing(self, review: Review) -> NDArray[np.int64]:
        """Rows whose columns may be others in this state: those spoken of, and those of a class that got a name."""
        before = self.now.review
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

    def _mend_members(
        self, rows: NDArray[np.int64], members: NDArray[np.int64], had_sure: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Mend which items show what their class is like; gives the classes whose shape is another one.

        The unsure items of a class count only as long as it has no sure one, so they come and go with the first.
        """
        now, has_sure = self.now, self.tally.sizes > 0
        turned = np.flatnonzero(has_sure != had_sure).astype(np.int64)
        if len(turned):
            others = np.setdiff1d(self.rows_in(turned), rows)
            rows, members = np.append(rows, others), np.append(members, now.members[others])
        code = now.code[rows]
        shows = now.sure[rows] | (~has_sure[code] & (now.status[rows] != JUNK))
        now.members[rows] = np.where(shows, code, UNLABELLED)
        gone = members != now.members[rows]
        self.shapes = shapes_after(
            self.shapes, self.z, rows[gone], members[gone], now.members[rows[gone]], len(self.tally.sizes)
        )
        return _codes(members[gone], now.members[rows[gone]])

    def rows_in(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of some classes, junk included."""
        if len(codes) == 1:
            return np.flatnonzero(self.now.code == codes[0]).astype(np.int64)
        return np.flatnonzero(mask_of(codes, len(self.tally.sizes))[self.now.code]).astype(np.int64)

    def _compare(self, rows: NDArray[np.int64], codes: NDArray[np.int64]) -> None:
        """Compare the assigned items of some classes with those that people gave them; `rows` are all of theirs."""
        now, k = self.now, len(self.far)
        code, is_example = now.code[rows], now.examples[rows] >= 0
        cosine = own_cosines(self.z, rows, code, is_example, self.example_shapes)
        found = contamination(cosine, code, is_example, now.sure[rows] & ~is_example, k, self._usual)
        self._share[codes], self.far[codes] = found.share[codes], found.far[codes]
        self._foreign[rows] = found.foreign

    def set_vocabulary(self, vocabulary: Vocabulary, rows: NDArray[np.int64]) -> None:
        """Describe classes by words, too, from the texts of some rows: counted beside, for that takes seconds."""
        self.vocabulary, self._texts = vocabulary, rows

    # ------------------------------------------------------------ figures of all classes

    def _describe(self) -> None:
        now, tally, k = self.now, self.tally, len(self.shapes.counts)
        self.sizes, self.open_items = tally.sizes.astype(np.int64), tally.open_items.astype(np.int64)
        self.leaning, self.given = tally.leaning.astype(np.int64), tally.given.astype(np.int64)
        self.labelled_items = tally.labelled.astype(np.int64)
        self.similarity = class_similarity(self.shapes)
        self.coherence = coherence(self.shapes)
        unsure_alone = tally.mean(tally.unsure_confidence, tally.leaning)
        self.confidence = np.where(self.sizes > 0, tally.mean(tally.sure_confidence, tally.sizes), unsure_alone)
        self.names, known = now.review.class_names(), now.review.known_classes()
        self.known = mask_of(np.array(sorted(known), dtype=np.int64), k)
        nameless = ~self.known & (tally.examples == 0)
        open_confidence = tally.mean(tally.open_confidence, tally.open_items)
        self.queue: Queue = queue(
            self.open_items, open_confidence, self.leaning, self._share, nameless, within_cosine(self.shapes)
        )
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

    @property
    def is_far(self) -> NDArray[np.bool_]:
        """Assigned items (N,) that look different: they lie far from those that people gave their class."""
        return np.asarray(self._foreign > 0)

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
            "far": int(self.far[code]),
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
            return "New: nobody has looked at it yet."
        if doubts.contaminated[code] > max(doubts.wrong[code], 0.05):
            look = "looks" if self.far[code] == 1 else "look"
            return f"{int(self.far[code]):,} of {n:,} assigned items {look} different from the ones that people gave."
        wrong = round(n * float(doubts.wrong[code]))
        if wrong:
            return f"About {wrong:,} of {n:,} items that nobody has confirmed are wrong."
        return f"{n:,} items are not confirmed; nearly all should be right."


def _codes(*groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Classes that occur in any of these columns."""
    found = np.zeros(2 + max((int(group.max()) for group in groups if len(group)), default=0), dtype=np.bool_)
    for group in groups:
        found[group + 1] = True  # the first is that of no class
    return np.flatnonzero(found[1:]).astype(np.int64)
