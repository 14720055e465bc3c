"""What can be wrong with a file of a run by itself: it can't be read, is another one, or has other bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ltgcd.common.checksums import CHECKSUM, is_as_written, write_table
from ltgcd.common.errors import InputError
from ltgcd.common.files import read_json, write_json
from ltgcd.data.npz import read_npz, write_npz
from ltgcd.data.parquet import read_parquet, read_table
from ltgcd.run.directory import Run
from ltgcd.run.files import file_is_as_written, readable_lines, write_lines
from ltgcd.training.checkpoints import read_tensors

EMBED = "the same 'ltgcd discover' or 'ltgcd update' makes the damaged part anew"
CURVES = "it holds only the curves of training, which nothing else needs"
AGAIN = "it can't be made from the rest: restore it from a copy, or start the run again in a new folder"


class Problem(NamedTuple):
    """Something that is wrong with a run.

    Attributes
    ----------
    file : path
        What is damaged, missing or left over.
    what : str
        A sentence: what is wrong, and what to do.
    repair : callable or None
        Makes it again from the rest; None if it does not follow.
    """

    file: Path
    what: str
    repair: Callable[[], None] | None = None


def find_misplaced(run: Run, named: set[Path]) -> Iterator[Problem]:
    """Files that are whole, but not those that the run wrote there, and files that are gone."""
    listed = run.files.contents
    if listed in named:  # damaged: what it said is not known
        return
    if not listed.is_file():
        yield Problem(listed, "is missing; it is made again from what is there.", run.contents.list_anew)
        return
    for path, what in run.contents.disagreeing():
        if path not in named:
            forget = curves_forgetter(run, path)
            yield Problem(path, f"{what}; {CURVES if forget else AGAIN}.", forget)


def curves_forgetter(run: Run, path: Path) -> Callable[[], None] | None:
    """Goes on with what is left of the curves of training, from which nothing else follows."""
    if path != run.files.metrics:
        return None

    def forget() -> None:
        kept = readable_lines(path)
        with run.contents.writing(path):
            if kept:
                write_lines(path, kept)
            else:
                path.unlink(missing_ok=True)

    return forget


def find_changed_bytes(run: Run, named: set[Path]) -> Iterator[Problem]:
    """Files that can be read, but not every byte of which is as it was written: another tool may read others.

    Also models that count no longer: a refine may be taken back.
    """
    for path in run.listed_files():
        if path.suffix == ".safetensors" and path not in named:
            yield from tried(path, lambda path=path: read_tensors(path), AGAIN)  # type: ignore[misc]
    for path in run.sealed_files():
        if named & {path, path.parent} or file_is_as_written(path):
            continue
        again = _rewriter(run, path)
        embedded = path.parent in run.feature_folders()
        cure = "what is read of it is whole, and it is written again" if again else EMBED if embedded else AGAIN
        yield Problem(path, f"is not, byte for byte, what this version of ltgcd wrote; {cure}.", again)


def _rewriter(run: Run, path: Path) -> Callable[[], None] | None:
    """Writes a file again from what is read of it, where that has a checksum of its own."""
    write: Callable[[], None] | None = None
    if path.suffix == ".npz" and is_sound(lambda: read_npz(path)):  # a zip archive has one of each array
        write = lambda: write_npz(path, read_npz(path))  # noqa: E731
    elif path.suffix == ".parquet" and is_sound(lambda: read_parquet(path)) and is_as_written(read_parquet(path)):
        write = lambda: write_table(path, read_table(path))  # noqa: E731
    elif path.suffix == ".json" and is_sound(lambda: read_json(path)) and CHECKSUM in read_json(path):
        write = lambda: write_json(path, read_json(path))  # noqa: E731
    if write is None:
        return None
    times = path.stat()

    def again() -> None:
        with run.contents.writing(*({path} & set(run.listed_files()))):
            write()
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # the page that was drawn of it is not older now

    return again


# ---------------------------------------------------------------- parts


def tried(path: Path, read: Callable[[], object], cure: str) -> Iterator[Problem]:
    """A problem if a file can't be read."""
    try:
        read()
    except (InputError, OSError) as error:
        said = str(error).partition("; ")[0].rstrip(".")
        yield Problem(path, f"{said}; {cure}.")


def is_sound(read: Callable[[], object]) -> bool:
    """Whether something can be read."""
    try:
        read()
    except (InputError, OSError):
        return False
    return True
