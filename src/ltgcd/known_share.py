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
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ltgcd.collection import UNLABELLED
from ltgcd.neighbours import NeighbourGraph
from ltgcd.whitening import class_means, normalise, within_class_whitening

FOLDS = 5
NEIGHBOURS = 30
BLOCK = 4096  # rows of an (N, classes) table that are held at once
TEMPERATURE = 0.05


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
        Log-odds of the labelled items as they are and with their own class hidden, by a classifier that never saw the
        class in training.
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
        odds = np.exp(np.clip(self.unlabelled, -30, 30)) * self.share
        return odds / (odds + 1 - self.share)


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
    seen, hidden = evidence(z, y, graph, random_state)
    classes = y[labelled]
    known, novel = seen[labelled], hidden[labelled]
    # By items a few huge classes would decide what novelty looks like, by classes the many tiny ones: half-way.
    per_class = 1.0 / np.sqrt(np.bincount(classes)[classes])
    weights = np.concatenate([np.ones(len(classes)), per_class * len(classes) / per_class.sum()])
    rows, target, group = np.concatenate([known, novel]), np.repeat([1, 0], len(classes)), np.tile(classes, 2)
    # Folds of whole classes: a novel class is one that the classifier has never seen.
    fold_of = np.random.RandomState(random_state).permutation(int(classes.max()) + 1) % FOLDS
    held_out = np.zeros(len(rows))
    for fold in np.unique(fold_of[classes]):
        inside = fold_of[group] == fold
        model = _classifier().fit(rows[~inside], target[~inside], logisticregression__sample_weight=weights[~inside])
        held_out[inside] = model.decision_function(rows[inside])
    model = _classifier().fit(rows, target, logisticregression__sample_weight=weights)
    slope, offset = calibrate(held_out, target, weights)
    odds = slope * np.concatenate([held_out, model.decision_function(seen[~labelled])]) + offset
    n = len(classes)
    unlabelled = odds[2 * n :]
    auc = float(roc_auc_score(target, held_out, sample_weight=weights))
    return KnownShare(mixture_share(unlabelled), unlabelled, odds[:n], odds[n : 2 * n], auc)


