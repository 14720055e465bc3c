"""Masses of classes, and the interval by hidden classes: by hand, by slow code, and where nothing is novel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cut_tree, linkage
from sklearn.linear_model import LogisticRegression as SklearnRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ltgcd.class_number.class_mass import (
    EXPONENTS,
    believe,
    class_numbers,
    expected_number,
    mass_share,
    mass_table,
    mean_log_size,
)
from ltgcd.class_number.evidence import evidence, hidden_evidence, sibling_folds
from ltgcd.class_number.interval import (
    HALVES,
    STEPS,
    UNMEASURED,
    beliefs,
    bootstrap,
    geometric_mean,
    measured_error,
    quantiles,
    redraw,
    widened,
)
from ltgcd.class_number.known_share import KnownShare, known_share, mixture_share
from ltgcd.common.logistic import LogisticRegression, platt_scaling
from ltgcd.graph.density import density
from ltgcd.graph.knn import knn_graph
from ltgcd.graph.peaks import find_peaks
from ltgcd.graph.whitening import normalise, principal_components, within_class_whitening


def classes_of(sizes: list[int], seed: int = 0, spread: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian classes of these sizes in 16 dimensions."""
    random = np.random.RandomState(seed)
    true = np.repeat(np.arange(len(sizes)), sizes)
    return (random.randn(len(sizes), 16)[true] + spread * random.randn(len(true), 16)).astype(np.float32), true


def decided(n_known: int, n_novel: int, labelled: np.ndarray) -> KnownShare:
    """Log-odds of ±9: nobody is in doubt."""
    odds = np.repeat([9.0, -9.0], [n_known, n_novel])
    return KnownShare(n_known / (n_known + n_novel), odds, np.full(len(labelled), 9.0), np.full(len(labelled), -9.0), 1)


# ---------------------------------------------------------------- masses


def test_the_size_of_clusters_by_slow_code() -> None:
    """Granularities cut by hand from the same peaks: the geometric mean of the sizes of an item's clusters."""
    z, _ = classes_of([12, 30, 60, 90], spread=0.1)
    graph, unit = knn_graph(z, 30), normalise(z)
    d = density(graph, k=5)
    peaks = find_peaks(d, graph, 5)
    tree = linkage(unit[peaks].astype(np.float64), "average", metric="cosine")
    own = (unit @ unit[peaks].T).argmax(axis=1)
    numbers = sorted({int(n) for n in np.geomspace(3, len(peaks), 10)})
    product = np.ones(len(z))
    for number in numbers:
        cluster = cut_tree(tree, [number])[:, 0][own]
        product *= np.array([(cluster == c).sum() for c in cluster])
    np.testing.assert_allclose(np.exp(mean_log_size(z, graph, 3)), product ** (1 / len(numbers)))


def test_equal_vectors_have_one_cluster() -> None:
    z = np.ones((30, 4), np.float32)
    np.testing.assert_allclose(mean_log_size(z, knn_graph(z, 10), 2), np.log(30))
    assert np.isfinite(mean_log_size(np.zeros((30, 4), np.float32), knn_graph(z, 10), 2)).all()


def test_class_numbers_by_hand() -> None:
    """Two known classes of 10 and 30 labelled items, clusters as large as the classes, and three novel classes of 20.

    By items (γ = 0) 60 / 20 = 3, corrected for the ratio's bias by 1 + CV²/2 with CV² = 200 / 400. By clusters (γ = 1)
    every class weighs 1: 3 exactly.
    """
    classes = np.repeat([0, 1], [10, 30])
    found = decided(0, 60, classes)
    table = mass_table(found, classes, np.log(np.repeat([10.0, 30.0], [10, 30])), np.full(60, np.log(20.0)))
    numbers, shares = class_numbers(table, 2, inside=True)
    one = int(np.argmin(np.abs(EXPONENTS - 1)))
    np.testing.assert_allclose(shares, 0, atol=0.01)
    assert numbers[0] == pytest.approx(2 + 3 / 1.25, abs=0.05)
    assert numbers[one] == pytest.approx(5, abs=0.05)
    assert table.spread[one] == pytest.approx(0, abs=1e-6)
    assert table.belief.argmax() == one
    assert expected_number(table, numbers) == pytest.approx(5, abs=0.05)


def test_belief_by_hand() -> None:
    np.testing.assert_allclose(believe(np.array([4.0, 1.0]), 3), [0.2, 0.8])
    np.testing.assert_allclose(believe(np.array([2.0, 2.0]), 50), 0.5)
    assert np.isfinite(believe(np.zeros(3), 9)).all()


