"""The figures of ``RESULTS.md``, drawn from finished cells; the map of the selection also from the features of a run.

Equal records give equal files. matplotlib is the ``plot`` extra and is imported only when something is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ltgcd.bench.density_map import DensityMap, density_map, draw_density_map
from ltgcd.bench.render import GROUPS, Records
from ltgcd.bench.results import read_records
from ltgcd.bench.runner import FIGURES, Bench
from ltgcd.bench.tables import Column, Row, Setting, Table, cell_of, regime_of, setting_of
from ltgcd.errors import InputError
from ltgcd.pipeline import Notify, silent
from ltgcd.report.k_plot import BLUE, INK, MUTED, draw_curve
from ltgcd.storage import atomic_path

OLD, NEW = BLUE, "#d55e00"  # they differ in lightness too, for eyes that see no red or no green
THIRDS = {"many": "#0b3c5d", "medium": "#4f94c8", "few": "#b9d7ee"}
GRID = "#e6eaee"
WIDTH = 7.0  # inches: 672 px as SVG
MAP = ("cifar100", "ltgcd")  # dataset and row of the main table whose run is mapped
METHODS = ("simgcd", "ltgcd")  # rows of the main table that the teaser compares
CURVES = ("cifar100-80+20-10", "cifar100-80+0", "cifar100-30+70", "plankton-60+61", "plankton-60+0", "plankton-30+91")
Found = list[tuple[Column, list[tuple[Row, list[dict[str, Any]]]]]]
LOG_FROM = 30  # largest over smallest class from which sizes are on a log scale


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

    def by_dataset(self, name: str) -> Found:
        """Datasets of a table that have finished cells, each with its rows that have some."""
        table = self.tables.get(name)
        shown: Found = []
        for column in table.columns if table else ():
            rows = [(row, self.of(table, column, row)) for row in table.rows] if table else []
            if rows := [one for one in rows if one[1]]:
                shown.append((column, rows))
        return shown

    def words(self, regime: str | None = None) -> str:
        """Backbone and regime, for the line below a title."""
        setting = setting_of(self.settings, self.backbone)
        said = f"{setting.title}, {regime or regime_of(setting, self.regime)}"
        return said if setting.name == "dino_vitb16" else f"{said}: not the paper's DINO features"


# ---------------------------------------------------------------- means


def thirds_of(records: Sequence[dict[str, Any]], group: str) -> list[float]:
    """Recall of the many, medium and few classes of a group in percent, mean over seeds; NaN where there is none."""
    return [_mean(record["many_medium_few"][group][third] for record in records) for third in THIRDS]


def mistaken(records: Sequence[dict[str, Any]]) -> list[float]:
    """Percent of the Old items that are taken for new and of the New ones taken for old, mean over seeds."""
    wrong = {"old": "as_new", "new": "as_old"}
    shares = [[(r["confusion"][g][w], sum(r["confusion"][g].values())) for r in records] for g, w in wrong.items()]
    return [_mean(100 * part / whole if whole else None for part, whole in group) for group in shares]


def _mean(values: Iterable[float | None]) -> float:
    held = [value for value in values if value is not None]
    return float(np.mean(held)) if held else float("nan")


# ---------------------------------------------------------------- axes


def draw_sizes(axes: Any, counts: Sequence[Sequence[int]]) -> None:  # noqa: ANN401 - matplotlib is optional
    """Unlabelled items of each class as bars, largest first, Old and New coloured; labelled items as dots.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    counts : sequence of [labelled, unlabelled, 1 if Old]
        A class each, by falling unlabelled size.
    """
    rank = np.arange(1, len(counts) + 1)
    labelled, unlabelled, old = np.array(counts).T
    axes.bar(rank, unlabelled, width=1.0, color=[OLD if one else NEW for one in old], lw=0)
    axes.plot(rank[labelled > 0], labelled[labelled > 0], ls="", marker="o", ms=2.4, mew=0.6, mec="white", color=INK)
    axes.set_xlim(0.5, len(counts) + 0.5)
    axes.set_xlabel("classes, the largest first", color=INK, fontsize=9)
    if unlabelled.max() > LOG_FROM * max(unlabelled.min(), 1):
        axes.set_yscale("log")
        axes.set_ylim(bottom=1)
        axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylabel("items" + (", log scale" if axes.get_yscale() == "log" else ""), color=INK, fontsize=9)
    _plain(axes)


def draw_tail(axes: Any, found: dict[str, list[dict[str, Any]]]) -> None:  # noqa: ANN401
    """Recall by third of the Old and of the New classes: SimGCD open and dashed, ours filled; a bar spans the seeds."""
    at = np.arange(3)
    for method, records in found.items():
        for group, colour in (("old", OLD), ("new", NEW)):
            ours = method == METHODS[1]
            style = {"ls": "-", "mfc": colour} if ours else {"ls": (0, (3, 2)), "mfc": "white"}
            axes.plot(at, thirds_of(records, group), color=colour, marker="o", ms=5, lw=1.6, zorder=3, **style)
            spread = np.array([thirds_of([record], group) for record in records])
            if len(records) > 1:
                shift = 0.03 if ours else -0.03
                axes.vlines(at + shift, spread.min(axis=0), spread.max(axis=0), color=colour, lw=0.9, zorder=2)
    if not found:
        axes.text(0.5, 0.5, "not run yet", transform=axes.transAxes, ha="center", color=MUTED, fontsize=9)
    axes.set_xticks(at, ["many\n(largest third)", "medium", "few\n(smallest third)"])
    axes.set_xlim(-0.3, 2.3)
    axes.set_ylim(0, 100 if not found else None)
    axes.set_ylabel("recall (%)", color=INK, fontsize=9)
    _plain(axes)


def draw_bars(axes: Any, names: Sequence[str], values: Any, colours: Sequence[str], *, labels: bool = False) -> None:  # noqa: ANN401
    """Horizontal bars in groups: a group for each name from the top, a bar for each column of `values` (M, B)."""
    values = np.asarray(values, dtype=float)
    height = 0.8 / values.shape[1]
    for column, colour in enumerate(colours):
        at = np.arange(len(names)) - 0.4 + height * (column + 0.5)
        axes.barh(at, values[:, column], height=height, color=colour, lw=0)
        for y, value in zip(at, values[:, column], strict=True) if labels else ():
            if not np.isnan(value):
                beside = {"xytext": (3, 0), "textcoords": "offset points", "va": "center"}
                axes.annotate(f"{value:.1f}", (value, y), fontsize=7.5, color=INK, **beside)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    _plain(axes, "x")
    axes.tick_params(axis="y", length=0, colors=INK)
    axes.spines["left"].set_visible(False)


def draw_estimate(axes: Any, record: dict[str, Any], title: str) -> None:  # noqa: ANN401
    """The curve of a finished estimate (`ltgcd.report.k_plot.draw_curve`), with the true K."""
    true, k = record["k_true"], record["k"]
    known = {} if record.get("known_share") is None else {"known_share": record["known_share"]}
    parts = {name: record.get(name) for name in ("k", "low", "high", "n_old", "curve")}
    draw_curve(axes, {"method": record["cell"]["method"], "evidence": known, **parts})
    axes.axvline(true, color=NEW, lw=1.6, ls=(0, (2, 1.5)), zorder=2.5)
    left, right = axes.get_xlim()
    room = 0.16 * (right - left)  # for the words beside the line
    left, right = min(left, true - room), max(right, true + room)
    axes.set_xlim(left, right)
    side = 1 if true >= k else -1
    beside = {"xytext": (4 * side, -3), "textcoords": "offset points", "ha": "left" if side > 0 else "right"}
    top = {"xycoords": ("data", "axes fraction"), "va": "top"}
    axes.annotate(f"true {true}", (true, 1), fontsize=8.5, color=NEW, zorder=4, **beside, **top)
    axes.set_title("", loc="right")
    axes.set_title(title, loc="left", fontsize=9.5, fontweight="bold", color=INK)
    axes.set_xlabel("number of classes", color=INK, fontsize=9)
    axes.set_ylabel("")
    axes.tick_params(labelsize=8)


def _plain(axes: Any, grid: str = "y") -> None:  # noqa: ANN401
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    axes.tick_params(colors=MUTED, labelsize=8)
    axes.grid(axis=grid, color=GRID, lw=0.8)
    axes.set_axisbelow(True)


# ---------------------------------------------------------------- figures


def long_tail(evidence: Evidence) -> Any:  # noqa: ANN401
    """Class sizes, and below them what SimGCD and our method make of the tail."""
    sizes = {column.id: (column, rows[0][1][0]) for column, rows in evidence.by_dataset("statistics")}
    recalls = {
        column.id: {row.id: found for row, found in rows if row.id in METHODS}
        for column, rows in evidence.by_dataset("main")
    }
    shown = [name for name, (_, record) in sizes.items() if len(record["counts"][0]) == 3]
    if not shown:
        return None
    marks = [
        _mark("Old classes", color=OLD, marker="s"),
        _mark("New classes", color=NEW, marker="s"),
        _mark("labelled items", color=INK, marker="o", ms=4),
        _mark("SimGCD", color=MUTED, marker="o", ls=(0, (3, 2)), mfc="white"),
        _mark("ours", color=MUTED, marker="o", ls="-"),
    ]
    blocks = -(-len(shown) // 2)
    told = f"Below: mean recall of thirds of the Old and of the New classes. {evidence.words()}"
    figure = _figure("The long tail, and who loses it", [told], 5.0 * blocks, marks)
    grid = figure.subplots(2 * blocks, 2, squeeze=False)
    for place, name in enumerate(shown):
        column, record = sizes[name]
        upper, lower = grid[place // 2 * 2, place % 2], grid[place // 2 * 2 + 1, place % 2]
        draw_sizes(upper, record["counts"])
        upper.set_title(_plain_title(column), loc="left", fontsize=10, fontweight="bold", color=INK)
        draw_tail(lower, recalls.get(name, {}))
    for place in range(len(shown), 2 * blocks):
        grid[place // 2 * 2, place % 2].set_axis_off()
        grid[place // 2 * 2 + 1, place % 2].set_axis_off()
    return figure


def k_curves(evidence: Evidence) -> Any:  # noqa: ANN401
    """Curves of our estimate of K on a few problems."""
    found = {
        column.id: (column, records[0])
        for column, rows in evidence.by_dataset("class_number_grid")
        for row, records in rows
        if row.method == "peaks"
    }
    shown = [found[name] for name in CURVES if name in found and found[name][1].get("curve")]
    if not shown:
        return None
    marks = [
        _mark("estimate", color=INK, ls="-"),
        _mark("90 % interval", color="#b9d2ea", marker="s"),
        _mark("true number", color=NEW, ls=(0, (2, 1.5))),
        _mark("known classes", color=MUTED, ls=(0, (4, 3))),
    ]
    lines = -(-len(shown) // 2)
    told = f"Old + new classes, data seed {shown[0][1]['cell']['seed']}. {evidence.words('frozen')}"
    figure = _figure("How many classes? The likelihood of each number", [told], 2.1 * lines, marks)
    grid = figure.subplots(lines, 2, squeeze=False).ravel()
    for axes, (column, record) in zip(grid, shown, strict=False):
        draw_estimate(axes, record, column.title)
    for axes in grid[len(shown) :]:
        axes.set_axis_off()
    figure.supylabel("mean log-likelihood of the unlabelled items", fontsize=9, color=INK)
    return figure


def frequency(evidence: Evidence) -> Any:  # noqa: ANN401
    """Recall of the many, medium and few classes by method."""
    found = evidence.by_dataset("main")
    if not found:
        return None
    told = f"Thirds of the classes by unlabelled size; {_seeds(found)}. {evidence.words()}"
    marks = [_mark(third, color=colour, marker="s") for third, colour in THIRDS.items()]
    figure, grid = _stacked("Recall by class frequency", told, found, 3, 0.34, marks)
    for line, (column, rows) in zip(grid, found, strict=True):
        for axes, group in zip(line, GROUPS, strict=True):
            values = [thirds_of(records, group) for _, records in rows]
            draw_bars(axes, [row.title for row, _ in rows], values, list(THIRDS.values()))
            _headed(axes, group == "all", _plain_title(column), f"{group.title()} classes")
            axes.set_xlabel("recall (%)", color=INK, fontsize=8.5)
    return figure


def confusion(evidence: Evidence) -> Any:  # noqa: ANN401
    """Share of the Old items that are taken for new ones and the reverse, by method."""
    found = evidence.by_dataset("main")
    if not found:
        return None
    told = f"Unlabelled items, at the true K; {_seeds(found)}. {evidence.words()}"
    figure, grid = _stacked("Old taken for new, and new for old", told, found, 2, 0.2)
    for line, (column, rows) in zip(grid, found, strict=True):
        values = np.array([mistaken(records) for _, records in rows])
        parts = (("Old items taken for new", OLD), ("New items taken for old", NEW))
        for place, (axes, (words, colour)) in enumerate(zip(line, parts, strict=True)):
            draw_bars(axes, [row.title for row, _ in rows], values[:, [place]], [colour], labels=True)
            _headed(axes, place == 0, _plain_title(column), words)
            axes.set_xlabel("share of the items (%)", color=INK, fontsize=8.5)
            axes.set_xlim(0, 108)
            axes.set_xticks(range(0, 101, 25))
    return figure


# ---------------------------------------------------------------- sheets


def _figure(title: str, words: Sequence[str], height: float, marks: Sequence[Any] = ()) -> Any:  # noqa: ANN401
    """An empty figure with its title, lines of words below it, and a legend; `height` inches are left for the axes."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    head = 0.36 + 0.19 * len(words) + (0.26 if marks else 0.0)
    whole = height + head
    figure = Figure(figsize=(WIDTH, whole), layout="constrained")
    figure.get_layout_engine().set(rect=(0, 0, 1, height / whole), hspace=0.04, wspace=0.03)
    figure.text(0.012, 1 - 0.1 / whole, title, fontsize=13, fontweight="bold", color=INK, va="top")
    for line, said in enumerate(words):
        figure.text(0.012, 1 - (0.37 + 0.19 * line) / whole, said, fontsize=8.5, color=MUTED, va="top")
    if marks:
        at = {"loc": "upper left", "bbox_to_anchor": (0.0, 1 - (head - 0.3) / whole)}
        figure.legend(
            handles=marks, ncols=len(marks), frameon=False, fontsize=8.5, labelcolor=INK, columnspacing=1.6,
            handletextpad=0.6, handlelength=1.8, **at,
        )  # fmt: skip
    return figure


