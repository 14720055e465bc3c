"""The cards of the page: which items stand for a category, and in which order a person should look at them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltgcd.report.assigned import KNOWN, UNSURE, Assigned
from ltgcd.report.categories import Category
from ltgcd.report.sentences import plural

EXAMPLES = 4  # of each kind a category: centre, edge, least sure, and unsure items that lean towards it
UNSURE_EXAMPLES = 12
LEAST_COHERENCE = 0.05  # what a category without any coherence still counts in the queue


def make_cards(
    assigned: Assigned,
    categories: list[Category],
    closeness: NDArray[np.float32],
    given: NDArray[np.bool_],
    labelled: NDArray[np.bool_],
) -> tuple[list[dict[str, Any]], list[dict[str, list[int]]]]:
    """A card for each category in the order of the queue, and the items that should be shown whatever is left out.

    Parameters
    ----------
    assigned : Assigned
        The items, M of them.
    categories : list of Category
        Described, in the order of `assigned.labels`.
    closeness : ndarray of float32, shape (M,)
        See `ltgcd.report.geometry.Geometry`.
    given, labelled : ndarray of bool, shape (M,)
        Items that a person has confirmed or moved in a review, and those that were labelled in the source.

    Returns
    -------
    cards : list of dict
        As the server of a review describes a class, too.
    shown : list of dict
        Positions in `assigned` by kind, see `examples`: of the unsure items, then of each card.
    """
    sizes = np.array([category.size for category in categories])
    leaning = np.array([category.leaning for category in categories])
    confidence = np.array([category.confidence for category in categories])
    coherence = np.array([np.nan if c.coherence is None else c.coherence for c in categories])
    order = queue_order(assigned.kinds, sizes, leaning, confidence, coherence)
    sure = assigned.status != UNSURE
    confirmed = np.bincount(assigned.category[sure & given], minlength=len(categories))
    left = np.bincount(assigned.category[sure & ~given & ~labelled], minlength=len(categories))
    cards = []
    for c in order.tolist():
        category = categories[c]
        cards.append(
            {
                "code": category.code,
                "name": category.name,
                "known": category.status == "known",
                "size": category.size,
                "given": int(confirmed[c]),
                "leaning": category.leaning,
                "labelled": category.labelled,
                "confidence": round(category.confidence, 3),
                "coherence": None if category.coherence is None else round(category.coherence, 3),
                "suggested": category.suggested_name,
                "terms": category.terms,
                "nearest": [[other.code, other.cosine] for other in category.nearest_known],
                "why": why_here(category, int(confirmed[c]), int(left[c])),
                "contaminated": 0,
                "accepted": category.size > 0 and not left[c],
            }
        )
    of_each = examples(assigned, closeness)
    rows = np.flatnonzero(assigned.status == UNSURE)
    ranked = rows[np.argsort(assigned.confidence[rows], kind="stable")]
    unsure = {
        "doubtful": ranked[:UNSURE_EXAMPLES].tolist(),
        "centre": ranked[UNSURE_EXAMPLES:][::-1][:UNSURE_EXAMPLES].tolist(),
    }
    return cards, [unsure, *(of_each[c] for c in order.tolist())]


def why_here(category: Category, confirmed: int = 0, left: int = 1) -> str:
    """One sentence: why a category stands where it does; of its items so many were confirmed, others are still open."""
    leaning = plural(category.leaning, "unsure item leans", "unsure items lean") + " to it."
    if confirmed and not left:
        return "Every item is confirmed." + (f" {leaning}" if category.leaning else "")
    if confirmed and category.status == "novel":
        return f"Novel: {plural(left, 'item is', 'items are')} not confirmed yet."
    if category.status == "novel" and category.size > 1:
        return f"Novel: nobody has looked at its {category.size:,} items yet."
    if category.status == "novel":
        return "Novel: one item, not looked at yet." if category.size else f"Novel, and in doubt: {leaning}"
    added = category.size - category.labelled
    return leaning if category.leaning else f"{plural(added, 'item was', 'items were')} added to it."


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


def queue_order(
    kinds: NDArray[np.int64],
    sizes: NDArray[np.int64],
    unsure: NDArray[np.int64],
    confidence: NDArray[np.float64],
    coherence: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Order in which to look at the categories, shape (C,).

    Novel ones of two items or more come first, by log2(1 + size) · coherence; then novel singletons and those with
    unsure items alone, by confidence; then known classes, by the number of unsure items that lean towards them and, if
    equal, the least confident first.
    """
    tier = np.where(kinds == KNOWN, 2, np.where(sizes >= 2, 0, 1))
    score = np.log2(1.0 + sizes) * np.maximum(np.nan_to_num(coherence, nan=1.0), LEAST_COHERENCE)
    merit = np.select([tier == 0, tier == 1], [score, np.nan_to_num(confidence)], unsure.astype(np.float64))
    return np.lexsort((np.nan_to_num(confidence), -merit, tier)).astype(np.int64)
