"""Which of several processes this is, where ``torchrun`` or Ray Train started them; read from the environment alone."""

from __future__ import annotations

import os


def rank_and_size() -> tuple[int, int]:
    """Number of this process and how many there are; (0, 1) unless ``torchrun`` or Ray Train started it.

    Schedulers and other tools set a RANK too, so that one variable alone says nothing.
    """
    try:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return 0, 1
    return (rank, size) if "MASTER_ADDR" in os.environ and 0 <= rank < size else (0, 1)


def is_first_process() -> bool:
    """Whether this process is the one that writes files and talks."""
    return rank_and_size()[0] == 0
