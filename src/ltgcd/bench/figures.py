"""The figures of ``RESULTS.md``, drawn from finished cells; the map of the selection also from the features of a run.

Equal records give equal files. matplotlib is the ``plot`` extra and is imported only when something is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ltgcd.bench.cells import current_records
from ltgcd.bench.charts import (
    METHODS,
    THIRDS,
    draw_bars,
    draw_estimate,
    draw_tail,
    mistaken,
    thirds_of,
)
from ltgcd.bench.density_map import DensityMap, density_map, draw_density_map
from ltgcd.bench.found import Finished, Records
from ltgcd.bench.places import places
from ltgcd.bench.runner import FIGURES, Bench
from ltgcd.bench.sheets import headed, mark, sheet, stacked
from ltgcd.bench.summary_figure import draw_summary
from ltgcd.bench.tables import Column, Row, Setting, Table, cell_of, regime_of, setting_of
from ltgcd.bench.verdicts import GROUPS
from ltgcd.common.outputs import check_output, output_path
from ltgcd.output.report.k_plot import INK, MUTED, repeatable
from ltgcd.plot.axes import NEW, OLD, draw_sizes
from ltgcd.run.directory import Run
from ltgcd.run.train import Notify, silent

MAP = ("cifar100", "ltgcd")  # dataset and row of the main table whose run is mapped
CURVES = ("cifar100-80+20-10", "cifar100-80+0", "cifar100-30+70", "plankton-60+61", "plankton-60+0", "plankton-30+91")
SELECTION = "density-selection"  # the figure that needs a run
MADE_AS = "figure"  # what a figure is sealed as
Found = list[tuple[Column, list[tuple[Row, list[dict[str, Any]]]]]]


@dataclass(frozen=True)
class Evidence:
    """What the figures are drawn from: the finished cells of one setting.

    Attributes
    ----------
    tables, settings, records : dict
        By name and by key, as `ltgcd.bench.tables` and `ltgcd.bench.results` read them.
    seeds : int
        Data seeds 0, 1, … that are looked at.
    backbone, regime : str or None
        The setting; None for the default one.
    """

    tables: dict[str, Table]
    settings: dict[str, Setting]
    records: Records
    seeds: int = 3
    backbone: str | None = None
    regime: str | None = None

    def of(self, table: Table, column: Column, row: Row) -> list[dict[str, Any]]:
        """The finished cells of a row in a column, a record a seed."""
        keys = (
            cell_of(table, column, row, self.settings, self.backbone, self.regime, seed).key
            for seed in range(self.seeds)
        )
        return [self.records[key] for key in keys if key in self.records]

    def by_dataset(self, name: str, figure: str) -> Found:
        """Datasets of a table with finished cells that hold a figure (``counts``, ``curve``, …), and their rows."""
        table, shown = self.tables.get(name), []
        if table is None:
            return []
        for column in table.columns:
            rows = [(row, [one for one in self.of(table, column, row) if one.get(figure)]) for row in table.rows]
            if any(records for _, records in rows):
                shown.append((column, [one for one in rows if one[1]]))
        return shown

    def words(self, regime: str | None = None) -> str:
        """Backbone and regime, for the line below a title."""
        setting = setting_of(self.settings, self.backbone)
        said = f"{setting.title}, {regime or regime_of(setting, self.regime)}"
        return said if setting.name == "dino_vitb16" else f"{said}: not the paper's DINO features"


# ---------------------------------------------------------------- figures


def long_tail(evidence: Evidence) -> Any:  # noqa: ANN401
    """Class sizes, and below them what SimGCD and our method make of the tail."""
    main = evidence.tables.get("main")
    wanted = {column.id for column in main.columns} if main else set()  # other splits are flat
    sizes = {
        column.id: (column, rows[0][1][0])
        for column, rows in evidence.by_dataset("statistics", "counts")
        if column.id in wanted
    }
    measured = [
        (column, [one for one in rows if one[0].id in METHODS])
        for column, rows in evidence.by_dataset("main", "many_medium_few")
    ]
    recalls = {column.id: {row.id: found for row, found in rows} for column, rows in measured}
    if not sizes:
        return None
    marks = [
        mark("Old classes", color=OLD, marker="s"),
        mark("New classes", color=NEW, marker="s"),
        mark("labelled items", color=INK, marker="o", ms=4),
        mark("SimGCD", color=MUTED, marker="o", ls=(0, (3, 2)), mfc="white"),
        mark("ours", color=MUTED, marker="o", ls="-"),
    ]
    blocks = -(-len(sizes) // 2)
    told = "Class sizes; recall by third of the Old and of the New classes"
    if any(recalls.values()):
        told += f", {_seeds(measured)} (upright lines: range)"
    figure = sheet("The long tail, and what is recalled of it", [told, evidence.words()], 5.0 * blocks, marks)
    grid = figure.subplots(2 * blocks, 2, squeeze=False)
    for place, (name, (column, record)) in enumerate(sizes.items()):
        upper, lower = grid[place // 2 * 2, place % 2], grid[place // 2 * 2 + 1, place % 2]
        draw_sizes(upper, record["counts"])
        upper.set_title(_plain_title(column), loc="left", fontsize=10, fontweight="bold", color=INK)
        draw_tail(lower, recalls.get(name, {}))
    for place in range(len(sizes), 2 * blocks):
        grid[place // 2 * 2, place % 2].set_axis_off()
        grid[place // 2 * 2 + 1, place % 2].set_axis_off()
    return figure


def k_curves(evidence: Evidence) -> Any:  # noqa: ANN401
    """Curves of our estimate of K on a few problems."""
    found = {
        column.id: (column, records[0])
        for column, rows in evidence.by_dataset("class_number_grid", "curve")
        for row, records in rows
        if row.method == "peaks"
    }
    shown = [found[name] for name in CURVES if name in found]
    if not shown:
        return None
    marks = [
        mark("estimate", color=INK, ls="-"),
        mark("90 % interval", color="#b9d2ea", marker="s"),
        mark("true number", color=NEW, ls=(0, (2, 1.5))),
        mark("known classes", color=MUTED, ls=(0, (4, 3))),
    ]
    lines = -(-len(shown) // 2)
    seeds = sorted({record["cell"]["seed"] for _, record in shown})
    told = f"Our estimate by default; old + new classes, data seed {', '.join(map(str, seeds))}"
    figure = sheet("How many classes?", [told, evidence.words("frozen")], 2.2 * lines, marks)
    grid = figure.subplots(lines, 2, squeeze=False).ravel()
    for axes, (column, record) in zip(grid, shown, strict=False):
        draw_estimate(axes, record, column.title)
    for axes in grid[len(shown) :]:
        axes.set_axis_off()
    figure.supylabel("mean log-likelihood of the unlabelled items", fontsize=9, color=INK)
    return figure


def frequency(evidence: Evidence) -> Any:  # noqa: ANN401
    """Recall of the many, medium and few classes by method."""
    found = evidence.by_dataset("main", "many_medium_few")
    if not found:
        return None
    told = f"Thirds of the classes by unlabelled size, at the true K; {_seeds(found)}"
    names = ("many (largest third)", "medium", "few (smallest third)")
    marks = [mark(name, color=colour, marker="s") for name, colour in zip(names, THIRDS.values(), strict=True)]
    figure, grid = stacked("Recall by class frequency", [told, evidence.words()], found, 3, 0.3, marks)
    for line, (column, rows) in zip(grid, found, strict=True):
        for axes, group in zip(line, GROUPS, strict=True):
            values = [thirds_of(records, group) for _, records in rows]
            draw_bars(axes, [row.title for row, _ in rows], values, list(THIRDS.values()))
            headed(axes, group == "all", _plain_title(column), f"{group.title()} classes")
            axes.set_xlabel("recall (%)", color=INK, fontsize=8.5)
    return figure


def confusion(evidence: Evidence) -> Any:  # noqa: ANN401
    """Share of the Old items that are taken for new ones and the reverse, by method."""
    found = evidence.by_dataset("main", "confusion")
    if not found:
        return None
    # RankStats+ can have some accuracy on New classes and yet call every item old: the matching renames clusters.
    told = f"Unlabelled items by the names that the method gives, not by the matching of ACC; {_seeds(found)}"
    figure, grid = stacked("Old taken for new, and new for old", [told, evidence.words()], found, 2, 0.2)
    for line, (column, rows) in zip(grid, found, strict=True):
        values = np.array([mistaken(records) for _, records in rows])
        parts = (("Old items taken for new", OLD), ("New items taken for old", NEW))
        for place, (axes, (words, colour)) in enumerate(zip(line, parts, strict=True)):
            draw_bars(axes, [row.title for row, _ in rows], values[:, [place]], [colour], labels=True)
            headed(axes, place == 0, _plain_title(column), words)
            axes.set_xlabel("share of the items (%)", color=INK, fontsize=8.5)
            axes.set_xlim(0, 114)
            axes.set_xticks(range(0, 101, 25))
    return figure


def _plain_title(column: Column) -> str:
    return column.title.partition(" (")[0]


def _seeds(found: Found) -> str:
    numbers = {len(records) for _, rows in found for _, records in rows}
    low, high = min(numbers), max(numbers)
    return f"mean over {low if low == high else f'{low} to {high}'} data seed{'s' if high > 1 else ''}"


# ---------------------------------------------------------------- all of them


def methods(evidence: Evidence) -> Any:  # noqa: ANN401
    """All and New of every method on every dataset, beside the paper's."""
    return draw_summary(places(Finished(evidence.tables, evidence.settings, evidence.records)))


