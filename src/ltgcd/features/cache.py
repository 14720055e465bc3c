"""Features on disk: shards of trunk activations that are whole or not there, found by id and content.

A folder holds ``features.json`` (the key: model, preprocessing, views), ``shard-00000.npy`` and so on (fp16, memory
mapped), ``shard-00000.parquet`` (id, digest of the content, row or reason for a skip), ``index.parquet`` (where each
item of the source is), ``features.npz`` (the test view's features: a source), ``manifest.parquet`` (where the images
are, or what the texts say) and ``skipped.csv``.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.checksums import bytes_are_as_written, checked_object, unchecked_object, write_table
from ltgcd.common.errors import InputError
from ltgcd.common.files import atomic_path, read_json, read_metadata, with_metadata, write_json
from ltgcd.common.outputs import FEATURES_MARK, check_free
from ltgcd.data.collection import Collection
from ltgcd.data.content_ids import hexadecimal
from ltgcd.data.parquet import check_table, read_parquet, read_table
from ltgcd.data.sources import read_manifest

if TYPE_CHECKING:
    from ltgcd.features.backbones.base import Backbone

FORMAT = 2
KEY_FILE, INDEX_FILE, SOURCE_FILE, SKIPPED_FILE = FEATURES_MARK, "index.parquet", "features.npz", "skipped.csv"
ITEMS_FILE = "manifest.parquet"


# ---------------------------------------------------------------- the key


def cache_key(backbone: Backbone, views: int, engine: str) -> dict[str, Any]:
    """Everything that decides the numbers besides the items themselves, and from which `backbone_of` loads it again."""
    preprocessing = backbone.preprocessing
    return {
        "format": FORMAT,
        "backbone": backbone.name,
        "image_size": preprocessing.image_size if preprocessing else None,
        "trained_blocks": backbone.trained_blocks,
        "trunk": backbone.fingerprint,
        "tail": backbone.tail_fingerprint,
        "preprocessing": preprocessing.fingerprint if preprocessing else None,
        "activation_shape": list(backbone.activation_shape),
        "dim": backbone.dim,
        "views": views,
        "engine": engine,
    }


def differing_features(trained: dict[str, Any] | None, new: dict[str, Any] | None) -> str | None:
    """Say in one sentence why a model can't be given features; None if it can.

    Two numbers of features being equal says nothing: EfficientNet-Lite0 and -Lite2 both have 1280. The number of
    training views may differ, and so may the engine: OpenVINO computes the same network in the same precision and
    only rounds differently, so that near ties aside the labels are the same.

    Parameters
    ----------
    trained : dict or None
        Key of the features that the model was trained with; None for vectors from elsewhere.
    new : dict or None
        Key of the features that it shall be given. Where one of the two is None there is nothing to compare.
    """
    if trained is None or new is None:
        return None
    was, now = trained.get("backbone"), new.get("backbone")
    if was != now:
        return f"the model was trained with features of {was}, and these are of {now}; embed the items with {was}."
    for name, what in (("image_size", "images of {} px"), ("trained_blocks", "{} trained blocks")):
        if trained.get(name) != new.get(name):
            before, here = what.format(trained.get(name)), what.format(new.get(name))
            return f"the model was trained with {was} and {before}, and these features are of {here}; embed them alike."
    if trained.get("preprocessing") != new.get("preprocessing"):
        return f"the images were prepared for {was} in another way than in training; embed them alike."
    if any(trained.get(name) != new.get(name) for name in ("trunk", "tail", "activation_shape", "dim")):
        return f"{was} has other weights here than in training; give those of the training with --weights."
    return None


def check_claim(folder: Path, key: dict[str, Any]) -> None:
    """Refuse a folder that is no cache for `key` and can't be made one."""
    if is_feature_folder(folder):
        held = _read_key(folder)
        if held != key:
            _check_format(held, folder)
            differing = ", ".join(sorted(name for name in {*held, *key} if held.get(name) != key.get(name)))
            raise InputError(
                f"{folder} holds features of another model or preprocessing (it differs in: {differing}); "
                "give another folder with --out."
            )
        return
    check_free(folder, "features", lambda path: path.name.startswith("."))


def claim(folder: Path, key: dict[str, Any]) -> None:
    """Make the folder a cache for `key`, or check that it is one already. Only for who holds the folder's lock."""
    check_claim(folder, key)
    if not is_feature_folder(folder):
        write_json(folder / KEY_FILE, checked_object(key))


def _read_key(folder: Path) -> dict[str, Any]:
    path = folder / KEY_FILE
    held = read_json(path)
    if not isinstance(held, dict):
        raise InputError(f"{path} is damaged (no key of features); give another folder with --out.")
    return unchecked_object(held, path)


def engine_of(folder: Path) -> str | None:
    """What computed the features in a folder; None if it holds none."""
    key = read_json(folder / KEY_FILE) if is_feature_folder(folder) else None
    return key.get("engine") if isinstance(key, dict) else None


def _check_format(key: dict[str, Any], folder: Path) -> None:
    if key.get("format") != FORMAT:
        raise InputError(f"{folder} holds features of another version of ltgcd; embed the items again, elsewhere.")


# ---------------------------------------------------------------- shards


def sweep(folder: Path) -> None:
    """Remove what killed runs left half-written. Only for the process that holds the folder's lock."""
    for path in folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)


def shard_path(folder: Path, number: int) -> Path:
    """Where the activations of a shard lie; its table lies beside them."""
    return folder / f"shard-{number:05d}.npy"


