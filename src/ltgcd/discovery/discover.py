"""The whole pipeline on one screen: how many classes there are, a classifier for them, a label for every item.

`discover` is pure: arrays and a configuration in, a `Discovery` out; it reads and writes no file. What a caller wants
to keep while it runs (the estimate, checkpoints, a line an epoch) goes through `Hooks`. The command line,
`ltgcd.CategoryDiscovery` and the benchmark all call it, so the same rows, configuration and seed give the same answer
everywhere.

It works on rows and classes in the order of their content (`ltgcd.data.order`), so that neither the order of the rows
nor the numbers or names of the classes change an answer.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ltgcd.class_number.estimate import KEstimate
from ltgcd.class_number.sampled import estimate_class_number
from ltgcd.common.engine.threads import numpy_in_one_thread
from ltgcd.common.progress import step
from ltgcd.common.tables import Rows, RowTable
from ltgcd.common.warn import warn
from ltgcd.data.check import doubts_about
from ltgcd.data.collection import UNLABELLED
from ltgcd.data.order import ContentOrder, content_order
from ltgcd.discovery.labelling import answers, said_of
from ltgcd.discovery.part import hooks_of_part, rows_of_part, task_of_part
from ltgcd.discovery.rehearsal import Calibrations, rehearse
from ltgcd.discovery.task import DiscoveryConfig, Hints, Hooks, Task, check_class_number
from ltgcd.features.views import VectorViews
from ltgcd.graph.feature_graph import FeatureGraph, components_of
from ltgcd.training.calibration import Calibration
from ltgcd.training.fit import Fit, fit_model
from ltgcd.training.methods import get_method
from ltgcd.training.model import FittedModel, reordered
from ltgcd.training.novelty import LARGEST
from ltgcd.training.problem import Problem

T = TypeVar("T", bound=np.generic)

# Weight of a person who put an item somewhere among others, beside the fit's own opinion: what the fit is quite sure of
# still wins. Parts of splits that look right hold some wrong items.
PLACED = 0.35

# ---------------------------------------------------------------- what comes out


@dataclass(frozen=True, eq=False)
class Discovery:
    """What was found.

    Attributes
    ----------
    k, n_old : int
        Number of all classes, empty ones included, and of the known ones.
    labels : ndarray of int64, shape (N,)
        Class of each item: the given one of a labelled item, else the most likely one. Known classes have the caller's
        numbers; novel categories follow, by falling number of sure items.
    confidence : ndarray of float32, shape (N,)
        Probability that the label is right.
    unsure : ndarray of bool, shape (N,)
        Unlabelled items whose label is more likely wrong than right.
    estimate : KEstimate or None
        The estimate of K, if it was not given.
    fitted : FittedModel or None
        The classifier, for new items; None for a method that only clusters.
    calibrations : Calibrations or None
        How confidences were brought in line with how often labels are right, if that was rehearsed.
    runner_up : ndarray of int64, shape (N,), or None
        The most likely class of each item besides its label; None for a method that only clusters.
    """

    k: int
    n_old: int
    labels: NDArray[np.int64]
    confidence: NDArray[np.float32]
    unsure: NDArray[np.bool_]
    estimate: KEstimate | None = None
    fitted: FittedModel | None = None
    calibrations: Calibrations | None = None
    runner_up: NDArray[np.int64] | None = None

    @property
    def calibration(self) -> Calibration | None:
        """What confidences in the collection's own items are worth, if that was rehearsed."""
        return self.calibrations.together if self.calibrations else None

    @property
    def status(self) -> NDArray[np.str_]:
        """Status of each item: known, novel or unsure, shape (N,)."""
        return status_of(self.labels < self.n_old, self.unsure)


def status_of(known: NDArray[np.bool_], unsure: NDArray[np.bool_]) -> NDArray[np.str_]:
    """Status (N,) of items whose class is known or novel, and whose label is sure or not."""
    return np.where(unsure, "unsure", np.where(known, "known", "novel"))


# ---------------------------------------------------------------- the pipeline


@numpy_in_one_thread()
def discover(task: Task, config: DiscoveryConfig, hooks: Hooks | None = None) -> Discovery:
    """Find the classes of a partly labelled table, and give every item one of them.

    1. How many classes are there? (`ltgcd.class_number`)
    2. Train a classifier for known and novel ones (`ltgcd.training.fit`), or cluster.
    3. Rehearse with hidden classes how often its labels are right (`ltgcd.discovery.rehearsal`).
    4. Label every item, with that probability; what is more likely wrong than right is unsure.

    Where the configuration says that fewer items teach the classifier (`fit_on`), 2 and 3 are theirs alone, and the
    model labels the others (`ltgcd.discovery.part`).
    """
    hooks = hooks or Hooks()
    check_class_number(config.k, task.n_old, len(task.x))
    for doubt in doubts_about(task.x, task.y):  # what no answer can come from is refused there
        warn(doubt)
    order = content_order(task.x, task.y, task.n_old)
    if config.fit_on is not None and config.fit_on < len(task.x):
        return _from_part(task, config, hooks, order, config.fit_on)
    return _of_all(task, config, hooks, order)


