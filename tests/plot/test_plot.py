"""What is on the axes is what was counted by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex

import ltgcd
from ltgcd import plot
from ltgcd.plot.axes import NEW, OLD, draw_sizes
from ltgcd.run.relabel import relabel_run


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, list[str | None]]:
    """90 items of three kinds far apart, of which 40 + 20 are labelled, and 30 of a kind that nobody labelled."""
    rng = np.random.RandomState(0)
    kind = np.repeat([0, 1, 2, 3], [60, 40, 30, 20])
    x = np.eye(4, 16)[kind] * 8 + rng.randn(150, 16)
    names = np.array(["ant", "bee", None, None], dtype=object)[kind]
    names[40:60] = None  # 40 ants are labelled
    names[80:100] = None  # and 20 bees
    return x, list(names)


@pytest.fixture(scope="module")
def model(data) -> ltgcd.CategoryDiscovery:
    return ltgcd.CategoryDiscovery().fit(*data)


@pytest.fixture
def run(model, tmp_path: Path) -> Path:
    return model.save(tmp_path / "run", ids=[f"i{row}" for row in range(150)])


@pytest.fixture(autouse=True)
def _close() -> None:
    yield
    pyplot.close("all")


def heights(axes) -> list[float]:
    return [float(bar.get_height()) for bar in axes.patches]


def test_sizes_are_the_items_of_each_class_the_largest_first(model, run) -> None:
    for what in (model, run, str(run), ltgcd.Run.open(run)):
        axes = plot.sizes(what)
        assert heights(axes) == [60, 40, 30, 20]
        assert [to_hex(bar.get_facecolor()) for bar in axes.patches] == [OLD, OLD, NEW, NEW]
        assert axes.lines[0].get_xdata().tolist() == [1, 2]
        assert axes.lines[0].get_ydata().tolist() == [40, 20]  # labelled
        assert axes.get_title(loc="left") == "2 known classes, 2 novel"


def test_unsure_items_are_in_no_bar(model) -> None:
    import dataclasses

    held = model._held
    unsure = np.arange(150) >= 140  # half of the smallest category
    other = ltgcd.CategoryDiscovery()
    other._config = model._config
    other._hold(dataclasses.replace(held, unsure=unsure))
    axes = plot.sizes(other)
    assert heights(axes) == [60, 40, 30, 10]
    assert axes.get_title(loc="right") == "10 items are unsure"
    shown = {part.get_label(): len(part.get_offsets()) for part in plot.map(other).collections}
    assert shown == {"unsure (10)": 10, "known (100)": 100, "novel (40)": 40}


def test_a_long_tail_has_a_log_scale_and_a_short_one_has_not() -> None:
    _, (left, right) = pyplot.subplots(1, 2)
    draw_sizes(left, [(0, 310, 1), (0, 10, 0)])
    draw_sizes(right, [(0, 300, 1), (0, 10, 0)])
    assert (left.get_yscale(), right.get_yscale()) == ("log", "linear")


def test_the_map_is_that_of_the_page(run) -> None:
    from ltgcd.run.report import report_run

    before = np.concatenate([part.get_offsets() for part in plot.map(run).collections])
    report_run(ltgcd.Run.open(run))  # keeps its places
    held = ltgcd.Run.open(run)
    _, places = held.places()
    status = np.array(held.assignments().column("status").to_pylist())
    for part in plot.map(run).collections:
        name = part.get_label().split()[0]
        np.testing.assert_array_equal(part.get_offsets(), places.xy[status == name])
    np.testing.assert_allclose(np.sort(before.ravel()), np.sort(places.xy.ravel()), rtol=1e-5)


def test_reliability_is_made_of_the_bins_of_the_error(model, run) -> None:
    learnt = model._held.calibrations.together
    for what in (model, run):
        points = plot.reliability(what).collections[-1].get_offsets() / 100
        np.testing.assert_allclose(points, [(p, right) for p, right, _ in learnt.reliability])
    gap = sum(share * abs(p - right) for p, right, share in learnt.reliability)
    assert gap == pytest.approx(learnt.error)
    assert sum(share for *_, share in learnt.reliability) == pytest.approx(1)


def test_bins_by_hand() -> None:
    from ltgcd.training.calibration import reliability

    confidence = np.concatenate([np.full(50, 0.2), np.full(50, 0.9)])
    right = np.concatenate([np.arange(50) < 15, np.arange(50) < 40])
    assert reliability(confidence, right, np.ones(100)) == (
        pytest.approx((0.2, 0.3, 0.5)),
        pytest.approx((0.9, 0.8, 0.5)),
    )
    heavy = np.where(np.arange(100) < 50, 3.0, 1.0)
    assert [share for *_, share in reliability(confidence, right, heavy)] == [0.75, 0.25]


def test_what_was_not_rehearsed_or_not_kept_is_said(data, run) -> None:
    bare = ltgcd.CategoryDiscovery(n_classes=4, rehearsals=0, epochs=1).fit(*data)
    with pytest.raises(ltgcd.InputError, match="Nothing was rehearsed"):
        plot.reliability(bare)
    with pytest.raises(ltgcd.InputError, match="was given, not estimated"):
        plot.class_number(bare)
    with pytest.raises(ltgcd.InputError, match="not fitted"):
        plot.sizes(ltgcd.CategoryDiscovery())
    with pytest.raises(ltgcd.InputError, match="not a dict"):
        plot.sizes({})
    with pytest.raises(ltgcd.InputError, match="Nobody has reviewed"):
        plot.progress(run)
    with pytest.raises(ltgcd.InputError, match="kept by a run"):
        plot.progress(bare)


def test_the_class_number_has_its_curve_its_line_and_its_band(model, run) -> None:
    estimate = model.k_estimate_
    for what in (model, run, ltgcd.CategoryDiscovery.load(run)):
        axes = plot.class_number(what)
        curve, line, known = axes.lines
        assert list(zip(curve.get_xdata(), curve.get_ydata(), strict=True)) == [tuple(one) for one in estimate.curve]
        assert list(line.get_xdata()) == [estimate.k] * 2
        assert list(known.get_xdata()) == [2, 2]
        band = axes.patches[0]
        assert (band.get_x(), band.get_x() + band.get_width()) == (estimate.low, estimate.high)


def test_confusion_counts_what_people_say_against_what_the_model_says(model, run) -> None:
    for what in (model, run):
        axes = plot.confusion(what)
        assert {(int(t.get_position()[0]), int(t.get_position()[1])): t.get_text() for t in axes.texts} == {
            (0, 0): "40",
            (1, 1): "20",
        }
        assert "fitted with" in axes.get_xlabel()
    answers: list[str | None] = [None] * 150
    answers[40:45] = ["ant"] * 4 + ["bee"]  # the model calls all of these ant
    answers[100:103] = ["bee"] * 3  # and these novel
    answers[0] = "bee"  # came with a label, so that it is no test
    answers[120] = "wasp"  # no class of the collection
    axes = plot.confusion(model, answers=answers)
    np.testing.assert_allclose(axes.images[0].get_array(), [[1, 0, 0], [0.25, 0, 0.75]])
    assert axes.get_title(loc="left") == "4 of 8 in their class"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["ant", "bee", "novel"]
    with pytest.raises(ltgcd.InputError, match="nothing to compare"):
        plot.confusion(model, answers=[None] * 150)


def test_progress_counts_action_by_action_and_leaves_out_what_was_taken_back(run, tmp_path: Path) -> None:
    from ltgcd.run.refine import refine_run
    from ltgcd.run.reviewed import RunReview

    def say(name: str, *lines: str) -> None:
        (tmp_path / name).write_text("\n".join(["id,label", *lines]) + "\n")
        relabel_run(ltgcd.Run.open(run), tmp_path / name)

    say("a.csv", "i40,ant", "i41,ant")
    say("b.csv", "i42,junk")
    say("c.csv", "i43,ant")
    RunReview.open(ltgcd.Run.open(run)).undo()
    axes = plot.progress(run)
    assert axes.lines[0].get_ydata().tolist() == [0, 2, 3]
    assert axes.lines[1].get_ydata().tolist() == [0, 0, 0]
    assert axes.get_title(loc="right") == "2 actions"
    refine_run(ltgcd.Run.open(run)).keep()
    say("d.csv", "i44,ant")
    axes = plot.progress(run)
    assert axes.lines[0].get_ydata().tolist() == [0, 2, 3, 4]
    assert list(axes.lines[2].get_xdata()) == [2, 2]  # fitted again after the second action


def test_axes_that_are_given_are_drawn_on(model) -> None:
    _, axes = pyplot.subplots()
    assert plot.sizes(model, axes) is axes
    assert ltgcd.plot is plot


def test_without_matplotlib_a_sentence_says_what_to_install(model, monkeypatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ltgcd.InputError, match=r"pip install 'ltgcd\[plot\]'"):
        plot.sizes(model)


def test_a_run_of_before_the_curve_was_kept_is_read_and_says_so(run) -> None:
    from ltgcd.training.calibration import Calibration

    described = json.loads(json.dumps({"known": [0, 1, 0], "novel": [0, 1, 0], "n": 40, "n_novel": 5}))
    described |= {"error": 0.1, "error_before": 0.2, "chance": 0.05}
    assert Calibration.read(described).reliability == ()
    with pytest.raises(ltgcd.InputError, match="damaged"):
        Calibration.read({**described, "reliability": [[0.1, 0.2]]})


def test_a_loaded_model_whose_ids_are_no_numbers_draws_its_page(run, tmp_path: Path) -> None:
    """The peaks of an estimate are kept by their ids, which were once taken for rows."""
    assert ltgcd.CategoryDiscovery.load(run).report(tmp_path / "page.html").is_file()
