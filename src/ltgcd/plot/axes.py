"""Charts on axes: arrays in, marks on given axes out; nothing here knows what a model or a run is.

matplotlib is the ``plot`` extra, so that axes have no type here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltgcd.output.report.k_plot import BLUE, INK, MUTED

OLD, NEW = BLUE, "#d55e00"  # they differ in lightness too, for eyes that see no red or no green
PALE = "#c3ccd4"
GRID = "#e6eaee"
LOG_FROM = 30  # largest over smallest class from which sizes are on a log scale
FEW = 40  # classes up to which bars stand apart
NUMBERED = 16  # classes up to which a table of confusions has its counts written in


def draw_sizes(axes: Any, counts: Sequence[Sequence[int]]) -> None:  # noqa: ANN401
    """Items of each class as bars, largest first, known and novel coloured; labelled items as dots.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    counts : sequence of [labelled, items, 1 if known]
        A class each, by falling number of items.
    """
    rank = np.arange(1, len(counts) + 1)
    labelled, items, known = np.array(counts).T
    colours = [OLD if one else NEW for one in known]
    many = len(counts) > FEW
    # Edges leave no gap between many bars.
    axes.bar(rank, items, width=1.0 if many else 0.86, color=colours, edgecolor=colours, lw=0.3 if many else 0)
    dots = {"ls": "", "marker": "o", "ms": 2.4 if many else 5, "mew": 0.6 if many else 1, "mec": "white", "color": INK}
    axes.plot(rank[labelled > 0], labelled[labelled > 0], **dots)
    axes.set_xlim(0.5, len(counts) + 0.5)
    axes.set_xlabel("classes, the largest first", color=INK, fontsize=9)
    if items.max() > LOG_FROM * max(items.min(), 1):
        axes.set_yscale("log")
        axes.set_ylim(bottom=1)
        axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylabel("items" + (", log scale" if axes.get_yscale() == "log" else ""), color=INK, fontsize=9)
    plain(axes)


def draw_map(axes: Any, xy: NDArray[np.floating], status: NDArray[np.str_]) -> None:  # noqa: ANN401
    """Items at their places (N, 2), coloured by their status (N,); unsure ones are pale and lie below the others."""
    size = float(np.clip(3e4 / max(len(xy), 1), 1.5, 26))
    for name, colour in (("unsure", PALE), ("known", OLD), ("novel", NEW)):
        rows = status == name
        if rows.any():
            label = f"{name} ({int(rows.sum()):,})"
            axes.scatter(xy[rows, 0], xy[rows, 1], s=size, c=colour, lw=0, alpha=0.8, label=label, rasterized=True)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


def draw_reliability(axes: Any, bins: Sequence[tuple[float, float, float]]) -> None:  # noqa: ANN401
    """Share that is right against the confidence, a dot for each bin (confidence, right, share of all items)."""
    confidence, right, share = 100 * np.array(bins).T
    axes.plot([0, 100], [0, 100], color=MUTED, lw=1, ls=(0, (4, 3)), zorder=1)
    axes.vlines(confidence, confidence, right, color=PALE, lw=1.5, zorder=2)
    axes.scatter(confidence, right, s=30 + 4 * share, color=OLD, edgecolor="white", lw=0.8, zorder=3)
    axes.set_xlim(0, 102)
    axes.set_ylim(0, 102)
    axes.set_aspect("equal")
    axes.set_xlabel("confidence (%)", color=INK, fontsize=9)
    axes.set_ylabel("of these, right (%)", color=INK, fontsize=9)
    plain(axes, "both")


def draw_confusion(axes: Any, counts: NDArray[np.integer], rows: Sequence[str], columns: Sequence[str]) -> None:  # noqa: ANN401
    """Counts (R, C) as a table of shares of each row, dark where many; numbers too where they can be read."""
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    if max(len(rows), len(columns) - 1) <= NUMBERED:
        for (row, column), n in np.ndenumerate(counts):
            if n:
                ink = "white" if share[row, column] > 0.55 else INK
                axes.text(column, row, f"{n:,}", ha="center", va="center", fontsize=8, color=ink)
        axes.set_xticks(range(len(columns)), columns, rotation=45, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(rows)), rows)
    axes.set_xlabel("the model says", color=INK, fontsize=9)
    axes.set_ylabel("people say", color=INK, fontsize=9)
    axes.spines[:].set_visible(False)
    axes.tick_params(colors=INK, labelsize=8, length=0)


def draw_progress(
    axes: Any,  # noqa: ANN401
    settled: Sequence[int],
    unsure: Sequence[int],
    refits: Sequence[int],
) -> None:
    """Items that people have settled, and those that are unsure, after 0, 1, 2, … actions; lines where it was refitted.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    settled, unsure : sequences of int
        Numbers of items before the first action and after each one.
    refits : sequence of int
        Numbers of actions after which everything was fitted again.
    """
    at = np.arange(len(settled))
    for place, values, colour, words in ((at, settled, OLD, "settled by people"), (at, unsure, MUTED, "unsure")):
        axes.plot(place, values, color=colour, lw=1.8, drawstyle="steps-post", label=words)
    for action in refits:
        axes.axvline(action, color=NEW, lw=1, ls=(0, (3, 2)), label="refitted" if action == refits[0] else None)
    axes.set_xlim(0, 1.02 * max(len(settled) - 1, 1))
    axes.set_ylim(bottom=0)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("actions", color=INK, fontsize=9)
    axes.set_ylabel("items", color=INK, fontsize=9)
    plain(axes)


def headed(axes: Any, title: str, words: str = "") -> None:  # noqa: ANN401
    """A title at the left, and a quieter line of words at the right of it."""
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)
    if words:
        axes.set_title(words, loc="right", fontsize=8.5, color=MUTED)


def plain(axes: Any, grid: str = "y") -> None:  # noqa: ANN401
    """Quiet axes: no frame but for the left and the lower line, pale lines along `grid` behind the marks."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    axes.tick_params(colors=MUTED, labelsize=8)
    axes.grid(axis=grid, color=GRID, lw=0.8)
    axes.set_axisbelow(True)
