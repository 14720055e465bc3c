"""Blocks of the rows of some arrays: computed by threads of this process, or by others that share its work.

Who shares it is said once, around everything (`shared`), as the number of threads is: what computes neighbours need not
know whether it runs on one machine or on a cluster. A block depends on the arrays and on its own rows alone, so that it
does not matter who computes it.

What others compute goes through a folder that all of them see: the arrays, which they map into memory, and a file for
each finished block. A call that was stopped finds them again, for the folder is named by a checksum of the arrays.
"""

from __future__ import annotations

import hashlib
import pickle
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.engine.ray_cluster import check_cluster, joined
from ltgcd.common.engine.shards import map_shards
from ltgcd.common.files import atomic_path
from ltgcd.common.progress import progress

Arrays = Mapping[str, NDArray[Any]]
Found = tuple[NDArray[Any], ...]  # what is computed of a block of rows, each (rows, …)
Block = tuple[int, int]  # its first row, and the one behind its last
Compute = Callable[[int, int], Found]
WORK = ".ltgcd-work-"  # how the folder of some work begins: whatever else is where we share through is somebody's


@dataclass(frozen=True)
class Sharing:
    """Who shares blocks of rows.

    Attributes
    ----------
    folder : path
        Where arrays and finished blocks are kept meanwhile, on storage that all of them see under this path.
    workers, cluster
        As `ltgcd.common.engine.shards.map_shards` takes them.
    notify : callable
        Told in a sentence what happens.
    """

    folder: Path
    workers: int | None = None
    cluster: str | None = None
    notify: Callable[[str], None] = lambda _message: None


_sharing: ContextVar[Sharing | None] = ContextVar("sharing", default=None)


@contextmanager
def shared(sharing: Sharing | None) -> Iterator[None]:
    """Let others share blocks of rows inside; None is this process alone."""
    token = _sharing.set(sharing)
    try:
        yield
    finally:
        _sharing.reset(token)


@contextmanager
def on_cluster(cluster: str | None, folder: Path, notify: Callable[[str], None]) -> Iterator[None]:
    """Let a Ray cluster share blocks of rows inside, through a folder; None is nobody.

    What is ours in the folder goes at the end. Stopped before, it stays: the same work finds in it what is finished.
    """
    if cluster is None:
        yield
        return
    # What Ray prints goes to stderr: stdout is for what the command says.
    with redirect_stdout(sys.stderr), joined(check_cluster(cluster)), shared(Sharing(folder, None, cluster, notify)):
        yield
    for path in ours_in(folder):
        shutil.rmtree(path, ignore_errors=True)


def ours_in(folder: Path) -> list[Path]:
    """What may be removed of a folder to share through: all of it or, where it holds something else, our part."""
    held = list(folder.iterdir()) if folder.is_dir() else []
    work = [path for path in held if path.name.startswith(WORK)]
    return [folder] if folder.is_dir() and not folder.is_symlink() and work == held else work


def by_rows(
    prepare: Callable[[Arrays], Compute], arrays: Arrays, n: int, step: int, title: str, threads: int = 1
) -> Iterator[tuple[slice, Found]]:
    """Compute ``prepare(arrays)(start, stop)`` for every block of `step` of n rows; gives each block with its rows.

    Parameters
    ----------
    prepare : callable
        A function of a module, or a `functools.partial` of one: it goes to others by pickle.
    arrays : dict of str to ndarray
        What it computes with.
    n, step : int
        Rows, and rows of a block.
    title : str
        What is done, for who watches.
    threads : int
        How many blocks this process does at a time, if nobody shares them.
    """
    blocks = [(start, min(start + step, n)) for start in range(0, n, step)]
    sharing = _sharing.get()
    if sharing is not None and len(blocks) > 1:
        yield from _by_others(prepare, arrays, blocks, title, sharing)
        return
    compute = prepare(arrays)
    with progress(title, n) as advance:
        if threads == 1:
            for start, stop in blocks:
                found = compute(start, stop)
                advance(stop - start)
                yield slice(start, stop), found
            return
        pool = ThreadPoolExecutor(threads)
        try:
            for (start, stop), found in zip(blocks, pool.map(lambda block: compute(*block), blocks), strict=True):
                advance(stop - start)
                yield slice(start, stop), found
        finally:
            pool.shutdown(cancel_futures=True)  # Ctrl-C waits for the blocks that were begun, and not for the others


def _by_others(
    prepare: Callable[[Arrays], Compute], arrays: Arrays, blocks: list[Block], title: str, sharing: Sharing
) -> Iterator[tuple[slice, Found]]:
    """Have others compute the blocks that nobody has finished, and read them all."""
    folder = sharing.folder.resolve() / f"{WORK}{_checksum(prepare, arrays, blocks)}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        if not (path := folder / f"{name}.npy").is_file():
            with atomic_path(path) as temporary, temporary.open("wb") as file:
                np.save(file, array)
    missing = [block for block in blocks if _read(_file(folder, block)) is None]
    with progress(title, sum(stop - start for start, stop in missing)) as advance:
        map_shards(
            partial(_worker, prepare, folder, tuple(arrays)),
            missing,
            sum(stop - start for start, stop in missing),
            workers=sharing.workers,
            cluster=sharing.cluster,
            advance=advance,
            notify=sharing.notify,
            foretell=lambda _items, _seconds: None,
        )
    for start, stop in blocks:
        found = _read(_file(folder, (start, stop)))
        if found is None:
            raise RuntimeError(f"{_file(folder, (start, stop))} is gone or damaged: storage that all see is needed.")
        yield slice(start, stop), found
    shutil.rmtree(folder, ignore_errors=True)


def _worker(
    prepare: Callable[[Arrays], Compute], folder: Path, names: tuple[str, ...]
) -> Callable[[Block, Callable[[int], None]], None]:
    compute = prepare({name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in names})

    def work(block: Block, advance: Callable[[int], None]) -> None:
        found = compute(*block)
        with atomic_path(_file(folder, block)) as temporary, temporary.open("wb") as file:
            np.savez(file, *found)
        advance(block[1] - block[0])

    return work


def _file(folder: Path, block: Block) -> Path:
    return folder / f"rows-{block[0]:010d}-{block[1]:010d}.npz"


def _read(path: Path) -> Found | None:
    """What was computed of a block; None if it is not there, or not whole."""
    try:
        with np.load(path) as held:
            found = tuple(held[f"arr_{number}"] for number in range(len(held.files)))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    start, stop = (int(part) for part in path.stem.split("-")[1:])
    return found if all(len(each) == stop - start for each in found) else None


def _checksum(prepare: Callable[[Arrays], Compute], arrays: Arrays, blocks: list[Block]) -> str:
    """A name for some work: what is computed, of which arrays, in which blocks."""
    digest = hashlib.sha256(pickle.dumps((prepare, blocks)))
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]
