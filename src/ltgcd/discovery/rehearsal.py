"""How often is a label right? Rehearsed: some labelled classes are hidden, and the method is run as it always is.

Items whose labels were hidden have an answer that people gave, and they are of both kinds: held-out items of known
classes, and whole classes that the method can only find as novel ones. What it says about them teaches
`ltgcd.training.calibration` what its confidence is worth, for novel categories too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ltgcd.common.engine.pool import NotForWorkers
from ltgcd.common.engine.shards import in_processes, processes_that_pay
from ltgcd.common.progress import progress, step
from ltgcd.common.tables import Table, most_likely
from ltgcd.data.collection import UNLABELLED, seed_after
from ltgcd.data.samples import Sample, stratified_sample
from ltgcd.graph.feature_graph import components_of
from ltgcd.training.calibration import LEAST, Calibration, learn_calibration
from ltgcd.training.checkpoints import Checkpoints
from ltgcd.training.config import Experiment
from ltgcd.training.distributed import World
from ltgcd.training.fit import Fit, fit_model, fit_seconds, hold_out
from ltgcd.training.problem import Problem

PARTS = 4  # the labelled classes are cut into as many, and one of them is hidden at a time
HELD_OUT = 0.2  # share of the labelled items of the other classes
ITEMS = 2**16  # of a rehearsal; of a larger collection a sample is drawn
FEWEST = 20  # items of a class, labelled and not, that the sample has at least, if there are as many


class Hidden(NamedTuple):
    """A problem with labels taken away.

    Attributes
    ----------
    y : ndarray of int64, shape (N,)
        Labels that are left, as numbers of the `visible` classes, -1 without.
    visible : ndarray of int64, shape (V,)
        Classes that stay known, ascending.
    asked : ndarray of int64, shape (n,)
        Items whose label was taken away.
    """

    y: NDArray[np.int64]
    visible: NDArray[np.int64]
    asked: NDArray[np.int64]


def with_hidden_classes(problem: Problem, times: int) -> list[Hidden]:
    """Hide one part of the labelled classes after the other, and `HELD_OUT` of the labelled items of all others.

    The labelled classes are cut into `PARTS`, or into one of each where they are fewer; `times` parts are used at most.
    No class is hidden where nothing novel is looked for, or where none would be left.
    """
    classes = np.unique(problem.y[problem.y != UNLABELLED])
    parts = [np.empty(0, dtype=np.int64)] * PARTS
    if len(classes) > 1 and problem.k > problem.n_old:
        order = np.random.RandomState(problem.random_state).permutation(classes)
        parts = np.array_split(order, min(PARTS, len(classes)))
    found = []
    for number, hidden in enumerate(parts[:times]):
        visible = np.setdiff1d(np.arange(problem.n_old), hidden)
        y = np.where(np.isin(problem.y, visible), np.searchsorted(visible, problem.y), UNLABELLED)
        y, _ = hold_out(y, HELD_OUT, seed_after(problem.random_state, number))
        found.append(Hidden(y, visible, np.flatnonzero((problem.y != UNLABELLED) & (y == UNLABELLED))))
    return found


def sample_for_rehearsals(problem: Problem, labels: NDArray[np.int64]) -> Sample | None:
    """The items that rehearsals are on, by the class (N,) that each was given; None is all of them."""
    limit = max(ITEMS, FEWEST * problem.k)
    if len(labels) <= limit:
        return None
    return stratified_sample(2 * labels + (problem.y != UNLABELLED), limit, problem.random_state, FEWEST)


class Rehearsed(NamedTuple):
    """What the method said about items that people had labelled.

    Attributes
    ----------
    items : ndarray of int64, shape (n,)
        Which they are; an item may have been asked for in several rehearsals.
    confidence : ndarray, shape (n,)
        Of what it said.
    size : ndarray of int64, shape (n,)
        Unlabelled items about which it said the same.
    classes : ndarray of int64, shape (n,)
        What people had said.
    right, novel, hidden : ndarray of bool, shape (n,)
        Whether that is right, whether it is a novel category, and whether the class of the item was hidden.
    """

    items: NDArray[np.int64]
    confidence: NDArray[np.float32]
    size: NDArray[np.int64]
    classes: NDArray[np.int64]
    right: NDArray[np.bool_]
    novel: NDArray[np.bool_]
    hidden: NDArray[np.bool_]


def judge(
    items: NDArray[np.int64],
    p: Table,
    sizes: NDArray[np.int64],
    labels: NDArray[np.int64],
    visible: NDArray[np.int64],
) -> Rehearsed:
    """Compare probabilities (N, K) of the asked items (n,), in classes of these sizes (K,), with their labels (n,).

    An item of a visible class is right in that class. A hidden class is whichever novel category the Hungarian gives
    it, by the items of all hidden classes. What nobody has labelled can't compete for a category, so a hidden class
    that fell into that of a really novel one counts as found: for novel labels the result is somewhat too kind.
    """
    said, confidence = most_likely(p, items)
    novel, hidden = said >= len(visible), ~np.isin(labels, visible)
    right = ~hidden & (said == np.searchsorted(visible, labels))
    found = np.flatnonzero(hidden & novel)
    if len(found):
        classes, t = np.unique(labels[found], return_inverse=True)
        w = np.zeros((len(classes), p.shape[1]), dtype=np.int64)
        np.add.at(w, (t, said[found]), 1)
        rows, columns = linear_sum_assignment(-w)
        matched = np.full(len(classes), UNLABELLED)
        matched[rows] = columns
        right[found] = said[found] == matched[t]
    return Rehearsed(items, confidence, sizes[said], labels, right, novel, hidden)


class Calibrations(NamedTuple):
    """How often labels are right: of the collection's own items, which neighbours have helped, and of new ones.

    `sample` is the number of items that this was rehearsed on, where they were not all.
    """

    together: Calibration
    alone: Calibration
    sample: int | None = None


def rehearse(
    problem: Problem,
    experiment: Experiment,
    labels: NDArray[np.int64],
    times: int,
    *,
    checkpoints: Callable[[str], Checkpoints | None] = lambda _stage: None,
    notify: Callable[[str], None] = lambda _message: None,
    world: World | None = None,
    processes: int = 1,
) -> Calibrations | None:
    """Learn what the method's confidence is worth on this task, or None where too few items are labelled.

    Parameters
    ----------
    problem, experiment : Problem, Experiment
        As they are given to `ltgcd.training.fit.fit_model`.
    labels : ndarray of int64, shape (N,)
        Class that the method has given each item.
    times : int
        How many rehearsals at most, each with another part of the classes hidden.
    checkpoints : callable
        Gives the checkpoints of a stage by its name ("rehearsal-1"), from which a stopped rehearsal goes on, or None.
    notify : callable
        Told in a sentence what happens.
    world : World, optional
        Processes that train together.
    processes : int
        How many rehearsals on frozen features may run side by side, each in a process of its own; fewer do where that
        ends sooner. They change no bit.
    """
    step("rehearsals")
    novel_share = float((labels[problem.y == UNLABELLED] >= problem.n_old).mean())
    if problem.start is not None:  # a class that is hidden must not be found where an earlier answer had put it
        problem = problem._replace(start=np.where(problem.start < problem.n_old, UNLABELLED, problem.start))
    sample = sample_for_rehearsals(problem, labels)
    if sample is not None:
        notify(f"rehearsals are on {len(sample.rows):,} of the {len(labels):,} items, a share of every class")
        problem = _part_of(problem, sample.rows)
    if problem.components is None and experiment.start == "communities":
        problem = problem._replace(components=components_of(problem.x))  # once for all of them
    hidden = with_hidden_classes(problem, times)
    if sum(len(part.asked) for part in hidden) < LEAST:
        notify("too few items are labelled to learn how often a label is right; confidences are the model's own")
        return None
    jobs = [Job(number, part, checkpoints(f"rehearsal-{number}")) for number, part in enumerate(hidden, 1)]
    rehearsed = (
        _side_by_side(problem, experiment, sample, jobs, processes, notify) if _may_part(problem, world) else None
    )
    if rehearsed is None:
        rehearsed = []
        for job in jobs:
            away = problem.n_old - len(job.part.visible)
            classes = "class" if away == 1 else "classes"
            notify(
                f"rehearsal {job.number} of {len(jobs)} with {away} known {classes} hidden: how often is a label right?"
            )
            rehearsed.append(_rehearsed(problem, experiment, sample, job, notify=notify, world=world))
    counts = np.ones(len(problem.y)) if sample is None else sample.counts
    together, alone = (
        _learnt(
            Rehearsed(*(np.concatenate(column) for column in zip(*several, strict=True))),
            counts,
            novel_share,
            problem.random_state,
        )
        for several in zip(*rehearsed, strict=True)
    )
    n_items = None if sample is None else len(sample.rows)
    return Calibrations(together, alone, n_items) if together and alone else None


class Job(NamedTuple):
    """One rehearsal: its number, what is hidden in it, and where its finished epochs are kept."""

    number: int
    part: Hidden
    checkpoints: Checkpoints | None


def _rehearsed(
    problem: Problem,
    experiment: Experiment,
    sample: Sample | None,
    job: Job,
    *,
    record: Callable[[dict[str, Any]], None] = lambda _line: None,
    notify: Callable[[str], None] = lambda _message: None,
    world: World | None = None,
) -> tuple[Rehearsed, Rehearsed]:
    """What the method says about the items whose label is hidden: with the help of neighbours, and by themselves."""
    part, seed = job.part, seed_after(problem.random_state, job.number)
    fit = fit_model(
        problem._replace(y=part.y, n_old=len(part.visible), random_state=seed),
        experiment,
        checkpoints=job.checkpoints,
        record=record,
        notify=notify,
        world=world,
    )
    sizes = fit.fitted.sizes if sample is None else _sizes_in_collection(fit, part, sample)
    together, alone = (
        judge(part.asked, p, sizes, problem.y[part.asked], part.visible) for p in (fit.probabilities, fit.alone)
    )
    return together, alone


# ---------------------------------------------------------------- side by side


def _may_part(problem: Problem, world: World | None) -> bool:
    """Whether rehearsals can be in processes of their own: not what several train together, nor a last stage."""
    return problem.views is None and (world is None or world.size == 1)


def _side_by_side(
    problem: Problem,
    experiment: Experiment,
    sample: Sample | None,
    jobs: list[Job],
    processes: int,
    notify: Callable[[str], None],
) -> list[tuple[Rehearsed, Rehearsed]] | None:
    """All rehearsals, several at a time; None where one after the other they end sooner, or can't be parted.

    A fit of frozen features computes in one thread, so that each takes a core.
    """
    epochs = experiment.schedule.epochs
    n = processes_that_pay(len(jobs), len(jobs) * fit_seconds(len(problem.y), epochs), processes)
    if n == 1:
        return None
    notify(f"{len(jobs)} rehearsals, {n} at a time, each with other known classes hidden: how often is a label right?")
    try:
        with progress("rehearsing", len(jobs) * epochs) as advance:
            done = in_processes(
                partial(_Rehearser, problem, experiment, sample), jobs, n, advance=advance, notify=notify
            )
    except NotForWorkers as reason:
        notify(f"other processes can't be given the rehearsals ({reason}); this one does them all")
        return None
    for _, sentences in done:
        for sentence in sentences:
            notify(sentence)
    return [rehearsed for rehearsed, _ in done]


class _Rehearser:
    """What a process does with one rehearsal after the other."""

    def __init__(self, problem: Problem, experiment: Experiment, sample: Sample | None) -> None:
        self.problem, self.experiment, self.sample = problem, experiment, sample

    def __call__(self, job: Job, advance: Callable[[int], None]) -> tuple[tuple[Rehearsed, Rehearsed], list[str]]:
        """Rehearse, count the epochs, and give what was found with the sentences that were said."""
        sentences: list[str] = []
        trained: list[int] = []

        def record(line: dict[str, Any]) -> None:
            trained.append(line["epoch"])
            advance(1)

        found = _rehearsed(self.problem, self.experiment, self.sample, job, record=record, notify=sentences.append)
        advance(self.experiment.schedule.epochs - len(trained))  # those that an earlier call has finished
        return found, sentences


def _part_of(problem: Problem, rows: NDArray[np.int64]) -> Problem:
    """The same problem with some of its items (n,)."""
    views, start = problem.views, problem.start
    return problem._replace(
        x=problem.x[rows],
        y=problem.y[rows],
        views=None if views is None else views.select(rows),
        start=None if start is None else start[rows],
        components=None,  # their neighbours are among all items
    )


def _sizes_in_collection(fit: Fit, part: Hidden, sample: Sample) -> NDArray[np.int64]:
    """Unlabelled items in each class (K,), as many as those of the sample stand for."""
    free = np.flatnonzero(part.y == UNLABELLED)
    said = most_likely(fit.probabilities, free)[0]
    return np.rint(np.bincount(said, weights=sample.counts[free], minlength=fit.fitted.k)).astype(np.int64)


def _learnt(said: Rehearsed, counts: NDArray[np.float64], novel_share: float, random_state: int) -> Calibration | None:
    if not said.hidden.any():
        # Nothing was there to be found: what is said about novel labels would only ever be that they are wrong.
        said = Rehearsed(*(column[~said.novel] for column in said))  # type: ignore[arg-type]
    weights = expected_weights(said.novel, said.hidden, novel_share, counts[said.items])
    return learn_calibration(
        said.confidence, said.right, said.novel, said.size, said.classes, said.items, weights, random_state
    )


def expected_weights(
    novel: NDArray[np.bool_],
    hidden: NDArray[np.bool_],
    novel_share: float,
    counts: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Weights (n,) by which items of hidden and of visible classes are as many as they are in D^u.

    Their mean is that of the `counts` (n,), how many items each stands for: 1, where no sample was drawn.

    How many are novel there is not known, only how many were called so. With t and f the shares of hidden and of
    visible items that were called novel, x of the items being novel makes f + x (t − f) be called so.
    """
    counts = np.ones(len(hidden)) if counts is None else counts
    if hidden.all() or not hidden.any():
        return counts
    n, n_hidden = float(counts.sum()), float(counts[hidden].sum())
    t, f = (float(np.average(novel[side], weights=counts[side])) for side in (hidden, ~hidden))
    share = float(np.clip((novel_share - f) / (t - f), 0, 1)) if t > f else novel_share
    return counts * np.where(hidden, share * n / n_hidden, (1 - share) * n / (n - n_hidden))
