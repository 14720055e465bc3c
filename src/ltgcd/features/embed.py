"""Run a frozen trunk over a collection once: sharded, resumable, cached by content, model and preprocessing.

An item's features depend on the item alone, to the last bit: not on the order of the rows, the other items or the
batch it falls into, for batches are always full (`filled_up`) and texts run only with texts of their length. So a run
that was killed and is run again keeps its finished shards and ends with what a run without interruption gives, and it
does not matter which process has computed a shard (`ltgcd.common.engine`).
"""

from __future__ import annotations

import csv
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray

from ltgcd.common.checksums import write_table
from ltgcd.common.engine.ray_cluster import check_cluster
from ltgcd.common.engine.shards import Foretell, foretold, map_shards
from ltgcd.common.engine.threads import torch_threads
from ltgcd.common.errors import InputError
from ltgcd.common.files import atomic_path, locked, with_metadata
from ltgcd.common.progress import progress
from ltgcd.data.collection import UNLABELLED, Collection, Source
from ltgcd.data.items import Kind, Vectors
from ltgcd.data.write_source import write_embeddings, write_manifest
from ltgcd.features.backbones import check_kind
from ltgcd.features.backbones.base import Backbone
from ltgcd.features.backbones.engines import choose_engine, filled_up
from ltgcd.features.cache import (
    INDEX_FILE,
    ITEMS_FILE,
    SKIPPED_FILE,
    SOURCE_FILE,
    FeatureStore,
    cache_key,
    check_claim,
    claim,
    engine_of,
    file_checksum,
    open_features,
    read_shards,
    remove_shard,
    sweep,
)
from ltgcd.features.cached_items import embedded_already, free_numbers, newest_rows
from ltgcd.features.embed_shard import BATCH, Shard, embedder

TAIL_BATCH = 64
SHARD_BYTES = 64 << 20  # a shard is held in memory, and a kill loses at most one a process
SHARD_ITEMS = 2048
SHARDS = 256  # of smaller collections, so that all workers have something to do until the end
SMALL_SHARD = {"image": 64, "text": 512, "vector": SHARD_ITEMS}  # fewer texts leave the trunk's batches half empty


@dataclass(frozen=True, eq=False)
class Embedded:
    """What an embedding run has made.

    `n` items have features of length `dim`; `skipped` lists (id, reason) of those that could not be read; `embedded`
    were computed now, at `images_per_second`; the rest was cached. `vectors` holds the features with the labels and
    the truth of their items, None if no item could be read; `store` the activations in `path`.
    """

    n: int
    dim: int
    skipped: tuple[tuple[str, str], ...]
    embedded: int
    images_per_second: float
    disk_bytes: int
    path: Path
    store: FeatureStore
    vectors: Source | None

    @property
    def source(self) -> Source:
        """The features as a source of vectors; a sentence if no item could be read."""
        if self.vectors is None:
            item_id, reason = self.skipped[0]
            raise InputError(
                f"None of the {len(self.skipped)} items could be read (the first is '{item_id}': "
                f"{reason.partition(';')[0]}); give a source with images."
            )
        return self.vectors

    @property
    def skipped_file(self) -> Path:
        """The table of the items that could not be read."""
        return self.path / SKIPPED_FILE


