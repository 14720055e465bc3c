"""Draw trials from a seed, do them in parallel workers, and tell what was tried and what broke."""

from __future__ import annotations

import collections
import multiprocessing
import os
import random
import re
import shutil
import subprocess
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import damage, hostile, kills, pairs, sequences, server
from .commands import prepare
from .problems import World
from .promise import OTHER, SORTS, Broken

Trial = Callable[[random.Random, Path, World], int]  # returns how many it tried: kills, sources, files, pairs, commands
# The share of trials of each kind; the numbers make an hour give what issue 17 asks for.
KINDS: dict[str, tuple[Trial, float]] = {
    "kill": (kills.trial, 2.5),
    "source": (hostile.trial, 14),
    "damage": (damage.trial, 4.0),
    "pair": (pairs.trial, 1.8),
    "sequence": (sequences.trial, 0.2),
    "server": (server.trial, 0.15),
}
TRIED = {
    "kill": "kills",
    "source": "hostile sources",
    "damage": "damaged files",
    "pair": "concurrent pairs",
    "sequence": "commands in sequences",
    "server": "kills of a review server",
}
TELL = 300.0  # seconds between two lines on how far it is


@dataclass
class Failure:
    """A trial that broke a promise, and how it is done again."""

    kind: str
    seed: int
    sort: str
    what: str

    @property
    def command(self) -> str:
        return f"python -m tests.torture --repeat {self.kind} {self.seed}"

    @property
    def cause(self) -> str:
        """What failures with one cause have in common: the last line of a traceback, or the text without its names."""
        lines = [line for line in self.what.strip().splitlines() if line.strip()]
        where = [line.strip() for line in lines if re.match(r'\s+File ".*/ltgcd/', line)]
        error = [line for line in lines if re.match(r"[\w.]+(: |$)", line)]
        text = f"{where[-1]}: {error[-1] if error else lines[-1]}" if where else re.sub(r" \[.*", "", lines[0])
        text = re.sub(r"(\w*Warning:).*", r"\1", text)
        return f"{self.sort}: " + _visible(re.sub(r"\d+|'[^']*'", "#", text))[:160]


@dataclass
class Found:
    """What was tried and what broke."""

    seconds: float = 0.0
    trials: collections.Counter[str] = field(default_factory=collections.Counter)
    tried: collections.Counter[str] = field(default_factory=collections.Counter)
    busy: collections.Counter[str] = field(default_factory=collections.Counter)
    failures: list[Failure] = field(default_factory=list)


def one(kind: str, seed: int, folder: Path, world: World) -> tuple[int, Failure | None]:
    """Do one trial in a fresh folder; kind and seed decide all that is drawn."""
    folder.mkdir(parents=True)
    try:
        return KINDS[kind][0](random.Random(f"{kind} {seed}"), folder / "case", world), None
    except Broken as error:
        return 1, Failure(kind, seed, error.sort, error.what)
    except Exception as error:  # an error of the trial itself must not pass for a promise kept
        return 1, Failure(kind, seed, OTHER, f"the trial itself failed: {error!r}\n{traceback.format_exc()}")


def run_for(
    seconds: float, seed: int, workers: int, kinds: list[str], failures: Path | None = None, most: int | None = None
) -> Found:
    """Do trials for so many seconds in some worker processes, or `most` of each kind (of the long ones: one)."""
    found, started = Found(), time.perf_counter()
    with _scratch() as folder:
        context = multiprocessing.get_context("spawn")
        results = context.Queue()
        until = time.time() + seconds
        arguments = [(seed, i, workers, kinds, until, most, folder / str(i), results) for i in range(workers)]
        processes = [context.Process(target=_work, args=each) for each in arguments]
        for process in processes:
            process.start()
        left, told = workers, started
        while left:
            kind, tried, took, failure = results.get()
            if time.perf_counter() - told > TELL:
                told = time.perf_counter()
                counts = ", ".join(f"{found.tried[kind]:,} {what}" for kind, what in TRIED.items())
                print(f"{(told - started) / 60:.0f} minutes: {counts}; {len(found.failures)} failures", flush=True)
            if kind is None:
                left -= 1
                continue
            found.trials[kind] += 1
            found.tried[kind] += tried
            found.busy[kind] += took
            if failure:
                found.failures.append(failure)
                print(f"FAILED {failure.command}\n    {failure.cause}", flush=True)
                if failures:
                    failures.write_text(grouped(found.failures), errors="backslashreplace")
        for process in processes:
            process.join()
    found.seconds = time.perf_counter() - started
    return found


