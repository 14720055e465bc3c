"""The classes of a run: a code and a name that stay theirs for good, and whether they are known.

A discovery numbers its classes 0 … K − 1, and so do the tables that it writes. Once people have merged, split and made
classes, and the model was fitted again, codes have gaps: none is ever given twice, nor is the name of a category.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ltgcd.common.errors import InputError
from ltgcd.discovery.assignments import names_of_classes

NOTE = "classes"  # key of the metadata of the assignments


@dataclass(frozen=True)
class Classes:
    """Classes that are there, and what the next one is called.

    Attributes
    ----------
    codes : tuple of int
        Ascending.
    names : tuple of str
        Of these classes.
    known : tuple of bool
        Whether each has a name that a person gave.
    next_code : int
        First code that no class ever had.
    next_number : int
        First number of a novel category that none ever had: 4 for ``novel-004``.
    """

    codes: tuple[int, ...]
    names: tuple[str, ...]
    known: tuple[bool, ...]
    next_code: int
    next_number: int

    def as_note(self) -> dict[str, Any]:
        """In the form that the metadata of a table holds."""
        return {
            "codes": list(self.codes),
            "names": list(self.names),
            "known": list(self.known),
            "next_code": self.next_code,
            "next_number": self.next_number,
        }

    def name_of(self, code: int) -> str:
        """Name that a category with a code from `next_code` on gets, until somebody names it."""
        name = f"novel-{self.next_number + code - self.next_code:03d}"
        return name if name not in self.names else f"{name}-{code}"


def classes_of(note: dict[str, Any], class_names: tuple[str, ...]) -> Classes:
    """The classes that the metadata of assignments tell of, with the names of the classes that were known in training.

    Without the entry that a refined run has, they are 0 … K − 1: the known ones, then the novel ones, of which some may
    have been named in an update.
    """
    if NOTE in note:
        held = note[NOTE]
        try:
            found = Classes(
                tuple(int(code) for code in held["codes"]),
                tuple(str(name) for name in held["names"]),
                tuple(bool(known) for known in held["known"]),
                int(held["next_code"]),
                int(held["next_number"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError("The assignments say wrongly which classes there are; restore them.") from error
        return found
    named = {int(code): name for code, name in note.get("named", {}).items()}
    k = int(note["k"])
    names = names_of_classes(k, class_names, named)
    known = tuple(code < len(class_names) or code in named for code in range(k))
    return Classes(tuple(range(k)), tuple(names), known, k, _next_number(names))


def _next_number(names: list[str]) -> int:
    numbers = [int(found[1]) for name in names if (found := re.fullmatch(r"novel-(\d{1,9})", name))]
    return max(numbers, default=0) + 1
