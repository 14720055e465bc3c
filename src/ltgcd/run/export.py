"""The labels of a run for other tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.outputs import check_output
from ltgcd.data.collection import UNLABELLED, Collection
from ltgcd.data.items import ImageFiles
from ltgcd.data.labels import GIVEN
from ltgcd.data.sources import read_source, warn
from ltgcd.output.export.formats import STATUSES, check_export, export_items
from ltgcd.output.export.publish import sweep_exports
from ltgcd.run.directory import Run
from ltgcd.run.items import in_order
from ltgcd.run.same_content import check_same_items


def export_run(
    run: Run,
    form: str,
    out: Path,
    *,
    source: Path | None = None,
    statuses: tuple[str, ...] = STATUSES,
    copy: bool = False,
    notify: Callable[[str], None] = warn,
) -> dict[str, Any]:
    """Write the labels of a finished run to `out`, which must not exist.

    Parameters
    ----------
    run : Run
        A finished run.
    form : str
        A key of `ltgcd.output.export.formats.FORMATS`.
    out : path
        A file (csv, parquet, label-studio) or a folder (folders, fiftyone, coco), outside of the run and of the source.
    source : path, optional
        The items; by default those that the run keeps.
    statuses : tuple of str
        Which items: known, novel, unsure.
    copy : bool
        Copy image files instead of linking to them.
    notify : callable
        Told in a sentence what was noticed about the source; a warning by default.
    """
    sweep_exports(out)  # also where this one is refused because the one that was killed had all but finished
    check_export(form, out, statuses, source)
    table = run.assignments()
    items, note = run.items() if source is None else read_source(source, notify=notify).collection, None
    if source is not None and items is not None:
        note = check_same_items(run, table.column("id").combine_chunks(), items, source)
    if source is None and items is not None:
        check_output(out, None, tuple(_source_folders(items)))
    if items is not None and items.items.kind == "image":
        # An image that is gone is left out by who needs it, and said; it does not keep the others from being exported.
        ids = table.column("id").combine_chunks()
        shown = in_order(ids, items, source or f"the items of {run}")[0]
        items = Collection(ids, shown, np.full(len(ids), UNLABELLED, dtype=np.int64), ())
    labelled = with_given(table, _labelled(run, table))
    done = export_items(labelled, items, form, out, statuses=statuses, copy=copy)
    return {**done, "notes": [*done["notes"], note]} if note else done


def with_given(table: pa.Table, labelled: NDArray[np.bool_]) -> pa.Table:
    """Assignments with a column that says whether a label is a person's: the source had it, or somebody said so since.

    `labelled` (N,) are the items that came with a label.
    """
    if GIVEN in table.column_names:
        labelled = labelled | np.asarray(table.column(GIVEN).to_numpy(zero_copy_only=False), dtype=np.bool_)
        table = table.drop_columns([GIVEN])
    return table.append_column(GIVEN, pa.array(labelled))


def _labelled(run: Run, table: pa.Table) -> NDArray[np.bool_]:
    """Which items of the assignments (N,) came with a label."""
    labels = run.labels()
    found = pc.is_in(table.column("id"), labels.ids.filter(pa.array(labels.y != UNLABELLED)))
    return np.asarray(found.to_numpy(), dtype=np.bool_)


def _source_folders(collection: Collection) -> set[Path]:
    """Folders that were read as a source, as far as one can tell: an id is then the path of an image inside of it."""
    items = collection.items
    if not isinstance(items, ImageFiles):
        return set()
    found: set[Path] = set()
    for item_id, name in zip(collection.ids.to_pylist(), items.paths.to_pylist(), strict=True):
        path = str(items.root / name)
        if path.endswith(f"/{item_id}"):
            found.add(Path(path[: -len(item_id) - 1]))
    return found
