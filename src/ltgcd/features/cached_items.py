"""What is embedded already: which items of a source a folder's shards hold, with the same content."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.progress import progress
from ltgcd.data.collection import Collection
from ltgcd.data.content_ids import digests_of

CHUNK = 32  # items in memory at a time


def embedded_already(collection: Collection, shards: dict[int, pa.Table]) -> NDArray[np.bool_]:
    """Mask of the items that a shard holds with the same id and the same content."""
    cached = np.zeros(len(collection), dtype=np.bool_)
    if not shards:
        return cached
    table = pa.concat_tables(shards.values())
    digests = table.column("digest").combine_chunks().take(newest_rows(collection.ids, table))
    order = collection.items.reading_order()
    order = order[np.asarray(digests.is_valid())[order]]
    with progress("checking what is there", len(order)) as advance:
        for start in range(0, len(order), CHUNK):
            rows = order[start : start + CHUNK]
            contents: Any = collection.items.take(rows)
            held = digests.take(rows).to_pylist()
            cached[rows] = [now.tobytes() == then for now, then in zip(digests_of(contents), held, strict=True)]
            advance(len(rows))
    return cached


def newest_rows(ids: pa.StringArray, table: pa.Table) -> pa.Array:
    """Row of each id in the table of all shards, the last where there are more; null where there is none."""
    return pc.subtract(len(table) - 1, pc.index_in(ids, table.column("id").combine_chunks()[::-1]))


def free_numbers(ids: pa.StringArray, shards: dict[int, pa.Table]) -> Iterator[int]:
    """Numbers for new shards: gaps that damaged ones left, but none below a shard with older content of these `ids`."""
    first = 0
    if shards:
        number_of = np.repeat(list(shards), [len(table) for table in shards.values()])
        held = pa.concat_tables(shards.values()).column("id")
        first = int(number_of[np.asarray(pc.is_in(held, ids))].max(initial=-1)) + 1
    return (n for n in itertools.count(first) if n not in shards)
