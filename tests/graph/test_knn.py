"""The kNN graph, against a slow loop; ties, duplicates, blocks, memory and the recall of the partitioned search."""

from __future__ import annotations

import math
import subprocess
import sys
import textwrap
from unittest import mock

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.common.errors import InputError
from ltgcd.graph import knn
from ltgcd.graph.knn import NeighbourGraph, knn_graph


def slow(x: np.ndarray, k: int) -> tuple[list[list[int]], list[list[float]]]:
    """The definition, pair by pair: cosines of float32 unit rows, ε-duplicates at 1, equal ones by index."""
    unit = []
    for row in np.asarray(x, dtype=float):
        norm = math.sqrt(math.fsum(v * v for v in row))
        unit.append([float(np.float32(v / norm)) if norm else 0.0 for v in row])
    indices, similarities = [], []
    for i, a in enumerate(unit):
        scores = []
        for j, b in enumerate(unit):
            s = min(1.0, max(-1.0, math.fsum(p * q for p, q in zip(a, b, strict=True))))
            s = 1.0 if s >= 1 - 1e-6 else float(np.float32(s))
            if i != j:
                scores.append((-s, j))
        best = sorted(scores)[:k]
        indices.append([j for _, j in best])
        similarities.append([-s for s, _ in best])
    return indices, similarities


def clusters(n: int, d: int, c: int, seed: int, noise: float = 0.3) -> np.ndarray:
    random = np.random.RandomState(seed)
    return (random.randn(c, d)[random.randint(0, c, n)] + noise * random.randn(n, d)).astype(np.float32)


def same(a: NeighbourGraph, b: NeighbourGraph) -> bool:
    return np.array_equal(a.indices, b.indices) and np.array_equal(a.similarities, b.similarities)


def small_blocks(rows: int = 7, buffer: int = 2000) -> mock._patch:
    return mock.patch.multiple(knn, ROWS=rows, BUFFER=buffer)


def test_golden_numbers() -> None:
    """Directions at 0°, 10°, 30° and 90°, of any length."""
    angle = np.radians([0, 10, 30, 90])
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1) * np.array([[1], [100], [1e-20], [3]])
    graph = knn_graph(x, 2)
    assert graph.indices.tolist() == [[1, 2], [0, 2], [1, 0], [2, 1]]
    cosines = np.cos(np.radians([[10, 30], [10, 20], [20, 30], [60, 80]]))
    np.testing.assert_allclose(graph.similarities, cosines, atol=1e-7)
    assert graph.indices.dtype == np.int64
    assert graph.similarities.dtype == np.float32
    assert (graph.exact, graph.recall, graph.n, graph.k) == (True, 1.0, 4, 2)


tables = st.integers(0, 10**6).flatmap(
    lambda seed: st.tuples(st.just(seed), st.integers(2, 40), st.integers(1, 6), st.integers(1, 45))
)


@settings(max_examples=60, deadline=None)
@given(table=tables, kind=st.sampled_from(["real", "integers", "copies", "tight"]))
def test_against_a_slow_loop_in_any_blocks(table: tuple[int, int, int, int], kind: str) -> None:
    """Integers and copies are full of ties, zero rows and duplicates; tight rows differ by a product's error."""
    seed, n, d, k = table
    random = np.random.RandomState(seed)
    x = {
        "real": random.randn(n, d),
        "integers": random.randint(-1, 2, (n, d)),
        "copies": random.randn(3, d)[random.randint(0, 3, n)],
        "tight": 1 + 1e-3 * random.randn(n, d),
    }[kind]
    indices, similarities = slow(x, k)
    with small_blocks():
        graph = knn_graph(x, k)
    assert graph.indices.tolist() == indices
    assert graph.similarities.tolist() == similarities
    assert graph.k == min(k, n - 1)
    assert same(graph, knn_graph(x, k))


