"""Clusters matched to classes one to one: the Hungarian that evaluation and the search for K share.

Often several matchings hold the same number of items, above all among classes of one to five. Which of them a solver
returns depends on how the clusters are numbered, and with it the figures of Old and New. So each matching here is the
best by a list of goals in turn, and every figure that is a sum over Old, New or all classes is the same however the
clusters are numbered.

All goals are whole numbers, so that nothing is decided by rounding. After each goal the dual of the assignment problem
tells which pairs take part in a best matching: only these are left to the next goal.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

Matching = Literal["instance", "balanced"]

RECALL_UNIT = 26_771_144_400  # a recall of 1: every number to 26 divides it, so that recalls of small classes are exact


def confusion(classes: NDArray[np.int64], clusters: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts w[t, p] over the classes and clusters that occur: (true classes, clusters), both in ascending order."""
    _, t = np.unique(classes, return_inverse=True)
    _, p = np.unique(clusters, return_inverse=True)
    n_p = int(p.max()) + 1
    flat = np.bincount(t.astype(np.int64) * n_p + p, minlength=(int(t.max()) + 1) * n_p)
    return flat.reshape(-1, n_p).astype(np.int64, copy=False)


def match(
    w: NDArray[np.int64], matching: Matching = "instance", is_old: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """Items of each true class that lie in the cluster matched to it, shape (true classes,); 0 for an unmatched class.

    Parameters as in `matched_clusters`.
    """
    partner = matched_clusters(w, matching, is_old)
    return np.where(partner >= 0, w[np.arange(len(w)), partner], 0)


def matched_clusters(
    w: NDArray[np.int64], matching: Matching = "instance", is_old: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """Cluster that each true class is matched to, shape (true classes,); -1 for an unmatched class.

    ``instance`` matches the most items. Of several such matchings it takes those with the greatest mean recall over
    all classes, of these those with the greatest over the Old classes, of these those with the most items of Old
    classes, and of these one by fixed random weights of the classes and of what the clusters hold. ``balanced`` puts
    the mean recall first, then the items, and goes on alike.

    Parameters
    ----------
    w : ndarray of int64, shape (true classes, clusters)
        Items of each class in each cluster; every class has one.
    matching : {"instance", "balanced"}
        What comes first.
    is_old : ndarray of bool, shape (true classes,), optional
        Which classes are Old; without it Old and New are not told apart.
    """
    rows, columns = np.nonzero(w)
    items = w[rows, columns]
    sizes = w.sum(axis=1)[rows]
    recall = (items * RECALL_UNIT + sizes // 2) // sizes
    goals = [items, recall] if matching == "instance" else [recall, items]
    if is_old is not None:
        goals += [np.where(is_old[rows], recall, 0), np.where(is_old[rows], items, 0)]
    # Weights of their own for what clusters hold: with those of the classes, two matchings may weigh the same.
    of_class, of_item = np.random.RandomState(0).randint(1, 2**20, size=(2, len(w)), dtype=np.int64)
    of_cluster = (of_item @ w) % 2**20  # equal for clusters that hold the same, whatever their numbers
    goals += [items * of_class[rows], 1 + of_class[rows] * of_cluster[columns] % 2**20]
    partner = np.full(len(w), -1, dtype=np.int64)
    needed_rows, needed_columns = np.zeros(w.shape[0], dtype=np.int64), np.zeros(w.shape[1], dtype=np.int64)
    left = np.arange(len(rows))  # pairs that are still to be chosen from
    for goal in goals:
        r, c, weight = rows[left], columns[left], goal[left]
        # Classes and clusters that every best matching has in it so far come before all of the new goal.
        weight = weight + (needed_rows[r] + needed_columns[c]) * (1 + _largest_sum(r, weight))
        chosen = _heaviest(r, c, weight)
        partner[r] = -1
        partner[r[chosen]] = c[chosen]
        u, v = _duals(r, c, weight, chosen)
        needed_rows[: len(u)], needed_columns[: len(v)] = u > 0, v > 0
        tight = u[r] + v[c] == weight
        # A pair whose class and cluster are in no other one is settled; mostly that is nearly all of them.
        alone = (np.bincount(r[tight])[r[tight]] == 1) & (np.bincount(c[tight])[c[tight]] == 1)
        left = left[tight][~alone]
        if not len(left):
            break
    return partner


def _largest_sum(rows: NDArray[np.int64], values: NDArray[np.int64]) -> int:
    """What the values of pairs (E,), one of each row, add up to at most."""
    largest = np.zeros(int(rows.max()) + 1, dtype=np.int64)
    np.maximum.at(largest, rows, values)
    return int(largest.sum())


def _heaviest(rows: NDArray[np.int64], columns: NDArray[np.int64], weight: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the pairs (E,) a matching of the greatest weight consists of."""
    of_row, row = np.unique(rows, return_inverse=True)
    of_column, column = np.unique(columns, return_inverse=True)
    cost = np.zeros((len(of_row), len(of_column)))
    cost[row, column] = -weight.astype(np.float64)
    partner = np.full(len(of_row), -1)
    chosen_rows, chosen_columns = linear_sum_assignment(cost)
    partner[chosen_rows] = chosen_columns
    return np.asarray((partner[row] == column) & (weight > 0))


def _duals(
    rows: NDArray[np.int64], columns: NDArray[np.int64], weight: NDArray[np.int64], chosen: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Prices u of rows and v of columns, 0 or more, that prove a matching the heaviest: u + v ≥ weight for all pairs.

    For the chosen pairs u + v = weight, and what is unmatched costs 0. The least such v is the length of a longest
    path: v_q ≥ v_p + weight_tq − weight_tp for the column p that row t is matched to (Bellman–Ford). Another matching
    is as heavy if and only if u + v = weight for all of its pairs and every row and column with a price is in it.
    """
    u, v = np.zeros(int(rows.max()) + 1, dtype=np.int64), np.zeros(int(columns.max()) + 1, dtype=np.int64)
    partner, own = np.full(len(u), -1), np.zeros(len(u), dtype=np.int64)
    partner[rows[chosen]], own[rows[chosen]] = columns[chosen], weight[chosen]
    free = partner[rows] < 0
    np.maximum.at(v, columns[free], weight[free])
    others = ~free & ~chosen
    source, target, gain = partner[rows[others]], columns[others], (weight - own[rows])[others]
    while True:
        path = v[source] + gain
        longer = path > v[target]
        if not longer.any():
            break
        np.maximum.at(v, target[longer], path[longer])
    u[rows[chosen]] = weight[chosen] - v[columns[chosen]]
    return u, v
