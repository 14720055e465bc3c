"""What a simulated review has come to, and the ways to spend as many actions that it is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltgcd.bench.review_desk import REFINE, Desk
from ltgcd.data.collection import UNLABELLED
from ltgcd.evaluation.metric import evaluate
from ltgcd.review.state import Event, Review


class Truth(NamedTuple):
    """What only the oracle and the scoring know: class of each item (N,), and the names of the classes."""

    y: NDArray[np.int64]
    names: tuple[str, ...]


# ---------------------------------------------------------------- labelling single items


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