@pytest.mark.parametrize(("rows", "buffer"), [(64, 2**16), (100, 2**20), (4096, 1), (33, 2**26)])
def test_block_sizes_do_not_matter(rows: int, buffer: int) -> None:
    x = clusters(700, 48, 10, 0)
    x[100:140] = x[7]  # as many copies as there are candidates
    x[200:280] = x[8] * (1 + 1e-7 * np.random.RandomState(0).randn(80, 48))
    expected = knn_graph(x, 20)
    with small_blocks(rows, buffer):
        assert same(knn_graph(x, 20), expected)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 60), exact=st.booleans())
def test_permuting_the_rows_permutes_the_graph(seed: int, n: int, exact: bool) -> None:
    random = np.random.RandomState(seed)
    x, order = random.randn(n, 5), random.permutation(n)
    a, b = knn_graph(x, 8, exact=True), knn_graph(x[order], 8, exact=exact)
    if exact:
        assert np.array_equal(order[b.indices], a.indices[order])
        assert np.array_equal(b.similarities, a.similarities[order])
    else:
        assert (b.similarities <= a.similarities[order]).all()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), power=st.integers(-30, 30))
def test_the_length_of_a_row_does_not_matter(seed: int, power: int) -> None:
    random = np.random.RandomState(seed)
    x = random.randn(30, 6)
    assert same(knn_graph(x, 5), knn_graph(x * 2.0**power, 5))
    scaled = knn_graph(x * random.uniform(0.01, 100, (30, 1)), 5)
    np.testing.assert_allclose(scaled.similarities, knn_graph(x, 5).similarities, atol=2e-7)


def test_duplicates_tie_and_the_lower_index_comes_first() -> None:
    x = np.random.RandomState(0).randn(50, 16).astype(np.float32)
    x[10:40] = x[10]
    graph = knn_graph(x, 5)
    assert graph.indices[10].tolist() == [11, 12, 13, 14, 15]
    assert graph.indices[12].tolist() == [10, 11, 13, 14, 15]
    assert graph.indices[39].tolist() == [10, 11, 12, 13, 14]
    assert (graph.similarities[10:40] == 1).all()
    outside = [i for i in graph.indices[0].tolist() if 10 <= i < 40]
    assert outside == list(range(10, 10 + len(outside)))


def test_duplicates_up_to_rounding_count_as_duplicates() -> None:
    """The same image, embedded in another batch: similarity 1.0 and the order of the indices."""
    random = np.random.RandomState(0)
    x = random.randn(400, 64).astype(np.float32)
    x[100:300] = x[100] * (1 + 1e-6 * random.randn(200, 64)).astype(np.float32)
    graph = knn_graph(x, 12)
    assert graph.indices[300 - 1].tolist() == list(range(100, 112))
    assert (graph.similarities[100:300] == 1).all()


def test_all_equal_vectors() -> None:
    graph = knn_graph(np.full((3000, 7), 0.3), 4)
    assert (graph.similarities == 1).all()
    assert graph.indices[0].tolist() == [1, 2, 3, 4]
    assert graph.indices[2].tolist() == [0, 1, 3, 4]
    assert (graph.indices[5:] == np.arange(4)).all()


def test_a_zero_row_is_at_right_angles_to_everything() -> None:
    graph = knn_graph(np.array([[0.0, 0], [1, 0], [-1, 0.1], [0, 0], [1, 0.1]]), 3)
    assert graph.indices[0].tolist() == [1, 2, 3]
    assert graph.similarities[0].tolist() == [0, 0, 0]
    assert graph.indices[3].tolist() == [0, 1, 2]
    assert graph.indices[1].tolist() == [4, 0, 3]  # 0 is nearer than an obtuse angle


@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_k_above_n(n: int) -> None:
    graph = knn_graph(np.random.RandomState(0).randn(n, 3), 10)
    assert graph.indices.shape == graph.similarities.shape == (n, n - 1)
    assert all(sorted([i, *row]) == list(range(n)) for i, row in enumerate(graph.indices.tolist()))


