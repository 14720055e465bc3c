"""Semi-supervised k-means against plain loops, and where it could go wrong: empty clusters, duplicates, few rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.common.errors import InputError
from ltgcd.graph import semi_kmeans as module
from ltgcd.graph.semi_kmeans import SemiKMeans, fit, semi_kmeans
from ltgcd.graph.whitening import fit_whitening


def blobs(n_old: int, k: int, seed: int, n: int = 200, d: int = 6, spread: float = 0.5) -> tuple[np.ndarray, ...]:
    """Gaussian classes, about 40 % of the known ones labelled, at least one item of each."""
    random = np.random.RandomState(seed)
    true = np.concatenate([np.arange(k), random.randint(0, k, n - k)])
    x = random.randn(k, d)[true] + spread * random.randn(n, d)
    y = np.where((true < n_old) & (random.rand(n) < 0.4), true, -1)
    y[:n_old] = np.arange(n_old)
    order = random.permutation(n)
    return x[order].astype(np.float32), y[order], true[order]


def by_loops(
    x: np.ndarray, y: np.ndarray, n_old: int, init: np.ndarray, max_iter: int = 200
) -> tuple[np.ndarray, np.ndarray, float, int]:
    """Lloyd's algorithm with clamped rows as one would write it down: a loop over rows and one over centres."""
    x, centres, labels = x.astype(np.float64), init.astype(np.float64).copy(), y.copy()
    rounds, best = 0, (np.inf, labels, centres)
    for _ in range(max_iter):
        rounds += 1
        distance = np.zeros(len(x))
        for i in range(len(x)):
            to = [float(((x[i] - c) ** 2).sum()) for c in centres]
            labels[i] = y[i] if y[i] >= 0 else int(np.argmin(to))
            distance[i] = to[labels[i]] if y[i] < 0 else 0.0
        old = centres.copy()
        empty = [c for c in range(len(centres)) if not (labels == c).any()]
        for c in set(range(len(centres))) - set(empty):
            centres[c] = x[labels == c].mean(axis=0)
        for c in empty:
            if distance.max() > 1e-9:
                centres[c] = x[distance.argmax()]
                distance = np.minimum(distance, ((x - centres[c]) ** 2).sum(axis=1))
        inertia = float(sum(((x[i] - centres[labels[i]]) ** 2).sum() for i in range(len(x))))
        if inertia < best[0]:
            best = (inertia, labels.copy(), centres.copy())
        if np.linalg.norm(centres - old, axis=1).sum() ** 2 < 1e-4:
            break
    inertia, labels, centres = best
    rank = sorted(range(n_old, len(init)), key=lambda c: -int((labels == c).sum()))
    order = list(range(n_old)) + rank
    return np.array([order.index(c) for c in labels]), centres[order], inertia, rounds


def assert_sound(found: SemiKMeans, x: np.ndarray, y: np.ndarray, n_old: int, k: int) -> None:
    """What holds for every result: shapes, clamped rows, centres that are means, inertia, the order of sizes."""
    assert found.labels.shape == (len(x),) and found.labels.dtype == np.int64
    assert found.centres.shape == (k, x.shape[1]) and found.centres.dtype == np.float32
    assert np.isfinite(found.centres).all()
    assert found.labels.min() >= 0 and found.labels.max() < k
    assert (found.labels[y >= 0] == y[y >= 0]).all()
    scale = 1 + float(np.abs(x).max())
    for c in np.unique(found.labels):
        assert found.centres[c] == pytest.approx(x[found.labels == c].mean(axis=0), abs=1e-5 * scale)
    squares = ((x.astype(np.float64) - found.centres[found.labels]) ** 2).sum()
    assert found.inertia == pytest.approx(squares, rel=1e-6, abs=1e-9 * scale**2 * len(x))
    assert (np.diff(np.bincount(found.labels, minlength=k)[n_old:]) <= 0).all()


# ---------------------------------------------------------------- against plain loops


