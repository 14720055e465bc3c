"""Checksums that a file carries in itself, so that a bit that flipped is never read as other content.

No list beside the files has to agree with them: a file and its checksum are written in one step, whatever is killed
when. A file without a checksum was made by another tool, and is read as it is.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ltgcd.common.errors import InputError
from ltgcd.common.files import atomic_path, read_metadata, with_metadata

CHECKSUM = "checksum"
_COMMENT = "# sha256 of what follows: "


# ---------------------------------------------------------------- tables


def table_checksum(table: pa.Table) -> str:
    """SHA-256 of names, types and values, whatever the chunks are and however nulls are stored."""
    digest = hashlib.sha256()
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = column.combine_chunks()
        values = pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values
        digest.update(f"{name}\0{values.type}\0{len(values)}\0".encode())
        valid = values.is_valid()
        digest.update(np.packbits(valid.to_numpy(zero_copy_only=False)).tobytes())
        held = values.filter(valid)
        if _is_text(held.type):
            digest.update(pc.binary_length(held).cast(pa.int64()).to_numpy(zero_copy_only=False).tobytes())
            for start in range(0, len(held), 65536):
                digest.update(b"".join(held.slice(start, 65536).cast(pa.large_binary()).to_pylist()))
        else:
            digest.update(held.to_numpy(zero_copy_only=False).tobytes())
    return digest.hexdigest()


def _is_text(kind: pa.DataType) -> bool:
    of = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(is_kind(kind) for is_kind in of)


def with_checksum(table: pa.Table) -> pa.Table:
    """`table` with a checksum of its values and of its note (`with_metadata`) in the note."""
    note = {key: value for key, value in read_metadata(table.schema).items() if key != CHECKSUM}
    return with_metadata(table, {**note, CHECKSUM: _noted_checksum(table, note)})


def is_as_written(table: pa.Table) -> bool | None:
    """Whether a table has the checksum that it was written with; None if it was written without one."""
    note = read_metadata(table.schema)
    kept = note.pop(CHECKSUM, None)
    return None if kept is None else kept == _noted_checksum(table, note)


def _noted_checksum(table: pa.Table, note: dict[str, Any]) -> str:
    text = json.dumps(note, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(f"{table_checksum(table)}\n{text}".encode()).hexdigest()


def write_table(path: Path, table: pa.Table) -> None:
    """Write a parquet file with a checksum of the whole table, and one of each page for other tools."""
    with atomic_path(path) as temporary:
        pq.write_table(with_checksum(table), temporary, write_page_checksum=True)


# ---------------------------------------------------------------- texts and objects


def checked_text(text: str) -> str:
    """`text` behind a line with its checksum, in the form of a comment in TOML."""
    return f"{_COMMENT}{hashlib.sha256(text.encode()).hexdigest()}\n{text}"


def text_is_as_written(text: str) -> bool | None:
    """Whether what `checked_text` gave has its checksum; None without one."""
    first, _, rest = text.partition("\n")
    if not first.startswith(_COMMENT):
        return False if _COMMENT in text else None  # something stands before it
    return first == checked_text(rest).partition("\n")[0]


def checked_object(value: dict[str, Any]) -> dict[str, Any]:
    """An object for a JSON file, with a checksum of all that is in it."""
    return {**value, CHECKSUM: _object_checksum(value)}


def unchecked_object(value: dict[str, Any], owner: Path) -> dict[str, Any]:
    """What `checked_object` was given; a sentence if the checksum is another. One without a checksum is taken."""
    plain = {key: part for key, part in value.items() if key != CHECKSUM}
    if value.get(CHECKSUM, "") not in ("", _object_checksum(plain)):
        raise InputError(f"{owner} is damaged or was changed by hand: its checksum is another; restore it.")
    return plain


def _object_checksum(value: dict[str, Any]) -> str:
    plain = json.loads(json.dumps(value))  # as it is read: the keys of a table are text there
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
