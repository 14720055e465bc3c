"""Parquet files: opened and read with one sentence for what is wrong, and images taken out without loading all of them.

Most tools write a file as a single row group, so a large row group is streamed: whoever asks for rows in ascending
order needs memory for a few of them, whatever the size of the file.
"""

from __future__ import annotations

import threading
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ltgcd.common.checksums import BROKEN_PARQUET, is_as_written
from ltgcd.common.errors import InputError
from ltgcd.data.regular_files import check_regular

GROUP_BYTES = 64 << 20  # a row group beyond this is streamed; a smaller one is read at once and kept for a while
STREAM_ROWS = 16  # rows of a streamed row group that are in memory


def parquet_file(path: Path) -> pq.ParquetFile:
    """Open a parquet file, or say in a sentence that it can't be read."""
    check_regular(path)
    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
    except BROKEN_PARQUET as error:
        raise InputError(
            f"{path} can't be read as parquet (it may be truncated or of another format); make or fetch it again."
        ) from error
    check_columns(names, path)
    return file


def read_parquet(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Read some columns of a parquet file (all by default), or say in a sentence that it is damaged."""
    file = parquet_file(path)
    try:
        return file.read(columns=columns)
    except BROKEN_PARQUET as error:
        raise InputError(f"{path} is damaged and can't be read to its end; make or fetch it again.") from error


def read_table(path: Path) -> pa.Table:
    """Read a table that ltgcd keeps for itself, or say in a sentence that it is damaged."""
    table = read_parquet(path)
    check_table(table, path)
    return table


def check_table(table: pa.Table, path: Path) -> None:
    """Refuse a table that is not as ltgcd wrote it; one without a checksum is another tool's, and taken."""
    if is_as_written(table) is False:
        raise InputError(
            f"{path} is damaged, or another tool changed it: its checksum is another; restore it, or start again in a "
            "new folder."
        )


def check_columns(names: list[str], owner: Path) -> None:
    """Refuse a table in which one name stands for two columns; those without a name are never asked for."""
    twice = [name for name, uses in Counter(names).items() if name and uses > 1]
    if twice:
        raise InputError(f"{owner} has more than one column called '{twice[0]}'; rename or remove all but one.")


def image_column(path: Path) -> str:
    """Name of the column that holds images: a struct with ``bytes``, or plain binary."""
    schema = parquet_file(path).schema_arrow
    for field in schema:
        if pa.types.is_struct(field.type) and field.type.get_field_index("bytes") >= 0:
            return str(field.name)
    for field in schema:
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            return str(field.name)
    raise InputError(f"{path} has no image column (a struct with 'bytes'); its columns are {schema.names}.")


class RowGroup(NamedTuple):
    """A row group: its file, when that was written, its number there, and its size."""

    file: Path
    written: int  # in nanoseconds: what is kept of a file must not outlive its content
    number: int
    rows: int
    is_large: bool


def row_groups(file: Path) -> list[RowGroup]:
    """All row groups of a file, in order."""
    metadata, written = parquet_file(file).metadata, file.stat().st_mtime_ns
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    return [
        RowGroup(file, written, n, group.num_rows, group.total_byte_size > GROUP_BYTES)
        for n, group in enumerate(groups)
    ]


@lru_cache(maxsize=2)
def read_row_group(group: RowGroup, column: str) -> pa.Array:
    """The images of a row group, encoded."""
    try:
        return _blobs(pq.ParquetFile(group.file).read_row_group(group.number, [column]).column(column).combine_chunks())
    except BROKEN_PARQUET as error:
        raise _damaged(group) from error


class RowStream:
    """The images of a row group from front to back, a few in memory at a time; to go back is to start again."""

    def __init__(self, group: RowGroup, column: str) -> None:
        self.group, self.column = group, column
        self._start_again()

    def _start_again(self) -> None:
        # With other settings the whole column is fetched before the first row.
        file = pq.ParquetFile(self.group.file, buffer_size=1 << 20, pre_buffer=False)
        self._batches = file.iter_batches(STREAM_ROWS, row_groups=[self.group.number], columns=[self.column])
        self._start, self._held = 0, pa.nulls(0)

    def take(self, rows: NDArray[np.int64]) -> list[bytes | None]:
        """Encoded images of some rows, in any order, best in an ascending one."""
        found: dict[int, bytes | None] = {}
        for row in np.unique(rows).tolist():
            if row < self._start:
                self._start_again()
            while row >= self._start + len(self._held):
                self._start += len(self._held)
                try:
                    self._held = _blobs(next(self._batches).column(0))
                except (pa.ArrowException, OSError, StopIteration) as error:
                    raise _damaged(self.group) from error
            found[row] = self._held[row - self._start].as_py()
        return [found[row] for row in rows.tolist()]


_open = threading.local()


def row_stream(group: RowGroup, column: str) -> RowStream:
    """The stream of a row group where this thread has left it, whichever store asks; one is open a thread."""
    if getattr(_open, "key", None) != (group, column):
        _open.key, _open.stream = (group, column), RowStream(group, column)
    stream: RowStream = _open.stream
    return stream


def _blobs(values: pa.Array) -> pa.Array:
    return values.field("bytes") if pa.types.is_struct(values.type) else values


def _damaged(group: RowGroup) -> InputError:
    return InputError(f"{group.file} is damaged (row group {group.number} can't be read); fetch it again.")
