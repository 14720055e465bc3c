"""What the page is to a person who reviews a discovery: queue, grids, proposals, edits, refits, and what they cost.

The `Desk` goes through the code that the page's server calls, and never sees the truth. A key and a click on an item
cost 1, typing a name 2 with the key that asks for it. Looking and scrolling are free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ltgcd.data.collection import UNLABELLED
from ltgcd.discovery.rehearsal import Calibrations
from ltgcd.discovery.task import DiscoveryConfig
from ltgcd.output.report.geometry import whitened_features
from ltgcd.review.refine import refine
from ltgcd.review.server import lookups
from ltgcd.review.server.described import Described
from ltgcd.review.state import Event, Review, begin, replay, with_codes

NAME = 2  # what typing a name costs
REFINE = 2  # keys of a refit


class Material(NamedTuple):
    """What a review is about: features, labels of the source, and how the fit was made.

    Attributes
    ----------
    x : ndarray of float32, shape (N, D)
        Features.
    source : ndarray of int64, shape (N,)
        Codes of the labels that the collection came with, -1 without.
    n_old : int
        Number of the classes that have such labels.
    config : DiscoveryConfig
        Of the fit.
    calibrations : Calibrations or None
        What its confidences are worth.
    """

    x: NDArray[np.float32]
    source: NDArray[np.int64]
    n_old: int
    config: DiscoveryConfig
    calibrations: Calibrations | None


@dataclass
class Desk:
    """A review as the page offers it, in memory, with a count of what was paid.

    Attributes
    ----------
    material : Material
        What it is about.
    review : Review
        The labels now.
    budget : int
        What may be spent.
    watch : callable
        Told the review and what was spent before each action.
    """

    material: Material
    review: Review
    budget: int
    watch: Callable[[Review, int, int], None] = lambda _review, _spent, _cost: None
    spent: int = 0
    stopped: bool = False
    done: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        m = self.material
        self.labelled = m.source != UNLABELLED
        self.limit = self.budget
        self.described = Described(whitened_features(m.x, m.source), m.source, self.review)

    def pays(self, cost: int) -> bool:
        """Pay for keys; False, and nothing more is done, when that is more than is left before `limit`."""
        self.stopped = self.stopped or self.spent + cost > self.limit
        if self.stopped:
            return False
        self.watch(self.review, self.spent, cost)
        self.spent += cost
        return True

    def go_on(self, limit: int) -> None:
        """Up to so many actions."""
        self.limit, self.stopped = min(limit, self.budget), False

    def act(self, what: str, events: Sequence[Event], cost: int) -> bool:
        """Do something for a number of keys and clicks; False when the budget does not allow it."""
        if not self.pays(cost):
            return False
        self.done[what] = self.done.get(what, 0) + cost
        self.review = replay(self.review, with_codes(self.review, events))
        self.described.update(self.review)
        return True

    def refine(self) -> bool:
        """Fit again with everything that was said, and take it: two keys."""
        if not self.pays(REFINE):
            return False
        m = self.material
        found = refine(self.review, m.source, m.x, m.config, m.calibrations)
        self.review = begin(found.table, (), self.review.next_code)
        self.described = Described(self.described.z, m.source, self.review)
        return True

    # ------------------------------------------------------------ what the page shows

    def queue(self) -> list[int]:
        """Classes with something open, the largest gain first."""
        d = self.described
        return [code for code in d.shown if d.open_items[code] or d.leaning[code]]

    def odd(self) -> NDArray[np.int64]:
        """Items that are unlike every class and unlike each other, the oddest first."""
        return lookups.odd_rows(self.described)

    def face(self, code: int) -> int | None:
        """The item that stands for a class in the queue: its surest one; for texts, its words say the same."""
        rows = lookups.rows_of_class(self.described, code, "sure")
        rows = np.sort(rows if len(rows) else lookups.rows_of_class(self.described, code, "unsure"))
        return int(rows[np.argmax(self.described.now.confidence[rows])]) if len(rows) else None

    def rows(self, code: int, part: str) -> NDArray[np.int64]:
        """What is open in a class, the least sure first."""
        rows = lookups.rows_of_class(self.described, code, part)
        open_rows: NDArray[np.int64] = rows[~(self.labelled | self.described.now.given)[rows]]
        return open_rows

    def merges(self, code: int) -> list[int]:
        """Classes that may be the same as one, the most alike first."""
        return [one["other"] for one in lookups.merges(self.described, code)]

    def split(self, code: int) -> list[list[int]]:
        """A class in as many parts as the page shows at first; the first of them keeps it."""
        return cast("list[list[int]]", lookups.split_of(self.described, code)["parts"])

    def alike(self, code: int, rows: NDArray[np.int64]) -> list[int]:
        """Classes that the page shows beside picked parts of a class, the most alike first."""
        return lookups.alike(self.described, rows, code)

    def code_of(self, name: str) -> int | None:
        """The class of a name, if there is one."""
        return {held: code for code, held in self.described.names.items()}.get(name)

    def is_named(self, code: int) -> bool:
        """Whether a class has a name of its own."""
        return bool(self.described.known[code])
