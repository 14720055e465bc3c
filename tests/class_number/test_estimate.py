"""The class number: golden numbers, properties, and the trap: it must follow the novel classes, not the known ones."""

from __future__ import annotations

import numpy as np
import pytest
from problems import PACKAGES, blobs, few_draws  # noqa: F401 - the fixture is used by all

from ltgcd.class_number.class_mass import class_number
from ltgcd.class_number.estimate import ESTIMATORS, estimate_k
from ltgcd.class_number.evidence import recoded, row_folds, sibling_folds, with_siblings
from ltgcd.class_number.known_share import mixture_share, mixture_shares
from ltgcd.class_number.peak_search import LITERAL, PeakConfig, nearest, partition
from ltgcd.class_number.search import labelled_accuracy, search_k
from ltgcd.common.errors import InputError
from ltgcd.common.logistic import platt_scaling, platt_scalings
from ltgcd.graph.whitening import class_means, principal_components, within_class_whitening

# ---------------------------------------------------------------- the pieces


def test_class_number_by_hand() -> None:
    # 10 known classes with 100 labelled and 0.25·400 = 100 unlabelled items: 20 a class; 300 novel items: 15 classes.
    assert class_number(0.25, 100, 400, 10, inside=True) == pytest.approx(25)
    # Labels from elsewhere: 10 unlabelled items a known class: 30 novel classes.
    assert class_number(0.25, 100, 400, 10, inside=False) == pytest.approx(40)
    assert class_number(1.0, 100, 400, 10, inside=True) == 10
    assert np.isfinite(class_number(0.0, 100, 400, 10, inside=False))
    # Sizes of ten classes with a squared CV of 5 make one over their mean half too large: 10 novel classes for 15.
    assert class_number(0.25, 100, 400, 10, inside=True, spread=5.0) == pytest.approx(20)


def test_mixture_share_finds_the_proportion() -> None:
    """Two normal distributions with known densities; the maximum-likelihood share by a fine grid."""
    random = np.random.RandomState(0)
    for alpha in (0.0, 0.2, 0.7, 1.0):
        known = random.rand(20_000) < alpha
        v = random.randn(20_000) + np.where(known, 1.0, -1.0)
        log_odds = 2 * v  # log N(v; 1, 1) / N(v; −1, 1)
        got = mixture_share(log_odds)
        assert got == pytest.approx(alpha, abs=0.02)
        grid = np.linspace(0, 1, 1001)
        likelihood = [np.log1p(a * (np.exp(log_odds) - 1)).sum() for a in grid]
        assert got == pytest.approx(grid[int(np.argmax(likelihood))], abs=2e-3)
    weights = np.where(np.arange(4) < 2, 3.0, 1.0)
    doubled = np.repeat([2.0, -2.0], [6, 2])
    assert mixture_share(np.array([2.0, 2.0, -2.0, -2.0]), weights) == pytest.approx(mixture_share(doubled))


def test_without_evidence_there_is_no_novel_class() -> None:
    assert mixture_share(np.zeros(10)) == pytest.approx(1.0)


def test_calibration_recovers_slope_and_offset() -> None:
    random = np.random.RandomState(1)
    scores = random.randn(50_000)
    target = (random.rand(50_000) < 1 / (1 + np.exp(-(2.0 * scores - 0.5)))).astype(np.int64)
    slope, offset = platt_scaling(scores, target, np.ones(50_000))
    assert slope == pytest.approx(2.0, abs=0.06)
    assert offset == pytest.approx(-0.5, abs=0.04)


