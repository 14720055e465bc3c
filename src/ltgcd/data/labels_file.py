"""Labels in a file of their own (``--labels``): a CSV or parquet table, or what a labelling tool exported as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ltgcd.common.errors import InputError
from ltgcd.data.collection import check_unique
from ltgcd.data.labels import no_label_note, read_csv, stored_labels, strings, without_no_label
from ltgcd.data.parquet import read_parquet
from ltgcd.data.tool_exports import read_tool_labels

Notify = Callable[[str], None]


def read_labels(path: Path, ids: pa.StringArray, notify: Notify) -> pa.StringArray:
    """Label of each of some items by its id; null where the file says nothing of it.

    Parameters
    ----------
    path : path
        ``.csv`` or ``.parquet`` with the columns ``id, label`` (as people write it, or as ``ltgcd export`` did), or the
        ``.json`` that Label Studio, FiftyOne or a COCO tool exported.
    ids : pyarrow.StringArray
        All items; the file may name no others.
    notify : callable
        Told in a sentence which entries could not be used.
    """
    labelled, names = _read(path, notify)
    check_unique(labelled, path)
    missing = labelled.filter(pc.invert(pc.is_in(labelled, ids)))
    if len(missing):
        raise InputError(
            f"{path} labels {len(missing)} ids that are not in the source (for example '{missing[0]}'); remove these "
            "rows or correct the ids."
        )
    return names.take(pc.index_in(ids, labelled))


def _read(path: Path, notify: Notify) -> tuple[pa.StringArray, pa.StringArray]:
    """Ids and labels, as they stand in the file."""
    if path.suffix.lower() == ".json":
        told = read_tool_labels(path)
        for note in told.notes:
            notify(f"{path}: {note}")
        names, dropped = without_no_label(told.table.column("label").combine_chunks())
        if dropped:
            notify(no_label_note(dropped, path))
        return told.table.column("id").combine_chunks(), names
    table = read_parquet(path) if path.suffix.lower() == ".parquet" else read_csv(path)
    if not {"id", "label"} <= set(table.column_names):
        raise InputError(f"{path} needs the columns 'id' and 'label', but has {table.column_names}.")
    labels = stored_labels(table, "label", path, notify)
    assert labels is not None
    return strings(table.column("id"), "id", path), labels
