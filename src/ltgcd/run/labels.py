"""The labels of a run: what it was given, what updates brought, and what people said later of items that it had.

A table with the columns ``id``, ``label``, ``y_true`` where the truth is known, and ``given_later`` once somebody
labels an item that the run had already: that counts from the next training on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata, with_metadata
from ltgcd.data.collection import UNLABELLED, Truth
from ltgcd.data.labels import stored_labels, strings
from ltgcd.data.parquet import check_table, read_parquet
from ltgcd.data.sources import encode_labels
from ltgcd.discovery.classes import Classes

LATER = "given_later"
LABEL_CODES = "label_codes"  # in the note of the assignments: the code of each class that labels name


class RunLabels(NamedTuple):
    """What a run was given: ids, labels and, for evaluation, the truth."""

    ids: pa.StringArray
    y: NDArray[np.int64]
    class_names: tuple[str, ...]
    truth: Truth | None


def read_run_labels(path: Path) -> RunLabels:
    """Read the labels of a run, or say in a sentence what is wrong with them."""
    table = read_parquet(path)
    labels = stored_labels(table, "label", path)
    if labels is None or "id" not in table.column_names:
        raise InputError(f"{path} lacks the column 'id' or 'label'; restore it, or start the run again.")
    check_table(table, path)
    ids = strings(table.column("id"), "id", path)
    truth = stored_labels(table, "y_true", path)
    known, y, coded = encode_labels(ids, labels, truth, read_metadata(table.schema).get("class_names"))
    return RunLabels(ids, y, tuple(known), coded)


def codes_of_labels(class_names: Sequence[str], note: dict[str, Any], classes: Classes) -> NDArray[np.int64]:
    """Code of each class that the labels of a run name (C,), -1 for one that is gone.

    A class that people renamed or merged is still the one that its labels are of, so codes are kept from the first
    review or update on; before that, classes are numbered as the labels name them, and the rest is found by name.
    """
    kept = [int(code) for code in note.get(LABEL_CODES, range(min(len(class_names), int(note.get("n_old", 0)))))]
    merged = {int(code): int(into) for code, into in note.get("merged", {}).items()}
    number = dict(zip(classes.names, classes.codes, strict=True))
    codes = [*kept, *(number.get(name, UNLABELLED) for name in class_names[len(kept) :])]
    return np.array([merged.get(code, code) for code in codes], dtype=np.int64)


def with_updates(held: pa.Table, updates: list[pa.Table]) -> pa.Table:
    """The table of labels with those of updates that it does not have yet; new classes come after the known ones."""
    names, parts = list(read_metadata(held.schema).get("class_names", [])), [_of_texts(held)]
    for update in updates:
        part = update.filter(pc.invert(pc.is_in(update.column("id"), parts[0].column("id").combine_chunks())))
        names += _new_names(part, names)
        parts.append(_of_texts(part))
    merged = pa.concat_tables(parts, promote_options="default")
    return with_metadata(merged, {**read_metadata(held.schema), "class_names": names})


def names_unheard_of(part: pa.Table, held: RunLabels) -> list[str]:
    """Names of classes in the labels of an update that a run had no label of, in the order in which it gets them."""
    return _new_names(part, held.class_names)


def _new_names(part: pa.Table, names: Sequence[str]) -> list[str]:
    added = read_metadata(part.schema).get("class_names", [])
    return [name for name in added if name not in names and _occurs(part, name)]


def _of_texts(table: pa.Table) -> pa.Table:
    """The same without metadata and with plain texts, in whichever form another tool may have written them."""
    return pa.table({name: table.column(name).cast(pa.string()) for name in table.column_names})


def _occurs(part: pa.Table, name: str) -> bool:
    return bool(pc.any(pc.equal(part.column("label"), name)).as_py())


def later_labels(table: pa.Table) -> pa.Table:
    """Ids and labels of items that the run had already when they were labelled."""
    if LATER not in table.column_names:
        return pa.table({"id": pa.array([], pa.string()), "label": pa.array([], pa.string())})
    given = table.select(["id", LATER]).rename_columns(["id", "label"])
    return given.filter(pc.is_valid(given.column("label"))).replace_schema_metadata(None)


def with_later_labels(table: pa.Table, ids: pa.StringArray, names: pa.StringArray) -> tuple[pa.Table, int]:
    """The table with labels of items that it has, and how many of them are news."""
    own, later = table.column("label"), pa.nulls(len(table), pa.string())
    if LATER in table.column_names:
        later = table.column(LATER).combine_chunks()
        table = table.drop_columns([LATER])
    said = names.take(pc.index_in(table.column("id").combine_chunks(), ids))
    is_said_before = pc.fill_null(pc.equal(said, pc.coalesce(later, own)), False)
    is_news = pc.and_(pc.is_valid(said), pc.invert(is_said_before))
    return table.append_column(LATER, pc.if_else(is_news, said, later)), int(pc.sum(is_news).as_py() or 0)