def test_side_by_side_is_one_by_one() -> None:
    """Draws of a bootstrap are fitted together; among them one without an error, and one that nothing tells apart."""
    random = np.random.RandomState(0)
    target, scores = np.repeat([1, 0], 200), np.concatenate([random.randn(200) + 1, random.randn(200) - 1])
    weights = random.multinomial(400, np.full(400, 1 / 400), size=6).astype(float)
    weights[1] *= (scores > 0) == target
    weights[2] = np.tile(weights[2, :200], 2) * (np.tile(scores[:200], 2) == 0)
    together = platt_scalings(scores, target, weights)
    np.testing.assert_allclose(together, [platt_scaling(scores, target, w) for w in weights], rtol=1e-6)
    odds = together[:, :1] * scores + together[:, 1:]
    alone = [mixture_share(one, w) for one, w in zip(odds, weights, strict=True)]
    np.testing.assert_allclose(mixture_shares(odds, weights), alone, atol=1e-9)


def test_folds_follow_the_content_of_a_row() -> None:
    z = np.random.RandomState(0).randn(500, 12).astype(np.float32)
    order = np.random.RandomState(1).permutation(500)
    np.testing.assert_array_equal(row_folds(z, 0)[order], row_folds(z[order], 0))
    counts = np.bincount(row_folds(z, 0), minlength=5)
    assert counts.min() > 60
    assert not np.array_equal(row_folds(z, 0), row_folds(z, 1))


def test_whitening_makes_the_classes_round() -> None:
    random = np.random.RandomState(0)
    y = np.repeat(np.arange(20), 50)
    x = random.randn(20, 6)[y] * 3 + random.randn(1000, 6) * np.array([5, 1, 1, 1, 1, 0.2])
    white = within_class_whitening(principal_components(x), y, 20)
    means, _ = class_means(white, y, 20)
    spread = np.linalg.eigvalsh(np.cov((white - means[y]).T))
    assert spread.max() / spread.min() < 20  # 625 before; the shrinkage leaves some
    np.testing.assert_allclose(np.linalg.norm(white, axis=1), 1, rtol=1e-5)
    lonely = within_class_whitening(x.astype(np.float32), np.where(np.arange(1000) < 2, np.arange(1000), -1), 2)
    assert np.isfinite(lonely).all()


def test_search_remembers_scans_and_prefers_the_smaller() -> None:
    calls: list[int] = []

    def score(k: int) -> float:
        calls.append(k)
        return -abs(k - 37)

    best, curve = search_k(score, 10, 200, "brent+scan")
    assert best == 37
    assert len(calls) == len(set(calls)) == len(curve)
    assert {32, 37, 42} <= set(calls)
    assert search_k(lambda k: 1.0, 3, 9, "exhaustive")[0] == 3
    assert [k for k, _ in search_k(float, 3, 9, "exhaustive")[1]] == list(range(3, 10))
    assert search_k(float, 5, 5)[0] == search_k(float, 5, 5, "bounded")[0] == 5
    # SciPy's search alone: with a peak in the middle and a better end-point it never hears of the end-point.
    tempting = search_k(lambda k: 99.0 if k == 10 else -abs(k - 105), 10, 200, "bounded")
    assert tempting[0] == 105
    assert {10, 200}.isdisjoint(k for k, _ in tempting[1])
    assert search_k(lambda k: 99.0 if k == 10 else -abs(k - 105), 10, 200, "brent")[0] == 10
    assert search_k(lambda k: -float(k), 10, 200, "bounded")[0] == 10  # where all falls, it does come to the end
    with pytest.raises(InputError, match="between 9 and 3"):
        search_k(score, 9, 3)


def test_labelled_accuracy_by_hand() -> None:
    y = np.array([0, 0, 0, 0, 1, 1, -1])
    clusters = np.array([5, 5, 5, 9, 9, 9, 0])
    assert labelled_accuracy(clusters, y, balanced=False) == pytest.approx(100 * 5 / 6)
    assert labelled_accuracy(clusters, y, balanced=True) == pytest.approx(100 * (0.75 + 1) / 2)


# ---------------------------------------------------------------- the estimators


