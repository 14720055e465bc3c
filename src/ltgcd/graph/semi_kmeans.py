"""Semi-supervised k-means, the assignment of Vaze et al.'s GCD (docs/methods.md §4): labelled items keep their class.

All restarts run side by side. In each round one matrix product compares the unlabelled rows with the centres that moved
since the last round, of all restarts together. That is enough: for every row and restart two numbers are kept, the
score of its own centre and a lower bound on the score of all others, the score of a centre that rests being as it was.
Only where its own centre has moved away beyond that bound is a row compared with all centres again. On real features
this is a third of the work or less, and the result is that of Lloyd's algorithm.

The M-step moves rows that changed their cluster from one float64 sum to another, so nothing drifts. With fixed centres
as a start the order of the rows matters only to rounding, and where points are exactly as far as each other from their
centres when a cluster is re-seeded; the seeds of k-means++ are drawn along the rows, so they do depend on their order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ltgcd.common.errors import InputError
from ltgcd.common.progress import progress
from ltgcd.common.tables import at_columns, probabilities
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.kmeans import TEMPERATURE, Assignment
from ltgcd.graph.whitening import class_means, cosines, fit_whitening

ROWS = 1024  # of the unlabelled items in one matrix product
COLUMNS = 4096  # centres of all restarts in one; more restarts than that holds run in groups
TOLERANCE = 1e-4  # on (Σ_k ‖Δc_k‖)², for rows of unit length
SAME = 4e-6  # share of ‖x‖² below which a squared distance is the rounding error of a float32 product
LARGEST = 1e15  # so that the squares of float32 numbers stay finite


class SemiKMeans(NamedTuple):
    """A clustering in which labelled rows have their own class.

    Attributes
    ----------
    labels : ndarray of int64, shape (N,)
        Known classes 0…n_old − 1, then novel clusters by falling size.
    centres : ndarray of float32, shape (K, D)
        Mean of the members; that of an empty cluster is where it was seeded.
    inertia : float
        Σ_i ‖x_i − c_{labels_i}‖² over labelled and unlabelled rows.
    n_iter : int
        Rounds that the best restart took.
    """

    labels: NDArray[np.int64]
    centres: NDArray[np.float32]
    inertia: float
    n_iter: int


# ---------------------------------------------------------------- seeds


def _seeded(
    u: NDArray[np.float32], norms: NDArray[np.float32], nearest: NDArray[np.float32], chosen: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Squared distance (R, U) of each row of u to its nearest seed, after row chosen[r] became one in restart r."""
    d = u[chosen] @ u.T
    d *= -2
    d += norms + norms[chosen, None]
    np.minimum(d, nearest, out=d)
    d[d <= SAME * norms] = 0
    return d


def _plus_plus(u: NDArray[np.float32], given: NDArray[np.float32], draws: NDArray[np.float64]) -> NDArray[np.float32]:
    """Seeds by D² sampling among the rows of u, shape (R, n, D), on top of the given centres.

    Parameters
    ----------
    u : ndarray of float32, shape (U, D)
        Unlabelled rows, centred.
    given : ndarray of float32, shape (G, D)
        Centres there already: the means of the labelled classes.
    draws : ndarray, shape (R, n)
        Uniform numbers in [0, 1), one for each restart and seed.
    """
    seeds = np.zeros((*draws.shape, u.shape[1]), dtype=np.float32)
    if not len(u):  # nothing to seed from: such clusters lie at the mean of all rows, which is 0, and stay empty
        return seeds
    norms = np.einsum("ud,ud->u", u, u)
    nearest = np.full((len(draws), len(u)), np.inf, dtype=np.float32)
    if len(given):
        scores = np.concatenate([_scores(u[i : i + ROWS], given).min(axis=1) for i in range(0, len(u), ROWS)])
        nearest[:] = np.where(scores + norms > SAME * norms, scores + norms, 0)
    with progress("drawing the first centres", draws.shape[1]) as advance:
        for step, draw in enumerate(draws.T):
            # Where nothing is left to tell rows apart, or nothing to measure from, all are as likely.
            lost = ~np.isfinite(nearest[:, :1]) | ~nearest.any(axis=1, keepdims=True)
            cumulated = np.cumsum(np.where(lost, 1.0, nearest), axis=1, dtype=np.float64)
            chosen = (cumulated <= draw[:, None] * cumulated[:, -1:]).sum(axis=1)
            chosen = np.minimum(chosen, len(u) - 1)
            seeds[:, step] = u[chosen]
            nearest = _seeded(u, norms, nearest, chosen)
            advance(1)
    return seeds


# ---------------------------------------------------------------- E-step


