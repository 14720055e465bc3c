"""A reviewer who knows the truth: works through a discovery as a person does on the page, and pays for every key.

It knows of every item that it *looks at* what it is, and of no other: two screens of a category, the least sure items
and the surest, and a strip of each part of a split.

====================  =====================================================================  ==========================
what it does          when                                                                   keys
====================  =====================================================================  ==========================
look at odd ones      first, and after every refit                                           O
name what is missing  odd ones are of a class that no category's face in the queue is of,    a click on each, the name
                      and that has no name
next category         it is done with one                                                    j
look at parts         a second class is among what it sees                                   s
parts to a class      most of what is shown of them is of it: one that is shown beside, one  their numbers, a click on
                      that it knows by name, or a new one; what is shown is confirmed        each other, letter or name
confirm what is       the other parts are what the category is                               a click on each other, a
shown
name                  a category has no name, and no class has this one                      r, the name
merge                 a category has no name, and another class is that class                m (j …), m; or the name, m
accept                nearly all that it sees are one class                                  a, a click on each other
accept the core       only the surer part of what it sees is one class                       two clicks, a
not this class        those others                                                           n
refine                at given steps                                                         R, Enter
====================  =====================================================================  ==========================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltgcd.bench.review_desk import NAME, REFINE, Desk
from ltgcd.bench.review_scores import Truth
from ltgcd.review.state import Event

SEEN = 60  # items of a screen: the least sure of a category, and the most sure
STRIP = 24  # items of each part of a split that the page shows, evenly over the part
CLICKS = 8  # single items of a category that are worth a click each
CLEAN = 0.03  # share of wrong ones that is let through
BESIDE = 30  # rows of the first screen that tell what the unseen ones behind it are like
WORTH = 8.0  # items that an action should settle at least
SECOND = 0.08  # share of the seen items of a second class from which one looks at parts
MENDED = 4  # clicks that one spends on what is shown of a part
PART = 0.7  # share of one class in a part that is taken for that class
MISSING = 4  # odd ones of a class that has no category that are worth a click
FEW = 3  # items of one class that are worth being named together


@dataclass
class Oracle:
    """Works through the queue of a desk; by the actions that `refits` names it has fitted again."""

    desk: Desk
    truth: Truth
    refits: Sequence[int] = ()
    tools: bool = True  # parts; without them, categories come by size
    seen: set[int] = field(default_factory=set)

    def review(self) -> None:
        """Until the budget is spent, or nothing is left to do. What was not looked at yet comes first."""
        for refit in [*self.refits, None]:
            self.desk.go_on(self.desk.budget if refit is None else refit - REFINE)
            self.work()
            if refit is not None:
                self.desk.go_on(refit)
                self.desk.refine()

    def name_missing(self) -> None:
        """Look through the odd ones, and make a class of those that nobody has found; of what most are shown first."""
        desk, y = self.desk, self.truth.y
        if not desk.pays(1):
            return
        rows, there = desk.odd(), self.there()
        classes, first, n = np.unique(y[rows], return_index=True, return_counts=True)
        for at in np.lexsort((first, -n)).tolist():
            if int(classes[at]) not in there:
                mine = rows[y[rows] == classes[at]][:MISSING]
                self.move(mine, int(classes[at]), len(mine), "name what is missing")

    def there(self) -> set[int]:
        """The classes that a glance at the queue shows: those with a name, and what the face of a category is of."""
        desk = self.desk
        faces = {code: row for code in desk.described.shown if (row := desk.face(code)) is not None}
        named = {self.truth.names.index(name) for code in faces if (name := self.name_of(code)) is not None}
        return named | {int(self.truth.y[row]) for code, row in faces.items() if self.name_of(code) is None}

    def name_of(self, code: int) -> str | None:
        """The name of a category that is one of a true class."""
        name = self.desk.described.names[code]
        return name if self.desk.is_named(code) and name in self.truth.names else None

    def work(self) -> None:
        """Category after category, until the actions are spent or each was looked at."""
        desk, passed = self.desk, set[int]()
        if self.tools:
            self.name_missing()
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

    def look_at(self, code: int) -> None:
        """Do what there is to do with a category."""
        desk, rows = self.desk, self.desk.rows(code, "sure")
        if not len(rows):
            return
        if self.tools and len(rows) >= 2 * FEW and self.sees_another(code, rows):
            self.take_parts(code)
            return
        y = self.truth.y[screens(rows)]
        main, share = majority(y[len(y) // 2 :])
        if share < PART:
            return
        home = self.at_home(code, main)
        if home is not None and desk.is_named(home):
            self.accept(home, main)

    # ------------------------------------------------------------ what is mixed

    def own_class(self, code: int, rows: NDArray[np.int64]) -> int:
        """The class that a category is, for who looks at it: by its name, else what is most frequent."""
        name = self.desk.described.names[code]
        if self.desk.is_named(code) and name in self.truth.names:
            return self.truth.names.index(name)
        return majority(self.truth.y[screens(rows)])[0]

    def sees_another(self, code: int, rows: NDArray[np.int64]) -> bool:
        """Whether a second class is so frequent among what is seen that one looks at parts."""
        y = self.truth.y[screens(rows)]
        others = y[y != self.own_class(code, rows)]
        return len(others) > 0 and np.unique(others, return_counts=True)[1].max() >= max(FEW, SECOND * len(y))

    def take_parts(self, code: int) -> None:
        """Look at a category in parts: those of other classes go there, what is shown of the rest is confirmed."""
        desk, main = self.desk, self.own_class(code, self.desk.rows(code, "sure"))
        is_open = ~(desk.labelled | desk.described.now.given)
        parts = [rows[is_open[rows]] for rows in (np.array(part, dtype=np.int64) for part in desk.split(code))]
        parts = [rows for rows in parts if len(rows)]
        if not parts or not desk.pays(1):
            return
        foreign: dict[int, list[NDArray[np.int64]]] = {}
        rest = []
        for rows in parts:
            other, share = majority(self.truth.y[evenly(rows)])
            if other != main and share >= PART and len(rows) >= FEW:
                foreign.setdefault(other, []).append(rows)
            else:
                rest.append(rows)
        for other in sorted(foreign, key=lambda c: -sum(map(len, foreign[c]))):
            self.take(code, foreign[other], other)
        shown, cost = self.confirmed(rest, main)
        if len(shown) < WORTH:
            desk.pays(1)  # away with the parts
            return
        home = self.at_home(code, main)
        if home is not None:
            desk.act("confirm shown", [{"op": "assign", "rows": shown.tolist(), "code": home}], cost + 1)

    def confirmed(self, parts: list[NDArray[np.int64]], main: int) -> tuple[NDArray[np.int64], int]:
        """Which of the shown items of some parts are confirmed as a class, and the clicks that leave out the others."""
        kept, cost = [np.empty(0, dtype=np.int64)], 0
        for rows in parts:
            shown = evenly(rows)
            right = self.truth.y[shown] == main
            if (out := clicks(~right)) <= MENDED:
                kept.append(shown[right])
            else:
                out = 2  # all that is shown of it, as a range
            cost += out
        return np.concatenate(kept), cost

    def take(self, code: int, parts: list[NDArray[np.int64]], other: int) -> None:
        """Give parts of a category to their class: one that is shown beside, one known by name, or a new one."""
        desk, name, new, rows = self.desk, self.truth.names[other], self.desk.review.next_code, np.concatenate(parts)
        shown, cost = self.confirmed(parts, other)
        beside = next((one for one in desk.alike(code, parts[0]) if self.shows(one, other)), None)
        home = beside if beside is not None else desk.code_of(name)
        events: list[Event] = [{"op": "split", "code": code, "parts": [rows.tolist()]}]
        if home is None:
            home = new
            events.append({"op": "rename", "code": new, "name": name})
        else:
            events.append({"op": "merge", "code": new, "into": home})
        events.append({"op": "assign", "rows": shown.tolist(), "code": home})
        desk.act("part", events, len(parts) + cost + (1 if beside is not None else NAME))

    def shows(self, code: int, main: int) -> bool:
        """Whether a class that is shown beside is that class: by its name, else by a strip of it."""
        if self.desk.is_named(code):
            return self.desk.described.names[code] == self.truth.names[main]
        rows = self.desk.rows(code, "sure")[::-1][:STRIP]
        return len(rows) > 0 and self.is_mostly(rows, main)

    def is_mostly(self, rows: NDArray[np.int64], main: int) -> bool:
        """Whether most of some rows are of a class."""
        return bool((self.truth.y[rows] == main).mean() >= PART)

    # ------------------------------------------------------------ what is one class

    def at_home(self, code: int, main: int) -> int | None:
        """The class that a category is then: it was named, merged, or is what it says; None if it was none of these."""
        desk, name = self.desk, self.truth.names[main]
        held = desk.code_of(name)
        if held == code:
            return code
        if desk.is_named(code):
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


# ---------------------------------------------------------------- what is seen, and what it is worth


def screens(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """What is looked at of a category in its order: the first screen, and the last."""
    return rows if len(rows) <= 2 * SEEN else np.concatenate([rows[:SEEN], rows[-SEEN:]])


def evenly(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The strip of a part: items evenly over it, from its centre to its edge."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, STRIP).round().astype(np.int64))]


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
