"""How many cores there are for us, and how many threads torch computes in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container on Linux: microseconds of computing in so many microseconds


def available_cores() -> int:
    """Cores that this process may use: those it is bound to, and no more than its container is given time for."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = (int(number) for number in _QUOTA.read_text(encoding="ascii").split())
    except (OSError, ValueError):  # no container, or one without a limit ("max 100000")
        return cores
    return max(1, min(cores, quota // period))


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
