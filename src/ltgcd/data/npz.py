"""Archives of arrays (.npz): read with one sentence for what is wrong, written whole or not at all."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ltgcd.common.checksums import BLANK, BYTES, seal_bytes
from ltgcd.common.errors import InputError
from ltgcd.common.files import atomic_path
from ltgcd.data.regular_files import check_regular


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an archive, none of which may hold Python objects."""
    check_regular(path)
    try:
        archive = np.load(path, allow_pickle=False)
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
        with zipfile.ZipFile(temporary, "w", allowZip64=True) as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    npy.write_array(member, array, allow_pickle=False)
            archive.comment = BYTES + BLANK
        seal_bytes(temporary)
