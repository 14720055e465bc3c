"""What the page and the commands say about a discovery, in the same words and with the same counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

MARKED = 80  # the confidence, in percent, by which the sentence on confidences is made concrete
# Where labels show little of how much is novel, the estimate is too low, and its interval, too.
MAY_BE_MORE = "There may be more: the odd ones (key O in 'ltgcd review') show classes that have no category yet."
# What is confirmed first is what is easy, so confidences that were rehearsed before are too high for the rest.
SINCE_REFINED = (
    "What confidences are worth was rehearsed before the refine, not since. You confirmed what was easy: of the rest, "
    "fewer are right than they say. Check (key p in 'ltgcd review') tells how many of a class."
)


@dataclass(frozen=True)
class Counts:
    """How many classes and categories there are; the only numbers that are said of them.

    Attributes
    ----------
    known : int
        Known classes: those that were given, and those that people have named since.
    known_empty : int
        Known classes that no item was assigned to; they are part of `known`.
    novel : int
        Novel categories with at least one sure item.
    only_unsure : int
        Novel categories that only unsure items lean towards; they are not part of `novel`.
    """

    known: int
    known_empty: int
    novel: int
    only_unsure: int


def count_categories(assignments: pa.Table, n_known: int) -> Counts:
    """Count the classes and categories of assignments (``label``, ``status``) in which `n_known` classes were given."""
    label = np.asarray(assignments.column("label").to_numpy(), dtype=np.int64)
    status = np.asarray(assignments.column("status").cast(pa.string()).to_numpy(zero_copy_only=False))
    used, novel, named = np.unique(label), np.unique(label[status == "novel"]), np.unique(label[status == "known"])
    named_since = named[named >= n_known]
    behind = used[used >= n_known]
    return Counts(
        known=n_known + len(named_since),
        known_empty=n_known - int((used < n_known).sum()),
        novel=len(novel),
        only_unsure=len(np.setdiff1d(behind, np.union1d(novel, named_since))),
    )


def counts_sentence(counts: Counts) -> str:
    """Say how many classes and categories there are, and separately what is not counted."""
    novel = plural(counts.novel, "novel category", "novel categories") if counts.novel else "No novel category"
    return " ".join([f"{novel} beside {plural(counts.known, 'known class', 'known classes')}.", *not_counted(counts)])


def not_counted(counts: Counts) -> list[str]:
    """Sentences on categories without a sure item and on classes without any; none if there are none."""
    found = []
    if n := counts.only_unsure:
        more = "further " if counts.novel else ""
        what = plural(n, f"{more}category has only unsure items", f"{more}categories have only unsure items")
        found.append(f"{what} and {'is' if n == 1 else 'are'} not counted.")
    if n := counts.known_empty:
        found.append(f"{plural(n, 'known class has', 'known classes have')} no item.")
    return found


def estimate_sentence(k_estimate: dict[str, Any] | None, appended: int = 0) -> str:
    """Say how many classes were estimated (`k, low, high`); an empty text where the number was given.

    `appended` classes have been added since, by items that came later.
    """
    k, low, high = (number((k_estimate or {}).get(key)) for key in ("k", "low", "high"))
    if k is None:
        return ""
    interval = "" if low is None or high is None else f" (90 % interval {low:,} to {high:,})"
    since = f"; items that came later have added {appended:,}" if appended else ""
    # Said first of the estimate, because the counts of what was found need not be the same.
    said = f"Estimated beforehand: about {plural(k, 'class', 'classes')} in all, known and novel{interval}{since}."
    return f"{said} {MAY_BE_MORE}" if interval else said


def calibration_sentence(error: float | None, chance: float | None = None, refined: bool = False) -> str:
    """Say how far confidences can be trusted, and how that was found out.

    Parameters
    ----------
    error : float or None
        Expected calibration error in rehearsals, a share: the mean distance between a confidence and the share of
        labels that turned out right. None where nothing was rehearsed.
    chance : float or None
        The error that perfect confidences would have shown on as many items.
    refined : bool
        Whether the run was fitted again since, with what people had said.
    """
    expected = expected_right(error, refined)
    if refined or error is None or not math.isfinite(error):
        return expected
    measured = "Confidences were then"
    if chance is not None and error <= chance:
        return f"{expected} {measured} no further off than chance explains."
    measured += f" too high or too low by {_points(error)} in 100 on average"
    if chance is not None and chance >= error / 2:
        measured += f"; on so few items, perfect ones would have seemed off by {_points(chance)}"
    return f"{expected} {measured}."


def expected_right(error: float | None, refined: bool = False) -> str:
    """The first sentence of `calibration_sentence`: what a confidence means."""
    if refined:
        return SINCE_REFINED
    interval = right_of_hundred(error)
    if interval is None:
        return "Confidences are the model's own, which are often too high: no rehearsal has checked them."
    return (
        f"In rehearsals with some of your classes hidden, {interval[0]} to {interval[1]} of 100 items marked {MARKED} "
        "% were right; if the collection holds more of what is new than was found, fewer are."
    )


def right_of_hundred(error: float | None) -> tuple[int, int] | None:
    """How many of 100 items marked `MARKED` percent were right in rehearsals, at an error of this share."""
    if error is None or not math.isfinite(error):
        return None
    return max(0, MARKED - _points(error)), min(100, MARKED + _points(error))


def _points(share: float) -> int:
    """A share in whole percent; never 0, because no rehearsal shows that nothing is off."""
    return max(1, round(100 * share))


def plural(n: float, one: str, many: str) -> str:
    """A number and what it counts."""
    return f"{n:,} {one if n == 1 else many}"


def number(value: Any) -> float | int | None:  # noqa: ANN401 - whatever a JSON file holds
    """A finite number as JSON can hold it, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
        return None
    return int(value) if isinstance(value, int | np.integer) else float(value)
