"""One way to show progress: on stderr, with rate and time left.

On a terminal a bar; elsewhere (a log, a pipe) a line now and then, so that a job of hours tells how far it is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_SECONDS = 30.0  # between two lines where there is no terminal
is_shown = True  # not in a worker process, whose parent shows how far all of them are


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar that counts to `total`; the block gets a function that says how many more are done."""
    if not is_shown:
        yield lambda _done: None
        return
    if not sys.stderr.isatty():
        yield _lines(title, total)
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
        task = bar.add_task(title, total=total, rate="")

        def advance(done: int) -> None:
            speed = bar.tasks[0].speed
            bar.update(task, advance=done, rate=rate(speed) if speed else "")

        yield advance


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


def _lines(title: str, total: int) -> Callable[[int], None]:
    """Say a line every `LINE_SECONDS`, at most, and none for what is finished before."""
    started = said = time.monotonic()
    counted = 0

    def advance(done: int) -> None:
        nonlocal said, counted
        counted += done
        now = time.monotonic()
        if now - said < LINE_SECONDS or not 0 < counted < total:
            return
        said = now
        speed = counted / (now - started)
        left = time_left((total - counted) / speed)
        sys.stderr.write(f"· {title}: {counted:,} of {total:,}, {rate(speed)}, {left} left\n")
        sys.stderr.flush()

    return advance
