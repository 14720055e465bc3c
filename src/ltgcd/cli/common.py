"""What every command shares: the options, how a result is printed, how bad input is reported."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of every random draw.")]
Labels = Annotated[
    Path | None, typer.Option("--labels", help="CSV with columns id,label that replaces the source's own labels.")
]
LabelsFrom = Annotated[
    str,
    typer.Option(
        "--labels-from",
        help="For the number of classes: were labelled items taken out of the collection (collection) or gathered "
        "beside it (elsewhere)?",
    ),
]
Data = Annotated[
    Path | None, typer.Option("--data", help="Folder of the datasets (default: $LTGCD_DATA, else a cache folder).")
]
SourcePath = Annotated[Path, typer.Argument(help="Folder of images, .csv or .parquet manifest, or .npz of embeddings.")]


def report(work: Callable[[], dict[str, Any]], show: Callable[[dict[str, Any]], None], as_json: bool) -> None:
    """Do the work and print its result; turn bad input into a sentence and exit 2, Ctrl-C into exit 130."""
    from ltgcd.common.errors import InputError

    try:
        result = work()
    except (InputError, OSError) as error:
        sentence = _refused(error) if isinstance(error, OSError) else str(error)
        sentence = " ".join(sentence.split())
        if as_json:
            print(json.dumps({"error": sentence}))
        print(f"Error: {sentence}", file=sys.stderr)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        print("Stopped. What is finished is kept: run the same command again to go on.", file=sys.stderr)
        raise typer.Exit(130) from None
    if as_json:
        # In ASCII: names of files need not be UTF-8, nor need the terminal.
        print(json.dumps(result))
    else:
        show(result)


def _refused(error: OSError) -> str:
    """What the system would not do (permissions, a full disk, a file for a folder) is no bug of ours."""
    what = f"{error.filename} can't be read or written" if error.filename else "A file can't be read or written"
    return f"{what} ({error.strerror or error}); check the path, its permissions and the free space."


def status(message: str) -> None:
    """Say on stderr which stage has begun."""
    print(f"· {message}", file=sys.stderr, flush=True)


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
