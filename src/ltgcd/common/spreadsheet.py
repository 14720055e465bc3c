"""CSV files that a spreadsheet may open: no cell is a formula, and nothing is lost by that.

A spreadsheet runs a cell that begins with ``=``, ``+``, ``-`` or ``@``, and some skip a tab or a line break before it.
File names and class names come from anywhere, so such a cell gets an apostrophe in front. So does one that begins with
apostrophes and then such a character; therefore taking one apostrophe away again always gives the cell as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow as pa
import pyarrow.compute as pc

CORRECTIONS_COLUMNS = ("id", "label", "category", "name")  # what the report page downloads (local-edits.js)
EXPORT_COLUMNS = ("id", "label", "code", "status", "confidence", "leans_to")

# The wide forms are what a Japanese or Chinese keyboard gives; spreadsheets of these languages run them, too.
_FORMULA = r"('*[=+\-@\t\r\n＝＋－＠])"


def guard_formulas(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text as cells that no spreadsheet runs; `unguard_formulas` gives it back."""
    return pc.replace_substring_regex(cells, rf"^{_FORMULA}", r"'\1")


def unguard_formulas(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """The text that `guard_formulas` made these cells of."""
    return pc.replace_substring_regex(cells, rf"^'{_FORMULA}", r"\1")


def guarded(table: pa.Table) -> pa.Table:
    """A table as it may be written to a CSV: all its texts guarded."""
    return _with_texts(table, guard_formulas)


def unguarded(table: pa.Table) -> pa.Table:
    """What was read from a CSV: the guard undone if `ltgcd export` or the page wrote the file, else as it is."""
    columns = table.column_names
    ours = is_export(columns) or tuple(columns) == CORRECTIONS_COLUMNS
    return _with_texts(table, unguard_formulas) if ours else table


def is_export(columns: Collection[str]) -> bool:
    """Whether a table is one of ``ltgcd export``, by its columns; more may have been added, in any order."""
    return set(EXPORT_COLUMNS) <= set(columns)


def _with_texts(table: pa.Table, change: Callable[[pa.ChunkedArray], pa.ChunkedArray]) -> pa.Table:
    for at, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            table = table.set_column(at, field, change(table.column(at)))
    return table
