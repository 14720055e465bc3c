"""Embed and write one shard: what a worker does again and again, knowing no other items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from ltgcd.common.engine.threads import available_cores
from ltgcd.common.errors import InputError
from ltgcd.data.content_ids import digests_of
from ltgcd.data.items import Items
from ltgcd.features.backbones.base import Backbone
from ltgcd.features.backbones.engines import Engine, Run, make_engine
from ltgcd.features.cache import write_shard

BATCH = 16  # fastest on a CPU, where a larger batch falls out of the cache


class Shard(NamedTuple):
    """Items that are embedded and written together, by a process that knows no others."""

    number: int
    ids: pa.StringArray
    items: Items


class _Job(NamedTuple):
    backbone: Backbone
    run: Run
    views: int
    strict: bool


def embedder(
    backbone: Backbone, engine: Engine, views: int, strict: bool, folder: Path
) -> Callable[[Shard, Callable[[int], None]], None]:
    """A function that embeds a shard and writes it."""
    job = _Job(backbone, make_engine(backbone, engine, BATCH), views, strict)

    def embed_and_write(shard: Shard, advance: Callable[[int], None]) -> None:
        write_shard(folder, shard.number, *_embed_shard(job, shard, advance))

    return embed_and_write


_Batch = tuple[list[Any], list[bytes], dict[int, str]]


def _embed_shard(job: _Job, shard: Shard, advance: Callable[[int], None]) -> tuple[NDArray[np.float16], pa.Table]:
    """Activations (rows that could be read, 1 + V, …) and a table of all rows: id, digest, row or reason."""
    ids = shard.ids
    activations = np.empty((len(ids), 1 + job.views, *job.backbone.activation_shape), dtype=np.float16)
    hashes: list[bytes] = []
    reasons: list[str | None] = []
    start = 0
    for batches, batch_hashes, failures in _loaded(job, shard):
        if job.strict and failures:
            position, reason = next(iter(failures.items()))
            raise InputError(f"'{ids[start + position]}': {reason}")
        stop = start + len(batch_hashes)
        with np.errstate(over="ignore"):  # looked for below
            for view, batch in enumerate(batches):
                activations[start:stop, view] = job.run(batch)
        hashes += batch_hashes
        reasons += [failures.get(position) for position in range(len(batch_hashes))]
        advance(len(batch_hashes))
        start = stop
    good = np.array([reason is None for reason in reasons])
    kept = activations if good.all() else activations[good]
    if not np.isfinite(kept).all():
        raise InputError(
            f"The activations of {job.backbone.name} are too large for half precision; use another backbone."
        )
    row = pa.array(np.cumsum(good) - 1, pa.int32(), mask=~good)
    table = pa.table({"id": ids, "digest": pa.array(hashes, pa.binary(16)), "row": row, "reason": reasons})
    return kept, table.cast(_SCHEMA)


_SCHEMA = pa.schema({"id": pa.string(), "digest": pa.binary(16), "row": pa.int32(), "reason": pa.string()})


def _loaded(job: _Job, shard: Shard) -> Iterator[_Batch]:
    """The batches of a shard in order.

    With a GPU the next one is decoded, in as many threads as there are cores, while the trunk works on this one. On a
    CPU both want the same core, and take turns.
    """
    # Of texts a trunk makes its own batches.
    size = len(shard.ids) if job.backbone.kind == "text" else BATCH
    parts = [np.arange(start, min(start + size, len(shard.ids))) for start in range(0, len(shard.ids), size)]
    if not torch.cuda.is_available():
        yield from (_load(job, shard, part, None) for part in parts)
        return
    with ThreadPoolExecutor(available_cores()) as pool, ThreadPoolExecutor(1) as ahead:
        waiting = ahead.submit(_load, job, shard, parts[0], pool)
        for following in [*parts[1:], None]:
            batch = waiting.result()
            if following is not None:
                waiting = ahead.submit(_load, job, shard, following, pool)
            yield batch


def _load(job: _Job, shard: Shard, rows: NDArray[np.int64], pool: ThreadPoolExecutor | None) -> _Batch:
    """The trunk's input for each view, the digests, and the failures by position. Failed rows are kept, as zeros."""
    contents: Any = shard.items.take(rows)
    hashes = [digest.tobytes() for digest in digests_of(contents)]
    if job.backbone.kind == "text":
        return [contents], hashes, {}
    if job.backbone.kind == "vector":
        return [torch.from_numpy(contents)], hashes, {}
    preprocessing = job.backbone.preprocessing
    assert preprocessing is not None
    pixels, failures = preprocessing.load_views(contents, shard.ids.take(rows).to_pylist(), job.views, pool)
    return [preprocessing.to_batch(pixels[:, view]) for view in range(1 + job.views)], hashes, dict(failures)
