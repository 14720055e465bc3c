"""Pictures of items, made when somebody looks at them and kept in memory for a while."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict

import numpy as np
from PIL import Image

from ltgcd.common.errors import InputError
from ltgcd.data.images import decode
from ltgcd.data.items import Items
from ltgcd.output.report.columns import TINY
from ltgcd.output.report.pictures import Pictures, thumbnail

QUALITY = {96: 70, 192: 75, 1024: 85, 8192: 90}  # by side in pixels: the sizes there are
HELD = 96 * 2**20  # bytes that are kept; the last picture is, however large
GONE = 64  # pixels of what is shown for an image that can't be read


class Thumbnails:
    """Pictures of some items as WebP, by row; the ones that nobody has looked at for longest give way.

    Parameters
    ----------
    items : Items or None
        Images; of anything else there are no pictures, but for `pictures`.
    pictures : callable, optional
        Pictures of some rows, for vectors that have some.
    limit : int
        Bytes to keep.
    """

    def __init__(self, items: Items | None, pictures: Pictures | None = None, limit: int = HELD) -> None:
        self._items, self._pictures, self._limit = items, pictures, limit
        self._made: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._bytes = 0
        self._reading, self._keeping = threading.Lock(), threading.Lock()

    def picture(self, row: int, size: int) -> bytes | None:
        """The picture of an item, at most `size` pixels a side; None where items have none."""
        if size not in QUALITY:
            raise InputError(f"Pictures are {', '.join(map(str, QUALITY))} pixels large, not {size}.")
        if self._pictures is None and (self._items is None or self._items.kind != "image"):
            return None
        key = (row, size)
        with self._keeping:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
        made = self._make(row, size)
        with self._keeping:
            if key not in self._made:
                self._made[key] = made
                self._bytes += len(made)
            while self._bytes > self._limit and len(self._made) > 1:
                self._bytes -= len(self._made.popitem(last=False)[1])
        return made

    def are_tiny(self) -> bool:
        """Whether the pictures are so small that they are shown pixel by pixel, by the first of them."""
        made = self.picture(0, 96)
        if made is None:
            return False
        with Image.open(io.BytesIO(made)) as image:
            return max(image.size) <= TINY

    def _make(self, row: int, size: int) -> bytes:
        if self._pictures is not None:
            (made,) = self._pictures(np.array([row], dtype=np.int64))
            return _missing() if made is None else thumbnail(made, size, QUALITY[size])
        assert self._items is not None
        with self._reading:  # a reader of parquet files keeps a place in them
            (blob,) = self._items.take(np.array([row], dtype=np.int64))
        try:
            assert isinstance(blob, bytes)
            return thumbnail(decode(blob), size, QUALITY[size])
        except InputError:
            return _missing()


def _missing() -> bytes:
    """A grey square with a cross, for an image that is gone or can't be read."""
    grey = np.full((GONE, GONE), 225, dtype=np.uint8)
    at = np.arange(GONE // 4, 3 * GONE // 4)
    grey[at, at] = grey[at, GONE - 1 - at] = 120
    out = io.BytesIO()
    Image.fromarray(grey).save(out, "WEBP", lossless=True)
    return out.getvalue()