def write_shard(folder: Path, number: int, activations: NDArray[np.float16], table: pa.Table) -> None:
    """Write a shard. Its table comes last and holds the checksum: a shard without a table does not count."""
    path = shard_path(folder, number)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.save(file, activations)
    note = {"activations": file_checksum(path), "rows": len(activations)}
    write_table(path.with_suffix(".parquet"), with_metadata(table, note))


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
            if "activations" in promised:
                check_table(table, path)
            else:  # of ltgcd 0.1, which kept a checksum of the activations alone
                promised["activations"] = promised["checksum"]
            rows = len(np.load(path.with_suffix(".npy"), mmap_mode="r"))
            sound = rows == promised["rows"] and not (
                verify and file_checksum(path.with_suffix(".npy")) != promised["activations"]
            )
        except Exception:  # broken bytes raise whatever their reader stumbles over
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


def file_checksum(path: Path) -> int:
    """CRC-32 of a file."""
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
    if not is_feature_folder(folder):
        raise InputError(f"{folder} holds no features; make them with 'ltgcd embed SOURCE --out {folder}'.")
    if not (folder / INDEX_FILE).is_file():
        raise InputError(f"{folder} is not finished; run the same 'ltgcd embed' again, it goes on where it stopped.")
    key = _read_key(folder)
    _check_format(key, folder)
    index = _read_index(folder)
    shard = index.column("shard").to_numpy().astype(np.int64)
    whole, damaged = read_shards(folder, verify=verify)
    lost = sorted(set(np.unique(shard).tolist()) - set(whole))
    if lost or damaged:
        name = shard_path(folder, (lost or damaged)[0]).name
        raise InputError(
            f"{folder / name} is damaged; run the same 'ltgcd embed' again, it makes the damaged part anew."
        )
    shown = folder / ITEMS_FILE
    if verify and shown.is_file() and bytes_are_as_written(shown) is False:
        raise InputError(f"{shown} is damaged; run the same 'ltgcd embed' again, it writes it anew.")
    row = index.column("row").to_numpy().astype(np.int64)
    if not all(_agree(index.filter(pa.array(shard == number)), table) for number, table in whole.items()):
        raise InputError(
            f"{folder / INDEX_FILE} is of other shards than those beside it; run the same 'ltgcd embed' again, it "
            "writes it anew."
        )
    return FeatureStore(folder, key, index.column("id").combine_chunks(), shard, row)


def _read_index(folder: Path) -> pa.Table:
    """Where each item of the source is; another table that lies in its place is told apart."""
    index = read_table(folder / INDEX_FILE)
    if not {"id", "digest", "shard", "row"} <= set(index.column_names):
        raise InputError(
            f"{folder / INDEX_FILE} is another table; run the same 'ltgcd embed' again, it writes it anew."
        )
    return index


def _agree(index: pa.Table, shard: pa.Table) -> bool:
    """Whether the items that an index names of a shard are there, in its rows."""
    held = shard.filter(pc.is_valid(shard.column("row")))
    at = pc.index_in(index.column("row").combine_chunks(), held.column("row").combine_chunks())
    found = held.take(at)
    return not at.null_count and all(found.column(name).equals(index.column(name)) for name in ("id", "digest"))


def is_feature_folder(folder: Path) -> bool:
    """Whether ``ltgcd embed`` has written a folder, or begun to."""
    return (folder / KEY_FILE).is_file()


def sealed_in(folder: Path) -> list[Path]:
    """The files of a folder of features whose bytes can be compared with those that were written."""
    return [folder / KEY_FILE, folder / INDEX_FILE, folder / SOURCE_FILE, folder / ITEMS_FILE,
            *sorted(folder.glob("shard-[0-9]*.parquet"))]  # fmt: skip


def missing_in(folder: Path, *, shown: bool) -> list[Path]:
    """What a folder that ``ltgcd embed`` has finished lacks; `shown` says whether its items are images or texts."""
    needed = (KEY_FILE, INDEX_FILE, SOURCE_FILE, *((ITEMS_FILE,) if shown else ()))
    return [folder / name for name in needed if not (folder / name).is_file()]


def skipped_is_as_written(folder: Path) -> bool:
    """Whether the table of the items that could not be read is as it was written; one of ltgcd 0.1 is taken."""
    noted = read_metadata(read_table(folder / INDEX_FILE).schema)
    path = folder / SKIPPED_FILE
    return SKIPPED_FILE not in noted or (path.is_file() and file_checksum(path) == noted[SKIPPED_FILE])


def opened(source: Path) -> FeatureStore | None:
    """The features in a source's folder, if it is one that ``ltgcd embed`` has written."""
    return open_features(source) if is_feature_folder(source) else None


def contents_in(folder: Path, ids: pa.StringArray) -> pa.StringArray:
    """Digest of what some items of a folder were when they were embedded, as `content_digests` tells it; else null."""
    index = _read_index(folder)
    held = hexadecimal(np.frombuffer(b"".join(index.column("digest").to_pylist()), np.uint8).reshape(len(index), -1))
    return held.take(pc.index_in(ids, index.column("id").combine_chunks()))


def shown_items(folder: Path) -> Collection | None:
    """The images or texts behind a folder of features, without labels; None for vectors, or if they can't be found."""
    try:
        # What was to say about the items was said when they were embedded.
        return read_manifest(folder / ITEMS_FILE, lambda _sentence: None, check_files=False).collection
    except InputError:  # moved or deleted: the features are whole without them
        return None


def items_behind(store: FeatureStore | None, ids: pa.StringArray) -> Collection | None:
    """The images or texts of some items of a folder of features, in their order; None where it lacks one of them."""
    held = None if store is None else shown_items(store.folder)
    if held is None:
        return None
    at = pc.index_in(ids, held.ids)
    return None if at.null_count else held.select(at.to_numpy())
