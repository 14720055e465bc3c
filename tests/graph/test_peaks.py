"""Peaks, their overlap and NMDS, against slow loops; every reading of docs/methods.md §6.3 a, b and f."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from ltgcd.common.errors import InputError
from ltgcd.graph import peaks as module
from ltgcd.graph.density import density
from ltgcd.graph.knn import NeighbourGraph, knn_graph
from ltgcd.graph.peaks import find_peaks, iou_k, iou_threshold, nmds

RULES = ("greedy", "flip", "literal")


def graph_of(indices: list[list[int]]) -> NeighbourGraph:
    return NeighbourGraph(np.array(indices), np.ones((len(indices), len(indices[0])), dtype=np.float32), 1.0, True)


def overlaps(n: int, pairs: dict[tuple[int, int], float]) -> sparse.csr_array:
    table = np.zeros((n, n))
    for (i, j), value in pairs.items():
        table[i, j] = table[j, i] = value
    return sparse.csr_array(table)


def clusters(n: int = 3000, c: int = 40, seed: int = 0) -> np.ndarray:
    random = np.random.RandomState(seed)
    share = (np.arange(c) + 1.0) ** -1
    return random.randn(c, 24)[random.choice(c, n, p=share / share.sum())] + 0.6 * random.randn(n, 24)


def slow_nmds(peaks: list[int], d: np.ndarray, iou: np.ndarray, threshold: float, rule: str) -> list[int]:
    """Algorithm 1, pair by pair; `greedy` as a visit in order."""
    kept: list[int] = []
    for a in sorted(range(len(peaks)), key=lambda a: (-d[peaks[a]], peaks[a])):
        others = kept if rule == "greedy" else [b for b in range(len(peaks)) if b != a]
        discard = False
        for b in others:
            if iou[a, b] > threshold:
                wins = d[peaks[b]] < d[peaks[a]] if rule == "literal" else d[peaks[b]] > d[peaks[a]]
                discard |= bool(wins or (d[peaks[b]] == d[peaks[a]] and peaks[b] < peaks[a]))
        if not discard:
            kept.append(a)
    return [peaks[a] for a in sorted(kept)]


# ---------------------------------------------------------------- peaks


def test_golden_peaks() -> None:
    """A row of five: 3 is the top of the right half, 0 of the left."""
    graph = graph_of([[1, 2], [0, 2], [1, 3], [2, 4], [3, 2]])
    d = np.array([0.5, 0.4, 0.3, 0.9, 0.1])
    assert find_peaks(d, graph, k=2).tolist() == [0, 3]
    assert find_peaks(d, graph, k=1).tolist() == [0, 3]
    assert find_peaks(d[::-1].copy(), graph, k=1).tolist() == [1, 3, 4]  # 3 is compared with 2 alone
    assert find_peaks(d, graph, k=2, candidates=np.array([True, True, True, False, True])).tolist() == [0]


def test_exactly_one_of_several_duplicates_is_a_peak() -> None:
    for copies in (2, 5, 11, 12, 40, 200):
        x = np.random.RandomState(copies).randn(300, 8)
        where = np.sort(np.random.RandomState(1).permutation(300)[:copies])
        x[where] = x[where[0]]
        graph = knn_graph(x, 10)
        # Copies of one item are dense: all of them beat whatever else is near.
        d = density(graph) + np.isin(np.arange(300), where).astype(np.float32)
        strict = find_peaks(d, graph)
        assert np.intersect1d(strict, where).tolist() == [where[0]]
        if copies <= 11:
            assert np.isin(where, find_peaks(d, graph, test="ge")).all()


@pytest.mark.parametrize(("test", "expected"), [("strict", [0]), ("ge", list(range(50)))])
def test_all_equal_vectors(test: str, expected: list[int]) -> None:
    graph = knn_graph(np.ones((50, 3)), 10)
    assert find_peaks(density(graph), graph, test=test).tolist() == expected


def test_a_single_item_is_a_peak() -> None:
    graph = knn_graph(np.ones((1, 3)), 10)
    peaks = find_peaks(density(graph), graph)
    assert peaks.tolist() == [0]
    assert nmds(peaks, density(graph), iou_k(graph, peaks)).tolist() == [0]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 40), k=st.integers(1, 12), levels=st.integers(1, 30))
def test_peaks_against_a_slow_loop(seed: int, n: int, k: int, levels: int) -> None:
    random = np.random.RandomState(seed)
    graph, d = knn_graph(random.randn(n, 3), 12), random.randint(0, levels, n) / levels
    mask = random.rand(n) < 0.8
    strict, ge = [], []
    for i in range(n):
        neighbours = graph.indices[i].tolist()[:k]
        if all(d[i] > d[j] or (d[i] == d[j] and i < j) for j in neighbours):
            strict.append(i)
        if all(d[i] >= d[j] for j in neighbours):
            ge.append(i)
    assert find_peaks(d, graph, k).tolist() == strict
    assert find_peaks(d, graph, k, "ge").tolist() == ge
    assert find_peaks(d, graph, k, candidates=mask).tolist() == [i for i in strict if mask[i]]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(5, 80))
def test_permuting_the_items_permutes_peaks_and_survivors(seed: int, n: int) -> None:
    random = np.random.RandomState(seed)
    x, order = random.randn(n, 3), random.permutation(n)
    found = []
    for rows in (x, x[order]):
        graph = knn_graph(rows, 15)
        d = density(graph, k=3)
        peaks = find_peaks(d, graph, k=3)
        found.append([peaks, *(nmds(peaks, d, iou_k(graph, peaks, 15), 0.9, rule) for rule in RULES)])
    for a, b in zip(*found, strict=True):
        assert sorted(order[b].tolist()) == a.tolist()


# ---------------------------------------------------------------- overlap


def test_golden_iou() -> None:
    graph = graph_of([[1, 2, 3], [2, 3, 4], [5, 6, 4], [0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2]])
    iou = iou_k(graph, np.array([0, 1, 2]), k_s=3).toarray()
    # {1,2,3} and {2,3,4}: 2 of 4; {2,3,4} and {4,5,6}: 1 of 5; {1,2,3} and {4,5,6}: none
    np.testing.assert_allclose(iou, [[0, 0.5, 0], [0.5, 0, 0.2], [0, 0.2, 0]])
    assert iou_k(graph, np.array([0, 1, 2]), k_s=3, min_iou=0.2).nnz == 2
    assert iou_k(graph, np.array([3, 4]), k_s=3).toarray().tolist() == [[0, 1], [1, 0]]
    assert iou_k(graph, np.array([], dtype=int), k_s=3).shape == (0, 0)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 40), k_s=st.integers(1, 12), share=st.floats(0, 1))
def test_iou_against_sets(seed: int, n: int, k_s: int, share: float) -> None:
    random = np.random.RandomState(seed)
    graph, chosen = knn_graph(random.randn(n, 3), 12), np.flatnonzero(random.rand(n) < share)
    with mock.patch.object(module, "BLOCK_ENTRIES", 20):
        iou = iou_k(graph, chosen, k_s)
    sets = [set(graph.indices[i].tolist()[:k_s]) for i in chosen]
    expected = np.zeros((len(chosen), len(chosen)))
    for a, b in itertools.permutations(range(len(chosen)), 2):
        expected[a, b] = len(sets[a] & sets[b]) / len(sets[a] | sets[b])
    np.testing.assert_allclose(iou.toarray(), expected)
    assert iou.nnz == np.count_nonzero(expected)


# ---------------------------------------------------------------- suppression


@pytest.mark.parametrize(("rule", "kept"), [("greedy", [10, 30]), ("flip", [10]), ("literal", [30])])
def test_a_chain(rule: str, kept: list[int]) -> None:
    """a > b > c, a overlaps b and b overlaps c: a visit keeps a and c, the printed rule only the least dense."""
    d = np.zeros(40)
    d[[10, 20, 30]] = [0.9, 0.8, 0.7]
    iou = overlaps(3, {(0, 1): 0.5, (1, 2): 0.5})
    assert nmds(np.array([10, 20, 30]), d, iou, rule=rule).tolist() == kept
    order = np.array([2, 0, 1])  # given in another order, they come back in that order
    shuffled = nmds(np.array([10, 20, 30])[order], d, iou[order][:, order], rule=rule)
    assert sorted(shuffled.tolist()) == kept


@pytest.mark.parametrize("rule", RULES)
def test_at_equal_density_the_lower_index_wins(rule: str) -> None:
    iou = overlaps(2, {(0, 1): 0.5})
    assert nmds(np.array([4, 7]), np.ones(9), iou, rule=rule).tolist() == [4]
    assert nmds(np.array([7, 4]), np.ones(9), iou, rule=rule).tolist() == [4]


def test_the_two_readings_of_lambda() -> None:
    """IoU 0.2 = 10 of 50: exactly at λ = 0.8 as a Jaccard distance, which is not an overlap; a little more is."""
    peaks, d = np.array([0, 1]), np.array([1.0, 0.5])
    at, above = overlaps(2, {(0, 1): 10 / 50}), overlaps(2, {(0, 1): 11 / 49})
    assert nmds(peaks, d, at, 0.8).tolist() == [0, 1]
    assert nmds(peaks, d, above, 0.8).tolist() == [0]
    assert nmds(peaks, d, above, 0.8, overlap="iou").tolist() == [0, 1]
    assert nmds(peaks, d, above, 0.2, overlap="iou").tolist() == [0]
    assert nmds(peaks, d, at, 0.2, overlap="iou").tolist() == [0, 1]
    assert iou_threshold(0.8, "jaccard-distance") == pytest.approx(0.2)
    assert iou_threshold(0.8, "iou") == pytest.approx(0.8)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(0, 25),
    levels=st.integers(1, 40),
    lam=st.sampled_from([0.0, 0.25, 0.8, 1.0]),
    rule=st.sampled_from(RULES),
    overlap=st.sampled_from(["jaccard-distance", "iou"]),
)
def test_nmds_against_algorithm_1(seed: int, n: int, levels: int, lam: float, rule: str, overlap: str) -> None:
    random = np.random.RandomState(seed)
    peaks, d = random.permutation(100)[:n], random.randint(0, levels, 100) / levels
    table = np.triu(random.randint(0, 9, (n, n)) / 8 * (random.rand(n, n) < 0.2), 1)
    table += table.T
    threshold = 1 - lam if overlap == "jaccard-distance" else lam
    got = nmds(peaks, d, sparse.csr_array(table), lam, rule, overlap)
    assert got.tolist() == slow_nmds(peaks.tolist(), d, table, threshold, rule)
    assert n == 0 or len(got) > 0


def test_a_long_chain_of_falling_density() -> None:
    n = 3000
    chain = sparse.diags_array([np.full(n - 1, 0.5)] * 2, offsets=[-1, 1]).tocsr()
    kept = nmds(np.arange(n), -np.arange(n, dtype=float), chain)
    assert np.array_equal(kept, np.arange(0, n, 2))


def test_directions_of_lambda_and_of_k_s() -> None:
    """Larger λ: fewer as a Jaccard distance (the paper's table), more as an IoU (its algorithm). Larger k_s: fewer."""
    graph = knn_graph(clusters(), 40)
    d = density(graph)
    peaks = find_peaks(d, graph)

    def survivors(lam: float, k_s: int = 30, overlap: str = "jaccard-distance") -> list[int]:
        iou = iou_k(graph, peaks, k_s)
        return [len(nmds(peaks, d, iou, lam, rule, overlap)) for rule in RULES]

    lambdas = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
    as_distance = np.array([survivors(lam) for lam in lambdas])
    as_iou = np.array([survivors(lam, overlap="iou") for lam in lambdas[::-1]])[::-1]
    assert (np.diff(as_distance, axis=0) <= 0).all()
    assert (np.diff(as_iou, axis=0) >= 0).all()
    assert (as_distance[0] > as_distance[-1]).all()
    assert (survivors(0.02, overlap="iou") < as_iou[-1]).all()
    by_k_s = np.array([survivors(0.9, k_s) for k_s in (10, 20, 30, 40)])
    assert (np.diff(by_k_s, axis=0) <= 0).all()
    assert (by_k_s[0] > by_k_s[-1]).all()
    # A visit keeps whatever the simultaneous rule keeps, and more.
    assert (as_distance[:, 0] >= as_distance[:, 1]).all()


def test_only_pairs_above_the_threshold_are_needed() -> None:
    graph = knn_graph(clusters(), 30)
    d = density(graph)
    peaks = find_peaks(d, graph)
    few = iou_k(graph, peaks, min_iou=iou_threshold(0.9, "jaccard-distance"))
    assert few.nnz < iou_k(graph, peaks).nnz
    assert np.array_equal(nmds(peaks, d, few, 0.9), nmds(peaks, d, iou_k(graph, peaks), 0.9))


def test_a_hundred_thousand_peaks() -> None:
    """300,000 items with hubs, every third a peak: under 20 s and 2 GiB, in a process of its own."""
    code = """
        import numpy as np, resource, time
        from ltgcd.graph.knn import NeighbourGraph
        from ltgcd.graph.peaks import find_peaks, iou_k, nmds
        random, n = np.random.RandomState(0), 300_000
        near = (np.arange(n)[:, None] + np.arange(1, 61) * random.choice([-1, 1], 60)) % n
        indices = near[:, random.permutation(60)[:30]]
        indices[:, -1] = random.randint(0, 2000, n)  # 2,000 hubs that 50 peaks hold each
        graph = NeighbourGraph(indices, np.ones((n, 30), dtype=np.float32), 1.0, True)
        d = random.rand(n)
        started = time.process_time()
        find_peaks(d, graph)
        peaks = np.arange(0, n, 3)
        iou = iou_k(graph, peaks)
        kept = [len(nmds(peaks, d, iou, 0.9, rule)) for rule in ("greedy", "flip", "literal")]
        print(time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, *kept, iou.nnz)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    seconds, kib, greedy, flip, literal, pairs = map(float, done.stdout.split())
    assert seconds < 20
    assert kib < 2 * 1024**2
    assert 0 < flip < greedy < 100_000
    assert 0 < literal < 100_000
    assert pairs > 1_000_000


def test_bad_input() -> None:
    graph = knn_graph(np.random.RandomState(0).randn(30, 4), 10)
    d = density(graph)
    with pytest.raises(InputError, match="'strict' or 'ge'"):
        find_peaks(d, graph, test="loose")
    with pytest.raises(InputError, match="one for each"):
        find_peaks(d[:5], graph)
    with pytest.raises(InputError, match="NaN"):
        find_peaks(np.where(np.arange(30) == 3, np.nan, d), graph)
    with pytest.raises(InputError, match="build it with k=30"):
        iou_k(graph, np.array([0, 1]), k_s=30)
    iou = overlaps(2, {(0, 1): 0.5})
    with pytest.raises(InputError, match="2 peaks"):
        nmds(np.array([0, 1]), d, overlaps(3, {}))
    with pytest.raises(InputError, match="between 0 and 1"):
        nmds(np.array([0, 1]), d, iou, lam=1.5)
    with pytest.raises(InputError, match="'greedy'"):
        nmds(np.array([0, 1]), d, iou, rule="max")
    with pytest.raises(InputError, match="'iou'"):
        nmds(np.array([0, 1]), d, iou, overlap="dice")