def test_the_share_of_the_mass_is_that_of_the_items_without_weights() -> None:
    """In bins and with γ = 0, against calibration and likelihood on the items themselves."""
    random = np.random.RandomState(0)
    classes = np.repeat(np.arange(10), 40)
    as_known, as_novel = random.randn(400) + 1, random.randn(400) - 1
    unlabelled = random.randn(900) + np.where(np.arange(900) < 300, 1, -1)
    found = KnownShare(0.0, unlabelled, as_known, as_novel, 0.9)
    table = mass_table(found, classes, np.zeros(400), np.zeros(900))
    slope, offset = platt_scaling(np.concatenate([as_known, as_novel]), np.repeat([1, 0], 400), np.ones(800))
    assert mass_share(table, 0)[0] == pytest.approx(mixture_share(slope * unlabelled + offset), abs=0.01)
    np.testing.assert_allclose(table.known.sum(axis=2), 40, rtol=1e-5)
    twice = np.zeros(10)
    twice[:5] = 2.0
    half = mass_table(
        KnownShare(0.0, unlabelled, as_known[:200], as_novel[:200], 0.9), classes[:200], np.zeros(200), np.zeros(900)
    )
    assert mass_share(table, 0, twice)[0] == pytest.approx(mass_share(half, 0)[0], abs=0.01)


def test_calibration_of_scores_that_never_err() -> None:
    """A whole step of Newton's method goes astray on them, and may even turn the sign."""
    scores = np.concatenate([np.linspace(3, 200, 300), np.linspace(-180, -3, 300)])
    slope, offset = platt_scaling(scores, np.repeat([1, 0], 300), np.ones(600))
    assert slope > 0.5
    assert ((slope * scores + offset > 0) == (np.arange(600) < 300)).all()


def test_the_regression_is_the_usual_one() -> None:
    """Against scikit-learn's solver, with weights, a column that never changes and one that is always right."""
    random = np.random.RandomState(0)
    rows = np.column_stack([random.randn(300, 4) * [1, 5, 0.1, 1], np.full(300, 7.0)])
    target = (rows[:, 0] + rows[:, 1] / 5 + random.randn(300) > 0).astype(np.int64)
    for x in (rows, np.column_stack([rows, 100.0 * target])):
        weights = random.rand(300) + 0.5
        pipe = make_pipeline(StandardScaler(), SklearnRegression(tol=1e-10, max_iter=10_000))
        pipe.fit(x, target, logisticregression__sample_weight=weights)
        got = LogisticRegression.fit(x, target, weights).log_odds(x)
        np.testing.assert_allclose(got, pipe.decision_function(x), atol=1e-4)


# ---------------------------------------------------------------- hidden classes


def test_a_hidden_class_takes_no_part_in_whitening() -> None:
    """Slow: for one item, whitening without all classes of its fold, cosines to the other means.

    The nearest of these is without one of its items: the item takes the place of that.
    """
    z, y = classes_of([20] * 6, spread=0.4)
    graph = knn_graph(z, 30)
    got = hidden_evidence(z, y, graph, 3)
    fold_of = np.random.RandomState(3).permutation(6) % 5
    for item in (0, 50, 119):
        white = within_class_whitening(z, np.where(fold_of[y] == fold_of[y[item]], -1, y), 6)
        cosine = {c: float(normalise(white[y == c].mean(axis=0)[None])[0] @ white[item]) for c in set(y) - {y[item]}}
        first = max(cosine, key=lambda c: cosine[c])
        second = max(value for c, value in cosine.items() if c != first)
        possible = []
        for out in np.flatnonzero(y == first):
            mean = white[(y == first) & (np.arange(len(y)) != out)].mean(axis=0)
            near = [near for near in graph.indices[item, :5] if y[near] != y[item] and near != out]
            possible.append([max(second, float(normalise(mean[None])[0] @ white[item])), len(near) / 5])
        assert np.abs(np.array(possible) - got[item, [0, 4]]).max(axis=1).min() < 1e-5


def test_labelled_and_unlabelled_items_of_a_class_show_the_same_evidence() -> None:
    """Four of eight items are labelled: a labelled one has three labelled siblings, and an unlabelled one meets three.

    With all four of them in sight their evidence was apart by up to 20 standard errors.
    """
    z, true = classes_of([8] * 80, spread=0.5)
    y = np.where(np.arange(len(true)) % 2 == 0, true, -1)
    seen = evidence(z, y, knn_graph(z, 30), sibling_folds(z, y, 0))
    labelled = y >= 0
    apart = seen[labelled].mean(axis=0) - seen[~labelled].mean(axis=0)
    noise = np.sqrt(seen[labelled].var(axis=0) / labelled.sum() + seen[~labelled].var(axis=0) / (~labelled).sum())
    assert np.abs(apart / noise).max() < 3


