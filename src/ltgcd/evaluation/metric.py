"""The metric: one Hungarian matching over all of D^u, instance and balanced accuracy, always both.

docs/methods.md §2. With w[p, t] = number of unlabelled items predicted p with true class t, the matching maximises Σ w.
All is the matched share of D^u (v2); balanced All is the mean over the true classes of their recall
r_t = w[map(t), t] / n_t (v2b, the paper's "average of per-class ACC"). Old and New are the same sums over the Old or
the New classes. Of several matchings with the same Σ w the one with the greatest mean recall is taken, then the one
with the most in Old (`ltgcd.graph.matching.match`), so that no figure depends on how the clusters are numbered.
"""

from __future__ import annotations

import dataclasses
from dataclasses import asdict, dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from ltgcd.common.errors import InputError
from ltgcd.data.collection import Truth
from ltgcd.evaluation.diagnostic import error_items, error_shares, nearest_true_mean
from ltgcd.graph.matching import confusion, match, matched_clusters


class Scores(NamedTuple):
    """All/Old/New in percent; None where there is no such class."""

    all: float | None
    old: float | None
    new: float | None


@dataclass(frozen=True)
class Evaluation:
    """Every figure of a run on D^u, in percent but for NMI and ARI (0 … 1).

    Attributes
    ----------
    acc : Scores
        Instance accuracy, v2.
    balanced_acc : Scores
        Mean recall a class under the same matching, v2b: the paper's figure.
    many_medium_few : dict
        Mean recall of the largest, middle and smallest third of the classes, for ``all``, ``old`` and ``new`` classes.
    nmi, ari : float
        Normalised mutual information and adjusted Rand index.
    k, k_true : int
        Classes the method ended with, and classes there are.
    k_used : int
        Predicted classes that hold at least one unlabelled item.
    n : int
        Unlabelled items that were scored.
    balanced_matching : Scores
        Extra: mean recall under the matching that maximises mean recall. An upper bound of `balanced_acc`.
    acc_v1 : Scores
        Extra: separate matchings on Old and New items (arXiv v1 of GCD). Inflated; for comparison with old tables only.
    errors : dict
        Where the items of ``old`` and of ``new`` classes went, as a mean over classes in percent, so that ``right`` is
        the balanced accuracy; see `ltgcd.evaluation.diagnostic`. None for a group without classes.
    error_items : dict
        The same as numbers of items.
    oracle : dict or None
        ``acc`` and ``balanced_acc`` of the nearest of the true class means on the same features: what better
        prototypes could bring. None where the features are not at hand.
    """

    acc: Scores
    balanced_acc: Scores
    many_medium_few: dict[str, dict[str, float | None]]
    nmi: float
    ari: float
    k: int
    k_true: int
    k_used: int
    n: int
    balanced_matching: Scores
    acc_v1: Scores
    errors: dict[str, dict[str, float] | None]
    error_items: dict[str, dict[str, int]]
    oracle: dict[str, Scores] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain dicts and numbers, for JSON."""
        scores = ("acc", "balanced_acc", "balanced_matching", "acc_v1")
        oracle = None if self.oracle is None else {name: value._asdict() for name, value in self.oracle.items()}
        return {**asdict(self), **{name: getattr(self, name)._asdict() for name in scores}, "oracle": oracle}


# ---------------------------------------------------------------- figures


def accuracy(matched: NDArray[np.int64], sizes: NDArray[np.int64], is_old: NDArray[np.bool_]) -> Scores:
    """Instance accuracy: matched items over items."""
    return Scores(*(_percent(matched[m].sum(), sizes[m].sum()) for m in _masks(is_old)))


def balanced_accuracy(matched: NDArray[np.int64], sizes: NDArray[np.int64], is_old: NDArray[np.bool_]) -> Scores:
    """Mean recall over classes; a class that no cluster is matched to counts with 0."""
    recall = matched / sizes
    return Scores(*(_percent(recall[m].sum(), m.sum()) for m in _masks(is_old)))


def many_medium_few(
    matched: NDArray[np.int64], sizes: NDArray[np.int64], is_old: NDArray[np.bool_], frequency: NDArray[np.int64]
) -> dict[str, dict[str, float | None]]:
    """Mean recall of thirds of the classes by `frequency` (BaCon: sort the sizes, cut at 1/3 and 2/3).

    The cut is made within each group of classes, so that each of the nine cells has classes of its own.
    """
    recall = matched / sizes
    table: dict[str, dict[str, float | None]] = {}
    for name, mask in zip(("all", "old", "new"), _masks(is_old), strict=True):
        members = np.flatnonzero(mask)
        ranked = members[np.argsort(-frequency[members], kind="stable")]
        first, second = round(len(ranked) / 3), round(2 * len(ranked) / 3)
        thirds = {"many": ranked[:first], "medium": ranked[first:second], "few": ranked[second:]}
        table[name] = {third: _percent(recall[part].sum(), len(part)) for third, part in thirds.items()}
    return table


def evaluate(
    y_true: NDArray[np.int64],
    y_pred: NDArray[np.int64],
    n_old: int,
    *,
    k: int | None = None,
    k_true: int | None = None,
    frequency: NDArray[np.int64] | None = None,
) -> Evaluation:
    """Score predictions on unlabelled items.

    Parameters
    ----------
    y_true, y_pred : ndarray of int, shape (N,)
        True classes (below `n_old`: Old) and predicted ones, of D^u only.
    n_old : int
        Number of Old classes.
    k, k_true : int, optional
        Classes of the method and of the whole collection; by default those that occur here.
    frequency : ndarray of int64, shape (classes,), optional
        Size of each true class for many/medium/few; by default its size in D^u.
    """
    y_true, y_pred = _checked(y_true, "y_true"), _checked(y_pred, "y_pred")
    if len(y_true) != len(y_pred):
        raise InputError(f"There are {len(y_true)} true labels but {len(y_pred)} predictions; give one for each item.")
    if len(y_true) == 0:
        raise InputError("There is no unlabelled item with a known true class, so there is nothing to score.")
    if isinstance(n_old, bool) or not isinstance(n_old, Integral) or n_old < 0:
        raise InputError(f"n_old is the number of Old classes, a whole number from 0, not {n_old!r}.")
    classes, sizes = np.unique(y_true, return_counts=True)
    is_old = classes < n_old
    w = confusion(y_true, y_pred)
    partner = matched_clusters(w, is_old=is_old)
    matched = np.where(partner >= 0, w[np.arange(len(w)), partner], 0)
    matched_balanced = match(w, "balanced", is_old)
    return Evaluation(
        acc=accuracy(matched, sizes, is_old),
        balanced_acc=balanced_accuracy(matched, sizes, is_old),
        many_medium_few=many_medium_few(matched, sizes, is_old, sizes if frequency is None else frequency[classes]),
        nmi=float(normalized_mutual_info_score(y_true, y_pred)),
        ari=float(adjusted_rand_score(y_true, y_pred)),
        k=w.shape[1] if k is None else k,
        k_true=len(classes) if k_true is None else k_true,
        k_used=w.shape[1],
        n=len(y_true),
        balanced_matching=balanced_accuracy(matched_balanced, sizes, is_old),
        acc_v1=_accuracy_v1(w, sizes, is_old),
        errors=error_shares(w, partner, is_old),
        error_items=error_items(w, partner, is_old),
    )


def evaluate_assignments(
    truth: Truth,
    labelled_ids: pa.StringArray,
    ids: pa.StringArray,
    labels: NDArray[np.int64],
    k: int | None = None,
    x: NDArray[np.floating] | None = None,
) -> Evaluation:
    """Score assignments joined by id: every unlabelled item with a known true class must have one.

    Parameters
    ----------
    truth : Truth
        The true classes.
    labelled_ids : pyarrow.StringArray
        Ids of D^l, which are never scored.
    ids, labels
        Predicted class of each id, in any order.
    k : int, optional
        Classes of the method, empty ones included.
    x : ndarray, shape (N, D), optional
        Features of the items of `truth`, in its order: what their true class means would give is told, too.
    """
    position = pc.index_in(truth.ids, ids)
    scored = (truth.y_true >= 0) & ~np.asarray(pc.is_in(truth.ids, labelled_ids))
    missing = scored & np.asarray(pc.is_null(position))
    if missing.any():
        raise InputError(
            f"{missing.sum()} unlabelled items have no prediction (for example '{truth.ids[int(missing.argmax())]}'); "
            "give one for each."
        )
    chosen = position.filter(scored).to_numpy()
    known = truth.y_true[truth.y_true >= 0]
    found = evaluate(
        truth.y_true[scored],
        labels[chosen],
        truth.n_old,
        k=k,
        k_true=len(np.unique(known)),
        frequency=np.bincount(known, minlength=len(truth.class_names)).astype(np.int64),
    )
    if x is None:
        return found
    return dataclasses.replace(found, oracle=oracle_scores(x, truth.y_true, scored, truth.n_old))


def oracle_scores(
    x: NDArray[np.floating], y_true: NDArray[np.int64], scored: NDArray[np.bool_], n_old: int
) -> dict[str, Scores]:
    """``acc`` and ``balanced_acc`` of the nearest true class mean on features (N, D); see `nearest_true_mean`."""
    said = nearest_true_mean(x, y_true, scored, n_old)
    classes, t = np.unique(y_true[scored], return_inverse=True)
    sizes, matched = np.bincount(t), np.bincount(t, weights=said == y_true[scored]).astype(np.int64)
    is_old = classes < n_old
    return {"acc": accuracy(matched, sizes, is_old), "balanced_acc": balanced_accuracy(matched, sizes, is_old)}


def _accuracy_v1(w: NDArray[np.int64], sizes: NDArray[np.int64], is_old: NDArray[np.bool_]) -> Scores:
    """Separate matchings on the Old and the New items; All is their mean weighted by items."""
    matched = np.zeros(len(w), dtype=np.int64)
    for mask in (is_old, ~is_old):
        if mask.any():
            matched[mask] = match(w[mask])
    return accuracy(matched, sizes, is_old)


def _masks(is_old: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], ...]:
    return np.ones_like(is_old), is_old, ~is_old


def _percent(part: float, whole: float) -> float | None:
    return float(100.0 * part / whole) if whole else None


def _checked(labels: NDArray[np.int64], name: str) -> NDArray[np.int64]:
    labels = np.asarray(labels)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InputError(f"{name} must be a list of integers, but has shape {labels.shape} and type {labels.dtype}.")
    labels = labels.astype(np.int64, copy=False)
    if len(labels) and labels.min() < 0:
        raise InputError(f"{name} holds {labels.min()}; every scored item needs a class id of 0 or more.")
    return labels
