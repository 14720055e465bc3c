"""Small pictures for the page: within a number of bytes, the most wanted first."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ltgcd.common.errors import InputError
from ltgcd.data.collection import Collection
from ltgcd.data.images import decode

Pictures = Callable[[NDArray[np.int64]], "list[Image.Image | None]"]  # of some rows of the collection
SIZES = ((96, 62), (72, 55), (56, 45))  # side in pixels and quality: the first with which the wanted ones fit
EXACT = 16  # images of this side or less keep every pixel
PILOT = 24  # pictures that tell how large the others will be
CHUNK = 64  # decoded images in memory at a time


def collection_pictures(collection: Collection) -> Pictures | None:
    """Pictures of a collection's images, None for one that can't be decoded; no function for texts and vectors."""
    if collection.items.kind != "image":
        return None

    def pictures(rows: NDArray[np.int64]) -> list[Image.Image | None]:
        found: list[Image.Image | None] = []
        for blob in collection.items.take(rows):
            try:
                found.append(decode(cast(bytes, blob)))
            except InputError:
                found.append(None)
        return found

    return pictures


def pixel_pictures(x: NDArray[np.floating], enlarged: int = 6) -> Pictures:
    """Pictures of vectors that are square grey images: (N, side²), 0 for paper and 1 for ink, as those of the demo."""
    side = int(np.sqrt(x.shape[1]))

    def pictures(rows: NDArray[np.int64]) -> list[Image.Image | None]:
        grey = np.round(255 * (1 - np.clip(np.asarray(x)[rows], 0, 1))).astype(np.uint8).reshape(-1, side, side)
        size = (side * enlarged, side * enlarged)
        return [Image.fromarray(square).resize(size, Image.Resampling.BICUBIC) for square in grey]

    return pictures


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
    return pixel_pictures(x)


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
    """Pictures of some rows in base64, by row, within `budget` bytes.

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
    pilot = [image for image in pictures(wanted[:PILOT]) if image]
    if not pilot:
        return {}
    for side, quality in SIZES:
        each = 4 / 3 * float(np.mean([len(thumbnail(image, side, quality)) for image in pilot])) + 4
        if each * len(wanted) <= budget:
            break
    rows = np.concatenate([wanted, more]).astype(np.int64)[: int(budget / each) + PILOT]
    place = np.empty(len(reading_order), dtype=np.int64)
    place[reading_order] = np.arange(len(reading_order))
    in_order = rows[np.argsort(place[rows], kind="stable")]
    encoded: dict[int, bytes] = {}
    for start in range(0, len(in_order), CHUNK):
        part = in_order[start : start + CHUNK]
        made = zip(part.tolist(), pictures(part), strict=True)
        encoded.update((row, thumbnail(image, side, quality)) for row, image in made if image)
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