def test_two_rounds_by_hand() -> None:
    # Known class at 0 and 2; unlabelled 3, 9, 13 and 30. From centres 1 and 10: {0, 2, 3} and {9, 13, 30}, means 5/3
    # and 52/3; now 9 is nearer to 5/3 (7.33) than to 52/3 (8.33): {0, 2, 3, 9} and {13, 30}, means 3.5 and 21.5.
    x = np.array([[0.0], [2.0], [3.0], [9.0], [13.0], [30.0]])
    y = np.array([0, 0, -1, -1, -1, -1])
    init = np.array([[1.0], [10.0]])
    one = semi_kmeans(x, y, 1, 2, init=init, max_iter=1)
    assert one.labels.tolist() == [0, 0, 0, 1, 1, 1] and one.n_iter == 1
    assert one.centres.ravel() == pytest.approx([5 / 3, 52 / 3])
    found = semi_kmeans(x, y, 1, 2, init=init)
    assert found.labels.tolist() == [0, 0, 0, 0, 1, 1]
    assert found.centres.ravel() == pytest.approx([3.5, 21.5])
    assert found.inertia == pytest.approx(3.5**2 + 1.5**2 + 0.5**2 + 5.5**2 + 2 * 8.5**2)
    assert found.n_iter == 3  # the third finds nothing to move


@pytest.mark.parametrize(("n_old", "k", "spread"), [(0, 5, 0.5), (1, 2, 1.0), (3, 6, 0.8), (4, 4, 1.0), (5, 20, 1.5)])
@pytest.mark.parametrize("seed", range(4))
def test_equals_plain_loops_from_the_same_centres(n_old: int, k: int, spread: float, seed: int) -> None:
    x, y, _ = blobs(n_old, k, seed, spread=spread)
    init = x[np.random.RandomState(seed).choice(len(x), k, replace=False)]
    labels, centres, inertia, rounds = by_loops(x, y, n_old, init)
    found = semi_kmeans(x, y, n_old, k, init=init)
    assert_sound(found, x, y, n_old, k)
    assert (found.labels == labels).all()
    assert found.centres == pytest.approx(centres, abs=1e-5)
    assert found.inertia == pytest.approx(inertia, rel=1e-6)
    assert found.n_iter == rounds > 2


@pytest.mark.parametrize("seed", range(2))
def test_every_round_of_a_long_run_is_lloyds(seed: int) -> None:
    """Many rounds in which most centres rest: after each, every row is with the nearest centre, in all restarts."""
    x, _, _ = blobs(0, 30, seed, n=1000, spread=2.0)
    centres = np.stack([x[np.random.RandomState(r).choice(1000, 30, replace=False)] for r in range(3)])
    state = module._Restarts(x, centres, np.zeros((30, 6), dtype=np.float32), np.zeros(30, dtype=np.int64))
    shares = []
    for _ in range(25):
        shares.append(state.moved.mean())
        distances = ((x[None, :, None].astype(np.float64) - state.centres[:, None]) ** 2).sum(axis=-1)
        before = state.assign()
        own = np.take_along_axis(distances, state.labels[..., None].astype(np.int64), axis=2)[..., 0]
        assert own == pytest.approx(distances.min(axis=2), abs=1e-4)
        state.update(before)
    assert shares[0] == 1 and shares[-1] < 0.8


def test_the_gain_of_a_cluster_goes_with_its_members() -> None:
    """Σ‖x‖² less the gains is the inertia in each round, also where a cluster loses its last member on the way."""
    emptied = 0
    for seed in range(40):
        x = np.random.RandomState(seed).randn(12, 2).astype(np.float32)
        centres = x[None, :5] + np.float32(0.7)
        state = module._Restarts(x, centres.copy(), np.zeros((5, 2), dtype=np.float32), np.zeros(5, dtype=np.int64))
        counts = np.zeros(5)
        for _ in range(6):
            state.update(state.assign())
            emptied += int(((counts > 0) & (state.counts[0] == 0)).sum())
            counts = state.counts[0].copy()
            means = np.stack([x[state.labels[0] == c].mean(axis=0) for c in state.labels[0]])
            assert (x**2).sum() - state.gains.sum() == pytest.approx(((x - means) ** 2).sum(), abs=1e-4)
    assert emptied > 0  # or the test says nothing