def _stacked(
    title: str, told: str, found: Found, across: int, inches: float, marks: Sequence[Any] = ()
) -> tuple[Any, Any]:
    """A figure with a line of axes for each dataset, as high as it has methods."""
    heights = [0.75 + inches * len(rows) for _, rows in found]
    figure = _figure(title, [told], sum(heights), marks)
    grid = figure.subplots(
        len(found), across, squeeze=False, sharex="all", sharey="row", gridspec_kw={"height_ratios": heights}
    )
    return figure, grid


def _headed(axes: Any, first: bool, dataset: str, words: str) -> None:  # noqa: ANN401
    axes.set_title(words, loc="left", fontsize=9, color=INK)
    if first:
        axes.annotate(dataset, (0, 1), xycoords=("figure fraction", "axes fraction"), xytext=(6, 6),
                      textcoords="offset points", fontsize=9.5, fontweight="bold", color=INK)  # fmt: skip


def _mark(label: str, **style: Any) -> Any:  # noqa: ANN401
    from matplotlib.lines import Line2D  # noqa: PLC0415

    return Line2D([], [], **{"label": label, "ls": "", "ms": 6, "lw": 1.6, **style})


def _plain_title(column: Column) -> str:
    return column.title.partition(" (")[0]


def _seeds(found: Found) -> str:
    numbers = {len(records) for _, rows in found for _, records in rows}
    low, high = min(numbers), max(numbers)
    return f"mean over {low if low == high else f'{low} to {high}'} data seed{'s' if high > 1 else ''}"


