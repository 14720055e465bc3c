"""Charts of a fitted model or a run, as matplotlib axes.

Every function takes a fitted `ltgcd.CategoryDiscovery`, a `ltgcd.Run` or the path of a run directory, draws on the axes
that it is given or on new ones, and returns them: go on with them as matplotlib does.

>>> from ltgcd import plot
>>> axes = plot.sizes("runs/photos")                  # doctest: +SKIP
>>> axes.figure.savefig("sizes.png")                  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ltgcd.common.errors import InputError
from ltgcd.output.report.k_plot import INK, draw_curve, repeatable
from ltgcd.plot.axes import (
    NEW,
    OLD,
    draw_confusion,
    draw_map,
    draw_progress,
    draw_reliability,
    draw_sizes,
    headed,
)
from ltgcd.plot.shown import Plotted, confusion_of, progress_of, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["class_number", "confusion", "map", "progress", "reliability", "sizes"]


def sizes(what: Plotted, ax: Axes | None = None) -> Axes:
    """Draw how many items each class has, by rank: the long tail.

    Unsure items and junk are in no bar. A dot is the number of labelled items of a class.

    Parameters
    ----------
    what : CategoryDiscovery, Run or path
        A fitted model or a run.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default new axes.
    """
    seen = shown(what)
    counts = seen.counts()
    axes = _axes(ax, (6.4, 3.4))
    draw_sizes(axes, counts)
    known = sum(row[2] for row in counts)
    headed(axes, f"{known:,} known classes, {len(counts) - known:,} novel", _unsure(seen.status.tolist()))
    marks = [("known", OLD, "s"), ("novel", NEW, "s"), ("labelled items", INK, "o")]
    handles = [axes.plot([], [], ls="", marker=m, ms=5, color=colour, label=words)[0] for words, colour, m in marks]
    axes.legend(handles=handles, frameon=False, fontsize=8, loc="upper right")
    return axes


def map(what: Plotted, ax: Axes | None = None) -> Axes:
    """Draw every item in the plane, near what is like it: known, novel and unsure.

    A run's items are where its page has them.

    Parameters
    ----------
    what : CategoryDiscovery, Run or path
        A fitted model, or a run that keeps its features, as those of ``ltgcd discover`` do.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default new axes.
    """
    seen = shown(what)
    places = seen.places()
    axes = _axes(ax, (6.0, 5.2))
    draw_map(axes, places, seen.status)
    headed(axes, f"{len(places):,} items")
    axes.legend(frameon=False, fontsize=8, loc="upper right", markerscale=1.6)
    return axes


def reliability(what: Plotted, ax: Axes | None = None) -> Axes:
    """Draw how often labels of a confidence were right, in rehearsals with some of your labels hidden.

    On the dashed line a confidence is worth what it says: of items marked 80 %, 80 in 100 are right.

    Parameters
    ----------
    what : CategoryDiscovery, Run or path
        A fitted model or a run whose confidences were rehearsed, as ``ltgcd discover`` does.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default new axes.
    """
    learnt = shown(what).calibration()
    if learnt is None:
        raise InputError(
            "Nothing was rehearsed, so nobody knows how often labels are right; fit with rehearsals (ltgcd train "
            "--rehearsals 4), and with 30 labelled items or more."
        )
    if not learnt.reliability:
        raise InputError("This run was made by an older ltgcd that did not keep the curve; discover it again.")
    axes = _axes(ax, (4.6, 4.6))
    draw_reliability(axes, learnt.reliability)
    headed(axes, f"Off by {100 * learnt.error:.1f} %", f"{100 * learnt.chance:.1f} % by chance alone")
    return axes


def class_number(what: Plotted, ax: Axes | None = None) -> Axes:
    """Draw the estimated number of classes with its interval, and the score of every number that was looked at.

    Parameters
    ----------
    what : CategoryDiscovery, Run or path
        A fitted model or a run whose number of classes was estimated.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default new axes.
    """
    estimate = shown(what).estimate
    if estimate is None:
        raise InputError("The number of classes was given, not estimated; fit without it to see the estimate.")
    if not estimate.get("curve"):
        raise InputError("The estimate keeps no curve, so there is nothing to draw.")
    axes = _axes(ax, (6.4, 3.6))
    draw_curve(axes, estimate)
    return axes


def confusion(what: Plotted, ax: Axes | None = None, *, answers: Sequence[Any] | None = None) -> Axes:
    """Draw which known classes are taken for which, as a table: what people say against what the model says.

    Parameters
    ----------
    what : CategoryDiscovery, Run or path
        A fitted model, or a run that keeps its features, as those of ``ltgcd discover`` do.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default new axes.
    answers : sequence, length N, optional
        What is right, for some of the items that came without a label; None for the others. Without it the labelled
        items are looked at, which the model was fitted with: it mixes up more among the others.
    """
    found = confusion_of(shown(what), answers)
    n = len(found.names)
    side = min(2.4 + 0.36 * n, 9.0)
    axes = _axes(ax, (side + 0.8, side))
    draw_confusion(axes, found.counts, found.names, [*found.names, "novel"])
    right = int(found.counts.diagonal().sum())
    title = f"{right:,} of {int(found.counts.sum()):,} in their class"
    headed(axes, title)
    if found.learnt_from:
        axes.set_xlabel("the model says, of the items that it was fitted with", color=INK, fontsize=9)
    return axes


def progress(what: Plotted, ax: Axes | None = None) -> Axes:
    """Draw the course of a review: items that people have settled and items that are unsure, action by action.

    Parameters
    ----------
    what : Run or path
        A run that has been reviewed, on its page or with ``ltgcd relabel``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default new axes.
    """
    course = progress_of(shown(what))
    axes = _axes(ax, (6.4, 3.4))
    draw_progress(axes, *course)
    headed(axes, f"{course.settled[-1]:,} items settled", f"{len(course.settled) - 1:,} actions")
    axes.legend(frameon=False, fontsize=8, loc="best")
    return axes


def _axes(ax: Axes | None, inches: tuple[float, float]) -> Axes:
    """The axes that were given, or new ones of this size; a sentence where matplotlib is not there."""
    if ax is not None:
        return ax
    repeatable()
    from matplotlib import pyplot  # noqa: PLC0415 - optional

    return pyplot.subplots(figsize=inches, layout="constrained")[1]


def _unsure(status: list[str]) -> str:
    n = status.count("unsure")
    return f"{n:,} items are unsure" if n else ""
