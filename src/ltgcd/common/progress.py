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
    from rich.progress import Progress, TaskID

SHOWN_SECONDS = 0.5  # after which a bar is drawn
BEGAN_SECONDS = 5.0  # after which something without a line yet says what it is
LINE_SECONDS = 30.0  # between two lines where there is no terminal
is_shown = True  # not in a worker process, whose parent shows how far all of them are
_bars: list[Progress] = []  # on the terminal; what is part of something else gets a line below it
_lock = threading.Lock()  # of these
_names: list[str] = []  # of the steps that are counted
_step, _is_told = "", True  # which of them it is, and whether a line has said so


@contextmanager
def steps(*names: str) -> Iterator[None]:
    """Long work in steps that `step` begins by name: what is shown meanwhile says which of how many it is.

    Work that is part of longer work counts the steps of that; a single step is not counted.
    """
    if _names or len(names) < 2:
        yield
        return
    _names.extend(names)
    try:
        yield
    finally:
        _names.clear()
        step("")


def step(name: str) -> None:
    """Begin a step; a name that is none of those which are counted changes nothing."""
    global _step, _is_told  # noqa: PLW0603 - what is shown on the one terminal that there is
    if name in _names or not name:
        _step = f"step {_names.index(name) + 1} of {len(_names)} · " if name else ""
        _is_told = False


def told_step() -> str:
    """Which step has begun, for a line that says so; nothing where a line has said it before."""
    global _is_told
    said, _is_told = "" if _is_told else _step, True
    return said


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how far something is that counts to `total`; the block gets a function that says how many more are done."""
    if not is_shown:
        yield lambda _done: None
    elif not sys.stderr.isatty():
        with _lines(title, total) as advance:
            yield advance
    else:
        with _bar(title, total) as advance:
            yield advance


@contextmanager
def _bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar, once it has lasted `SHOWN_SECONDS`: what is over by then would only flicker."""
    started, done = time.monotonic(), 0
    shown: list[tuple[Progress, TaskID]] = []

    def show() -> None:
        with _lock:
            if not is_over:
                bar = _bars[-1] if _bars else _new_bars()
                # A call of a library, which is one, can't tell how far it is.
                shown.append((bar, bar.add_task(_step + title, total=total if total > 1 else None, told="")))
                tell()

    def tell() -> None:
        for bar, task in shown:
            speed = done / max(time.monotonic() - started, 1e-9)
            left = f" · {rate(speed)} · {time_left((total - done) / speed)} left" if done else ""
            bar.update(task, completed=done, told=f"{done:,} of {total:,}{left}" if total > 1 else "")

    def advance(more: int) -> None:
        nonlocal done
        done += more
        tell()

    is_over = False
    began = threading.Timer(SHOWN_SECONDS, show)
    began.daemon = True
    began.start()
    try:
        yield advance
    finally:
        began.cancel()
        with _lock:
            is_over = True
            for bar, task in shown:
                bar.remove_task(task)
                if not bar.tasks:
                    _bars.remove(bar)
                    bar.stop()


def _new_bars() -> Progress:
    """A place for bars on this terminal, which goes when the last of them does."""
    from rich.console import Console  # noqa: PLC0415 - only where a bar is drawn
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415
    from rich.table import Column  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis")),
        BarColumn(bar_width=12, table_column=Column(min_width=12)),
        TextColumn("{task.fields[told]}", table_column=Column(no_wrap=True)),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.start()
    _bars.append(bar)
    return bar


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
    title = _step + title
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
