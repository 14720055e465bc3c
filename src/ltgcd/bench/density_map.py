"""The paper's picture of the density selection, from real items: a few classes of D^u, their density, and S.

A finished run gives features and logits; `ltgcd.training.selection` selects as the run did. True classes only
choose what is shown and colour it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ltgcd.bench.cells import Prepared
from ltgcd.bench.tables import Cell
from ltgcd.common.errors import InputError
from ltgcd.common.numerics import softmax
from ltgcd.data.collection import UNLABELLED, imbalance_factor
from ltgcd.features.views import VectorViews
from ltgcd.graph.density import density
from ltgcd.graph.feature_graph import FeatureGraph
from ltgcd.graph.knn import knn_graph
from ltgcd.output.report.k_plot import INK, MUTED
from ltgcd.output.report.layout import map_items
from ltgcd.run.directory import Run
from ltgcd.run.train import vectors
from ltgcd.training.config import changed
from ltgcd.training.losses import teacher_temperature
from ltgcd.training.methods import METHODS
from ltgcd.training.methods.ltgcd import LTGCDConfig
from ltgcd.training.model import FittedModel, predict
from ltgcd.training.selection import SelectionConfig, dense_items, neighbour_graphs, select

EDGES = 3  # nearest neighbours that a line is drawn to
# Okabe and Ito's colours, which colour-blind eyes tell apart; Old classes are dots, New ones triangles.
COLOURS = ("#0072b2", "#56b4e9", "#009e73", "#000000", "#7f7f7f", "#d55e00", "#e69f00", "#cc79a7")
QUIET, SURE, DROPPED, KEPT = "#c9d0d7", "#4f94c8", "#000000", "#d55e00"


class DensityMap(NamedTuple):
    """What the picture shows: M items of a few classes.

    Attributes
    ----------
    xy : ndarray, shape (M, 2)
        Places.
    shown : ndarray of int64, shape (M,)
        Class of each, a place in `names`.
    names : list of str
        Classes that are shown, Old ones first.
    n_old : int
        How many of them are Old.
    density : ndarray, shape (M,)
        d_i, over all of D^u.
    confident, peak, kept : ndarray of bool, shape (M,)
        In S_conf; a density peak; one that survives NMDS.
    edges : ndarray of int64, shape (E, 2)
        Pairs of nearest neighbours that are both shown.
    words : list of str
        Lines below the title.
    """

    xy: NDArray[np.float32]
    shown: NDArray[np.int64]
    names: list[str]
    n_old: int
    density: NDArray[np.floating]
    confident: NDArray[np.bool_]
    peak: NDArray[np.bool_]
    kept: NDArray[np.bool_]
    edges: NDArray[np.int64]
    words: list[str]


def shown_classes(sizes: NDArray[np.int64], n_old: int) -> NDArray[np.int64]:
    """Three of the largest and two of the smallest Old classes, and New ones of three sizes, by size alone."""
    old = np.argsort(-sizes[:n_old], kind="stable")
    new = n_old + np.argsort(-sizes[n_old:], kind="stable")
    middle = new[[0, len(new) // 2, -1]] if len(new) > 2 else new
    return np.concatenate([old[:3], old[3:][-2:], middle]).astype(np.int64)


def density_map(problem: Prepared, run: Run, cell: Cell, title: str) -> DensityMap:
    """The picture of a finished run of our method, in the frozen regime.

    Parameters
    ----------
    problem : Prepared
        Source with features and truth.
    run : Run
        The run, for the model.
    cell : Cell
        What was run, for the settings of the selection.
    title : str
        Name of the dataset.
    """
    collection, truth = problem.source.collection, problem.source.truth
    assert truth is not None
    x = np.asarray(vectors(problem.source), dtype=np.float32)
    fitted = FittedModel.from_state(*run.read_model(), _no_tail)
    trained, outputs = predict(fitted.model, VectorViews(x), np.arange(len(x)), torch.device("cpu"))
    method = changed(METHODS["ltgcd"].preset("frozen", cell.preset or "default"), cell.changes).method  # type: ignore[arg-type]
    assert isinstance(method, LTGCDConfig)
    return mapped(
        trained.numpy(),
        searched_features(fitted, x, trained.numpy(), method.selection),
        outputs["logits"].numpy(),
        collection.y,
        truth.y_true,
        truth.class_names,
        truth.n_old,
        teacher_temperature(1.0, method.base.teacher_warmup),
        method.selection,
        title,
    )


def searched_features(
    fitted: FittedModel, x: NDArray[np.float32], trained: NDArray[np.float32], config: SelectionConfig
) -> NDArray[np.float32]:
    """The features (N, d) among which a run on frozen features searched its neighbours.

    Those before training, which the model's first layer makes of `x` (N, D), or those that it has `trained` (N, d).
    """
    if config.graph == "epoch":
        return trained
    assert isinstance(fitted.model.tail, nn.Sequential)
    before: torch.Tensor = fitted.model.tail[0](torch.from_numpy(x))
    return before.numpy()


def mapped(
    features: NDArray[np.floating],
    searched: NDArray[np.floating],
    logits: NDArray[np.floating],
    y: NDArray[np.int64],
    y_true: NDArray[np.int64],
    class_names: tuple[str, ...],
    n_old: int,
    temperature: float,
    config: SelectionConfig,
    title: str,
) -> DensityMap:
    """The same from arrays: h (N, D), what neighbours are searched in (N, d), and cosines to the prototypes (N, K).

    See `ltgcd.training.selection.select`.
    """
    rows = np.flatnonzero(y == UNLABELLED)
    graphs = neighbour_graphs(FeatureGraph(searched), y, config)
    chosen = select(features, logits, y, temperature, config, graphs)
    peaks, used = dense_items(graphs, logits, y, temperature, dataclasses.replace(config, suppress=False))
    alone = config.pool == "unlabelled"
    graph = graphs.pool.first(config.k) if alone else knn_graph(searched[rows], config.k)
    own = None if used.form == "affinity" else softmax(logits[rows], used.temperature)
    d = density(graph, own, config.k)
    sizes = np.bincount(y_true[rows], minlength=len(class_names))
    classes = shown_classes(sizes, n_old)
    place = np.full(len(class_names), -1)
    place[classes] = np.arange(len(classes))
    on_map = place[y_true[rows]] >= 0
    at = np.full(len(rows), -1)
    at[on_map] = np.arange(on_map.sum())
    neighbours = graph.first(EDGES).indices[on_map]
    pairs = np.stack([np.repeat(np.arange(len(neighbours)), EDGES), at[neighbours].ravel()], axis=1)
    items = rows[on_map]
    unit = features[items] / np.linalg.norm(features[items], axis=1, keepdims=True)
    lambdas = chosen.imbalance(y_true)
    seen = {name: len(np.unique(y_true[mask])) for name, mask in chosen.sets().items()}
    added = int((chosen.dense & ~chosen.confident).sum())
    beyond = f"{added} of them not in S_conf" if added else "all in S_conf already"
    words = [
        f"{title}, data seed 0, after the last epoch. {len(classes)} classes of D^u, chosen by size alone.",
        f"All {len(class_names)} classes, λ by true labels: D^u {imbalance_factor(sizes):.1f}; "
        f"S_conf {lambdas['confident']:.1f} ({chosen.confident.sum():,} items of {seen['confident']} classes); "
        f"S_dens {lambdas['dense']:.1f} ({chosen.dense.sum():,} items of {seen['dense']} classes, {beyond}).",
    ]
    return DensityMap(
        map_items(unit.astype(np.float32), place[y_true[items]]),
        place[y_true[items]],
        [class_names[c].replace("_", " ") for c in classes],
        int((classes < n_old).sum()),
        d[on_map],
        chosen.confident[items],
        peaks[items],
        chosen.dense[items],
        pairs[pairs[:, 1] >= 0],
        words,
    )


def _no_tail() -> NoReturn:
    raise InputError("The map is drawn from a run on frozen features; this one trained the last stage.")


# ---------------------------------------------------------------- drawing


def draw_density_map(figure: Any, picture: DensityMap) -> None:  # noqa: ANN401 - matplotlib is optional
    """Four axes: the classes, their density, what is selected, and how much of each class."""
    grid = figure.subplots(2, 2)
    _draw_classes(grid[0, 0], picture)
    _draw_density(figure, grid[0, 1], picture)
    _draw_selected(grid[1, 0], picture)
    _draw_counts(grid[1, 1], picture)


def _draw_classes(axes: Any, picture: DensityMap) -> None:  # noqa: ANN401
    places = [picture.xy[picture.shown == place] for place in range(len(picture.names))]
    at = _apart(np.array([_middle(mine) for mine in places]), np.ptp(picture.xy, axis=0))
    for place, (name, colour) in enumerate(zip(picture.names, COLOURS, strict=False)):
        marker = "o" if place < picture.n_old else "^"
        axes.scatter(*places[place].T, s=7 if marker == "o" else 10, marker=marker, color=colour, lw=0, rasterized=True)
        axes.annotate(
            name, at[place], ha="center", va="center", fontsize=8, fontweight="bold", color=colour, zorder=5,
            path_effects=_halo(),
        )  # fmt: skip
    for marker, words in (("o", "Old class"), ("^", "New class")):
        axes.scatter([], [], marker=marker, s=16, color=MUTED, lw=0, label=words)
    _below(axes)
    _map(axes, "Classes")


def _draw_density(figure: Any, axes: Any, picture: DensityMap) -> None:  # noqa: ANN401
    from matplotlib.collections import LineCollection  # noqa: PLC0415

    lines = list(picture.xy[picture.edges])
    axes.add_collection(LineCollection(lines, colors="#b8c1ca", linewidths=0.35, rasterized=True))
    order = np.argsort(picture.density, kind="stable")  # the densest on top
    low, high = np.quantile(picture.density, [0.02, 0.98])
    dots = axes.scatter(
        *picture.xy[order].T, s=8, c=picture.density[order], cmap="cividis_r", vmin=low, vmax=high, lw=0, zorder=2,
        rasterized=True,
    )  # fmt: skip
    bar = figure.colorbar(dots, cax=axes.inset_axes((0.0, -0.06, 1.0, 0.03)), orientation="horizontal")
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7.5, colors=MUTED, length=2)
    _map(axes, f"Density d, lines to the {EDGES} nearest")


def _draw_selected(axes: Any, picture: DensityMap) -> None:  # noqa: ANN401
    dropped = picture.peak & ~picture.kept
    parts = (
        (~picture.confident, {"s": 7, "color": QUIET, "lw": 0, "label": "not selected"}),
        (picture.confident, {"s": 7, "color": SURE, "lw": 0, "label": "confident, S_conf"}),
        (dropped, {"s": 26, "marker": "x", "color": DROPPED, "lw": 1.1, "label": "peak that NMDS drops"}),
        (picture.kept, {"s": 70, "marker": "*", "color": KEPT, "ec": "white", "lw": 0.5, "label": "peak kept, S_dens"}),
    )
    for height, (mask, style) in enumerate(parts):
        axes.scatter(*picture.xy[mask].T, zorder=2 + height, rasterized=height < 2, **style)
    _below(axes)
    _map(axes, "Selected: S = S_conf ∪ S_dens")


def _draw_counts(axes: Any, picture: DensityMap) -> None:  # noqa: ANN401
    k = len(picture.names)
    sizes, sure, peaks, kept = (
        np.bincount(picture.shown[mask], minlength=k)
        for mask in (np.ones(len(picture.shown), dtype=bool), picture.confident, picture.peak, picture.kept)
    )
    axes.barh(np.arange(k) + 0.2, 100 * sure / sizes, height=0.36, color=SURE, lw=0)
    kinds = ["Old"] * picture.n_old + ["New"] * (k - picture.n_old)
    for at, (name, kind) in enumerate(zip(picture.names, kinds, strict=True)):
        axes.text(0, at - 0.05, f"{name}: {kind}, {sizes[at]} items", va="bottom", fontsize=8, color=INK)
        axes.text(120, at + 0.2, f"{peaks[at]} → {kept[at]}", ha="center", va="center", fontsize=8, color=INK)
    axes.text(120, -0.75, "peaks → kept", ha="center", va="bottom", fontsize=8, color=MUTED)
    axes.set_yticks([])
    axes.set_ylim(k - 0.4, -0.75)
    axes.set_xlim(0, 134)
    axes.set_xticks(range(0, 101, 25))
    axes.set_xlabel("share of the class in S_conf (%)", fontsize=8.5, color=INK, loc="left")
    axes.tick_params(labelsize=7.5, colors=MUTED)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.spines["bottom"].set_bounds(0, 100)
    axes.set_title("How much of each class", loc="left", fontsize=9.5, fontweight="bold", color=INK)


def _below(axes: Any) -> None:  # noqa: ANN401
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, frameon=False, fontsize=7.5, labelcolor=INK,
        handletextpad=0.2, columnspacing=1.0,
    )  # fmt: skip


def _map(axes: Any, title: str) -> None:  # noqa: ANN401
    axes.set_title(title, loc="left", fontsize=9.5, fontweight="bold", color=INK)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color("#dde2e7")


def _middle(xy: NDArray[np.floating]) -> NDArray[np.floating]:
    """The item nearest to the median: a class in two parts is named on one of them, not between."""
    best: NDArray[np.floating] = xy[np.argmin(np.linalg.norm(xy - np.median(xy, axis=0), axis=1))]
    return best


def _apart(at: NDArray[np.floating], extent: NDArray[np.floating]) -> NDArray[np.floating]:
    """Places (C, 2) of names, from the top down, each moved below those that it would cover."""
    at, wide, high = at.copy(), 0.25 * extent[0], 0.055 * extent[1]
    order = np.argsort(-at[:, 1], kind="stable")
    for rank, mine in enumerate(order):
        for other in order[:rank]:
            if abs(at[mine, 0] - at[other, 0]) < wide and at[other, 1] - at[mine, 1] < high:
                at[mine, 1] = min(at[mine, 1], at[other, 1] - high)
    return at


def _halo() -> list[Any]:
    from matplotlib.patheffects import withStroke  # noqa: PLC0415

    return [withStroke(linewidth=2.5, foreground="white")]
