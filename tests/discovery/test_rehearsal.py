from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.common.engine import errands

from conftest import train
from ltgcd.common.engine.shards import in_processes
from ltgcd.common.errors import InputError
from ltgcd.common.tables import most_likely
from ltgcd.data.digits import digits_source
from ltgcd.discovery import rehearsal
from ltgcd.discovery.rehearsal import (
    HELD_OUT,
    PARTS,
    expected_weights,
    judge,
    rehearse,
    with_hidden_classes,
)
from ltgcd.run.directory import Run
from ltgcd.training.calibration import calibration_error
from ltgcd.training.checkpoints import Checkpoints
from ltgcd.training.config import changed
from ltgcd.training.fit import fit_model
from ltgcd.training.methods import METHODS
from ltgcd.training.problem import Problem

EXPERIMENT = changed(METHODS["ltgcd"].preset("frozen"), {"schedule.epochs": 3})


def blobs(spread: float, n_classes: int = 12, n_each: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(seed)
    true = np.repeat(np.arange(n_classes), n_each)
    centres = random.randn(n_classes, 16)
    return (centres[true] + spread * random.randn(len(true), 16)).astype(np.float32), true


def half_labelled(true: np.ndarray, n_old: int, seed: int = 0) -> np.ndarray:
    return np.where((true < n_old) & (np.random.RandomState(seed).rand(len(true)) < 0.5), true, -1)


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(0, 50))
def test_what_is_hidden(n_old: int, seed: int) -> None:
    x, true = blobs(0.3)
    y = half_labelled(true, n_old, seed)
    found = with_hidden_classes(Problem(x, y, n_old, 14, seed), PARTS)
    away = []
    for problem in found:
        asked = np.zeros(len(y), dtype=bool)
        asked[problem.asked] = True
        assert not (asked & (y == -1)).any(), "only items that people labelled are asked for"
        np.testing.assert_array_equal(problem.y[asked], -1)
        left = ~asked & (y >= 0)
        np.testing.assert_array_equal(problem.visible[problem.y[left]], y[left])
        hidden = np.setdiff1d(np.arange(n_old), problem.visible)
        assert np.isin(y, hidden)[asked].sum() == np.isin(y, hidden).sum(), "a hidden class has no label left"
        shown = np.isin(y, problem.visible)
        assert (asked & shown).sum() == pytest.approx(HELD_OUT * shown.sum(), abs=n_old)
        away += hidden.tolist()
    assert sorted(away) == ([] if n_old == 1 else list(range(n_old))), "every class is hidden once, unless it is alone"
    assert len(found) == (PARTS if n_old == 1 else min(n_old, PARTS))


def test_no_class_is_hidden_where_nothing_is_novel() -> None:
    x, true = blobs(0.3)
    task = Problem(x, half_labelled(true, 10), 10, 10, 0)
    assert all(len(problem.visible) == 10 for problem in with_hidden_classes(task, 2))
    assert len(with_hidden_classes(task, 2)) == 2


def test_weights_give_back_the_share_that_was_called_novel() -> None:
    """Six of ten hidden items were called novel and one of twenty visible ones; in D^u 32.5 % were called so."""
    hidden = np.arange(30) < 10
    novel = (np.arange(30) < 6) | (np.arange(30) == 29)
    weights = expected_weights(novel, hidden, 0.325)
    assert weights.mean() == pytest.approx(1)
    assert weights[hidden].sum() / 30 == pytest.approx(0.5)  # 0.05 + 0.5 · (0.6 − 0.05) = 0.325
    assert np.average(novel, weights=weights) == pytest.approx(0.325)
    np.testing.assert_array_equal(expected_weights(novel, np.ones(30, dtype=bool), 0.4), 1)
    assert expected_weights(novel, hidden, 0.9)[~hidden].sum() == pytest.approx(0)  # more than there can be


def test_judged_by_hand() -> None:
    """Classes 2 and 5 are known, 3 and 4 hidden; said are 0 and 1 (known) and the novel 2, 3 and 4."""
    visible = np.array([2, 5])
    labels = np.array([2, 2, 5, 5, 3, 3, 3, 4, 4, 4])
    said = np.array([0, 1, 1, 4, 2, 2, 3, 2, 3, 0])
    p = np.full((10, 5), 0.1, dtype=np.float32)
    p[np.arange(10), said] = 0.6
    got = judge(np.arange(10), p, np.array([7, 8, 9, 10, 11]), labels, visible)
    # 3 is matched to 2 (two of its items) and 4 to 3 (one of its items); together three, no other matching has more.
    np.testing.assert_array_equal(got.right, [1, 0, 1, 0, 1, 1, 0, 0, 1, 0])
    np.testing.assert_array_equal(got.novel, said >= 2)
    np.testing.assert_array_equal(got.classes, labels)
    np.testing.assert_array_equal(got.hidden, np.isin(labels, [3, 4]))
    np.testing.assert_array_equal(got.size, np.array([7, 8, 9, 10, 11])[said])
    np.testing.assert_allclose(got.confidence, 0.6)


