"""The whitened rows that likeness is measured by: the same in blocks and in any order, and fair to unlabelled rows."""

from __future__ import annotations

import numpy as np
import pytest

from ltgcd.common.errors import InputError
from ltgcd.graph.class_shapes import class_shapes, contamination, own_cosines
from ltgcd.graph.whitening import fit_whitening
from ltgcd.output.report.geometry import whitened_features

GEOMETRY = "ltgcd.output.report.geometry"


def classes(n_each: int, n_labelled: int, k: int = 5, d: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows around k centres, their classes, and the labels of the first of each class."""
    random = np.random.RandomState(0)
    true = np.repeat(np.arange(k), n_each)
    x = (random.randn(k, d)[true] + random.randn(len(true), d)).astype(np.float32)
    return x, true, np.where(np.tile(np.arange(n_each), k) < n_labelled, true, -1)


def test_rows_are_those_of_the_whitening_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _, y = classes(20, 6)
    wanted, labelled = fit_whitening(x, y, 5, 128).transform(x), y >= 0
    monkeypatch.setattr(f"{GEOMETRY}.ROWS", 7)
    found = whitened_features(x, y)
    np.testing.assert_allclose(found[~labelled], wanted[~labelled], atol=1e-4)
    np.testing.assert_array_equal(found, whitened_features(x, np.where(labelled, 4 - y, -1)))
    with pytest.raises(InputError, match="NaN"):
        whitened_features(np.full_like(x, np.nan), y)


@pytest.mark.parametrize("fitted", [30, 20_000])
def test_rows_do_not_depend_on_their_order(monkeypatch: pytest.MonkeyPatch, fitted: int) -> None:
    x, _, y = classes(20, 6)
    monkeypatch.setattr(f"{GEOMETRY}.FITTED", fitted)
    order = np.random.RandomState(1).permutation(len(x))
    np.testing.assert_allclose(whitened_features(x[order], y[order]), whitened_features(x, y)[order], atol=1e-4)


@pytest.mark.parametrize("n_labelled", [4, 10])
def test_rows_of_a_class_do_not_look_different_because_others_are_labelled(n_labelled: int) -> None:
    x, true, y = classes(80, n_labelled)
    is_given, every = y >= 0, np.arange(len(x))

    def far(z: np.ndarray) -> float:
        cosine = own_cosines(z, every, true, is_given, class_shapes(z, y, 5))
        return float(contamination(cosine, true, is_given, ~is_given, 5).far.sum() / (~is_given).sum())

    assert far(fit_whitening(x, y, 5, 128).transform(x)) > 0.4, "else this shows nothing"
    assert far(whitened_features(x, y)) < 0.15


@pytest.mark.parametrize("labels", [[-1] * 12, [0, -1] * 6, [0, 0, 1] + [-1] * 9, list(range(12))])
def test_few_labels_are_enough(labels: list[int]) -> None:
    x = np.random.RandomState(2).randn(12, 9).astype(np.float32)
    np.testing.assert_allclose(np.linalg.norm(whitened_features(x, np.array(labels)), axis=1), 1, atol=1e-5)
