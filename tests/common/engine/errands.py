"""Work for worker processes in tests. It imports nothing that takes long."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltgcd.common import progress
from ltgcd.common.engine.threads import available_cores
from ltgcd.common.errors import InputError
from ltgcd.common.files import atomic_path

Advance = Callable[[int], None]


def make(folder: Path, trouble: str = "") -> Callable[[int, Advance], None]:
    (folder / f"prepared-by-{os.getpid()}").touch()
    return partial(errand, folder, trouble)


def errand(folder: Path, trouble: str, shard: int, advance: Advance) -> None:
    """Two items a shard; what it gives is a file that names the process and its threads."""
    advance(1)
    once = folder / "trouble"
    if trouble == "input" and shard == 3:
        raise InputError("The third is broken.")
    if trouble == "bug" and shard == 3:
        raise ZeroDivisionError("a bug")
    if trouble == "die once" and shard == 3 and not once.exists():
        once.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if trouble == "die always" and shard == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if trouble == "talk":
        print("printed")
        os.write(1, b"written\n")
        warnings.warn(f"odd {shard}", stacklevel=1)
    with atomic_path(folder / f"done-{shard}") as temporary:
        temporary.write_text(f"{os.getpid()} {os.environ.get('OMP_NUM_THREADS')}")
        if trouble == "slow":
            time.sleep(30)
    advance(1)


def square(folder: Path, trouble: str) -> Callable[[int, Advance], tuple[int, int, bool, int]]:
    """Of a number its square, this process, whether it shows progress, and the cores that it may use."""

    def work(number: int, advance: Advance) -> tuple[int, int, bool, int]:
        once = folder / "trouble"
        if trouble == "die once" and number == 3 and not once.exists():
            once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        advance(1)
        return number * number, os.getpid(), progress.is_shown, available_cores()

    return work


def killed_once(prepare: Callable[[], Callable[..., Any]], marker: Path, moment: str) -> Callable[..., Any]:
    """What `prepare` makes, whatever that is; the first process that gets there dies, and leaves the marker.

    At the moment "begin" nothing of its shard is done, at "advance" a part of it, or all but the message that it is.
    """
    function = prepare()

    def die() -> None:
        try:
            marker.open("x").close()
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    def work(shard: object, advance: Advance) -> object:
        if moment == "begin":
            die()

        def told(items: int) -> None:
            advance(items)
            if moment == "advance":
                die()

        return function(shard, told)

    return work


class OnlyHere:
    """Can be pickled, and not be made again in another process."""

    def __init__(self, folder: Path, home: int) -> None:
        self.folder, self.home = folder, home

    def __call__(self) -> Callable[[int, Advance], None]:
        return make(self.folder)

    def __setstate__(self, state: dict[str, object]) -> None:
        if os.getpid() != state["home"]:
            raise ImportError("no module named here")
        self.__dict__.update(state)


def refuse(_notify: Callable[[str], None]) -> None:
    raise InputError("Both refuse this.")


def bug(_notify: Callable[[str], None]) -> None:
    print("half a line, and", file=sys.stderr, end=" ")
    print("the rest", file=sys.stderr)
    raise ZeroDivisionError("a bug")


def sums(
    folder: Path, trouble: str, arrays: Mapping[str, NDArray[Any]]
) -> Callable[[int, int], tuple[NDArray[Any], NDArray[Any]]]:
    """Of blocks of rows their sums, and this process for each row; says which blocks it was asked for."""
    x = arrays["x"]

    def compute(start: int, stop: int) -> tuple[NDArray[Any], NDArray[Any]]:
        with (folder / "asked").open("a") as file:
            file.write(f"{start} {stop}\n")
        if trouble == "error" and start == 40 and not (folder / "trouble").exists():
            (folder / "trouble").touch()
            raise ZeroDivisionError("a bug")
        if trouble == "die" and start == 24 and not (folder / "trouble").exists():
            (folder / "trouble").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.05)
        return x[start:stop].sum(axis=1), np.full(stop - start, os.getpid())

    return compute


def asked(folder: Path) -> list[tuple[int, int]]:
    """Blocks that `sums` was asked for."""
    return [(int(a), int(b)) for a, b in (line.split() for line in (folder / "asked").read_text().splitlines())]
