"""From the bytes of an image file to the rows of a batch: the transforms of GCD and SimGCD, seeded.

View 0 of an item is the test view (resize the shorter side, centre crop), views 1, 2, … are training views
(resize, random crop, horizontal flip). The published pipeline also calls ColorJitter with its default
arguments, which does nothing; it is left out. The sizes follow torchvision's conventions to the pixel.

Where a crop lies and whether it is mirrored is read off a hash of (seed, item id, view), not drawn from a
generator: view v of an item is the same on every run, whatever else the collection holds, in whatever order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from ltgcd.common.errors import InputError
from ltgcd.data.images import decode

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

# Raise it whenever the same file would give other pixels than before: it is part of every cache key.
ALGORITHM = 1

# Above this an image is so long and thin that its crops are computed one by one (see `Preprocessing.views`).
MAX_RESIZED_PIXELS = 1 << 24


@dataclass(frozen=True)
class Preprocessing:
    """How an image becomes a row of a batch.

    Attributes
    ----------
    image_size : int
        Height and width of a view, in pixels.
    crop_pct : float
        Side of the crop as a share of the shorter side after resizing: 224 of 256 by default.
    mean, std : tuple of float
        Per-channel normalisation, on the scale 0 to 1. ImageNet's by default.
    seed : int
        Decides the crops and flips of the training views.
    """

    image_size: int = 224
    crop_pct: float = 0.875
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    seed: int = 0

    def __post_init__(self) -> None:
        if self.image_size < 1:
            raise InputError(f"image_size is {self.image_size}; it must be at least 1 pixel.")
        if not 0 < self.crop_pct <= 1:
            raise InputError(f"crop_pct is {self.crop_pct}; it must lie above 0 and not above 1.")

    @property
    def resize(self) -> int:
        """Length of the shorter side after resizing, in pixels."""
        return int(self.image_size / self.crop_pct)

    @property
    def fingerprint(self) -> str:
        """Everything here that decides the values of a batch: the preprocessing's part of a cache key.

        Pillow's version is not in it: a new one may round a pixel differently, and that is no reason to embed
        a collection again.
        """
        mean, std = (",".join(repr(float(value)) for value in values) for values in (self.mean, self.std))
        return (
            f"views-{ALGORITHM} bicubic resize={self.resize} crop={self.image_size} mean={mean} std={std} "
            f"seed={self.seed}"
        )

    def resized(self, width: int, height: int) -> tuple[int, int]:
        """Width and height after resizing the shorter side; the longer one is rounded down."""
        if width <= height:
            return self.resize, int(self.resize * height / width)
        return int(self.resize * width / height), self.resize

    def window(self, width: int, height: int, item_id: str, view: int) -> tuple[int, int, bool]:
        """Left edge, top edge and mirroring of a view in the resized image of `width` × `height` pixels."""
        left, top = width - self.image_size, height - self.image_size
        if view == 0:
            return round(left / 2), round(top / 2), False
        key = f"{ALGORITHM}|{self.seed}|{view}|{item_id}".encode(errors="surrogatepass")
        digest = hashlib.blake2b(key, digest_size=24).digest()
        x, y, mirror = (int.from_bytes(digest[i : i + 8], "little") for i in (0, 8, 16))
        return x * (left + 1) >> 64, y * (top + 1) >> 64, bool(mirror >> 63)

    def views(self, blob: bytes, item_id: str, n_views: int) -> NDArray[np.uint8]:
        """Decode and resize an image once, and cut all its views out of it.

        An image so long and thin that its resized form would fill the memory is resized within each crop
        instead, from the same source pixels with the same filter; the rounding may differ by a grey level.

        Parameters
        ----------
        blob : bytes
            The content of the image file.
        item_id : str
            Identity of the item; decides the training views together with `seed`.
        n_views : int
            Number V of training views.

        Returns
        -------
        ndarray of uint8, shape (1 + V, image_size, image_size, 3)
            The test view, then the training views.

        Raises
        ------
        InputError
            If the image cannot be used; see `decode`.
        """
        image = decode(blob)
        size = self.image_size
        width, height = self.resized(*image.size)
        whole = None
        if width * height <= MAX_RESIZED_PIXELS:
            whole = np.asarray(image.resize((width, height), Image.Resampling.BICUBIC))
        out = np.empty((1 + n_views, size, size, 3), np.uint8)
        for view in range(1 + n_views):
            left, top, mirror = self.window(width, height, item_id, view)
            if whole is not None:
                crop = whole[top : top + size, left : left + size]
            else:
                crop = self._resized_crop(image, width, height, left, top)
            out[view] = crop[:, ::-1] if mirror else crop
        return out

    def _resized_crop(self, image: Image.Image, width: int, height: int, left: int, top: int) -> NDArray[np.uint8]:
        size = self.image_size
        x, y = image.width / width, image.height / height
        right = min((left + size) * x, image.width)
        bottom = min((top + size) * y, image.height)
        box = (left * x, top * y, right, bottom)
        return np.asarray(image.resize((size, size), Image.Resampling.BICUBIC, box=box))

    def load_views(
        self, blobs: Sequence[bytes], ids: Sequence[str], n_views: int, pool: ThreadPoolExecutor | None = None
    ) -> tuple[NDArray[np.uint8], list[tuple[int, str]]]:
        """All views of a batch of images; unusable images are reported, not raised.

        Parameters
        ----------
        blobs : sequence of B bytes
            The contents of the image files.
        ids : sequence of B str
            Identities of the items.
        n_views : int
            Number V of training views.
        pool : ThreadPoolExecutor, optional
            Threads that share the work: Pillow decodes and resizes outside the interpreter lock.

        Returns
        -------
        views : ndarray of uint8, shape (B, 1 + V, image_size, image_size, 3)
            Rows of unusable images are zero.
        failures : list of (int, str)
            Position and reason, one sentence, of every unusable image, in order.
        """
        size = self.image_size
        out = np.zeros((len(blobs), 1 + n_views, size, size, 3), np.uint8)

        def fill(row: int) -> str | None:
            try:
                out[row] = self.views(blobs[row], ids[row], n_views)
            except InputError as error:
                return str(error)
            return None

        rows = range(len(blobs))
        reasons = map(fill, rows) if pool is None else pool.map(fill, rows)
        return out, [(row, reason) for row, reason in enumerate(reasons) if reason is not None]

    def to_batch(self, views: NDArray[np.uint8]) -> torch.Tensor:
        """Normalise views for a trunk.

        Parameters
        ----------
        views : ndarray of uint8, shape (B, H, W, 3)
            Views as `views` cuts them.

        Returns
        -------
        torch.Tensor of float32, shape (B, 3, H, W)
            In memory the channels stay last, which convolutions on a CPU prefer.
        """
        mean, std = (torch.tensor(values, dtype=torch.float32).view(3, 1, 1) for values in (self.mean, self.std))
        batch = torch.from_numpy(np.ascontiguousarray(views)).permute(0, 3, 1, 2).float()
        return batch.div_(255).sub_(mean).div_(std)