def _of_all(task: Task, config: DiscoveryConfig, hooks: Hooks, order: ContentOrder) -> Discovery:
    """What a fit of all items makes of them."""
    components = components_of(np.asarray(task.x, dtype=np.float32)[order.rows]) if _are_asked_for(config) else None
    k, estimate = _class_number(task, config, hooks, order, components)
    views = task.views.select(order.rows) if task.views is not None else None
    problem = Problem(
        np.asarray(task.x, dtype=np.float32)[order.rows],
        order.labels(task.y),
        task.n_old,
        k,
        config.random_state,
        views,
        task.tail,
        _start(task, order),
        components if len(task.x) <= LARGEST else None,
    )
    del components
    step("training")
    hooks.notify(f"{'training' if config.experiment else 'clustering'} with {config.method}, {k} classes")
    answer = _trained(problem, config, hooks, order, task.hints) if config.experiment else _clustered(problem, config)
    # Back to the caller's rows and numbers of classes.
    numbers = _caller_numbers(answer, problem, order)
    place = np.argsort(numbers)
    second = answer.runner_up
    return dataclasses.replace(
        answer,
        labels=order.caller_rows(order.as_first_copy(place[answer.labels])),
        confidence=order.caller_rows(order.as_first_copy(answer.confidence)),
        unsure=order.caller_rows(order.as_first_copy(answer.unsure)),
        runner_up=None if second is None else order.caller_rows(order.as_first_copy(place[second])),
        fitted=reordered(answer.fitted, numbers) if answer.fitted else None,
        estimate=estimate,
    )


def _from_part(task: Task, config: DiscoveryConfig, hooks: Hooks, order: ContentOrder, size: int) -> Discovery:
    """What a fit of some of the items makes of all of them."""
    rows = rows_of_part(task, size, _start(task, order), order, config.random_state)
    k, estimate = _class_number(task, config, hooks, order, None)
    hooks.notify(f"the fit is on {len(rows):,} of the {len(task.x):,} items, and its model labels the others")
    check_class_number(k, task.n_old, len(rows))
    part_task, own = task_of_part(task, rows), dataclasses.replace(config, k=k, fit_on=None)
    part_order = content_order(part_task.x, part_task.y, task.n_old)
    part = _of_all(part_task, own, hooks_of_part(hooks, rows, len(task.x)), part_order)
    assert part.fitted is not None and part.runner_up is not None
    views = task.views or VectorViews(np.asarray(task.x, dtype=np.float32))
    labels, largest, second = said_of(part.fitted, views, task.y)
    confidence, unsure = part.fitted.judged(largest, labels)
    unsure &= task.y == UNLABELLED

    def together(of_all: NDArray[T], of_part: NDArray[T]) -> NDArray[T]:
        """Copies of an item are one answer, whichever of them had a part in the fit."""
        of_all[rows] = of_part
        return order.caller_rows(order.as_first_copy(of_all[order.rows]))

    return dataclasses.replace(
        part,
        labels=together(labels, part.labels),
        confidence=together(confidence, part.confidence),
        unsure=together(unsure, part.unsure),
        runner_up=together(second, part.runner_up),
        estimate=estimate,
    )


def _are_asked_for(config: DiscoveryConfig) -> bool:
    """Whether principal components are asked for by somebody: the class number, or the start of the prototypes."""
    return config.k is None or (config.experiment is not None and config.experiment.start == "communities")


def _class_number(
    task: Task, config: DiscoveryConfig, hooks: Hooks, order: ContentOrder, components: FeatureGraph | None
) -> tuple[int, KEstimate | None]:
    """The number of classes, and the estimate if nobody gave it; never less than there are already."""
    held = task.n_old + (task.hints.n_start if task.hints else 0)
    if config.k is not None:
        return max(config.k, held), None
    if (task.y != UNLABELLED).all():
        return task.n_old, None
    estimate = hooks.estimate
    if estimate is None:
        step("class number")
        hooks.notify("estimating the number of classes")
        estimate = hooks.world.from_first(
            lambda: estimate_class_number(
                task.x,
                task.y,
                n_old=task.n_old,
                labels_from=config.labels_from,
                random_state=config.random_state,
                order=order,
                components=components,
                sample=config.fit_on,
            )
        )
        hooks.estimated(estimate)
    if reason := estimate.evidence.get("fallback"):
        hooks.notify(f"careful with the {estimate.k} classes: {reason}")
    return max(estimate.k, held), estimate


