"""Which share of the unlabelled items is of known classes? A mixture of two distributions that the labels show us.

Every labelled item can be looked at twice: as what it is, an item of a known class, and, with its own class hidden, as
an item of a novel one. A classifier learns to tell the two apart from evidence that names no class: how close the
nearest class means are, how many of the neighbours are labelled, and so on. The log-odds that it gives to D^u are then
a mixture of the two distributions, whose proportion α maximum likelihood finds (Saerens et al. 2002).

Nothing is tuned: what an unknown class looks like is learnt from the known classes of the collection at hand. It holds
as far as novel classes are like known ones with their labels taken away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from ltgcd.class_number.evidence import class_folds, evidence, hidden_evidence, sibling_folds
from ltgcd.common.logistic import LogisticRegression, platt_scaling
from ltgcd.common.progress import progress
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.knn import NeighbourGraph


@dataclass(frozen=True, eq=False)
class KnownShare:
    """The estimated share of known classes in D^u, and what it rests on.

    Attributes
    ----------
    share : float
        α, between 0 and 1.
    unlabelled : ndarray, shape (|D^u|,)
        Log-odds of "known" of the unlabelled items, under equal odds beforehand.
    as_known, as_novel : ndarray, shape (|D^l|,)
        Log-odds of the labelled items as they are, by a classifier that never saw the item, and with their own class
        hidden, by a classifier that never saw the class.
    auc : float
        How well the two can be told apart: 0.5 not at all, 1 perfectly.
    """

    share: float
    unlabelled: NDArray[np.float64]
    as_known: NDArray[np.float64]
    as_novel: NDArray[np.float64]
    auc: float

    def posterior(self) -> NDArray[np.float64]:
        """P(known) of each unlabelled item at the estimated share."""
        return posterior(self.unlabelled, self.share)


def posterior(log_odds: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """P(known) of items with these log-odds (n,) where this share of all is known."""
    odds = np.exp(np.clip(log_odds, -30, 30)) * share
    return np.asarray(odds / (odds + 1 - share), dtype=np.float64)


def known_share(
    z: NDArray[np.float32], y: NDArray[np.int64], graph: NeighbourGraph, random_state: int = 0
) -> KnownShare:
    """Estimate the share of D^u that is of known classes; at least two classes must be labelled.

    Parameters
    ----------
    z : ndarray, shape (N, d)
        Principal components of the features of D^l ∪ D^u.
    y : ndarray of int64, shape (N,)
        Labels, -1 for D^u.
    graph : NeighbourGraph
        Nearest neighbours among all N items, found without labels.
    random_state : int
        Seed of the folds.
    """
    labelled = y != UNLABELLED
    folds = sibling_folds(z, y, random_state)
    seen = evidence(z, y, graph, folds)
    hidden = hidden_evidence(z, y, graph, random_state)
    return separate(seen[labelled], hidden, seen[~labelled], y[labelled], folds[labelled], random_state)


def separate(
    known: NDArray[np.float64],
    novel: NDArray[np.float64],
    unlabelled: NDArray[np.float64],
    classes: NDArray[np.int64],
    folds: NDArray[np.int64],
    random_state: int,
) -> KnownShare:
    """Learn what tells known from novel, and find the proportion of the two in D^u.

    The classifier has met the classes of the known items in D^u, though not these items, and has met nothing of the
    novel classes. The labelled items are judged the same way: as known ones by a classifier without their fold of
    rows, as novel ones by a classifier without their class.

    Parameters
    ----------
    known, novel : ndarray, shape (|D^l|, F)
        Evidence of the labelled items as they are and with their own class hidden.
    unlabelled : ndarray, shape (|D^u|, F)
        Evidence of the unlabelled items.
    classes, folds : ndarray of int64, shape (|D^l|,)
        Class of each labelled item, and its fold of rows.
    random_state : int
        Seed of the folds of classes.
    """
    n = len(classes)
    # By items a few huge classes would decide what novelty looks like, by classes the many tiny ones: half-way.
    per_class = 1.0 / np.sqrt(np.bincount(classes)[classes])
    weights = np.concatenate([np.ones(n), per_class * n / per_class.sum()])
    rows, target = np.concatenate([known, novel]), np.repeat([1, 0], n)
    class_fold = class_folds(classes, random_state)
    held_out = np.zeros(2 * n)
    parts = [
        (split == fold, wanted)
        for split, wanted in ((folds, target == 1), (class_fold, target == 0))
        for fold in np.unique(split)
    ]
    with progress("learning what tells known from novel", len(parts) + 1) as advance:
        for part, wanted in parts:
            inside = np.tile(part, 2)
            rest = np.ones_like(inside) if inside.all() else ~inside  # one fold alone can't be held out
            fitted = LogisticRegression.fit(rows[rest], target[rest], weights[rest])
            held_out[inside & wanted] = fitted.log_odds(rows[inside & wanted])
            advance(1)
        model = LogisticRegression.fit(rows, target, weights)
    slope, offset = platt_scaling(held_out, target, weights)
    odds = slope * np.concatenate([held_out, model.log_odds(unlabelled)]) + offset
    auc = float(roc_auc_score(target, held_out, sample_weight=weights))
    return KnownShare(mixture_share(odds[2 * n :]), odds[2 * n :], odds[:n], odds[n : 2 * n], auc)


def mixture_share(log_odds: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> float:
    """Maximum-likelihood α of α·p_known + (1−α)·p_novel, given the log-odds log p_known/p_novel of each item (n,)."""
    return float(mixture_shares(log_odds[None], np.ones((1, len(log_odds))) if weights is None else weights[None])[0])


def mixture_shares(log_odds: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The `mixture_share` of each of m sets of log-odds (m, n) and weights (m, n), side by side: (m,).

    The log-likelihood is concave in α: its slope is bisected on [0, 1].
    """
    ratio = np.exp(np.clip(log_odds, -30, 30)) - 1.0
    low, high = np.zeros(len(ratio)), np.ones(len(ratio))
    for _ in range(32):
        middle = (low + high) / 2
        # A flat likelihood (no evidence at all) ends at 1: nothing speaks for a novel class.
        rising = (weights * ratio / (1.0 + middle[:, None] * ratio)).sum(axis=1) >= 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return (low + high) / 2