DRAWN: dict[str, tuple[Callable[[Evidence], Any], str]] = {
    "summary": (methods, "main"),
    "long-tail": (long_tail, "statistics"),
    "k-curves": (k_curves, "class_number_grid --only peaks"),
    "frequency": (frequency, "main"),
    "confusion": (confusion, "main"),
}


def draw_figures(
    folder: Path, evidence: Evidence, picture: DensityMap | None = None, notify: Notify = silent
) -> list[Path]:
    """Write every figure that there are records for into a folder, and say which is left out.

    Parameters
    ----------
    folder : path
        Where the SVGs go.
    evidence : Evidence
        Tables, settings and finished cells.
    picture : DensityMap, optional
        What the map of the density selection shows; without it that one is left out.
    notify : callable
        Told in a sentence what is left out.
    """
    written: list[Path] = []
    with repeatable():
        for name, (draw, table) in DRAWN.items():
            figure = draw(evidence)
            if figure is None:
                notify(f"{name}.svg is left out: no cell is finished; run 'ltgcd bench {table}' first")
            else:
                written.append(_saved(figure, folder / f"{name}.svg"))
        if picture is not None:
            page = sheet("Density selection, on real items", [*picture.words, evidence.words("frozen")], 6.6)
            draw_density_map(page, picture)
            written.append(_saved(page, folder / f"{SELECTION}.svg"))
    return written


