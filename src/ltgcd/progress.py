"""One way to show progress: on stderr, with rate and time left, and only where a person is looking."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar that counts to `total`; the block gets a function that says how many more are done."""
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    from rich.console import Console  # noqa: PLC0415 - only where a bar is drawn
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total, rate="")

        def advance(done: int) -> None:
            speed = bar.tasks[0].speed
            bar.update(task, advance=done, rate=f"{speed:.0f}/s" if speed else "")

        yield advance
