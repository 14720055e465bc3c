"""Configurations: presets that say what they are, fields changed by path, and a sentence for every mistake."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT
from ltgcd.common.errors import InputError
from ltgcd.training import selection
from ltgcd.training.config import changed
from ltgcd.training.methods import METHODS, trained_names
from ltgcd.training.methods.ltgcd import LTGCDConfig
from ltgcd.training.methods.simgcd import SimGCDConfig
from ltgcd.training.schedule import Schedule
from ltgcd.training.selection import SelectionConfig

LTGCD, SIMGCD = METHODS["ltgcd"].preset("frozen"), METHODS["simgcd"].preset("frozen")


def leaves(config: Any, prefix: str = "") -> dict[str, Any]:
    """Every setting of a configuration by its full path."""
    found: dict[str, Any] = {}
    for f in dataclasses.fields(config):
        if f.name == "name":
            continue
        value, path = getattr(config, f.name), f"{prefix}{f.name}"
        found |= leaves(value, f"{path}.") if dataclasses.is_dataclass(value) else {path: value}
    return found


# ---------------------------------------------------------------- presets


@pytest.mark.parametrize("method", trained_names())
@pytest.mark.parametrize("regime", ["frozen", "last-stage"])
@pytest.mark.parametrize("name", ["default", "paper", "literal"])
def test_every_preset_can_be_written_and_changed_back_to_itself(method: str, regime: str, name: str) -> None:
    """What is written to config.toml makes the same configuration again, typed as on a command line."""
    experiment = METHODS[method].preset(regime, name)
    assert tomli_w.dumps(experiment.settings())
    other = METHODS[method].preset("frozen" if regime == "last-stage" else "last-stage", name)
    assert changed(other, {path: str(value) for path, value in leaves(experiment).items()}) == experiment
    assert changed(other, leaves(experiment)) == experiment


def test_literal_is_the_paper_as_printed_and_paper_its_corrected_reading() -> None:
    literal, paper = METHODS["ltgcd"].preset("frozen", "literal"), METHODS["ltgcd"].preset("frozen", "paper")
    assert isinstance(literal.method, LTGCDConfig)
    assert isinstance(paper.method, LTGCDConfig)
    assert literal.method.selection == selection.LITERAL
    assert paper.method.selection == SelectionConfig()
    for experiment in (literal, paper):  # nothing that the paper does not have
        assert (experiment.start, experiment.adjustment, experiment.smoothing) == ("random", 0.0, 0)
        assert experiment.method.neighbour_weight == 0
        assert (experiment.method.prior_weight, experiment.method.prior_rows) == (1.0, "all")
    assert paper.method.warmup > 0


def test_the_three_presets_of_ltgcd_share_the_base_of_simgcd() -> None:
    """So that a difference between methods is not one of the losses that both have."""
    for regime in ("frozen", "last-stage"):
        base = METHODS["simgcd"].preset(regime).method
        assert isinstance(base, SimGCDConfig)
        assert base.contrastive == (regime == "last-stage")
        for name in ("default", "paper", "literal"):
            experiment = METHODS["ltgcd"].preset(regime, name)
            assert experiment.method.base == base
            assert experiment.schedule == METHODS["simgcd"].preset(regime).schedule


def test_simgcd_is_the_same_in_all_presets() -> None:
    assert SIMGCD == METHODS["simgcd"].preset("frozen", "paper") == METHODS["simgcd"].preset("frozen", "literal")
    assert SIMGCD.start == "random"
    assert SIMGCD.method.supervised_weight == 0.35


def test_crest_changes_the_quota_and_nothing_else() -> None:
    for name in ("default", "paper", "literal"):
        a, b = leaves(METHODS["ltgcd"].preset("frozen", name)), leaves(METHODS["ltgcd-crest"].preset("frozen", name))
        assert {path for path in a if a[path] != b[path]} == {"method.selection.crest"}
        assert b["method.selection.crest"] == "quota"


def test_what_is_not_trained_and_unknown_presets() -> None:
    with pytest.raises(InputError, match="'kmeans' is not trained: it clusters the features and has no settings"):
        METHODS["kmeans"].preset("frozen")
    with pytest.raises(InputError, match="no preset 'best'; choose one of default, paper, literal"):
        METHODS["ltgcd"].preset("frozen", "best")


# ---------------------------------------------------------------- changes


@pytest.mark.parametrize(
    ("path", "value", "where", "expected"),
    [
        ("schedule.epochs", "20", "schedule.epochs", 20),
        ("schedule.epochs", 20, "schedule.epochs", 20),
        ("schedule.learning_rate", "3e-2", "schedule.learning_rate", 0.03),
        ("schedule.learning_rate", 1, "schedule.learning_rate", 1.0),
        ("schedule.choose", "held-out", "schedule.choose", "held-out"),
        ("start", "semi-kmeans", "start", "semi-kmeans"),
        ("smoothing", "3", "smoothing", 3),
        ("selection.smoothing", "0", "method.selection.smoothing", 0.0),
        ("selection.k", "20", "method.selection.k", 20),
        ("method.selection.k", "20", "method.selection.k", 20),
        ("selection.suppress", "false", "method.selection.suppress", False),
        ("warmup", "0.25", "method.warmup", 0.25),
        ("base.entropy_weight", "4", "method.base.entropy_weight", 4.0),
        ("entropy_weight", "4", "method.base.entropy_weight", 4.0),
        ("method.entropy_weight", "4", "method.base.entropy_weight", 4.0),
    ],
)
def test_changing_a_field_changes_it_and_nothing_else(path: str, value: object, where: str, expected: object) -> None:
    before, after = leaves(LTGCD), leaves(changed(LTGCD, {path: value}))
    assert after.pop(where) == expected
    assert type(expected) is type(before.pop(where))
    assert after == before


def test_the_short_path_works_for_simgcd_too_and_the_original_stays() -> None:
    assert changed(SIMGCD, {"entropy_weight": "4"}).method.entropy_weight == 4.0
    assert SIMGCD.method.entropy_weight == METHODS["simgcd"].preset("frozen").method.entropy_weight != 4.0
    assert changed(SIMGCD, {}) == SIMGCD
    twice = changed(SIMGCD, {"schedule.epochs": 3, "schedule.batch_size": 64})
    assert (twice.schedule.epochs, twice.schedule.batch_size) == (3, 64)
    assert changed(SelectionConfig(), {"k": "7"}).k == 7  # any configuration


@pytest.mark.parametrize("word", ["true", "True", "TRUE", "yes", "1", 1, True])
@pytest.mark.parametrize("opposite", [False, True])
def test_words_for_true_and_false(word: object, opposite: bool) -> None:
    swap = {"true": "false", "True": "False", "TRUE": "FALSE", "yes": "no", "1": "0", 1: 0}
    value = swap[word] if opposite else word  # type: ignore[index]
    assert changed(dataclasses.replace(SIMGCD, whiten=opposite), {"whiten": value}).whiten is not opposite


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("epochs", "3", "no setting 'epochs'; 'epochs' is not one of schedule, method, start"),
        ("schedule.epoch", "3", "no setting 'schedule.epoch'; 'epoch' is not one of epochs, batch_size"),
        ("selection.j", "3", "no setting 'selection.j'; 'j' is not one of sets, confidence"),
        ("", "3", "no setting ''"),
        ("schedule.", "3", "no setting 'schedule.'"),
        (".epochs", "3", "no setting '.epochs'"),
        ("schedule.epochs.more", "3", "no setting 'schedule.epochs.more'; 'epochs' has no parts"),
        ("schedule", "3", "'schedule' is a group of settings; name one of its fields"),
        ("method", "simgcd", "'method' is a group of settings"),
        ("name", "simgcd", "no setting 'name'; 'name' is not one of schedule, method, start"),
        ("selection", "literal", "'selection' is a group of settings"),
        ("method.base", "x", "'method.base' is a group of settings"),
        ("schedule.epochs", "ten", "'schedule.epochs' takes a whole number, not 'ten'"),
        ("schedule.epochs", "2.5", "'schedule.epochs' takes a whole number, not '2.5'"),
        ("schedule.epochs", 2.5, "'schedule.epochs' takes a whole number, not '2.5'"),
        ("schedule.epochs", True, "'schedule.epochs' takes a whole number, not 'True'"),
        ("schedule.epochs", "", "'schedule.epochs' takes a whole number, not ''"),
        ("schedule.epochs", None, "'schedule.epochs' takes a whole number, not 'None'"),
        ("schedule.epochs", [3], "'schedule.epochs' takes a whole number"),
        ("dropout", "a lot", "'dropout' takes a number, not 'a lot'"),
        ("dropout", [], r"'dropout' takes a number, not '\[\]'"),
        ("whiten", "maybe", "'whiten' is true or false, not 'maybe'"),
        ("whiten", 2, "'whiten' is true or false, not '2'"),
        ("start", "peaks", "'start' is one of random, semi-kmeans, communities, not 'peaks'"),
        ("schedule.choose", "best", "'schedule.choose' is one of last, held-out, not 'best'"),
        ("selection.prior", "log", "'selection.prior' is one of l1, softmax, softmax-normalised, not 'log'"),
        ("selection.confidence", "80", "'confidence' of the selection lies between 0 and 1, but is 80.0"),
        ("selection.k", "0", "'k' of the selection is a number from 1, but is 0"),
    ],
)
def test_every_mistake_has_its_sentence(path: str, value: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        changed(LTGCD, {path: value})


@pytest.mark.parametrize("method", trained_names())
@pytest.mark.parametrize("value", [-1, -0.5, float("nan"), float("inf")])
def test_no_number_of_any_method_is_negative_nan_or_infinite(method: str, value: float) -> None:
    experiment = METHODS[method].preset("frozen")
    for path, now in leaves(experiment).items():
        if type(now) in (int, float):
            with pytest.raises(InputError, match=rf"^'.*{path.rpartition('.')[2]}'.*\.$"):
                changed(experiment, {path: value})


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: SimGCDConfig(supervised_weight=-3), "'supervised_weight' of SimGCD lies between 0 and 1, but is -3."),
        (lambda: SimGCDConfig(teacher_warmup=30), "'teacher_warmup' of SimGCD lies between 0 and 1, but is 30."),
        (lambda: LTGCDConfig(neighbours=0), "'neighbours' of the method is a number from 1, but is 0."),
        (lambda: LTGCDConfig(prior_rows="few"), "'prior_rows' of the method is one of all, unlabelled, not 'few'."),
        (lambda: Schedule(momentum=1.5), "'momentum' of the schedule lies between 0 and 1, but is 1.5."),
        (lambda: Schedule(choose="best"), "'choose' of the schedule is one of last, held-out, not 'best'."),
        (
            lambda: dataclasses.replace(SIMGCD, start="peaks"),
            "'start' is one of random, semi-kmeans, communities, not 'peaks'.",
        ),
        (lambda: dataclasses.replace(SIMGCD, dropout=1.0), "'dropout' lies between 0 and 0.99, but is 1.0."),
    ],
)
def test_a_configuration_made_by_hand_is_checked_too(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        make()
    assert str(refused.value) == sentence


def test_a_warm_up_may_last_for_ever() -> None:
    assert changed(LTGCD, {"warmup": 2.0}).method.warmup == 2.0


def test_simgcd_has_no_selection() -> None:
    with pytest.raises(InputError, match=r"no setting 'selection\.k'"):
        changed(SIMGCD, {"selection.k": 3})


@settings(max_examples=60, deadline=None)
@given(
    path=st.one_of(st.text(max_size=20), st.sampled_from(sorted(leaves(LTGCD)))),
    value=st.one_of(st.text(max_size=8), st.integers(-5, 5), st.booleans(), st.none(), st.floats(0, 1)),
)
def test_any_path_and_value_give_a_configuration_or_a_sentence(path: str, value: object) -> None:
    try:
        after = changed(LTGCD, {path: value})
    except InputError as error:
        assert str(error).endswith(".")
        return
    before = leaves(LTGCD)
    assert sum(before[name] != now for name, now in leaves(after).items()) <= 1
    assert all(type(before[name]) is type(now) for name, now in leaves(after).items())


def test_what_paper_md_points_to_exists() -> None:
    """`file.py:name` in the map from equations to code: a renamed function would leave a reader in the dark."""
    root = ROOT
    named = re.findall(r"`([a-z_/]+\.py):([A-Za-z_.]+)`", (root / "PAPER.md").read_text())
    assert len(named) > 20
    sources = {path.as_posix(): path.read_text() for path in (root / "src" / "ltgcd").rglob("*.py")}
    for file, name in named:
        texts = [text for path, text in sources.items() if path.endswith("/" + file)]
        last = name.rsplit(".", 1)[-1]
        assert any(re.search(rf"^ *(def|class) {last}\b|^ *{last}\b.* = ", text, re.M) for text in texts), (file, name)


def test_a_method_made_of_another_one_runs_its_own_code() -> None:
    """Found again by its own name: a preset that another method made would bring that one's name along."""
    import dataclasses

    from ltgcd.training.methods import METHODS

    mine = dataclasses.replace(METHODS["simgcd"], name="mine")
    assert mine.preset("frozen").name == "mine"
    assert all(method.preset("frozen").name == name for name, method in METHODS.items() if method.trained)
    assert all(method.name == name for name, method in METHODS.items())