def test_the_measured_error_is_small_on_easy_data_and_absent_without_classes() -> None:
    x, true = classes_of([30] * 16)
    z = principal_components(x)
    graph, y = knn_graph(z, 30), np.where(np.arange(len(x)) % 3 == 0, -1, true)
    size = mean_log_size(z, graph, 8)
    errors = measured_error(z, y, graph, size, 0)
    assert errors.shape == (HALVES,)
    assert np.abs(errors).max() < 0.35
    assert not len(measured_error(z, np.where(y < 3, y, -1), graph, size, 0))


def test_widened_draws_by_hand() -> None:
    draws = np.concatenate([np.full(4, 20.0), np.full(2, 10.0)])
    got = widened(draws, np.array([0.4, -0.4]), 10)
    assert len(got) == 6 * STEPS
    assert np.log((got[: 4 * STEPS] - 10) / 10).std() == pytest.approx(0.4 / np.sqrt(2), rel=0.05)
    assert np.median(got[: 4 * STEPS]) == pytest.approx(20)  # widened to both sides alike
    np.testing.assert_array_equal(got[4 * STEPS :], 10)  # nothing is novel: nothing to be unsure about
    unmeasured = widened(draws, np.zeros(0), 10)
    np.testing.assert_array_equal(unmeasured, widened(draws, np.array([UNMEASURED]), 10))


def test_the_geometric_mean_by_hand() -> None:
    assert geometric_mean(np.array([40.0, 10.0, 20.0])) == pytest.approx(20)
    assert geometric_mean(np.array([10.0, 90.0])) == pytest.approx(30)
    assert geometric_mean(np.full(7, 12.0)) == pytest.approx(12)


@given(st.lists(st.floats(2, 500), min_size=1, max_size=30))
def test_no_other_number_has_a_smaller_square_of_its_log_ratio(values: list[float]) -> None:
    draws = np.array(values)
    error = [float((np.log(k / draws) ** 2).mean()) for k in [geometric_mean(draws), *values]]
    assert error[0] <= min(error) + 1e-9


def test_beliefs_by_hand() -> None:
    """Ten known classes: twenty are expected; fifty and eight, a factor of 2.5 away, count e^−½ of that."""
    np.testing.assert_allclose(beliefs(np.array([20.0, 50.0, 8.0, 125.0]), 10), np.exp([0, -0.5, -0.5, -2]))
    far = beliefs(np.array([1e6, 2e6]), 2)
    assert far[0] == 1 and 0 < far[1] < 1, "draws that are all far away still count beside each other"


def test_what_the_draws_agree_on_no_belief_changes_and_what_they_leave_open_is_drawn_to_it() -> None:
    random = np.random.RandomState(0)
    for k in (12, 20, 60, 200):
        narrow, wide = (k * np.exp(s * random.randn(20_000)) for s in (0.02, np.log(2.5)))
        assert geometric_mean(narrow, beliefs(narrow, 10)) == pytest.approx(k, rel=0.005)
        # A normal belief and a normal draw of the same width meet half-way between k and twice the ten known classes.
        assert geometric_mean(wide, beliefs(wide, 10)) == pytest.approx(np.sqrt(k * 20), rel=0.05)


@given(st.lists(st.floats(2, 500), min_size=1, max_size=30), st.integers(2, 100))
def test_quantiles_are_those_of_draws_repeated_by_their_weight(values: list[float], n_old: int) -> None:
    draws = np.array(values)
    times = 1 + np.arange(len(draws)) % 3
    found = quantiles(draws, times.astype(float), (0.05, 0.5, 1.0))
    repeated = np.sort(np.repeat(draws, times))
    assert found == [repeated[max(int(np.ceil(q * len(repeated) - 1e-9)) - 1, 0)] for q in (0.05, 0.5, 1.0)]
    weights = beliefs(draws, n_old)
    assert weights.max() == pytest.approx(1)
    low, high = quantiles(draws, weights, (0.05, 0.95))
    assert draws.min() <= low <= high <= draws.max()


def test_draws_lie_around_the_estimate_and_stay_when_nothing_is_novel() -> None:
    x, true = classes_of([25] * 20, spread=0.3)
    y = np.where((true < 12) & (np.arange(len(x)) % 2 == 0), true, -1)
    z = principal_components(x)
    graph = knn_graph(z, 30)
    size = mean_log_size(z, graph, 6)
    for rows, n_classes in ((np.arange(len(x)), 20), (np.flatnonzero(true < 12), 12)):
        graph = knn_graph(z[rows], 30)
        labelled = y[rows] >= 0
        found = known_share(z[rows], y[rows], graph, 0)
        table = mass_table(found, y[rows][labelled], size[rows][labelled], size[rows][~labelled])
        draws, shares = bootstrap(table, redraw(table, 0), 12, inside=True)
        assert np.median(draws) == pytest.approx(n_classes, abs=1.5)
        assert ((shares >= 0) & (shares <= 1)).all()
        assert draws.min() >= 12
