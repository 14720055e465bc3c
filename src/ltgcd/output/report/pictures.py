"""Small pictures for the page: within a number of bytes, the most wanted first."""

from __future__ import annotations

import base64
import io
import time
from dataclasses import dataclass
from functools import partial
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ltgcd.common.engine.rows import Arrays, Compute, Found, by_rows, shared_if_long
from ltgcd.common.errors import InputError
from ltgcd.data.collection import Collection
from ltgcd.data.images import decode
from ltgcd.data.items import Items


class Pictures(Protocol):
    """Pictures of some items: they go to other processes, so they are objects and no closures."""

    def __call__(self, rows: NDArray[np.int64]) -> list[Image.Image | None]:
        """Pictures of some rows, None for one that can't be decoded."""
        ...

    def select(self, rows: NDArray[np.int64]) -> Pictures:
        """Pictures of some of the items alone."""
        ...


SIZES = ((96, 62), (72, 55), (56, 45))  # side in pixels and quality: the first with which the wanted ones fit
EXACT = 16  # images of this side or less keep every pixel
PILOT = 24  # pictures that tell how large the others will be
CHUNK = 64  # decoded images in memory at a time, of a process


@dataclass(frozen=True, eq=False)
class ImagePictures:
    """Images that are decoded when they are asked for."""

    items: Items

    def __call__(self, rows: NDArray[np.int64]) -> list[Image.Image | None]:
        """Pictures of some rows, None for one that can't be decoded."""
        found: list[Image.Image | None] = []
        for blob in self.items.take(rows):
            try:
                found.append(decode(cast(bytes, blob)))
            except InputError:
                found.append(None)
        return found

    def select(self, rows: NDArray[np.int64]) -> ImagePictures:
        """Pictures of some of the items alone."""
        return ImagePictures(self.items.select(rows))


@dataclass(frozen=True, eq=False)
class PixelPictures:
    """Vectors that are square grey images: (N, side²), 0 for paper and 1 for ink, as those of the demo."""

    x: NDArray[np.floating]
    enlarged: int = 6

    def __call__(self, rows: NDArray[np.int64]) -> list[Image.Image | None]:
        """Pictures of some rows."""
        side = int(np.sqrt(self.x.shape[1]))
        ink = np.clip(np.asarray(self.x)[rows], 0, 1)
        grey = np.round(255 * (1 - ink)).astype(np.uint8).reshape(-1, side, side)
        size = (side * self.enlarged, side * self.enlarged)
        return [Image.fromarray(square).resize(size, Image.Resampling.BICUBIC) for square in grey]

    def select(self, rows: NDArray[np.int64]) -> PixelPictures:
        """Pictures of some of the items alone."""
        return PixelPictures(np.asarray(self.x)[rows], self.enlarged)


def collection_pictures(collection: Collection) -> Pictures | None:
    """Pictures of a collection's images; None for texts and vectors."""
    return ImagePictures(collection.items) if collection.items.kind == "image" else None


PIXEL_SIDES = (5, 64)  # least and greatest side of vectors that may be pictures
GREYS = (16, 255)  # values of a pixel, of which each is a whole part of 1


def pictures_of_vectors(x: NDArray[np.floating]) -> Pictures | None:
    """Pictures of vectors (N, D) that are pixels, as those of the demo: D is a square, and values are k/16 or k/255.

    None for any other vectors; what a network makes of an item never has such values.
    """
    side = int(np.sqrt(x.shape[1]))
    if side * side != x.shape[1] or not PIXEL_SIDES[0] <= side <= PIXEL_SIDES[1] or not len(x):
        return None
    some = np.asarray(x[:: max(1, len(x) // 200)], dtype=np.float64)
    if some.min() < 0 or some.max() > 1 or not any(np.abs(some * n - np.rint(some * n)).max() < 1e-3 for n in GREYS):
        return None
    return PixelPictures(x)


def thumbnail(image: Image.Image, side: int, quality: int) -> bytes:
    """An image as WebP of at most `side` pixels a side; smaller ones keep their size, tiny ones every pixel."""
    small = image.convert("RGB")
    small.thumbnail((side, side), Image.Resampling.LANCZOS, reducing_gap=3.0)
    out = io.BytesIO()
    exact = max(small.size) <= EXACT
    small.save(out, "WEBP", quality=100 if exact else quality, lossless=exact, method=4)
    return out.getvalue()


def picture_size(encoded: str) -> tuple[int, int]:
    """Width and height of a picture in base64."""
    with Image.open(io.BytesIO(base64.b64decode(encoded))) as image:
        return image.size


def thumbnails(
    pictures: Pictures,
    wanted: NDArray[np.int64],
    more: NDArray[np.int64],
    budget: int,
    reading_order: NDArray[np.int64],
) -> dict[int, str]:
    """Pictures of some rows in base64, by row, within `budget` bytes; made by several processes where that is faster.

    Parameters
    ----------
    pictures : callable
        Images of some rows.
    wanted : ndarray of int64
        Rows that should have a picture, the most wanted first: they are made smaller, or at last left out, to fit.
    more : ndarray of int64
        Rows that get one if there is room.
    budget : int
        Bytes in base64.
    reading_order : ndarray of int64, shape (N,)
        The collection's: images are read in it, whatever the order in which they are wanted.
    """
    started = time.perf_counter()
    pilot = [image for image in pictures(wanted[:PILOT]) if image]
    if not pilot:
        return {}
    for side, quality in SIZES:
        each = 4 / 3 * float(np.mean([len(thumbnail(image, side, quality)) for image in pilot])) + 4
        if each * len(wanted) <= budget:
            break
    seconds = (time.perf_counter() - started) / len(pilot)
    rows = np.concatenate([wanted, more]).astype(np.int64)[: int(budget / each) + PILOT]
    place = np.empty(len(reading_order), dtype=np.int64)
    place[reading_order] = np.arange(len(reading_order))
    in_order = rows[np.argsort(place[rows], kind="stable")]
    encoded: dict[int, bytes] = {}
    make = partial(_thumbnails, pictures.select(in_order), side, quality)
    with shared_if_long(seconds * len(in_order)):
        for part, (sizes, contents) in by_rows(make, {}, len(in_order), CHUNK, "making small pictures"):
            made = zip(in_order[part].tolist(), sizes.tolist(), contents, strict=True)
            encoded.update((row, content[:size].tobytes()) for row, size, content in made if size)
    found: dict[int, str] = {}
    for row in rows.tolist():
        if row not in encoded:
            continue
        text = base64.b64encode(encoded[row]).decode()
        budget -= len(text) + 3
        if budget < 0:
            break
        found[row] = text
    return found


def _thumbnails(pictures: Pictures, side: int, quality: int, _arrays: Arrays) -> Compute:
    """Of some rows how many bytes each small picture has, 0 for none, and these bytes, filled up to the longest."""

    def compute(start: int, stop: int) -> Found:
        made = [thumbnail(one, side, quality) if one else b"" for one in pictures(np.arange(start, stop))]
        sizes = np.array([len(content) for content in made], dtype=np.int64)
        contents = np.zeros((len(made), int(sizes.max())), dtype=np.uint8)
        for row, content in enumerate(made):
            contents[row, : len(content)] = np.frombuffer(content, dtype=np.uint8)
        return sizes, contents

    return compute
