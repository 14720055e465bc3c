"""Where the errors are: what was taken for Old, for New or mixed up, and what the features could give at best.

Two questions that a single accuracy does not answer. Of the errors, are known and novel classes confused, or novel ones
among themselves? And would better prototypes help, or are the features the limit? For the second the nearest of the
*true* class means is asked: of a known class the mean of its labelled items, which every method has; of a novel class
the mean of its own items, without the one that is asked about, which no method has.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.whitening import class_means, fit_whitening, normalise

BLOCK = 4096  # rows of an (N, classes) table that are held at once


def _places(
    w: NDArray[np.int64], partner: NDArray[np.int64], is_old: NDArray[np.bool_]
) -> dict[str, NDArray[np.int64]]:
    """Items (classes,) of each class that are right, in the cluster of another Old or New class, or of no class."""
    owner = np.full(w.shape[1], UNLABELLED, dtype=np.int64)
    owner[partner[partner >= 0]] = np.flatnonzero(partner >= 0)
    right = np.where(partner >= 0, w[np.arange(len(w)), partner], 0)
    old, new = (w[:, (owner >= 0) & (is_old[owner] == wanted)].sum(axis=1) for wanted in (True, False))
    return {
        "right": right,
        "in_old": old - np.where(is_old, right, 0),
        "in_new": new - np.where(is_old, 0, right),
        "in_none": w[:, owner < 0].sum(axis=1),
    }


def error_items(
    w: NDArray[np.int64], partner: NDArray[np.int64], is_old: NDArray[np.bool_]
) -> dict[str, dict[str, int]]:
    """Items of Old and of New classes that are right, or in the cluster of another Old, another New or no class.

    Parameters
    ----------
    w : ndarray of int64, shape (classes, clusters)
        Items of each true class in each cluster.
    partner : ndarray of int64, shape (classes,)
        Cluster that each class is matched to, -1 for none.
    is_old : ndarray of bool, shape (classes,)
        Which classes are Old.
    """
    places = _places(w, partner, is_old)
    groups = {"old": is_old, "new": ~is_old}
    return {group: {name: int(n[mask].sum()) for name, n in places.items()} for group, mask in groups.items()}


def error_shares(
    w: NDArray[np.int64], partner: NDArray[np.int64], is_old: NDArray[np.bool_]
) -> dict[str, dict[str, float] | None]:
    """The same as a mean over classes, in percent: the four of a group add up to 100, and None stands for no class."""
    places, sizes = _places(w, partner, is_old), w.sum(axis=1)
    groups = {"old": is_old, "new": ~is_old}
    return {
        group: {name: float(100 * (n / sizes)[mask].mean()) for name, n in places.items()} if mask.any() else None
        for group, mask in groups.items()
    }


def nearest_true_mean(
    x: NDArray[np.floating], y_true: NDArray[np.int64], scored: NDArray[np.bool_], n_old: int
) -> NDArray[np.int64]:
    """Class (n,) of the nearest true class mean, by cosine on whitened features, of each scored item.

    Parameters
    ----------
    x : ndarray, shape (N, D)
        Features of D^l ∪ D^u.
    y_true : ndarray of int64, shape (N,)
        True classes, -1 where unknown.
    scored : ndarray of bool, shape (N,)
        D^u as far as its classes are known. The others are labelled: they whiten, and are the Old classes' means. An
        Old class without a labelled item has, like a New one, the mean of its scored items.
    n_old : int
        Number of Old classes.
    """
    labelled = np.where(scored | (y_true >= n_old), UNLABELLED, y_true)
    white = fit_whitening(x, labelled, max(n_old, 1)).transform(x)
    k = int(y_true.max(initial=0)) + 1
    has_labels = np.bincount(labelled[labelled >= 0], minlength=k) > 0
    by_truth = np.where(scored & ~has_labels[y_true], y_true, UNLABELLED)
    means, counts = class_means(white, np.where(by_truth >= 0, by_truth, labelled), k)
    sums, rows, said = means * counts[:, None], np.flatnonzero(scored), np.empty(int(scored.sum()), dtype=np.int64)
    directions = normalise(means)
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        cosine = white[block] @ directions.T
        cosine[:, counts == 0] = -np.inf
        own = np.flatnonzero(by_truth[block] >= 0)
        members, t = block[own], y_true[block[own]]
        without = np.einsum("nd,nd->n", normalise(sums[t] - white[members]), white[members])
        cosine[own, t] = np.where(counts[t] > 1, without, -np.inf)  # a class of one item leaves no mean to find it by
        said[start : start + BLOCK] = cosine.argmax(axis=1)
    return said
