"""How many cores there are for us, and how many threads torch and NumPy compute in."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController

is_one_of_many = False  # a worker process, which computes in one thread beside others
_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container on Linux: microseconds of computing in so many microseconds


def available_cores() -> int:
    """Cores that this process may use: those it is bound to, and no more than its container is given time for.

    A worker process may use one: there is another worker for each of the others.
    """
    if is_one_of_many:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, _cores_of_container(_QUOTA) or cores))


@cache
def _cores_of_container(limit: Path) -> int | None:
    """Cores that a container is given time for, at least one; None without a limit. Read once: it stays."""
    try:
        quota, period = (int(number) for number in limit.read_text(encoding="ascii").split())
    except (OSError, ValueError):  # no container, or one without a limit ("max 100000")
        return None
    return max(1, quota // period)


@contextmanager
def torch_threads(n: int | None) -> Iterator[None]:
    """Let torch compute in `n` threads inside, and in as many as before afterwards; None changes nothing.

    A sum that several threads share depends on how many they are, in its last bits.
    """
    import torch  # noqa: PLC0415 - seconds, and work without it need not wait for it

    before = torch.get_num_threads()
    torch.set_num_threads(n or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_entering = threading.Lock()
_inside = 0  # how many are inside of `numpy_in_one_thread`
_before: list[tuple[Any, int]] = []  # libraries with the threads that they had before the first one came in
_found: tuple[int, list[Any]] = (0, [])  # the libraries, and how many modules there were when they were looked for


@contextmanager
def numpy_in_one_thread() -> Iterator[None]:
    """Let NumPy and SciPy multiply and decompose matrices in one thread inside; also a decorator.

    OpenBLAS cuts a matrix product into as many parts as it has threads, and at the edges of a part it adds up in
    another order: the same product has other last bits on two cores than on one, and a label that hangs on a tie can
    change. FAISS brings a BLAS of its own, whose threads stay: it only proposes neighbours (`ltgcd.graph.knn`).

    May be entered again inside, and by several threads at once: the first one in sets the limit for the process, the
    last one out takes it back.
    """
    global _inside  # noqa: PLW0603 - the libraries' threads are the process's, too
    with _entering:
        if not _inside:
            _before[:] = [(each, each.num_threads) for each in _libraries()]
            for library, _ in _before:
                _set_threads(library, 1)
        _inside += 1
    try:
        yield
    finally:
        with _entering:
            _inside -= 1
            if not _inside:
                for library, n in _before:
                    _set_threads(library, n)


def _libraries() -> list[Any]:
    """Each BLAS of this process but that of FAISS; looked for again, for 5 ms, when a module was imported since."""
    global _found  # noqa: PLW0603
    if _found[0] != len(sys.modules):
        blas = ThreadpoolController().select(user_api="blas").lib_controllers
        _found = len(sys.modules), [each for each in blas if "faiss" not in each.filepath]
    return _found[1]


def _set_threads(library: Any, n: int) -> None:  # noqa: ANN401 - a controller of threadpoolctl
    """Set it from whatever thread this is: newer threadpoolctl listens to the first one that ever did, and no other."""
    release = getattr(library, "clear_controlling_thread", lambda: None)
    release()
    library.set_num_threads(n)
    release()