@pytest.mark.parametrize("method", list(ESTIMATORS))
def test_every_estimator_on_easy_data(method: str) -> None:
    if method in PACKAGES:
        pytest.importorskip(PACKAGES[method])
    x, y, _true = blobs(8, 4)
    got = estimate_k(x, y, method, k_max=40)
    assert got.method == method
    assert got.k >= 8 or method in {"hdbscan", "evoc"}  # whose clusters the labels do not decide
    assert len(got.labels) == len(x)
    assert [k for k, _ in got.curve] == sorted({k for k, _ in got.curve})
    if method not in {
        "hdbscan",
        "finch",
        "evoc",
        "peaks-literal",
        "kmeans-brent",
        "kmeans-brent-1",
    }:  # which few levels, the tail or the printed rule leads astray
        assert abs(got.k - 12) <= 3
    if got.low is not None and got.high is not None:
        assert got.low <= got.k <= got.high


def test_it_follows_the_novel_classes_and_not_the_known_ones() -> None:
    """Novel classes are taken away and added with the known ones fixed, and the reverse."""
    found = {}
    for n_old, n_new in [(24, 0), (24, 12), (24, 36), (12, 24), (12, 0), (12, 48)]:
        found[n_old, n_new] = estimate_k(*blobs(n_old, n_new)[:2]).k
        assert found[n_old, n_new] == pytest.approx(n_old + n_new, rel=0.25), (n_old, n_new)
    assert found[24, 0] == pytest.approx(24, abs=1)
    assert found[12, 0] == pytest.approx(12, abs=1)


def test_the_interval_covers() -> None:
    hits, width = 0, []
    for seed in range(10):
        x, y, _ = blobs(15, 10, seed=seed + 50, spread=0.5)
        got = estimate_k(x, y)
        assert got.low is not None
        assert got.high is not None
        hits += got.low <= 25 <= got.high
        width.append(got.high - got.low)
    assert hits >= 8
    assert np.mean(width) < 25


def test_labels_from_elsewhere() -> None:
    """With as many unlabelled items in old as in new classes, the labelled ones beside them do not count as size."""
    random = np.random.RandomState(0)
    true = np.repeat(np.arange(20), 60)
    x = random.randn(20, 16)[true] + 0.35 * random.randn(1200, 16)
    y = np.where((true < 12) & (np.arange(1200) % 60 < 30), true, -1)
    keep = (y >= 0) | (np.arange(1200) % 60 >= 30)  # 30 unlabelled items of every class, 30 labelled of the old ones
    beside = estimate_k(x[keep], y[keep], labels_from="elsewhere")
    assert beside.k == pytest.approx(20, abs=2)
    assert estimate_k(x[keep], y[keep]).k < beside.k


def test_the_partition_keeps_labels_and_has_k_clusters() -> None:
    x, y, true = blobs(8, 4)
    got = estimate_k(x, y)
    labelled = y >= 0
    np.testing.assert_array_equal(got.labels[labelled], y[labelled])
    assert got.labels.max() < got.k
    old = (true < 8) & ~labelled
    assert (got.labels[old] == true[old]).mean() > 0.8
    assert 0 <= got.evidence["known_share"] <= 1
    assert got.evidence["known_share"] == pytest.approx(old.sum() / (~labelled).sum(), abs=0.1)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_scale_does_not_matter(scale: float) -> None:
    x, y, _ = blobs(6, 4)
    assert abs(estimate_k(x, y).k - estimate_k(x * scale, y).k) <= 1


@pytest.mark.parametrize("method", ["peaks", "peaks-merged", "peaks-literal", "kmeans-balanced", "ward"])
def test_odd_collections(method: str) -> None:
    x, y, _ = blobs(6, 3)
    one_class = estimate_k(x, np.where(y == 0, 0, -1), method, k_max=30).k
    assert 1 <= one_class <= 30
    two = np.where((y == 0) | (y == 1), y, -1)
    assert 2 <= estimate_k(x, two, method, k_max=30).k <= 30
    assert 6 <= estimate_k(x, y, method, k_max=7).k <= 7
    duplicates = estimate_k(np.repeat(x, 2, axis=0), np.repeat(y, 2), method, k_max=30)
    assert duplicates.k >= 6
    if method == "peaks":  # which counts by mass: the searches see other density peaks where every item has a twin
        assert abs(duplicates.k - estimate_k(x, y, method, k_max=30).k) <= 2
    equal = np.ones((40, 5), np.float32)
    assert estimate_k(equal, np.where(np.arange(40) < 10, np.arange(40) % 2, -1), method, k_max=10).k == 2
    assert estimate_k(x, y, method, k_max=30, random_state=2**32 - 1).k >= 6  # the largest seed that NumPy takes
    tiny = estimate_k(x[:12], np.where(np.arange(12) < 4, np.arange(12) % 2, -1), method, k_max=8)
    assert 2 <= tiny.k <= 8
    if method == "peaks":
        assert "fewer than 20 items" in tiny.evidence["fallback"]


