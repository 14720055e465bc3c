"""The figure of the summary: All and New of every method on every dataset, beside the paper's figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ltgcd.bench.places import Place
from ltgcd.bench.sheets import mark, sheet
from ltgcd.bench.summary import OURS
from ltgcd.output.report.k_plot import INK, MUTED
from ltgcd.plot.axes import GRID, NEW
from ltgcd.plot.axes import OLD as ALL

MEASURES = ((0, ALL, "o"), (2, NEW, "s"))  # of All, Old, New: place, colour, and a shape for eyes that see no colours


def draw_summary(held: Sequence[Place]) -> Any:  # noqa: ANN401 - matplotlib is optional
    """One panel a dataset with its features: dots are means over seeds, lines their range, open marks the paper's.

    None where nothing was run.
    """
    if not held:
        return None
    marks = [
        mark("All", color=ALL, marker="o"),
        mark("New", color=NEW, marker="s"),
        mark("the paper, on its own features", color=MUTED, marker="o", mfc="white"),
    ]
    words = (
        "Accuracy in percent at the true number of classes, mean and range over data seeds; not the paper's features"
    )
    down = -(-len(held) // 2)
    most = max(len(place.rows()) for place in held)
    figure = sheet("Which method is best on what", [words], (0.6 + 0.21 * most) * down, marks)
    grid = figure.subplots(down, 2, squeeze=False, sharex="all").ravel()
    for axes, place in zip(grid, held, strict=False):
        _panel(axes, place)
    for axes in grid[len(held) :]:
        axes.set_axis_off()
    return figure


def _panel(axes: Any, place: Place) -> None:  # noqa: ANN401
    rows = place.rows()
    for line, row in enumerate(rows):
        for at, colour, shape in MEASURES:
            values = [value for values in place.found[row.id].values if (value := values[at]) is not None]
            axes.plot([min(values), max(values)], [line, line], color=colour, lw=1.4, zorder=2)
            axes.plot(place.mean(row.id, at), line, color=colour, marker=shape, ms=5, ls="", zorder=3)
            if said := row.paper.get(place.column.id):
                style = {"mfc": "white", "mec": colour, "mew": 1.0, "ms": 4.5, "alpha": 0.75}
                axes.plot(said[at], line, marker=shape, ls="", zorder=2.5, **style)
    axes.set_yticks(range(len(rows)), [row.title for row in rows])
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_fontweight("bold" if row.id == OURS else "normal")
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 100)
    # It begins over the names of the rows, for the longest ones need more room than the axis has.
    title = f"{place.title}, {place.features}"
    axes.set_title(title, loc="left", x=-0.25, fontsize=9.5, fontweight="bold", color=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.tick_params(colors=INK, labelsize=7.5, length=0, labelbottom=True)
    axes.grid(color=GRID, lw=0.8)
    axes.set_axisbelow(True)
