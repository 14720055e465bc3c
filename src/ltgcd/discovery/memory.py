"""How much memory a discovery takes, told before it starts (docs/scale.md has the measurements behind it)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ltgcd.class_number.sampled import sample_size
from ltgcd.common.engine.threads import available_cores
from ltgcd.common.errors import InputError
from ltgcd.common.tables import WHOLE
from ltgcd.discovery.rehearsal import FEWEST, ITEMS
from ltgcd.graph.whitening import DIMENSIONS

PROGRAM = 1300 << 20  # bytes of Python, torch and blocks of fixed size: what 62,500 items took beyond the rest
LABELLING_PROGRAM = 700 << 20  # of Python and torch, and the blocks that each core labels
SHOWING = 1500  # bytes an item: whitened features, components for the map, labels
MAPPED = 200_000  # items whose features the map copies (`ltgcd.output.report.layout.FITTED`)
NEIGHBOURS = 800  # bytes an item: candidates and neighbours of the largest graphs
PROCESS = 450 << 20  # bytes of Python and torch in a process that rehearses
UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_LIMIT = Path("/sys/fs/cgroup/memory.max")
_MEMORY = Path("/proc/meminfo")


def needed_memory(n: int, dim: int, k: int | None = None) -> int:
    """Bytes that `discover` takes at most, about, with n items of `dim` numbers and k classes.

    The features as they were given and in the order of their content, 8 N D; whitened and trained, 8 N d; a search for
    neighbours, which copies what it searches twice, 8 N d; graphs; and what is kept of the classes of all items.
    """
    d = min(dim, DIMENSIONS)
    classes = min(4 * n * (k or 1000), 4 * WHOLE)
    return PROGRAM + 8 * n * dim + 16 * n * d + NEIGHBOURS * n + classes


def labelling_memory(n: int, dim: int, _k: int | None = None) -> int:
    """Bytes that `predict` takes at most, about: the features as they are given and as float32, and blocks of them."""
    return LABELLING_PROGRAM + 8 * n * dim


class Work(NamedTuple):
    """Something that takes memory.

    Attributes
    ----------
    needed : callable
        Bytes that it takes with n items of so many numbers and k classes, or None where nobody knows how many.
    rest : str
        What can be done with the items that don't fit.
    """

    needed: Callable[[int, int, int | None], int]
    rest: str


def discovering(fit_on: int | None, *, again: bool = False) -> Work:
    """A discovery whose fit is on all items or on so many, from nothing or `again` for a run."""

    def needed(n: int, dim: int, k: int | None) -> int:
        if fit_on is None or fit_on >= n:
            return needed_memory(n, dim, k)
        # All features, and beside them the fit of a part, or what the page and the proposed names need of all items.
        return 4 * n * dim + max(needed_memory(fit_on, dim, k), PROGRAM + 8 * min(n, MAPPED) * dim + SHOWING * n)

    on_less = "learn from as many with --fit-on" if fit_on is None else "fit on fewer"
    return Work(needed, "take a machine with more" if again else f"{on_less}, or take a machine with more")


DISCOVERING = discovering(None)
LABELLING = Work(labelling_memory, "give them in several parts, or take a machine with more")


def estimating(sample: int | None) -> Work:
    """The class number, on all items or on samples of so many (`ltgcd.class_number.sampled`)."""

    def needed(n: int, dim: int, k: int | None) -> int:
        size = sample_size(n, sample)
        return needed_memory(n, dim, k) if size is None else needed_memory(size, dim, k) + 4 * n * dim

    on_less = "estimate it on samples of as many with --sample" if sample is None else "take smaller samples"
    return Work(needed, f"{on_less}, or take a machine with more")


def items_that_fit(memory: int, dim: int, k: int | None = None, work: Work = DISCOVERING) -> int:
    """How many items of `dim` numbers a memory of so many bytes is enough for."""
    low, high = 0, 2**40
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if work.needed(middle, dim, k) <= memory else (low, middle)
    return low


def processes_that_fit(
    n: int, dim: int, k: int | None = None, allowed: str | None = None, most: int | None = None
) -> int:
    """How many processes may rehearse side by side: `most`, by default one a core, or those that there is memory for.

    Each gets the features of its items, which are there twice while they arrive, and does a fit of them; this process
    holds its own and what it sends.
    """
    cores = most or available_cores()
    memory = bytes_of(allowed) if allowed is not None else free_memory()
    if memory is None:
        return cores
    held = PROGRAM + 8 * n * dim if allowed is not None else 4 * n * dim  # what is free counts the features already
    d, m = min(dim, DIMENSIONS), min(n, max(ITEMS, FEWEST * (k or 1000)))
    each = PROCESS + 8 * m * dim + 24 * m * d + NEIGHBOURS * m + min(4 * m * (k or 1000), 4 * WHOLE)
    return max(1, min(cores, (memory - held - 8 * m * (dim + d)) // each))


def free_memory() -> int | None:
    """Bytes that this process can still have; None where the system does not say."""
    found = []
    for path, pattern, unit in ((_MEMORY, r"MemAvailable:\s+(\d+) kB", 1024), (_LIMIT, r"^(\d+)$", 1)):
        try:
            match = re.search(pattern, path.read_text(encoding="ascii"))
        except OSError:
            continue
        if match:
            found.append(int(match[1]) * unit)
    return min(found, default=None)


def bytes_of(text: str) -> int:
    """A memory as a person types it (12G, 800M), in bytes."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower())
    if not match:
        raise InputError(f"'{text}' is no amount of memory; write it as in 12G or 800M.")
    return int(float(match[1]) * UNITS[match[2]])


def gibibytes(n: int) -> str:
    """Bytes for people."""
    return f"{n / 2**30:.1f} GiB"


def memory_sentence(n: int, dim: int, k: int | None, memory: int, work: Work = DISCOVERING) -> str | None:
    """Why n items of `dim` numbers don't fit into so many bytes, and what would; None if they do."""
    needed = work.needed(n, dim, k)
    if needed <= memory:
        return None
    fit = items_that_fit(memory, dim, k, work) // 1000 * 1000
    others = f"about {fit:,} of the items would fit" if fit else "not even a thousand of the items would fit"
    return (
        f"{n:,} items of {dim} numbers take about {gibibytes(needed)} of memory, and there are {gibibytes(memory)}: "
        f"{others}; {work.rest}"
    )


def check_memory(
    n: int,
    dim: int,
    k: int | None,
    allowed: str | None,
    notify: Callable[[str], None],
    *,
    work: Work = DISCOVERING,
    held: bool = True,
) -> None:
    """Refuse what does not fit into the memory that a person allows; say what does not fit into what is free.

    `held` says whether the features are in memory already, so that what is free need not hold them too.
    """
    if allowed is not None:
        if sentence := memory_sentence(n, dim, k, bytes_of(allowed), work):
            raise InputError(f"{sentence}.")
        return
    free = free_memory()
    if free is not None and (sentence := memory_sentence(n, dim, k, free + (4 * n * dim if held else 0), work)):
        notify(f"careful: {sentence}")