def test_the_confidence_of_novel_items_is_worth_what_it_says() -> None:
    """On overlapping blobs, by the truth of D^u, which nothing saw: calibrated far better than the model's own."""
    x, true = blobs(1.0, n_classes=24, n_each=60)
    y = half_labelled(true, 14)
    task = Problem(x, y, 14, 24, 0)
    experiment = changed(EXPERIMENT, {"smoothing": 2})  # neighbours help the items of the collection, not new ones
    fit = fit_model(task, experiment)
    free = np.flatnonzero(y == -1)
    found = rehearse(task, experiment, most_likely(fit.probabilities)[0], 4)
    assert found is not None
    assert found.together != found.alone
    for p, worth in ((fit.probabilities, found.together), (fit.alone, found.alone)):
        said = judge(free, p, fit.fitted.sizes, true[free], np.arange(14))
        own = worth.apply(said.confidence, said.novel, said.size)
        assert abs(float((own - said.right)[said.novel].mean())) < 0.15
        assert abs(float((own - said.right)[~said.novel].mean())) < 0.15
        before, after = (calibration_error(each, said.right) for each in (said.confidence, own))
        assert after < before


@pytest.mark.parametrize("n_old", [1, 2, 3])
def test_with_few_known_classes_novel_items_are_not_all_unsure(n_old: int) -> None:
    x, true = blobs(0.5, n_classes=6, n_each=80)
    y = half_labelled(true, n_old)
    task = Problem(x, y, n_old, 6, 0)
    fit = fit_model(task, EXPERIMENT)
    said = most_likely(fit.probabilities)[0]
    found = rehearse(task, EXPERIMENT, said, 4)
    novel = (y == -1) & (said >= n_old)
    sure = np.full(novel.sum(), 0.95)
    assert found is not None
    assert found.together.apply(sure, sure > 0, fit.fitted.sizes[said[novel]]).mean() > 0.5


def test_too_few_labels_teach_nothing_and_two_runs_say_the_same() -> None:
    x, true = blobs(0.3, n_classes=6)
    few = np.full(len(x), -1)
    few[::40] = true[::40]
    few[1::40] = true[1::40]
    few[few >= 4] = -1
    told: list[str] = []
    assert rehearse(Problem(x, few, 4, 6, 0), EXPERIMENT, true, 2, notify=told.append) is None
    assert told == ["too few items are labelled to learn how often a label is right; confidences are the model's own"]
    task = Problem(x, half_labelled(true, 4), 4, 6, 0)
    assert rehearse(task, EXPERIMENT, true, 1) == rehearse(task, EXPERIMENT, true, 1)


def test_side_by_side_they_teach_the_same_to_the_last_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In two processes, also where one of the rehearsals goes on from its checkpoint."""
    x, true = blobs(0.8, n_classes=8)
    task = Problem(x, half_labelled(true, 5), 5, 8, 0)
    experiment = changed(EXPERIMENT, {"start": "communities", "smoothing": 2})
    told: list[str] = []
    alone = rehearse(task, experiment, true, 4, notify=told.append)
    assert sum("known class" in sentence for sentence in told) == 4, "what is this small is done one after the other"
    monkeypatch.setattr("ltgcd.discovery.rehearsal.fit_seconds", lambda _n, _epochs: 100.0)

    def kept(stage: str) -> Checkpoints | None:
        return Checkpoints(tmp_path / stage) if stage == "rehearsal-2" else None

    for processes in (1, 2):  # the second time, one has finished
        told.clear()
        found = rehearse(task, experiment, true, 4, checkpoints=kept, notify=told.append, processes=processes)
        assert found == alone
        assert list((tmp_path / "rehearsal-2").glob("epoch-*.safetensors"))
    assert told[0].startswith("4 rehearsals, 2 at a time") and "2 worker processes" in told[1]


def test_a_rehearsal_whose_process_is_killed_goes_on_in_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its first epoch, of which a checkpoint is kept: counted once, and what is learnt has the same bits."""
    x, true = blobs(0.8, n_classes=8)
    task = Problem(x, half_labelled(true, 5), 5, 8, 0)
    alone = rehearse(task, EXPERIMENT, true, 4)
    epochs: list[int] = []

    def with_a_death(
        prepare: Callable[[], Any], *rest: Any, advance: Callable[[int], None], **others: Any
    ) -> list[Any]:
        def count(done: int) -> None:
            epochs.append(done)
            advance(done)

        dying = partial(errands.killed_once, prepare, tmp_path / "died", "advance")
        return in_processes(dying, *rest, advance=count, **others)

    monkeypatch.setattr(rehearsal, "in_processes", with_a_death)
    monkeypatch.setattr(rehearsal, "fit_seconds", lambda _n, _epochs: 100.0)
    told: list[str] = []
    found = rehearse(
        task,
        EXPERIMENT,
        true,
        4,
        checkpoints=lambda stage: Checkpoints(tmp_path / stage),
        notify=told.append,
        processes=2,
    )
    assert found == alone
    assert (tmp_path / "died").exists()
    assert sum("a worker process was killed" in sentence for sentence in told) == 1
    assert sum(epochs) == 4 * 3 and -1 in epochs


