"""Hostile images, and folders that hold them beside things that are no files at all."""

from __future__ import annotations

import io
import os
import random
import socket
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from .hostile_arrays import NAMES, NO_LABELS, flipped_bits


def picture(random: random.Random, mode: str = "RGB", size: tuple[int, int] = (24, 24)) -> Image.Image:
    """Noise in one of Pillow's modes."""
    state = np.random.RandomState(random.randrange(2**32))
    noise = Image.fromarray(state.randint(0, 256, (size[1], size[0], 3)).astype(np.uint8))
    if mode == "I;16":
        return Image.fromarray(state.randint(0, 2**16, (size[1], size[0])).astype(np.uint16))
    return noise.convert(mode)


def _saved(image: Image.Image, form: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def _bomb(width: int, height: int) -> bytes:
    """A PNG that claims to be huge."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"IDAT" + zlib.compress(b"\0" * 100)
    chunks = [struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in (head, data, b"IEND")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


BLOBS: dict[str, Callable[[random.Random], bytes]] = {
    "honest.png": lambda r: _saved(picture(r), "PNG"),
    "honest.jpg": lambda r: _saved(picture(r), "JPEG"),
    "empty.png": lambda r: b"",
    "text.png": lambda r: b"this is no image",
    "eps.png": lambda r: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(owned) (w) file\n%%EOF\n",
    "truncated.jpg": lambda r: _saved(picture(r), "JPEG")[: r.randint(10, 600)],
    "truncated.png": lambda r: _saved(picture(r), "PNG")[: r.randint(10, 1500)],
    "sixteen-bit.png": lambda r: _saved(picture(r, "I;16"), "PNG"),
    "animated.gif": lambda r: _saved(picture(r), "GIF", save_all=True, append_images=[picture(r) for _ in range(3)]),
    "animated.png": lambda r: _saved(picture(r), "PNG", save_all=True, append_images=[picture(r)]),
    "palette.png": lambda r: _saved(picture(r, "P"), "PNG", transparency=0),
    "one-bit.png": lambda r: _saved(picture(r, "1"), "PNG"),
    "grey-alpha.png": lambda r: _saved(picture(r, "LA"), "PNG"),
    "cmyk.jpg": lambda r: _saved(picture(r, "CMYK"), "JPEG"),
    "float.tif": lambda r: _saved(picture(r, "F"), "TIFF"),
    "pixel.png": lambda r: _saved(picture(r, size=(1, 1)), "PNG"),
    "line.png": lambda r: _saved(picture(r, size=(3000, 1)), "PNG"),
    "bomb.png": lambda r: _bomb(60000, 60000),
    "large-claim.png": lambda r: _bomb(12000, 12000),
    "zero-wide.png": lambda r: _bomb(0, 10),
    "exif.jpg": lambda r: _saved(picture(r), "JPEG", exif=b"Exif\0\0" + r.randbytes(60)),
    "webp.webp": lambda r: _saved(picture(r), "WEBP"),
    "bmp.bmp": lambda r: _saved(picture(r), "BMP"),
    "ico.png": lambda r: _saved(picture(r), "ICO"),
    "photo.jfif": lambda r: _saved(picture(r), "JPEG"),
    "photo.avif": lambda r: b"\0\0\0 ftypavif" + r.randbytes(100),
    "photo.heic": lambda r: b"\0\0\0 ftypheic" + r.randbytes(100),
    "drawing.svg": lambda r: b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "UPPER.PNG": lambda r: _saved(picture(r), "PNG"),
    ".hidden.png": lambda r: _saved(picture(r), "PNG"),
    "._resource.jpg": lambda r: b"\0\x05\x16\x07" + b"\0" * 60,
    "flipped.png": lambda r: flipped_bits(_saved(picture(r), "PNG"), r),
    "flipped.jpg": lambda r: flipped_bits(_saved(picture(r), "JPEG"), r),
}


def _special(random: random.Random, path: Path) -> None:
    """Something that is named like an image and is no file."""
    kind = random.choice(("fifo", "socket", "loop", "dangling", "zero", "folder", "cycle", "outside"))
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        here = os.open(path.parent, os.O_RDONLY)
        with socket.socket(socket.AF_UNIX) as made:  # its path must be short
            made.bind(f"/proc/self/fd/{here}/{path.name}")
        os.close(here)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(
            {
                "loop": path.name,
                "dangling": "not-there",
                "zero": "/dev/zero",
                "cycle": "..",
                "outside": "/etc/hostname",
            }[kind]
        )


def file_name(random: random.Random) -> bytes:
    """A name that a file system takes and few programs expect."""
    name = random.choice(NAMES).replace("/", "⁄").replace("\0", "")[:60] or "x"
    if random.random() < 0.2:
        return b"\xff\xfe" + str(random.randrange(100)).encode()
    return name.encode("utf-8", "surrogateescape" if "\udc80" in name else "replace")[:200]


def write_folder(random: random.Random, folder: Path) -> tuple[Path, str, str]:
    """A folder of images, some of them hostile."""
    root = folder / "photos"
    root.mkdir()
    what = []
    for name in ("cat", "dog", "unlabelled"):
        for i in range(random.choice((0, 2, 5))):
            _put(root / name / f"{name}-{i}.png", BLOBS["honest.png"](random))
    classes = [
        "cat",
        "dog",
        "unlabelled",
        "",
        *random.sample([n for n in NO_LABELS if n and "/" not in n], 1),
        "novel-001",
        "junk",
    ]
    for i in range(random.randint(0, 7)):
        blob = random.choice(list(BLOBS))
        at = root / random.choice(classes)
        if random.random() < 0.2:
            at = Path(os.fsdecode(os.fsencode(root) + b"/" + file_name(random)))
        at.mkdir(parents=True, exist_ok=True)
        ending = os.fsencode(Path(blob).suffix)
        name = file_name(random) + ending if random.random() < 0.2 else f"{i}-{blob}".encode()
        Path(os.fsdecode(os.fsencode(at) + b"/" + name)).write_bytes(BLOBS[blob](random))
        what.append(blob)
    if random.random() < 0.4:
        at = root / random.choice(("cat", ""))
        at.mkdir(parents=True, exist_ok=True)
        _special(random, at / f"special{random.choice(('.png', '.jpg', ''))}")
        what.append("special file")
    return root, f"folder with {', '.join(what) or 'nothing'}", "any"


def _put(path: Path, blob: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(blob)
