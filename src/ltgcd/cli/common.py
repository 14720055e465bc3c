"""What every command shares: the options, how a result is printed, how bad input is reported."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from typer.core import TyperCommand

from ltgcd.common.progress import told_step
from ltgcd.common.visible import visible

if TYPE_CHECKING:
    from ltgcd.data.collection import Source
    from ltgcd.discovery.memory import Work

NARROWEST = 40  # columns of a terminal that lines are wrapped for

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of every random draw.")]
Labels = Annotated[
    Path | None, typer.Option("--labels", help="CSV with columns id,label that replaces the source's own labels.")
]
TextColumn = Annotated[str | None, typer.Option("--text-column", help="Column of a table that holds the texts.")]
LabelColumn = Annotated[str | None, typer.Option("--label-column", help="Column of a table that holds the labels.")]
IdColumn = Annotated[str | None, typer.Option("--id-column", help="Column of a table that holds the ids.")]
LabelsFrom = Annotated[
    str,
    typer.Option(
        "--labels-from",
        help="Were classes of this same collection labelled (collection), items gathered beside it (elsewhere), or "
        "items of it drawn at random, whatever their class (random-items)? It matters for the number of classes only.",
    ),
]
OwnBackbone = Annotated[
    str | None,
    typer.Option("--backbone", help="A backbone of your own, package.module:function, whose code may be run."),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        help="What embeds images: torch, openvino, or auto: openvino for EfficientNets on a CPU, where it is installed "
        "and saves more time than its start takes.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        show_default="auto",
        help="Processes that embed or rehearse side by side, of one thread each; 1 is none but this. By default one a "
        "core, if that is faster. With --cluster, 2 or more also train a last stage together.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        show_default="none",
        help="A Ray cluster that shares embedding, neighbours and labelling, and with --workers the training of a last "
        "stage: ray (this machine), auto (the one this machine is part of) or ray://host:10001; see docs/scale.md.",
    ),
]
FitOn = Annotated[
    int | None,
    typer.Option(
        "--fit-on",
        show_default="all",
        help="Learn from so many items, at most half of them labelled ones, and let the model label the others: for "
        "what does not fit into memory.",
    ),
]
MaxMemory = Annotated[
    str | None,
    typer.Option(
        "--max-memory",
        show_default="what is free",
        help="Refuse, before anything starts, what takes more memory than this (12G, 800M), and say what would fit.",
    ),
]
Data = Annotated[
    Path | None, typer.Option("--data", help="Folder of the datasets (default: $LTGCD_DATA, else a cache folder).")
]
SourcePath = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help="Folder of images (a sub-folder for each known class, one called 'unlabelled' for the rest), .csv or "
        ".parquet (columns text or path, and label: empty = unlabelled), or .npz of embeddings.",
    ),
]
VectorsPath = Annotated[
    Path, typer.Argument(metavar="SOURCE", help="Embeddings: an .npz, or a folder that 'ltgcd embed' wrote.")
]


class NamesMethods(TyperCommand):
    """A command whose help names the methods there are; they are imported only when somebody asks."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - click's own types
        """Put the names in, and go on as usual."""
        from ltgcd.training.methods import method_names

        names = {
            "@TRAINED@": ", ".join(method_names(lambda method: method.trained)),
            "@CLUSTERING@": ", ".join(method_names(lambda method: not method.trained)),
        }
        for option in self.params:
            for mark, text in names.items():
                option.help = (getattr(option, "help", None) or "").replace(mark, text)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


def report(work: Callable[[], dict[str, Any]], show: Callable[[dict[str, Any]], None], as_json: bool) -> None:
    """Do the work and print its result; turn bad input into a sentence and exit 2, Ctrl-C into exit 130."""
    from ltgcd.common.errors import InputError

    try:
        with stopped_by_sigterm(), warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = lambda message, *_place, **_rest: status(str(message))  # the place helps no user
            result = work()
    except (InputError, OSError) as error:
        sentence = _refused(error) if isinstance(error, OSError) else str(error)
        sentence = visible(" ".join(sentence.split()))
        if as_json:
            print(json.dumps({"error": sentence}))
        say(f"Error: {sentence}", file=sys.stderr)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        say("Stopped. What is finished is kept: run the same command again to go on.", file=sys.stderr)
        raise typer.Exit(130) from None
    try:
        if as_json:
            # In ASCII: names of files need not be UTF-8, nor need the terminal.
            print(json.dumps(result))
        else:
            show(_visible(result))
        sys.stdout.flush()
    except OSError as error:
        # The work is done and kept; only nobody can read it. What is left in the buffer would be tried again at exit.
        _give_up_stdout()
        if not isinstance(error, BrokenPipeError):  # "| head" has read enough
            say(f"Error: The result can't be printed ({error.strerror}); all else is done.", file=sys.stderr)
        raise typer.Exit(2) from None


def _visible(value: Any) -> Any:  # noqa: ANN401 - whatever a result holds
    """A result with every text in it as it may be printed."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {_visible(key): _visible(part) for key, part in value.items()}
    return [_visible(part) for part in value] if isinstance(value, list | tuple) else value


@contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """Take SIGTERM for Ctrl-C: what is half written is removed, and locks are let go. Afterwards it is what it was."""
    if threading.current_thread() is not threading.main_thread():  # only there may a handler be set
        yield
        return

    def stop(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _give_up_stdout() -> None:
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # no real file
        sys.stdout = None


def _refused(error: OSError) -> str:
    """What the system would not do (permissions, a full disk, a file for a folder) is no bug of ours."""
    what = f"{error.filename} can't be read or written" if error.filename else "A file can't be read or written"
    return f"{what} ({error.strerror or error}); check the path, its permissions and the free space."


def say(sentence: str, indent: str = "", *, file: TextIO | None = None) -> None:
    """Print a sentence in lines that fit the terminal, of 80 characters where nobody knows how wide it is.

    Every sentence for people goes through this; lines after the first begin with the `indent`. A word that is longer
    than a line, such as a path or an address, stays whole: it is there to be copied. So is a command, which is printed.
    """
    width = max(shutil.get_terminal_size().columns, NARROWEST)
    wrapped = textwrap.fill(sentence, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    print(wrapped, file=file, flush=file is not None)


def status(message: str) -> None:
    """Say on stderr what happens, and which step has begun with it."""
    say(f"· {told_step()}{visible(message)}", "  ", file=sys.stderr)


def say_where(result: dict[str, Any]) -> None:
    """Say where the page of a run is, and how its labels are corrected."""
    print(f"Look at it: {result['report']}")
    print(f"Correct it: ltgcd review {result['run']}")


def check_vectors_fit(source: Source, max_memory: str | None, work: Work, k: int | None = None) -> None:
    """Refuse a source of embeddings that takes more memory than allowed; say so if it is more than there is."""
    from ltgcd.discovery.memory import check_memory
    from ltgcd.run.train import vectors

    n, dim = vectors(source).shape
    check_memory(n, dim, k, max_memory, status, work=work)


def print_left_out(skipped: list[dict[str, str]]) -> None:
    """Name every item that could not be read, and why."""
    for item in skipped:
        say(visible(f"Left out: {item['id']} ({item['reason']})"), "  ")


def print_scores(result: dict[str, Any], rows: dict[str, str]) -> None:
    """All/Old/New of some figures as a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table("", "All", "Old", "New")
    for key, title in rows.items():
        score = result.get(key)
        if score is not None:
            table.add_row(title, *(_figure(score[part]) for part in ("all", "old", "new")))
    if table.row_count:
        Console().print(table)


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