def _saved(figure: Any, path: Path) -> Path:  # noqa: ANN401
    check_output(path, MADE_AS)
    with output_path(path, MADE_AS) as temporary:
        figure.savefig(temporary, format="svg", dpi=120, metadata={"Date": None})
    return path


def write_figures(bench: Bench, seeds: int = 3, backbone: str | None = None, regime: str | None = None) -> list[Path]:
    """Draw the figures of a bench into the folder beside its results; the map from the run of our method, seed 0."""
    repeatable()  # what could not be drawn, or be written, is refused before the work
    bench.check_page()
    for name in (*DRAWN, SELECTION):
        check_output(bench.results.parent / FIGURES / f"{name}.svg", MADE_AS)
    evidence = Evidence(bench.tables, bench.settings, current_records(bench.results), seeds, backbone, regime)
    picture, main = None, bench.tables.get("main")
    places = [(c, r) for c in main.columns for r in main.rows if (c.id, r.id) == MAP] if main else []
    for column, row in places:
        assert main is not None
        cell = cell_of(main, column, row, bench.settings, backbone, "frozen", 0)
        run = Run(bench.workshop.work / "runs" / cell.key)
        if run.finished:
            bench.notify(f"mapping the items of {column.title}")
            picture = density_map(bench.workshop.prepared(cell), run, cell, column.title)
    if picture is None:
        asked = f"ltgcd bench main --only {MAP[0]} --only {MAP[1]} --regime frozen --seeds 1"
        bench.notify(f"{SELECTION}.svg is left out: {bench.workshop.work} has no run of it; '{asked}' makes it")
    return draw_figures(bench.results.parent / FIGURES, evidence, picture, bench.notify)
