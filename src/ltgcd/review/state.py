"""Labels as they are after everything people have said: a fit's own, and events replayed on top, one by one.

An event is a plain dict, so that it can be kept as JSON, sent by a page or written by a script:

=====================================================  ================================================================
``{"op": "assign", "rows": […], "code": 3}``           these items are of class 3: moved there, and confirmed
``{"op": "clear", "rows": […]}``                       what was said about these items is taken back
``{"op": "junk", "rows": […], "why": "duplicate"}``    these items belong nowhere: out of training and of every count
``{"op": "reject", "rows": […], "code": 3}``           these items are not of class 3, whatever else they are
``{"op": "create", "code": 9, "name": "x"}``           a class nobody had
``{"op": "rename", "code": 3, "name": "x"}``           class 3 is called that: from then on it is a known class
``{"op": "merge", "code": 5, "into": 3}``              what is in class 5, now or later, is in class 3
``{"op": "split", "code": 5, "parts": [[…], […]]}``    these items of class 5 form categories of their own
``{"op": "distinct", "code": 5, "other": 3}``          classes 5 and 3 are two, however alike they look
=====================================================  ================================================================

Codes of new classes go up and are never given twice; a split says which in ``codes``, or gets the next ones. Nothing is
ever changed that somebody has seen: undoing an event is replaying the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata
from ltgcd.discovery.assignments import ASSIGNMENT_COLUMNS
from ltgcd.discovery.classes import JUNK, KNOWN, NOVEL, STATUSES, SUGGESTED, UNSURE, Classes, classes_of, table_of
from ltgcd.review.names import reason_against

OF_ITEMS = ("assign", "clear", "junk", "reject")
OPERATIONS = (*OF_ITEMS, "create", "rename", "merge", "split", "distinct")
COLUMNS = (*ASSIGNMENT_COLUMNS, "given", SUGGESTED)  # made anew from what was said
Event = Mapping[str, Any]
Pair = frozenset[int]


@dataclass(frozen=True, eq=False)
class Review:
    """Labels of N items after some events.

    Attributes
    ----------
    base : pyarrow.Table
        The assignments that the events are about: a fit's own, with what people had said before it.
    classes : Classes
        Those of the base.
    code : ndarray of int64, shape (N,)
        Class of each item: what people said, else what the fit found.
    given : ndarray of bool, shape (N,)
        Items whose class people gave.
    junk, unsure : ndarrays of bool, shape (N,)
        Items that people have taken out, and items whose class is more likely wrong than right.
    next_code : int
        First code that no class ever had, also none that was taken back.
    names : dict
        Names that people gave to classes, by code.
    created : tuple of int
        Classes that came with the events.
    merged : dict
        Class that each class is a part of that was merged since the last fit, by code.
    distinct : frozenset of frozensets
        Pairs of classes that people keep apart.
    rejected : tuple
        Pairs of rows (n,) and the class that these items are not of.
    retired : dict
        Names that classes had and have no more, with the code of each: no other class gets them.
    """

    base: pa.Table
    classes: Classes
    code: NDArray[np.int64]
    given: NDArray[np.bool_]
    junk: NDArray[np.bool_]
    unsure: NDArray[np.bool_]
    next_code: int
    names: dict[int, str] = field(default_factory=dict)
    created: tuple[int, ...] = ()
    merged: dict[int, int] = field(default_factory=dict)
    distinct: frozenset[Pair] = frozenset()
    rejected: tuple[tuple[NDArray[np.int64], int], ...] = ()
    retired: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.code)

    def with_next_code(self, next_code: int) -> Review:
        """The same labels, where other codes were given to classes that were taken back."""
        return dataclasses.replace(self, next_code=next_code)

    def target(self, code: int) -> int:
        """The class that a class is a part of after all merges: itself, where it was not merged."""
        while code in self.merged:
            code = self.merged[code]
        return code

    def resolve(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Codes (n,) after all merges."""
        target = np.arange(self.next_code, dtype=np.int64)
        for code in self.merged:
            target[code] = self.target(code)
        return target[codes]

    def class_names(self) -> dict[int, str]:
        """Name of each class that was not merged away, by code."""
        names = dict(zip(self.classes.codes, self.classes.names, strict=True))
        names |= {code: self.classes.name_of(code) for code in self.created}
        names |= self.names
        return {code: names[code] for code in sorted(names) if code not in self.merged}

    def known_classes(self) -> set[int]:
        """Codes of the classes that have a name of their own: from training, an update or a reviewer."""
        before = {code for code, known in zip(self.classes.codes, self.classes.known, strict=True) if known}
        return {self.target(code) for code in before | set(self.names)}

    @property
    def status_code(self) -> NDArray[np.uint8]:
        """Position in `STATUSES` of each item's status, shape (N,)."""
        status = np.where(self.classes_now.is_known(self.code), KNOWN, NOVEL)
        status = np.where(self.unsure, UNSURE, status)
        return np.where(self.junk, JUNK, status).astype(np.uint8)

    @property
    def status(self) -> NDArray[np.str_]:
        """Status of each item, shape (N,): known, novel, unsure or junk."""
        return np.array(STATUSES)[self.status_code]

    @property
    def confidence(self) -> NDArray[np.float32]:
        """Probability that each label is right, shape (N,): 1 where a person gave it."""
        held = np.asarray(self.base.column("confidence").to_numpy(), dtype=np.float32)
        return np.where(self.given, np.float32(1), held)

    @property
    def classes_now(self) -> Classes:
        """The classes that are there now."""
        names, known = self.class_names(), self.known_classes()
        number = self.classes.next_number + self.next_code - self.classes.next_code
        return Classes(
            tuple(names), tuple(names.values()), tuple(code in known for code in names), self.next_code, number
        )

    def table(self) -> pa.Table:
        """The assignments as they are now; ``given`` tells where a person said so."""
        base = self.base
        more = {name: base.column(name) for name in base.column_names if name not in COLUMNS}  # what else a fit said
        note = {key: value for key, value in read_metadata(base.schema).items() if key != "named"}
        note["distinct"] = sorted(sorted(pair) for pair in self.distinct)
        note["merged"] = {str(code): self.target(code) for code in self.merged}
        note["retired"] = {name: self.target(code) for name, code in sorted(self.retired.items())}
        return table_of(
            base.column("id"),
            self.code,
            self.confidence,
            self.unsure,
            self.classes_now,
            note,
            self.junk,
            given=self.given | self.junk,
            **more,
        )


