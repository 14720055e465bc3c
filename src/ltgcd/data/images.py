"""What concerns one image file: is it one, its pixels, its size, its usual ending. Needs Pillow, not torch."""

from __future__ import annotations

import io
import os
import warnings
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError, features

from ltgcd.common.errors import InputError

# The formats that are read, as Pillow calls them, and the endings of their files. Never all that Pillow knows: an EPS
# file starts Ghostscript, whatever it is called, and others are read by code that nobody looks after.
FORMATS = ("JPEG", "PNG", "BMP", "DIB", "GIF", "WEBP", "TIFF", "PPM", "JPEG2000", "AVIF")
IMAGE_SUFFIXES = frozenset(
    [".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff"]
    + [".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k"]
    + ([".avif"] if features.check("avif") else [])
)
# Other images, that a user may think are read.
UNREAD_SUFFIXES = (
    frozenset([".heic", ".heif", ".svg", ".jxl", ".psd", ".eps", ".ico", ".tga", ".exr", ".hdr", ".avif"])
    | frozenset([".raw", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".raf"])
) - IMAGE_SUFFIXES

# Pillow's own refusal: about 0.7 GB once decoded.
MAX_PIXELS = 178_956_970
# From half of that on, Pillow warns; we have a limit and a sentence of our own. For the whole process, because images
# are decoded in threads, and what one of them silences for a while the others would turn on again.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)

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
    return not name.startswith(".") and image_suffix(name) in IMAGE_SUFFIXES


def is_unread_image_name(name: str) -> bool:
    """Whether a file's name ends like that of an image in a format that is not read."""
    return not name.startswith(".") and image_suffix(name) in UNREAD_SUFFIXES


def image_suffix(name: str) -> str:
    """Ending of a file's name in lower case, with its dot."""
    return os.path.splitext(name)[1].lower()  # noqa: PTH122


def decode(blob: bytes) -> Image.Image:
    """Decode an image file to RGB, upright, over white.

    Differs from ``PIL.Image.open(…).convert("RGB")`` where that shows something else than a viewer does: the
    EXIF orientation is honoured, transparency is laid over white, and 16-bit grey keeps its upper 8 bits instead
    of being clipped. Of an animation the first frame counts.

    Parameters
    ----------
    blob : bytes
        The content of the file, in one of `FORMATS`.

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
        file = Image.open(io.BytesIO(blob), formats=FORMATS)
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
        raise InputError(
            f"The file is no image of a format that is read (JPEG, PNG, WebP, TIFF, GIF, BMP and the like); {_CURE}."
        ) from error
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
        with Image.open(io.BytesIO(blob), formats=FORMATS) as image:
            form = (image.format or "bin").lower()
    except _UNREADABLE:
        return ".bin"
    return {"jpeg": ".jpg", "tiff": ".tif", "mpo": ".jpg", "jpeg2000": ".jp2", "dib": ".bmp"}.get(form, f".{form}")


def image_size(path: Path) -> tuple[int, int]:
    """Width and height of an image file from its header; 0, 0 where it can't be told."""
    try:
        with Image.open(path, formats=FORMATS) as image:
            return image.size
    except _UNREADABLE:
        return 0, 0
