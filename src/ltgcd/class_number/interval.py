"""The interval of the number of classes: a bootstrap, widened by the error measured with hidden classes.

A bootstrap sees the chances that it thinks of. What it can't see (novel classes that are not like the known ones with
their labels taken away) is measured: half of the labelled classes are hidden, the number of classes that were hidden
is estimated from the other half, and compared with the truth, a few times over. A problem with all of its classes has
half of the variance of one with half of them, and that is added to the draws.

The draws give the interval, and their geometric mean is the estimate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from ltgcd.class_number.class_mass import MassTable, class_numbers, expected_number, mass_share, mass_table
from ltgcd.class_number.evidence import (
    evidence,
    hidden_evidence,
    recoded,
    row_folds,
    sibling_folds,
    with_siblings,
)
from ltgcd.class_number.known_share import mixture_share, separate
from ltgcd.common.progress import progress
from ltgcd.data.collection import UNLABELLED, seed_after
from ltgcd.graph.knn import NeighbourGraph

BOOTSTRAPS = 400
HALVES = 6
FEWEST = 4  # classes that can be halved: two to learn from and two to be found
LABELLED_FOLDS = 3  # of five: items of the classes that stay known and keep their label
LEAST = 0.5  # novel classes: below it there are none, and logarithms are not asked for
UNMEASURED = 1.0  # log(K̂_novel / K_novel) that is reckoned with where too few classes are known to measure it
STEPS = 21  # quantiles that stand for the normal distribution of the measured error


def bootstrap(
    table: MassTable, n_old: int, *, inside: bool, random_state: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draws of K and of the known share of the mass.

    Chance decides which classes are known (they calibrate the log-odds), which unlabelled items there are, which
    classes are novel (some look more like known ones than others, which shifts the share) and how heavy they are; and
    we do not know which exponent is the right one.

    Parameters
    ----------
    table : MassTable
        Masses of the labelled classes and of D^u.
    n_old : int
        |Y_l|.
    inside : bool
        Whether the labelled items are a part of the collection.
    random_state : int
        Seed.
    """
    masses = table.known.sum(axis=2, dtype=np.float64)
    present = np.flatnonzero(masses[0])
    uniform = np.full(len(present), 1 / len(present))
    expected, shares = class_numbers(table, n_old, inside=inside)
    outside = table.per_item @ table.items
    n_items, chance = int(table.items.sum()), table.items / table.items.sum()
    numbers, drawn_shares = np.empty(BOOTSTRAPS), np.empty(BOOTSTRAPS)
    with progress("drawing what chance may have decided", BOOTSTRAPS) as advance:
        for draw in range(BOOTSTRAPS):
            # A generator of its own: a last digit that changes one draw leaves the others as they are.
            random = np.random.RandomState([random_state, draw])
            g = int(random.choice(len(table.belief), p=table.belief))
            times = np.zeros(masses.shape[1])
            times[present] = random.multinomial(len(present), uniform)
            items = random.multinomial(n_items, chance).astype(np.float64)
            share, odds = mass_share(table, g, times, items)
            n_novel = expected[g] - n_old
            if n_novel >= LEAST:
                others = random.multinomial(max(1, round(n_novel)), uniform)
                known, novel = table.known[g].sum(axis=0), table.novel[g][present]
                usual = _mixed_share(odds, shares[g], known, novel.sum(axis=0))
                share = float(np.clip(share - _mixed_share(odds, shares[g], known, others @ novel) + usual, 0, 1))
            total = masses[g].sum()
            sizes = masses[g] * max(share * outside[g] + (total if inside else 0.0), 1.0) / total  # at this share
            left = (1 - share) * outside[g]
            mean = max(float((times * sizes).sum() / times.sum()), 1e-9)
            often = times[present] / times.sum()
            reached = np.cumsum(random.choice(sizes[present], size=int(min(3 * left / mean + 30, 1e5)), p=often))
            whole = int(np.searchsorted(reached, left))
            before, after = reached[whole - 1] if whole else 0.0, reached[min(whole, len(reached) - 1)]
            part = (left - before) / (after - before) if after > before else 0.0
            numbers[draw], drawn_shares[draw] = n_old + whole + part, share
            advance(1)
    return numbers, drawn_shares


