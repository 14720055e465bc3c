"""The density against numbers worked out by hand and a slow loop, and what a diffuse classifier does to it."""

from __future__ import annotations

import tracemalloc
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.common.errors import InputError
from ltgcd.common.numerics import softmax
from ltgcd.graph import density as module
from ltgcd.graph.density import DensityReport, connectivity, density, judge_classifier
from ltgcd.graph.knn import NeighbourGraph, knn_graph
from ltgcd.graph.peaks import find_peaks


def graph_of(indices: list[list[int]], similarities: list[list[float]]) -> NeighbourGraph:
    return NeighbourGraph(np.array(indices), np.array(similarities, dtype=np.float32), 1.0, True)


def blobs(n: int = 1200, c: int = 20, d: int = 16, noise: float = 0.15, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Features, true classes, and labels of half of the items of the first half of the classes."""
    random = np.random.RandomState(seed)
    true = random.randint(0, c, n)
    x = random.randn(c, d)[true] / np.sqrt(d) + noise * random.randn(n, d)
    y = np.where((true < c // 2) & (random.rand(n) < 0.5), true, -1)
    return x, true, y


def cosine_logits(x: np.ndarray, true: np.ndarray, temperature: float) -> np.ndarray:
    """A classifier of all classes: cosines to the class means over a temperature."""
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    means = np.stack([unit[true == c].mean(axis=0) for c in range(true.max() + 1)])
    return unit @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T / temperature


def calibrated_density(graph: NeighbourGraph, logits: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, DensityReport]:
    """The density that the report asks for, as the selection uses it."""
    report = judge_classifier(graph, logits, y)
    return density(graph, None if report.form == "affinity" else softmax(logits, report.temperature)), report


def test_golden_numbers() -> None:
    graph = graph_of([[1, 2], [0, 2], [1, 0]], [[0.9, 0.5], [0.9, 0.6], [0.6, 0.5]])
    np.testing.assert_allclose(density(graph, k=2), [0.7, 0.75, 0.55], rtol=1e-6)
    p = np.array([[1, 0], [0.8, 0.2], [0, 1]])
    # p_0·p_1 = 0.8, p_0·p_2 = 0, p_1·p_2 = 0.2
    e = connectivity(graph, p, k=2)
    np.testing.assert_allclose(e, [[0.6, -1], [0.6, -0.6], [-0.6, -1]], atol=1e-6)
    expected = [(0.6 * 0.9 - 0.5) / 2, (0.6 * 0.9 - 0.6 * 0.6) / 2, (-0.6 * 0.6 - 0.5) / 2]
    np.testing.assert_allclose(density(graph, p, k=2), expected, atol=1e-6)
    np.testing.assert_allclose(density(graph, p, k=1), [0.54, 0.54, -0.36], atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 40), classes=st.integers(1, 6), k=st.integers(1, 12))
def test_against_a_slow_loop_in_any_blocks(seed: int, n: int, classes: int, k: int) -> None:
    random = np.random.RandomState(seed)
    graph = knn_graph(random.randn(n, 4), 12)
    p = random.dirichlet(np.full(classes, 0.3), n)
    with mock.patch.object(module, "BUFFER", 1000):
        got, alone = density(graph, p, k), density(graph, k=k)
    for i in range(n):
        terms = [
            ((2 * sum(a * b for a, b in zip(p[i], p[j], strict=True)) - 1) * s, s)
            for j, s in list(zip(graph.indices[i].tolist(), graph.similarities[i].tolist(), strict=True))[:k]
        ]
        assert got[i] == pytest.approx(sum(t for t, _ in terms) / max(1, len(terms)), abs=1e-6)
        assert alone[i] == pytest.approx(sum(s for _, s in terms) / max(1, len(terms)), abs=1e-6)
    assert np.array_equal(got, density(graph, p, k))
    assert got.dtype == np.float32


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 40))
def test_permuting_the_items_permutes_the_density(seed: int, n: int) -> None:
    random = np.random.RandomState(seed)
    x, p, order = random.randn(n, 4), random.dirichlet(np.ones(5), n), random.permutation(n)
    a, b = density(knn_graph(x, 10), p), density(knn_graph(x[order], 10), p[order])
    assert np.array_equal(a[order], b)


def test_a_certain_classifier_of_one_class_adds_nothing() -> None:
    graph = knn_graph(np.random.RandomState(0).randn(30, 4), 10)
    assert np.array_equal(density(graph, np.ones((30, 1))), density(graph))


def test_copies_have_the_same_density_to_the_last_bit() -> None:
    random = np.random.RandomState(0)
    x, p = random.randn(60, 5), random.dirichlet(np.ones(7), 60)
    x[20:26], p[20:26] = x[3], p[3]
    d = density(knn_graph(x, 10), p)
    assert len(set(d[[3, *range(20, 26)]].tolist())) == 1


def test_the_density_of_a_single_item_and_of_equal_items() -> None:
    assert density(knn_graph(np.ones((1, 3)), 10)).tolist() == [0.0]
    assert density(knn_graph(np.ones((1, 3)), 10), np.ones((1, 4)) / 4).tolist() == [0.0]
    assert (density(knn_graph(np.ones((25, 3)), 10)) == 1).all()


def test_thousands_of_classes_in_bounded_memory() -> None:
    """The neighbours' probabilities all at once would take 650 MB."""
    graph = knn_graph(np.random.RandomState(0).randn(2000, 8), 10)
    p = np.full((2000, 8142), 1 / 8142, dtype=np.float32)
    tracemalloc.start()
    d = density(graph, p)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 160 * 2**20
    assert (d < 0).all()


# ---------------------------------------------------------------- the trap, and the way out


def test_a_diffuse_classifier_turns_the_density_upside_down_and_calibration_turns_it_back() -> None:
    """With e_ij ≈ −1 the outliers become peaks: 3,540 instead of 113 of 14,671 items."""
    x, true, y = blobs()
    graph = knn_graph(x, 10)
    sharp, diffuse = cosine_logits(x, true, 0.02), cosine_logits(x, true, 1.0)
    alone, good, bad = density(graph), density(graph, softmax(sharp)), density(graph, softmax(diffuse))
    assert np.corrcoef(alone, bad)[0, 1] < -0.9
    n_good = len(find_peaks(good, graph))
    assert len(find_peaks(bad, graph)) > 4 * n_good
    mended, report = calibrated_density(graph, diffuse, y)
    assert report.form == "calibrated"
    assert report.temperature < 0.2
    assert report.same_before < -0.8
    assert report.same_after > 0.5 > report.different_after
    assert len(find_peaks(mended, graph)) < 1.5 * n_good
    assert np.corrcoef(alone, mended)[0, 1] > 0.3
    assert report.sentence == (
        "the density uses the classifier at another temperature: labelled neighbours of one class have mean "
        f"connectivity {report.same_before:+.2f}, which would turn it over; at {report.temperature:.3g} times the "
        f"temperature it is {report.same_after:+.2f}"
    )


def test_a_good_classifier_is_used_as_it_is() -> None:
    x, true, y = blobs()
    graph, logits = knn_graph(x, 10), cosine_logits(x, true, 0.02)
    got, report = calibrated_density(graph, logits, y)
    assert (report.form, report.temperature) == ("classifier", 1.0)
    assert report.same_before == report.same_after
    assert report.same_before > 0
    assert np.array_equal(got, density(graph, softmax(logits)))
    assert "as given" in report.sentence


def test_only_the_shape_of_the_logits_counts() -> None:
    """Diffuse by a factor of 1 or 10, shifted, or given as log-probabilities: the calibrated density is the same."""
    x, true, y = blobs()
    graph, logits = knn_graph(x, 10), cosine_logits(x, true, 1.0)
    expected, report = calibrated_density(graph, logits, y)
    for other, factor in ((logits / 10, 10), (logits + 5, 1), (np.log(softmax(logits)), 1)):
        got, again = calibrated_density(graph, other, y)
        assert again.temperature == pytest.approx(report.temperature / factor, rel=0.1)
        np.testing.assert_allclose(got, expected, atol=0.02)


def test_the_temperature_is_the_best_of_a_fine_grid() -> None:
    x, true, y = blobs(noise=0.25)
    graph, logits = knn_graph(x, 10), cosine_logits(x, true, 1.0)
    _, report = calibrated_density(graph, logits, y)

    def loss(temperature: float) -> float:
        p, total = softmax(logits, temperature), {True: [], False: []}
        for i in np.flatnonzero(y >= 0):
            for j in graph.indices[i][y[graph.indices[i]] >= 0]:
                same = bool(y[i] == y[j])
                total[same].append((p[i] @ p[j] - same) ** 2)
        return float(np.mean(total[True]) + np.mean(total[False]))

    best = min(loss(t) for t in np.geomspace(0.005, 1, 60))
    assert loss(report.temperature) <= best * 1.001


@pytest.mark.parametrize("labelled", [0, 4])
def test_too_few_labels_mean_affinity_alone(labelled: int) -> None:
    x, true, _ = blobs()
    y = np.full(len(x), -1)
    y[:labelled] = true[:labelled]
    graph = knn_graph(x, 10)
    got, report = calibrated_density(graph, cosine_logits(x, true, 1.0), y)
    assert report.form == "affinity"
    assert np.array_equal(got, density(graph))
    assert "too few" in report.sentence


def test_a_classifier_that_knows_nothing_is_left_out() -> None:
    x, _, y = blobs()
    graph = knn_graph(x, 10)
    got, report = calibrated_density(graph, np.random.RandomState(0).randn(len(x), 20), y)
    assert report.form == "affinity"
    assert report.same_before < 0
    assert np.array_equal(got, density(graph))
    assert "no temperature" in report.sentence


def test_one_labelled_class_only() -> None:
    """There are no pairs of two classes: same-class pairs decide alone."""
    x, true, _ = blobs()
    _, report = calibrated_density(knn_graph(x, 10), cosine_logits(x, true, 1.0), np.where(true == 0, 0, -1))
    assert report.n_different == 0
    assert report.different_before is None
    assert report.form == "calibrated"


def test_many_pairs_are_sampled() -> None:
    x, true, y = blobs(noise=0.25)
    graph, logits = knn_graph(x, 10), cosine_logits(x, true, 1.0)
    _, whole = calibrated_density(graph, logits, y)
    with mock.patch.object(module, "MAX_PAIRS", 500):
        _, part = calibrated_density(graph, logits, y)
        assert judge_classifier(graph, logits, y) == part
    assert part.n_same == whole.n_same > 500
    assert part.temperature == pytest.approx(whole.temperature, rel=0.3)


def test_pairs_of_one_class_that_the_draw_misses_are_too_few() -> None:
    """One pair is drawn, of two classes: nothing is known of the others, and the sentence can still be said."""
    x, true, y = blobs(noise=0.6)
    with mock.patch.object(module, "MAX_PAIRS", 1):
        reports = [
            judge_classifier(knn_graph(x, 10), cosine_logits(x, true, 1.0), y, random_state=seed) for seed in range(20)
        ]
    missed = [report for report in reports if report.same_before is None]
    assert missed
    assert all(report.form == "affinity" and "too few" in report.sentence for report in missed)


def test_bad_input() -> None:
    graph = knn_graph(np.random.RandomState(0).randn(30, 4), 10)
    good, y = np.full((30, 3), 1 / 3), np.zeros(30, dtype=int)
    with pytest.raises(InputError, match="build it with k=11"):
        density(graph, k=11)
    with pytest.raises(InputError, match="each of the 30 items"):
        density(graph, good[:29])
    for wrong in (good * 2, np.tile([2.0, -1, 0], (30, 1)), np.where(np.arange(30)[:, None] == 7, np.nan, good)):
        with pytest.raises(InputError, match="sum to 1"):
            density(graph, wrong)
    for value in (np.nan, np.inf):
        with pytest.raises(InputError, match="NaN or infinity"):
            calibrated_density(graph, np.where(np.arange(30)[:, None] == 7, value, good), y)
    with pytest.raises(InputError, match="give one for each"):
        calibrated_density(graph, good, y[:3])
