"""The figures of a bench: what is drawn are means of records; what is missing is left out and said so."""

from __future__ import annotations

import random
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from typer.testing import CliRunner

from conftest import ROOT, WIDE, call_cli, fails
from ltgcd.bench import figures
from ltgcd.bench.cells import Workshop, _sizes
from ltgcd.bench.charts import NEW, OLD, mistaken, thirds_of
from ltgcd.bench.density_map import DensityMap, _apart, mapped, searched_features, shown_classes
from ltgcd.bench.figures import Evidence, draw_figures
from ltgcd.bench.tables import cells_of, read_settings, read_tables
from ltgcd.cli import app
from ltgcd.common.errors import InputError
from ltgcd.common.outputs import is_sealed
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.feature_graph import FeatureGraph
from ltgcd.training.config import changed
from ltgcd.training.fit import fit_model
from ltgcd.training.methods import METHODS
from ltgcd.training.problem import Problem
from ltgcd.training.selection import SelectionConfig, neighbour_graphs, select

TABLES = ROOT / "benchmarks" / "tables"
GROUPS, THIRDS = ("all", "old", "new"), ("many", "medium", "few")
needs_matplotlib = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the plot extra")


def trained(value: float, wrong: tuple[int, int] = (10, 30)) -> dict[str, Any]:
    """A record of a run: recall `value`, a tenth less for each third and group; of 100 items each, some mistaken."""
    thirds = {g: {t: value - 10 * a - b for b, t in enumerate(THIRDS)} for a, g in enumerate(GROUPS)}
    old, new = wrong
    return {
        "many_medium_few": thirds,
        "confusion": {"old": {"as_old": 100 - old, "as_new": old}, "new": {"as_old": new, "as_new": 100 - new}},
        "balanced_acc": {"all": 40.0 + new, "old": 45.0, "new": float(old)},
    }


def evidence(*, split: bool = True, train: tuple[str, ...] = ("simgcd", "ltgcd"), estimate: bool = True) -> Evidence:
    """Made-up records of the real tables, for CIFAR-100-LT and plankton, of two seeds each."""
    tables, settings = read_tables(TABLES), read_settings(TABLES)
    records: dict[str, dict[str, Any]] = {}

    def add(name: str, make: Any, rows: tuple[str, ...] | None = None) -> None:
        for column, row, cell in cells_of(tables[name], settings, None, None, 2):
            if column.name in ("cifar100", "plankton") and (rows is None or row.id in rows):
                records[cell.key] = {"key": cell.key, "cell": cell.described(), **make(column, row, cell.seed)}

    if split:
        few = {"cifar100": 40, "plankton": 4}
        add("statistics", lambda c, _r, _s: {"counts": [[60, 120, 1], [0, 90, 0], [20, few.get(c.id, 4), 1]]})
    add("main", lambda _c, r, seed: trained((60 if r.id == "ltgcd" else 50) + 4 * seed, (10 + 10 * seed, 30)), train)
    if estimate:
        curve = [[k, -((k - 90) ** 2) / 100] for k in range(80, 121)]
        figure = {"k": 90, "low": 85, "high": 95, "n_old": 80, "k_true": 100, "known_share": 0.8, "curve": curve}
        add("class_number_grid", lambda _c, _r, _s: figure, ("peaks",))
    return Evidence(tables, settings, records, seeds=3)


def words_of(figure: Any) -> str:
    return " ".join(text.get_text() for text in [*figure.texts, *(t for a in figure.axes for t in a.texts)])


# ---------------------------------------------------------------- means


def test_means_over_seeds_by_hand() -> None:
    records = [trained(50, (10, 30)), trained(60, (30, 50))]
    assert thirds_of(records, "all") == [55, 54, 53]
    assert thirds_of(records, "new") == [35, 34, 33]
    assert mistaken(records) == [20, 40]


