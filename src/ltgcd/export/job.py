"""What is to be exported, and how its classes and categories are called there."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ltgcd.common.errors import InputError
from ltgcd.data.collection import Collection
from ltgcd.export.files import FilePlacer, unique_name

UNSURE = "unsure"


@dataclass(frozen=True, eq=False)
class Export:
    """What is to be written.

    Attributes
    ----------
    table : pyarrow.Table
        ``id, label, name, status, confidence`` of the chosen items.
    collection : Collection or None
        The same items in the same order, where a source was given.
    copy : bool
        Copy files instead of linking to them.
    notes : list of str
        Sentences for the user, filled while writing.
    beside : dict
        Contents of further files by the end of their name, which begins as that of the output.
    """

    table: pa.Table
    collection: Collection | None
    copy: bool
    notes: list[str] = field(default_factory=list)
    beside: dict[str, str] = field(default_factory=dict)

    def keys(self) -> list[tuple[str, str]]:
        """(name, status) of each item's category; the bin of unsure items is a category, whatever they lean towards."""
        status = self.table.column("status")
        name = pc.fill_null(self.table.column("name"), "unnamed")
        return list(
            zip(pc.if_else(pc.equal(status, UNSURE), UNSURE, name).to_pylist(), status.to_pylist(), strict=True)
        )

    def class_names(self) -> dict[tuple[str, str], str]:
        """A name of its own for each category, by label, the bin of unsure items last.

        Only a class that is itself called "unsure", or as another one, gets a number.
        """
        first: dict[tuple[str, str], tuple[bool, int]] = {}
        for key, label in zip(self.keys(), self.table.column("label").to_pylist(), strict=True):
            first.setdefault(key, (key[1] == UNSURE, label))
        taken = {UNSURE: 1}
        ordered = sorted(first, key=lambda key: first[key])
        return {key: UNSURE if key[1] == UNSURE else unique_name(key[0], taken) for key in ordered}

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
        return FilePlacer(self.need(*kinds).items, self.table.column("id").to_pylist(), copy=self.copy)
