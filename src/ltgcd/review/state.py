"""Labels as they are after everything people have said: discovery's own, and events replayed on top, one by one.

An event is a plain dict, so that it can be kept as JSON, sent by a page or written by a script:

=============================================  ========================================================================
``{"op": "assign", "rows": […], "code": 3}``   these items are of class 3: moved there, and confirmed
``{"op": "clear", "rows": […]}``               what was said about these items is taken back
``{"op": "junk", "rows": […]}``                these items belong nowhere: out of training and of every count
``{"op": "create", "code": 9, "name": "x"}``   a class nobody had; codes go up by one and are never given twice
``{"op": "rename", "code": 3, "name": "x"}``   class 3 is called that: from then on it is a known class
``{"op": "merge", "code": 5, "into": 3}``      what is in class 5, now or later, is in class 3
=============================================  ========================================================================

Nothing is ever changed in place: undoing an event is replaying the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata, with_metadata
from ltgcd.data.collection import UNLABELLED
from ltgcd.discovery.assignments import class_name

OPERATIONS = ("assign", "clear", "junk", "create", "rename", "merge")
Event = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Review:
    """Labels of N items after some events.

    Attributes
    ----------
    base : pyarrow.Table
        The assignments as discovery made them.
    said : ndarray of int64, shape (N,)
        Class that people gave each item, -1 where they gave none.
    junk : ndarray of bool, shape (N,)
        Items that people have taken out.
    names : dict
        Names that people gave to classes, by code.
    created : tuple of int
        Classes that people made.
    merged : dict
        Class that each merged class is a part of, by code.
    """

    base: pa.Table
    said: NDArray[np.int64]
    junk: NDArray[np.bool_]
    names: dict[int, str] = field(default_factory=dict)
    created: tuple[int, ...] = ()
    merged: dict[int, int] = field(default_factory=dict)

    @property
    def note(self) -> dict[str, Any]:
        """What is noted beside the assignments: k, n_old, names that updates were told."""
        return read_metadata(self.base.schema)

    @property
    def found(self) -> NDArray[np.int64]:
        """Class that discovery found for each item, shape (N,)."""
        return np.asarray(self.base.column("label").to_numpy(), dtype=np.int64)

    @property
    def k(self) -> int:
        """Number of codes that were ever given."""
        return max([int(self.note["k"]), *(code + 1 for code in self.created)])

    def resolve(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Codes (n,) after all merges."""
        target = np.arange(self.k + 1, dtype=np.int64)  # the last place is that of -1
        target[-1] = UNLABELLED
        for code in self.merged:
            target[code] = self.target(code)
        return target[codes]

    def target(self, code: int) -> int:
        """The class that a class is a part of after all merges: itself, where it was not merged."""
        while code in self.merged:
            code = self.merged[code]
        return code

    @property
    def code(self) -> NDArray[np.int64]:
        """Class of each item, shape (N,): what people said, else what discovery found."""
        return self.resolve(np.where(self.said != UNLABELLED, self.said, self.found))

    def class_names(self) -> dict[int, str]:
        """Name of each class that was not merged away, by code."""
        note = self.note
        before = {int(code): name for code, name in note.get("named", {}).items()}
        known = tuple(note["class_names"])
        return {
            code: self.names.get(code) or before.get(code) or class_name(code, known)
            for code in range(self.k)
            if code not in self.merged
        }

    def known_classes(self) -> set[int]:
        """Codes of the classes that have a name: known in training, named in an update, or by a reviewer."""
        named = {int(code) for code in self.note.get("named", {})}
        return {self.target(code) for code in {*range(int(self.note["n_old"])), *named, *self.names, *self.created}}

    def table(self) -> pa.Table:
        """The assignments as they are now, with the columns ``given`` (a person said so) and ``suggested``."""
        code, names, known = self.code, self.class_names(), np.array(sorted(self.known_classes()), dtype=np.int64)
        given = self.said != UNLABELLED
        was_unsure = np.asarray(self.base.column("status").to_numpy(zero_copy_only=False) == "unsure")
        status = np.where(np.isin(code, known), "known", "novel")
        status = np.where(was_unsure & ~given, "unsure", status)
        status = np.where(self.junk, "junk", status)
        confidence = np.asarray(self.base.column("confidence").to_numpy(), dtype=np.float32)
        spelled = pa.array([names.get(c, "") for c in range(self.k)], pa.string())
        n = len(code)
        suggested = self.base.column("suggested") if "suggested" in self.base.column_names else pa.nulls(n, pa.string())
        table = pa.table(
            {
                "id": self.base.column("id"),
                "label": pa.array(code, pa.int64()),
                "name": spelled.take(pa.array(code)),
                "status": pa.array(status, pa.string()),
                "confidence": pa.array(np.where(given, np.float32(1), confidence), pa.float32()),
                "given": pa.array(given | self.junk),
                "suggested": suggested,
            }
        )
        named = {**self.note.get("named", {}), **{str(c): name for c, name in self.names.items()}}
        note = {**self.note, "k": self.k, "named": named}
        if self.merged:
            note["merged"] = {str(code): self.target(code) for code in self.merged}
        return with_metadata(table, note)


