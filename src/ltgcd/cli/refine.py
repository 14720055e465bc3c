"""Commands that take a person's corrections: relabel, refine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ltgcd.cli.common import Json, MaxMemory, report, say, status

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a finished run.")]
SHOWN = 8  # lines of each kind of change


def relabel(
    run: RunFolder,
    corrections: Annotated[
        str | None,
        typer.Argument(
            metavar="[CORRECTIONS]",
            help="CSV, JSON lines or an edited export: id,label or category,name. With --undo, how many to take back.",
        ),
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take back the last correction, or the last N: --undo N.")
    ] = False,
    author: Annotated[str, typer.Option("--author", help="Who says so, for the history.")] = "",
    as_json: Json = False,
) -> None:
    """Correct the labels of a run from a file: at once, without a new fit, and with a way back.

    Rows 'id,label' say what an item is: 'junk' takes it out, an empty label takes back what was said. Rows
    'category,name' name a category; the name of another class merges the two. A file that 'ltgcd export' wrote and you
    edited works as it is: what you did not change says nothing.

    \b
    Examples:
      ltgcd relabel runs/plankton corrections.csv
      ltgcd export runs/plankton --format csv --out labels.csv
      ltgcd relabel runs/plankton labels.csv         # after you have edited it
      ltgcd relabel runs/plankton --undo
      ltgcd relabel runs/plankton --undo 3
    """

    def work() -> dict[str, Any]:
        from ltgcd.common.errors import InputError
        from ltgcd.run.directory import Run
        from ltgcd.run.relabel import relabel_run, undo_relabel

        held = Run.open(run)
        if undo:
            n = corrections or "1"
            if not n.isdecimal() or not int(n):
                raise InputError(f"--undo takes a number of corrections to take back, not '{n}'.")
            return undo_relabel(held, int(n))
        if corrections is None:
            raise InputError("Give a file of corrections, or --undo to take back the last one.")
        return relabel_run(held, Path(corrections), author)

    def show(result: dict[str, Any]) -> None:
        from ltgcd.data.labels import no_label_note
        from ltgcd.output.report.sentences import plural

        if "undone" in result:
            last = "The last thing that was said (in a file or on the page)"
            many = f"The last {result['undone']} things that were said (in files or on the page)"
            told = f"{last} was" if result["undone"] == 1 else f"{many} were"
            say(f"{told} taken back; {result['can_undo']} more can be.")
        else:
            kinds = ("renamed", "merged", "created", "moved", "confirmed", "cleared", "junk")
            said = ", ".join(f"{result[kind]:,} {kind}" for kind in kinds if result[kind])
            say(f"Corrections: {said or 'none that changes anything'}.")
            for new in result["new_classes"]:
                doubt = f"; did you mean '{new['like']}'? --undo takes it back" if new["like"] else ""
                say(f"New class '{new['name']}' ({plural(new['items'], 'item', 'items')}){doubt}.")
            if result["no_label"]:
                say(no_label_note(result["no_label"], "The file"))
            if result["stayed"]:
                items = plural(result["stayed"], "item", "items")
                say(f"{items} with an empty label: as before, for nobody had said anything that it could take back.")
            for row in result["refused"]:
                say(f"Refused, row {row['row']} below the header ({row['what']}): {row['reason']}.")
        say(f"Now {result['k']} classes; {result['given']:,} items are confirmed.")
        if result.get("events", True):  # a file that says nothing new gives the next fit nothing to learn
            print(f"Next: ltgcd refine {result['run']}")
            print(f"Or draw the page again: ltgcd report {result['run']}")

    report(work, show, as_json)


def refine(
    run: RunFolder,
    out: Annotated[
        Path | None, typer.Option("--out", help="Leave RUN as it is and make the refined one in this new folder.")
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Bring back what was before the last refine.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    source: Annotated[
        Path | None,
        typer.Option("--source", help="What the run was made from; a run of 'discover' keeps that itself."),
    ] = None,
    weights: Annotated[Path | None, typer.Option("--weights", help="Backbone weights, if not the usual ones.")] = None,
    max_memory: MaxMemory = None,
    as_json: Json = False,
) -> None:
    """Fit a run again with everything you have said about it: confirmed items never move, categories keep their names.

    It says what changes; --dry-run replaces nothing, and --undo brings back what was. Seconds on frozen features.

    \b
    Examples:
      ltgcd refine runs/plankton
      ltgcd refine runs/plankton --dry-run
      ltgcd refine runs/plankton --out runs/plankton-2
      ltgcd refine runs/plankton --undo
    """

    def work() -> dict[str, Any]:
        from ltgcd.common.errors import InputError
        from ltgcd.common.progress import steps
        from ltgcd.run.directory import Run
        from ltgcd.run.refine import Proposal, refine_run, refined_copy, undo_refine

        def shown(proposal: Proposal) -> None:
            if not as_json:
                show_difference(proposal.refined.difference)

        held = Run.open(run)
        if undo:
            if out is not None or dry_run:
                raise InputError("--undo goes alone: it brings back what was before the last refine.")
            return {"undone": True, **undo_refine(held, status)}
        if out is not None and not dry_run:
            return refined_copy(
                held, out, source=source, weights=weights, max_memory=max_memory, notify=status, show=shown
            )
        with steps("training", *([] if dry_run else ["report"])):
            proposal = refine_run(held, source=source, weights=weights, max_memory=max_memory, notify=status)
            shown(proposal)
            return proposal.summary() if dry_run else proposal.keep(status)

    def show(result: dict[str, Any]) -> None:
        from ltgcd.output.report.sentences import SINCE_REFINED

        if result.get("undone"):
            say(f"Back to what was before: {result['k']} classes, {result['given']:,} items confirmed.")
            if n := result["dropped"]:
                told = (
                    "One thing was said after that refine and is"
                    if n == 1
                    else f"{n} things were said after that refine and are"
                )
                say(f"{told} no longer in force; say it again where it still holds.")
            return
        junk = f", {result['junk']:,} junk" if result["junk"] else ""
        say(
            f"{result['k']} classes: {result['known']:,} items in known ones, {result['novel']:,} in novel categories, "
            f"{result['unsure']:,} unsure{junk}."
        )
        if dry_run:
            print("Nothing was replaced.")
            return
        say(SINCE_REFINED)
        print(f"Look at it: {result['report']}")
        print(f"Take it back: ltgcd refine {result['run']} --undo")

    report(work, show, as_json)


def show_difference(difference: dict[str, Any]) -> None:
    """What changes, by falling number of items."""
    from ltgcd.common.visible import visible

    say(f"{difference['changed']:,} items change their class; all {difference['kept']:,} confirmed ones keep theirs.")
    say(f"{difference['surer']:,} unsure items become sure, and {difference['less_sure']:,} sure ones unsure.")
    for kind in ("appeared", "vanished", "grown", "shrunk"):
        rows = sorted(difference[kind], key=lambda row: -abs(row["after"] - row["before"]))
        if rows:
            print(f"{kind.capitalize()}:")
        for row in rows[:SHOWN]:
            print(visible(f"  {row['name']}: {row['before']:,} → {row['after']:,}"))
        if len(rows) > SHOWN:
            print(f"  and {len(rows) - SHOWN} more")
