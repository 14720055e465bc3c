"""The interval of the number of classes: a bootstrap, widened by the error measured with hidden classes.

A bootstrap sees the chances that it thinks of. What it can't see (novel classes that are not like the known ones with
their labels taken away) is measured: half of the labelled classes are hidden, the number of classes that were hidden
is estimated from the other half, and compared with the truth, a few times over. A problem with all of its classes has
half of the variance of one with half of them, and that is added to the draws.

The draws, weighted by what is to be believed beforehand, give the interval, and their geometric mean is the estimate:
twice as many classes as are known, give or take a factor of two and a half. Where the draws agree that changes nothing;
where they leave it open (few known classes, or one that holds most items) they say anything up to ten times too many.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from ltgcd.class_number.class_mass import MassTable, class_numbers, expected_number, mass_shares, mass_table
from ltgcd.class_number.evidence import (
    evidence,
    hidden_evidence,
    recoded,
    row_folds,
    sibling_folds,
    with_siblings,
)
from ltgcd.class_number.known_share import mixture_shares, separate
from ltgcd.common.progress import progress
from ltgcd.data.collection import UNLABELLED, seed_after
from ltgcd.graph.knn import NeighbourGraph

BOOTSTRAPS = 400
HALVES = 6
FEWEST = 4  # classes that can be halved: two to learn from and two to be found
LABELLED_FOLDS = 3  # of five: items of the classes that stay known and keep their label
LEAST = 0.5  # novel classes: below it there are none, and logarithms are not asked for
UNMEASURED = 1.0  # log(K̂_novel / K_novel) that is reckoned with where too few classes are known to measure it
PER_KNOWN = 2.0  # classes for each known one that are expected before anything was looked at …
GIVE_OR_TAKE = 2.5  # … and the factor that they may be off by
STEPS = 21  # quantiles that stand for the normal distribution of the measured error


class Redrawn(NamedTuple):
    """What chance may have decided of the labels and of D^u, in B draws of a bootstrap.

    Attributes
    ----------
    states : list
        Of the generator of each draw, for what is still to be drawn.
    g : ndarray of int64, shape (B,)
        The number of an exponent.
    times : ndarray, shape (B, C)
        How often each labelled class counts.
    shares : ndarray, shape (B,)
        Known share of the mass of D^u.
    odds : ndarray, shape (B, bins)
        Log-odds of the bins.
    """

    states: list[Any]
    g: NDArray[np.int64]
    times: NDArray[np.float64]
    shares: NDArray[np.float64]
    odds: NDArray[np.float64]


def redraw(table: MassTable, random_state: int) -> Redrawn:
    """Draw which classes are known (they calibrate the log-odds), which unlabelled items there are, and an exponent.

    We do not know which exponent is the right one.
    """
    present = np.flatnonzero(table.known[0].sum(axis=1))
    uniform, chance = np.full(len(present), 1 / len(present)), table.items / table.items.sum()
    # A generator each: a last digit that changes one draw leaves the others as they are.
    random = [np.random.RandomState([random_state, draw]) for draw in range(BOOTSTRAPS)]
    g = np.array([one.choice(len(table.belief), p=table.belief) for one in random])
    times = np.zeros((BOOTSTRAPS, table.known.shape[1]))
    times[:, present] = [one.multinomial(len(present), uniform) for one in random]
    items = np.array([one.multinomial(int(table.items.sum()), chance) for one in random], dtype=np.float64)
    shares, odds = np.empty(BOOTSTRAPS), np.empty(items.shape)
    with progress("drawing what chance may have decided", len(table.belief)) as advance:
        for exponent in range(len(table.belief)):
            draws = np.flatnonzero(g == exponent)
            if len(draws):
                shares[draws], odds[draws] = mass_shares(table, exponent, times[draws], items[draws])
            advance(1)
    return Redrawn([one.get_state(legacy=False) for one in random], g, times, shares, odds)


def bootstrap(
    table: MassTable, redrawn: Redrawn, n_old: int, *, inside: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draws of K and of the known share of the mass.

    Chance has decided, too, which classes are novel (some look more like known ones than others, which shifts the
    share) and how heavy they are.

    Parameters
    ----------
    table : MassTable
        Masses of the labelled classes and of D^u.
    redrawn : Redrawn
        Its draws.
    n_old : int
        |Y_l|.
    inside : bool
        Whether the labelled items are a part of the collection.
    """
    masses = table.known.sum(axis=2, dtype=np.float64)
    present = np.flatnonzero(masses[0])
    expected, usual_shares = class_numbers(table, n_old, inside=inside)
    states, g, random = list(redrawn.states), redrawn.g, np.random.RandomState(0)
    outside = table.per_item @ table.items
    shares = redrawn.shares.copy()
    n_novel = expected[g] - n_old
    some = np.flatnonzero(n_novel >= LEAST)
    if len(some):
        uniform = np.full(len(present), 1 / len(present))
        others = np.empty((len(some), len(present)))
        for line, one in enumerate(some.tolist()):
            random.set_state(states[one])
            others[line] = random.multinomial(max(1, round(n_novel[one])), uniform)
            states[one] = random.get_state(legacy=False)
        drawn, all_of_them = np.empty((2, len(some), len(table.centres)))
        for exponent in np.unique(g[some]).tolist():
            novel, lines = table.novel[exponent][present], g[some] == exponent
            drawn[lines], all_of_them[lines] = others[lines] @ novel, novel.sum(axis=0)
        odds, usual, known = redrawn.odds[some], usual_shares[g[some]], table.known.sum(axis=1)[g[some]]
        off = _mixed_shares(odds, usual, known, drawn) - _mixed_shares(odds, usual, known, all_of_them)
        shares[some] = np.clip(shares[some] - off, 0, 1)
    numbers = np.empty(BOOTSTRAPS)
    for draw, state in enumerate(states):
        random.set_state(state)
        at, share, times = int(g[draw]), shares[draw], redrawn.times[draw]
        total = masses[at].sum()
        sizes = masses[at] * max(share * outside[at] + (total if inside else 0.0), 1.0) / total  # at this share
        left = (1 - share) * outside[at]
        mean = max(float((times * sizes).sum() / times.sum()), 1e-9)
        often = times[present] / times.sum()
        reached = np.cumsum(random.choice(sizes[present], size=int(min(3 * left / mean + 30, 1e5)), p=often))
        whole = int(np.searchsorted(reached, left))
        before, after = reached[whole - 1] if whole else 0.0, reached[min(whole, len(reached) - 1)]
        numbers[draw] = n_old + whole + ((left - before) / (after - before) if after > before else 0.0)
    return numbers, shares