# ---------------------------------------------------------------- all of them


DRAWN: dict[str, tuple[Callable[[Evidence], Any], str]] = {
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
    try:
        from matplotlib import rc_context  # noqa: PLC0415
    except ImportError:
        raise InputError("The figures need matplotlib; install it with: pip install 'ltgcd[plot]'.") from None
    written: list[Path] = []
    # Without a date and with a fixed salt for names, the same records give the same file.
    with rc_context({"svg.hashsalt": "ltgcd", "svg.fonttype": "none"}):
        for name, (draw, table) in DRAWN.items():
            figure = draw(evidence)
            if figure is None:
                notify(f"{name}.svg is left out: no cell is finished; run 'ltgcd bench {table}' first")
            else:
                written.append(_saved(figure, folder / f"{name}.svg"))
        if picture is not None:
            sheet = _figure("Density selection, on real items", [*picture.words, evidence.words("frozen")], 6.6)
            draw_density_map(sheet, picture)
            written.append(_saved(sheet, folder / "density-selection.svg"))
    return written


def _saved(figure: Any, path: Path) -> Path:  # noqa: ANN401
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="svg", dpi=200, metadata={"Date": None})
    return path


def write_figures(bench: Bench, seeds: int = 3, backbone: str | None = None, regime: str | None = None) -> list[Path]:
    """Draw the figures of a bench into the folder beside its results; the map from the run of our method, seed 0."""
    evidence = Evidence(bench.tables, bench.settings, read_records(bench.results), seeds, backbone, regime)
    picture, main = None, bench.tables.get("main")
    column = next((c for c in main.columns if c.id == MAP[0]), None) if main else None
    row = next((r for r in main.rows if r.id == MAP[1]), None) if main else None
    if main and column and row:
        cell = cell_of(main, column, row, bench.settings, backbone, "frozen", 0)
        run = bench.workshop.work / "runs" / cell.key
        if (run / "model.toml").is_file():
            bench.notify(f"mapping the items of {column.title}")
            picture = density_map(bench.workshop.prepared(cell), run, cell, column.title)
    if picture is None:
        asked = f"ltgcd bench main --only {MAP[0]} --only {MAP[1]} --regime frozen --seeds 1"
        bench.notify(f"density-selection.svg is left out: {bench.workshop.work} has no run of it; '{asked}' makes it")
    return draw_figures(bench.results.parent / FIGURES, evidence, picture, bench.notify)
