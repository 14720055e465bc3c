"""Pairs of unit rows with a high cosine, by float32 products on the CPU or a GPU: what `neighbours` chooses from.

Two searches with one way to collect: `all_pairs` looks at every pair, `near_pairs` into the cells of a partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import faiss
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ROWS, COLUMNS = 4096, 1024  # of a block of the product: 16 MB, which stays in a cache
BUFFER = 64 * 2**20  # bytes of any other temporary
SAMPLE = 500  # rows from which `near_pairs` learns how many cells to look into; as many others measure its recall
TARGET_RECALL = 0.98  # that it aims at on the first sample
LARGEST_SHARE = 0.25  # of all pairs, above which looking at all of them was measured to be faster


@dataclass
class Candidates:
    """The best pairs seen so far: similarities, falling, and columns, both (U, kk); -inf where there is none yet."""

    similarities: Tensor
    columns: Tensor

    @classmethod
    def none(cls, n: int, kk: int, device: torch.device) -> Candidates:
        """No pair seen yet."""
        columns = torch.zeros((n, kk), dtype=torch.int64, device=device)
        return cls(torch.full((n, kk), -torch.inf, device=device), columns)

    def add(self, rows: Tensor, columns: Tensor, similarities: Tensor) -> None:
        """Keep the best of what is held and of some new pairs, each of shape (M,), in any order."""
        if not len(rows):
            return
        rows, order = rows.sort(stable=True)
        columns, similarities = columns[order], similarities[order]
        touched, counts = torch.unique_consecutive(rows, return_counts=True)
        kk, ends = self.columns.shape[1], counts.cumsum(0)
        width = kk + int(counts.max())
        step = max(1, BUFFER // (12 * width))
        for top in range(0, len(touched), step):
            lines, number = touched[top : top + step], counts[top : top + step]
            last = int(ends[top + len(lines) - 1])
            first = last - int(number.sum())
            line = torch.arange(len(lines), device=rows.device).repeat_interleave(number)
            place = kk + torch.arange(last - first, device=rows.device) - (number.cumsum(0) - number)[line]
            pool = torch.full((len(lines), width), -torch.inf, device=rows.device)
            pool_columns = torch.zeros((len(lines), width), dtype=torch.int64, device=rows.device)
            pool[:, :kk], pool_columns[:, :kk] = self.similarities[lines], self.columns[lines]
            pool[line, place], pool_columns[line, place] = similarities[first:last], columns[first:last]
            self.similarities[lines], best = pool.topk(kk)
            self.columns[lines] = pool_columns.gather(1, best)


@contextmanager
def _full_precision() -> Iterator[None]:
    """TF32 or bfloat16 products, if somebody has switched them on, would void the error bound of `neighbours`."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.inference_mode():
            yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def _one_thread() -> Iterator[None]:
    """For all but the products: small operations gain little from threads, and wait for each other on a busy machine.

    With two cores shared by four processes, taking in the blocks of 15,000 rows took 17 s with threads and 1 s without.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ---------------------------------------------------------------- every pair


def all_pairs(unit: NDArray[np.float32], kk: int, device: torch.device) -> tuple[NDArray[np.int64], Candidates]:
    """The kk best pairs of every row from the upper triangle of the product: each entry serves both of its rows.

    The rows are taken in random order: the first block of columns then sets a fair floor for every row, and of what
    follows only the few entries above the floor of one of their two rows are looked at.

    Parameters
    ----------
    unit : ndarray of float32, shape (U, D)
        Distinct rows of unit length.
    kk : int
        Candidates a row, below U.
    device : torch.device
        Where to compute.

    Returns
    -------
    ndarray of int64, shape (U,), and Candidates
        The order of the rows, and the candidates, whose rows and columns count through that order.
    """
    n, order = len(unit), np.random.RandomState(0).permutation(len(unit))
    width = max(COLUMNS, kk)
    height = max(ROWS, width)  # the first block below the diagonal holds all the rows that are its columns
    with _full_precision():
        x = torch.from_numpy(unit[order]).to(device)
        found = Candidates.none(n, kk, device)
        memory = torch.empty(min(height, n) * min(width, n), device=device)
        for start in range(0, n, width):
            stop = min(start + width, n)
            for top in range(start, n, height):
                bottom = min(top + height, n)
                s = memory[: (bottom - top) * (stop - start)].view(bottom - top, stop - start)
                torch.mm(x[top:bottom], x[start:stop].T, out=s)
                with _one_thread():
                    if top == start:
                        s[: stop - start].fill_diagonal_(-torch.inf)
                    if start == 0:
                        found.similarities[top:bottom], found.columns[top:bottom] = s.topk(kk)
                    _add_block(found, s, top, start)
    return order, found


def _add_block(found: Candidates, s: Tensor, top: int, start: int) -> None:
    """Add a block of the product with its first row at `top` and its first column at `start`, to both sides."""
    bottom, stop = top + s.shape[0], start + s.shape[1]
    row_floor, column_floor = found.similarities[top:bottom, -1], found.similarities[start:stop, -1]
    passed = s > column_floor
    if start > 0:  # the rows have taken the first block of columns already
        passed |= s > row_floor[:, None]
    place = passed.view(-1).nonzero().squeeze(1)
    row, column, value = place // s.shape[1], place % s.shape[1], s.view(-1)[place]
    # The block on the diagonal holds each of its pairs twice: there the rows' side is enough.
    to_column = (value > column_floor[column]) & (row + top >= stop)
    to_row = (value > row_floor[row]) if start > 0 else torch.zeros_like(to_column)
    found.add(row[to_row] + top, column[to_row] + start, value[to_row])
    found.add(column[to_column] + start, row[to_column] + top, value[to_column])


# ---------------------------------------------------------------- near pairs


def near_pairs(
    unit: NDArray[np.float32], kk: int, k: int, device: torch.device, random_state: int
) -> tuple[NDArray[np.int64], Candidates, float | None]:
    """The kk best pairs of every row among the cells of a partition whose centres are nearest to it.

    The number of cells is the smallest that holds `TARGET_RECALL` of the true neighbours of a sample of rows: a few of
    a hundred on real or clustered features. Data without structure would need so many that all pairs are searched.

    Parameters
    ----------
    unit, kk, device
        As in `all_pairs`.
    k : int
        Neighbours by which recall is measured.
    random_state : int
        Seed of the partition and of the samples.

    Returns
    -------
    ndarray of int64, Candidates and float or None
        As in `all_pairs`, and the recall of the k nearest neighbours on a second sample; None after all pairs.
    """
    centres, cells = _partition(unit, random_state)
    order, sizes = np.argsort(cells, kind="stable"), np.bincount(cells, minlength=len(centres))
    draw = torch.from_numpy(np.random.RandomState(random_state).permutation(len(unit))[: 2 * SAMPLE]).to(device)
    learn, test = draw[0::2], draw[1::2]
    with _full_precision():
        x, middle = torch.from_numpy(unit[order]).to(device), torch.from_numpy(centres).to(device)
        cell_of = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes)).to(device)
        cells_by_rank = (x[learn] @ middle.T).argsort(dim=1, descending=True)
        ranks = cells_by_rank.argsort(dim=1).gather(1, cell_of[_nearest(x, learn, k).columns]).view(-1).sort().values
        probes = int(ranks[int(np.ceil(TARGET_RECALL * len(ranks))) - 1]) + 1
        if sizes[cells_by_rank[:, :probes].cpu().numpy()].sum() > LARGEST_SHARE * len(learn) * len(unit):
            return *all_pairs(unit, kk, device), None
        found = _search_cells(x, kk, middle, sizes, probes)
        limit = _nearest(x, test, k).similarities[:, -1:]
        recall = float((found.similarities[test, :k] >= limit - 1e-6).double().mean())
    return order, found, recall


def _partition(unit: NDArray[np.float32], random_state: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Centres of 2√U cells by spherical k-means on a sample, shape (C, D), and the cell of each row."""
    n_cells = max(1, min(int(2 * np.sqrt(len(unit))), len(unit) // 4))
    model = faiss.Kmeans(
        unit.shape[1], n_cells, niter=8, seed=random_state + 1, spherical=True,
        max_points_per_centroid=64, min_points_per_centroid=1,
    )  # fmt: skip
    model.train(unit)
    centres = np.asarray(model.centroids, dtype=np.float32)
    cells = [(unit[start : start + ROWS] @ centres.T).argmax(axis=1) for start in range(0, len(unit), ROWS)]
    return centres, np.concatenate(cells).astype(np.int64)


def _nearest(x: Tensor, rows: Tensor, k: int) -> Candidates:
    """The k nearest neighbours of some rows among all, in float32."""
    best = Candidates.none(len(rows), k, x.device)
    for start in range(0, len(x), ROWS):
        s = x[rows] @ x[start : start + ROWS].T
        own = (rows >= start) & (rows < start + ROWS)
        s[own, rows[own] - start] = -torch.inf
        columns = torch.arange(start, start + s.shape[1], device=x.device).expand(len(rows), -1)
        best.similarities, place = torch.cat([best.similarities, s], dim=1).topk(k)
        best.columns = torch.cat([best.columns, columns], dim=1).gather(1, place)
    return best


def _search_cells(x: Tensor, kk: int, centres: Tensor, sizes: NDArray[np.int64], probes: int) -> Candidates:
    """Candidates from a row's own cell and the `probes` cells nearest to it; the rows are sorted by cell."""
    found, ends = Candidates.none(len(x), kk, x.device), np.cumsum(sizes)
    workers = torch.get_num_threads() if x.device.type == "cpu" else 1
    # Blocks of rows have nothing in common but what they read: a worker for each core, and no threads below it.
    with _one_thread(), ThreadPoolExecutor(workers) as pool:
        tops = range(0, len(x), 4 * ROWS)
        for done in [pool.submit(_search_near, x, found, centres, ends - sizes, ends, probes, top) for top in tops]:
            done.result()
    return found


@torch.inference_mode()
def _search_near(
    x: Tensor,
    found: Candidates,
    centres: Tensor,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    probes: int,
    top: int,
) -> None:
    """Find the candidates of one block of rows, the first at `top`."""
    bottom = min(top + 4 * ROWS, len(x))
    queries, kk = x[top:bottom], found.columns.shape[1]
    nearest = torch.cat([(part @ centres.T).topk(probes).indices for part in torch.split(queries, ROWS)])
    for cell in range(int(np.searchsorted(ends, top, side="right")), int(np.searchsorted(starts, bottom))):
        start, stop = int(starts[cell]), int(ends[cell])
        mine = torch.arange(max(start, top), min(stop, bottom), device=x.device)
        nearest[mine - top] = torch.where(nearest[mine - top] == cell, -1, nearest[mine - top])
        for part in torch.split(mine, max(1, BUFFER // (4 * (stop - start + 1)))):
            s = x[part] @ x[start:stop].T
            s[torch.arange(len(part), device=x.device), part - start] = -torch.inf
            value, column = s.topk(min(kk, stop - start))
            width = value.shape[1]
            found.similarities[part, :width], found.columns[part, :width] = value, column + start
    # Rows of the same cell look into much the same cells: together they make one product of each.
    line, rank = (nearest >= 0).nonzero(as_tuple=True)
    visited, order = nearest[line, rank].sort(stable=True)
    cells, counts = torch.unique_consecutive(visited, return_counts=True)
    waiting: list[tuple[Tensor, Tensor, Tensor]] = []
    for cell, lines in zip(cells.tolist(), torch.split(line[order], counts.tolist()), strict=True):
        start, stop = int(starts[cell]), int(ends[cell])
        for part in torch.split(lines, max(1, BUFFER // (4 * (stop - start + 1)))):
            s, rows = queries[part] @ x[start:stop].T, part + top
            place = (s > found.similarities[rows, -1:]).view(-1).nonzero().squeeze(1)
            waiting.append((rows[place // s.shape[1]], place % s.shape[1] + start, s.view(-1)[place]))
            # Taking in a few pairs costs as much as many; but until they are in they raise no floor.
            if sum(len(pairs[0]) for pairs in waiting) > 8 * len(queries):
                found.add(*map(torch.cat, zip(*waiting, strict=True)))
                waiting.clear()
    if waiting:
        found.add(*map(torch.cat, zip(*waiting, strict=True)))