def test_what_goes_wrong_in_a_process_is_said_as_it_would_be_here(monkeypatch: pytest.MonkeyPatch) -> None:
    x, true = blobs(0.8, n_classes=8)
    task = Problem(x, half_labelled(true, 5), 5, 8, 0)
    broken = changed(EXPERIMENT, {"schedule.learning_rate": 1e30})
    monkeypatch.setattr("ltgcd.discovery.rehearsal.fit_seconds", lambda _n, _epochs: 100.0)
    with pytest.raises(InputError) as here:
        rehearse(task, broken, true, 4)
    with pytest.raises(InputError) as there:
        rehearse(task, broken, true, 4, processes=2)
    assert str(there.value) == str(here.value)


@pytest.mark.parametrize("stop", [2, 4, 7])  # in the run itself (3 epochs), in the first rehearsal, in the second
def test_stopped_in_the_middle_it_goes_on_and_says_the_same(
    stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = digits_source()
    # From random prototypes, so that some items are left unsure: our start leaves none of the digits.
    settings_ = {"k": 10, "rehearsals": 2, "changes": {"schedule.epochs": 3, "start": "random"}}
    train(source, tmp_path / "whole", **settings_)
    saved: list[int] = []
    save = Checkpoints.save

    def counted(self: Checkpoints, epoch: int, *arguments: object) -> None:
        save(self, epoch, *arguments)
        saved.append(epoch)
        if len(saved) == stop:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoints, "save", counted)
    with pytest.raises(KeyboardInterrupt):
        train(source, tmp_path / "stopped", **settings_)
    train(source, tmp_path / "stopped", **settings_)
    assert len(saved) == 9, "no epoch was trained twice"
    whole, stopped = (Run(tmp_path / name).assignments() for name in ("whole", "stopped"))
    assert stopped.equals(whole)
    assert "unsure" in whole.column("status").to_pylist()
    assert not list((tmp_path / "stopped").rglob("rehearsal-*"))
    models = [(tmp_path / name / "model.toml").read_text() for name in ("whole", "stopped")]
    assert models[0] == models[1]


def test_rehearsals_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0 to 4 rehearsals, not 5"):
        train(digits_source(), tmp_path / "five", k=10, rehearsals=5)
    with pytest.raises(InputError, match="'kmeans' trains nothing"):
        train(digits_source(), tmp_path / "kmeans", k=10, method="kmeans", rehearsals=1)


def test_weights_of_a_sample_are_those_of_the_items_that_it_stands_for() -> None:
    """Twice as many items of which each counts half have the same weights together."""
    hidden, novel = np.arange(30) < 10, (np.arange(30) < 6) | (np.arange(30) == 29)
    whole = expected_weights(novel, hidden, 0.325)
    twice = expected_weights(np.tile(novel, 2), np.tile(hidden, 2), 0.325, np.full(60, 0.5))
    np.testing.assert_allclose(twice[:30] + twice[30:], whole)


def test_rehearsals_on_a_sample_say_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of the items: labels are right about as often by what either rehearsal says."""
    x, true = blobs(1.0, n_classes=24, n_each=120)
    y = half_labelled(true, 14)
    task, told = Problem(x, y, 14, 24, 0), []
    fit = fit_model(task, EXPERIMENT)
    labels = most_likely(fit.probabilities)[0]
    whole = rehearse(task, EXPERIMENT, labels, 4)
    monkeypatch.setattr(rehearsal, "ITEMS", 960)
    sampled = rehearse(task, EXPERIMENT, labels, 4, notify=told.append)
    assert whole is not None
    assert sampled is not None
    assert whole.sample is None
    assert 900 < (sampled.sample or 0) <= 960
    assert f"{sampled.sample} of the 2,880 items" in told[0]
    said, confidence = most_likely(fit.probabilities, np.flatnonzero(y == -1))
    for novel in (said >= 14, said < 14):
        at = confidence[novel], said[novel] >= 14, fit.fitted.sizes[said[novel]]
        a, b = (float(found.together.apply(*at).mean()) for found in (whole, sampled))
        assert abs(a - b) < 0.1  # 40 items a class and a third of the steps: somewhat too sceptical
