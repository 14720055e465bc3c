"""Train a method on a problem: features and labels in, a fitted model and probabilities of every item out; no files."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ltgcd.common.engine.threads import numpy_in_one_thread, torch_threads
from ltgcd.common.errors import InputError
from ltgcd.common.tables import RowTable, Table, most_likely, probabilities
from ltgcd.data.collection import UNLABELLED
from ltgcd.features.backbones.embeddings import ResidualAdapter
from ltgcd.features.views import VectorViews, Views
from ltgcd.graph.communities import placed_items, starting_clusters
from ltgcd.graph.feature_graph import FeatureGraph
from ltgcd.graph.knn import knn_graph
from ltgcd.graph.whitening import class_means, fit_whitening, normalise
from ltgcd.training.checkpoints import Checkpoints
from ltgcd.training.config import Experiment
from ltgcd.training.distributed import World
from ltgcd.training.heads import Classifier, Head
from ltgcd.training.loop import EPOCH_ITEMS, Snapshot, Watch, fit, unwatched
from ltgcd.training.method import Method
from ltgcd.training.methods import get_method
from ltgcd.training.model import FittedModel, Model, Standardise, head_outputs, own_random_numbers
from ltgcd.training.novelty import probably_novel
from ltgcd.training.problem import Problem
from ltgcd.training.schedule import check_schedule
from ltgcd.training.smoothing import adjusted, class_prior, smoothed

HELD_OUT_LEAST = 3  # labelled items of a class that are never held out
SMOOTHING_NEIGHBOURS = 10
# Seconds of a fit where a step of `ltgcd.discovery.duration.pace` takes its `STEP`, as measured on 2,000 to a million
# made-up items of 384 and 1,280 numbers: what everything takes, an item and epoch, and neighbours (`search_seconds`).
SECONDS = 0.5, 2.0e-5
SEARCH = 7.8e-9, 8.2e-7
ALL_PAIRS = 170_000  # items; among more, neighbours are searched in cells


class Fit(NamedTuple):
    """A fitted model and what it says about the items it was fitted on.

    Attributes
    ----------
    fitted : FittedModel
        For new items too.
    features : ndarray, shape (N, D)
        Of the test views.
    probabilities : RowTable, shape (N, K)
        Smoothed over neighbours, where the experiment says so; computed block by block, when they are asked for.
    alone : RowTable, shape (N, K)
        What `fitted` says about each item by itself, as it would about a new one.
    order : ndarray of int64, shape (K,)
        Which class of the start each one is: the novel ones are numbered by falling size.
    """

    fitted: FittedModel
    features: NDArray[np.float32]
    probabilities: RowTable
    alone: RowTable
    order: NDArray[np.int64]


# ---------------------------------------------------------------- fitting


@numpy_in_one_thread()
def fit_model(
    problem: Problem,
    experiment: Experiment,
    *,
    checkpoints: Checkpoints | None = None,
    record: Callable[[dict[str, Any]], None] = lambda _line: None,
    watch: Watch = unwatched,
    notify: Callable[[str], None] = lambda _message: None,
    world: World | None = None,
) -> Fit:
    """Train the experiment's method on a problem; the caller's random numbers stay as they are.

    Parameters
    ----------
    problem : Problem
        Features, labels, number of classes, seed.
    experiment : Experiment
        Method and settings.
    checkpoints, record, watch, notify, world
        See `ltgcd.training.loop.fit`.
    """
    world = world or World()
    method = check_experiment(experiment, world.size, keeps=checkpoints is not None)
    y, held_out = hold_out(problem.y, experiment.held_out, problem.random_state)
    problem = problem._replace(y=y)
    # Everything that is drawn or estimated before training comes from one process, to be the same in all.
    whitening = world.from_first(lambda: fit_whitening(problem.x, y, problem.n_old)) if experiment.whiten else None
    white = whitening.transform(problem.x) if whitening else normalise(problem.x)
    start = FeatureGraph(white)
    clusters = world.from_first(lambda: _starting_clusters(problem, experiment, start))
    last_stage = problem.views is not None and problem.tail is not None
    # An adapter is small: in one thread it trains as fast as in two, and to the same numbers on every machine.
    with own_random_numbers(problem.random_state), torch_threads(None if last_stage else 1):
        fixed = Standardise(problem.x.shape[1], white.shape[1], whiten=experiment.whiten)
        if whitening:
            fixed.load(whitening)
        head, objective = method.build(problem, experiment.method, start)
        if clusters is not None and isinstance(head, Head):
            head.prototypes.start_from(class_means(white, clusters, problem.k)[0])
        views: Views
        if problem.views is not None and problem.tail is not None:
            model = Model(nn.Sequential(copy.deepcopy(problem.tail), fixed), head)  # the caller's stays as it is
            trained, views = model, problem.views
        else:
            # The fixed layer is applied once and not in every step.
            adapter = ResidualAdapter(white.shape[1])
            model = Model(nn.Sequential(fixed, adapter), head)
            trained = Model(adapter, head)
            views = VectorViews(white, experiment.dropout, scale=float(np.float32(np.sqrt(white.shape[1]))))
        snapshot = fit(
            trained,
            objective,
            views,
            y,
            experiment.schedule,
            random_state=problem.random_state,
            checkpoints=checkpoints,
            held_out=held_out,
            record=record,
            watch=watch,
            notify=notify,
            world=world,
        )
        model.cpu().eval()
        # GCD clusters only now, and in one process, to have the same centres in all.
        model.head = classifier = world.from_first(
            lambda: method.final_classifier(head, snapshot, problem, experiment.method)
        )
    return _finished(problem, experiment, model, classifier, snapshot)


def _starting_clusters(problem: Problem, experiment: Experiment, start: FeatureGraph) -> NDArray[np.int64] | None:
    """Cluster of each item (N,) that the prototypes begin from; where labels can tell, novel ones of novel items."""
    placed, novel = placed_items(problem.y, problem.start), None
    if experiment.start == "communities" and problem.k > max(problem.n_old, int(placed.max()) + 1):
        novel = probably_novel(problem.x, placed, problem.random_state, problem.components)
    return starting_clusters(
        start.features,
        problem.y,
        problem.n_old,
        problem.k,
        experiment.start,
        problem.random_state,
        start.nearest,
        problem.start,
        novel,
    )


def _finished(
    problem: Problem, experiment: Experiment, model: Model, classifier: Classifier, snapshot: Snapshot
) -> Fit:
    """Smooth and adjust the probabilities, and number the novel classes by falling size."""
    unlabelled = np.flatnonzero(problem.y == UNLABELLED)
    p = alone = probabilities(_logits(classifier, snapshot), classifier.temperature)
    if experiment.smoothing:
        p = smoothed(p, knn_graph(snapshot.features, SMOOTHING_NEIGHBOURS), problem.y, experiment.smoothing)
    prior = class_prior(p, unlabelled)
    p, alone = (each.map(lambda block: adjusted(block, prior, experiment.adjustment)) for each in (p, alone))
    sizes = np.bincount(most_likely(p, unlabelled)[0], minlength=problem.k)
    order = by_size(sizes, problem.n_old)
    classifier.reorder(torch.from_numpy(order))
    fitted = FittedModel(
        model, problem.n_old, problem.k, prior[order], sizes[order], experiment.adjustment, classifier.temperature
    )
    p, alone = (each.map(lambda block: block[:, order]) for each in (p, alone))
    return Fit(fitted, snapshot.features, p, alone, order)


def fit_seconds(n: int, epochs: int) -> float:
    """Seconds that a fit of n items on frozen features takes, about, where `SECONDS` were measured."""
    start, item = SECONDS
    return start + item * min(n, EPOCH_ITEMS) * epochs + search_seconds(n, *SEARCH)


def search_seconds(n: int, pair: float, cells: float) -> float:
    """Seconds that neighbours of n items take: so many a pair, or so many times n^1.5 where cells are searched."""
    return pair * n**2 if n <= ALL_PAIRS else cells * n * math.sqrt(n)


def by_size(sizes: NDArray[np.int64], n_old: int) -> NDArray[np.int64]:
    """Order of classes of these sizes (K,): the known ones as they are, then the novel ones by falling size."""
    return np.concatenate([np.arange(n_old), n_old + np.argsort(-sizes[n_old:], kind="stable")])


def _logits(classifier: Classifier, snapshot: Snapshot) -> Table:
    """What the classifier says about the items of the snapshot; most say it there already."""
    if "logits" in snapshot.outputs:
        return snapshot.outputs["logits"]
    return head_outputs(classifier, snapshot.features, torch.device("cpu"))["logits"]


def check_experiment(experiment: Experiment, n_processes: int = 1, *, keeps: bool) -> Method:
    """The method of an experiment; refuse settings that don't go together, before anything is computed or written.

    Parameters
    ----------
    experiment : Experiment
        Each setting is in its range already.
    n_processes : int
        How many train together.
    keeps : bool
        Whether checkpoints are kept.
    """
    method = get_method(experiment.name, trained=True)
    if type(experiment.method) is not method.config:
        raise InputError(f"These are not the settings of {method.name}; begin with its preset and change that.")
    if experiment.start != "random" and not method.has_prototypes:
        raise InputError(
            f"'start' is random for {method.name}, not '{experiment.start}': it has no prototypes to place."
        )
    if experiment.schedule.choose != "last" and not method.can_choose_epoch:
        raise InputError(f"'schedule.choose' is last for {method.name}: it has no classifier before its last epoch.")
    check_schedule(experiment.schedule, n_processes, can_choose=keeps and experiment.held_out > 0)
    return method


def hold_out(
    y: NDArray[np.int64], share: float, random_state: int
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Hide the labels of a share of the labelled items of each class; return labels with and of the hidden ones.

    `HELD_OUT_LEAST` items of a class always stay labelled.
    """
    if not share:
        return y, None
    order = np.random.RandomState(random_state).permutation(len(y))
    order = order[y[order] != UNLABELLED]
    order = order[np.argsort(y[order], kind="stable")]
    sizes = np.bincount(y[order])
    rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    hidden = order[rank < np.minimum(np.round(share * sizes), sizes - HELD_OUT_LEAST)[y[order]]]
    kept, held_out = y.copy(), np.full_like(y, UNLABELLED)
    kept[hidden], held_out[hidden] = UNLABELLED, y[hidden]
    return kept, held_out
