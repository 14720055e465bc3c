"""What an item is, whatever it is called and wherever it stands: a hash of its content, and an id made of it.

A row number is no id: sort a table again, and it means another item; read another table, and its row 0 seems to be
there already. So an item that comes without an id gets one from its content. Hashes of vectors are those of `row_keys`,
which need no loop over rows and are the same for the same numbers in half, single or double precision.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.progress import progress
from ltgcd.data.items import Items
from ltgcd.data.order import row_keys

DIGEST_BYTES, ID_BYTES = 16, 8
CHUNK = {"image": 32, "text": 8192, "vector": 65536}  # items in memory at a time


def content_digests(items: Items) -> pa.StringArray:
    """Hash of each item's content, 32 hexadecimal digits. Image files are read for it, a few at a time.

    An image that can't be read has the digest of an empty file.
    """
    return hexadecimal(_all_digests(items))


def content_ids(items: Items) -> pa.StringArray:
    """An id for each item, made of its content: 16 hexadecimal digits, the same wherever the item stands.

    Of items with the same content the first is ``d2f0…``, the next ``d2f0…-2`` and so on, in their order.
    """
    digests = _all_digests(items)[:, :ID_BYTES]
    ids = hexadecimal(digests)
    earlier = _earlier_copies(np.ascontiguousarray(digests).view(np.uint64).ravel())
    is_copy = pa.array(earlier > 0)
    numbers = pa.array(earlier[earlier > 0] + 1).cast(pa.string())
    if not len(numbers):
        return ids
    return pc.replace_with_mask(ids, is_copy, pc.binary_join_element_wise(ids.filter(is_copy), numbers, "-"))


def digests_of(contents: Any) -> NDArray[np.uint8]:  # noqa: ANN401 - a list of bytes or str, or a table of vectors
    """Digests (n, 16) of items that are in memory, as `Items.take` gives them."""
    if isinstance(contents, np.ndarray):
        return row_keys(contents).astype(">u8").view(np.uint8)
    blobs = (item.encode() if isinstance(item, str) else item for item in contents)
    joined = b"".join(hashlib.blake2b(blob, digest_size=DIGEST_BYTES).digest() for blob in blobs)
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, DIGEST_BYTES)


def _all_digests(items: Items) -> NDArray[np.uint8]:
    order, chunk = items.reading_order(), CHUNK[items.kind]
    digests = np.empty((len(items), DIGEST_BYTES), dtype=np.uint8)
    with progress("reading what the items are", len(order)) as advance:
        for start in range(0, len(order), chunk):
            rows = order[start : start + chunk]
            digests[rows] = digests_of(items.take(rows))
            advance(len(rows))
    return digests


def _earlier_copies(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Of each key (N,), how many of those before it are the same."""
    ordered = np.sort(keys)
    several = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    earlier = np.zeros(len(keys), dtype=np.int64)
    rows = (
        np.flatnonzero(np.isin(keys, several)) if len(several) else np.empty(0, np.int64)
    )  # most often there are none
    rows = rows[np.argsort(keys[rows], kind="stable")]
    places = np.arange(len(rows))
    is_first = np.diff(keys[rows], prepend=~keys[rows[:1]]) != 0
    earlier[rows] = places - np.maximum.accumulate(np.where(is_first, places, 0))
    return earlier


def hexadecimal(digests: NDArray[np.uint8]) -> pa.StringArray:
    """Bytes (N, B) as N strings of 2 B digits, without a loop over rows."""
    offsets = np.arange(len(digests) + 1, dtype=np.int64) * (2 * digests.shape[1])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(digests.tobytes().hex().encode())]
    return pa.Array.from_buffers(pa.large_string(), len(digests), buffers).cast(pa.string())