def test_what_a_record_lacks_does_not_count() -> None:
    holes = [trained(50), trained(60)]
    holes[0]["many_medium_few"]["new"] = dict.fromkeys(THIRDS)
    holes[0]["confusion"]["new"] = {"as_old": 0, "as_new": 0}
    assert thirds_of(holes, "new") == [40, 39, 38]
    assert mistaken(holes) == [10, 30]
    assert np.isnan(thirds_of(holes[:1], "new")).all()
    assert np.isnan(mistaken(holes[:1])[1])


def test_a_split_tells_old_from_new() -> None:
    names = ("n_labelled", "n_unlabelled", "n_classes", "lambda_labelled", "lambda_unlabelled")
    summary = {"counts": {"a": [0, 5], "b": [3, 9], "c": [0, 7]}, "n_old": 2, **dict.fromkeys(names, 0)}
    assert _sizes(summary)["counts"] == [[3, 9, 1], [0, 7, 0], [0, 5, 1]]


# ---------------------------------------------------------------- what is drawn


@needs_matplotlib
def test_bars_of_the_frequencies_are_means() -> None:
    figure = figures.frequency(evidence())
    assert len(figure.axes) == 6  # two datasets by All, Old, New
    for axes, group in zip(figure.axes, GROUPS * 2, strict=True):
        drawn = [bar.get_width() for bar in axes.patches]
        less = 10 * GROUPS.index(group)
        # Third by third, the methods in the order of the table: SimGCD 50 and 54, ours 60 and 64.
        assert drawn == [mean - less - third for third in range(3) for mean in (52, 62)]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["SimGCD", "Ours (default)"]
    assert "EfficientNet-Lite2, 128 px, frozen: not the paper's DINO features" in words_of(figure)
    assert "mean over 2 data seeds" in words_of(figure)


@needs_matplotlib
def test_bars_of_the_confusion_are_means_and_say_their_numbers() -> None:
    figure = figures.confusion(evidence())
    assert [[bar.get_width() for bar in axes.patches] for axes in figure.axes] == [[15, 15], [30, 30]] * 2
    assert words_of(figure).count("15.0") == words_of(figure).count("30.0") == 4


@needs_matplotlib
def test_the_long_tail_is_what_the_split_says() -> None:
    from matplotlib.colors import to_hex

    upper, other, lower, _ = figures.long_tail(evidence()).axes
    assert [bar.get_height() for bar in upper.patches] == [120, 90, 40]
    assert [to_hex(bar.get_facecolor()) for bar in upper.patches] == [OLD, NEW, OLD]
    assert upper.lines[0].get_xydata().tolist() == [[1, 60], [3, 20]]
    assert (upper.get_yscale(), other.get_yscale()) == ("linear", "linear")  # 120 over 4 is not yet beyond 30
    simgcd_old, simgcd_new, our_old, our_new = (line.get_ydata().tolist() for line in lower.lines)
    assert simgcd_old == [42, 41, 40]
    assert simgcd_new == [32, 31, 30]
    assert our_old == [52, 51, 50]
    assert our_new == [42, 41, 40]


@needs_matplotlib
def test_a_very_long_tail_is_on_a_log_scale() -> None:
    held = evidence()
    for record in held.records.values():
        if "counts" in record:
            record["counts"][2][1] = 2
    figure = figures.long_tail(held)
    assert [axes.get_yscale() for axes in figure.axes] == ["log", "log", "linear", "linear"]


@needs_matplotlib
def test_the_long_tail_without_runs_says_so() -> None:
    figure = figures.long_tail(evidence(train=()))
    assert words_of(figure).count("not run yet") == 2
    assert "mean over" not in words_of(figure)


