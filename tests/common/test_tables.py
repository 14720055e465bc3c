"""Tables that nobody holds as a whole, against arrays that are held."""

from __future__ import annotations

import numpy as np
import pytest

from ltgcd.common import tables
from ltgcd.common.tables import (
    RowTable,
    TopClasses,
    at_columns,
    blocks,
    keep_most_likely,
    kept_classes,
    most_likely,
    probabilities,
)
from ltgcd.graph.density import density
from ltgcd.graph.knn import knn_graph
from ltgcd.training.smoothing import STEP, class_prior, smoothed


def said(n: int = 700, k: int = 90, seed: int = 0) -> np.ndarray:
    """Probabilities of items of which a few classes are likely."""
    return np.random.RandomState(seed).dirichlet(np.full(k, 0.03), n).astype(np.float32)


def test_blocks_are_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BUFFER", 1)  # blocks of 256 rows
    p, asked = said(), []

    def compute(rows: tables.Rows) -> np.ndarray:
        asked.append(rows)
        return p[rows]

    table = RowTable(p.shape, compute)
    rows = np.random.RandomState(1).permutation(len(p))[:600]
    for some, whole in ((None, p), (rows, p[rows])):
        column, largest = most_likely(table, some)
        assert np.array_equal(column, whole.argmax(axis=1))
        assert np.array_equal(largest, whole.max(axis=1))
        assert np.array_equal(np.concatenate([block for _, block in blocks(table, some)]), whole)
        # The same bits as the mean of the whole, however it is cut.
        assert np.array_equal(class_prior(table, some), whole.mean(axis=0, dtype=np.float64))
    assert np.array_equal(at_columns(table, p.argmin(axis=1)), p.min(axis=1))
    assert len(asked) == 2 * (3 + 3 + 3) + 3  # three blocks each time, and never all rows at once
    np.testing.assert_array_equal(np.asarray(table), p)


def test_small_tables_are_kept_whole_and_large_ones_by_their_likely_classes() -> None:
    assert kept_classes(60_000, 1_000) == 1_000
    assert kept_classes(1_000_000, 1_000) == 33
    assert kept_classes(437_000, 8_142) == 76
    assert kept_classes(100_000_000, 1_000) == tables.LEAST
    assert kept_classes(100_000_000, 10) == 10


def test_likely_classes_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "WHOLE", 0)
    monkeypatch.setattr(tables, "LEAST", 2)
    p = np.array([[0.1, 0.6, 0.3, 0.0], [0.5, 0.0, 0.1, 0.4]], dtype=np.float32)
    kept = keep_most_likely(p)
    assert isinstance(kept, TopClasses)
    np.testing.assert_array_equal(kept.classes, [[1, 2], [0, 3]])
    np.testing.assert_array_equal(kept.p, np.array([[0.6, 0.3], [0.5, 0.4]], dtype=np.float32))
    got = kept.products(np.array([0, 1]), np.array([[0, 1], [1, 0]]))
    np.testing.assert_allclose(got, [[0.36 + 0.09, 0], [0.25 + 0.16, 0]], rtol=1e-6)
    near = kept.weighted_sum(np.array([[1, 0]]), np.array([[0.5, 0.1]], dtype=np.float32))
    # The 0.1 that each lacks is shared by the two classes that are not kept.
    np.testing.assert_allclose(near, [[0.25 + 0.005, 0.025 + 0.06, 0.025 + 0.03, 0.2 + 0.005]], rtol=1e-5)


def test_what_likely_classes_lose_is_within_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Density and smoothing of 40 kept classes of 90, against all: no product loses more than the 41st of both."""
    p = said()
    graph = knn_graph(np.random.RandomState(2).randn(len(p), 6), 10)
    y = np.where(np.arange(len(p)) % 4 == 0, p.argmax(axis=1), -1)
    whole = density(graph, p, 10), np.asarray(smoothed(p, graph, y, 1))
    monkeypatch.setattr(tables, "WHOLE", 0)
    monkeypatch.setattr(tables, "LEAST", 40)
    kept = keep_most_likely(p)
    assert isinstance(kept, TopClasses)
    dropped = float(np.sort(p, axis=1)[:, -41].max())
    got = density(graph, kept, 10), np.asarray(smoothed(p, graph, y, 1))
    assert 0 < np.abs(got[0] - whole[0]).max() <= 2 * 2 * dropped + 1e-6
    assert 0 < np.abs(got[1] - whole[1]).max() <= STEP * dropped + 1e-7
    assert (got[1].argmax(axis=1) == whole[1].argmax(axis=1)).all()


def test_labelled_neighbours_are_one_hot_where_few_classes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A label need not be among the classes that the model finds likely."""
    monkeypatch.setattr(tables, "WHOLE", 0)
    monkeypatch.setattr(tables, "LEAST", 2)
    p = np.tile(np.array([0.5, 0.4, 0.06, 0.04], dtype=np.float32), (5, 1))
    graph = knn_graph(np.ones((5, 2)) + np.arange(5)[:, None] * 1e-3, 4)
    for label in range(4):
        got = np.asarray(smoothed(p, graph, np.array([-1, label, label, label, label]), 1, k=4))
        np.testing.assert_allclose(got[0], 0.5 * p[0] + 0.5 * np.eye(4)[label], atol=1e-6)


def test_probabilities_at_a_temperature() -> None:
    got = probabilities(np.log(np.array([[0.2, 0.8]])), 0.5)
    np.testing.assert_allclose(np.asarray(got), [[0.04 / 0.68, 0.64 / 0.68]], rtol=1e-6)
