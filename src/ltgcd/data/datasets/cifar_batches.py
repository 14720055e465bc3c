"""CIFAR's own files: the Python pickles and the binary records. The only images that are held in memory (150 MB)."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.data.datasets.base import Part, Pool
from ltgcd.data.datasets.layouts import folder_with, make_pool, numbered, read_text, unreadable
from ltgcd.data.items import RawImages

_PIXELS = 3 * 32 * 32  # all of red, then green, then blue, each by rows


@dataclass(frozen=True)
class CifarFiles:
    """Names in a release of CIFAR, and nothing else: `files` of a part, without the suffix of the binary version.

    `label_key`, `meta` and `names_key` belong to the pickles; `label_bytes` and `names_file` to the binary records,
    of which the last label byte is the class.
    """

    python_folder: str
    binary_folder: str
    files: Mapping[Part, tuple[str, ...]]
    label_key: str
    meta: str
    names_key: str
    label_bytes: int
    names_file: str

    def read_python(self, folder: Path, part: Part) -> Pool | None:
        """Pool from the pickles, or None where they are not there."""
        base = folder_with(folder, self.meta, self.python_folder)
        if base is None:
            return None
        batches = [_unpickle(base / file, "data", self.label_key) for file in self.files[part]]
        (names,) = _unpickle(base / self.meta, self.names_key)
        pixels = [np.asarray(data) for data, _ in batches]
        labels = [np.asarray(label) for _, label in batches]
        for file, data, label in zip(self.files[part], pixels, labels, strict=True):
            if data.dtype != np.uint8 or data.shape != (len(label), _PIXELS) or label.dtype.kind not in "iu":
                raise unreadable(base / file, "a batch of CIFAR")
        return _pool(np.concatenate(pixels), np.concatenate(labels), [str(name) for name in names], part, base)

    def read_binary(self, folder: Path, part: Part) -> Pool | None:
        """Pool from the binary records, or None where they are not there."""
        base = folder_with(folder, self.names_file, self.binary_folder)
        if base is None:
            return None
        width = self.label_bytes + _PIXELS
        records = np.concatenate([_records(base / f"{file}.bin", width) for file in self.files[part]])
        names = read_text(base / self.names_file).split()
        return _pool(records[:, self.label_bytes :], records[:, self.label_bytes - 1], names, part, base)


def _pool(pixels: NDArray[np.uint8], y: NDArray[np.integer], names: list[str], part: Part, base: Path) -> Pool:
    images = pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return make_pool(numbered(part, len(y)), RawImages(images), y, names, base)


def _records(path: Path, width: int) -> NDArray[np.uint8]:
    try:
        content = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise unreadable(path, "a binary batch of CIFAR") from error
    if len(content) == 0 or len(content) % width:
        raise InputError(f"{path} is no whole number of {width}-byte records (it may be cut off); unpack it again.")
    return content.reshape(-1, width)


class _PlainUnpickler(pickle.Unpickler):
    """Rebuilds NumPy arrays and plain containers. A pickle that names anything else could run code: refused."""

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - the base class's signature
        """Give the few functions that an array needs."""
        allowed = {
            ("multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
            ("_codecs", "encode"): _encode_latin1,
        }
        # Old files say numpy.core.multiarray, new ones numpy._core.multiarray.
        short = "multiarray" if module in {"numpy.core.multiarray", "numpy._core.multiarray"} else module
        if (short, name) not in allowed:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        return allowed[short, name]


def _encode_latin1(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"encoding {encoding} is not allowed")
    return text.encode("latin1")


def _unpickle(path: Path, *keys: str) -> list[Any]:
    """Some values of the dict in a pickle; its keys are str, or bytes if a newer Python wrote it from the old."""
    try:
        with path.open("rb") as file:
            content = _PlainUnpickler(file, encoding="latin1").load()
        plain = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in content.items()}
        return [plain[key] for key in keys]
    # A damaged pickle may raise nearly anything; whatever it is, the file is not what it should be.
    except Exception as error:
        raise unreadable(path, "a pickle of CIFAR") from error
