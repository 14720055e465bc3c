"""Commands that take something out of a run: report, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ltgcd.cli.common import Json, report, say, status

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a finished run.")]


def report_page(
    run: Run,
    source: Annotated[
        Path | None, typer.Option("--source", help="The images or texts to show (the source of the run).")
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option("--features", help="What 'ltgcd embed' wrote; default: what the run keeps, or the source itself."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw the page of a run again: one file, no network, with a map, a queue and a card a category.

    \b
    Examples:
      ltgcd report runs/mine --source embeddings.npz
      ltgcd report runs/plankton --source photos/ --features features/photos
    """

    def work() -> dict[str, Any]:
        from ltgcd.run.directory import Run as Held
        from ltgcd.run.report import report_run

        return report_run(Held.open(run), source, features, progress=status)

    def show(result: dict[str, Any]) -> None:
        say(f"{result['report']} ({result['n']:,} items, {result['bytes'] / 1e6:.1f} MB). Open it in any browser.")

    report(work, show, as_json)


def export(
    run: Run,
    form: Annotated[str, typer.Option("--format", help="csv, parquet, folders, label-studio, fiftyone or coco.")],
    out: Annotated[Path, typer.Option("--out", help="File or folder to make; it must not exist.")],
    source: Annotated[
        Path | None,
        typer.Option("--source", help="The source of the run, if the run does not keep its items (made by train)."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--status", help="Only known, novel, unsure or junk items; may be repeated.")
    ] = None,
    copy: Annotated[bool, typer.Option("--copy", help="Copy image files instead of linking to them.")] = False,
    as_json: Json = False,
) -> None:
    """Write the labels of a run for other tools. Unsure items stay a bin of their own; nothing is overwritten.

    \b
    Examples:
      ltgcd export runs/mine --format csv --out labels.csv
      ltgcd export runs/plankton --format folders --source photos/ --out sorted
      ltgcd export runs/tickets --format label-studio --source tickets.csv --status novel --out tasks.json
    """

    def work() -> dict[str, Any]:
        from ltgcd.output.export.formats import STATUSES
        from ltgcd.run.directory import Run as Held
        from ltgcd.run.export import export_run

        chosen = tuple(only) if only else STATUSES
        return export_run(Held.open(run), form, out, source=source, statuses=chosen, copy=copy, notify=status)

    def show(result: dict[str, Any]) -> None:
        from ltgcd.output.report.sentences import plural

        say(f"{plural(result['n'], 'item', 'items')} as {result['format']} in {result['path']}.")
        for note in result["notes"]:
            say(note)

    report(work, show, as_json)
