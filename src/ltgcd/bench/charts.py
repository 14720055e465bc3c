"""What the figures of a bench are made of: means over seeds, and functions that draw them on axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ltgcd.output.report.k_plot import INK, MUTED, draw_curve
from ltgcd.plot.axes import NEW, OLD, plain

THIRDS = {"many": "#0b3c5d", "medium": "#4f94c8", "few": "#b9d7ee"}
METHODS = ("simgcd", "ltgcd")  # rows of the main table that the teaser compares


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


def draw_tail(axes: Any, found: dict[str, list[dict[str, Any]]]) -> None:  # noqa: ANN401
    """Recall by third of the Old and of the New classes: SimGCD open and dashed, ours filled; lines span the seeds."""
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
    plain(axes)


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
    plain(axes, "x")
    axes.tick_params(axis="y", length=0, colors=INK)
    axes.spines["left"].set_visible(False)


def draw_estimate(axes: Any, record: dict[str, Any], title: str) -> None:  # noqa: ANN401
    """The curve of a finished estimate (`ltgcd.output.report.k_plot.draw_curve`), with the true K."""
    true = record["k_true"]
    known = {} if record.get("known_share") is None else {"known_share": record["known_share"]}
    parts = {name: record.get(name) for name in ("k", "low", "high", "n_old", "curve")}
    draw_curve(axes, {"method": record["cell"]["method"], "evidence": known, **parts})
    for words in list(axes.texts):  # here the lines have a legend, and the numbers a line of their own
        words.remove()
    axes.axvline(true, color=NEW, lw=1.6, ls=(0, (2, 1.5)), zorder=2.5)
    left, right = axes.get_xlim()
    axes.set_xlim(min(left, true - 2), max(right, true + 2))
    axes.set_title("", loc="right")
    axes.set_title(title, loc="left", fontsize=9.5, fontweight="bold", color=INK, pad=16)
    interval = "" if record.get("low") is None else f" ({record['low']} to {record['high']})"
    at = {"xycoords": "axes fraction", "xytext": (0, 4), "textcoords": "offset points"}
    axes.annotate(f"estimate {record['k']}{interval}, true {true}", (0, 1), fontsize=8.5, color=INK, **at)
    axes.set_xlabel("number of classes", color=INK, fontsize=9)
    axes.set_ylabel("")
    axes.tick_params(labelsize=8)
