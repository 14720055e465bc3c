"""Checksums that a file carries in itself, so that a bit that flipped is never read as other content.

No list beside the files has to agree with them: a file and its checksum are written in one step, whatever is killed
when. A file without a checksum was made by another tool, and is read as it is.

What is read is compared with a checksum of its values. Tables and archives of arrays also carry one of all their bytes,
those included that no reader of ours looks at but another tool's may.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ltgcd.common.errors import InputError
from ltgcd.common.files import atomic_path, read_metadata, with_metadata
from ltgcd.common.progress import progress

CHECKSUM = "checksum"
BYTES = b"ltgcd.sha256"  # what the checksum of all bytes stands behind
# What broken bytes of a parquet file are to Arrow; also a name of a column that is no text.
BROKEN_PARQUET = (pa.ArrowException, OSError, ValueError, TypeError, LookupError)
BLANK = b"0" * 64  # what stands in its place while it is computed
_IN_FOOTER = b"\x18\x0c" + BYTES + b"\x18\x40"  # a key and the start of its value, as Thrift packs them
CHECKED_TEXT = "# sha256 of what follows: "  # how it begins


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
            held = held.cast(pa.large_binary())
            digest.update(pc.binary_length(held).to_numpy(zero_copy_only=False).tobytes())
            for start in range(0, len(held), 65536):
                digest.update(b"".join(held.slice(start, 65536).to_pylist()))
        else:
            digest.update(held.to_numpy(zero_copy_only=False).tobytes())
    return digest.hexdigest()


def _is_text(kind: pa.DataType) -> bool:
    of = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(is_kind(kind) for is_kind in (*of, pa.types.is_fixed_size_binary))


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
    """Write a parquet file with a checksum of the whole table, one of each page and one of all bytes."""
    with atomic_path(path) as temporary:
        write_parquet(temporary, with_checksum(table))


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write a table as it is, with checksums of its pages and of all bytes; not atomic."""
    with parquet_writer(path, table.schema) as writer:
        writer.write_table(table)
    seal_bytes(path)


def parquet_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A writer that leaves a place for the checksum of all bytes: give the closed file to `seal_bytes`."""
    writer = pq.ParquetWriter(path, schema, write_page_checksum=True)
    writer.add_key_value_metadata({BYTES.decode(): BLANK.decode()})
    return writer


# ---------------------------------------------------------------- all bytes of a file


def seal_bytes(path: Path) -> None:
    """Put the checksum of all bytes into a parquet file, or into an archive whose comment is `BYTES` and `BLANK`."""
    with path.open("r+b") as file:
        at = _place(file)
        if at is None:
            raise ValueError(path)
        digest = _digest(file, at)
        file.seek(at)
        file.write(digest)


def bytes_are_as_written(path: Path) -> bool | None:
    """Whether every byte of a parquet file or an archive is as it was written; None if it has no such checksum."""
    with path.open("rb") as file:
        at = _place(file)
        if at is None:
            return None
        file.seek(at)
        return file.read(len(BLANK)) == _digest(file, at)


def _place(file: BinaryIO) -> int | None:
    """Where the checksum of all bytes stands: in the footer of a table, or at the end of an archive."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 8, 0))
    end = file.read(8)
    if end[4:] != b"PAR1":
        at = size - len(BLANK)
        file.seek(max(at - len(BYTES), 0))
        return at if file.read(len(BYTES)) == BYTES else None
    start = max(size - 8 - int.from_bytes(end[:4], "little"), 0)
    file.seek(start)
    at = file.read(size - start).find(_IN_FOOTER)
    return None if at < 0 else start + at + len(_IN_FOOTER)


def _digest(file: BinaryIO, at: int) -> bytes:
    """SHA-256 of a file, with its own place left blank."""
    digest, before = hashlib.sha256(), at
    with progress("looking at every byte (MB)", file.seek(0, os.SEEK_END) >> 20) as advance:
        file.seek(0)
        while before > 0 and (block := file.read(min(before, 1 << 20))):
            digest.update(block)
            before -= len(block)
            advance(len(block) >> 20)
        digest.update(BLANK)
        file.seek(at + len(BLANK))
        while block := file.read(1 << 20):
            digest.update(block)
            advance(len(block) >> 20)
    return digest.hexdigest().encode()


# ---------------------------------------------------------------- texts and objects


def checked_text(text: str) -> str:
    """`text` behind a line with its checksum, in the form of a comment in TOML."""
    return f"{CHECKED_TEXT}{hashlib.sha256(text.encode()).hexdigest()}\n{text}"


def text_is_as_written(text: str) -> bool | None:
    """Whether what `checked_text` gave has its checksum; None without one."""
    first, _, rest = text.partition("\n")
    if not first.startswith(CHECKED_TEXT):
        return False if CHECKED_TEXT in text else None  # something stands before it
    return first == checked_text(rest).partition("\n")[0]


def noted_text_checksum(text: str) -> str | None:
    """The checksum that `checked_text` put before a text, right or wrong; None without one."""
    first = text.partition("\n")[0]
    return first.removeprefix(CHECKED_TEXT).strip() if first.startswith(CHECKED_TEXT) else None


def checked_object(value: dict[str, Any]) -> dict[str, Any]:
    """An object for a JSON file, with a checksum of all that is in it."""
    return {**value, CHECKSUM: _object_checksum(value)}


def unchecked_object(value: dict[str, Any], owner: Path) -> dict[str, Any]:
    """What `checked_object` was given; a sentence if the checksum is another. One without a checksum is taken."""
    plain = {key: part for key, part in value.items() if key != CHECKSUM}
    # Where the name of the checksum itself was hit, another part is the checksum of the rest.
    hit = CHECKSUM not in value and any(
        part == _object_checksum({k: v for k, v in plain.items() if k != key})
        for key, part in plain.items()
        if isinstance(part, str) and len(part) == len(BLANK)
    )
    if hit or value.get(CHECKSUM, "") not in ("", _object_checksum(plain)):
        raise InputError(f"{owner} is damaged or was changed by hand: its checksum is another; restore it.")
    return plain


def _object_checksum(value: dict[str, Any]) -> str:
    plain = json.loads(json.dumps(value))  # as it is read: the keys of a table are text there
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
