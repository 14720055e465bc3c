"""Outputs that are whole or not there: written in a private folder, and given their name at the end."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ltgcd.common.errors import InputError

PREFIX = ".ltgcd-export-"  # hidden, so that no reader of folders takes what a kill left for images


@contextmanager
def private_folder(out: Path) -> Iterator[Path]:
    """A new folder beside `out` that only this user can look into, removed at the end.

    Its name can't be foreseen, so nobody can have put a link there for us to follow. Folders above `out` are made; they
    go again if the block raises.
    """
    made = [folder for folder in out.parents if not os.path.lexists(folder)]
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, suffix=".tmp", dir=out.parent))
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        _remove_empty(made)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def publish(written: list[tuple[Path, Path]]) -> None:
    """Give files and folders their names; the last pair is the output itself, so that it appears when all is there.

    Parameters
    ----------
    written : list of (path, path)
        Where something was written, and what it shall be called. No name may exist; if one does, none is given.
    """
    given: list[Path] = []
    try:
        for source, target in written:
            try:
                _name(source, target)
            except OSError as error:
                if os.path.lexists(target):
                    raise InputError(f"{target} was made by someone else meanwhile; give another --out.") from error
                raise
            given.append(target)
    except BaseException:
        for target in given:
            target.unlink()
        raise


def _name(source: Path, target: Path) -> None:
    """Rename without replacing anything."""
    if source.is_dir():
        if os.path.lexists(target):
            raise FileExistsError(target)
        source.rename(target)  # would replace an empty folder, but nothing with something in it
        return
    with source.open("rb") as file:
        os.fsync(file.fileno())
    try:
        os.link(source, target)  # unlike a rename, refuses a name that is taken
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: take the name first, then rename over our own empty file
        with target.open("xb"):
            source.replace(target)


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:  # someone put something there
            return