def _scores(u: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.float32]:
    """‖c‖² − 2 u·c, shape (U, C): the squared distance less ‖u‖², which is the same for all centres."""
    out: NDArray[np.float32] = u @ (np.float32(-2) * centres).T
    out += np.einsum("cd,cd->c", centres, centres)
    return out


def _two_least(
    scores: NDArray[np.float32],
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
    """Column of the least score of each row, that score, and the second least; overwrites the scores."""
    rows = np.arange(len(scores))
    column = scores.argmin(axis=1)
    least = scores[rows, column]
    scores[rows, column] = np.inf
    return column, least, scores.min(axis=1)


class _Restarts:
    """R restarts on the same rows u (U, D), from centres (R, K, D); means and counts are of the labelled rows alone."""

    def __init__(
        self,
        u: NDArray[np.float32],
        centres: NDArray[np.float32],
        means: NDArray[np.float32],
        counts: NDArray[np.int64],
    ) -> None:
        shape = (len(centres), len(u))
        self.u = u
        self.centres = centres
        self.sums = np.repeat(counts[None, :, None] * means.astype(np.float64)[None], len(centres), axis=0)
        self.counts = np.repeat(counts[None], len(centres), axis=0)
        self.gains = np.zeros(self.counts.shape)  # n_k ‖c_k‖²: what cluster k takes off Σ‖x‖² to leave the inertia
        self.labels = np.full(shape, -1, dtype=np.int32)
        self.score = np.full(shape, np.inf, dtype=np.float32)  # of the own centre
        self.bound = np.full(shape, np.inf, dtype=np.float32)  # no other centre has a lower score
        # Of equal centres only the first takes part, lest rounding share out copies of a row; the others are empty.
        self.moved = np.zeros(self.counts.shape, dtype=bool)
        for moved, start in zip(self.moved, centres, strict=True):
            moved[np.unique(start, axis=0, return_index=True)[1]] = True
        self.touched = np.ones(self.counts.shape, dtype=bool)  # clusters that gained or lost members

    def assign(self, advance: Callable[[int], None] = lambda _rows: None) -> NDArray[np.int32]:
        """E-step: every unlabelled row to its nearest centre; returns the labels before, and counts the rows."""
        before = self.labels.copy()
        restart, cluster = np.nonzero(self.moved)
        moved_centres = self.centres[restart, cluster]
        ends = np.cumsum(self.moved.sum(axis=1))
        for start in range(0, self.u.shape[0], ROWS):
            rows = slice(start, start + ROWS)
            scores = _scores(self.u[rows], moved_centres)
            for r in map(int, np.flatnonzero(self.moved.any(axis=1))):
                columns = slice(ends[r] - self.moved[r].sum(), ends[r])
                self._compare(r, rows, scores[:, columns], cluster[columns])
            advance(min(ROWS, self.u.shape[0] - start))
        return before

    def _compare(self, r: int, rows: slice, scores: NDArray[np.float32], clusters: NDArray[np.int64]) -> None:
        """Nearest centre of some rows in restart r, given their scores for the clusters whose centres moved."""
        label, bound = self.labels[r, rows], self.bound[r, rows]
        own_moved = self.moved[r, label] | (label < 0)
        column, least, second = _two_least(scores)
        own = np.where(own_moved, np.float32(np.inf), self.score[r, rows])
        away = np.flatnonzero(own_moved & (least > bound))  # a centre at rest may be nearer
        change = least < own
        np.minimum(bound, np.where(change, np.minimum(second, own), least), out=bound)
        label[change] = clusters[column[change]]
        self.score[r, rows] = np.where(change, least, own)
        if len(away):
            label[away], self.score[r, rows][away], bound[away] = _two_least(
                _scores(self.u[rows][away], self.centres[r])
            )

    def update(self, before: NDArray[np.int32]) -> NDArray[np.float64]:
        """M-step: every centre to the mean of its members; returns Σ_k ‖Δc_k‖ of each restart, shape (R,)."""
        self._move_rows(before)
        held = self.touched & (self.counts > 0)
        empty = self.touched & (self.counts == 0)
        sums, counts = self.sums[held], self.counts[held]
        self.gains[:] = np.where(self.touched, 0, self.gains)
        self.gains[held] = np.einsum("cd,cd->c", sums, sums) / counts
        targets = (sums / counts[:, None]).astype(np.float32)
        shift = np.zeros(self.moved.shape)
        shift[held] = np.linalg.norm(targets - self.centres[held], axis=1)
        self.centres[held] = targets
        if empty.any():
            shift += self._reseed(empty)
        self.moved = shift > 0
        self.touched = empty  # one that found no seed may find one in the next round
        total: NDArray[np.float64] = shift.sum(axis=1)
        return total

    def _move_rows(self, before: NDArray[np.int32]) -> None:
        """Take the rows that changed their cluster out of one sum and put them into another."""
        k = self.counts.shape[1]
        rows = np.flatnonzero((self.labels != before).any(axis=0))
        for start in range(0, len(rows), 4 * ROWS):
            part = rows[start : start + 4 * ROWS]
            r, i = np.nonzero(self.labels[:, part] != before[:, part])
            new, old = r * k + self.labels[r, part[i]], r * k + before[r, part[i]]
            left = before[r, part[i]] >= 0  # in the first round rows come from nowhere
            clusters, place = np.unique(np.concatenate([new, old[left]]), return_inverse=True)
            sign = np.repeat([1.0, -1.0], [len(new), left.sum()])
            change = sparse.csr_array((sign, (place, np.concatenate([i, i[left]]))), shape=(len(clusters), len(part)))
            r, c = np.divmod(clusters, k)
            self.sums[r, c] += change @ self.u[part].astype(np.float64)
            self.counts[r, c] += change.sum(axis=1).astype(np.int64)
            self.touched[r, c] = True

    def _reseed(self, empty: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Put the centre of an empty cluster on the unlabelled row farthest from its own; returns the shifts (R, K).

        A second one goes to the row farthest from its own centre and from the first seed, and so on: distinct rows.
        Where every row lies on a centre there are fewer distinct rows than clusters, and the rest stay as they are.
        """
        shift = np.zeros(empty.shape)
        if not len(self.u):
            return shift
        norms = np.einsum("ud,ud->u", self.u, self.u)
        lacking = np.flatnonzero(empty.any(axis=1))
        order = np.argsort(~empty[lacking], axis=1, kind="stable")  # empty clusters first
        nearest = self.score[lacking] + norms
        nearest[nearest <= SAME * norms] = 0
        for step in range(int(empty.sum(axis=1).max())):
            chosen = nearest.argmax(axis=1)
            left = (nearest[np.arange(len(lacking)), chosen] > 0) & (empty[lacking, order[:, step]])
            if not left.any():
                break
            r, c = lacking[left], order[left, step]
            seeds = self.u[chosen[left]]
            shift[r, c] = np.linalg.norm(seeds - self.centres[r, c], axis=1)
            self.centres[r, c] = seeds
            nearest = _seeded(self.u, norms, nearest, chosen)
        return shift


# ---------------------------------------------------------------- Lloyd's rounds


def _lloyd(state: _Restarts, max_iter: int) -> tuple[float, NDArray[np.int32], NDArray[np.float32], int]:
    """Run all restarts until they rest; the best one's gain, labels (U,), centres (K, D) and rounds."""
    n_restarts = len(state.centres)
    best_gain = np.full(n_restarts, -np.inf)
    best_labels, best_centres = state.labels.copy(), state.centres.copy()
    n_iter = np.zeros(n_restarts, dtype=np.int64)
    active = np.ones(n_restarts, dtype=bool)
    # As many rounds as there may be: most often they are fewer.
    with progress("comparing items with centres", max_iter * len(state.u)) as advance:
        for _ in range(max_iter):
            shift = state.update(state.assign(advance))
            n_iter += active
            gain = state.gains.sum(axis=1)
            better = active & (gain > best_gain)
            best_gain[better] = gain[better]
            best_labels[better], best_centres[better] = state.labels[better], state.centres[better]
            active &= shift**2 >= TOLERANCE
            state.moved &= active[:, None]  # a restart without a moved centre costs nothing
            state.touched &= active[:, None]
            if not active.any():
                break
    best = int(best_gain.argmax())
    return float(best_gain[best]), best_labels[best], best_centres[best], int(n_iter[best])


def _checked(
    x: NDArray[np.floating], y: NDArray[np.integer], n_old: int, k: int, init: NDArray[np.floating] | None
) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
    """Rows and labels as arrays, or a sentence about what is wrong with them."""
    x, y = np.asarray(x), np.asarray(y)
    if x.ndim != 2 or x.dtype.kind not in "fiu" or 0 in x.shape:
        raise InputError(f"Features must be a table of numbers (N, D), but have shape {x.shape} and type {x.dtype}.")
    if y.shape != (len(x),) or y.dtype.kind not in "iu":
        raise InputError(f"y must hold one whole number for each of the {len(x)} rows, but has shape {y.shape}.")
    if k < max(1, n_old):
        raise InputError(f"k must be at least 1 and the {n_old} known classes, but is {k}.")
    if y.min() < UNLABELLED or y.max() >= n_old:
        raise InputError(f"y must lie in 0…{n_old - 1}, or be {UNLABELLED} for unlabelled; it goes to {y.max()}.")
    bad = ~(np.maximum(x.max(axis=1), -1.0 * x.min(axis=1)) < LARGEST)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(f"Row {row} of the features holds NaN or a number beyond {LARGEST:g}; remove or scale it.")
    if init is not None and (np.shape(init) != (k, x.shape[1]) or not np.isfinite(init).all()):
        raise InputError(f"init must hold {k} × {x.shape[1]} finite numbers, but has shape {np.shape(init)}.")
    return x, y.astype(np.int64)


def semi_kmeans(
    x: NDArray[np.floating],
    y: NDArray[np.integer],
    n_old: int,
    k: int,
    *,
    n_init: int = 10,
    max_iter: int = 200,
    random_state: int = 0,
    init: NDArray[np.floating] | None = None,
) -> SemiKMeans:
    """Cluster D^l ∪ D^u into k clusters, the first n_old of which are the known classes.

    E-step: an unlabelled row goes to the nearest of all k centres (squared Euclidean), a labelled one stays in its
    class. M-step: a centre is the mean of all its members. It ends when (Σ_k ‖Δc_k‖)² < 1e-4 or after `max_iter`
    rounds; the round and the restart with the least inertia count. An empty cluster is re-seeded from the unlabelled
    row farthest from its centre.

    Parameters
    ----------
    x : ndarray, shape (N, D)
        Features, as a rule of unit length: the tolerance is absolute. Distances are computed in float32.
    y : ndarray of int, shape (N,)
        Labels 0…n_old − 1; -1 is unlabelled.
    n_old, k : int
        Number of known classes and of all classes.
    n_init : int
        Restarts. The first few of many are the same as if they were all.
    max_iter : int
        Rounds at most.
    random_state : int
        Seed of k-means++, which draws new centres from the unlabelled rows by their squared distance to the class means
        and to the centres drawn before. A known class without a labelled item gets such a centre too.
    init : ndarray, shape (k, D), optional
        Initial centres of a single start instead.

    Returns
    -------
    SemiKMeans
        Memory beside a copy of the features: O(n_init · (N + k · D)) and blocks of fixed size.
    """
    x, y = _checked(x, y, n_old, k, init)
    if n_init < 1 or max_iter < 1:
        raise InputError(f"n_init and max_iter must be 1 or more, but are {n_init} and {max_iter}.")
    mean = x.mean(axis=0, dtype=np.float64).astype(np.float32)  # distances of centred rows lose less to rounding
    labelled = y != UNLABELLED
    u = x[~labelled]
    u = np.subtract(u, mean, out=u if u.dtype == np.float32 else None).astype(np.float32, copy=False)
    means, counts = class_means((x[labelled] - mean).astype(np.float32, copy=False), y[labelled], k)
    seeded = counts == 0
    draws = np.random.RandomState(random_state).rand(1 if init is not None else n_init, int(seeded.sum()))
    best = (-np.inf, np.empty(0, dtype=np.int32), means, 0)
    for part in np.array_split(draws, min(len(draws), -(-len(draws) * k // COLUMNS))):
        centres = np.repeat(means[None], len(part), axis=0)
        if init is not None:
            centres[:] = init - mean
        else:
            centres[:, seeded] = _plus_plus(u, means[~seeded], part)
        best = max(best, _lloyd(_Restarts(u, centres, means, counts), max_iter), key=lambda found: found[0])
    labels = y.copy()
    labels[~labelled] = best[1]
    by_size = n_old + np.argsort(-np.bincount(labels, minlength=k)[n_old:], kind="stable")
    order = np.concatenate([np.arange(n_old), by_size])
    labels = np.argsort(order)[labels]
    centres = (best[2][order] + mean).astype(np.float32)
    inertia = sum(
        float(np.square(x[i : i + ROWS] - centres[labels[i : i + ROWS]], dtype=np.float64).sum())
        for i in range(0, len(x), ROWS)
    )
    return SemiKMeans(labels, centres, inertia, best[3])


def fit(x: NDArray[np.floating], y: NDArray[np.int64], n_old: int, k: int, random_state: int) -> Assignment:
    """Semi-supervised k-means on whitened unit rows; arguments as in `ltgcd.graph.kmeans.fit`.

    It has the labels that within-class whitening needs, so it gets what the trained methods get. The confidence is the
    softmax of cosines / 0.1 to the centres, at the class of the item.
    """
    unit = fit_whitening(x, y, n_old).transform(x)
    found = semi_kmeans(unit, y, n_old, k, random_state=random_state)
    own = at_columns(probabilities(cosines(unit, found.centres), TEMPERATURE), found.labels)
    return Assignment(found.labels, own, found.centres)