# ---------------------------------------------------------------- replay


def begin(base: pa.Table, class_names: tuple[str, ...], next_code: int = 0) -> Review:
    """Nothing said yet about assignments whose known classes in training had these names.

    Parameters
    ----------
    base : pyarrow.Table
        Assignments; items that are ``given`` there stay so.
    class_names : tuple of str
        Names of the classes that were known in training.
    next_code : int
        First code that no class had in any event about this base, also none that was taken back.
    """
    note = read_metadata(base.schema)
    classes, n = classes_of(note, class_names), len(base)
    junk = np.asarray(pc.equal(base.column("status"), "junk"), dtype=np.bool_)
    given = np.zeros(n, dtype=np.bool_)
    if "given" in base.column_names:
        given = np.asarray(pc.fill_null(base.column("given"), False), dtype=np.bool_)
    code, unsure = _found(base)
    return Review(
        base,
        classes,
        code,
        given & ~junk,
        junk,
        unsure,
        max(classes.next_code, next_code),
        merged={int(code): int(into) for code, into in note.get("merged", {}).items()},
        distinct=frozenset(frozenset(pair) for pair in note.get("distinct", ())),
        retired={str(name): int(code) for name, code in note.get("retired", {}).items()},
    )


def _found(base: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Class of each item in the base, and whether it is unsure."""
    label = np.asarray(base.column("label").to_numpy(), dtype=np.int64)
    return label, np.asarray(pc.equal(base.column("status"), "unsure"), dtype=np.bool_)


def replay(review: Review, events: Iterable[Event]) -> Review:
    """Apply events one after the other; one that makes no sense is a sentence, and `review` is as it was.

    The columns are copied once and then changed in place, so that an event costs what it names, however many items
    there are.
    """
    return carried_out(review, events)[1]


def carried_out(review: Review, events: Iterable[Event], *, fresh: bool = False) -> tuple[list[Event], Review]:
    """Events with a code for every new category, so that they always say the same, and what they come to.

    Those that are `fresh` may give no name that another class had; what was said before that was a rule stays said.
    """
    found: list[Event] = []
    draft: Review | None = None
    for event in events:
        now = _copied(review) if draft is None else draft
        if event.get("op") == "split" and "codes" not in event:
            event = {**event, "codes": [now.next_code + i for i in range(len(event.get("parts", ())))]}  # noqa: PLW2901
        if "rows" in event and event.get("op") in OF_ITEMS:  # an array from here on: a list is slow to read
            event = {**event, "rows": _rows(now, event["rows"])}  # noqa: PLW2901
        if fresh:
            _check_name(now, event)
        draft = _applied(now, event)
        found.append(event)
    return found, review if draft is None else draft


def apply(review: Review, event: Event) -> Review:
    """What follows from one more event; one that makes no sense is a sentence, and changes nothing."""
    return replay(review, [event])


def _copied(review: Review) -> Review:
    columns = {name: getattr(review, name).copy() for name in ("code", "given", "junk", "unsure")}
    return dataclasses.replace(review, **columns)


def _applied(review: Review, event: Event) -> Review:
    """One more event, written into the columns of a review that nobody else has seen."""
    op = event.get("op")
    if op not in OPERATIONS:
        raise InputError(f"There is no edit '{op}'; choose one of {', '.join(OPERATIONS)}.")
    if op in OF_ITEMS:
        return _applied_to_items(review, event, str(op))
    return _split(review, event) if op == "split" else _applied_to_classes(review, event, str(op))


def _check_name(review: Review, event: Event) -> None:
    if event.get("op") not in ("create", "rename"):
        return
    code = _class(review, event, "code") if event["op"] == "rename" else None
    if reason := reason_against(review, str(event.get("name") or ""), code):
        raise InputError(f"{reason[0].upper()}{reason[1:]}.")


def with_codes(review: Review, events: Iterable[Event]) -> list[Event]:
    """The same events with a code for every new category, so that they say the same whenever they are replayed."""
    return carried_out(review, events)[0]


def _applied_to_items(review: Review, event: Event, op: str) -> Review:
    rows = _rows(review, event.get("rows", ()))
    named = _class(review, event, "code") if op in ("assign", "reject") else 0
    code, unsure = review.code, review.unsure
    review.given[rows], review.junk[rows] = op == "assign", op == "junk"
    if op == "assign":
        code[rows], unsure[rows] = named, False
    elif op == "clear":
        found, unsure[rows] = _found(review.base.take(rows))
        code[rows] = review.resolve(found)
    elif op == "reject":
        second = review.base.column("runner_up").to_numpy() if "runner_up" in review.base.column_names else review.code
        here = rows[code[rows] == named]
        code[here] = review.resolve(np.asarray(second, dtype=np.int64)[here])
        unsure[rows] = True
        return dataclasses.replace(review, rejected=(*review.rejected, (rows, named)))
    return review


def _split(review: Review, event: Event) -> Review:
    whole = _class(review, event, "code")
    parts = [_rows(review, part) for part in event.get("parts", ())]
    codes: list[int] = list(event.get("codes", [review.next_code + i for i in range(len(parts))]))
    together = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    if not parts or not all(map(len, parts)) or len(np.unique(together)) != len(together):
        raise InputError("A split needs parts that have items, and no item in two of them.")
    if (review.code[together] != whole).any():
        raise InputError(f"A split of '{review.class_names()[whole]}' names items that are not in it; look again.")
    if len(codes) != len(parts) or len(set(codes)) != len(codes) or not all(_is_free(review, code) for code in codes):
        raise InputError(f"The categories of a split need codes that no class has: {review.next_code} and up.")
    for part, new in zip(parts, codes, strict=True):
        review.code[part] = new
    return dataclasses.replace(
        review, created=(*review.created, *codes), next_code=max(review.next_code, max(codes) + 1)
    )


def _applied_to_classes(review: Review, event: Event, op: str) -> Review:
    if op in ("merge", "distinct"):
        return _applied_to_two_classes(review, event, op)
    name, taken = str(event.get("name") or "").strip(), {held: code for code, held in review.class_names().items()}
    if not name:
        raise InputError("A class needs a name.")
    if op == "create":
        new: Any = event.get("code")
        if not _is_free(review, new):
            raise InputError(f"The next class that is made has the code {review.next_code}, not {new}.")
        if name in taken:
            raise InputError(f"There is a class '{name}' already.")
        names, created = {**review.names, new: name}, (*review.created, new)
        return dataclasses.replace(review, created=created, names=names, next_code=max(review.next_code, new + 1))
    code = _class(review, event, "code")
    if taken.get(name, code) != code:
        raise InputError(f"Another class is called '{name}'; merge the two instead.")
    before = review.class_names()[code]
    retired = review.retired if before == name else {**review.retired, before: code}
    retired = {held: by for held, by in retired.items() if held != name}
    return dataclasses.replace(review, names={**review.names, code: name}, retired=retired)


def _applied_to_two_classes(review: Review, event: Event, op: str) -> Review:
    one, other = _class(review, event, "code"), _class(review, event, "into" if op == "merge" else "other")
    if one == other:
        what = "be merged with" if op == "merge" else "be kept apart from"
        raise InputError(f"'{review.class_names()[one]}' can't {what} itself.")
    if op == "distinct":
        return dataclasses.replace(review, distinct=review.distinct | {frozenset((one, other))})
    pairs = (frozenset(other if code == one else code for code in pair) for pair in review.distinct)
    review.code[review.code == one] = other
    return dataclasses.replace(
        review,
        merged={**review.merged, one: other},
        retired={**review.retired, review.class_names()[one]: one},
        distinct=frozenset(pair for pair in pairs if len(pair) == 2),
    )


def _rows(review: Review, named: Any) -> NDArray[np.int64]:  # noqa: ANN401 - a list of numbers, or whatever was sent
    try:
        rows = np.asarray(named, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("An edit names items by something that is not a row number.") from error
    if rows.ndim != 1 or (len(rows) and (not 0 <= rows.min() <= rows.max() < len(review) or (rows % 1).any())):
        raise InputError(f"An edit names items that are not there: there are {len(review)}.")
    return rows.astype(np.int64)


def _is_free(review: Review, code: Any) -> bool:  # noqa: ANN401
    """Whether a code can be given to a new class: no class of the base or of an event before has or had it."""
    return isinstance(code, int) and code >= review.classes.next_code and code not in review.created


def _class(review: Review, event: Event, key: str) -> int:
    """Code of a class in an event, after all merges."""
    code: Any = event.get(key)
    is_number = isinstance(code, int | np.integer) and not isinstance(code, bool)
    if not is_number or (code not in review.classes.codes and code not in review.created):
        raise InputError(f"An edit names the class {code!r}, which is not there.")
    return review.target(int(code))
