"""Only regular files are read: a pipe or a device named like an image or a table would make us wait for ever."""

from __future__ import annotations

import os
from pathlib import Path

from ltgcd.common.errors import InputError


def is_regular(path: Path | str) -> bool:
    """Whether there is a file of that name, itself or behind a link, that can be read to its end."""
    return os.path.isfile(path)  # noqa: PTH113 - pathlib raises where a name is too long


def check_regular(path: Path) -> None:
    """Refuse a pipe, a socket or a device; what is not there is left to whoever opens it."""
    if os.path.exists(path) and not os.path.isdir(path) and not is_regular(path):  # noqa: PTH110, PTH112 - as above
        raise InputError(f"{path} is a pipe, a socket or a device; save its content as a file and give that.")


def read_bytes(path: Path) -> bytes:
    """Content of a file; ``b""``, which no decoder accepts, where it can't be read."""
    try:
        return path.read_bytes() if is_regular(path) else b""
    except OSError:
        return b""
