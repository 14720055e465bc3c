"""The labels of a run for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ltgcd.data.sources import read_source
from ltgcd.export.formats import STATUSES, check_export, export_items
from ltgcd.run.directory import Run


def export_run(
    run: Run,
    form: str,
    out: Path,
    *,
    source: Path | None = None,
    statuses: tuple[str, ...] = STATUSES,
    copy: bool = False,
) -> dict[str, Any]:
    """Write the labels of a finished run to `out`, which must not exist.

    Parameters
    ----------
    run : Run
        A finished run.
    form : str
        A key of `ltgcd.export.formats.FORMATS`.
    out : path
        A file (csv, parquet, label-studio) or a folder (folders, fiftyone, coco).
    source : path, optional
        The items; by default those that the run keeps.
    statuses : tuple of str
        Which items: known, novel, unsure.
    copy : bool
        Copy image files instead of linking to them.
    """
    check_export(form, out, statuses)
    table = run.assignments()
    items = read_source(source).collection if source is not None else run.items()
    return export_items(table, items, form, out, statuses=statuses, copy=copy)
