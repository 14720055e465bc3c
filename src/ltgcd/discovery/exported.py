"""How classes and categories are called in what is exported, and how such a name leads back to its class."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

UNSURE, JUNK = "unsure", "junk"
BINS = (UNSURE, JUNK)  # items that are in no category, and stay apart under these names


def category_names(rows: Sequence[tuple[int, str | None, str]]) -> dict[int, str]:
    """Name of each class and category by its number; a class and a novel category never share one.

    Parameters
    ----------
    rows : sequence of (code, name, status)
        A row an item. Two numbers with the same name and status are one category.

    Returns
    -------
    dict
        Only what is itself called "unsure" or "junk", and a novel category with the name of a class, gets a number:
        "unsure-2".
    """
    name_of: dict[int, str] = {}
    status_of: dict[int, str] = {}
    for code, name, status in rows:
        name_of.setdefault(code, name or "unnamed")
        if status not in BINS:
            status_of.setdefault(code, status)
    sure = {name_of[code]: status for code, status in status_of.items()}
    for code, name in name_of.items():  # what items only lean to
        status_of.setdefault(code, sure.get(name, "novel"))
    taken = {*BINS, *name_of.values()}
    given: set[str] = set()
    shown: dict[tuple[str, str], str] = {}
    for code in sorted(name_of, key=lambda code: (status_of[code] != "known", code)):  # classes keep their names
        name, key = name_of[code], (name_of[code], status_of[code])
        if key in shown:
            continue
        if name in given or name.strip().casefold() in BINS:
            name = next(new for n in itertools.count(2) if (new := f"{name}-{n}") not in taken)
            taken.add(name)
        given.add(name)
        shown[key] = name
    return {code: shown[name_of[code], status_of[code]] for code in name_of}
