"""One cosine kNN graph, exact or partitioned, that density, peaks and K share (docs/methods.md §6.1, §7.1).

The order of neighbours is part of the result, so it must not depend on where a block of a matrix product begins. FAISS
only proposes k + `SPARE` candidates a row, in float32; their similarities are then computed again in float64 and
rounded to float32, and equal ones are ordered by index. A row whose k-th neighbour is not separated from what was left
out by more than the rounding error of the product is searched again in float64 as a whole.

Duplicates: rows that are equal after scaling to unit length are searched once and put back by index, lowest first, so
that a thousand copies of one image cost as much as one. ε-duplicates (similarity ≥ 1 − 1e-6) get similarity 1.0 and
thereby tie, lowest index first. A zero row has no direction: its similarity to every row, zero rows included, is 0.
A partitioned graph keeps these rules among what it found.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import faiss
import numpy as np
from numpy.typing import NDArray

from ltgcd.common.engine.rows import Arrays, Compute, by_rows
from ltgcd.common.engine.threads import available_cores, numpy_in_one_thread
from ltgcd.common.errors import InputError
from ltgcd.common.progress import progress

DUPLICATE = 1.0 - 1e-6  # similarity from which two rows count as the same
SPARE = 8  # candidates beyond k that the float32 search keeps
# A search is exact where the full product costs no more than 100,000 rows of 768 numbers: about a minute on two cores.
EXACT_FLOP = 2 * 100_000**2 * 768
ROWS = 4096  # of a block in float64
BUFFER = 64 * 2**20  # bytes of any other temporary
QUERIES = 2**15  # rows that a partitioned search takes through all cells at once
SEARCHING = "searching neighbours"
SAMPLE = 500  # rows from which it learns how many cells to look into; as many others measure its recall
TARGET_RECALL = 0.98  # that it aims at on the first sample
LARGEST_SHARE = 0.25  # of all pairs, above which looking at all of them was measured to be faster


@dataclass(frozen=True, eq=False)
class NeighbourGraph:
    """The k nearest neighbours of every item, the item itself excluded.

    Attributes
    ----------
    indices : ndarray of int64, shape (N, k)
        Neighbours by falling similarity, equal ones by rising index.
    similarities : ndarray of float32, shape (N, k)
        Their cosines, in [-1, 1].
    recall : float
        Share of the true neighbours that were found: 1.0 if `exact`, else measured on a sample.
    exact : bool
        Whether every pair was looked at.
    """

    indices: NDArray[np.int64]
    similarities: NDArray[np.float32]
    recall: float
    exact: bool

    @property
    def n(self) -> int:
        """Number of items."""
        return len(self.indices)

    @property
    def k(self) -> int:
        """Neighbours held for each item."""
        return int(self.indices.shape[1])

    def first(self, k: int) -> NeighbourGraph:
        """The graph of the `k` nearest neighbours: the first columns of this one, at most N − 1."""
        if k < 1:
            raise InputError(f"k must be 1 or more, but is {k}.")
        if k > self.k and self.k < self.n - 1:
            raise InputError(f"The graph holds {self.k} neighbours an item; build it with k={k} or more.")
        return NeighbourGraph(self.indices[:, :k], self.similarities[:, :k], self.recall, self.exact)


_Candidates = tuple[NDArray[np.int64], NDArray[np.float32]]  # columns and products, each (U, n)


# ---------------------------------------------------------------- rows


def _unit_rows(x: NDArray[np.floating]) -> NDArray[np.float32]:
    """Rows scaled to unit length, shape (N, D); a zero row stays zero."""
    x = np.asarray(x)
    if x.ndim != 2 or x.dtype.kind not in "fiu" or 0 in x.shape:
        raise InputError(f"Features must be a table of numbers (N, D), but have shape {x.shape} and type {x.dtype}.")
    unit = np.empty(x.shape, dtype=np.float32)
    for start in range(0, len(x), ROWS):
        block = x[start : start + ROWS].astype(np.float64)
        largest = np.abs(block).max(axis=1, keepdims=True)
        if not np.isfinite(largest).all():
            row = start + int(np.flatnonzero(~np.isfinite(largest[:, 0]))[0])
            raise InputError(f"Row {row} of the features holds NaN or infinity; remove the item or embed it again.")
        block /= np.where(largest > 0, largest, 1.0)  # so that squares neither overflow nor vanish
        norm = np.sqrt(np.einsum("ij,ij->i", block, block))[:, None]
        unit[start : start + ROWS] = block / np.where(norm > 0, norm, 1.0)
    unit += 0.0  # -0.0 and 0.0 are the same number but not the same bytes
    return unit


def _distinct_rows(unit: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First item of each distinct row, ascending, shape (U,), and the row that every item holds, shape (N,)."""
    first, row = np.arange(len(unit)), np.arange(len(unit))
    # Only rows with the same random projection can be equal; comparing all of their bytes is ten times slower.
    mark = np.einsum("nd,d->n", unit, np.random.RandomState(0).randn(unit.shape[1]).astype(np.float32))
    _, kind, sizes = np.unique(mark, return_inverse=True, return_counts=True)
    alike = np.flatnonzero(sizes[kind] > 1)
    if len(alike):
        as_bytes = unit[alike].view(np.dtype((np.void, unit.itemsize * unit.shape[1]))).ravel()
        _, lead, group = np.unique(as_bytes, return_index=True, return_inverse=True)
        row[alike] = alike[lead[group]]
        first, row = np.unique(row, return_inverse=True)
    return first, row.astype(np.int64, copy=False)


