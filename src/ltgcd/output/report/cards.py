"""The cards of the page: which items stand for a category."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltgcd.output.report.assigned import UNSURE, Assigned
from ltgcd.output.report.class_figures import ClassFigures

EXAMPLES = 4  # of each kind a category: centre, edge, least sure, and unsure items that lean towards it
UNSURE_EXAMPLES = 12


def make_cards(
    assigned: Assigned, figures: ClassFigures, closeness: NDArray[np.float32]
) -> tuple[list[dict[str, Any]], list[dict[str, list[int]]]]:
    """A card for each category in the order of the queue, and the items that should be shown whatever is left out.

    Parameters
    ----------
    assigned : Assigned
        The items, M of them.
    figures : ClassFigures
        Of their classes.
    closeness : ndarray of float32, shape (M,)
        Cosine of each item to the centre of its category.

    Returns
    -------
    cards : list of dict
        As the server of a review describes a class, too.
    shown : list of dict
        Positions in `assigned` by kind, see `examples`: of the unsure items, then of each card.
    """
    place = {int(code): at for at, code in enumerate(assigned.labels)}
    cards = [card for card in figures.classes() if card["code"] in place]
    of_each = examples(assigned, closeness)
    rows = np.flatnonzero(assigned.status == UNSURE)
    ranked = rows[np.argsort(assigned.confidence[rows], kind="stable")]
    unsure = {
        "doubtful": ranked[:UNSURE_EXAMPLES].tolist(),
        "centre": ranked[UNSURE_EXAMPLES:][::-1][:UNSURE_EXAMPLES].tolist(),
    }
    return cards, [unsure, *(of_each[place[card["code"]]] for card in cards)]


def examples(assigned: Assigned, closeness: NDArray[np.float32]) -> list[dict[str, list[int]]]:
    """Items to show for each category, as positions in `assigned`, no item twice.

    ``centre``: nearest to the centre; ``doubtful``: least confident; ``edge``: farthest from the centre; ``leaning``:
    unsure items that lean towards the category. A category of up to 3 · `EXAMPLES` items is shown whole.
    """
    order = np.lexsort((-closeness, assigned.category, assigned.status == UNSURE))
    sure = order[assigned.status[order] != UNSURE]
    unsure = order[assigned.status[order] == UNSURE]
    bounds = np.arange(len(assigned.labels) + 1)
    at, at_unsure = np.searchsorted(assigned.category[sure], bounds), np.searchsorted(assigned.category[unsure], bounds)
    found = []
    for c in range(len(assigned.labels)):
        rows, leaning = sure[at[c] : at[c + 1]], unsure[at_unsure[c] : at_unsure[c + 1]]
        rest = rows[EXAMPLES:]
        doubtful = rest[np.argsort(assigned.confidence[rest], kind="stable")[:EXAMPLES]]
        edge = rest[~np.isin(rest, doubtful)][::-1][:EXAMPLES]
        leaning = leaning[np.argsort(-assigned.confidence[leaning], kind="stable")[:EXAMPLES]]
        found.append(
            {
                "centre": rows[:EXAMPLES].tolist(),
                "edge": edge.tolist(),
                "doubtful": doubtful.tolist(),
                "leaning": leaning.tolist(),
            }
        )
    return found