def embed(
    source: Source,
    backbone: Backbone,
    folder: Path | str,
    *,
    views: int = 0,
    engine: str = "auto",
    workers: int | None = None,
    cluster: str | None = None,
    strict: bool = False,
    may_be_empty: bool = False,
    notify: Callable[[str], None] = lambda _message: None,
    foretell: Foretell = foretold,
) -> Embedded:
    """Compute and store the activations of the test view and of `views` training views of every item.

    Parameters
    ----------
    source : Source
        Images, texts or vectors; its labels go into ``features.npz``, which is a source for the next step.
    backbone : Backbone
        A trunk of the same kind as the source.
    folder : path
        Where the features go; if it holds some of them, only the others are computed.
    views : int
        Training views an image (texts and vectors have none: dropout makes theirs in training).
    engine : {"auto", "torch", "openvino"}
        What runs the trunk; by default what `choose_engine` says. It is kept with the features.
    workers : int, optional
        Processes that share the work, of one thread each; 1 is this process alone. By default one a core where that is
        faster, start included. They change no bit.
    cluster : str, optional
        A Ray cluster whose actors share the work instead: ray, auto or ray://host:10001. They change no bit either.
    strict : bool
        Stop at the first broken image instead of skipping and reporting it.
    may_be_empty : bool
        Go on if no item at all can be read, which is an error otherwise.
    notify : callable
        Told what is about to happen, a sentence at a time.
    foretell : callable
        Makes the sentence on how long it will take, see `ltgcd.common.engine.shards.map_shards`.
    """
    folder, collection = Path(folder), source.collection
    check_kind(backbone.name, backbone.kind, collection.items.kind, views)
    if cluster is not None:
        check_cluster(cluster)
        folder = folder.resolve()  # the same to all machines
    workers = workers if cluster else _chosen(workers, backbone)
    by = choose_engine(engine, backbone, len(collection) * (1 + views), engine_of(folder))
    key = cache_key(backbone, views, by)
    check_claim(folder, key)  # before the lock, so that a folder which is refused stays as it is
    with locked(folder, "ltgcd embed"):
        claim(folder, key)
        sweep(folder)
        whole, damaged = read_shards(folder, verify=True)
        for number in damaged:
            notify(f"shard {number} in {folder} is damaged; its items are embedded again")
            remove_shard(folder, number)
        cached = embedded_already(collection, whole)
        todo = collection.items.reading_order()
        todo = todo[~cached[todo]]
        item_bytes = 2 * (1 + views) * int(np.prod(backbone.activation_shape))
        # Besides the shards: features.npz, with ids and labels, and about 60 bytes of index an item, twice.
        needed = len(todo) * item_bytes + len(collection) * (4 * backbone.dim + 128)
        _check_room(folder, needed, notify if len(todo) else lambda _sentence: None)
        started = time.perf_counter()
        if len(todo):
            if (engine, by) == ("auto", "openvino"):
                notify("OpenVINO embeds, which is faster here than torch; its start takes some seconds")
            free = free_numbers(collection.ids.take(todo), whole)
            size = _shard_items(len(collection), collection.items.kind, item_bytes)
            parts = (todo[start : start + size] for start in range(0, len(todo), size))
            shards = (Shard(next(free), collection.ids.take(rows), collection.items.select(rows)) for rows in parts)
            prepare = partial(embedder, backbone, by, views, strict, folder)
            with progress(f"embedding ({backbone.name})", len(todo)) as advance:
                map_shards(
                    prepare,
                    shards,
                    len(todo),
                    workers=workers,
                    cluster=cluster,
                    advance=advance,
                    notify=notify,
                    foretell=foretell,
                )
            sweep(folder)  # a worker that died has left what it was writing
        rate = len(todo) / max(time.perf_counter() - started, 1e-9) if len(todo) else 0.0
        skipped = _write_index(folder, collection)
        store = open_features(folder, verify=False)
        vectors = _write_features(store, source, backbone) if len(store) else None
        _write_items(store, collection)
    total = sum(path.stat().st_size for path in folder.glob("shard-*.npy"))
    done = Embedded(len(store), backbone.dim, tuple(skipped), len(todo), rate, total, folder, store, vectors)
    if not may_be_empty:
        done.source  # noqa: B018 - says so where there is none
    return done


# ---------------------------------------------------------------- who does how much