# ---------------------------------------------------------------- similarities, in float64


def _rounded(similarities: NDArray[np.float64]) -> NDArray[np.float32]:
    """Float64 similarities as the graph holds them: at most 1 in size, ε-duplicates at 1.0, float32."""
    similarities = np.clip(similarities, -1.0, 1.0)
    similarities[similarities >= DUPLICATE] = 1.0
    return similarities.astype(np.float32) + np.float32(0)  # no -0.0


def _rescored(unit: NDArray[np.float32], candidates: NDArray[np.int64]) -> NDArray[np.float32]:
    """Similarities of each row to its candidates, shape (U, kk)."""
    out = np.empty(candidates.shape, dtype=np.float32)
    step = max(1, 2**20 // (unit.shape[1] * candidates.shape[1]))  # 4 MB: a gather that stays in a cache
    for start in range(0, len(unit), step):
        others = unit[candidates[start : start + step]]
        exact = np.einsum("nkd,nd->nk", others, unit[start : start + step], dtype=np.float64)
        out[start : start + step] = _rounded(exact)
    return out


def _searched_whole(
    unit: NDArray[np.float32], rows: NDArray[np.int64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k nearest neighbours of some rows among all, everything in float64: indices and similarities."""
    indices, similarities = np.empty((len(rows), k), dtype=np.int64), np.empty((len(rows), k), dtype=np.float32)
    step = max(64, BUFFER // (24 * len(unit)))
    for top in range(0, len(rows), step):
        part = rows[top : top + step]
        s = np.empty((len(part), len(unit)), dtype=np.float32)
        for start in range(0, len(unit), ROWS):
            block = unit[start : start + ROWS].astype(np.float64)
            s[:, start : start + ROWS] = _rounded(unit[part].astype(np.float64) @ block.T)
        s[np.arange(len(part)), part] = 2.0
        # One integer that falls with the similarity and grows with the index: a partition leaves ties to chance.
        bits = s.view(np.int32).astype(np.int64)
        key = (np.where(bits < 0, bits & 0x7FFFFFFF, -bits) << 32) + np.arange(len(unit))
        first = np.sort(np.partition(key, k, axis=1)[:, : k + 1], axis=1)
        best = first[:, 1:] & 0xFFFFFFFF  # without the row itself
        indices[top : top + step] = best
        similarities[top : top + step] = np.take_along_axis(s, best, axis=1)
    return indices, similarities


# ---------------------------------------------------------------- candidates, in float32 by FAISS


def _all_pairs(x: NDArray[np.float32], queries: NDArray[np.float32], n: int) -> _Candidates:
    """The n rows of x with the greatest product with each query: columns and products, falling, each (Q, n)."""
    products, columns = faiss.knn(queries, x, n, metric=faiss.METRIC_INNER_PRODUCT)
    return columns, products


def _near_all(n: int, arrays: Arrays) -> Compute:
    """The n rows with the greatest product with each of some rows: FAISS computes in threads of its own."""
    unit = np.ascontiguousarray(arrays["unit"], dtype=np.float32)
    return lambda start, stop: _all_pairs(unit, unit[start:stop], n)


def _every_pair(unit: NDArray[np.float32], n: int) -> _Candidates:
    """The n best pairs of every row, itself included, among all pairs."""
    columns, products = np.empty((len(unit), n), dtype=np.int64), np.empty((len(unit), n), dtype=np.float32)
    for place, found in by_rows(partial(_near_all, n), {"unit": unit}, len(unit), QUERIES, SEARCHING):
        columns[place], products[place] = found
    return columns, products


def _partition(unit: NDArray[np.float32], random_state: int) -> NDArray[np.float32]:
    """Centres of 2√U cells by spherical k-means on a sample, shape (C, D)."""
    n_cells = max(1, min(int(2 * np.sqrt(len(unit))), len(unit) // 4))
    model = faiss.Kmeans(
        unit.shape[1], n_cells, niter=8, seed=(random_state + 1) % 2**31, spherical=True,
        max_points_per_centroid=64, min_points_per_centroid=1,
    )  # fmt: skip
    model.train(unit)
    return np.asarray(model.centroids, dtype=np.float32)


def _nearest_centres(centres: NDArray[np.float32], unit: NDArray[np.float32]) -> NDArray[np.int64]:
    """The centre that is nearest to each row, shape (U,)."""
    found = []
    with progress("sorting items into cells", len(unit)) as advance:
        for top in range(0, len(unit), QUERIES):
            found.append(_all_pairs(centres, unit[top : top + QUERIES], 1)[0][:, 0])
            advance(len(found[-1]))
    return np.concatenate(found)


def _near_pairs(unit: NDArray[np.float32], n: int, k: int, random_state: int) -> tuple[_Candidates, float] | None:
    """The n best pairs of every row, itself included, among the cells of a partition whose centres are nearest to it.

    The number of cells is the smallest that holds `TARGET_RECALL` of the k true neighbours of a sample of rows: a few
    of a hundred on real or clustered features. Returns the candidates, columns -1 where there is none, and the recall
    of the k nearest neighbours on a second sample; None where the cells hold more than `LARGEST_SHARE` of all pairs.
    """
    centres = _partition(unit, random_state)
    cell = _nearest_centres(centres, unit)
    drawn = np.random.RandomState(random_state).permutation(len(unit))[: 2 * SAMPLE]
    learn, test = drawn[0::2], drawn[1::2]
    nearest_cells = _all_pairs(centres, unit[learn], len(centres))[0]
    cells_of_neighbours = cell[_all_pairs(unit, unit[learn], k + 1)[0]]
    ranks = np.take_along_axis(np.argsort(nearest_cells, axis=1), cells_of_neighbours, axis=1)
    ranks = np.sort(np.sort(ranks, axis=1)[:, 1:].ravel())  # without the row itself, whose cell is the first
    probes = int(ranks[int(np.ceil(TARGET_RECALL * len(ranks))) - 1]) + 1
    sizes = np.bincount(cell, minlength=len(centres))
    if sizes[nearest_cells[:, :probes]].sum() > LARGEST_SHARE * len(learn) * len(unit):
        return None
    columns, products = _search_cells(unit, centres, cell, probes, n)
    limit = _all_pairs(unit, unit[test], k + 1)[1][:, -1:]
    return (columns, products), float((products[test, 1 : k + 1] >= limit - 1e-6).mean())


def _search_cells(
    unit: NDArray[np.float32], centres: NDArray[np.float32], cell: NDArray[np.int64], probes: int, n: int
) -> _Candidates:
    """The n best pairs of every row with the rows of the `probes` cells whose centres are nearest to it.

    `cell` (U,) is where each row lies. Rows that look into the same cell make one matrix product with it: three times
    as fast as ``IndexIVFFlat.search``, where every row goes through its cells alone. Blocks of rows are searched side
    by side, one a core or by whoever shares them; each by itself, so that the number of cores changes nothing.
    """
    order, sizes = np.argsort(cell, kind="stable"), np.bincount(cell, minlength=len(centres))
    arrays: Arrays = {"by_cell": unit[order], "order": order, "centres": centres, "ends": np.cumsum(sizes)}
    columns, products = np.empty((len(unit), n), dtype=np.int64), np.empty((len(unit), n), dtype=np.float32)
    search = partial(_near_in_cells, probes, n)
    for place, found in by_rows(search, arrays, len(unit), QUERIES, SEARCHING, available_cores()):
        rows = order[place]
        columns[rows], products[rows] = found
    return columns, products


def _near_in_cells(probes: int, n: int, arrays: Arrays) -> Compute:
    """The n best pairs of some rows, which come cell by cell: those of a block look into the same few cells."""
    by_cell, order, centres, ends = (np.asarray(arrays[name]) for name in ("by_cell", "order", "centres", "ends"))
    sizes = np.diff(ends, prepend=0)

    def search(start: int, stop: int) -> _Candidates:
        queries = np.ascontiguousarray(by_cell[start:stop], dtype=np.float32)
        best = faiss.ResultHeap(len(queries), n, keep_max=True)
        visited = _all_pairs(centres, queries, probes)[0].ravel()
        visitors = np.argsort(visited, kind="stable") // probes
        last = np.cumsum(np.bincount(visited, minlength=len(sizes)))
        for c in np.flatnonzero(np.diff(last, prepend=0) * sizes):
            bucket, members = by_cell[ends[c] - sizes[c] : ends[c]], order[ends[c] - sizes[c] : ends[c]]
            rows = visitors[last[c - 1] if c else 0 : last[c]]
            step = max(1, BUFFER // (4 * len(bucket)))
            for top in range(0, len(rows), step):
                part = rows[top : top + step]
                best.add_result_subset(part, queries[part] @ bucket.T, members)
        best.finalize()
        return best.I, best.D

    return search


# ---------------------------------------------------------------- graph


def _distinct_graph(unit: NDArray[np.float32], k: int, exact: bool | None, random_state: int) -> NeighbourGraph:
    """Graph of rows that are all distinct, shape (U, D)."""
    n, d = unit.shape
    kk = min(k + SPARE, n - 1)
    if exact is None:
        exact = 2 * n * n * d <= EXACT_FLOP
    near = None if exact else _near_pairs(unit, kk + 1, k, random_state)
    (candidates, proposed), recall = near or (_every_pair(unit, kk + 1), 1.0)
    exact = near is None
    # The row itself goes; where ε-duplicates have crowded it out, the last candidate does.
    itself = candidates == np.arange(n)[:, None]
    itself[~itself.any(axis=1), -1] = True
    candidates = candidates[~itself].reshape(n, kk)
    # Cells of a partition may hold fewer rows than candidates are wanted; such places are empty (-1).
    scores = np.where(candidates >= 0, _rescored(unit, candidates), -np.inf).astype(np.float32)
    best = np.lexsort((candidates, -scores))[:, :k]
    indices, similarities = np.take_along_axis(candidates, best, axis=1), np.take_along_axis(scores, best, axis=1)
    unsure = similarities[:, -1] == -np.inf
    if exact and kk < n - 1:
        # Nothing left out reaches the worst candidate plus the rounding error of a float32 sum of d products.
        reach = proposed[:, -1] + 1.01 * (d + 2) * 2.0**-24
        unsure |= reach >= np.minimum(similarities[:, -1], DUPLICATE)
    if unsure.any():
        indices[unsure], similarities[unsure] = _searched_whole(unit, np.flatnonzero(unsure), k)
    return NeighbourGraph(indices, similarities, recall, exact)


def _with_duplicates(
    graph: NeighbourGraph, has_direction: NDArray[np.bool_], row: NDArray[np.int64], k: int
) -> NeighbourGraph:
    """The graph of all N items, each with the distinct row (N,) that it holds, from the one of the U distinct rows.

    The zero row, which has no direction (U,), has similarity 0 to its own copies, not 1.
    """
    n = len(row)
    items, sizes = np.argsort(row, kind="stable"), np.bincount(row)
    starts = np.cumsum(sizes) - sizes
    out, out_similarities = np.empty((n, k), dtype=np.int64), np.empty((n, k), dtype=np.float32)
    step = max(1, BUFFER // (64 * (k + 1) * (graph.k + 1)))
    for top in range(0, n, step):
        mine = row[top : top + step]
        rows = np.concatenate([mine[:, None], graph.indices[mine]], axis=1)
        values = np.concatenate([has_direction[mine, None], graph.similarities[mine]], axis=1, dtype=np.float32)
        taken = np.minimum(sizes[rows], k + 1)  # k others and perhaps the item itself
        flat = taken.ravel()
        within = np.arange(flat.sum()) - np.repeat(np.cumsum(flat) - flat, flat)
        item = items[np.repeat(starts[rows.ravel()], flat) + within]
        line = np.repeat(np.arange(len(mine)), taken.sum(axis=1))
        value = np.repeat(values.ravel(), flat)
        other = item != line + top
        item, line, value = item[other], line[other], value[other]
        order = np.lexsort((item, -value, line))
        counts = np.bincount(line, minlength=len(mine))
        rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        order = order[rank < k]
        out[top : top + step] = item[order].reshape(len(mine), k)
        out_similarities[top : top + step] = value[order].reshape(len(mine), k)
    return NeighbourGraph(out, out_similarities, graph.recall, graph.exact)


@numpy_in_one_thread()
def knn_graph(x: NDArray[np.floating], k: int, *, exact: bool | None = None, random_state: int = 0) -> NeighbourGraph:
    """The k nearest neighbours of every row by cosine, the row itself excluded.

    Parameters
    ----------
    x : ndarray, shape (N, D)
        Features; scaled to unit length here, in float32.
    k : int
        Neighbours a row; at most N − 1 are returned.
    exact : bool, optional
        Look at every pair, or only into the cells of a k-means partition whose centres are nearest, as many as recall
        needs (and at every pair all the same where that would be a quarter of them). By default exact as long as the
        full product takes no more than `EXACT_FLOP` operations: to about 100,000 rows of 768 numbers.
    random_state : int
        Seed of the partition and of the sample that measures recall; an exact graph does not depend on it.

    Returns
    -------
    NeighbourGraph
        Memory beside the features: two float32 copies of them, O(N · k), and blocks of fixed size.
    """
    if k < 1:
        raise InputError(f"k must be 1 or more, but is {k}.")
    unit = _unit_rows(x)
    n = len(unit)
    k = min(k, n - 1)
    first, row = _distinct_rows(unit)
    if len(first) == n > 1:
        return _distinct_graph(unit, k, exact, random_state)
    unit = unit[first]
    graph = NeighbourGraph(np.empty((1, 0), dtype=np.int64), np.empty((1, 0), dtype=np.float32), 1.0, True)
    if len(first) > 1:
        graph = _distinct_graph(unit, min(k, len(first) - 1), exact, random_state)
    return _with_duplicates(graph, np.any(unit, axis=1), row, k)
