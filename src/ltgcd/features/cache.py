"""Features on disk: shards of trunk activations that are whole or not there, found by id and content.

A folder holds ``features.json`` (the key: model, preprocessing, views), ``shard-00000.npy`` and so on (fp16, memory
mapped), ``shard-00000.parquet`` (id, digest of the content, row or reason for a skip), ``index.parquet`` (where each
item of the source is), ``features.npz`` (the test view's features: a source) and ``skipped.csv``.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import atomic_path, read_json, read_metadata, with_metadata, write_json
from ltgcd.data.parquet import read_parquet

FORMAT = 1
KEY_FILE, INDEX_FILE, SOURCE_FILE, SKIPPED_FILE = "features.json", "index.parquet", "features.npz", "skipped.csv"


# ---------------------------------------------------------------- the key


def claim(folder: Path, key: dict[str, Any]) -> None:
    """Make the folder a cache for `key`, or check that it is one already."""
    path = folder / KEY_FILE
    if path.is_file():
        held = read_json(path)
        if not isinstance(held, dict):
            raise InputError(f"{path} is damaged (no key of features); give another folder with --out.")
        if held != key:
            differing = ", ".join(sorted(name for name in {*held, *key} if held.get(name) != key.get(name)))
            raise InputError(
                f"{folder} holds features of another model or preprocessing (it differs in: {differing}); "
                "give another folder with --out."
            )
        return
    if folder.is_file():
        raise InputError(f"{folder} is a file; give a folder with --out.")
    if folder.is_dir() and any(not p.name.startswith(".") for p in folder.iterdir()):
        raise InputError(f"{folder} is not empty and holds no features; give a new folder with --out.")
    write_json(path, key)


# ---------------------------------------------------------------- shards


def sweep(folder: Path) -> None:
    """Remove what killed runs left half-written. Only for the process that holds the folder's lock."""
    for path in folder.glob(".*.tmp"):
        if not path.name.startswith(f".{KEY_FILE}."):  # written before the lock is taken, maybe right now
            path.unlink(missing_ok=True)


def shard_path(folder: Path, number: int) -> Path:
    """Where the activations of a shard lie; its table lies beside them."""
    return folder / f"shard-{number:05d}.npy"


def write_shard(folder: Path, number: int, activations: NDArray[np.float16], table: pa.Table) -> None:
    """Write a shard. Its table comes last and holds the checksum: a shard without a table does not count."""
    path = shard_path(folder, number)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.save(file, activations)
    table = with_metadata(table, {"checksum": _checksum(path), "rows": len(activations)})
    with atomic_path(path.with_suffix(".parquet")) as temporary:
        pq.write_table(table, temporary)


def read_shards(folder: Path, *, verify: bool) -> tuple[dict[int, pa.Table], list[int]]:
    """Tables of the whole shards by number, and the numbers of damaged ones.

    A shard is damaged if its activations are not there, are of the wrong length or, with `verify`, do not have the
    checksum that they were written with.
    """
    whole: dict[int, pa.Table] = {}
    damaged: list[int] = []
    for path in sorted(folder.glob("shard-[0-9]*.parquet")):
        number = int(path.stem.removeprefix("shard-"))
        try:
            table = read_parquet(path)
            promised = read_metadata(table.schema)
            rows = len(np.load(path.with_suffix(".npy"), mmap_mode="r"))
            sound = rows == promised["rows"] and not (
                verify and _checksum(path.with_suffix(".npy")) != promised["checksum"]
            )
        except (InputError, OSError, ValueError, EOFError, KeyError):
            sound = False
        if sound:
            whole[number] = table
        else:
            damaged.append(number)
    return whole, damaged


def remove_shard(folder: Path, number: int) -> None:
    """Remove a shard, its table first."""
    shard_path(folder, number).with_suffix(".parquet").unlink(missing_ok=True)
    shard_path(folder, number).unlink(missing_ok=True)


def _checksum(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while block := file.read(1 << 24):
            value = zlib.crc32(block, value)
    return value


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, eq=False)
class FeatureStore:
    """The cached activations of a source's items, memory-mapped.

    Attributes
    ----------
    folder : path
        Where they lie.
    key : dict
        What they were made with.
    ids : pyarrow.StringArray
        Ids of the N items, in the order of the source.
    shard, row : ndarray of int64, shape (N,)
        Where each item is.
    """

    folder: Path
    key: dict[str, Any]
    ids: pa.StringArray
    shard: NDArray[np.int64]
    row: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_views(self) -> int:
        """Number V of training views; view 0 is the test view."""
        return int(self.key["views"])

    @property
    def activation_shape(self) -> tuple[int, ...]:
        """Shape of one view of one item."""
        return tuple(self.key["activation_shape"])

    @cached_property
    def _maps(self) -> dict[int, NDArray[np.float16]]:
        return {int(n): np.load(shard_path(self.folder, int(n)), mmap_mode="r") for n in np.unique(self.shard)}

    def take(self, index: NDArray[np.int64], view: int | NDArray[np.int64] = 0) -> NDArray[np.float16]:
        """Activations (B, *activation_shape) of some items, in one view or in a view each."""
        views = np.broadcast_to(np.asarray(view, dtype=np.int64), index.shape)
        out = np.empty((len(index), *self.activation_shape), dtype=np.float16)
        shard = self.shard[index]
        for number in np.unique(shard):
            at = np.flatnonzero(shard == number)
            out[at] = self._maps[int(number)][self.row[index[at]], views[at]]
        return out


def open_features(folder: Path | str, *, verify: bool = True) -> FeatureStore:
    """Open a folder that ``ltgcd embed`` has finished.

    Parameters
    ----------
    folder : path
        The ``--out`` of ``ltgcd embed``.
    verify : bool
        Read every shard once and compare checksums, so that damage on disk is never trained on.
    """
    folder = Path(folder)
    if not (folder / KEY_FILE).is_file():
        raise InputError(f"{folder} holds no features; make them with 'ltgcd embed SOURCE --out {folder}'.")
    if not (folder / INDEX_FILE).is_file():
        raise InputError(f"{folder} is not finished; run the same 'ltgcd embed' again, it goes on where it stopped.")
    key = read_json(folder / KEY_FILE)
    index = read_parquet(folder / INDEX_FILE)
    shard = index.column("shard").to_numpy().astype(np.int64)
    whole, damaged = read_shards(folder, verify=verify)
    lost = sorted(set(np.unique(shard).tolist()) - set(whole))
    if lost or damaged:
        name = shard_path(folder, (lost or damaged)[0]).name
        raise InputError(
            f"{folder / name} is damaged; run the same 'ltgcd embed' again, it makes the damaged part anew."
        )
    row = index.column("row").to_numpy().astype(np.int64)
    return FeatureStore(folder, key, index.column("id").combine_chunks(), shard, row)


def opened(source: Path) -> FeatureStore | None:
    """The features in a source's folder, if it is one that ``ltgcd embed`` has written."""
    return open_features(source) if (source / KEY_FILE).is_file() else None