def _shard_items(n: int, kind: Kind, item_bytes: int) -> int:
    """How many of n items are in a shard: the same in every run over them, whatever is done already and by whom."""
    most = min(SHARD_ITEMS, SHARD_BYTES // item_bytes)
    return max(BATCH, min(most, max(SMALL_SHARD[kind], -(-n // SHARDS))) // BATCH * BATCH)


def _chosen(workers: int | None, backbone: Backbone) -> int | None:
    """As many workers as were asked for; of one process where others would only wait for the GPU, or copy vectors."""
    if workers is not None and workers < 1:
        raise InputError(f"The number of workers is {workers}; give 1 or more.")
    alone = torch.cuda.is_available() or backbone.kind == "vector"
    return 1 if workers is None and alone else workers


# ---------------------------------------------------------------- what is written at the end


def _write_index(folder: Path, collection: Collection) -> list[tuple[str, str]]:
    """Write ``index.parquet`` and ``skipped.csv`` for the items of this source; give the skipped ones.

    Where an id was embedded more than once because its content changed, its newest shard counts.
    """
    (folder / SOURCE_FILE).unlink(missing_ok=True)  # killed from here on, the folder counts as unfinished
    shards, _ = read_shards(folder, verify=False)
    numbered = [
        table.append_column("shard", pa.array(np.full(len(table), number), pa.int32()))
        for number, table in shards.items()
    ]
    table = pa.concat_tables(numbered)
    mine = table.take(newest_rows(collection.ids, table))
    broken = pc.is_valid(mine.column("reason"))
    skipped = mine.filter(broken).select(["id", "reason"]).to_pylist()
    with atomic_path(folder / SKIPPED_FILE) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["id", "reason"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(skipped)
    index = mine.filter(pc.invert(broken)).select(["id", "digest", "shard", "row"])
    write_table(folder / INDEX_FILE, with_metadata(index, {SKIPPED_FILE: file_checksum(folder / SKIPPED_FILE)}))
    return [(entry["id"], entry["reason"]) for entry in skipped]


def _write_features(store: FeatureStore, source: Source, backbone: Backbone) -> Source:
    """Apply the untrained tail to the test view: ``features.npz``, a source of embeddings for every command."""
    collection, tail = source.collection, backbone.tail.to("cpu").eval()
    x = np.empty((len(store), backbone.dim), dtype=np.float32)
    with progress("putting the features together", len(store)) as advance, torch.inference_mode(), torch_threads(1):
        for start in range(0, len(store), TAIL_BATCH):
            rows = np.arange(start, min(start + TAIL_BATCH, len(store)), dtype=np.int64)
            activations = torch.from_numpy(store.take(rows).astype(np.float32))
            x[rows] = tail(filled_up(activations, TAIL_BATCH))[: len(rows)].numpy()
            advance(len(rows))
    if not np.isfinite(x).all():
        raise InputError(f"The tail of {backbone.name} gives NaN or infinite features; check its weights.")
    kept = _rows_with_features(store, collection)
    y, names = collection.y[kept], collection.class_names
    truth = source.truth.select(kept) if source.truth else None
    write_embeddings(store.folder / SOURCE_FILE, x, store.ids, y, names, truth)
    return Source(Collection(store.ids, Vectors(x), y, names), truth)


def _write_items(store: FeatureStore, collection: Collection) -> None:
    """Keep where the images are, or what the texts say: without it a report on the features would have none to show."""
    if collection.items.kind == "vector" or not len(store):
        return
    shown = collection.select(_rows_with_features(store, collection))
    unlabelled = np.full(len(shown), UNLABELLED, dtype=np.int64)  # the labels are in features.npz
    write_manifest(store.folder / ITEMS_FILE, Source(Collection(shown.ids, shown.items, unlabelled, ()), None), {})


def _rows_with_features(store: FeatureStore, collection: Collection) -> NDArray[np.int64]:
    return np.flatnonzero(np.asarray(pc.is_in(collection.ids, store.ids))).astype(np.int64)


# ---------------------------------------------------------------- checks before the start


def _check_room(folder: Path, needed: int, notify: Callable[[str], None]) -> None:
    free = shutil.disk_usage(folder).free
    notify(f"this needs {_megabytes(needed)} of disk ({_megabytes(free)} are free)")
    if needed * 1.05 > free:
        raise InputError(
            f"{folder} has room for {_megabytes(free)}, but the features need {_megabytes(needed)}; free some, choose "
            "another --out, or take fewer --views."
        )


def _megabytes(n: int) -> str:
    return f"{n / 1e6:,.0f} MB" if n < 1e10 else f"{n / 1e9:,.0f} GB"
