"""Finished cells as lines of JSON: appended one at a time, read by key, never run again."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, get_args

from ltgcd.bench.tables import Cell, Runs
from ltgcd.common.errors import InputError
from ltgcd.common.files import lock_file
from ltgcd.run.files import versions


def read_records(folder: Path) -> dict[str, dict[str, Any]]:
    """Every finished cell of a folder by key; of two with the same key the later line counts.

    A last line that a kill cut short is as if it were not there; any other line that is no record is an error.
    """
    records: dict[str, dict[str, Any]] = {}
    for path in (folder / f"{kind}.jsonl" for kind in get_args(Runs)):
        if not path.is_file():
            continue
        lines = path.read_text(encoding="utf-8").split("\n")
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line) if line.strip() else None
                if record is not None:
                    records[record["key"]] = record
            except (ValueError, KeyError, TypeError) as error:
                if number == len(lines):
                    continue
                raise InputError(f"{path}, line {number} is no record of a finished cell; remove the line.") from error
    return records


def append_record(folder: Path, cell: Cell, figures: dict[str, Any]) -> dict[str, Any]:
    """Add a finished cell to the file of its kind and return the record.

    `figures` has what was measured, `split_checksum` and `minutes`; versions and the machine are added here.
    """
    record = {
        "key": cell.key,
        "cell": cell.described(),
        **figures,
        "versions": versions(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{cell.runs}.jsonl"
    path.touch()
    with path.open("r+b") as file:
        _lock(file)
        content = file.read()
        whole = content.rfind(b"\n") + 1
        last = content[whole:]
        if not _is_record(last):
            file.seek(whole)  # what a kill cut short is written over
            file.truncate()
            last = b""
        file.write((b"\n" if last else b"") + json.dumps(record).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return record


def _is_record(line: bytes) -> bool:
    """Whether a line without an end is a record all the same: an editor has left it out."""
    try:
        return "key" in json.loads(line)
    except (ValueError, TypeError):
        return False


@contextmanager
def claimed(work: Path, key: str) -> Iterator[bool]:
    """Whether a cell is ours to run while the block lasts; False where another process is at it.

    Benches that share a work folder divide the cells between them. A process that is killed claims nothing more.
    """
    folder = work / "claims"
    folder.mkdir(parents=True, exist_ok=True)
    with lock_file(folder / key) as file:
        yield _lock(file, wait=False)


@contextmanager
def turn(work: Path, name: str) -> Iterator[None]:
    """Wait until no other process is at something that all benches of a work folder share, such as features."""
    folder = work / "claims"
    folder.mkdir(parents=True, exist_ok=True)
    with lock_file(folder / name) as file:
        _lock(file)
        yield


def _lock(file: IO[Any], *, wait: bool = True) -> bool:
    """Lock a file until it is closed, after waiting for another process if that is wanted; False where one has it."""
    try:
        import fcntl  # noqa: PLC0415 - not on Windows, where two benches at once are not noticed
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
