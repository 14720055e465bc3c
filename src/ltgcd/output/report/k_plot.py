"""The curve of a class-number estimate, with the estimate and its interval, as a picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ltgcd.common.errors import InputError
from ltgcd.common.outputs import check_output, output_path

FORMATS = (".png", ".svg")
INK, MUTED, BLUE, BAND = "#1f2933", "#66727f", "#1565a8", "#d6e6f4"
DOTS = 40  # a curve of more points is drawn without a dot at each


def repeatable() -> Any:  # noqa: ANN401 - matplotlib is optional
    """Settings under which the same figure gives the same file, or a sentence where matplotlib is not there."""
    try:
        from matplotlib import rc_context  # noqa: PLC0415
    except ImportError:
        raise InputError("A plot needs matplotlib; install it with: pip install 'ltgcd[plot]'.") from None
    # With a fixed salt for names, and without a date where it is saved.
    return rc_context({"svg.hashsalt": "ltgcd", "svg.fonttype": "none"})


def k_plotter(path: Path, sources: tuple[Path | None, ...] = ()) -> Callable[[dict[str, Any]], None]:
    """What draws a result of ``estimate-k`` into `path`; refuses at once what could not be drawn after the work.

    Parameters
    ----------
    path : path
        A .png or .svg; only a plot that ltgcd made itself is replaced.
    sources : tuple of paths
        What the estimate is read from: never written to.
    """
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise InputError(f"A plot is written as .png or .svg, but not as '{path.name}'.")
    check_output(path, "plot", sources)
    repeatable()

    def draw(result: dict[str, Any]) -> None:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional

        with repeatable(), output_path(path, "plot") as temporary:
            figure = Figure(figsize=(7.0, 4.0), dpi=160, layout="constrained")
            draw_curve(figure.add_subplot(), result)
            figure.savefig(temporary, format=ending[1:], metadata={"Date": None} if ending == ".svg" else None)

    return draw


def draw_curve(axes: Any, result: dict[str, Any]) -> None:  # noqa: ANN401 - matplotlib is optional
    """The score at every K that was looked at, a line at the estimate, a band for the interval.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    result : dict
        What ``estimate-k`` prints: method, k, low, high, n_old, curve.
    """
    ks, scores = [point[0] for point in result["curve"]], [point[1] for point in result["curve"]]
    k, low, high, n_old = (result[key] for key in ("k", "low", "high", "n_old"))
    title = f"{k} classes"
    if low is not None:
        title += f", 90 % interval {low} to {high}"
        axes.axvspan(low, high, color=BAND, lw=0, zorder=0)
    axes.plot(ks, scores, color=BLUE, lw=1.8, marker="o" if len(ks) <= DOTS else None, ms=4, zorder=3)
    axes.axvline(k, color=INK, lw=1.4, zorder=2)
    axes.axvline(n_old, color=MUTED, lw=1.0, ls=(0, (4, 3)), zorder=1)
    left, right = min([*ks, n_old, k, low or k]), max([*ks, n_old, k, high or k])
    margin = 0.04 * max(right - left, 10)
    axes.set_xlim(left - margin, right + margin)
    # Far from the interval a likelihood falls steeply: the height shows what lies near it.
    near = [s for x, s in result["curve"] if low is None or 2 * low - high <= x <= 2 * high - low] or scores
    room = 0.1 * (max(near) - min(near))
    axes.set_ylim(*((min(near) - 2 * room, max(near) + room) if room else (0, 100)))
    # Beside the dashed line there may be a curve on the right, but none on the left.
    upright = {"rotation": 90, "ha": "right", "va": "bottom", "xytext": (-3, 4)}
    to_right = k - left < 0.75 * (right - left) or right == left
    beside = {"ha": "left" if to_right else "right", "va": "bottom", "xytext": (5 if to_right else -5, 4)}
    for x, words, colour, place in ((n_old, f"{n_old} known", MUTED, upright), (k, f"estimate {k}", INK, beside)):
        axes.annotate(
            words, (x, 0), xycoords=("data", "axes fraction"), textcoords="offset points", color=colour, fontsize=9,
            zorder=4, **place,
        )  # fmt: skip
    by_likelihood = "known_share" in result.get("evidence", {})
    axes.set_xlabel("number of classes", color=INK)
    axes.set_ylabel(
        "mean log-likelihood of the unlabelled items" if by_likelihood else "ACC of the labelled items (%)", color=INK
    )
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", color=INK)
    axes.set_title(f"by {result['method']}", loc="right", fontsize=9, color=MUTED)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    axes.tick_params(colors=MUTED, labelsize=9)
    axes.grid(axis="y", color="#e6eaee", lw=0.8)
    axes.set_axisbelow(True)