def _start(task: Task, order: ContentOrder) -> NDArray[np.int64] | None:
    """Class (N,) that each item is in by an earlier answer, in the order of the content and with its numbers."""
    if task.hints is None:
        return None
    start = task.hints.start[order.rows]
    return np.where(start < task.n_old, order.labels(np.minimum(task.hints.start, task.n_old - 1)), start)


def _clustered(problem: Problem, config: DiscoveryConfig) -> Discovery:
    """Labels of a method that only clusters: none is unsure, and there is no model for new items."""
    result = get_method(config.method).cluster(problem.x, problem.y, problem.n_old, problem.k, problem.random_state)
    unsure = np.zeros(len(problem.x), dtype=np.bool_)
    return Discovery(problem.k, problem.n_old, result.labels, result.confidence, unsure)


def _trained(
    problem: Problem, config: DiscoveryConfig, hooks: Hooks, order: ContentOrder, hints: Hints | None
) -> Discovery:
    """Labels, confidences and the classifier of a trained method, with numbers as the problem has them."""
    assert config.experiment is not None
    fit = fit_model(
        problem,
        config.experiment,
        checkpoints=hooks.checkpoints("main"),
        record=hooks.record,
        watch=lambda epoch, sets: hooks.watch(epoch, {name: order.caller_rows(mask) for name, mask in sets.items()}),
        notify=hooks.notify,
        world=hooks.world,
    )
    labelled = problem.y != UNLABELLED
    p = fit.probabilities if hints is None else _heeding(fit, hints, problem, order)
    labels, own, second = answers(p, problem.y)
    fitted = fit.fitted
    del fit, p  # features and neighbours of all items, which nobody needs in the rehearsals
    learnt = hints.calibrations if hints is not None else None
    if config.rehearsals and not labelled.all():
        learnt = rehearse(
            problem,
            config.experiment,
            labels,
            config.rehearsals,
            checkpoints=hooks.checkpoints,
            notify=hooks.notify,
            world=hooks.world,
            processes=hooks.processes(problem.k),
        )
    together = learnt.together if learnt else None
    confidence, unsure = dataclasses.replace(fitted, calibration=together).judged(own, labels)
    return Discovery(
        problem.k,
        problem.n_old,
        labels,
        confidence,
        unsure & ~labelled,
        fitted=dataclasses.replace(fitted, calibration=learnt.alone if learnt else None),
        calibrations=learnt,
        runner_up=second,
    )


def _heeding(fit: Fit, hints: Hints, problem: Problem, order: ContentOrder) -> RowTable:
    """Give weight to where people put an item, and leave no probability for what they said that it is not."""
    number = np.concatenate([np.argsort(order.classes), np.arange(problem.n_old, problem.k)])  # of the start
    columns, places = np.argsort(fit.order)[number], np.argsort(order.rows)
    put = np.full(len(problem.y), UNLABELLED, dtype=np.int64)  # column that each item was put into
    put[places[hints.placed[0]]] = columns[hints.placed[1]]
    item, column = places[hints.forbidden[0]], columns[hints.forbidden[1]]
    pairs = np.argsort(item, kind="stable")
    item, column = item[pairs], column[pairs]

    def compute(some: Rows) -> NDArray[np.float32]:
        p, asked = fit.probabilities[some], np.arange(len(problem.y))[some]
        line = np.flatnonzero(put[asked] != UNLABELLED)
        p[line] *= np.float32(1 - PLACED)
        p[line, put[asked[line]]] += np.float32(PLACED)
        first, last = np.searchsorted(item, asked), np.searchsorted(item, asked, side="right")
        line = np.repeat(np.arange(len(asked)), last - first)
        pair = np.arange(len(line)) + np.repeat(first - (np.cumsum(last - first) - (last - first)), last - first)
        p[line, column[pair]] = 0
        touched = np.unique(line)
        p[touched] /= np.maximum(p[touched].sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return p

    if not len(item) and (put == UNLABELLED).all():
        return fit.probabilities
    return RowTable(fit.probabilities.shape, compute)


def _caller_numbers(answer: Discovery, problem: Problem, order: ContentOrder) -> NDArray[np.int64]:
    """Class of the answer that gets each number 0 … K − 1 of the caller's, shape (K,).

    Known classes get their own numbers back. Novel categories come by falling number of sure items, then of all.
    """
    free = problem.y == UNLABELLED
    sizes = [
        np.bincount(answer.labels[rows], minlength=answer.k)[problem.n_old :] for rows in (free & ~answer.unsure, free)
    ]
    novel = problem.n_old + np.lexsort((-sizes[1], -sizes[0]))
    return np.concatenate([np.argsort(order.classes), novel]).astype(np.int64)
