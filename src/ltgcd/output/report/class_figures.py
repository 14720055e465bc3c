"""Every class of some items in figures: the one computation behind the report, the page of a review and the names.

What depends on nothing but the sums of the classes is cheap enough to be done after every action of a review; what
depends on where the items lie is done for the classes that an action touched, see `ltgcd.review.server.described`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.class_shapes import (
    Spread,
    class_shapes,
    class_similarity,
    coherence,
    contamination,
    own_cosines,
    rounded,
    within_cosine,
)
from ltgcd.output.report.queue import Queue, queue
from ltgcd.output.report.sentences import plural
from ltgcd.output.report.tally import Now, Tally
from ltgcd.output.report.terms import Vocabulary
from ltgcd.review.suggest import twins

NEAREST = 3  # known classes beside a class


class Neighbour(NamedTuple):
    """A known class beside a category, with the cosine of the two centres."""

    code: int
    name: str
    cosine: float


class ClassFigures:
    """The classes of N items.

    Parameters
    ----------
    z : ndarray of float32, shape (N, d)
        What `ltgcd.output.report.geometry.whitened_features` gives.
    y : ndarray of int64, shape (N,)
        Labels of the source, -1 for none; which number stands for which class plays no part.
    """

    def __init__(self, z: NDArray[np.float32], y: NDArray[np.int64]) -> None:
        self.z, self.labelled = rounded(z), np.asarray(y != UNLABELLED)
        self._usual = self._spread_of_source(y)
        self.vocabulary: Vocabulary | None = None
        self._texts = np.empty(0, dtype=np.int64)  # rows of the vocabulary
        self._terms: dict[int, tuple[str, ...]] = {}

    def _spread_of_source(self, y: NDArray[np.int64]) -> Spread:
        """How far the labelled items of the source lie from their centres: no edit changes that."""
        rows = np.flatnonzero(self.labelled).astype(np.int64)
        own, x, k = y[rows], self.z[rows], int(y.max(initial=-1)) + 1
        every, inside = np.arange(len(rows), dtype=np.int64), np.ones(len(rows), dtype=np.bool_)
        cosines = own_cosines(x, every, own, inside, class_shapes(x, own, k))
        told = cosines[np.isfinite(cosines)]
        self.half = float(np.median(told)) if len(told) else 1.0  # of the labelled items lie so near to their class
        return Spread.of(cosines, own, k)

    def describe(self, now: Now, names: Mapping[int, str], known: NDArray[np.bool_]) -> None:
        """Describe everything: the labels `now`, in classes with these names by code, of which some (K,) are known."""
        self.now, k = now, len(known)
        self.shapes = class_shapes(self.z, now.members, k)
        self.example_shapes = class_shapes(self.z, now.examples, k)
        self.tally = Tally(k)
        self.tally.add(now, self.labelled, slice(None), 1)
        self._share, self.far = np.zeros(k), np.zeros(k, dtype=np.int64)
        self._foreign = np.zeros(len(self.z))
        self._terms.clear()
        self._compare(np.arange(len(self.z), dtype=np.int64), np.arange(k, dtype=np.int64))
        self._describe(names, known)

    def _compare(self, rows: NDArray[np.int64], codes: NDArray[np.int64]) -> None:
        """Compare the assigned items of some classes with those that people gave them; `rows` are all of theirs."""
        now, k = self.now, len(self.far)
        self._foreign[rows] = 0
        rows = rows[now.sure[rows] & (self.example_shapes.counts[now.code[rows]] > 0)]  # the others can't be compared
        code, is_example = now.code[rows], now.examples[rows] >= 0
        cosine = own_cosines(self.z, rows, code, is_example, self.example_shapes)
        # What people confirm is what they looked at, the middle of a class first: it tells where the class is, and
        # nothing of how wide it is. Measured by the sixteen items nearest to the centre, a third of a category lay far,
        # by sixteen drawn at random 3 % (texts and plankton; 5 % either way by the width of labelled classes).
        found = contamination(cosine, code, self.labelled[rows] & is_example, ~is_example, k, self._usual)
        self._share[codes], self.far[codes] = found.share[codes], found.far[codes]
        self._foreign[rows] = found.foreign

    def set_vocabulary(self, vocabulary: Vocabulary, rows: NDArray[np.int64]) -> None:
        """Describe classes by words, too, from the texts of some rows: counted beside, for that takes seconds."""
        self.vocabulary, self._texts = vocabulary, rows

    # ------------------------------------------------------------ figures of all classes

    def _describe(self, names: Mapping[int, str], known: NDArray[np.bool_]) -> None:
        tally = self.tally
        self.names, self.known = names, known
        self.sizes, self.open_items = tally.sizes.astype(np.int64), tally.open_items.astype(np.int64)
        self.leaning, self.given = tally.leaning.astype(np.int64), tally.given.astype(np.int64)
        self.labelled_items = tally.labelled.astype(np.int64)
        self.similarity = class_similarity(self.shapes)
        self.coherence = coherence(self.shapes)
        unsure_alone = tally.mean(tally.unsure_confidence, tally.leaning)
        self.confidence = np.where(self.sizes > 0, tally.mean(tally.sure_confidence, tally.sizes), unsure_alone)
        nameless = ~self.known & (tally.examples == 0)
        open_confidence = tally.mean(tally.open_confidence, tally.open_items)
        self.queue: Queue = queue(
            self.open_items, open_confidence, self.leaning, self._share, nameless, within_cosine(self.shapes)
        )
        self.twins = twins(self.similarity, self.shapes.counts, self.labelled_items > 0, self._kept_apart())
        self.accepted = (self.sizes > 0) & (self.open_items == 0)
        self._nearest = self._nearest_known()
        self.shown = [code for code in self.names if self.sizes[code] or self.leaning[code] or self.known[code]]
        self.shown.sort(key=lambda code: (-self.queue.gain[code], code))
        self._figures = self._shown_figures()

    def _kept_apart(self) -> Collection[frozenset[int]]:
        """Pairs of classes that people said are two."""
        return ()

    def _nearest_known(self) -> list[list[tuple[int, float]]]:
        """The most similar known classes of each class, itself left out."""
        eligible = np.flatnonzero(self.known & (self.shapes.counts > 0))
        cosines = self.similarity[:, eligible].copy()
        cosines[eligible, np.arange(len(eligible))] = -2.0
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :NEAREST]
        chosen = np.take_along_axis(cosines, best, axis=1).astype(np.float64)
        pairs = zip(eligible[best].tolist(), np.round(chosen, 3).tolist(), strict=True)
        return [[(code, cosine) for code, cosine in zip(*row, strict=True) if cosine > -2] for row in pairs]

    @property
    def is_far(self) -> NDArray[np.bool_]:
        """Assigned items (N,) that look different: they lie far from those that people gave their class."""
        return np.asarray(self._foreign > 0)

    def closeness(self) -> NDArray[np.float32]:
        """Cosine of each item (N,) to the centre of its class, itself left out; 0 where there is nothing to compare."""
        now, rows = self.now, np.arange(len(self.z), dtype=np.int64)
        return np.nan_to_num(own_cosines(self.z, rows, now.code, now.members == now.code, self.shapes))

    # ------------------------------------------------------------ one class

    def nearest(self, code: int) -> tuple[Neighbour, ...]:
        """The known classes most like a class, the nearest first; none for a class without items."""
        if not self.shapes.counts[code]:
            return ()
        return tuple(Neighbour(other, self.names[other], cosine) for other, cosine in self._nearest[code])

    def terms(self, code: int) -> tuple[str, ...]:
        """Words that tell a class from the others; none where the items are no texts."""
        if self.vocabulary is None:
            return ()
        if code not in self._terms:
            rows = np.flatnonzero(self.now.members[self._texts] == code)
            self._terms[code] = tuple(self.vocabulary.terms(rows))
        return self._terms[code]

    def suggested(self, code: int) -> str:
        """A name to start from; empty for a known class, and for one without items."""
        if self.known[code] or not self.shapes.counts[code]:
            return ""
        return suggested_name(self.terms(code), self.nearest(code))

    def coherence_of(self, code: int) -> float | None:
        """How much nearer the items are to their own centre than to the next one, see `class_shapes.coherence`."""
        return None if np.isnan(self.coherence[code]) else float(self.coherence[code])

    def _shown_figures(self) -> dict[str, list[Any]]:
        """The numbers of all classes as a page shows them; read at once, for one by one takes ten times as long."""
        figures = {
            "known": self.known,
            "size": self.sizes,
            "given": self.given,
            "leaning": self.leaning,
            "labelled": self.labelled_items,
            "confidence": np.round(self.confidence, 3),
            "gain": np.round(self.queue.gain, 2),
            "contaminated": np.round(self.queue.contaminated, 3),
            "far": self.far,
            "accepted": self.accepted,
        }
        return {name: column.tolist() for name, column in figures.items()}

    def card(self, code: int) -> dict[str, Any]:
        """A class as a page shows it."""
        coherent = self.coherence_of(code)
        return {
            "code": code,
            "name": self.names[code],
            **{name: column[code] for name, column in self._figures.items()},
            "coherence": None if coherent is None else round(coherent, 3),
            "suggested": self.suggested(code),
            "terms": list(self.terms(code)),
            "nearest": [list(other) for other in self._nearest[code]] if self.shapes.counts[code] else [],
            "why": self._why(code),
        }

    def classes(self) -> list[dict[str, Any]]:
        """Every class that a page shows, in the order of the queue."""
        return [self.card(code) for code in self.shown]

    def _why(self, code: int) -> str:
        """One sentence: why a class stands where it does in the queue."""
        n, leaning = int(self.open_items[code]), int(self.leaning[code])
        doubts, leans = self.queue, plural(leaning, "unsure item leans", "unsure items lean") + " to it."
        if n == 0 and self.sizes[code]:
            return "Every item is labelled or confirmed." + (f" {leans}" if leaning else "")
        if n == 0:
            return self._perhaps(code) + leans if leaning else "No item is in it."
        if doubts.nameless[code]:
            return f"{self._perhaps(code)}New: not accepted yet."
        if doubts.contaminated[code] > max(doubts.wrong[code], 0.05):
            look = "looks" if self.far[code] == 1 else "look"
            return f"{int(self.far[code]):,} of {n:,} {look} different from its labelled items."
        wrong = round(n * float(doubts.wrong[code]))
        if wrong:
            return f"{wrong:,} of {n:,} unconfirmed may be wrong."
        return f"{plural(n, 'item is', 'items are')} not confirmed; nearly all should be right."

    def _perhaps(self, code: int) -> str:
        """Which category it may be the same as, where it has no name yet: half of these pairs are one."""
        other = self.twins.get(code)
        return "" if other is None or self.known[code] else f"Perhaps the same as {self.names[other]}. "


def suggested_name(terms: tuple[str, ...], nearest: tuple[Neighbour, ...]) -> str:
    """A name to start from: the first terms where there are texts, else the nearest known classes."""
    if terms:
        return " · ".join(terms[:3])
    return "near " + ", ".join(other.name for other in nearest[:2]) if nearest else ""
