"""Outputs that are whole or not there: written in a private folder, and given their name at the end."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ltgcd.common.errors import InputError
from ltgcd.common.files import TEMPORARY, hold, sweep, to_the_end

PREFIX = ".ltgcd-export-"  # hidden, so that no reader of folders takes what a kill left for images


@contextmanager
def private_folder(out: Path) -> Iterator[Path]:
    """A new folder beside `out` that only this user can look into, removed at the end.

    Its name can't be foreseen, so nobody can have put a link there for us to follow. Folders above `out` are made; they
    go again if the block raises.
    """
    made = [folder for folder in out.parents if not os.path.lexists(folder)]
    out.parent.mkdir(parents=True, exist_ok=True)
    sweep_exports(out)
    # Named before it is made: a folder whose name nobody has heard yet could not be removed.
    folder, held = _new_name(out.parent), None
    try:
        folder.mkdir(0o700)
        while (held := hold(folder)) is None and not folder.exists():  # swept before it could be held
            folder = _new_name(out.parent)
            folder.mkdir(0o700)
        yield folder
    except BaseException:
        to_the_end(lambda: _remove(folder, made))
        raise
    finally:
        to_the_end(lambda: _remove(folder, []))
        if held is not None:
            os.close(held)


def sweep_exports(out: Path) -> None:
    """Remove what exports that were killed left beside `out`."""
    sweep(out.parent.glob(f"{PREFIX}*{TEMPORARY}"))


def _new_name(parent: Path) -> Path:
    return parent / f"{PREFIX}{secrets.token_hex(8)}{TEMPORARY}"


def publish(written: list[tuple[Path, Path]]) -> None:
    """Give files and folders their names; the last pair is the output itself, so that it appears when all is there.

    Parameters
    ----------
    written : list of (path, path)
        Where something was written, and what it shall be called. No name may exist; if one does, none is given.
    """
    try:
        for source, target in written:
            try:
                _name(source, target)
            except OSError as error:
                if os.path.lexists(target):
                    raise InputError(f"{target} was made by someone else meanwhile; give another --out.") from error
                raise
    except BaseException:
        if not _is_named(*written[-1]):  # else all of it is there, and who stopped us came too late
            given = [target for source, target in written if _is_named(source, target)]
            to_the_end(lambda: _unlink(given))
        raise


def _is_named(source: Path, target: Path) -> bool:
    """Whether something that was written has its name by now."""
    return os.path.lexists(target) and (not source.exists() or source.samefile(target))


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
            try:
                source.replace(target)
            except BaseException:
                if source.exists():
                    target.unlink()
                raise


def _unlink(files: list[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def _remove(folder: Path, above: list[Path]) -> None:
    """Remove a folder, and those above it in which nothing else is."""
    shutil.rmtree(folder, ignore_errors=True)
    for parent in above:
        try:
            parent.rmdir()
        except OSError:  # someone put something there
            return