def _work(
    seed: int, number: int, workers: int, kinds: list[str], until: float, most: int | None, folder: Path, results: Any
) -> None:
    prepare()
    world = World(folder.parent / "world")  # the workers share it: what one has made, the others need not
    trial = seed * 1_000_000 + number
    parent = multiprocessing.parent_process()
    for kind in _kinds(seed, number, workers, kinds, most):
        if time.time() > until or (parent is not None and not parent.is_alive()):
            break
        started = time.perf_counter()
        tried, failure = one(kind, trial, folder / "trial", world)
        remove(folder / "trial")
        results.put((kind, tried, time.perf_counter() - started, failure))
        trial += workers
    results.put((None, 0, 0.0, None))


def _kinds(seed: int, number: int, workers: int, kinds: list[str], most: int | None) -> Iterator[str]:
    """The kinds of a worker's trials: without end by their shares, or its part of `most` of each."""
    if most is not None:
        plan = [kind for i in range(most) for kind in kinds if i == 0 or kind not in ("sequence", "server")]
        yield from plan[number::workers]
        return
    draw = random.Random(f"{seed} {number}")
    while True:
        yield draw.choices(kinds, [KINDS[kind][1] for kind in kinds])[0]


def repeat(kind: str, seed: int) -> int:
    """Do one trial again, say how it ended, and keep its folder to look at."""
    prepare()
    folder = Path(tempfile.mkdtemp(prefix="torture-"))
    tried, failure = one(kind, seed, folder / "trial", World(folder / "world", patient=True))
    print(f"{failure.sort}\n{failure.what}" if failure else f"The promise was kept ({tried} tried).")
    print(f"Its files are in {folder / 'trial'}.")
    return 1 if failure else 0


class _scratch:
    """A folder in memory where there is one (fsync is most of the time on a disk), removed at the end."""

    def __enter__(self) -> Path:
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="torture-", dir=memory if os.access(memory, os.W_OK) else None))
        return self.folder

    def __exit__(self, *_: object) -> None:
        remove(self.folder)


def remove(folder: Path) -> None:
    """Remove a folder that may hold folders which forbid it."""
    for at, folders, _ in os.walk(folder):
        for name in folders:
            path = Path(at, name)
            if not path.is_symlink():
                path.chmod(0o755)
    shutil.rmtree(folder, ignore_errors=True)


# ---------------------------------------------------------------- what is told


def heading(seed: int, minutes: float, workers: int) -> str:
    """Which trial a table is of: what was typed, on which commit, on what kind of machine."""
    root = Path(__file__).parents[2]
    command = ["git", "describe", "--always", "--dirty"]
    told = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout
    return (
        f"python -m tests.torture --minutes {minutes:g} --seed {seed} --workers {workers}\n"
        f"commit {told.strip() or 'unknown'}, {os.cpu_count()} cores, load {os.getloadavg()[2]:.1f} at its end.\n"
    )


def table(found: Found) -> str:
    """What was tried, what broke, and how to do each failure again."""
    minutes = found.seconds / 60
    head = [
        "kind",
        "trials",
        "tried",
        *[f"{sort}s" if sort in SORTS[:2] else sort for sort in SORTS],
        "s each",
        "60 min give",
    ]
    rows = [head]
    for kind, what in TRIED.items():
        if kind not in found.trials:
            continue
        broke = [sum(f.kind == kind and f.sort == sort for f in found.failures) for sort in SORTS]
        rate = f"{found.tried[kind] / minutes * 60:,.0f} {what}"
        each = f"{found.busy[kind] / max(found.tried[kind], 1):.2f}"
        rows.append([kind, f"{found.trials[kind]:,}", f"{found.tried[kind]:,} {what}", *map(str, broke), each, rate])
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    text = "\n".join(lines) + f"\n\n{minutes:.1f} minutes, {len(found.failures)} failures.\n"
    return text + ("\n" + grouped(found.failures) if found.failures else "")


def grouped(failures: list[Failure]) -> str:
    """Failures by cause, the most frequent first, each with the commands that repeat it."""
    causes: dict[str, list[Failure]] = collections.defaultdict(list)
    for failure in failures:
        causes[failure.cause].append(failure)
    return "\n".join(_lines(causes))


def _visible(text: str) -> str:
    """Control characters as people write them."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def _lines(causes: dict[str, list[Failure]]) -> Iterator[str]:
    for cause, group in sorted(causes.items(), key=lambda item: -len(item[1])):
        yield f"## {len(group)} × {cause}"
        yield from (f"    {failure.command}" for failure in group[:4])
        yield "```"
        text = _visible(group[0].what.strip())
        yield text if len(text) < 2000 else text[:600] + "\n…\n" + text[-1400:]
        yield "```\n"
