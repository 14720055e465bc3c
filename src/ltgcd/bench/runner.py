"""Run what is missing of a table, one cell after the other, and write the page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ltgcd.bench.cells import Workshop, current_records
from ltgcd.bench.costs import Costs
from ltgcd.bench.found import Finished, missing_files
from ltgcd.bench.html_page import as_html
from ltgcd.bench.page import Block, as_markdown
from ltgcd.bench.render import render
from ltgcd.bench.results import append_record, claimed
from ltgcd.bench.tables import Cell, Setting, Table, cells_of, read_settings, read_tables
from ltgcd.common.errors import InputError
from ltgcd.common.outputs import check_output, output_path
from ltgcd.common.processes import rank_and_size
from ltgcd.data.datasets import data_root, get_dataset, locate
from ltgcd.run.train import Notify, silent

PAGE = "RESULTS.md"
WEB_PAGE = "RESULTS.html"
FIGURES = "figures"
MADE_AS = "results"  # what a page is sealed as


@dataclass
class Bench:
    """The tables, where their results are, and where work is done.

    Attributes
    ----------
    tables, settings : dict
        By name.
    results : path
        Folder of the finished cells; the page goes beside it.
    workshop : Workshop
        Runs cells.
    notify : callable
        Told in a sentence what happens.
    """

    tables: dict[str, Table]
    settings: dict[str, Setting]
    results: Path
    workshop: Workshop
    notify: Notify = silent

    @classmethod
    def opened(cls, tables: Path, results: Path, work: Path, data: Path | None, notify: Notify = silent) -> Bench:
        """Read the tables of a folder."""
        found, settings = read_tables(tables), read_settings(tables)
        return cls(found, settings, results, Workshop(work, data, settings, notify), notify)

    def planned(
        self, name: str, only: list[list[str]], seeds: int, backbone: str | None = None, regime: str | None = None
    ) -> dict[str, Any]:
        """Every cell of a table (or of ``all``), what is done, and how long the rest will take.

        `only` keeps the cells that every one of its lists has the row or the dataset of.
        """
        if name != "all" and name not in self.tables:
            raise InputError(f"There is no table '{name}'; choose one of {', '.join(self.tables)}, or all.")
        chosen = list(self.tables.values()) if name == "all" else [self.tables[name]]
        self._check_words(chosen, only)
        records, root = current_records(self.results), data_root(self.workshop.data)
        costs = Costs(records)
        cells: list[dict[str, Any]] = []
        seen: set[str] = set()
        for table in chosen:
            for column, row, cell in cells_of(table, self.settings, backbone, regime, seeds):
                named = {row.id, column.id, column.name}
                if cell.key in seen or not all(named & set(words) for words in only):
                    continue
                seen.add(cell.key)
                here = locate(get_dataset(cell.dataset), root) is not None
                state = "done" if cell.key in records else "todo" if here else "no data"
                cells.append(
                    {
                        "key": cell.key,
                        "table": table.name,
                        "dataset": column.id,
                        "row": row.id,
                        "seed": cell.seed,
                        "state": state,
                        "minutes": costs.minutes(cell) if state == "todo" else None,
                        "missing": str(root / missing_files(get_dataset(cell.dataset))) if state == "no data" else None,
                        "cell": cell.described(),
                    }
                )
        todo = [cell for cell in cells if cell["state"] == "todo"]
        known = [cell["minutes"] for cell in todo if cell["minutes"] is not None]
        return {
            "cells": cells,
            "done": sum(cell["state"] == "done" for cell in cells),
            "missing": sum(cell["state"] == "no data" for cell in cells),
            "todo": len(todo),
            "minutes_left": round(sum(known), 1) if known or not todo else None,
            "unknown": len(todo) - len(known),  # of which nothing alike was ever run
        }

    def run(self, plan: dict[str, Any]) -> dict[str, Any]:
        """Run the cells of a plan that are still to do; each is kept the moment it is finished."""
        if rank_and_size()[1] > 1:  # one would train a cell with what another makes of the next one
            raise InputError(
                "torchrun shares one training, but a bench runs many cells: start 'ltgcd bench' once for each process "
                "or GPU instead, with the same --work folder; they divide the cells."
            )
        self.check_page()  # which is written at the end
        ran, todo = 0, [cell for cell in plan["cells"] if cell["state"] == "todo"]
        for number, line in enumerate(todo, 1):
            cell = Cell(**line["cell"])
            named = f"{number} of {len(todo)}: {line['table']}, {line['dataset']}, {line['row']}, seed {cell.seed}"
            with claimed(self.workshop.work, cell.key) as ours:
                if not ours:
                    self.notify(f"{named}: another process is at it")
                    continue
                if cell.key in current_records(self.results):
                    continue  # another process was faster
                self.notify(named)
                record = append_record(self.results, cell, self.workshop.run(cell))
            ran += 1
            self.notify(_told(record))
        return {"ran": ran, **{name: plan[name] for name in ("done", "missing")}}

    def write_page(self) -> Path:
        """Write ``RESULTS.md`` beside the folder of the results, from what is finished."""
        return self._written(PAGE, as_markdown(self._blocks(self._pictures())))

    def write_html(self) -> Path:
        """Write ``RESULTS.html`` beside it: the same as one page that needs nothing but itself."""
        pictures = self._pictures()
        drawn = {name: (self.results.parent / name).read_bytes() for name in pictures}
        return self._written(WEB_PAGE, as_html(self._blocks(pictures), drawn))

    def check_page(self, name: str = PAGE) -> Path:
        """Where a page goes; refused if there is one that ltgcd did not write, or that somebody has changed."""
        path = self.results.parent / name
        check_output(path, MADE_AS)
        return path

    def _written(self, name: str, text: str) -> Path:
        path = self.check_page(name)
        with output_path(path, MADE_AS) as temporary:
            temporary.write_bytes(text.encode())
        return path

    def _pictures(self) -> list[str]:
        return [f"{FIGURES}/{path.name}" for path in sorted((self.results.parent / FIGURES).glob("*.svg"))]

    def _blocks(self, pictures: list[str]) -> list[Block]:
        return render(Finished(self.tables, self.settings, current_records(self.results)), pictures)

    def _check_words(self, tables: list[Table], only: list[list[str]]) -> None:
        known: set[str] = set()
        for table in tables:
            known |= {row.id for row in table.rows}
            known |= {column.id for column in table.columns} | {column.name for column in table.columns}
        for word in (word for words in only for word in words):
            if word not in known:
                raise InputError(f"--only names '{word}', which is no row or dataset here: {', '.join(sorted(known))}.")


def _told(record: dict[str, Any]) -> str:
    minutes = record.get("minutes")
    took = "" if minutes is None else f" ({minutes:.1f} min)"
    if "balanced_acc" in record:
        scores = record["balanced_acc"]
        return "balanced " + " / ".join("–" if v is None else f"{v:.1f}" for v in scores.values()) + took
    return (f"K = {record['k']}, true {record['k_true']}" if "k" in record else "drawn") + took