def mixture_share(log_odds: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> float:
    """Maximum-likelihood α of α·p_known + (1−α)·p_novel, given the log-odds log p_known/p_novel of each item.

    The log-likelihood is concave in α: its slope is bisected on [0, 1].
    """
    ratio = np.exp(np.clip(log_odds, -30, 30)) - 1.0
    w = np.ones(len(ratio)) if weights is None else weights
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        # A flat likelihood (no evidence at all) ends at 1: nothing speaks for a novel class.
        rising = float((w * ratio / (1.0 + middle * ratio)).sum()) >= 0
        low, high = (middle, high) if rising else (low, middle)
    return (low + high) / 2


def calibrate(
    scores: NDArray[np.float64], target: NDArray[np.int64], weights: NDArray[np.float64]
) -> tuple[float, float]:
    """Slope and offset that make scores log-odds (Platt), by Newton's method on the weighted logistic loss."""
    x = np.stack([scores, np.ones_like(scores)])
    b = np.array([1.0, 0.0])
    for _ in range(25):
        p = 1.0 / (1.0 + np.exp(-np.clip(b @ x, -30, 30)))
        gradient = x @ (weights * (p - target)) + np.array([1e-3 * (b[0] - 1), 1e-3 * b[1]])
        hessian = (x * (weights * p * (1 - p))) @ x.T + 1e-3 * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        b = b - step
        if np.abs(step).max() < 1e-8:
            break
    return float(b[0]), float(b[1])


def evidence(
    z: NDArray[np.float32], y: NDArray[np.int64], graph: NeighbourGraph, random_state: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Evidence (N, F) for "known", as the items are and, for labelled items, with their own class hidden.

    Cross-fitted: whitening and class means come from the labels of the other folds, and unlabelled items are in folds
    too, so that a labelled item and an unlabelled one of the same class are treated alike.
    """
    n_classes = int(y.max()) + 1
    fold_of = row_folds(z, random_state)
    near = graph.indices[:, :NEIGHBOURS]
    similarity = graph.similarities[:, :NEIGHBOURS].astype(np.float64)
    seen = np.zeros((len(z), 0))
    hidden = np.zeros((len(z), 0))
    for fold in range(FOLDS):
        others = np.where(fold_of == fold, UNLABELLED, y)
        white = within_class_whitening(z, others, n_classes)
        means, counts = class_means(white, others, n_classes)
        means = normalise(means)
        inside = np.flatnonzero(fold_of == fold)
        for start in range(0, len(inside), BLOCK):
            rows = inside[start : start + BLOCK]
            cosine = (white[rows] @ means.T).astype(np.float64)
            cosine[:, counts == 0] = -1.0
            block = _evidence_rows(cosine, y[near[rows]], similarity[rows])
            if not seen.shape[1]:
                seen, hidden = (np.zeros((len(z), block.shape[1])) for _ in range(2))
            seen[rows] = block
            known = y[rows] != UNLABELLED
            own = y[rows[known]]
            cosine = cosine[known]
            cosine[np.arange(len(own)), own] = -1.0
            labels = y[near[rows[known]]]
            labels = np.where(labels == own[:, None], UNLABELLED, labels)
            hidden[rows[known]] = _evidence_rows(cosine, labels, similarity[rows[known]])
    return seen, hidden


def _evidence_rows(
    cosine: NDArray[np.float64], labels: NDArray[np.int64], similarity: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Evidence (B, F) from cosines to class means (B, C), labels (B, k) and similarities (B, k) of the neighbours."""
    b, k = labels.shape
    top = -np.sort(np.partition(-cosine, min(2, cosine.shape[1] - 1), axis=1)[:, :3], axis=1)
    top = np.pad(top, ((0, 0), (0, 3 - top.shape[1])), constant_values=-1.0)
    spread = np.log(np.exp((cosine - top[:, :1]) / TEMPERATURE).sum(axis=1))
    is_labelled = labels != UNLABELLED
    shares = [is_labelled[:, :n].mean(axis=1) for n in (5, 10, k)]
    votes = np.zeros((b, cosine.shape[1] + 1))
    np.add.at(votes, (np.arange(b)[:, None], labels), 1.0)  # the last column takes the unlabelled
    first = np.where(is_labelled.any(axis=1), is_labelled.argmax(axis=1), k)
    nearest_labelled = np.where(first < k, similarity[np.arange(b), np.minimum(first, k - 1)], similarity[:, -1])
    columns = [
        top[:, 0],
        top[:, 0] - top[:, 1],
        top[:, 1] - top[:, 2],
        spread,
        *shares,
        votes[:, :-1].max(axis=1) / k,
        np.log1p(first),
        nearest_labelled,
        similarity[:, 0],
        similarity[:, min(9, k - 1)],
    ]
    return np.stack(columns, axis=1)


def row_folds(z: NDArray[np.float32], random_state: int) -> NDArray[np.int64]:
    """Fold of each row, from its content alone: another order of the rows gives the same folds."""
    # Rounded, because a sum over rows in another order may change the last bits of the components.
    scale = float(np.abs(z).max()) or 1.0
    whole = np.round(z[:, :8].astype(np.float64) / scale * 1e4).astype(np.int64).view(np.uint64)
    odd = 2 * np.random.RandomState(random_state).randint(1, 2**31, size=(1, whole.shape[1])) + 1
    mixed: NDArray[np.uint64] = (whole * odd.astype(np.uint64)).sum(axis=1)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    fold: NDArray[np.int64] = ((mixed >> np.uint64(33)) % np.uint64(FOLDS)).astype(np.int64)
    return fold


def _classifier() -> LogisticRegression:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