@pytest.mark.parametrize("n_old", [2, 3, 4])
def test_a_few_known_classes_are_enough(n_old: int) -> None:
    """A class that is not there must not tell hidden items from others: they would all be taken for known ones."""
    covered = []
    for seed in range(5):
        x, y, _ = blobs(n_old, 16, seed)
        got = estimate_k(x, y, random_state=seed)
        assert got.evidence["known_share"] < 0.3  # true: 0.06 to 0.11
        assert 8 <= got.k <= 40
        assert got.low is not None and got.high is not None
        covered.append(got.low <= n_old + 16 <= got.high)
    assert sum(covered) >= 3


def test_classes_with_one_labelled_item() -> None:
    """Half of the known classes have one: their items must not teach that known ones look novel."""
    for seed in range(3):
        x, y, true = blobs(20, 10, seed)
        first = np.unique(y, return_index=True)[1][1:]
        alone = (y >= 10) & ~np.isin(np.arange(len(y)), first)
        few = np.where(alone, -1, y)
        assert (np.bincount(few[few >= 0])[10:] == 1).all()
        got = estimate_k(x, few, random_state=seed)
        assert 24 <= got.k <= 38
        assert got.low is not None and got.high is not None
        assert got.low <= 30 <= got.high
        assert got.evidence["known_classes_that_show_nothing"] == 10
        # The places of novel classes are not given to known ones that have a labelled item.
        of = [np.bincount(got.labels[true == c], minlength=got.k).argmax() for c in range(10, 20)]
        assert np.mean(np.array(of) < 20) >= 0.7


def test_classes_with_siblings_by_hand() -> None:
    y, folds = np.array([0, 0, 3, 5, -1, 5, 5]), np.array([0, 1, 3, 2, 1, 2, 4])
    shown = with_siblings(y, folds)
    np.testing.assert_array_equal(shown, [0, 5])
    np.testing.assert_array_equal(recoded(y, shown), [0, 0, -1, 1, -1, 1, 1])
    np.testing.assert_array_equal(with_siblings(y[2:4], folds[2:4]), [])
    np.testing.assert_array_equal(recoded(y, with_siblings(y[:0], folds[:0])), np.full(7, -1))


def test_two_labelled_items_are_always_siblings() -> None:
    """Whatever the seed: which classes count must not be a matter of chance."""
    x, y, _ = blobs(12, 6)
    rank = np.zeros(len(y), dtype=int)
    for c in range(12):
        rank[y == c] = np.arange((y == c).sum())
    two = np.where(rank < 2, y, -1)
    for seed in range(6):
        folds = sibling_folds(x, two, seed)
        np.testing.assert_array_equal(with_siblings(two, folds), np.arange(12))
        order = np.random.RandomState(seed).permutation(len(x))
        np.testing.assert_array_equal(sibling_folds(x[order], two[order], seed), folds[order])
        assert (folds == row_folds(x, seed)).mean() > 0.95


def test_labels_from_elsewhere_that_match_nothing() -> None:
    """Where no unlabelled item is of a known class nothing shows how large these are; it says so, and counts peaks."""
    x, y, true = blobs(6, 8)
    rows = (true >= 6) | (y >= 0)
    got = estimate_k(x[rows], y[rows], labels_from="elsewhere")
    assert "hardly an unlabelled item" in got.evidence["fallback"]
    assert abs(got.k - 14) <= 3
    assert "fallback" not in estimate_k(x, y, labels_from="elsewhere").evidence


