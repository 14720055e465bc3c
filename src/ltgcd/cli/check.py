"""The command that looks after a run: check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ltgcd.cli.common import Json, report, say, status


def check(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a run.")],
    repair: Annotated[
        bool, typer.Option("--repair", help="Make again what follows from the rest: page, map, what a kill left.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Read all that a run keeps, name every file that is damaged or missing, and say what follows from the rest.

    Exit 0 if the run is sound, 2 if not. Without --repair nothing is written.

    \b
    Examples:
      ltgcd check runs/plankton
      ltgcd check runs/plankton --repair
    """
    sound = True

    def work() -> dict[str, Any]:
        nonlocal sound
        from ltgcd.common.errors import InputError
        from ltgcd.run.check import check_run
        from ltgcd.run.directory import Run as Held

        if not Held(run).begun:
            raise InputError(f"{run} is not a run directory; give the --out of a run.")
        result = check_run(Held(run), repair=repair, notify=status)
        sound = result["sound"]
        return result

    def show(result: dict[str, Any]) -> None:
        for path in result["repaired"]:
            print(f"Made again: {path}")
        for problem in result["problems"]:
            say(f"{problem['file']}: {problem['what']}", "  ")
        for note in result["notes"]:
            say(note)
        follows = sum(problem["follows"] for problem in result["problems"])
        if result["sound"]:
            print(f"{result['run']} is sound.")
        elif follows:
            print(f"{follows} of {len(result['problems'])} follow from the rest:")
            print(f"ltgcd check {result['run']} --repair")

    report(work, show, as_json)
    if not sound:
        raise typer.Exit(2)
