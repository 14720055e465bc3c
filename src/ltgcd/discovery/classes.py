"""The classes of a run: a code and a name that stay theirs for good, and whether they are known.

A discovery numbers its classes 0 … K − 1, and so do the tables that it writes. Once people have merged, split and made
classes, and the model was fitted again, codes have gaps: none is ever given twice, nor is the name of a category.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata, with_metadata
from ltgcd.discovery.assignments import names_of_classes

NOTE = "classes"  # key of the metadata of the assignments
SUGGESTED = "suggested"  # another, the proposed name of novel categories by code; and the column that shows it
STATUSES = ("known", "novel", "unsure", "junk")
KNOWN, NOVEL, UNSURE, JUNK = range(4)


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

    def spelled(self) -> pa.StringArray:
        """Name of each code 0 … next_code − 1; empty for one that no class has any more."""
        names = dict(zip(self.codes, self.names, strict=True))
        return pa.array([names.get(code, "") for code in range(self.next_code)], pa.string())

    def is_known(self, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each class (n,) is known."""
        known = np.zeros(self.next_code, dtype=np.bool_)
        known[list(self.codes)] = self.known
        return known[codes]

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
    return numbered(names, known)


def numbered(names: Sequence[str], known: Sequence[bool], next_number: int = 0) -> Classes:
    """Classes 0 … K − 1 with these names; `next_number` where a category of a higher number is gone."""
    numbers = [int(found[1]) for name in names if (found := re.fullmatch(r"novel-(\d{1,9})", name))]
    next_number = max([0, *numbers, next_number - 1]) + 1
    return Classes(tuple(range(len(names))), tuple(names), tuple(known), len(names), next_number)


def table_of(
    ids: pa.StringArray,
    codes: NDArray[np.int64],
    confidence: NDArray[np.float32],
    unsure: NDArray[np.bool_],
    classes: Classes,
    note: dict[str, Any],
    junk: NDArray[np.bool_] | None = None,
    **more: NDArray[Any],
) -> pa.Table:
    """A row for every item (N): id, label, name, status, confidence, and more columns; `classes` and `note` beside it.

    Parameters
    ----------
    ids : pyarrow.StringArray, length N
        Ids of the items.
    codes, confidence, unsure : ndarrays, shape (N,)
        Class of each item, the probability that it is right, and whether it is more likely wrong.
    classes : Classes
        All that there are.
    note : dict
        What else is kept in the metadata; ``k`` is the number of classes.
    junk : ndarray of bool, shape (N,), optional
        Items that belong nowhere.
    **more : ndarrays, shape (N,)
        Further columns.
    """
    status = np.where(unsure, UNSURE, np.where(classes.is_known(codes), KNOWN, NOVEL))
    status = status if junk is None else np.where(junk, JUNK, status)
    table = pa.table(
        {
            "id": ids,
            "label": pa.array(codes, pa.int64()),
            "name": classes.spelled().take(pa.array(codes)),
            "status": pa.array(STATUSES).take(pa.array(status)),
            "confidence": pa.array(confidence, pa.float32()),
            **{name: pa.array(column) for name, column in more.items()},
        }
    )
    table = with_metadata(table, {**note, NOTE: classes.as_note(), "k": len(classes.codes)})
    return with_suggested(table, classes, note[SUGGESTED]) if SUGGESTED in note else table


def with_suggested(table: pa.Table, classes: Classes, suggested: Mapping[Any, str]) -> pa.Table:
    """Assignments with a column of proposed names, null in classes that have a name of their own or no proposal.

    `suggested` are the names by code; they are kept beside the table, so that its column follows what people say later.
    """
    names = {int(code): name for code, name in suggested.items() if name}
    open_names = [names.get(code) for code in range(classes.next_code)]
    for code, known in zip(classes.codes, classes.known, strict=True):
        open_names[code] = None if known else open_names[code]
    column = pa.array(open_names, pa.string()).take(table.column("label").combine_chunks())
    if SUGGESTED in table.column_names:
        table = table.drop_columns([SUGGESTED])
    note = {**read_metadata(table.schema), SUGGESTED: {str(code): name for code, name in sorted(names.items())}}
    return with_metadata(table.append_column(SUGGESTED, column), note)