def _mixed_share(
    odds: NDArray[np.float64], share: float, known: NDArray[np.floating], novel: NDArray[np.floating]
) -> float:
    """The share that would be found in a D^u of this share, with these distributions of known and novel mass."""
    return mixture_share(odds, share * known / known.sum() + (1 - share) * novel / novel.sum())


def measured_error(
    z: NDArray[np.float32],
    y: NDArray[np.int64],
    graph: NeighbourGraph,
    log_size: NDArray[np.float64],
    random_state: int,
) -> NDArray[np.float64]:
    """log(K̂_novel / K_novel) of `HALVES` problems with half of the labelled classes hidden; empty with too few classes.

    Parameters
    ----------
    z : ndarray, shape (N, d)
        Principal components of the features.
    y : ndarray of int64, shape (N,)
        Labels, -1 for D^u, whose items take part as neighbours without a label only.
    graph : NeighbourGraph
        Nearest neighbours of the rows of `z`.
    log_size : ndarray, shape (N,)
        Mean log-size of the clusters around each item.
    random_state : int
        Seed.
    """
    classes = np.unique(y[y != UNLABELLED])
    if len(classes) < FEWEST:
        return np.zeros(0)
    folds = sibling_folds(z, y, random_state)
    random = np.random.RandomState(random_state)
    errors = []
    with progress("counting hidden classes", HALVES) as advance:
        for half in range(HALVES):
            hidden = np.zeros(int(classes.max()) + 1, dtype=np.bool_)
            hidden[random.choice(classes, len(classes) // 2, replace=False)] = True
            keeps = row_folds(z, seed_after(random_state, 1 + half)) < LABELLED_FOLDS
            error = _error_of_a_half(z, y, graph, log_size, folds, hidden, keeps, random_state)
            errors += [] if error is None else [error]
            advance(1)
    return np.array(errors)


def _error_of_a_half(
    z: NDArray[np.float32],
    y: NDArray[np.int64],
    graph: NeighbourGraph,
    log_size: NDArray[np.float64],
    folds: NDArray[np.int64],
    hidden: NDArray[np.bool_],
    keeps: NDArray[np.bool_],
    random_state: int,
) -> float | None:
    """The error with these classes hidden (C,), where only these items keep their label (N,); None if it can't be."""
    kept = np.where(keeps & (y != UNLABELLED) & ~hidden[y], y, UNLABELLED)
    visible = with_siblings(kept, folds)
    pretended = recoded(kept, visible)
    rows = np.flatnonzero((y != UNLABELLED) & (hidden[y] | np.isin(y, visible)))  # no class that is neither
    own = pretended[rows] != UNLABELLED
    known, unlabelled = rows[own], rows[~own]
    if len(visible) < 2 or not len(unlabelled):
        return None
    # As the estimator itself goes about it, whitening included: the hidden classes have helped with nothing.
    seen = evidence(z, pretended, graph, folds, rows)
    unseen = hidden_evidence(z, pretended, graph, random_state)
    found = separate(seen[own], unseen, seen[~own], pretended[known], folds[known], random_state)
    table = mass_table(found, pretended[known], log_size[known], log_size[unlabelled])
    numbers, _ = class_numbers(table, len(visible), inside=True)
    n_novel = max(expected_number(table, numbers) - len(visible), LEAST)
    return float(np.log(n_novel / len(np.unique(y[unlabelled[hidden[y[unlabelled]]]]))))


def widened(draws: NDArray[np.float64], errors: NDArray[np.float64], n_old: int) -> NDArray[np.float64]:
    """Draws of K with half of the mean square of the measured errors added to the variance of log K_novel.

    Each draw becomes `STEPS` of them, at quantiles of a normal distribution of equal probability. Where nothing is
    novel there is nothing to be widened: a draw of K = |Y_l| stays what it is. Without a measured error it is taken to
    be `UNMEASURED`.
    """
    errors = errors if len(errors) else np.array([UNMEASURED])
    noise = norm.ppf((np.arange(STEPS) + 0.5) / STEPS) * np.sqrt((errors**2).mean() / 2)
    return np.asarray(n_old + (draws - n_old)[:, None] * np.exp(noise), dtype=np.float64).ravel()


def geometric_mean(draws: NDArray[np.float64]) -> float:
    """The k with the least mean square of log(k / K) over draws of K.

    Too many by a factor of two is as wrong as too few by one. (The number with the least |k − K| / K lies below it
    wherever little is known, and it was too small on collections that had no part in choosing it.)
    """
    return float(np.exp(np.log(draws).mean()))
