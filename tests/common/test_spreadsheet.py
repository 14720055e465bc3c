"""Cells that a spreadsheet would run are guarded without loss."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltgcd.common.spreadsheet import EXPORT_COLUMNS, guard_formulas, guarded, unguard_formulas, unguarded


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"),
        ("-photo.png", "'-photo.png"),
        ("\r=1", "'\r=1"),
        ("'=1", "''=1"),
        ("'tis", "'tis"),
        ("a=b", "a=b"),
        ("", ""),
        (None, None),
    ],
)
def test_only_what_would_run_is_changed(cell: str | None, written: str | None) -> None:
    assert guard_formulas(pa.chunked_array([pa.array([cell], pa.string())])).to_pylist() == [written]


@given(st.lists(st.text("'=+-@\t\r\n＝ab ", max_size=6) | st.none(), max_size=20))
def test_every_text_comes_back(cells: list[str | None]) -> None:
    column = pa.chunked_array([pa.array(cells, pa.string())])
    written = guard_formulas(column)
    assert not [cell for cell in written.to_pylist() if cell and cell[0] in "=+-@\t\r\n＝"]
    assert unguard_formulas(written).to_pylist() == cells


def test_only_our_own_files_are_unguarded() -> None:
    export = pa.table({name: ["'=x"] for name in EXPORT_COLUMNS})
    assert unguarded(export).column("id").to_pylist() == ["=x"]
    assert unguarded(export.append_column("mine", export.column("id"))).column("label").to_pylist() == ["=x"]
    corrections = pa.table({name: ["'=x"] for name in ("id", "label", "category", "name")})
    assert unguarded(corrections).to_pylist() == [dict.fromkeys(corrections.column_names, "=x")]
    theirs = pa.table({"id": ["'=x"], "label": ["'=y"]})
    assert unguarded(theirs) is theirs
    assert guarded(pa.table({"n": [1], "id": ["=x"]})).to_pydict() == {"n": [1], "id": ["'=x"]}
