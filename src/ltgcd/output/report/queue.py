"""In which order a person should look at the classes, on the report and on the page of a review alike."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NAMELESS = 0.5  # doubt in a category that nobody has looked at: whatever is said of it is news
LEANING = 0.25  # what an unsure item counts beside a sure one: it has to be looked at by itself
LEAST_DOUBT = 0.02  # in a class with something open
ENOUGH = 5.0  # items from which a class is worth a look like any other


class Queue(NamedTuple):
    """What an action on each class is expected to gain (K,), and what the doubt in it is made of, each in [0, 1]."""

    gain: NDArray[np.float64]
    doubt: NDArray[np.float64]
    wrong: NDArray[np.float64]
    contaminated: NDArray[np.float64]
    nameless: NDArray[np.bool_]


def queue(
    open_items: NDArray[np.int64],
    open_confidence: NDArray[np.float64],
    leaning: NDArray[np.int64],
    contaminated: NDArray[np.float64],
    nameless: NDArray[np.bool_],
    within: NDArray[np.float64],
) -> Queue:
    """Order classes by what a person's look at them is expected to gain, in classes and not in items.

    The gain is doubt times spread: where items are unlike each other and the fit is not sure of them, there is more
    than one class. A large class is worth no more than a small one, for the tail is what is looked for.

    Parameters
    ----------
    open_items : ndarray of int64, shape (K,)
        Sure items of each class that no person has confirmed or labelled.
    open_confidence : ndarray, shape (K,)
        Their mean confidence.
    leaning : ndarray of int64, shape (K,)
        Unsure items that lean to the class.
    contaminated : ndarray, shape (K,)
        Share of the assigned items that do not look like the given ones.
    nameless : ndarray of bool, shape (K,)
        Categories that nobody has named and nobody has confirmed an item of.
    within : ndarray, shape (K,)
        Mean cosine of two items of the class.

    Returns
    -------
    Queue
        The doubt is the chance that at least one of three holds: an item is wrong, it is foreign to the given ones,
        or nobody knows what it is.
    """
    wrong = np.where(open_items > 0, 1.0 - open_confidence, 0.0)
    doubt = 1 - (1 - wrong) * (1 - contaminated) * (1 - NAMELESS * nameless)
    n = open_items + LEANING * leaning
    gain = np.maximum(doubt, LEAST_DOUBT) * (1 - within) * n / (n + ENOUGH)
    return Queue(gain, doubt, wrong, contaminated, nameless)
