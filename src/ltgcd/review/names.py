"""Which names a class can get: none that means something else, and none that another class had."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ltgcd.data.labels import means_no_label
from ltgcd.discovery.exported import BINS, JUNK

if TYPE_CHECKING:
    from ltgcd.review.state import Review

NUMBERED = re.compile(r"novel-\d+")


def means_junk(name: str | None) -> bool:
    """Whether somebody who writes this as a label takes the item out."""
    return name is not None and name.strip().casefold() == JUNK


def is_number(name: str) -> bool:
    """Whether a name is one that a fit gives, such as novel-007."""
    return NUMBERED.fullmatch(name.casefold()) is not None


def reason_against(review: Review, name: str, code: int | None = None) -> str | None:
    """Why a new class, or the class of a code, can't be called that, in words; None where it can.

    A class may have its own name back, and that of one that was merged into it.
    """
    name = name.strip()
    now = review.class_names()
    if code is not None and now.get(code) == name:
        return None
    had = review.retired.get(name)
    if had is not None and code is not None and review.target(had) == code:
        return None
    if other := _other_meaning(name):
        return other
    if had is not None:
        where = now.get(review.target(had))
        gone = f"which is '{where}' now" if where is not None else "which is gone"
        return f"'{name}' was the name of another class, {gone}; no name is given twice"
    return None


def _other_meaning(name: str) -> str | None:
    if name.casefold() in BINS:
        return f"'{name}' says what items in no class are; a class needs a name of its own"
    if means_no_label(name):
        return f"'{name}' is what people write where there is no label; a class needs a name of its own"
    if is_number(name):
        return f"'{name}' is how ltgcd numbers novel categories, and a number is given once; call it something else"
    return None
