"""What ``ltgcd update`` computes: label new items with a fitted model, and append the classes that they need."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ltgcd.common.engine.threads import numpy_in_one_thread
from ltgcd.common.tables import blocks
from ltgcd.data.collection import UNLABELLED
from ltgcd.data.order import content_order
from ltgcd.discovery.new_categories import new_categories
from ltgcd.features.views import Views
from ltgcd.graph.whitening import class_means, normalise
from ltgcd.training.model import FittedModel, extended, features_of, head_outputs

LEAST = 0.3  # probability of being unexplained from which an item may follow others into an appended category


class Extension(NamedTuple):
    """What new items are, and what they add to the model.

    Attributes
    ----------
    fitted : FittedModel
        The model with the appended classes.
    labels, confidence, unsure : ndarrays, shape (M,)
        Of the new items.
    runner_up : ndarray of int64, shape (M,)
        The class that each of them would be in otherwise.
    prototypes, prior, sizes : ndarrays, shapes (a, d), (a,) and (a,)
        Of the appended classes; see `ltgcd.training.model.extended`.
    """

    fitted: FittedModel
    labels: NDArray[np.int64]
    confidence: NDArray[np.float32]
    unsure: NDArray[np.bool_]
    runner_up: NDArray[np.int64]
    prototypes: NDArray[np.float32]
    prior: NDArray[np.float64]
    sizes: NDArray[np.int64]


@numpy_in_one_thread()
def extend(
    fitted: FittedModel,
    views: Views,
    x: NDArray[np.floating],
    y: NDArray[np.int64],
    classes: NDArray[np.int64],
    given: NDArray[np.int64],
    random_state: int = 0,
    leaning: NDArray[np.int64] | None = None,
) -> Extension:
    """Label M new items that come after N items of a run, and append the classes that they need.

    Neither the order of the new items nor that of the run's has a say in it (`ltgcd.data.order`).

    Parameters
    ----------
    fitted : FittedModel
        Model of the run.
    views : Views
        Test views of the M new items.
    x : ndarray, shape (N + M, D)
        Features of all items.
    y : ndarray of int64, shape (N,)
        Labels that people gave to the run's items, -1 without.
    classes : ndarray of int64, shape (N,)
        Class of each item of the run, -1 where it is not sure of it (see `ltgcd.discovery.assignments.core`).
    given : ndarray of int64, shape (M,)
        Labels that people gave to the new items, -1 without; from `fitted.k` on they are classes of their own.
    random_state : int
        Seed.
    leaning : ndarray of int64, shape (N,), optional
        Class of each item of the run, sure of it or not; by default `classes`.
    """
    n, m = len(classes), len(given)
    order = content_order(np.asarray(x[n:], dtype=np.float32), given, int(given.max(initial=UNLABELLED)) + 1)
    x, given = np.concatenate([x[:n], x[n:][order.rows]]), given[order.rows]
    features = features_of(fitted.model, views, order.rows, torch.device("cpu")).numpy()
    logits, h = head_outputs(fitted.model.head, features, torch.device("cpu"))["logits"], normalise(features)
    asked = np.concatenate([np.zeros(n, dtype=bool), given == UNLABELLED])
    people = np.concatenate([y, np.where(given < fitted.n_old, given, UNLABELLED)])
    k = max(fitted.k, int(given.max(initial=UNLABELLED)) + 1)
    towards = np.concatenate([classes if leaning is None else leaning, given])
    found = new_categories(x, people, np.concatenate([classes, given]), asked, k, random_state, towards)
    settled = np.where(given == UNLABELLED, found.labels[n:], given)
    appended = np.where(settled < fitted.k, UNLABELLED, settled - fitted.k)
    means, sizes = class_means(h, appended, max(k - fitted.k, int(appended.max(initial=UNLABELLED)) + 1))
    prototypes, prior = normalise(means), sizes / (n + m)
    larger = extended(fitted, prototypes, prior, sizes)
    labels, second, own = settled.astype(np.int64), np.empty(m, dtype=np.int64), np.empty(m, dtype=np.float32)
    for place, block in blocks(logits):
        p = larger.probabilities(np.concatenate([block, h[place] @ prototypes.T], axis=1))
        # What a class of the run explains stays with its classes: a category of a few items has a rough prototype.
        explained = found.unexplained[n:][place] < LEAST
        likeliest = np.where(explained, p[:, :k].argmax(axis=1), p.argmax(axis=1))
        labels[place] = np.where(settled[place] == UNLABELLED, likeliest, settled[place])
        own[place] = p[np.arange(len(p)), labels[place]]
        p[np.arange(len(p)), labels[place]] = -1
        second[place] = np.where(explained & (k > 1), p[:, :k].argmax(axis=1), p.argmax(axis=1))
    confidence, doubtful = larger.judged(own, labels)
    # An item that founded a category is there by what its neighbours say, and as surely as no other class explains it.
    founder = (given == UNLABELLED) & (found.labels[n:] != UNLABELLED)
    confidence = np.where(founder, found.unexplained[n:], confidence).astype(np.float32)
    unsure = (found.alone[n:] | (doubtful & ~founder)) & (given == UNLABELLED)
    return Extension(
        larger,
        labels=order.caller_rows(order.as_first_copy(labels)),
        confidence=order.caller_rows(order.as_first_copy(confidence)),
        unsure=order.caller_rows(order.as_first_copy(unsure)),
        runner_up=order.caller_rows(order.as_first_copy(second)),
        prototypes=prototypes,
        prior=prior,
        sizes=sizes,
    )
