"""Sheets of figures: a title, lines of words below it, a legend, and room for axes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from ltgcd.output.report.k_plot import INK, MUTED

WIDTH = 7.0  # inches: 672 px as SVG
LINE = 112  # letters of a line below the title


def sheet(title: str, words: Sequence[str], height: float, marks: Sequence[Any] = ()) -> Any:  # noqa: ANN401
    """An empty figure with its title, lines of words below it, and a legend; `height` inches are left for the axes."""
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

    words = [line for said in words for line in textwrap.wrap(said, LINE)]
    head = 0.36 + 0.19 * len(words) + (0.26 if marks else 0.0)
    whole = height + head
    layout = ConstrainedLayoutEngine(rect=(0, 0, 1, height / whole), hspace=0.04, wspace=0.03)
    figure: Any = Figure(figsize=(WIDTH, whole), layout=layout)
    figure.text(0.012, 1 - 0.1 / whole, title, fontsize=13, fontweight="bold", color=INK, va="top")
    for line, said in enumerate(words):
        figure.text(0.012, 1 - (0.37 + 0.19 * line) / whole, said, fontsize=8.5, color=MUTED, va="top")
    if marks:
        at = {"loc": "upper left", "bbox_to_anchor": (0.0, 1 - (head - 0.3) / whole)}
        figure.legend(
            handles=marks, ncols=len(marks), frameon=False, fontsize=8.5, labelcolor=INK, columnspacing=1.6,
            handletextpad=0.6, handlelength=2.4, **at,
        )  # fmt: skip
    return figure


def stacked(
    title: str,
    words: Sequence[str],
    found: Sequence[tuple[Any, Sequence[Any]]],
    across: int,
    inches: float,
    marks: Sequence[Any] = (),
) -> tuple[Any, Any]:
    """A figure with a line of axes for each dataset, as high as it has methods."""
    heights = [0.75 + inches * len(rows) for _, rows in found]
    figure = sheet(title, words, sum(heights), marks)
    grid = figure.subplots(
        len(found), across, squeeze=False, sharex="all", sharey="row", gridspec_kw={"height_ratios": heights}
    )
    return figure, grid


def headed(axes: Any, first: bool, dataset: str, words: str) -> None:  # noqa: ANN401
    """Title of one of several axes, and the dataset before the first."""
    axes.set_title(words, loc="left", fontsize=9, color=INK)
    axes.tick_params(labelbottom=True)
    if first:
        axes.annotate(dataset, (0, 1), xycoords=("figure fraction", "axes fraction"), xytext=(6, 6),
                      textcoords="offset points", fontsize=9.5, fontweight="bold", color=INK)  # fmt: skip


def mark(label: str, **style: Any) -> Any:  # noqa: ANN401
    """An entry of a legend."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    return Line2D([], [], **{"label": label, "ls": "", "ms": 6, "lw": 1.6, **style})
