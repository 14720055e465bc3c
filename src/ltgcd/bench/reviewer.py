"""A reviewer who knows the truth: works through a discovery as a person does on the page, and pays for every key.

The `Desk` is what the page is to a person: the queue, grids, proposals, edits and refits, through the code that the
page's server calls, and it never sees the truth. The `Oracle` sits at it. It knows of every item that it *looks at*
what it is, and of no other. It pays 1 for a key and for a click on an item, 2 for typing a name with the key that asks
for it. Looking and scrolling are free.

====================  ===================================================================  ===========================
what it does          when                                                                 keys
====================  ===================================================================  ===========================
next category         it is done with one                                                  j
accept                nearly all that it sees are one class                                a, and a click on each other
not this class        those others                                                         n
accept the core       only the surer part of what it sees is one class                     two clicks, a
split                 two classes are there, and the proposal tells them apart             s (2 … 5), Enter
name                  a category has no name, and no class has this one                    the name
merge                 a category has no name, and another class is that class              m (j …), m; or the name, m
name a few            unsure items of a category are one class                             X, clicks, the name
grow                  a class is confirmed, and unsure items lean to it                    g, clicks, Enter, …, Esc
refine                at given steps                                                       R, Enter
====================  ===================================================================  ===========================
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ltgcd.data.collection import UNLABELLED
from ltgcd.discovery.rehearsal import Calibrations
from ltgcd.discovery.task import DiscoveryConfig
from ltgcd.evaluation.metric import evaluate
from ltgcd.review.class_shapes import class_shapes
from ltgcd.review.refine import constraints, refine
from ltgcd.review.state import Event, Review, begin, replay, with_codes
from ltgcd.review.suggest import fitted_temperature, whitened, whitening_of
from ltgcd.server import lookups
from ltgcd.server.described import Described

SEEN = 60  # items of a screen: the least sure of a category, and the most sure
STRIP = 24  # items of each part of a split, of a side of a merge that the page shows
CLICKS = 8  # single items of a category that are worth a click each
CLEAN = 0.03  # share of wrong ones that is let through
BESIDE = 30  # rows of the first screen that tell what the unseen ones behind it are like
WORTH = 4.0  # items that an action should settle at least
SECOND = 0.12  # share of the seen items of a second class from which a split is tried
PURER = 0.15  # by how much a split has to raise the share of what belongs where it is
FEW = 5  # unsure items of one class that are worth being named together
LEANING = 10  # unsure items that lean to a class from which growing it is tried
GROWN = 12  # items of the first page of it
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


class Truth(NamedTuple):
    """What only the oracle and the scoring know: class of each item (N,), and the names of the classes."""

    y: NDArray[np.int64]
    names: tuple[str, ...]


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
        seed = m.config.random_state
        z = whitened(m.x, whitening_of(m.x, m.source, m.n_old, seed))
        self.temperature = fitted_temperature(z, m.source, class_shapes(z, m.source, m.n_old), seed)
        self.described = Described(z, self.labelled, self.review)

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
        # Labels given here and there are no sample of their classes, which the estimate of K takes them for: after 98
        # single labels it found 117 classes where there are 77. So K is what is there, for all who are compared.
        said = constraints(self.review, m.source)
        config = dataclasses.replace(m.config, k=len(said.labelled) + len(said.started))
        found = refine(self.review, m.source, m.x, config, m.calibrations)
        self.review = begin(found.table, (), self.review.next_code)
        self.described = Described(self.described.z, self.labelled, self.review)
        return True

    # ------------------------------------------------------------ what the page shows

    def queue(self) -> list[int]:
        """Classes with something open, the largest gain first."""
        d = self.described
        return [code for code in d.shown if d.open_items[code] or d.leaning[code]]

    def rows(self, code: int, part: str) -> NDArray[np.int64]:
        """What is open in a class, the least sure first."""
        rows = lookups.rows_of_class(self.described, code, part)
        open_rows: NDArray[np.int64] = rows[~(self.labelled | self.described.now.given)[rows]]
        return open_rows

    def merges(self, code: int) -> list[int]:
        """Classes that may be the same as one, the most alike first."""
        return [one["other"] for one in lookups.merges(self.described, code)]

    def split(self, code: int, parts: int) -> list[list[int]]:
        """A class in parts, the first of which keeps it."""
        return cast("list[list[int]]", lookups.split_of(self.described, code, parts)["parts"])

    def grown(self, code: int, n: int) -> NDArray[np.int64]:
        """The items that are most likely of a class, and not confirmed there."""
        shown = cast("Any", SimpleNamespace(temperature=self.temperature))
        return np.array(lookups.grown(self.described, shown, code, 0, n)["rows"], dtype=np.int64)

    def code_of(self, name: str) -> int | None:
        """The class of a name, if there is one."""
        return {held: code for code, held in self.described.names.items()}.get(name)

    def is_named(self, code: int) -> bool:
        """Whether a class has a name of its own."""
        return bool(self.described.known[code])


# ---------------------------------------------------------------- the reviewer


@dataclass
class Oracle:
    """Works through the queue of a desk; by the actions that `refits` names it has fitted again."""

    desk: Desk
    truth: Truth
    refits: Sequence[int] = ()
    tools: bool = True  # split, grow; without them, categories come by size
    seen: set[int] = field(default_factory=set)

    def review(self) -> None:
        """Until the budget is spent, or nothing is left to do. What was not looked at yet comes first."""
        for refit in [*self.refits, None]:
            self.desk.go_on(self.desk.budget if refit is None else refit - REFINE)
            self.work()
            if refit is not None:
                self.desk.go_on(refit)
                self.desk.refine()

    def work(self) -> None:
        """Category after category, until the actions are spent or each was looked at."""
        desk, passed = self.desk, set[int]()
        while not desk.stopped:
            waiting = [code for code in desk.queue() if code not in passed]
            if not self.tools:
                waiting.sort(key=lambda code: -desk.described.sizes[code])
            waiting.sort(key=lambda code: code in self.seen)
            if not waiting:
                return
            passed.add(waiting[0])
            self.seen.add(waiting[0])
            self.look_at(waiting[0])
            desk.pays(1)  # on to the next

    def look_at(self, code: int, depth: int = 0) -> None:
        """Do what there is to do with a category."""
        desk = self.desk
        rows = desk.rows(code, "sure")
        if not len(rows):
            self.name_the_unsure(code)
            return
        seen = screens(rows)
        y = self.truth.y[seen]
        surer = y[len(y) // 2 :]
        main, share = majority(surer)
        second = y[y != main]
        if self.tools and depth < 2 and len(rows) >= 2 * FEW and len(second) and self.worth_splitting(y, main):
            fresh = self.split(code)
            if fresh:
                for part in fresh:
                    self.seen.add(part)
                    self.look_at(part, depth + 1)
                    desk.pays(part != fresh[-1])
                return
        if share < 0.7:
            self.name_the_unsure(code)
            return
        home = self.at_home(code, main)
        if home is None:
            return
        if home != code and not desk.is_named(home):
            return
        self.accept(home, main)
        if self.tools:
            self.grow(home, main)

    def worth_splitting(self, y: NDArray[np.int64], main: int) -> bool:
        """Whether a second class is so frequent among what is seen that one would try to part the two."""
        others = y[y != main]
        return len(others) > 0 and np.unique(others, return_counts=True)[1].max() >= max(FEW, SECOND * len(y))

    def split(self, code: int) -> list[int]:
        """Try two to four parts; gives the categories that there are then, none where no proposal helps."""
        desk, best, keys = self.desk, [], 1
        rows = desk.rows(code, "sure")
        before = majority(self.truth.y[screens(rows)])[1]
        for parts in (2, 3, 4):
            proposal = desk.split(code, parts)
            seen = [self.truth.y[np.array(part[:STRIP])] for part in proposal]
            said = [majority(y) for y in seen]
            weight = np.array([len(part) for part in proposal])
            after = float(np.average([share for _, share in said], weights=weight))
            keys += parts > 2
            if len({main for main, _ in said}) > 1 and after >= max(0.8, min(before + PURER, 0.9)):
                best = proposal
                break
        if not best:
            desk.pays(keys + 1)
            return []
        first = desk.review.next_code
        if not desk.act("split", [{"op": "split", "code": code, "parts": best[1:]}], keys + 1):
            return []
        return [code, *range(first, first + len(best) - 1)]

    def at_home(self, code: int, main: int) -> int | None:
        """The class that a category is then: it was named, merged, or is what it says; None if it was none of these."""
        desk, name = self.desk, self.truth.names[main]
        held = desk.code_of(name)
        if held == code:
            return code
        if desk.is_named(code):
            self.move_away(code, main)
            return None
        if held is None:
            return code if desk.act("name", [{"op": "rename", "code": code, "name": name}], NAME) else None
        self.turn_down(code, main)
        others = desk.merges(code)
        cost = min(2 + others.index(held) if held in others else NAME + 1, NAME + 1)
        return held if desk.act("merge", [{"op": "merge", "code": code, "into": held}], cost) else None

    def turn_down(self, code: int, main: int) -> None:
        """Say of the few that are seen, and are not what the category is, that they are not."""
        rows = self.desk.rows(code, "sure")
        seen = screens(rows)
        wrong = seen[self.truth.y[seen] != main]
        if 0 < len(wrong) <= CLICKS // 4:
            cost = clicks(np.isin(rows, wrong)) + 1
            self.desk.act("take out", [{"op": "reject", "rows": wrong.tolist(), "code": code}], cost)

    def move_away(self, code: int, main: int) -> None:
        """Move what is of another class out of a named one: a range of the surest items."""
        rows = self.desk.rows(code, "sure")
        right = self.truth.y[rows[-SEEN:]] == main
        run = len(right) - int(np.flatnonzero(~right).max(initial=-1)) - 1
        if run >= 2 * FEW:
            self.move(rows[len(rows) - run :], main, 2, "move")

    def move(self, rows: NDArray[np.int64], main: int, selecting: int, what: str) -> bool:
        """Give items a class by its name, which may be new."""
        desk, name = self.desk, self.truth.names[main]
        held = desk.code_of(name)
        new: list[Event] = []
        if held is None:
            held = desk.review.next_code
            new = [{"op": "create", "code": held, "name": name}]
        events = [*new, {"op": "assign", "rows": rows.tolist(), "code": held}]
        return desk.act(what, events, selecting + NAME)

    def accept(self, code: int, main: int) -> None:
        """Accept a class, but for a head that is left out, or wrong ones that are clicked; or let it be."""
        desk, rows = self.desk, self.desk.rows(code, "sure")
        right = self.truth.y[rows] == main
        plan = best_acceptance(right, np.isin(rows, screens(rows)))
        if plan is None:
            return
        taken = rows[plan.cut :]
        out = rows[plan.out]
        taken = taken[~np.isin(taken, out)]
        if desk.act("accept", [{"op": "assign", "rows": taken.tolist(), "code": code}], plan.cost) and len(out):
            self.put_right(out, code)

    def put_right(self, rows: NDArray[np.int64], code: int) -> None:
        """What is still selected is of other classes: of one that has a name, it goes there, else just out."""
        mains = np.unique(self.truth.y[rows])
        if len(mains) == 1 and self.desk.code_of(self.truth.names[mains[0]]) is not None:
            self.move(rows, int(mains[0]), 0, "move")
        else:
            self.desk.act("take out", [{"op": "reject", "rows": rows.tolist(), "code": code}], 1)

    def name_the_unsure(self, code: int) -> None:
        """Unsure items of a category that are of one class get its name together."""
        rows = self.desk.rows(code, "unsure")[:SEEN]
        if len(rows) < FEW:
            return
        y = self.truth.y[rows]
        main, _ = majority(y)
        chosen = y == main
        cost = min(clicks(chosen), 1 + int((~chosen).sum()))
        if chosen.sum() >= max(FEW, 2 * cost):
            self.move(rows[chosen], main, cost, "name a few")

    def grow(self, code: int, main: int) -> None:
        """Pages of items that are likely of a class, doubled while they are right."""
        desk, n = self.desk, GROWN
        if desk.described.leaning[code] < LEANING or desk.described.given[code] < FEW or not desk.pays(1):
            return
        while True:
            rows = desk.grown(code, n)
            right = self.truth.y[rows] == main
            wrong = int((~right).sum())
            if not len(rows) or wrong > min(CLICKS, len(rows) / 4):
                break
            if not desk.act("grow", [{"op": "assign", "rows": rows[right].tolist(), "code": code}], wrong + 1):
                return
            if len(rows) < n:
                break
            n *= 2
        desk.pays(1)


def screens(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """What is looked at of a category in its order: the first screen, and the last."""
    return rows if len(rows) <= 2 * SEEN else np.concatenate([rows[:SEEN], rows[-SEEN:]])


def majority(y: NDArray[np.int64]) -> tuple[int, float]:
    """The most frequent class, and its share."""
    classes, n = np.unique(y, return_counts=True)
    return int(classes[n.argmax()]), float(n.max() / n.sum())


def clicks(chosen: NDArray[np.bool_]) -> int:
    """Clicks that select some of a list: a run of three or more is a range, of two clicks."""
    edges = np.diff(np.concatenate([[0], chosen.astype(np.int64), [0]]))
    runs = np.flatnonzero(edges < 0) - np.flatnonzero(edges > 0)
    return int(np.minimum(runs, 2).sum())


class Acceptance(NamedTuple):
    """Accept all but the first `cut` rows of a list and the rows `out`, for a cost."""

    cut: int
    out: NDArray[np.int64]
    cost: int


def best_acceptance(right: NDArray[np.bool_], seen: NDArray[np.bool_]) -> Acceptance | None:
    """What is worth most of a list, the least sure first, of which some rows are seen: items, less what they cost.

    A head can be left out as a range, wrong ones behind it by a click each. What is accepted has to be clean as far as
    one sees: in the rows behind the head that are seen, and among the unseen ones as among those beside them.
    """
    n = len(right)
    wrong = np.flatnonzero(seen & ~right)
    edge = int(np.argmin(np.append(seen, False)))  # where the first screen ends
    last = n - SEEN if edge < n else n
    best, best_worth = None, 0.0
    for cut in sorted({0, last % n if n else 0, *(wrong + 1).tolist()}):
        behind = wrong[wrong >= cut]
        unseen = max(0, last - max(cut, edge))
        if unseen and cut > edge - BESIDE:
            continue  # too little is seen beside them
        beside = seen[max(0, edge - BESIDE) : last + SEEN]
        rate = float((~right[max(0, edge - BESIDE) :][beside]).mean()) if unseen else 0.0
        for clicked in (False, True):
            left = (0 if clicked else len(behind)) + rate * unseen
            taken = n - cut - (len(behind) if clicked else 0)
            cost = 1 + min(cut, 2) + (len(behind) if clicked else 0)
            worth = taken - WORTH * cost
            if taken >= 1 and left <= CLEAN * taken and worth > best_worth:
                best, best_worth = Acceptance(cut, behind if clicked else behind[:0], cost), worth
    return best


# ---------------------------------------------------------------- others, to compare with


def label_single_items(desk: Desk, truth: Truth, refits: Sequence[int], order: str, random_state: int = 0) -> None:
    """Label one item after the other: drawn at random, or the least sure first; 1 each, a new name too."""
    drawn = np.random.RandomState(random_state).permutation(len(truth.y))
    rank = np.empty(len(drawn), dtype=np.int64)
    rank[drawn] = np.arange(len(drawn))
    for refit in [*refits, None]:
        desk.go_on(desk.budget if refit is None else refit - REFINE)
        while not desk.stopped:
            free = np.flatnonzero(~desk.labelled & ~desk.described.now.given)
            if not len(free):
                return
            doubt = desk.described.now.confidence[free] if order == "least-sure" else np.zeros(len(free))
            _say(desk, truth, int(free[np.lexsort((rank[free], doubt))[0]]))
        if refit is not None:
            desk.go_on(refit)
            desk.refine()


def _say(desk: Desk, truth: Truth, row: int) -> None:
    """Say what one item is. Of a class that has no name yet, that names the category that the item is in."""
    name, code = truth.names[truth.y[row]], int(desk.review.code[row])
    held, events = desk.code_of(name), list[Event]()
    if held is None and not desk.is_named(code):
        held, events = code, [{"op": "rename", "code": code, "name": name}]
    elif held is None:
        held = desk.review.next_code
        events = [{"op": "create", "code": held, "name": name}]
    desk.act("label", [*events, {"op": "assign", "rows": [row], "code": held}], 1)


# ---------------------------------------------------------------- scores


def scores(review: Review, truth: Truth, labelled: NDArray[np.bool_], n_old: int) -> dict[str, float]:
    """Figures of the unlabelled items, in percent; `settled` and `found` are numbers.

    ``balanced`` and ``instance`` as `ltgcd evaluate` has them; ``named`` is the mean recall by name, where a category
    without one is wrong; ``precision`` is that of the settled items, which a person said something about.
    """
    free = ~labelled
    known, names = review.known_classes(), review.class_names()
    number = {name: at for at, name in enumerate(truth.names)}
    meant = np.full(review.next_code, UNLABELLED, dtype=np.int64)
    for code in known:
        meant[code] = number.get(names[code], UNLABELLED)
    said = meant[review.code]
    got = evaluate(truth.y[free], review.code[free], n_old)
    classes = np.unique(truth.y[free])
    recall = [float((said[free & (truth.y == c)] == c).mean()) for c in classes]
    settled = free & review.given
    return {
        "balanced": float(got.balanced_acc.all or 0),
        "new": float(got.balanced_acc.new or 0),
        "instance": float(got.acc.all or 0),
        "named": 100 * float(np.mean(recall)),
        "found": 100 * float(np.isin(classes, meant[meant >= 0]).mean()),
        "settled": int(settled.sum()),
        "precision": 100 * float((said[settled] == truth.y[settled]).mean()) if settled.any() else 100.0,
        "k": got.k_used,
    }