def test_rows_that_nothing_but_float64_separates_are_searched_again() -> None:
    """Far from the origin all cosines are nearly 1: the float32 product cannot tell them apart."""
    x = 1 + 2e-3 * np.random.RandomState(0).randn(300, 12)
    with mock.patch.object(knn, "_searched_whole", wraps=knn._searched_whole) as again:
        graph = knn_graph(x, 9)
    assert again.called
    indices, similarities = slow(x, 9)
    assert graph.indices.tolist() == indices
    assert graph.similarities.tolist() == similarities
    with mock.patch.object(knn, "_searched_whole", wraps=knn._searched_whole) as again:
        knn_graph(clusters(300, 12, 5, 0), 9)
    assert not again.called


def test_first_takes_the_nearest_columns() -> None:
    graph = knn_graph(np.random.RandomState(0).randn(20, 3), 8)
    assert same(graph.first(3), knn_graph(np.random.RandomState(0).randn(20, 3), 3))
    assert graph.first(8).k == 8
    with pytest.raises(InputError, match="holds 8 neighbours an item; build it with k=9"):
        graph.first(9)
    assert knn_graph(np.eye(4), 30).first(30).k == 3  # all there are


@pytest.mark.parametrize(
    ("x", "k", "words"),
    [
        ([[1.0, 2], [np.nan, 1]], 1, "Row 1 of the features holds NaN"),
        ([[1.0, 2], [3, 1], [0, -np.inf]], 1, "Row 2"),
        ([1.0, 2], 1, r"shape \(2,\)"),
        (np.zeros((0, 3)), 1, r"shape \(0, 3\)"),
        ([["a"], ["b"]], 1, "table of numbers"),
        ([[1.0], [2.0]], 0, "k must be 1 or more"),
    ],
)
def test_bad_input(x: object, k: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        knn_graph(np.asarray(x), k)


def test_the_features_are_left_alone() -> None:
    x = np.asfortranarray(np.random.RandomState(0).randn(30, 4).astype(np.float32))
    before = x.copy()
    knn_graph(x, 3)
    assert np.array_equal(x, before)
    assert same(knn_graph(x, 3), knn_graph(np.ascontiguousarray(x), 3))


# ---------------------------------------------------------------- size


def test_the_size_decides_between_exact_and_partitioned() -> None:
    x = clusters(500, 8, 5, 0)
    assert knn_graph(x, 5).exact
    with mock.patch.object(knn, "EXACT_FLOP", 2 * 499**2 * 8):
        assert not knn_graph(x, 5).exact
        assert knn_graph(x, 5, exact=True).exact


def test_recall_of_the_partitioned_search() -> None:
    x = clusters(6000, 24, 40, 1, noise=0.5)
    x[50:60] = x[49]
    exact, near = knn_graph(x, 15, exact=True), knn_graph(x, 15, exact=False)
    true = np.mean([len(np.intersect1d(a, b)) / 15 for a, b in zip(exact.indices, near.indices, strict=True)])
    assert true >= 0.95
    assert near.recall == pytest.approx(true, abs=0.02)
    assert not near.exact
    assert (np.diff(near.similarities, axis=1) <= 0).all()
    assert not (near.indices == np.arange(6000)[:, None]).any()
    assert same(near, knn_graph(x, 15, exact=False))


@pytest.mark.parametrize(("queries", "buffer"), [(7, 2**20), (25, 1), (2**16, 2**20)])
def test_cells_may_be_empty_and_blocks_may_cut_them(queries: int, buffer: int) -> None:
    random = np.random.RandomState(0)
    x = random.randn(60, 5).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    sizes, centres = np.array([0, 20, 0, 0, 30, 10, 0]), random.randn(7, 5).astype(np.float32)
    cell = random.permutation(np.repeat(np.arange(7), sizes))
    with mock.patch.multiple(knn, QUERIES=queries, BUFFER=buffer):
        columns, products = knn._search_cells(x, centres, cell, probes=7, n=12)
    s = x @ x.T
    np.testing.assert_allclose(products, -np.sort(-s, axis=1)[:, :12], atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(s, columns, axis=1), products, atol=1e-6)


@pytest.mark.parametrize("exact", [True, False])
def test_threads_do_not_matter(exact: bool) -> None:
    x = clusters(4000, 24, 40, 1, noise=0.5)
    x[50:60] = x[49]
    before = faiss.omp_get_max_threads()
    try:
        graphs = []
        for threads in (1, 2, 3):
            faiss.omp_set_num_threads(threads)
            graphs.append(knn_graph(x, 15, exact=exact))
    finally:
        faiss.omp_set_num_threads(before)
    assert graphs[0].exact is exact
    assert same(graphs[0], graphs[1]) and same(graphs[0], graphs[2])


@pytest.mark.parametrize("seed", [2**31 - 2, 2**31 - 1, 2**31, 2**32 - 1])
def test_every_seed_that_numpy_takes(seed: int) -> None:
    """FAISS's seeds end at 2³¹ − 1."""
    graph = knn_graph(clusters(600, 8, 12, 0), 5, exact=False, random_state=seed)
    assert graph.recall > 0.9


@pytest.mark.parametrize("random_state", [0, 1])
def test_a_partition_with_empty_and_tiny_cells(random_state: int) -> None:
    """k-means may leave cells that no row is nearest to, and cells with fewer rows than candidates are wanted."""
    x = clusters(900, 12, 9, random_state, noise=0.1)
    x[:3] = -50 * x[:3] + 7  # three rows by themselves
    unit = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    random = np.random.RandomState(random_state)
    leaders = np.concatenate([unit[:3], unit[3 + random.permutation(897)[:37]]])
    # Copies of a centre never win over the first of them; the opposite of a crowd attracts nothing.
    centres = np.concatenate([-leaders[-3:], leaders, leaders[5:15], -leaders[3:6]]).astype(np.float32)
    cells = (unit @ centres.T).argmax(axis=1)
    sizes = np.bincount(cells, minlength=len(centres))
    assert (sizes == 0).sum() >= 10
    assert sizes[0] == sizes[-1] == 0  # at the front and at the end too
    assert 0 < sizes[sizes > 0].min() < 10
    with (
        mock.patch.object(knn, "_partition", return_value=centres),
        mock.patch.multiple(knn, SAMPLE=200, LARGEST_SHARE=1.0),
    ):
        near = knn_graph(x, 10, exact=False, random_state=random_state)
    exact = knn_graph(x, 10, exact=True)
    found = [len(np.intersect1d(a, b)) / 10 for a, b in zip(exact.indices, near.indices, strict=True)]
    assert not near.exact
    assert np.mean(found) >= 0.95
    assert near.recall == pytest.approx(np.mean(found), abs=0.03)
    assert np.isfinite(near.similarities).all()
    assert (near.similarities <= exact.similarities).all()
    assert all(len({i, *row}) == 11 for i, row in enumerate(near.indices.tolist()))


def test_data_without_structure_is_searched_as_a_whole() -> None:
    """A partition would have to look into half of its cells to find the neighbours of a single wide cloud."""
    x = np.random.RandomState(0).randn(2000, 100)
    graph = knn_graph(x, 10, exact=False)
    assert (graph.exact, graph.recall) == (True, 1.0)
    assert same(graph, knn_graph(x, 10))


def test_a_partitioned_search_of_very_few_rows() -> None:
    for n in (1, 2, 3, 9, 30):
        x = np.random.RandomState(n).randn(n, 4)
        graph = knn_graph(x, 7, exact=False)
        assert graph.indices.shape == (n, min(7, n - 1))
        assert all(len({i, *row}) == graph.k + 1 for i, row in enumerate(graph.indices.tolist()))


def test_no_array_of_all_pairs() -> None:
    """20,000 items: all pairs would take 1.6 GB; the graph, the rows and the blocks take far less."""
    code = """
        import numpy as np, resource
        from ltgcd.graph.knn import knn_graph
        x = np.random.RandomState(0).randn(20_000, 64).astype(np.float32)
        x[10_000:12_000] = x[5]
        knn_graph(x[:500], 30), knn_graph(x[:500], 30, exact=False)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        graph = knn_graph(x, 30)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, graph.k)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    mib, k = map(float, done.stdout.split())
    assert mib < 350
    assert k == 30
