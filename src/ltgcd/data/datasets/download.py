"""Fetch a dataset: resumed where it broke off, checked before it is used, unpacked without leaving its folder."""

from __future__ import annotations

import hashlib
import http.client
import shutil
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from ltgcd.common.errors import InputError
from ltgcd.data.datasets import data_root, get_dataset, is_packed, load_pool, locate
from ltgcd.data.datasets.base import Archive, Dataset

ATTEMPTS = 4  # without a byte of progress
PAUSE = 1.0  # seconds before the second attempt; doubles with each
TIMEOUT = 60.0  # seconds without an answer
_BLOCK = 1 << 20
_RETRY = frozenset({408, 425, 429, 500, 502, 503, 504})
_GONE = frozenset({404, 410})
_NOT_THAT_RANGE = 416

Advance = Callable[[int], None]


class _BrokenOffError(Exception):
    """A transfer that may go on if it is tried again."""


def get(name: str, root: Path | str | None = None, *, progress: bool = True) -> Path:
    """Fetch and unpack all archives of a dataset; what is already there is not fetched again.

    Parameters
    ----------
    name : str
        Name of the dataset.
    root : path, optional
        Folder of all datasets; see `ltgcd.data.datasets.data_root`.
    progress : bool
        Whether to draw a progress bar on stderr.

    Returns
    -------
    Path
        The dataset's folder.

    Raises
    ------
    InputError
        Where no script may fetch it (with how to get it by hand), and for all that may go wrong on the way.
    """
    dataset, where = get_dataset(name), data_root(root)
    if not dataset.archives:
        raise InputError(f"{dataset.title} can't be fetched by a script; {_by_hand(dataset.how)}")
    present = locate(dataset, where)
    if present is not None and _is_complete(dataset, where):
        return present
    folder = where / dataset.name
    # If all was fetched once and still can't be read, something was removed or damaged since: all over again.
    pending = [archive for archive in dataset.archives if not _is_done(archive, folder)] or list(dataset.archives)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _require_room(folder, pending)
        for archive in pending:
            path = fetch(archive, folder, how=dataset.how, progress=progress)
            if is_packed(archive.file):
                unpack(path, folder)
                _receipt(archive, folder).write_text(archive.checksum + "\n", encoding="utf-8")
                path.unlink()
    except OSError as error:
        raise InputError(
            f"{folder} can't be written to ({error.strerror or error}); make room, or choose another folder with "
            "LTGCD_DATA."
        ) from error
    return folder


def fetch(archive: Archive, folder: Path, *, how: str = "", progress: bool = True) -> Path:
    """Fetch a file into `folder` and check it; a ``.part`` file that an earlier call left is completed.

    Parameters
    ----------
    archive : Archive
        What to fetch.
    folder : Path
        Where to put it.
    how : str
        A sentence on how to get it by hand, for the errors.
    progress : bool
        Whether to draw a progress bar on stderr.
    """
    target = folder / archive.file
    if target.is_file() and _matches(target, archive.checksum):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    if part.exists() and part.stat().st_size > archive.size:
        part.unlink()
    if not part.exists() or part.stat().st_size < archive.size:
        _require_room(folder, [archive])
        with _bar(archive, enabled=progress) as advance:
            _download(archive, part, how, advance)
    if not _matches(part, archive.checksum):
        part.unlink()
        raise InputError(
            f"{archive.file} from {archive.url} does not match its checksum and was removed; try again, and if that "
            f"does not help, {_by_hand(how)}"
        )
    part.replace(target)
    return target


