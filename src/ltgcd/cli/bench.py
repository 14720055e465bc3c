"""The command that makes the paper's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ltgcd.cli.common import Data, Json, report, say, status


def bench(
    table: Annotated[
        str | None, typer.Argument(help="Name of a table (main, lambda, s_option, …), or 'all' of them.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="Ids of rows or datasets, comma-separated; repeat to ask for both."),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Data seeds 0, 1, … of every cell.")] = 3,
    backbone: Annotated[
        str | None, typer.Option("--backbone", help="A backbone of backbones.toml (default: the first).")
    ] = None,
    regime: Annotated[str | None, typer.Option("--regime", help="frozen or last-stage (default: the first).")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the cells and estimate the time.")] = False,
    render: Annotated[bool, typer.Option("--render", help="Only write RESULTS.md from what is finished.")] = False,
    html: Annotated[
        bool, typer.Option("--html", help="Only write RESULTS.html: the same as one web page with sortable tables.")
    ] = False,
    figures: Annotated[
        bool, typer.Option("--figures", help="Draw the figures from what is finished, then write RESULTS.md.")
    ] = False,
    tables: Annotated[Path, typer.Option("--tables", help="Folder of the tables.")] = Path("benchmarks/tables"),
    results: Annotated[Path, typer.Option("--results", help="Folder of the finished cells.")] = Path(
        "benchmarks/results"
    ),
    work: Annotated[Path, typer.Option("--work", help="Folder for features and runs.")] = Path("ltgcd-bench"),
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Run what is missing of a table of the paper, and write RESULTS.md with the paper's figures beside ours.

    A finished cell is never run again. Stop it at any time: the cell that was begun goes on where it stopped.

    \b
    Examples:
      ltgcd bench main --dry-run
      ltgcd bench main --only cifar100 --only simgcd,ltgcd
      ltgcd bench all --seeds 1
      ltgcd bench main --backbone dino_vitb16        # the paper's setting, on a machine with a GPU
      ltgcd bench --render
      ltgcd bench --html
      ltgcd bench --figures
    """

    def work_on() -> dict[str, Any]:
        from ltgcd.bench.runner import Bench
        from ltgcd.common.errors import InputError

        made = Bench.opened(tables, results, work, data, status)
        if figures:
            from ltgcd.bench.figures import write_figures

            drawn = write_figures(made, seeds, backbone, regime)
            return {"figures": [str(path) for path in drawn], "path": str(made.write_page())}
        if html:
            return {"path": str(made.write_html())}
        if render or (table is None and not dry_run):
            if table is None and not render:
                raise InputError(f"Name a table, or 'all': {', '.join(made.tables)}.")
            return {"path": str(made.write_page())}
        asked = [word.split(",") for word in only or []]
        plan = made.planned(table or "all", asked, seeds, backbone, regime)
        if dry_run:
            return plan
        return {**made.run(plan), "path": str(made.write_page())}

    def show(result: dict[str, Any]) -> None:
        cells = result.get("cells", []) if dry_run else []
        for cell in cells:
            print(f"{cell['state']:<9}{cell['table']:<18}{cell['dataset']:<24}{cell['row']:<20}seed {cell['seed']}")
        for dataset, missing in dict.fromkeys((cell["dataset"], cell["missing"]) for cell in cells if cell["missing"]):
            say(f"{dataset} is missing: {missing}", "  ")
        if "cells" in result and dry_run:
            left, unknown = result["minutes_left"], result["unknown"]
            told = f", about {left:.0f} minutes and the features" if left else ""
            told += f"; {unknown} are like nothing that was run" if unknown else ""
            say(
                f"{len(result['cells'])} cells: {result['done']} done, {result['missing']} without their data, "
                f"{result['todo']} to run{told}."
            )
        if "ran" in result:
            say(f"{result['ran']} cells were run, {result['done']} were done before, {result['missing']} lack data.")
        for path in result.get("figures", []):
            print(path)
        if "path" in result:
            print(f"The tables are in {result['path']}.")

    report(work_on, show, as_json)