def test_it_ends_where_the_squared_sum_of_shifts_is_below_the_tolerance() -> None:
    # n rows labelled 0 and one unlabelled row at 0.4 shift the centre by 0.4 / (n + 1): 0.004 or 0.013, against 0.01.
    for n, rounds in ((100, 1), (30, 2)):
        x = np.append(np.zeros(n), 0.4)[:, None]
        assert semi_kmeans(x, np.append(np.zeros(n, dtype=int), -1), 1, 1).n_iter == rounds


def test_blocks_and_groups_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, _ = blobs(4, 12, 0, n=300, spread=1.0)
    whole = semi_kmeans(x, y, 4, 12, n_init=7)
    monkeypatch.setattr(module, "ROWS", 17)
    monkeypatch.setattr(module, "COLUMNS", 25)
    parts = semi_kmeans(x, y, 4, 12, n_init=7)
    assert (parts.labels == whole.labels).all() and parts.n_iter == whole.n_iter
    assert parts.inertia == pytest.approx(whole.inertia, rel=1e-6)


def test_restarts_run_side_by_side_as_they_would_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best of ten is the best of the ten from the same seeds one after another, by plain loops."""
    x, y, _ = blobs(3, 9, 1, n=150, spread=1.2)
    starts: list[np.ndarray] = []
    plus_plus = module._plus_plus

    def recorded(u: np.ndarray, given: np.ndarray, draws: np.ndarray) -> np.ndarray:
        seeds = plus_plus(u, given, draws)
        starts.extend(np.concatenate([given, one]) + x.mean(axis=0) for one in seeds)
        return seeds

    monkeypatch.setattr(module, "_plus_plus", recorded)
    found = semi_kmeans(x, y, 3, 9, n_init=10)
    alone = [by_loops(x, y, 3, init) for init in starts]
    assert len({round(inertia, 3) for _, _, inertia, _ in alone}) > 3  # or the test says nothing
    labels, _, inertia, rounds = min(alone, key=lambda one: one[2])
    assert found.inertia == pytest.approx(inertia, rel=1e-6)
    assert (found.labels == labels).all() and found.n_iter == rounds


def test_more_restarts_are_never_worse() -> None:
    x, y, _ = blobs(3, 15, 2, spread=1.0)
    inertia = [semi_kmeans(x, y, 3, 15, n_init=n).inertia for n in (1, 2, 5, 20)]
    assert (np.diff(inertia) <= 1e-4).all() and inertia[-1] < inertia[0]


# ---------------------------------------------------------------- seeds


def test_seeds_are_drawn_by_squared_distance_from_unlabelled_rows_only() -> None:
    # Squared distances to the class mean at 0: 1, 9 and 90; the labelled row at 100 can't be drawn.
    u, given = np.array([[0.0], [1.0], [3.0], [90**0.5]], dtype=np.float32), np.zeros((1, 1), dtype=np.float32)
    draws = np.array([[0.0], [0.0099], [0.0101], [0.0999], [0.1001], [0.9999]])
    seeds = module._plus_plus(u, given, draws)
    assert seeds.ravel() == pytest.approx([1, 1, 3, 3, 90**0.5, 90**0.5])
    # After 3 was drawn the distances are 1, 0, (90^½ − 3)² = 42.08: 3 is not drawn twice.
    second = module._plus_plus(u, given, np.array([[0.05, 0.0231], [0.05, 0.0233]]))[:, 1]
    assert second.ravel() == pytest.approx([1, 90**0.5])


def test_novel_blobs_are_found_and_numbered_by_size() -> None:
    random = np.random.RandomState(0)
    true = np.repeat(np.arange(5), [30, 30, 10, 40, 20])
    x = 10 * np.eye(5)[true] + 0.1 * random.randn(len(true), 5)
    y = np.where((true < 2) & (np.arange(len(true)) % 2 == 0), true, -1)
    found = semi_kmeans(x, y, 2, 5)
    assert (found.labels == np.array([0, 1, 4, 2, 3])[true]).all()


def test_a_known_class_without_labelled_items_gets_a_seeded_centre() -> None:
    x, y, true = blobs(3, 5, 0, spread=0.05)
    y[y == 1] = -1
    found = semi_kmeans(x, y, 3, 5)
    assert_sound(found, x, y, 3, 5)
    assert (np.bincount(found.labels, minlength=5) > 0).all()
    assert (found.labels[true == 0] == 0).all() and (found.labels[true == 2] == 2).all()
    assert found.inertia == pytest.approx(sum(((x[true == c] - x[true == c].mean(0)) ** 2).sum() for c in range(5)))


# ---------------------------------------------------------------- empty clusters


def test_an_empty_cluster_goes_to_the_farthest_unlabelled_row() -> None:
    # Centre 99 gets nobody. The labelled rows at ±50 are farther from their centre than any other and are not taken.
    x = np.array([[-50.0], [50.0], [0.0], [1.0], [10.0], [11.0], [14.0]])
    y = np.array([0, 0, 0, -1, -1, -1, -1])
    init = np.array([[0.0], [11.0], [99.0]])
    one = semi_kmeans(x, y, 1, 3, init=init, max_iter=1)
    assert one.centres.ravel() == pytest.approx([1 / 4, 35 / 3, 14.0], abs=1e-5)
    assert one.labels.tolist() == [0, 0, 0, 0, 1, 1, 1]
    found = semi_kmeans(x, y, 1, 3, init=init)
    assert found.labels.tolist() == [0, 0, 0, 0, 1, 1, 2]


def test_several_empty_clusters_go_to_distinct_rows() -> None:
    # 20 twice over is the farthest; the second empty cluster takes 9, not the copy.
    x = np.array([[0.0], [0.5], [1.0], [9.0], [20.0], [20.0]])
    y = np.full(6, -1)
    init = np.array([[0.0], [90.0], [91.0], [92.0]])
    one = semi_kmeans(x, y, 0, 4, init=init, max_iter=1)
    assert sorted(one.centres[1:].ravel().tolist()) == pytest.approx([1.0, 9.0, 20.0])
    found = semi_kmeans(x, y, 0, 4, init=init)
    assert np.bincount(found.labels, minlength=4).min() > 0
    assert found.inertia == pytest.approx(0.125)


@pytest.mark.parametrize("seed", range(4))
def test_equals_plain_loops_where_clusters_are_empty(seed: int) -> None:
    x, y, _ = blobs(2, 8, seed, n=80)
    init = np.concatenate([x[:4], 50 + np.arange(24, dtype=np.float32).reshape(4, 6)])
    labels, centres, inertia, rounds = by_loops(x, y, 2, init)
    found = semi_kmeans(x, y, 2, 8, init=init)
    assert np.bincount(found.labels, minlength=8).min() > 0
    assert (found.labels == labels).all() and found.n_iter == rounds
    assert found.inertia == pytest.approx(inertia, rel=1e-6)
    assert found.centres == pytest.approx(centres, abs=1e-5)


def test_of_equal_centres_the_first_takes_the_rows() -> None:
    x, y = np.array([[0.0], [1.0], [8.0], [9.0]]), np.full(4, -1)
    one = semi_kmeans(x, y, 2, 3, init=np.array([[0.5], [8.0], [8.0]]), max_iter=1)
    assert one.labels.tolist() == [0, 0, 1, 1] and one.centres.ravel() == pytest.approx([0.5, 8.5, 9.0])


def test_an_empty_cluster_that_found_no_seed_gets_one_later() -> None:
    # At first the unlabelled row lies on the centre given for its class; then the labelled rows draw that centre away.
    x, y = np.array([[0.0], [0.0], [0.0], [5.0]]), np.array([0, 0, 0, -1])
    found = semi_kmeans(x, y, 1, 2, init=np.array([[5.0], [99.0]]))
    assert found.labels.tolist() == [0, 0, 0, 1] and found.centres.ravel() == pytest.approx([0, 5], abs=1e-6)


# ---------------------------------------------------------------- few rows, equal rows


@pytest.mark.parametrize("d", [64, 200, 1280])
def test_copies_end_at_once_and_are_not_torn_apart_by_rounding(d: int) -> None:
    rows = np.random.RandomState(0).randn(5, d).astype(np.float32)
    x = np.repeat(rows / np.linalg.norm(rows, axis=1, keepdims=True), 40, axis=0)
    found = semi_kmeans(x, np.full(200, -1), 0, 12)
    assert found.n_iter == 1 and found.inertia == pytest.approx(0, abs=1e-9)
    assert np.bincount(found.labels, minlength=12).tolist() == [40] * 5 + [0] * 7


def test_fewer_distinct_rows_than_clusters_leaves_clusters_empty() -> None:
    x = np.repeat(np.array([[1.0, 0.0], [0.3, 0.7], [0.0, 1.0]], dtype=np.float32), 50, axis=0)
    y = np.full(150, -1)
    y[:3] = 0
    found = semi_kmeans(x, y, 2, 7)
    assert_sound(found, x, y, 2, 7)
    assert found.inertia == pytest.approx(0, abs=1e-9)
    assert len(np.unique(found.labels)) == 3


def test_all_rows_equal() -> None:
    x = np.full((40, 3), 0.1, dtype=np.float32)
    found = semi_kmeans(x, np.full(40, -1), 0, 4)
    assert_sound(found, x, np.full(40, -1), 0, 4)
    assert len(np.unique(found.labels)) == 1 and found.centres == pytest.approx(0.1)


def test_k_of_n_old_still_moves_the_centres() -> None:
    x, y, true = blobs(4, 4, 0, spread=0.3)
    found = semi_kmeans(x, y, 4, 4)
    assert_sound(found, x, y, 4, 4)
    assert (found.labels == true).mean() > 0.9
    labelled = np.stack([x[y == c].mean(axis=0) for c in range(4)])
    assert np.abs(found.centres - labelled).max() > 1e-3


@pytest.mark.parametrize("k", [6, 10])
def test_as_many_clusters_as_rows_or_more(k: int) -> None:
    x = np.random.RandomState(0).randn(6, 3)
    y = np.array([0, -1, -1, -1, -1, -1])
    found = semi_kmeans(x, y, 1, k)
    assert_sound(found, x, y, 1, k)
    assert found.inertia == pytest.approx(0, abs=1e-9) and len(np.unique(found.labels)) == 6


def test_one_class_one_row() -> None:
    x = np.array([[3.0, 4.0]])
    for y in ([0], [-1]):
        found = semi_kmeans(x, np.array(y), 1, 1)
        assert found.labels.tolist() == [0] and found.centres.tolist() == [[3.0, 4.0]] and found.inertia == 0


def test_no_unlabelled_rows() -> None:
    x, _, true = blobs(3, 3, 0)
    found = semi_kmeans(x, true, 3, 5)
    assert_sound(found, x, true, 3, 5)
    assert (found.labels == true).all()


# ---------------------------------------------------------------- properties


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 40),
    n_old=st.integers(0, 4),
    n_new=st.integers(0, 5),
    whole=st.booleans(),
)
def test_sound_on_anything(seed: int, n: int, n_old: int, n_new: int, whole: bool) -> None:
    """Random rows, on a coarse grid if `whole`, so that there are duplicates and ties."""
    random = np.random.RandomState(seed)
    k = max(1, n_old + n_new)
    x = random.randint(0, 3, (n, 2)).astype(np.float32) if whole else random.randn(n, 3).astype(np.float32)
    y = random.randint(-1, n_old, n) if n_old else np.full(n, -1)
    found = semi_kmeans(x, y, n_old, k, n_init=3, random_state=seed)
    assert_sound(found, x, y, n_old, k)
    empty = np.setdiff1d(np.arange(k), np.append(found.labels, y[y >= 0]))
    distances = ((x - found.centres[found.labels]) ** 2).sum(axis=1)[y < 0]
    if len(empty) and len(distances):  # a cluster stays empty only if every unlabelled row lies on a centre
        assert distances.max() < 1e-4


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_order_of_rows_does_not_matter_from_given_centres(seed: int) -> None:
    x, y, _ = blobs(3, 7, seed % 50, n=90)
    random = np.random.RandomState(seed)
    init, order = x[random.choice(90, 7, replace=False)], random.permutation(90)
    a, b = semi_kmeans(x, y, 3, 7, init=init), semi_kmeans(x[order], y[order], 3, 7, init=init)
    assert b.inertia == pytest.approx(a.inertia, rel=1e-5)
    pairs = set(zip(a.labels[order].tolist(), b.labels.tolist(), strict=True))
    assert len(pairs) == len(np.unique(a.labels))  # clusters of equal size may swap their numbers


def test_a_seed_gives_the_same_again_and_another_seed_another_start() -> None:
    x, y, _ = blobs(3, 12, 0, spread=1.5)
    first, again = (semi_kmeans(x, y, 3, 12, n_init=1, random_state=5) for _ in range(2))
    assert (first.labels == again.labels).all() and (first.centres == again.centres).all()
    assert len({semi_kmeans(x, y, 3, 12, n_init=1, random_state=s).inertia for s in range(5)}) > 1


def test_a_far_offset_costs_no_accuracy() -> None:
    x, y, _ = blobs(3, 6, 0)
    x = np.round(x * 64) / 64  # so that the offset itself loses nothing
    init = x[:6]
    near, far = semi_kmeans(x, y, 3, 6, init=init), semi_kmeans(x + 1024, y, 3, 6, init=init + 1024)
    assert (near.labels == far.labels).all() and far.inertia == pytest.approx(near.inertia, rel=1e-3)


# ---------------------------------------------------------------- fit, bad input


def test_fit_works_on_whitened_rows_and_says_how_sure_it_is() -> None:
    x, y, _ = blobs(3, 6, 0, spread=0.2)
    got = fit(x, y, 3, 6, 0)
    white = fit_whitening(x, y, 3).transform(x)
    want = semi_kmeans(white, y, 3, 6)
    assert (got.labels == want.labels).all() and got.centres == pytest.approx(want.centres, abs=1e-5)
    cosines = white @ (want.centres / np.linalg.norm(want.centres, axis=1, keepdims=True)).T
    p = np.exp(cosines / 0.1)
    expected = p[np.arange(len(p)), want.labels] / p.sum(axis=1)
    assert got.confidence == pytest.approx(expected, rel=1e-3) and got.confidence.dtype == np.float32


X, Y = np.zeros((3, 2)), np.array([0, -1, -1])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"x": np.array([[0.0, 1.0], [np.nan, 0.0], [1.0, 1.0]])}, "Row 1 "),
        ({"x": np.array([[0.0, 1.0], [1.0, 0.0], [1.0, -np.inf]])}, "Row 2 "),
        ({"x": np.full((3, 2), 1e30)}, "scale"),
        ({"x": np.zeros(3)}, "table of numbers"),
        ({"x": np.zeros((0, 2)), "y": np.zeros(0, dtype=int)}, "table of numbers"),
        ({"x": np.array([["a", "b"]] * 3)}, "table of numbers"),
        ({"y": np.array([0, -1])}, "one whole number"),
        ({"y": np.array([0.0, -1.0, -1.0])}, "one whole number"),
        ({"y": np.array([1, -1, -1])}, "unlabelled"),
        ({"y": np.array([-2, -1, -1])}, "unlabelled"),
        ({"n_old": 3, "k": 2}, "k must"),
        ({"n_old": 0, "k": 0, "y": np.full(3, -1)}, "k must"),
        ({"n_init": 0}, "n_init"),
        ({"max_iter": 0}, "max_iter"),
        ({"init": np.zeros((3, 2))}, "init"),
        ({"init": np.full((2, 2), np.nan)}, "init"),
    ],
)
def test_bad_input_is_named(change: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        semi_kmeans(**{"x": X, "y": Y, "n_old": 1, "k": 2, **change})  # type: ignore[arg-type]
