"""A trained model as tensors and a description: the same model comes back, damage is a sentence, nothing is drawn."""

from __future__ import annotations

import copy
import tomllib
from typing import Any

import numpy as np
import pytest
import tomli_w
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ltgcd.common.engine.threads import torch_threads
from ltgcd.common.errors import InputError
from ltgcd.features.views import VectorViews
from ltgcd.training.calibration import Calibration
from ltgcd.training.config import changed
from ltgcd.training.fit import fit_model
from ltgcd.training.methods import METHODS
from ltgcd.training.model import FittedModel, check_extendable, extended, head_outputs
from ltgcd.training.problem import Problem

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(60, 6).astype(np.float32)
Y = np.where(np.arange(60) < 30, np.arange(60) % 3, -1)
SHORT = {"schedule.epochs": 1, "schedule.batch_size": 16}
CALIBRATION = Calibration((0.1, 1.0, 0.2), (0.3, 0.5, 0.0), 100, 40, 0.02, 0.1, 0.01)


def problem(**changes: Any) -> Problem:
    return Problem(X, Y, 3, 5, 0)._replace(**changes)


def model_of(method: str, **changes: Any) -> FittedModel:
    small = {"gcd": {"width": 64, "n_init": 2}, "uno": {"hidden": 16, "n_heads": 2}}.get(method, {})
    return fit_model(problem(), changed(METHODS[method].preset("frozen"), {**SHORT, **small, **changes})).fitted


def never() -> nn.Module:
    raise AssertionError("no last stage was trained")


FITTED = model_of("simgcd")
FITTED.calibration = CALIBRATION
TENSORS, DESCRIPTION = FITTED.state()


@pytest.mark.parametrize("method", ["simgcd", "gcd", "uno", "rankstats"])
@pytest.mark.parametrize("whiten", [True, False])
def test_the_model_of_a_state_is_the_model(method: str, whiten: bool) -> None:
    fitted = model_of(method, whiten=whiten)
    tensors, description = fitted.state()
    again = FittedModel.from_state(tensors, tomllib.loads(tomli_w.dumps(description)), never)
    assert np.array_equal(again.predict(VectorViews(X)), fitted.predict(VectorViews(X)))
    assert again.state()[1] == description
    assert again.state()[0].keys() == tensors.keys()
    assert again.regime == "frozen"


def test_vectors_are_computed_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """On some processors two threads round a product otherwise than one, and an answer must not depend on that."""
    threads: list[int] = []

    class Noting(torch.nn.Linear):
        def forward(self, features: torch.Tensor) -> dict[str, torch.Tensor]:  # type: ignore[override]
            threads.append(torch.get_num_threads())
            return {"logits": super().forward(features)}

    with torch_threads(2):
        table = head_outputs(Noting(4, 3), np.ones((5, 4), dtype=np.float32), torch.device("cpu"))["logits"]
        threads.clear()
        assert table[slice(0, 5)].shape == (5, 3)
        assert threads == [1]
        assert torch.get_num_threads() == 2


def test_the_calibration_comes_back() -> None:
    again = FittedModel.from_state(TENSORS, tomllib.loads(tomli_w.dumps(DESCRIPTION)), never)
    assert again.calibration == CALIBRATION


def test_a_last_stage_is_asked_for_where_one_was_trained() -> None:
    tail = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
    trained = fit_model(
        problem(views=VectorViews(X), tail=tail), changed(METHODS["simgcd"].preset("last-stage"), SHORT)
    ).fitted
    assert trained.regime == "last-stage"
    made: list[nn.Module] = []

    def fresh() -> nn.Module:
        made.append(copy.deepcopy(tail))
        return made[-1]

    again = FittedModel.from_state(*trained.state(), fresh)
    assert len(made) == 1
    assert np.array_equal(again.predict(VectorViews(X)), trained.predict(VectorViews(X)))
    with pytest.raises(InputError, match="its weights are not those that it describes"):
        FittedModel.from_state(*trained.state(), lambda: nn.Linear(6, 7))


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"n_old": None}, "'n_old' is no whole number"),
        ({"n_old": 2.0}, "'n_old' is no whole number"),
        ({"k": "5"}, "'k' is no whole number"),
        ({"k": True}, "'k' is no whole number"),
        ({"k": 6}, "not of 6 classes"),
        ({"k": 2}, "its numbers are impossible"),
        ({"n_old": -1}, "its numbers are impossible"),
        ({"temperature": 0.0}, "its numbers are impossible"),
        ({"temperature": float("nan")}, "'temperature' is no number"),
        ({"temperature": 10**400}, "'temperature' is no number"),
        ({"adjustment": []}, "'adjustment' is no number"),
        ({"regime": "thawed"}, "'regime' or 'head' is not what it can be"),
        ({"regime": []}, "'regime' or 'head' is not what it can be"),
        ({"head": 3}, "'regime' or 'head' is not what it can be"),
        ({"head": "tree"}, r"of a kind \('tree'\) that this version does not know"),
        ({"head": "linear"}, "its weights are not those that it describes"),
        ({"calibration": 3}, "calibration"),
        ({"calibration": {}}, "calibration"),
        ({"calibration": {**vars(CALIBRATION), "known": [1.0, 2.0]}}, "calibration"),
        ({"calibration": {**vars(CALIBRATION), "known": 1.0}}, "calibration"),
        ({"calibration": {**vars(CALIBRATION), "error": float("inf")}}, "calibration"),
        ({"calibration": {**vars(CALIBRATION), "n": "many"}}, "calibration"),
    ],
)
def test_a_damaged_description_is_a_sentence(change: dict[str, Any], sentence: str) -> None:
    description = {name: value for name, value in {**DESCRIPTION, **change}.items() if value is not None}
    with pytest.raises(InputError, match=sentence) as refused:
        FittedModel.from_state(TENSORS, description, never)
    assert str(refused.value).endswith(".")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", sorted(TENSORS))
