"""What is to be exported, and how its classes and categories are called there."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from ltgcd.common.errors import InputError
from ltgcd.common.files import with_metadata
from ltgcd.data.collection import Collection
from ltgcd.data.exported import TEXT_LENGTH
from ltgcd.data.items import Texts
from ltgcd.data.labels import GIVEN, means_no_label
from ltgcd.discovery.classes import SUGGESTED
from ltgcd.discovery.exported import BINS, JUNK, UNSURE, category_names
from ltgcd.output.export.files import FilePlacer


@dataclass(frozen=True, eq=False)
class Export:
    """What is to be written.

    Attributes
    ----------
    assignments : pyarrow.Table
        ``id, label, name, status, confidence`` of the chosen items, as a run keeps them: the label is a number; and
        ``suggested``, where names are proposed, and ``given``, where it is told what people said.
    collection : Collection or None
        The same items in the same order, where a source was given.
    copy : bool
        Copy files instead of linking to them.
    notes : list of str
        Sentences for the user, filled while writing.
    beside : dict
        Contents of further files by the end of their name, which begins as that of the output.
    """

    assignments: pa.Table
    collection: Collection | None
    copy: bool
    notes: list[str] = field(default_factory=list)
    beside: dict[str, str] = field(default_factory=dict)

    @cached_property
    def names(self) -> dict[int, str]:
        """Name of each class and category by its number, also of those that items only lean to."""
        return category_names(self._kinds)

    @cached_property
    def _kinds(self) -> list[tuple[int, str | None, str]]:
        """Number, name and status of the items, each once, as they come first: few, however many items there are."""
        kinds = self.assignments.select(["label", "name", "status"])
        kinds = kinds.group_by(kinds.column_names, use_threads=False).aggregate([])
        return list(zip(*(column.to_pylist() for column in kinds.columns), strict=True))

    @cached_property
    def categories(self) -> list[str]:
        """Category of each item; unsure ones and junk are one of their own, whatever they lean to."""
        return [self._category(code, status) for code, status in zip(self.codes, self.statuses, strict=True)]

    def _category(self, code: int, status: str) -> str:
        return status if status in BINS else self.names[code]

    @cached_property
    def category_statuses(self) -> dict[str, str]:
        """Status of each category that has items, by number, unsure ones and junk last."""
        rows = sorted({(code, self._category(code, status), status) for code, _, status in self._kinds})
        return {category: status for _, category, status in sorted(rows, key=lambda row: row[1] in BINS)}

    def name_notes(self) -> list[str]:
        """What a person should know of names: classes that are called otherwise here, or read back as no label."""
        own = {code: name or "unnamed" for code, name, _ in self._kinds}
        found = [
            f"The category '{own[code]}' is called '{shown}' here, for another one or a bin has its name."
            for code, shown in sorted(self.names.items())
            if shown != own[code]
        ]
        if empty := sorted({name for name in self.category_statuses if name not in BINS and means_no_label(name)}):
            found.append(
                f"'{empty[0]}' says that there is no label: read again from here, items of such a class are "
                "unlabelled; give it another name ('ltgcd relabel')."
            )
        return found

    @cached_property
    def ids(self) -> list[str]:
        """Id of each item."""
        return list(self.assignments.column("id").to_pylist())

    @cached_property
    def codes(self) -> list[int]:
        """Number of the class or category of each item."""
        return list(self.assignments.column("label").to_pylist())

    @cached_property
    def statuses(self) -> list[str]:
        """Status of each item: known, novel, unsure or junk."""
        return list(self.assignments.column("status").to_pylist())

    @cached_property
    def confidence(self) -> list[float]:
        """Probability that the label of each item is right."""
        return list(self.assignments.column("confidence").to_pylist())

    def details(self, row: int) -> dict[str, str]:
        """What a tool shall keep of an item beside its label, so that the label comes back to the same item."""
        found = {"item_id": self.ids[row], "status": self.statuses[row]}
        if self.statuses[row] == UNSURE:
            found["leans_to"] = self.names[self.codes[row]]
        return found

    def table(self) -> pa.Table:
        """``id, label, code, status, confidence, leans_to``; ``given`` and ``suggested`` where these are told.

        The label is the name, so that the table can be given back as ``--labels``. Unsure items have none, and junk has
        "junk", which is none: read back, they are unlabelled.
        """
        label, names = self.assignments.column("label"), pa.array(self.names.values(), pa.string())
        name = names.take(pc.index_in(label, pa.array(self.names.keys(), label.type)))
        status = self.assignments.column("status")
        is_unsure, is_junk = (pc.equal(status, name) for name in BINS)
        sure = pc.invert(pc.or_(is_unsure, is_junk))
        table = pa.table(
            {
                "id": self.assignments.column("id"),
                "label": pc.if_else(sure, name, pc.if_else(is_junk, JUNK, None)),
                "code": pc.if_else(sure, self.assignments.column("label"), None),
                "status": status,
                "confidence": self.assignments.column("confidence"),
                "leans_to": pc.if_else(is_unsure, name, None),
            }
        )
        if GIVEN in self.assignments.column_names:
            table = table.append_column(GIVEN, self.assignments.column(GIVEN))
        if SUGGESTED in self.assignments.column_names:
            proposed = self.assignments.column(SUGGESTED)
            table = table.append_column(SUGGESTED, pc.if_else(is_junk, None, proposed))
        # The reader of parquet takes the labels as they are where the classes are told: "1" beside "cat", too.
        return with_metadata(table, {"class_names": [c for c, s in self.category_statuses.items() if s not in BINS]})

    def table_with_texts(self) -> pa.Table:
        """The table with the beginning of each text, where the items are texts: for whoever edits it by hand."""
        items = None if self.collection is None else self.collection.items
        if not isinstance(items, Texts):
            return self.table()
        beginnings = pc.utf8_slice_codeunits(items.texts, 0, TEXT_LENGTH)
        return self.table().append_column("text", beginnings.slice(0, len(self.assignments)))

    def need(self, *kinds: str) -> Collection:
        """The items themselves; says what is missing."""
        if self.collection is None:
            raise InputError("This format needs the items; give them with --source.")
        if self.collection.items.kind not in kinds:
            raise InputError(
                f"This format needs {' or '.join(f'{kind}s' for kind in kinds)}, but the source holds "
                f"{self.collection.items.kind}s; give the images or texts with --source, or use csv or parquet."
            )
        return self.collection

    def placer(self, *kinds: str) -> FilePlacer:
        """What puts the items into folders."""
        return FilePlacer(self.need(*kinds).items, self.ids, copy=self.copy)
