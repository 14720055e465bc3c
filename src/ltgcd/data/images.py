"""What concerns one image file: is it one, its pixels, its size, its usual ending. Needs Pillow, not torch."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

from ltgcd.common.errors import InputError

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".jp2"})

# Pillow's own refusal: about 0.7 GB once decoded.
MAX_PIXELS = 178_956_970

_CURE = "replace the file or take it out of the collection"
_NO_RANGE = ", which have no agreed range of brightness; save it with 8 or 16 bits."
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_UNREADABLE = (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError)


def is_image_name(name: str) -> bool:
    """Whether a file's name ends like that of an image; hidden files don't count."""
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES  # noqa: PTH122


def decode(blob: bytes) -> Image.Image:
    """Decode an image file to RGB, upright, over white.

    Differs from ``PIL.Image.open(…).convert("RGB")`` where that shows something else than a viewer does: the
    EXIF orientation is honoured, transparency is laid over white, and 16-bit grey keeps its upper 8 bits instead
    of being clipped. Of an animation the first frame counts.

    Parameters
    ----------
    blob : bytes
        The content of the file, in any format that Pillow reads.

    Returns
    -------
    PIL.Image.Image
        In mode RGB.

    Raises
    ------
    InputError
        If the bytes are no image, are cut short, hold more than `MAX_PIXELS` pixels, or have no agreed range
        of brightness (floating point, 32-bit integers).
    """
    if not blob:
        raise InputError(f"The image file is empty or can't be opened; {_CURE}.")
    try:
        file = Image.open(io.BytesIO(blob))
        if file.width * file.height > MAX_PIXELS:
            raise Image.DecompressionBombError
        file.load()
        return _rgb(_upright(file))
    except InputError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        limit = MAX_PIXELS // 10**6
        raise InputError(f"The image has more than {limit} million pixels; make it smaller.") from error
    except UnidentifiedImageError as error:
        raise InputError(f"The file is not an image that Pillow can read; {_CURE}.") from error
    except Exception as error:  # a decoder that is fed broken bytes may raise anything
        reason = str(error) or type(error).__name__
        raise InputError(f"The image cannot be decoded, {reason}; {_CURE}.") from error


def _upright(image: Image.Image) -> Image.Image:
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation)
    except Exception:  # damaged metadata beside good pixels
        return image
    return image.transpose(_UPRIGHT[orientation]) if orientation in _UPRIGHT else image


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F":
        raise InputError(f"The image holds floating-point values{_NO_RANGE}")
    if image.mode.startswith("I"):
        values = np.asarray(image)
        if int(values.min()) < 0 or int(values.max()) > 0xFFFF:
            raise InputError(f"The image holds 32-bit values{_NO_RANGE}")
        return Image.fromarray((values >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in {"RGBA", "RGBa", "LA", "La", "PA"} or "transparency" in image.info:
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
    return image.convert("RGB")


def image_ending(blob: bytes) -> str:
    """The usual file ending of an encoded image; ``.bin`` where Pillow does not know it."""
    try:
        with Image.open(io.BytesIO(blob)) as image:
            form = (image.format or "bin").lower()
    except _UNREADABLE:
        return ".bin"
    return {"jpeg": ".jpg", "tiff": ".tif", "mpo": ".jpg"}.get(form, f".{form}")


def image_size(path: Path) -> tuple[int, int]:
    """Width and height of an image file from its header; 0, 0 where it can't be told."""
    try:
        with Image.open(path) as image:
            return image.size
    except _UNREADABLE:
        return 0, 0
