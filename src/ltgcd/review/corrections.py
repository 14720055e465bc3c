"""A file of corrections as edits: rows ``id,label`` about items, rows ``category,name`` about classes.

``label`` is the name of a class, ``junk`` takes the item out, and an empty one, or a word such as "NA" that no class is
called, takes back what was said about it. A class that is not there is made; where all sure items of a category get its
name, it is the name of that category. ``name`` renames a category; the name of another class merges the two, and
``junk`` takes out all of its items. Names mean the classes that had them before the file, in whatever order its rows
stand, and none is given twice (`ltgcd.review.names`). A file that ``ltgcd export`` wrote and a person edited works as
it is: rows that were not changed say nothing.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.spreadsheet import is_export
from ltgcd.data.labels import means_no_label, read_csv
from ltgcd.data.parquet import read_parquet
from ltgcd.data.tool_exports import read_tool_labels
from ltgcd.discovery.classes import STATUSES
from ltgcd.discovery.exported import JUNK, category_names
from ltgcd.review.names import means_junk, reason_against
from ltgcd.review.state import Event, Review, apply

ALIKE = 0.85  # of two names, from which one may be a slip of the pen for the other


@dataclass(frozen=True)
class Edits:
    """What a file of corrections comes to.

    Attributes
    ----------
    events : list of dict
        In the order in which they are applied, see `ltgcd.review.state`.
    counts : dict
        ``renamed``, ``merged``, ``created`` classes; ``moved``, ``confirmed``, ``cleared``, ``junk`` items.
    refused : list of dict
        ``row`` (1 is the first below the header), ``what`` it said and the ``reason`` why it can't be applied.
    new_classes : list of dict
        ``name``, ``items`` and, where it may be a slip of the pen, the name of a class that it is ``like``, else None.
    stayed : int
        Items with an empty label that nobody had said anything about: there is nothing to take back.
    no_label : dict
        Words for "no label" that stood in place of an empty one, and in how many rows.
    """

    events: list[Event]
    counts: dict[str, int]
    refused: list[dict[str, Any]] = field(default_factory=list)
    new_classes: list[dict[str, Any]] = field(default_factory=list)
    stayed: int = 0
    no_label: dict[str, int] = field(default_factory=dict)


def read_corrections(path: Path) -> pa.Table:
    """The rows of a file as text: columns ``id, label`` and/or ``category, name``."""
    ending = path.suffix.lower()
    if not path.is_file():
        raise InputError(f"{path} is not there; give a file of corrections (.csv, .jsonl, .json or .parquet).")
    if ending == ".parquet":
        table = read_parquet(path)
    elif ending in (".jsonl", ".ndjson"):
        table = _read_json_lines(path)
    elif ending == ".json":
        table = read_tool_labels(path).table
    else:
        table = read_csv(path)
    columns = set(table.column_names)
    if not ({"id", "label"} <= columns or {"category", "name"} <= columns):
        raise InputError(
            f"{path} has the columns {table.column_names}, but corrections have 'id' and 'label', or 'category' and "
            "'name'."
        )
    return table


def _read_json_lines(path: Path) -> pa.Table:
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}, line {number}, is not JSON ({error}); write one object a line.") from error
        if not isinstance(row, dict) or not ({"id", "label"} <= set(row) or {"category", "name"} <= set(row)):
            raise InputError(f"{path}, line {number}, needs 'id' and 'label', or 'category' and 'name'.")
        rows.append({key: None if row.get(key) is None else str(row[key]) for key in COLUMNS})
    return pa.Table.from_pylist(rows, pa.schema([(key, pa.string()) for key in COLUMNS]))


COLUMNS = ("id", "label", "category", "name")


def edits_of(table: pa.Table, review: Review, *, any_name: bool = False) -> Edits:
    """Turn rows of corrections into events on top of a review; what can't be applied is refused row by row.

    With `any_name` the labels came with the collection, whose classes may be called anything.
    """
    made = _Edits(review, any_name)
    columns = set(table.column_names)
    if {"category", "name"} <= columns and not is_export(columns):
        made.about_classes(table)
    if {"id", "label"} <= columns:
        made.about_items(table, unchanged_is_silent=is_export(columns))
    refused = sorted(made.refused, key=lambda one: int(one["row"]))
    return Edits(made.events, made.counts, refused, made.new_classes, made.stayed, made.no_label)


class _Edits:
    """Events that are collected while the rows are gone through, and the review as they make it."""

    def __init__(self, review: Review, any_name: bool) -> None:
        self.review, self.first, self.any_name = review, review, any_name
        self.events: list[Event] = []
        self.refused: list[dict[str, Any]] = []
        self.new_classes: list[dict[str, Any]] = []
        self.stayed = 0
        self.no_label: dict[str, int] = {}
        names = ("renamed", "merged", "created", "moved", "confirmed", "cleared", "junk")
        self.counts = dict.fromkeys(names, 0)
        self.exported = _exported_names(review)
        self._before = {name: code for code, name in [*self.exported.items(), *review.class_names().items()]}

    def add(self, event: Event, kind: str, n: int = 1) -> None:
        self.review = apply(self.review, event)
        self.events.append(event)
        self.counts[kind] += n

    def refuse(self, row: int, what: str, reason: str) -> None:
        self.refused.append({"row": row + 1, "what": what, "reason": reason})

    def codes(self) -> dict[str, int]:
        """Classes by what they are called now, were called before the file, and are called in an export."""
        before = {name: self.review.target(code) for name, code in self._before.items()}
        return before | {name: code for code, name in self.review.class_names().items()}

    def reason_against(self, name: str, code: int | None = None) -> str | None:
        return None if self.any_name else reason_against(self.review, name, code)

    def about_classes(self, table: pa.Table) -> None:
        """Rename, merge or take out the categories that rows name."""
        pairs = zip(_texts(table, "category"), _texts(table, "name"), strict=True)
        seen: dict[str, str] = {}
        for row, (category, name) in enumerate(pairs):
            if category is None:
                continue
            if seen.get(category, name) != name:
                self.refuse(row, f"{category} → {name or ''}", f"another row calls this category '{seen[category]}'")
            elif reason := self._call(category, name):
                self.refuse(row, f"{category} → {name or ''}", reason)
            elif name is not None:
                seen[category] = name

    def _call(self, category: str, name: str | None) -> str | None:
        """Give a category a name, which may merge it or take its items out; or why that can't be."""
        codes = self.codes()
        code = codes.get(category)
        if code is None:
            return f"there is no category '{category}'"
        if not name:
            return "no name is given"
        if name == category:
            return None
        if means_junk(name):
            rows = np.flatnonzero((self.review.code == code) & ~self.review.junk)
            self.add({"op": "junk", "rows": rows.tolist()}, "junk", len(rows))
        elif codes.get(name, code) != code:
            self.add({"op": "merge", "code": code, "into": codes[name]}, "merged")
        elif reason := self.reason_against(name, code):
            return reason
        elif self.review.class_names()[code] != name:
            self.add({"op": "rename", "code": code, "name": name}, "renamed")
        return None

    def about_items(self, table: pa.Table, *, unchanged_is_silent: bool) -> None:
        """Give items the classes that rows name; one event for each class, however many items."""
        ids, labels = _texts(table, "id"), _texts(table, "label")
        places = pc.index_in(pa.array(ids, pa.string()), self.review.base.column("id").combine_chunks())
        rows: dict[str | None, list[int]] = {}
        seen: dict[int, str | None] = {}
        before, names, codes = self.review.code, self.exported, self.codes()
        reasons: dict[str, str | None] = {}
        status = self.review.status.tolist()
        folded = {} if self.any_name else _by_folded_case(codes)
        for row, (name, label, place) in enumerate(zip(ids, labels, places.to_pylist(), strict=True)):
            if name is None:
                continue
            if place is None:
                self.refuse(row, name, f"no item has the id '{name}'")
                continue
            label = self._meant(label, int(before[place]), codes, folded)  # noqa: PLW2901
            if place in seen:
                if seen[place] != label:
                    self.refuse(row, f"{name} → {label or ''}", "another row says something else about this item")
                continue
            seen[place] = label
            was_said = self.review.given[place] or self.review.junk[place]
            shown = None if status[place] == "unsure" else JUNK if status[place] == JUNK else names[int(before[place])]
            if unchanged_is_silent and label == shown:
                continue
            if label is None and not was_said:
                self.stayed += shown is not None
                continue
            if label is not None and label != JUNK and label not in codes:
                if label not in reasons:
                    reasons[label] = self.reason_against(label)
                if reason := reasons[label]:
                    self.refuse(row, f"{name} → {label}", reason)
                    continue
            rows.setdefault(label, []).append(place)
        for label, items in rows.items():
            self._label(label, np.array(items, dtype=np.int64))

    def _meant(self, label: str | None, code: int, codes: dict[str, int], folded: dict[str, str]) -> str | None:
        """What a label says of an item in the class of this code: the name of a class, `JUNK`, or nothing."""
        if means_junk(label):
            return JUNK
        if label is None or label in codes:
            return label
        if means_no_label(label):
            self.no_label[label] = self.no_label.get(label, 0) + 1
            return None
        had = self.review.retired.get(label)
        if had is not None and self.review.target(had) == code:  # an export from before its class was renamed
            return self.exported[code]
        return folded.get(label.casefold(), label)  # as on the page, upper and lower case are the same

    def _label(self, label: str | None, items: NDArray[np.int64]) -> None:
        if label is None:
            self.add({"op": "clear", "rows": items.tolist()}, "cleared", len(items))
            return
        if label == JUNK:
            self.add({"op": "junk", "rows": items.tolist()}, "junk", len(items))
            return
        code = self.codes().get(label)
        if code is None:
            code = self._whole_category(items)
            alike = difflib.get_close_matches(label, self.review.class_names().values(), n=1, cutoff=ALIKE)
            if code is None or alike:
                self.new_classes.append({"name": label, "items": len(items), "like": alike[0] if alike else None})
            if code is None:
                code = self.review.next_code
                self.add({"op": "create", "code": code, "name": label}, "created")
            else:
                self.add({"op": "rename", "code": code, "name": label}, "renamed")
        moved = int((self.review.code[items] != code).sum())
        self.add({"op": "assign", "rows": items.tolist(), "code": code}, "confirmed", len(items) - moved)
        self.counts["moved"] += moved

    def _whole_category(self, items: NDArray[np.int64]) -> int | None:
        """The category that had these items, and no other sure one, before the file: they name it, so no twin stays."""
        code, first = int(self.review.code[items[0]]), self.first
        if code in self.review.known_classes() or (self.review.code[items] != code).any():
            return None
        is_sure = (first.code == code) & ~first.unsure & ~first.junk
        return code if is_sure.any() and np.isin(np.flatnonzero(is_sure), items).all() else None


def _by_folded_case(names: Iterable[str]) -> dict[str, str]:
    """Names by what they are in lower case, where that tells which one is meant."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.casefold(), []).append(name)
    return {folded: same[0] for folded, same in found.items() if len(same) == 1}


def _exported_names(review: Review) -> dict[int, str]:
    """What an export calls each class: its name, but for what means something else there (`category_names`)."""
    names, status = review.class_names(), review.status_code
    pairs = np.unique(np.stack([review.code, status.astype(np.int64)], axis=1), axis=0).tolist()
    rows = [(int(code), names[int(code)], STATUSES[int(one)]) for code, one in pairs]
    return names | category_names(rows)


def _texts(table: pa.Table, name: str) -> list[str | None]:
    """A column as trimmed text; what is empty is None."""
    cells: Iterable[Any] = table.column(name).to_pylist()
    return [text if (text := str(cell).strip()) else None for cell in ("" if cell is None else cell for cell in cells)]