def _mixed_shares(
    odds: NDArray[np.float64],
    shares: NDArray[np.float64],
    known: NDArray[np.floating],
    novel: NDArray[np.floating],
) -> NDArray[np.float64]:
    """The share (m,) that would be found in a D^u of each share, with these masses of known and novel items (m, B)."""
    known, novel = (mass / mass.sum(axis=1, keepdims=True) for mass in (known, novel))
    return mixture_shares(odds, shares[:, None] * known + (1 - shares[:, None]) * novel)


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


def beliefs(draws: NDArray[np.float64], n_old: int) -> NDArray[np.float64]:
    """How much each draw of K (B,) counts: the density of log K ~ N(log 2 |Y_l|, (log 2.5)²), at most 1."""
    deviation = np.log(draws / (PER_KNOWN * n_old)) / np.log(GIVE_OR_TAKE)
    nearest = float((deviation**2).min())  # draws that are all far away still count beside each other
    return np.asarray(np.exp((nearest - deviation**2) / 2), dtype=np.float64)


def geometric_mean(draws: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> float:
    """The k with the least mean square of log(k / K) over draws of K.

    Too many by a factor of two is as wrong as too few by one. (The number with the least |k − K| / K lies below it
    wherever little is known, and it was too small on collections that had no part in choosing it.)
    """
    return float(np.exp(np.average(np.log(draws), weights=weights)))


def quantiles(draws: NDArray[np.float64], weights: NDArray[np.float64], levels: tuple[float, ...]) -> list[float]:
    """The smallest draws that a share of the weight does not exceed, for each of some shares."""
    order = np.argsort(draws, kind="stable")
    reached = np.cumsum(weights[order])
    return [float(draws[order[np.searchsorted(reached, level * reached[-1])]]) for level in levels]
