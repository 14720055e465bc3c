"""Outputs that a user names: the one place that decides whether a path may be written to.

Nothing that is there is overwritten, unless ltgcd made it for the very same purpose and nobody has changed it since. To
know it again, what we write is sealed: it says what it was made as, with a checksum. A table has the seal in its
metadata, a PNG in a chunk of its own, a page or an SVG in a comment at its end.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ltgcd.common.checksums import BROKEN_PARQUET, CHECKED_TEXT, is_as_written, with_checksum
from ltgcd.common.errors import InputError
from ltgcd.common.files import LOCK, atomic_path, is_temporary, read_metadata, sweep_beside, with_metadata

FEATURES_MARK = "features.json"  # a folder with it is one of features
_IN_FEATURES = (b'"format": ', b'"trunk": ')  # what stands in it from the start: others may have a file of that name
_PNG, _PARQUET = b"\x89PNG\r\n\x1a\n", b"PAR1"
_PNG_END = struct.pack(">I", 0) + b"IEND" + struct.pack(">I", zlib.crc32(b"IEND"))
_CHUNK = b"tEXtltgcd\0"


def check_output(
    path: Path,
    made_by: str | None = None,
    sources: tuple[Path | None, ...] = (),
    belongs_to: Path | None = None,
) -> None:
    """Refuse to write to a path where something would be lost or mixed up, in one sentence.

    Parameters
    ----------
    path : path
        The file that shall be written; without `made_by` it may be a folder.
    made_by : str, optional
        What it will be: "predictions", "plot", "report". One that ltgcd made as the same, and that is as it was
        written, may be replaced; without `made_by` nothing may.
    sources : tuple of paths
        What is read, as the user gave it: nothing is written over it, nor into a folder that is read.
    belongs_to : path, optional
        The folder of ltgcd's own that the file is a part of; into another one nothing is written.
    """
    _check_sources(path, sources)
    owner = _kept_folder(path)
    if owner is not None and (belongs_to is None or owner != _real(belongs_to)):
        raise _in_a_run(path, owner)
    if made_by is None:
        if os.path.lexists(path):
            raise InputError(f"{path} is there already, and nothing is overwritten; give another name, or remove it.")
        return
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file.")
    if os.path.lexists(path) and not is_sealed(path, made_by):
        raise InputError(
            f"{path} is there already, and ltgcd overwrites only what it made itself as {made_by} and nobody has "
            "changed; give another name, or remove it."
        )


def check_folder(folder: Path, sources: tuple[Path | None, ...] = ()) -> None:
    """Refuse a folder for many files that is none, or that lies inside of a run or a source; it may be there.

    Whether what is in it may be added to is for who keeps such folders (`check_free`). `sources` as in `check_output`.
    """
    _check_sources(folder, sources)
    owner = _kept_folder(folder)
    if owner is not None:
        raise _in_a_run(folder, owner)
    if folder.is_file():
        raise InputError(f"{folder} is a file; give a folder with --out.")


def check_free(folder: Path, holds: str, is_own: Callable[[Path], bool] = lambda _path: False) -> None:
    """Refuse a folder in which there is anything but what killed commands left, and what `is_own` says is ours.

    `holds` is what would be there if it were ours: "features".
    """
    if folder.is_dir() and not all(
        path.name == LOCK or is_temporary(path) or is_own(path) for path in folder.iterdir()
    ):
        raise InputError(f"{folder} is not empty and holds no {holds}; give a new folder with --out.")


def _check_sources(path: Path, sources: tuple[Path | None, ...]) -> None:
    for source in sources:
        if source is None or not os.path.lexists(source):
            continue
        here, there = _real(path), _real(source)
        if here == there:
            raise InputError(f"{path} is the source itself, which is never overwritten; give another place.")
        if source.is_dir() and here.is_relative_to(there):
            raise InputError(
                f"{path} lies in the source {source}, which would then be read with it; give a place outside of the "
                "source."
            )


def _in_a_run(path: Path, owner: Path) -> InputError:
    return InputError(f"{path} lies in {owner}, where ltgcd keeps what is its own; give a place outside of it.")


def _real(path: Path) -> Path:
    """Where a path leads; of links in a circle, the first one."""
    return Path(os.path.realpath(path))


def _kept_folder(path: Path) -> Path | None:
    """The folder of a run or of features that a path lies in."""
    return next((folder for folder in _real(path).parents if _is_kept(folder)), None)


def _is_kept(folder: Path) -> bool:
    """Whether a folder has our lock at its top or, copied without hidden files, features or settings of ours."""
    if (folder / LOCK).is_file():
        return True
    start = _start_of(folder / FEATURES_MARK)
    return all(mark in start for mark in _IN_FEATURES) or any(
        _start_of(path).startswith(CHECKED_TEXT.encode()) for path in folder.glob("*.toml")
    )


def _start_of(path: Path) -> bytes:
    """The first bytes of a file; none of one that is not there, or that is somebody's whom we may not ask."""
    try:
        with path.open("rb") if path.is_file() else io.BytesIO() as file:
            return file.read(4096)
    except OSError:
        return b""


@contextmanager
def output_path(path: Path, made_by: str, *, is_own: bool = False) -> Iterator[Path]:
    """Give a temporary path; what is written there is sealed and put in place, if there is still nothing foreign.

    A file that is ltgcd's own, in a folder of its own (`is_own`), gives way also if it is damaged. What processes that
    were killed left of the same output is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep_beside(path)
    with atomic_path(path, replaces=lambda: is_own or is_sealed(path, made_by)) as temporary:
        yield temporary
        temporary.write_bytes(sealed(temporary.read_bytes(), made_by))


# ---------------------------------------------------------------- seals


def sealed_table(table: pa.Table, made_by: str) -> pa.Table:
    """A table whose metadata say what it was made as, with a checksum."""
    return with_checksum(with_metadata(table, {**read_metadata(table.schema), "made_by": made_by}))


def sealed(content: bytes, made_by: str) -> bytes:
    """A PNG, or a page or an SVG, with a seal at its end; a table has its own already (`sealed_table`)."""
    if content.startswith(_PARQUET):
        return content
    if content.startswith(_PNG) and content.endswith(_PNG_END):
        body = content[: -len(_PNG_END)]
        return body + _png_chunk(body, made_by) + _PNG_END
    return content + _comment(content, made_by)


def is_sealed(path: Path, made_by: str) -> bool:
    """Whether a file was made by ltgcd as `made_by`, and is as it was written."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(len(_PNG))
    if start.startswith(_PARQUET):
        try:
            table = pq.read_table(path)
            return read_metadata(table.schema).get("made_by") == made_by and bool(is_as_written(table))
        except BROKEN_PARQUET:
            return False
    content = path.read_bytes()
    at = content.rfind(_CHUNK) - 4 if start == _PNG else content.rfind(b"<!-- made by ltgcd")
    return at > 0 and sealed(content[:at] + (_PNG_END if start == _PNG else b""), made_by) == content


def _png_chunk(body: bytes, made_by: str) -> bytes:
    chunk = _CHUNK + f"{made_by} {hashlib.sha256(body).hexdigest()}".encode()
    return struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))


def _comment(content: bytes, made_by: str) -> bytes:
    if not re.fullmatch(r"[a-z ]+", made_by):
        raise ValueError(made_by)  # it stands in a comment
    return f"<!-- made by ltgcd as {made_by}, sha256 {hashlib.sha256(content).hexdigest()} -->\n".encode()
