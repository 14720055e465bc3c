"""Items of a collection as files in folders, by link or copy, under names that every system takes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ltgcd.data.images import image_ending
from ltgcd.data.items import ImageFiles, Items

CHUNK = 64  # items in memory at a time
LONGEST = 100  # characters of a file or folder name
RESERVED = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))})


def safe_name(text: str) -> str:
    """A name as a file or folder of any system may have it; never empty, never one that leads elsewhere."""
    name = re.sub(r'[\x00-\x1f\x7f/\\:*?"<>|]', "_", text).strip().rstrip(". ").lstrip(".")[:LONGEST].rstrip(". ")
    while len(name.encode()) > 2 * LONGEST:
        name = name[:-1]
    return f"_{name}" if not name or name.lower().partition(".")[0] in RESERVED else name


def unique_name(name: str, taken: dict[str, int], ending: str = "") -> str:
    """`name` with `ending`, or with the first number between them that makes it new among `taken`, which it joins.

    File systems may take upper and lower case for the same, so this does too.
    """
    full = f"{name}{ending}"
    key = full.casefold()
    while full.casefold() in taken:
        taken[key] += 1
        full = f"{name}-{taken[key]}{ending}"
    taken[full.casefold()] = 1
    return full


class FilePlacer:
    """Puts items into folders: image files by link or copy, encoded images and texts by writing them."""

    def __init__(self, items: Items, ids: list[str], *, copy: bool) -> None:
        self.items, self.ids, self.copy = items, ids, copy
        self.linked = self.written = 0
        self.missing: list[str] = []
        self.refused: OSError | None = None

    def put(self, folder_of: Callable[[int], Path], *, unique_stems: bool = False) -> Iterator[tuple[int, Path]]:
        """Place every item that can be read, and give its number and its path."""
        taken: dict[Path, dict[str, int]] = {}
        for start in range(0, len(self.ids), CHUNK):
            rows = np.arange(start, min(start + CHUNK, len(self.ids)), dtype=np.int64)
            contents = self._contents(rows)
            for row, (content, ending) in zip(rows.tolist(), contents, strict=True):
                if content is None:
                    self.missing.append(self.ids[row])
                    continue
                folder = folder_of(row)
                stem = safe_name(_stem(self.ids[row], ending))
                used = taken.setdefault(folder, {})
                name = unique_name(stem, used) + ending if unique_stems else unique_name(stem, used, ending)
                folder.mkdir(parents=True, exist_ok=True)
                self._place(content, folder / name)
                yield row, folder / name

    def leave_out(self, row: int, path: Path) -> None:
        """Take an item away again that a format can't hold."""
        if path.is_symlink():
            self.linked -= 1
        else:
            self.written -= 1
        path.unlink()
        self.missing.append(self.ids[row])

    def _contents(self, rows: NDArray[np.int64]) -> list[tuple[Path | bytes | None, str]]:
        if isinstance(self.items, ImageFiles):
            paths = [self.items.root / path for path in self.items.paths.take(rows).to_pylist()]
            return [(path.resolve() if path.is_file() else None, path.suffix) for path in paths]
        if self.items.kind == "text":
            return [(str(text).encode(), ".txt") for text in self.items.take(rows)]
        return [(blob or None, image_ending(blob)) for blob in cast("list[bytes]", self.items.take(rows))]

    def _place(self, content: Path | bytes, target: Path) -> None:
        if isinstance(content, bytes):
            target.write_bytes(content)
            self.written += 1
            return
        if not self.copy and self.refused is None:
            try:
                target.symlink_to(content)
                self.linked += 1
                return
            except OSError as error:  # a file system or a system without links
                self.refused = error
        shutil.copyfile(content, target)
        self.written += 1

    def notes(self) -> list[str]:
        """What was done otherwise than one might expect."""
        found = []
        if self.refused is not None:
            found.append(f"Links are not possible here ({self.refused.strerror}), so the files were copied.")
        elif self.written and not self.copy and self.items.kind == "image":
            found.append("The source holds images inside a table, so they were written out as files.")
        if self.linked:
            found.append("They are links to your files; --copy for real copies.")
        if self.missing:
            found.append(
                f"{len(self.missing)} items can't be read and were left out (for example '{self.missing[0]}')."
            )
        return found


def _stem(item_id: str, ending: str) -> str:
    """The last part of an id that is a path; without its ending, which the file gets anyway."""
    last = item_id.rstrip("/").rpartition("/")[2]
    return last[: -len(ending)] if ending and last.lower().endswith(ending.lower()) else last
