"""The labels of a run: what it was given, what updates brought, and what people said later of items that it had.

A table with the columns ``id``, ``label``, ``y_true`` where the truth is known, and ``given_later`` once somebody
labels an item that the run had already: that counts from the next training on.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata, with_metadata
from ltgcd.data.collection import Truth
from ltgcd.data.labels import stored_labels, strings
from ltgcd.data.parquet import check_table, read_parquet
from ltgcd.data.sources import encode_labels

LATER = "given_later"


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


def with_updates(held: pa.Table, updates: list[pa.Table]) -> pa.Table:
    """The table of labels with those of updates that it does not have yet; new classes come after the known ones."""
    names, parts = list(read_metadata(held.schema).get("class_names", [])), [held]
    for update in updates:
        part = update.filter(pc.invert(pc.is_in(update.column("id"), held.column("id").combine_chunks())))
        added = read_metadata(part.schema).get("class_names", [])
        names += [name for name in added if name not in names and _occurs(part, name)]
        parts.append(part)
    merged = pa.concat_tables([part.replace_schema_metadata(None) for part in parts], promote_options="default")
    return with_metadata(merged, {**read_metadata(held.schema), "class_names": names})


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
