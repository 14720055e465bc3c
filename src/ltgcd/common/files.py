"""Files that are either whole or not there: atomic writes, checksums, Arrow metadata."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ltgcd.common.errors import InputError

METADATA_KEY = b"ltgcd"
LOCK = ".ltgcd.lock"  # holds who has the folder, for the sentence that a second process is refused with
TEMPORARY = ".tmp"  # how the hidden file ends that `atomic_path` writes to


@contextmanager
def locked(folder: Path, what: str) -> Iterator[None]:
    """Keep a second process from writing to a folder. The system lets go of the lock when a process dies.

    A folder that was made for the lock, and in which nothing was kept, goes again: whoever is refused has taken none.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    what : str
        What this process does, for whoever is refused: "ltgcd update".
    """
    is_new = not folder.is_dir()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+", encoding="utf-8") as file:
        try:
            import fcntl  # noqa: PLC0415 - not on Windows, where two processes at once are not noticed

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.stat(folder / LOCK)  # noqa: PTH116 - gone if who made the folder has just removed it
        except ImportError:
            pass
        except OSError as error:
            file.seek(0)
            holder = file.read(200).strip() or "another process"
            raise InputError(
                f"{folder} is being written to by {holder}; wait until it is finished, or stop it."
            ) from error
        file.truncate(0)
        file.write(f"{what} (process {os.getpid()})\n")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
            if is_new and [path.name for path in folder.iterdir()] == [LOCK]:
                (folder / LOCK).unlink()
                folder.rmdir()


@contextmanager
def atomic_path(path: Path, replaces: Callable[[], bool] = lambda: True) -> Iterator[Path]:
    """Give a temporary path beside `path`; it takes the place of `path` only if the block ends without an error.

    The temporary file is new and has a name that can't be foreseen, so that nobody can have put a link there for us to
    write through.

    Parameters
    ----------
    path : path
        The file to write. A link of that name is replaced, not followed.
    replaces : callable
        Asked at the end, where something of that name is there: whether it may be replaced.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    start = path.name.encode(errors="surrogateescape")[:150].decode(errors="ignore")  # names end at 255 bytes
    temporary = path.with_name(f".{start}.{secrets.token_hex(8)}{TEMPORARY}")
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        if os.path.lexists(path) and not replaces():
            raise InputError(f"{path} was made by someone else meanwhile, and is not overwritten; give another name.")
        temporary.replace(path)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(temporary), temporary):
            error.filename = str(path)  # the name that the user knows: a full disk names none
        raise
    finally:
        temporary.unlink(missing_ok=True)


def is_temporary(path: Path) -> bool:
    """Whether a file has the name of one that `atomic_path` writes to: left by a process that was killed."""
    return path.name.startswith(".") and path.name.endswith(TEMPORARY) and path.is_file()


def write_json(path: Path, value: Any) -> None:  # noqa: ANN401 - whatever json takes
    """Write a JSON file atomically, in a form that diffs well."""
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:  # noqa: ANN401 - whatever is in it
    """Read a JSON file, or say in a sentence that it is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path} is not there.") from error
    except ValueError as error:
        raise InputError(f"{path} is damaged (not JSON); make it again.") from error


def with_metadata(table: pa.Table, value: dict[str, Any]) -> pa.Table:
    """`table` with `value` as JSON in its schema's metadata."""
    packed = json.dumps(value, ensure_ascii=False, sort_keys=True).encode()
    return table.replace_schema_metadata({**(table.schema.metadata or {}), METADATA_KEY: packed})


def read_metadata(schema: pa.Schema) -> dict[str, Any]:
    """What `with_metadata` stored, or an empty dict."""
    try:
        value: dict[str, Any] = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
    except ValueError:  # some other tool's use of the key
        return {}
    return value


def checksum_rows(*columns: pa.Array) -> str:
    """SHA-256 over the rows of some string columns, independent of the order of the rows."""
    rows = pc.binary_join_element_wise(*(column.fill_null("") for column in columns), "\t")
    ordered = rows.take(pc.sort_indices(rows))
    return hashlib.sha256("\n".join(ordered.to_pylist()).encode()).hexdigest()
