"""Files that are either whole or not there: atomic writes, the lock of a folder, checksums, Arrow metadata."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.compute as pc

from ltgcd.common.errors import BusyError, InputError

METADATA_KEY = b"ltgcd"
LOCK = ".ltgcd.lock"  # holds who has the folder, for the sentence that a second process is refused with
LONGEST_HOLDER = 200  # characters of it
_HOLDER = re.compile(r"([^\n]+ \(process \d+\)\n)?")
MOMENT, MOMENTS = 0.05, 20  # seconds between two looks at a lock whose holder has no name yet, and how many looks
TEMPORARY = ".tmp"  # how the hidden file ends that `atomic_path` writes to


@contextmanager
def locked(folder: Path, what: str, *, leaves_lock: bool = True) -> Iterator[None]:
    """Keep a second process from writing to a folder. The system lets go of the lock when a process dies.

    A folder that was made for the lock, and in which nothing was kept, goes again: whoever is refused has taken none.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    what : str
        What this process does, for whoever is refused: "ltgcd update".
    leaves_lock : bool
        Whether the file of the lock stays: it says that all in the folder is ltgcd's own (`ltgcd.common.outputs`). Not
        in a folder that a person goes on with.
    """
    is_new = not folder.is_dir()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    with lock_file(path) as file:
        try:
            _take(file)
            if not os.path.samestat(os.fstat(file.fileno()), path.lstat()):
                raise OSError("who had it has just removed it, and another one has it")
        except OSError as error:
            holder = _holder(file) or "another process"
            raise BusyError(
                f"{folder} is being written to by {holder}; wait until it is finished, or stop it."
            ) from error
        _say(file, f"{what} (process {os.getpid()})\n")
        try:
            yield
        finally:
            _say(file, "")
            holds_nothing = is_new and [each.name for each in folder.iterdir()] == [LOCK]
            if holds_nothing or not leaves_lock:
                path.unlink(missing_ok=True)
            if holds_nothing:
                folder.rmdir()


def lock_file(path: Path) -> TextIO:
    """Open the file of a lock, made if it is not there: never a link, and never what somebody else has written."""
    try:
        # Not on Windows, which has no such links. What is no file (a pipe) is not waited for.
        flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o666), "r+", encoding="utf-8", errors="replace")
    except OSError as error:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise _no_lock(path) from error
        raise
    is_ours = stat.S_ISREG(os.fstat(file.fileno()).st_mode) and _HOLDER.fullmatch(file.read(LONGEST_HOLDER + 1))
    if not is_ours:
        file.close()
        raise _no_lock(path)
    return file


def _no_lock(path: Path) -> InputError:
    return InputError(
        f"{path} is not what ltgcd keeps under that name: a link, or something of somebody's; move it away."
    )


def _take(file: TextIO) -> None:
    """Take the lock of an open file, or raise OSError.

    A holder without a name has only just taken the lock, or is letting go of it: that is over in a moment.
    """
    try:
        import fcntl  # noqa: PLC0415 - not on Windows, where two processes at once are not noticed
    except ImportError:
        return
    for left in reversed(range(MOMENTS)):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            if _holder(file) or not left:
                raise
            time.sleep(MOMENT)


def _holder(file: TextIO) -> str:
    """Who says in the file that the lock is theirs; empty where nobody does."""
    file.seek(0)
    return file.read(LONGEST_HOLDER).strip()


def _say(file: TextIO, holder: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(holder)
    file.flush()


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
    temporary, held = _temporary(path), None
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        while (held := hold(temporary)) is None and not temporary.exists():  # swept before it could be held
            temporary = _temporary(path)
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
        to_the_end(lambda: temporary.unlink(missing_ok=True))
        if held is not None:
            os.close(held)


def _temporary(path: Path) -> Path:
    return path.with_name(f"{_start(path)}{secrets.token_hex(8)}{TEMPORARY}")


def _start(path: Path) -> str:
    start = path.name.encode(errors="surrogateescape")[:150].decode(errors="ignore")  # names end at 255 bytes
    return f".{start}."


def sweep_beside(path: Path) -> None:
    """Remove what processes that were killed left of writing `path`."""
    name = re.compile(re.escape(_start(path)) + "[0-9a-f]{16}" + re.escape(TEMPORARY))
    sweep([other for other in path.parent.iterdir() if name.fullmatch(other.name)])


def hold(path: Path) -> int | None:
    """Say that someone is at work on a temporary file or folder, until the descriptor is closed or the process dies.

    None if another process is, or has just removed it, or if the system can't tell.
    """
    try:
        import fcntl  # noqa: PLC0415 - not on Windows

        held = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(held).st_ino == path.lstat().st_ino:
            return held
    except OSError:
        pass
    except BaseException:
        os.close(held)
        raise
    os.close(held)
    return None


def sweep(paths: Iterable[Path]) -> None:
    """Remove temporary files and folders that nobody holds: who made them was killed."""
    for path in paths:
        held = hold(path)
        if held is not None:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
            os.close(held)


def to_the_end(clean_up: Callable[[], object]) -> None:
    """Clean up also if Ctrl-C comes meanwhile; then it is heard."""
    try:
        clean_up()
    except KeyboardInterrupt:
        clean_up()
        raise


def is_temporary(path: Path) -> bool:
    """Whether a file has the name of one that `atomic_path` writes to: left by a process that was killed."""
    return path.name.startswith(".") and path.name.endswith(TEMPORARY) and path.is_file()


def write_json(path: Path, value: Any) -> None:  # noqa: ANN401 - whatever json takes
    """Write a JSON file atomically, in a form that diffs well."""
    with atomic_path(path) as temporary:
        temporary.write_text(json_text(value), encoding="utf-8")


def json_text(value: Any) -> str:  # noqa: ANN401 - whatever json takes
    """What `write_json` writes."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


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