def unpack(path: Path, folder: Path) -> None:
    """Unpack a tar or zip archive into `folder`; nothing is written elsewhere, nor anything half done left there."""
    staging = folder / f".{path.name}.unpacking"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        if path.name.endswith(".zip"):
            _unzip(path, staging)
        else:
            if not hasattr(tarfile, "data_filter"):
                raise InputError(f"{path} can't be unpacked safely by this Python; use Python 3.11.4 or newer.")
            with tarfile.open(path) as archive:
                archive.extractall(staging, filter="data")
        _merge(staging, folder)
    except tarfile.FilterError as error:
        raise _escapes(path, str(error)) from error
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InputError(f"{path} is damaged and can't be unpacked; remove it and fetch it again.") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _unzip(path: Path, staging: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        inside = staging.resolve()
        for member in archive.namelist():
            if not (inside / member).resolve().is_relative_to(inside):
                raise _escapes(path, member)
        archive.extractall(staging)


def _escapes(path: Path, member: str) -> InputError:
    return InputError(f"{path} wants to write outside its folder ({member}) and was not unpacked; do not trust it.")


def _merge(source: Path, target: Path) -> None:
    for entry in source.iterdir():
        if entry.is_dir() and (target / entry.name).is_dir():
            _merge(entry, target / entry.name)
        else:
            entry.replace(target / entry.name)


# ---------------------------------------------------------------- transfer


def _download(archive: Archive, part: Path, how: str, advance: Advance) -> None:
    """Bring `part` to its full size, over as many connections as it takes."""
    failures, reached = 0, -1
    while True:
        try:
            _transfer(archive, part, advance)
            return
        except urllib.error.HTTPError as error:
            if error.code == _NOT_THAT_RANGE:
                part.unlink()  # longer than the server's file: of no use
            elif error.code not in _RETRY:
                raise InputError(_refusal(error.code, archive.url, how)) from error
            trouble = f"{archive.url} answers {error.code} ({error.reason})"
        except (_BrokenOffError, urllib.error.URLError) as error:
            trouble = f"{archive.url} can't be reached or broke off ({getattr(error, 'reason', error)})"
        size = part.stat().st_size if part.exists() else 0
        failures = 1 if size > reached else failures + 1
        reached = max(size, reached)
        if failures >= ATTEMPTS:
            kept = f": it goes on after the {_bytes(size)} that are here" if size else ""
            raise InputError(f"{trouble}; check the network and the proxy, then run the same command again{kept}.")
        time.sleep(PAUSE * 2 ** (failures - 1))


def _transfer(archive: Archive, part: Path, advance: Advance) -> None:
    """One connection: append to `part`, or start anew where the server can't go on from a place."""
    start = part.stat().st_size if part.exists() else 0
    with _open(archive.url, start) as response:
        resumed = response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        if response.status == 206 and not resumed:
            part.unlink()
            raise _BrokenOffError("the server sent another range than was asked for")
        size = start if resumed else 0
        # The server knows best how much it is about to send; whether that is the right file, the checksum tells.
        length = response.headers.get("Content-Length")
        total = size + int(length) if length else archive.size
        with part.open("ab" if resumed else "wb") as file:
            advance(size)
            while block := _read(response):
                file.write(block)
                size += len(block)
                advance(size)
    if size < total:
        raise _BrokenOffError(f"after {_bytes(size)} of {_bytes(total)}")


def _open(url: str, start: int) -> http.client.HTTPResponse:
    # Some servers turn away Python's own name.
    request = urllib.request.Request(url, headers={"User-Agent": "ltgcd", "Accept-Encoding": "identity"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.URLError:
        raise
    except (OSError, http.client.HTTPException) as error:  # the answer never came, or made no sense
        raise _BrokenOffError(str(error) or type(error).__name__) from error
    return response


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(_BLOCK)
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenOffError(str(error) or type(error).__name__) from error


def _refusal(code: int, url: str, how: str) -> str:
    trouble = "is no longer there" if code in _GONE else "refuses access"
    return f"{url} {trouble} ({code}); {_by_hand(how)}"


def _by_hand(how: str) -> str:
    return f"get it by hand: {how}" if how else "get it by hand."


@contextmanager
def _bar(archive: Archive, *, enabled: bool) -> Iterator[Advance]:
    """Progress bar on stderr, so that stdout stays free for what a command answers."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not enabled) as progress:
        task = progress.add_task(archive.file, total=archive.size)
        yield lambda size: progress.update(task, completed=size)


# ---------------------------------------------------------------- what is there, and what fits


def _matches(path: Path, checksum: str) -> bool:
    algorithm, _, expected = checksum.partition(":")
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest() == expected


def _receipt(archive: Archive, folder: Path) -> Path:
    """What stays of an archive once it is unpacked and removed: its checksum."""
    return folder / f".{archive.file}.done"


def _is_done(archive: Archive, folder: Path) -> bool:
    if is_packed(archive.file):
        receipt = _receipt(archive, folder)
        return receipt.is_file() and receipt.read_text(encoding="utf-8").strip() == archive.checksum
    return (folder / archive.file).is_file() and _matches(folder / archive.file, archive.checksum)


def _is_complete(dataset: Dataset, root: Path) -> bool:
    """Whether both parts can be read, however they came here."""
    try:
        load_pool(dataset.name, root, "train")
        load_pool(dataset.name, root, "test")
    except InputError:
        return False
    return True


def _require_room(folder: Path, archives: list[Archive]) -> None:
    """Refuse before the first byte what will not fit: each archive, and its content beside it while it is unpacked."""
    largest = max((archive.size for archive in archives if is_packed(archive.file)), default=0)
    needed = int(1.2 * sum(archive.size for archive in archives) + largest)
    for archive in archives:
        part = folder / f"{archive.file}.part"
        needed -= part.stat().st_size if part.exists() else 0
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"{folder} has {_bytes(free)} of free space, but about {_bytes(needed)} are needed to fetch and unpack "
            "the dataset; make room or choose another folder with LTGCD_DATA."
        )


def _bytes(size: int) -> str:
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} bytes"