@needs_matplotlib
def test_curves_have_the_estimate_and_the_truth() -> None:
    figure = figures.k_curves(evidence())
    assert len(figure.axes) == len(figures.CURVES)
    for axes in figure.axes:
        curve, *lines = axes.lines
        assert curve.get_xdata()[[0, -1]].tolist() == [80, 120]
        assert [line.get_xdata()[0] for line in lines] == [90, 80, 100]  # estimate, known classes, truth
        assert [text.get_text() for text in axes.texts] == ["estimate 90 (85 to 95), true 100"]


@needs_matplotlib
def test_seeds_that_differ_are_told() -> None:
    held = evidence()
    held.records.pop(next(key for key, record in held.records.items() if "confusion" in record))
    assert "mean over 1 to 2 data seeds" in words_of(figures.confusion(held))


@needs_matplotlib
def test_the_summary_has_a_panel_for_each_dataset_and_the_paper_s_figures_beside_ours() -> None:
    upper, other = figures.methods(evidence()).axes
    assert [axes.get_title(loc="left") for axes in (upper, other)] == ["CIFAR-100-LT, frozen", "plankton, frozen"]
    assert [label.get_text() for label in upper.get_yticklabels()] == ["SimGCD", "Ours (default)"]
    dots = [line.get_xdata()[0] for line in upper.lines if line.get_marker() in "os" and line.get_mfc() == "white"]
    assert dots == [70.4, 32.1]  # SimGCD in the paper; it has no figures of our default
    assert figures.methods(evidence(train=())) is None


# ---------------------------------------------------------------- files


@needs_matplotlib
def test_what_has_no_records_is_left_out_and_said_so(tmp_path: Path) -> None:
    said: list[str] = []
    written = draw_figures(tmp_path, evidence(estimate=False, split=False), notify=said.append)
    assert [path.name for path in written] == ["summary.svg", "frequency.svg", "confusion.svg"]
    assert sorted(tmp_path.iterdir()) == sorted(written)
    assert [line.partition(" is left out")[0] for line in said] == ["long-tail.svg", "k-curves.svg"]
    assert "ltgcd bench statistics" in said[0]


@needs_matplotlib
def test_records_without_these_figures_are_as_if_they_were_not_there(tmp_path: Path) -> None:
    held = evidence()
    for record in held.records.values():
        for name in ("many_medium_few", "confusion", "counts", "balanced_acc"):
            record.pop(name, None)
        if "curve" in record:
            record["curve"] = []
    assert draw_figures(tmp_path, held) == []


@needs_matplotlib
def test_equal_records_give_equal_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "CURVES", figures.CURVES[:2])  # two are as good as six, and faster
    held = evidence()
    first = draw_figures(tmp_path / "a", held)
    lines = list(held.records.items())
    random.Random(0).shuffle(lines)
    again = draw_figures(tmp_path / "b", Evidence(held.tables, held.settings, dict(lines)))
    assert [path.name for path in first] == [f"{name}.svg" for name in figures.DRAWN]
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert b"<text" in one.read_bytes()


def test_without_matplotlib_one_sentence(tmp_path: Path) -> None:
    with (
        mock.patch.dict(sys.modules, {"matplotlib": None, "matplotlib.figure": None}),
        pytest.raises(InputError, match=r"needs matplotlib.*ltgcd\[plot\]"),
    ):
        draw_figures(tmp_path, evidence())


@needs_matplotlib
def test_the_command_draws_and_writes_the_page(tmp_path: Path) -> None:
    place = ["--results", str(tmp_path / "results"), "--work", str(tmp_path / "work"), "--tables", str(TABLES)]
    done = CliRunner(env=WIDE).invoke(app, ["bench", "--figures", *place])
    assert done.exit_code == 0, done.output
    assert "RESULTS.md" in done.stdout
    assert (tmp_path / "RESULTS.md").is_file()
    for name in (*figures.DRAWN, "density-selection"):
        assert f"{name}.svg is left out" in done.stderr
    assert "ltgcd bench main --only cifar100 --only ltgcd" in done.stderr


# ---------------------------------------------------------------- the map