def test_a_tensor_that_is_missing_or_of_another_shape_is_a_sentence(name: str) -> None:
    for tensor in (None, torch.zeros(3, 2, 2), torch.tensor(1.0), torch.zeros(0)):
        tensors = {other: value for other, value in TENSORS.items() if other != name}
        if tensor is not None:
            tensors[name] = tensor
        with pytest.raises(InputError, match=r"^The description of the model is damaged .*\.$"):
            FittedModel.from_state(tensors, DESCRIPTION, never)


ANYTHING = st.recursive(
    st.one_of(st.integers(-3, 9), st.floats(), st.booleans(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=4,
)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(DESCRIPTION)), ANYTHING, max_size=3))
def test_any_description_is_a_model_or_a_sentence(changes: dict[str, Any]) -> None:
    try:
        FittedModel.from_state(TENSORS, {**DESCRIPTION, **changes}, lambda: nn.Linear(6, 6))
    except InputError as error:
        assert str(error).endswith(".")


# ---------------------------------------------------------------- more classes


def test_more_classes_leave_the_cosines_of_the_others_as_they_are() -> None:
    prototypes = np.random.RandomState(1).randn(2, 6).astype(np.float32)
    larger = extended(FITTED, prototypes, np.array([0.1, 0.3]), np.array([4, 7]))
    views = VectorViews(X)
    before, after = (m.model(views.test(np.arange(60)))[1]["logits"].detach() for m in (FITTED, larger))
    assert torch.equal(after[:, :5], before)
    assert after.shape == (60, 7)
    assert (larger.k, larger.n_old, FITTED.k) == (7, 3, 5)
    assert larger.sizes[5:].tolist() == [4, 7]
    np.testing.assert_allclose(larger.prior, [*(0.6 * FITTED.prior), 0.1, 0.3])
    assert larger.calibration == FITTED.calibration
    again = FittedModel.from_state(*larger.state(), never)
    assert np.array_equal(again.predict(views), larger.predict(views))


def test_no_more_classes_are_the_same_model() -> None:
    same = extended(FITTED, np.empty((0, 6), np.float32), np.empty(0), np.empty(0, np.int64))
    assert np.array_equal(same.predict(VectorViews(X)), FITTED.predict(VectorViews(X)))


@pytest.mark.parametrize("method", ["gcd", "uno", "rankstats"])
def test_a_model_without_prototypes_takes_up_no_class(method: str) -> None:
    assert not METHODS[method].has_prototypes
    with pytest.raises(InputError, match="no prototype for each class"):
        check_extendable(model_of(method))


# ---------------------------------------------------------------- random numbers


def random_numbers() -> tuple[torch.Tensor, Any]:
    return torch.random.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[union-attr]


@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].trained])
def test_training_draws_nothing_from_the_callers_random_numbers(method: str) -> None:
    torch.manual_seed(11)
    np.random.seed(11)
    before = random_numbers()
    first = model_of(method)
    after = random_numbers()
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    torch.manual_seed(12)
    assert np.array_equal(model_of(method).predict(VectorViews(X)), first.predict(VectorViews(X)))


def test_neither_does_a_model_that_is_loaded_or_extended() -> None:
    before = random_numbers()
    FittedModel.from_state(TENSORS, DESCRIPTION, never)
    extended(FITTED, np.ones((1, 6), np.float32), np.array([0.1]), np.array([1]))
    after = random_numbers()
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
