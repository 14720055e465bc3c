"""The dict of methods: what it says of each is true, names and sentences come from it, one graph serves all."""

from __future__ import annotations

import dataclasses
import inspect

import numpy as np
import pytest

from ltgcd.common.errors import InputError
from ltgcd.graph import feature_graph, knn
from ltgcd.graph.feature_graph import FeatureGraph
from ltgcd.training.config import changed
from ltgcd.training.fit import check_experiment, fit_model
from ltgcd.training.heads import Head
from ltgcd.training.method import Method
from ltgcd.training.methods import METHODS, get_method, method_names, trained_names
from ltgcd.training.problem import Problem

X = np.random.RandomState(0).randn(80, 6).astype(np.float32)
Y = np.where(np.arange(80) < 30, np.arange(80) % 3, -1)
PROBLEM = Problem(X, Y, 3, 5, 0)
EVERY = pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
TRAINED = pytest.mark.parametrize("method", [METHODS[name] for name in trained_names()], ids=trained_names())


@EVERY
def test_a_method_says_what_it_is(method: Method) -> None:
    assert METHODS[method.name] is method
    assert get_method(method.name) is method
    assert method.summary
    assert "\n" not in method.summary


@TRAINED
@pytest.mark.parametrize("regime", ["frozen", "last-stage"])
@pytest.mark.parametrize("name", ["default", "paper", "literal"])
def test_every_preset_is_of_its_method(method: Method, regime: str, name: str) -> None:
    experiment = method.preset(regime, name)  # type: ignore[arg-type]
    assert experiment.name == method.name
    assert type(experiment.method) is method.config
    assert dataclasses.is_dataclass(method.config)
    assert check_experiment(experiment, keeps=False) is method


@TRAINED
def test_who_has_prototypes_has_a_head_with_them(method: Method) -> None:
    small = {"gcd": {"width": 64}, "uno": {"hidden": 16}}.get(method.name, {})
    head, _ = method.build(PROBLEM, changed(method.preset("frozen"), small).method, FeatureGraph(X))
    assert isinstance(head, Head) == method.has_prototypes


@EVERY
def test_who_only_clusters_clusters(method: Method) -> None:
    if method.trained:
        with pytest.raises(AssertionError):
            method.cluster(X, Y, 3, 5, 0)
        return
    assert method.cluster(X, Y, 3, 5, 0).labels.shape == (80,)
    with pytest.raises(InputError, match="is not trained: it clusters the features and has no settings"):
        method.preset("frozen")


def test_names_and_sentences() -> None:
    assert method_names() == list(METHODS)
    assert set(method_names()) - set(trained_names()) == {"kmeans", "semi-kmeans"}
    with pytest.raises(InputError) as refused:
        get_method("k-means")
    assert str(refused.value) == f"There is no method 'k-means'; choose one of {', '.join(METHODS)}."
    with pytest.raises(InputError, match="no trained method 'kmeans'; choose one of ltgcd, ltgcd-crest, simgcd"):
        get_method("kmeans", trained=True)


def test_settings_of_another_method_are_refused() -> None:
    mixed = dataclasses.replace(METHODS["gcd"].preset("frozen"), name="simgcd")
    with pytest.raises(InputError, match="not the settings of simgcd"):
        fit_model(PROBLEM, mixed)
    with pytest.raises(InputError, match="There is no trained method 'best'"):
        fit_model(PROBLEM, dataclasses.replace(mixed, name="best"))


def test_nobody_asks_what_type_a_configuration_is() -> None:
    """A new method is a file and a line: no other file may know the configuration of a method."""
    from ltgcd.training import config, fit, loop, method

    for module in (config, fit, loop, method):
        source = inspect.getsource(module)
        assert not any(one.config.__name__ in source for one in METHODS.values() if one.trained), module


# ---------------------------------------------------------------- one graph


def test_the_features_before_training_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start, neighbour loss and the density of a pool of all items share one graph; evidence of novelty has its own."""
    searched: list[tuple[np.ndarray, int]] = []

    def counted(x: np.ndarray, k: int) -> knn.NeighbourGraph:
        searched.append((x, k))
        return knn.knn_graph(x, k)

    monkeypatch.setattr(feature_graph, "knn_graph", counted)
    asked = {"neighbour_weight": 0.3, "selection.pool": "all", "selection.k_s": 10, "start": "communities"}
    fit_model(PROBLEM, changed(METHODS["ltgcd"].preset("frozen"), {"schedule.epochs": 1, **asked}))
    components = feature_graph.components_of(PROBLEM.x).features
    of_components = [np.array_equal(x, components) for x, _ in searched]
    assert sorted(of_components) == [False, True]
    assert searched[of_components.index(False)][1] == 10


def test_a_graph_of_fewer_neighbours_is_the_first_columns_and_more_are_searched_again() -> None:
    graph = FeatureGraph(X)
    ten = graph.nearest(10)
    three = graph.nearest(3)
    assert np.array_equal(three.indices, ten.indices[:, :3])
    assert np.array_equal(three.indices, knn.knn_graph(X, 3).indices)
    assert np.array_equal(graph.nearest(20).indices, knn.knn_graph(X, 20).indices)
    few = FeatureGraph(X[:4])
    assert few.nearest(9).k == 3
    assert few.nearest(20).k == 3