def blobs() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ten well separated classes, six of them Old, of falling size; features, cosines, labels, truth."""
    rng = np.random.RandomState(0)
    sizes = [60, 50, 40, 30, 20, 12, 45, 25, 14, 12]
    truth = np.repeat(np.arange(10), sizes)
    centres = np.eye(16)[:10]
    x = centres[truth] + 0.12 * rng.normal(size=(len(truth), 16))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.where((truth < 6) & (rng.rand(len(truth)) < 0.4), truth, UNLABELLED)
    return x.astype(np.float32), (x @ centres.T).astype(np.float32), y, truth


def small_map(trained: np.ndarray | None = None) -> DensityMap:
    x, logits, y, truth = blobs()
    names = tuple(f"class_{place}" for place in range(10))
    return mapped(
        x if trained is None else trained, x, logits, y, truth, names, 6, 0.1, SelectionConfig(k=5, k_s=8), "blobs"
    )


def test_classes_of_the_map_are_chosen_by_size() -> None:
    sizes = np.array([5, 50, 40, 9, 30, 7, 3, 80, 20])
    assert shown_classes(sizes, 6).tolist() == [1, 2, 4, 5, 0, 7, 8, 6]
    assert shown_classes(np.array([4, 6, 9]), 2).tolist() == [1, 0, 2]
    assert shown_classes(np.array([4, 6]), 2).tolist() == [1, 0]


@pytest.mark.parametrize("graph", ["start", "epoch"])
def test_the_map_searches_neighbours_where_the_run_did(graph: str) -> None:
    """The default on frozen features selects by neighbours before training, whatever the adapter has learnt since."""
    x, _, y, _ = blobs()
    changes = {"schedule.epochs": 3, "schedule.batch_size": 32, "selection.graph": graph}
    experiment = changed(METHODS["ltgcd"].preset("frozen"), changes)
    selected: list[np.ndarray] = []

    def counted(whole: FeatureGraph, *rest: Any) -> Any:
        selected.append(whole.features)
        return neighbour_graphs(whole, *rest)

    with (
        mock.patch("ltgcd.training.methods.ltgcd.neighbour_graphs", counted),
        mock.patch("ltgcd.training.selection.neighbour_graphs", counted),
    ):
        fit = fit_model(Problem(x, y, 6, 10), experiment)
    found = searched_features(fit.fitted, x, fit.features, experiment.method.selection)
    if graph == "start":
        (before,) = selected
        np.testing.assert_allclose(found / np.linalg.norm(found, axis=1, keepdims=True), before, atol=1e-5)
        assert not np.allclose(found, fit.features, atol=1e-3)
    else:
        assert found is fit.features


def test_the_map_shows_what_the_selection_selects() -> None:
    x, logits, y, truth = blobs()
    config = SelectionConfig(k=5, k_s=8)
    chosen, found = select(x, logits, y, 0.1, config), small_map()
    wanted = shown_classes(np.bincount(truth[y == UNLABELLED], minlength=10), 6)
    items = np.flatnonzero((y == UNLABELLED) & np.isin(truth, wanted))
    assert found.names == [f"class {place}" for place in wanted]
    assert (found.n_old, len(found.names)) == (5, 8)
    np.testing.assert_array_equal(wanted[found.shown], truth[items])
    np.testing.assert_array_equal(found.confident, chosen.confident[items])
    np.testing.assert_array_equal(found.kept, chosen.dense[items])
    assert found.kept.any()
    assert found.peak[found.kept].all()  # NMDS only drops
    assert found.peak.sum() >= found.kept.sum()
    assert found.edges.min() >= 0
    assert found.edges.max() < len(items)
    assert (found.edges[:, 0] != found.edges[:, 1]).all()
    # A peak is at least as dense as the neighbours that a line goes to.
    at_peak = found.edges[found.peak[found.edges[:, 0]]]
    assert (found.density[at_peak[:, 0]] >= found.density[at_peak[:, 1]]).all()
    assert f"S_dens {chosen.imbalance(truth)['dense']:.1f}" in found.words[1]
    # Neighbours are those of the features that the run searched, whatever became of them in training.
    moved = small_map(np.random.RandomState(1).randn(*x.shape).astype(np.float32))
    for name in ("density", "peak", "kept", "edges"):
        np.testing.assert_array_equal(getattr(moved, name), getattr(found, name))


@needs_matplotlib
def test_the_map_as_a_file(tmp_path: Path) -> None:
    none, picture = Evidence(read_tables(TABLES), read_settings(TABLES), {}), small_map()
    (one,), (other,) = (draw_figures(tmp_path / name, none, picture) for name in "ab")
    assert one.name == "density-selection.svg"
    assert one.read_bytes() == other.read_bytes()
    svg = one.read_text()
    assert all(f"class {place}: " in svg for place in (0, 1, 2))
    assert "frozen: not the paper's DINO features" in svg


def test_names_on_the_map_do_not_cover_one_another() -> None:
    at = np.array([[0.5, 0.5], [0.52, 0.5], [0.55, 0.49], [0.0, 0.5], [0.5, 0.9]])
    moved = _apart(at, np.array([1.0, 1.0]))
    assert (moved[:, 0] == at[:, 0]).all()
    for one in range(5):
        for other in range(one):
            near = abs(moved[one, 0] - moved[other, 0]) < 0.25
            assert not near or abs(moved[one, 1] - moved[other, 1]) >= 0.055 - 1e-12
    assert moved[3].tolist() == [0.0, 0.5]
    assert moved[4].tolist() == [0.5, 0.9]


@needs_matplotlib
def test_no_page_or_figure_of_a_users_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`bench --render`, `--html` and `--figures` replaced any file of these names; a page of ours is, as long as nobody
    has changed it."""
    place = ("--results", tmp_path / "results", "--work", tmp_path / "work", "--tables", TABLES)
    pages = {"RESULTS.md": ("--render",), "RESULTS.html": ("--html",)}
    for name, options in pages.items():
        page = tmp_path / name
        page.write_text("# Results\n\nThe measurements of my thesis.\n")
        assert f"{name} is there already" in fails("bench", *options, *place)
        assert "my thesis" in page.read_text()
        page.unlink()
        for _ in range(2):
            assert call_cli("bench", *options, *place).code == 0
        page.write_text(page.read_text().replace("Results", "My results", 1))
        assert "nobody has changed" in fails("bench", *options, *place)
    ran: list[object] = []
    monkeypatch.setattr(Workshop, "run", lambda _self, cell: ran.append(cell))
    assert "RESULTS.md is there already" in fails("bench", "statistics", "--only", "cifar100", *place)
    assert not ran, "refused before hours of work, not after"
    (tmp_path / "RESULTS.md").unlink()
    for name in (*figures.DRAWN, "density-selection"):
        mine = tmp_path / "figures" / f"{name}.svg"
        mine.parent.mkdir(exist_ok=True)
        mine.write_text("<svg>mine</svg>")
        assert f"{name}.svg is there already" in fails("bench", "--figures", *place)
        assert mine.read_text() == "<svg>mine</svg>"
        mine.unlink()
    held = evidence()
    for _ in range(2):
        drawn = draw_figures(tmp_path / "figures", held)
    drawn[0].write_text("<svg>mine</svg>")
    with pytest.raises(InputError, match="is there already"):
        draw_figures(tmp_path / "figures", held)


def test_the_committed_pages_and_figures_are_as_ltgcd_wrote_them() -> None:
    """So that `ltgcd bench` may write them anew."""
    assert is_sealed(ROOT / "benchmarks" / "RESULTS.md", "results")
    drawn = sorted((ROOT / "benchmarks" / "figures").glob("*.svg"))
    assert drawn and all(is_sealed(path, "figure") for path in drawn)
