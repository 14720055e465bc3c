"""Which file of a run is which: a list of their checksums, so that an exchanged, foreign or older file is named.

Every file says by itself whether it is whole (`ltgcd.common.checksums`); a whole one in another's place, of another run
or of last week says so, too. The list tells them apart.

A file that is about to be written is marked as open first, and gets its new checksum when it is there. Killed in
between, it is taken as it is, and the next process that writes to the run settles it. A run without a list, made by an
older version, is taken as it is; the first command that writes to it makes one. Whoever has put another file there on
purpose removes the list.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ltgcd.common.checksums import BLANK, BYTES, CHECKSUM, checked_object, noted_text_checksum, unchecked_object
from ltgcd.common.errors import InputError
from ltgcd.common.files import read_json, read_metadata, write_json

SEAL_BYTES = 200  # at the end of a page, see `ltgcd.common.outputs`
PAUSE = 0.05  # seconds between two looks at a file and the list


def stamp(path: Path) -> str | None:
    """The checksum that a file carries; None if it carries none, can't be read or is not there."""
    try:
        return _STAMPS[path.suffix](path) or None
    except (InputError, OSError, ValueError, KeyError, TypeError, RecursionError, pa.ArrowException):
        return None


def _of_table(path: Path) -> str:
    noted = pq.read_metadata(path).metadata or {}
    return str(read_metadata(pa.schema([], metadata=noted)).get(CHECKSUM) or noted.get(BYTES, b"").decode())


def _of_archive(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - len(BYTES) - len(BLANK), 0))
        end = file.read()
    return end[len(BYTES) :].decode() if end.startswith(BYTES) else ""


def _of_tensors(path: Path) -> str:
    """What `ltgcd.training.checkpoints` notes in the head of a file of tensors."""
    with path.open("rb") as file:
        head = json.loads(file.read(min(int.from_bytes(file.read(8), "little"), 1 << 24)))
    return str(head["__metadata__"][CHECKSUM])


def _of_lines(path: Path) -> str:
    lines = [str(json.loads(line)[CHECKSUM]) for line in path.read_text(encoding="utf-8").splitlines()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


_STAMPS: dict[str, Callable[[Path], str | None]] = {
    ".parquet": _of_table,
    ".npz": _of_archive,
    ".safetensors": _of_tensors,
    ".jsonl": _of_lines,
    ".json": lambda path: str(read_json(path)[CHECKSUM]),
    ".html": lambda path: path.read_bytes()[-SEAL_BYTES:].decode().rpartition("<!-- ")[2],
    ".toml": lambda path: noted_text_checksum(path.read_text(encoding="utf-8")),
}


class Contents:
    """The list of a run's files; making the object touches nothing.

    Parameters
    ----------
    path : path
        The list, in the folder of the run.
    all_files : callable
        Gives what there is to be listed.
    """

    def __init__(self, path: Path, all_files: Callable[[], Iterable[Path]]) -> None:
        self.path, self._all_files = path, all_files
        self._open: set[str] = set()  # files that this object is writing

    def _name(self, path: Path) -> str:
        return path.relative_to(self.path.parent).as_posix()

    def read(self) -> dict[str, str | None] | None:
        """Checksums by name, None for a file that was being written; None without a list."""
        if not self.path.is_file():
            return None
        cure = f"{self.path} is damaged; 'ltgcd check {self.path.parent} --repair' makes it again."
        try:
            held = read_json(self.path)
            files = unchecked_object(held, self.path)["files"]
        except (InputError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(cure) from error
        if CHECKSUM not in held or not isinstance(files, dict):
            raise InputError(cure)
        return files

    def _write(self, files: dict[str, str | None]) -> None:
        write_json(self.path, checked_object({"files": dict(sorted(files.items()))}))

    # ------------------------------------------------------------ read a file

    def held(self, path: Path) -> Path:
        """`path`, if it is the file that the run wrote there, or is not there; a sentence if it is another."""
        seen = None
        # Another process may be writing the file and the list just now: they disagree if they go on to.
        while (found := self._disagreement(path)) is not None:
            if found == seen:
                raise InputError(f"{path} {self._what(path, *found)}.")
            seen = found
            time.sleep(PAUSE)
        return path

    def is_missing(self, path: Path) -> bool:
        """Whether the run wrote a file there that is gone."""
        return self.lists(path) and not path.is_file()

    def lists(self, path: Path) -> bool:
        """Whether the run wrote a file there."""
        return self._name(path) in (self.read() or {})

    def is_other(self, path: Path) -> bool:
        """Whether a file is there that is not the one which the run wrote."""
        return self._disagreement(path) is not None

    def _disagreement(self, path: Path) -> tuple[str, dict[str, str | None]] | None:
        """The checksum of a file and the list, if that says another; None also without a list, or a checksum."""
        found, files, name = stamp(path), self.read(), self._name(path)
        if files is None or found is None or (name in files and files[name] in (None, found)):
            return None
        return found, files

    def _what(self, path: Path, found: str, files: dict[str, str | None]) -> str:
        name = self._name(path)
        others = [other for other, listed in files.items() if listed == found and other != name]
        if others:
            return f"is not what the run keeps there, but its {others[0]}; put each back in its place"
        which = "is of another run, an older one or cut" if name in files else "was not written by this run"
        return f"is not a file of this run as it is now: it {which}; restore it, or start the run again in a new folder"

    def disagreeing(self) -> Iterator[tuple[Path, str]]:
        """Files that are not what the list says, or missing, each with what is wrong."""
        for name, listed in (self.read() or {}).items():
            path = self.path.parent / name
            if not path.is_file():
                yield path, "is missing"
                continue
            try:
                self.held(path)
            except InputError as error:
                yield path, str(error).removeprefix(f"{path} ").partition("; ")[0]
                continue
            if listed is not None and stamp(path) is None:
                yield path, "is damaged, or another tool wrote it"

    # ------------------------------------------------------------ write a file

    @contextmanager
    def writing(self, *paths: Path) -> Iterator[None]:
        """For who has the lock of the run: what is written to `paths` in the block is what the run keeps there."""
        names = [name for path in paths if (name := self._name(path)) not in self._open]
        if not names:
            yield
            return
        self._write({**self._listed(), **dict.fromkeys(names)})
        self._open.update(names)
        try:
            yield
        finally:
            self._open.difference_update(names)
        self._settle(names)

    def settle(self) -> None:
        """Note what processes that were killed left open; without a list, note all that is there."""
        names = [name for name, listed in self._listed().items() if listed is None]
        if names or not self.path.is_file():
            self._settle(names)

    def list_anew(self) -> None:
        """Note what is there, whatever the list said."""
        self._write(self._found())

    def _listed(self) -> dict[str, str | None]:
        files = self.read()
        return self._found() if files is None else files

    def _found(self) -> dict[str, str | None]:
        return {self._name(path): stamp(path) for path in self._all_files()}

    def _settle(self, names: Iterable[str]) -> None:
        files = self._listed()
        for name in names:
            path = self.path.parent / name
            files.pop(name, None)
            if path.is_file():
                files[name] = stamp(path)
        self._write(files)
