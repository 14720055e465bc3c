"""Archives of arrays (.npz): read with one sentence for what is wrong, written whole or not at all."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ltgcd.common.checksums import BLANK, BYTES, seal_bytes
from ltgcd.common.errors import InputError
from ltgcd.common.files import atomic_path
from ltgcd.common.progress import progress
from ltgcd.data.regular_files import check_regular


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an archive, none of which may hold Python objects."""
    check_regular(path)
    try:
        with (
            progress(f"reading {path.name} (MB)", path.stat().st_size >> 20) as advance,
            _Counted(path, advance) as file,
        ):
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise ValueError("one array, not an archive")
            with archive:
                # Taken out once: every access to a member of the archive reads it again.
                arrays = {name: archive[name] for name in archive.files}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError("a member that is no array")
    except MemoryError as error:
        raise InputError(f"{path} does not fit into memory ({error}); split it, or check that it is whole.") from error
    except Exception as error:  # broken bytes raise whatever numpy stumbles over, down to an error of Python's tokens
        raise InputError(
            f"{path} can't be read as an .npz of plain arrays (it may be truncated or hold Python objects); "
            "save it again with np.savez(path, x=..., y=...)."
        ) from error
    return arrays


def write_npz(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write what `np.savez` would, but atomically, the same bytes for the same arrays, with a checksum of them."""
    with atomic_path(path) as temporary:
        size = sum(array.nbytes for array in arrays.values()) >> 20
        with (
            progress(f"writing {path.name} (MB)", size) as advance,
            _Counted(temporary, advance, "w+b") as file,
            zipfile.ZipFile(file, "w", allowZip64=True) as archive,
        ):
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    npy.write_array(member, array, allow_pickle=False)
            archive.comment = BYTES + BLANK
        seal_bytes(temporary)


class _Counted(io.FileIO):
    """A file that says how many more MB were read from it, or written to it."""

    def __init__(self, path: Path, advance: Callable[[int], None], mode: str = "rb") -> None:
        super().__init__(path, mode)
        self._advance, self._bytes, self._said = advance, 0, 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as any file does, and count."""
        block = super().read(-1 if size is None else size)
        self._count(len(block))
        return block

    def write(self, block: Any, /) -> int:  # noqa: ANN401 - bytes, or what numpy has for them
        """Write all of it, and count."""
        view = memoryview(block).cast("B")
        done = 0
        while done < len(view):  # the system takes no more than 2 GB at once
            done += super().write(view[done:])
        self._count(done)
        return done

    def _count(self, n: int) -> None:
        self._bytes += n
        if more := (self._bytes >> 20) - self._said:
            self._said += more
            self._advance(more)
