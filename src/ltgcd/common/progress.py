"""One way to show progress: on stderr, with rate and time left.

On a terminal a bar; elsewhere (a log, a pipe) a line once something takes long, and one now and then, so that a job of
hours tells how far it is. What can't tell how far it is (a call of a library) says at least that it has begun.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

BEGAN_SECONDS = 5.0  # after which something without a line yet says what it is
LINE_SECONDS = 30.0  # between two lines where there is no terminal
is_shown = True  # not in a worker process, whose parent shows how far all of them are
_bars: list[Progress] = []  # on the terminal; what is part of something else gets a line below it


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar that counts to `total`; the block gets a function that says how many more are done."""
    if not is_shown:
        yield lambda _done: None
    elif not sys.stderr.isatty():
        with _lines(title, total) as advance:
            yield advance
    else:
        with _bar() as bar:
            task = bar.add_task(title, total=total, rate="")

            def advance(done: int) -> None:
                speed = next(each.speed for each in bar.tasks if each.id == task)
                bar.update(task, advance=done, rate=rate(speed) if speed else "")

            try:
                yield advance
            finally:
                bar.remove_task(task)


@contextmanager
def _bar() -> Iterator[Progress]:
    """The bars of this terminal: those that are there, or new ones that go when the block ends."""
    if _bars:
        yield _bars[-1]
        return
    from rich.console import Console  # noqa: PLC0415 - only where a bar is drawn
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("· left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        _bars.append(bar)
        try:
            yield bar
        finally:
            _bars.remove(bar)


def rate(speed: float) -> str:
    """Items a second in a few characters; seconds an item where that is more than one."""
    if speed < 1:
        return f"{1 / speed:.1f} s each"
    return f"{speed:.1f}/s" if speed < 10 else f"{speed:.0f}/s"


def time_left(seconds: float) -> str:
    """A duration in words: 45 s, 7 min, 2 h 5 min."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def _lines(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Say a line every `LINE_SECONDS`, at most, and none for what is finished in `BEGAN_SECONDS`."""
    started = said = time.monotonic()
    counted = 0
    began = threading.Timer(BEGAN_SECONDS, _say, (f"· {title} …",))
    began.daemon = True

    def advance(done: int) -> None:
        nonlocal said, counted
        counted += done
        now = time.monotonic()
        if now - said < LINE_SECONDS or not 0 < counted < total:
            return
        began.cancel()
        said = now
        speed = counted / (now - started)
        left = time_left((total - counted) / speed)
        _say(f"· {title}: {counted:,} of {total:,}, {rate(speed)}, {left} left")

    began.start()
    try:
        yield advance
    finally:
        began.cancel()


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
