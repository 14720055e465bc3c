"""Where the items of a collection live. Images stay on disk until they are asked for.

Every store has a `kind`, a length, `take(index)` for the contents of some rows and `select(index)` for a store of
those rows. `reading_order()` is the order that touches the disk least: whoever walks over all rows should follow it.
"""

from __future__ import annotations

import io
import math
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from PIL import Image

from ltgcd.common.errors import InputError
from ltgcd.data.parquet import RowGroup, image_column, parquet_file, read_row_group, row_groups, row_stream
from ltgcd.data.regular_files import read_bytes

Index = NDArray[np.int64]
Kind = Literal["image", "text", "vector"]


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """Image files by their path below `root`."""

    root: Path
    paths: pa.StringArray
    kind: Kind = "image"

    def __len__(self) -> int:
        return len(self.paths)

    def take(self, index: Index) -> list[bytes]:
        """Contents of some files; a file that can't be read gives ``b""``, which no decoder accepts."""
        return [read_bytes(self.root / path) for path in self.paths.take(index).to_pylist()]

    def select(self, index: Index) -> ImageFiles:
        """Store of some of the rows."""
        return ImageFiles(self.root, self.paths.take(index))

    def reading_order(self) -> Index:
        """Rows in the order of the paths as given."""
        return np.arange(len(self), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class ParquetImages:
    """Encoded images in a column of parquet files (Hugging Face layout), read a row group at a time.

    `rows` counts through `files` as if they were one table.
    """

    files: tuple[Path, ...]
    column: str
    rows: Index
    kind: Kind = "image"

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def _groups(self) -> list[RowGroup]:
        return [group for file in self.files for group in row_groups(file)]

    @cached_property
    def _starts(self) -> Index:
        return np.concatenate([[0], np.cumsum([group.rows for group in self._groups], dtype=np.int64)]).astype(np.int64)

    def take(self, index: Index) -> list[bytes]:
        """Contents of some rows; a null gives ``b""``, which no decoder accepts."""
        rows = self.rows[index]
        group_of = np.searchsorted(self._starts, rows, side="right") - 1
        blobs: list[bytes] = [b""] * len(rows)
        for number in np.unique(group_of):
            at = np.flatnonzero(group_of == number)
            chosen = self._take(self._groups[number], rows[at] - self._starts[number])
            for position, blob in zip(at, chosen, strict=True):
                blobs[position] = blob or b""
        return blobs

    def _take(self, group: RowGroup, local: Index) -> list[bytes | None]:
        if not group.is_large:
            chosen: list[bytes | None] = read_row_group(group, self.column).take(pa.array(local)).to_pylist()
            return chosen
        return row_stream(group, self.column).take(local)

    def select(self, index: Index) -> ParquetImages:
        """Store of some of the rows."""
        return ParquetImages(self.files, self.column, self.rows[index])

    def reading_order(self) -> Index:
        """Rows in the order of the file, so that each row group is read once."""
        return np.argsort(self.rows, kind="stable").astype(np.int64)

    def addresses(self, relative_to: Path) -> pa.StringArray:
        """Each row as ``file.parquet#row``, the form in which a manifest points at it."""
        file_starts = np.concatenate([[0], np.cumsum([parquet_file(file).metadata.num_rows for file in self.files])])
        file_of = np.searchsorted(file_starts, self.rows, side="right") - 1
        names = pa.array([relative_path(file, relative_to) for file in self.files], pa.string())
        local = pa.array(self.rows - file_starts[file_of]).cast(pa.string())
        return pc.binary_join_element_wise(names.take(file_of), local, "#")


@dataclass(frozen=True, eq=False)
class ImageBytes:
    """Encoded images in memory."""

    blobs: pa.BinaryArray
    kind: Kind = "image"

    def __len__(self) -> int:
        return len(self.blobs)

    def take(self, index: Index) -> list[bytes]:
        """Contents of some rows."""
        return [blob or b"" for blob in self.blobs.take(index).to_pylist()]

    def select(self, index: Index) -> ImageBytes:
        """Store of some of the rows."""
        return ImageBytes(self.blobs.take(index))

    def reading_order(self) -> Index:
        """Any order is as good as another in memory."""
        return np.arange(len(self), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class RawImages:
    """Pixels in memory, (N, H, W, 3) uint8: CIFAR's own files. Encoded, without loss, only when asked for."""

    pixels: NDArray[np.uint8]
    kind: Kind = "image"

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, index: Index) -> list[bytes]:
        """Some of the images, as PNG."""
        return [_png(self.pixels[row]) for row in index]

    def select(self, index: Index) -> RawImages:
        """Store of some of the rows."""
        return RawImages(self.pixels[index])

    def reading_order(self) -> Index:
        """Any order is as good as another in memory."""
        return np.arange(len(self), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts in memory, as one Arrow array."""

    texts: pa.StringArray
    kind: Kind = "text"

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, index: Index) -> list[str]:
        """Some of the texts."""
        return [text or "" for text in self.texts.take(index).to_pylist()]

    def select(self, index: Index) -> Texts:
        """Store of some of the rows."""
        return Texts(self.texts.take(index))

    def reading_order(self) -> Index:
        """Any order is as good as another in memory."""
        return np.arange(len(self), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Vectors:
    """Embeddings, one row an item: (N, D) floats, finite."""

    x: NDArray[np.floating]
    kind: Kind = "vector"

    def __post_init__(self) -> None:
        if self.x.ndim != 2 or not self.x.shape[1] or not np.issubdtype(self.x.dtype, np.floating):
            raise InputError(
                f"Embeddings must be a table of N×D floats, but have shape {self.x.shape} and type "
                f"{self.x.dtype}; save them as a 2-D float array."
            )
        # What follows works in float32, also on squares and on their sums over all rows.
        longest = math.sqrt(np.finfo(np.float32).max / max(len(self.x), 1))
        for start in range(0, len(self.x), 65536):  # in blocks: the table may be a memory map
            block = self.x[start : start + 65536]
            bad = ~np.isfinite(block).all(axis=1)
            if bad.any():
                raise InputError(
                    f"Embeddings hold NaN or infinite values (first in row {start + int(bad.argmax())}); "
                    "remove or repair these rows."
                )
            with np.errstate(over="ignore"):
                long = np.linalg.norm(block.astype(np.float32, copy=False), axis=1) > longest
            if long.any():
                raise InputError(
                    f"Embeddings are too large for single precision (first in row {start + int(long.argmax())}); "
                    "scale them down."
                )

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: Index) -> NDArray[np.float32]:
        """Some of the rows, as float32."""
        return np.asarray(self.x[index], dtype=np.float32)

    def select(self, index: Index) -> Vectors:
        """Store of some of the rows."""
        return Vectors(self.x[index])

    def reading_order(self) -> Index:
        """Rows as they stand."""
        return np.arange(len(self), dtype=np.int64)


Items = ImageFiles | ParquetImages | ImageBytes | RawImages | Texts | Vectors


def items_from_addresses(base: Path, addresses: pa.StringArray) -> ImageFiles | ParquetImages:
    """Store for the `path` column of a manifest in folder `base`: image files, or rows ``file.parquet#row``."""
    parts = pc.extract_regex(addresses, r"^(?P<file>.*\.parquet)#(?P<row>\d{1,18})$")
    if parts.null_count == len(parts):
        return ImageFiles(base, addresses)
    if parts.null_count:
        raise InputError(
            f"The paths in {base} mix image files and parquet rows ('file.parquet#row'); use one of the two."
        )
    named = parts.field("file").dictionary_encode()
    files = tuple(base / name for name in named.dictionary.to_pylist())
    for file in files:
        if not file.is_file():
            raise InputError(
                f"{file} is not there, but the manifest points at rows of it; put it back, or make the split again."
            )
    sizes = np.array([parquet_file(file).metadata.num_rows for file in files], dtype=np.int64)
    file_of = named.indices.to_numpy()
    local = parts.field("row").cast(pa.int64()).to_numpy()
    beyond = local >= sizes[file_of]
    if beyond.any():
        at = int(beyond.argmax())
        raise InputError(f"{files[file_of[at]]} has no row {local[at]}; make the split again from this file.")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    return ParquetImages(files, image_column(files[0]), starts[file_of] + local)


def _png(pixels: NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "PNG")
    return buffer.getvalue()


def relative_path(path: Path, start: Path) -> str:
    """`path` as seen from the folder `start`, with forward slashes."""
    return Path(os.path.relpath(path.resolve(), start.resolve())).as_posix()