def test_labels_that_show_nothing_leave_the_peaks() -> None:
    """One labelled class, or one item of each: any K is right on the labels, so the density peaks are counted."""
    x, y, _ = blobs(8, 12)
    first = np.unique(y, return_index=True)[1][1:]
    for given_y in (np.where(y == 0, 0, -1), np.where(np.isin(np.arange(len(y)), first), y, -1)):
        got = estimate_k(x, given_y)
        assert abs(got.k - 20) <= 3
        assert (got.low, got.high) == (None, None)
        assert "it takes two classes" in got.evidence["fallback"]
        assert "number of density peaks" in got.evidence["fallback"]
        assert set(got.labels) <= set(range(got.k))
        np.testing.assert_array_equal(got.labels[given_y >= 0], given_y[given_y >= 0])
        held = estimate_k(x, given_y, k_max=9)
        assert held.k == 9 and held.evidence["k_max_reached"]


def test_a_k_that_meets_the_ceiling_says_so() -> None:
    x, y, _ = blobs(6, 8)
    free, held = estimate_k(x, y), estimate_k(x, y, k_max=8)
    assert free.k > 8 == held.k
    assert held.evidence["k_max_reached"] and "k_max_reached" not in free.evidence
    # The likelihood is that of the data, whatever the ceiling: it still rises up to it.
    scores = dict(held.curve)
    assert scores[8] > scores[6]


def test_what_is_no_label_is_refused() -> None:
    x, y, _ = blobs(3, 2)
    with pytest.raises(InputError, match="y holds -2"):
        estimate_k(x, np.where(y == 0, -2, y))
    with pytest.raises(InputError, match="can't be 4000 known classes"):
        estimate_k(x, y, n_old=4000)
    with pytest.raises(InputError, match="HDBSCAN needs at least 5"):
        estimate_k(x[:4], np.array([0, 1, -1, -1]), "hdbscan")


def test_the_fallback_says_so() -> None:
    x, y, _ = blobs(3, 2)
    known = y >= 0
    whole = estimate_k(x[known], y[known])
    assert (whole.k, whole.low, whole.high) == (3, 3, 3)
    assert "every item is labelled" in whole.evidence["fallback"]
    np.testing.assert_array_equal(whole.labels, y[known])


def test_literal_is_the_paper_as_printed() -> None:
    assert (
        PeakConfig(rule="literal", overlap="iou", connectivity="bootstrap", path="top", balanced=False, search="brent")
        == LITERAL
    )


def test_partition_when_there_are_too_few_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, _ = blobs(3, 5)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    labels = partition(unit, y, 3, 8, np.array([0]), np.zeros(len(x)))
    assert set(labels) <= set(range(8))
    assert len(set(labels)) >= 7
    monkeypatch.setattr("ltgcd.common.tables.block_rows", lambda _columns: 7)
    np.testing.assert_array_equal(nearest(unit, unit), np.arange(len(x)))


def test_partition_with_a_known_class_that_nobody_labelled() -> None:
    x, y, _ = blobs(5, 3)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    labels = partition(unit, np.where(y >= 3, -1, y), 5, 8, np.arange(4), np.zeros(len(x)))
    assert set(labels) == set(range(8))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "magic"}, "no estimator 'magic'"),
        ({"k_max": 2}, "must not be below the 4 known"),
        ({"y": np.full(10, -1)}, "No item is labelled"),
        ({"x": np.full((10, 3), np.nan)}, "NaN"),
        ({"x": np.ones((9, 3))}, "give one row for each"),
    ],
)
def test_bad_input(changes: dict, words: str) -> None:
    settings_ = {"x": np.random.RandomState(0).randn(10, 3), "y": np.arange(10) % 5 - 1, **changes}
    with pytest.raises(InputError, match=words):
        estimate_k(settings_.pop("x"), settings_.pop("y"), **settings_)