def begin(base: pa.Table, class_names: tuple[str, ...]) -> Review:
    """Nothing said yet about assignments whose known classes have these names."""
    note = read_metadata(base.schema)
    base = with_metadata(base, {"n_old": len(class_names), **note, "class_names": list(class_names)})
    return Review(base, np.full(len(base), UNLABELLED, dtype=np.int64), np.zeros(len(base), dtype=np.bool_))


def replay(review: Review, events: Iterable[Event]) -> Review:
    """Apply events one after the other."""
    for event in events:
        review = apply(review, event)
    return review


def apply(review: Review, event: Event) -> Review:
    """What follows from one more event; one that makes no sense is a sentence, and changes nothing."""
    op = event.get("op")
    if op not in OPERATIONS:
        raise InputError(f"There is no edit '{op}'; choose one of {', '.join(OPERATIONS)}.")
    if op in ("assign", "clear", "junk"):
        return _said_of_items(review, event, str(op))
    return _said_of_classes(review, event, str(op))


def _said_of_items(review: Review, event: Event, op: str) -> Review:
    rows = np.asarray(event.get("rows", ()), dtype=np.int64)
    if len(rows) and not 0 <= rows.min() <= rows.max() < len(review.said):
        raise InputError(f"An edit names item {int(rows.max())}, but there are {len(review.said)}.")
    said, junk = review.said.copy(), review.junk.copy()
    said[rows] = _class(review, event, "code") if op == "assign" else UNLABELLED
    junk[rows] = op == "junk"
    return dataclasses.replace(review, said=said, junk=junk)


def _said_of_classes(review: Review, event: Event, op: str) -> Review:
    if op == "merge":
        code, into = _class(review, event, "code"), _class(review, event, "into")
        if code == into:
            raise InputError(f"'{review.class_names()[code]}' can't be merged with itself.")
        return dataclasses.replace(review, merged={**review.merged, code: into})
    name = event.get("name")
    if not isinstance(name, str) or not name.strip():
        raise InputError("A class needs a name.")
    taken = {held: code for code, held in review.class_names().items()}
    if op == "create":
        if event.get("code") != review.k:
            raise InputError(f"The next class that is made has the code {review.k}, not {event.get('code')}.")
        if name in taken:
            raise InputError(f"There is a class '{name}' already.")
        return dataclasses.replace(review, created=(*review.created, review.k), names={**review.names, review.k: name})
    code = _class(review, event, "code")
    if taken.get(name, code) != code:
        raise InputError(f"Another class is called '{name}'; merge the two instead.")
    return dataclasses.replace(review, names={**review.names, code: name})


def _class(review: Review, event: Event, key: str) -> int:
    """Code of a class in an event, after all merges."""
    code = event.get(key)
    if not isinstance(code, int | np.integer) or isinstance(code, bool) or not 0 <= code < review.k:
        raise InputError(f"An edit names the class {code!r}, but codes go from 0 to {review.k - 1}.")
    return review.target(int(code))
