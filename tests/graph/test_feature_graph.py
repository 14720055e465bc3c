"""Neighbours are searched once for everyone who asks; what no label has touched is shared by all fits."""

from __future__ import annotations

import numpy as np
import pytest

from ltgcd.class_number.estimate import estimate_k
from ltgcd.data.digits import digits_source
from ltgcd.data.order import content_order
from ltgcd.discovery.discover import discover
from ltgcd.discovery.task import Task, configure
from ltgcd.graph import feature_graph
from ltgcd.graph.feature_graph import FeatureGraph, components_of
from ltgcd.graph.knn import NeighbourGraph, knn_graph
from ltgcd.run.train import vectors


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of every search through a `FeatureGraph` from now on."""
    searches: list[int] = []

    def search(features: np.ndarray, k: int) -> NeighbourGraph:
        searches.append(len(features))
        return knn_graph(features, k)

    monkeypatch.setattr(feature_graph, "knn_graph", search)
    return searches


def test_one_search_serves_fewer_neighbours_and_a_second_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = counted(monkeypatch)
    x = np.random.RandomState(0).randn(60, 4).astype(np.float32)
    graph = FeatureGraph(x)
    ten = graph.nearest(10)
    np.testing.assert_array_equal(graph.nearest(3).indices, ten.indices[:, :3])
    assert searches == [60]
    np.testing.assert_array_equal(graph.nearest(12).indices, knn_graph(x, 12).indices)
    assert searches == [60, 60]


def test_one_long_row_leaves_the_components_of_the_others_alone() -> None:
    random = np.random.RandomState(0)
    x = np.concatenate([random.randn(80, 3) * [5, 2, 1], np.zeros((1, 3))]).astype(np.float32)
    z = components_of(x).features
    x[-1] = [0, 0, 1e6]
    assert np.abs(np.corrcoef(components_of(x).features[:-1, 0], z[:-1, 0])[0, 1]) > 0.99


def test_components_that_the_caller_has_change_no_estimate() -> None:
    source = digits_source()
    x, y, n_old = vectors(source).astype(np.float32), source.collection.y, source.collection.n_old
    order = content_order(x, y, n_old)
    alone = estimate_k(x, y, n_old=n_old)
    shared = estimate_k(x, y, n_old=n_old, order=order, components=components_of(x[order.rows]))
    assert (alone.k, alone.low, alone.high, alone.curve) == (shared.k, shared.low, shared.high, shared.curve)
    assert alone.evidence == shared.evidence
    np.testing.assert_array_equal(alone.labels, shared.labels)


def test_class_number_fit_and_rehearsals_share_one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of three fits whitens otherwise, and needs at most a graph of its own; components have one for all."""
    source = digits_source()
    searches = counted(monkeypatch)
    x = vectors(source)
    config = configure(changes={"schedule.epochs": 1}, rehearsals=2)
    discover(Task(x, source.collection.y, source.collection.n_old), config)
    assert searches.count(len(x)) <= 1 + 3
