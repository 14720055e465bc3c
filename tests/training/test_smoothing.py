"""From probabilities to classes: smoothing against a slow loop, logit adjustment by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.common.errors import InputError
from ltgcd.graph.knn import NeighbourGraph, knn_graph
from ltgcd.training.smoothing import adjusted, class_prior, smoothed


def slow_smoothing(p: np.ndarray, graph: NeighbourGraph, y: np.ndarray, rounds: int, k: int) -> list[list[float]]:
    now = [[float(v) for v in row] for row in p]
    for _ in range(rounds):
        seen = [[float(c == y[i]) for c in range(p.shape[1])] if y[i] >= 0 else row for i, row in enumerate(now)]
        new = []
        for i, row in enumerate(now):
            near = list(zip(graph.indices[i].tolist(), graph.similarities[i].tolist(), strict=True))[:k]
            weights = [max(s, 0) + 1e-6 for _, s in near]
            mean = [
                sum(w * seen[j][c] for w, (j, _) in zip(weights, near, strict=True)) / sum(weights)
                for c in range(p.shape[1])
            ]
            new.append([0.5 * own + 0.5 * other for own, other in zip(row, mean, strict=True)])
        now = new
    return now


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 25),
    k=st.integers(1, 12),
    classes=st.integers(1, 4),
    rounds=st.integers(0, 3),
)
def test_smoothing_against_a_slow_loop(seed: int, n: int, k: int, classes: int, rounds: int) -> None:
    random = np.random.RandomState(seed)
    graph = knn_graph(random.randn(n, 3), 12)
    p = random.dirichlet(np.full(classes, 0.5), n).astype(np.float32)
    y = np.where(random.rand(n) < 0.4, random.randint(0, classes, n), -1)
    given_p = p.copy()
    got = np.asarray(smoothed(p, graph, y, rounds, k))
    np.testing.assert_allclose(got, slow_smoothing(p, graph, y, rounds, k), atol=1e-5)
    np.testing.assert_allclose(got.sum(axis=1), 1, atol=1e-5)
    assert got.dtype == np.float32
    assert np.array_equal(p, given_p)


def test_smoothing_by_hand() -> None:
    """Item 0 is labelled 1 though the model says 0: others see the label, and its own row what the model thinks."""
    graph = NeighbourGraph(np.array([[1], [0], [1]]), np.array([[0.9], [0.9], [0.5]], dtype=np.float32), 1.0, True)
    p = np.array([[1, 0], [0.6, 0.4], [0, 1]], dtype=np.float32)
    y = np.array([1, -1, -1])
    np.testing.assert_allclose(
        np.asarray(smoothed(p, graph, y, 1, k=1)), [[0.8, 0.2], [0.3, 0.7], [0.3, 0.7]], atol=1e-6
    )
    expected = [[0.55, 0.45], [0.15, 0.85], [0.3, 0.7]]
    np.testing.assert_allclose(np.asarray(smoothed(p, graph, y, 2, k=1)), expected, atol=1e-6)
    assert np.array_equal(np.asarray(smoothed(p, graph, y, 0, k=1)), p)


def test_smoothing_where_all_neighbours_look_away() -> None:
    """Negative cosines weigh nothing; if there are no others, all weigh the same, and rows still sum to 1."""
    graph = knn_graph(np.array([[1.0, 0], [-1, 0.1], [-1, -0.1]]), 2)
    p = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=np.float32)
    got = np.asarray(smoothed(p, graph, np.full(3, -1), 1, k=2))
    np.testing.assert_allclose(got[0], [0.5, 0.25, 0.25], atol=1e-6)
    np.testing.assert_allclose(got[1], [0, 0.5, 0.5], atol=1e-5)


def test_smoothing_a_single_item_and_a_graph_that_is_too_small() -> None:
    p = np.array([[0.3, 0.7]], dtype=np.float32)
    assert np.array_equal(np.asarray(smoothed(p, knn_graph(np.ones((1, 2)), 10), np.array([-1]), 3)), p)
    with pytest.raises(InputError, match="build it with k=10"):
        smoothed(np.full((30, 2), 0.5, dtype=np.float32), knn_graph(np.eye(30), 3), np.full(30, -1), 1)


def test_adjustment_by_hand() -> None:
    p, prior = np.array([[0.6, 0.3, 0.1]], dtype=np.float32), np.array([0.5, 0.25, 0.25])
    # p / prior = 1.2, 1.2, 0.4
    np.testing.assert_allclose(adjusted(p, prior, 1.0), [[1.2 / 2.8, 1.2 / 2.8, 0.4 / 2.8]], rtol=1e-5)
    root = [0.6 / math.sqrt(0.5), 0.3 / 0.5, 0.1 / 0.5]
    np.testing.assert_allclose(adjusted(p, prior, 0.5)[0], [v / sum(root) for v in root], rtol=1e-5)
    assert np.array_equal(adjusted(p, prior, 0.0), p)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 8), strength=st.sampled_from([0.25, 0.5, 1.0, 2.0]))
def test_properties_of_the_adjustment(seed: int, k: int, strength: float) -> None:
    random = np.random.RandomState(seed)
    p, prior = random.dirichlet(np.ones(k), 6), random.dirichlet(np.ones(k))
    got = adjusted(p, prior, strength)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(adjusted(p, np.full(k, 1 / k), strength), p, atol=1e-5)  # nothing to even out
    names = random.permutation(k)
    np.testing.assert_allclose(adjusted(p[:, names], prior[names], strength), got[:, names], atol=1e-5)
    head = int(prior.argmax())
    assert (got[:, head] <= p[:, head] + 1e-5).all()


def test_what_is_impossible_stays_impossible() -> None:
    """A class that nothing leans to has a prior of 0 as well, and 0 / 0 must not become a third of everything."""
    got = adjusted(np.array([[0.9, 0.1, 0.0], [0.5, 0.5, 0.0]]), np.array([0.7, 0.3, 0.0]), 1.0)
    assert (got[:, 2] == 0).all()
    np.testing.assert_allclose(got[0, :2], np.array([0.9 / 0.7, 0.1 / 0.3]) / (0.9 / 0.7 + 0.1 / 0.3), rtol=1e-5)
    assert np.isfinite(got).all()


def test_class_prior() -> None:
    np.testing.assert_allclose(class_prior(np.array([[1.0, 0], [0.5, 0.5]])), [0.75, 0.25])
    assert class_prior(np.empty((0, 4))).tolist() == [0.25] * 4
    assert class_prior(np.ones((3, 1), dtype=np.float32)).dtype == np.float64
