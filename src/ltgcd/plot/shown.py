"""From a fitted model or a run to the arrays that a chart is drawn from: the one place that knows both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata
from ltgcd.data.collection import UNLABELLED, positions
from ltgcd.data.python_labels import encode_labels_of_any_kind
from ltgcd.discovery.classes import Classes, classes_of
from ltgcd.discovery.fitted_collection import FittedCollection
from ltgcd.estimator import CategoryDiscovery
from ltgcd.features.views import VectorViews
from ltgcd.output.report.layout import places_on_map
from ltgcd.review.log import EventLog, replayed
from ltgcd.review.state import begin, replay
from ltgcd.run.directory import Run
from ltgcd.run.predict import load_run_model
from ltgcd.run.report import features_of, kept_places
from ltgcd.run.reviewed import check_log, next_code
from ltgcd.run.save_and_load import load_fitted
from ltgcd.run.train import described_estimate
from ltgcd.training.calibration import Calibration

Plotted = CategoryDiscovery | Run | Path | str


@dataclass(frozen=True, eq=False)
class Shown:
    """What a chart may ask of a model or a run; what takes long is a method.

    Attributes
    ----------
    table : pyarrow.Table
        A row for every item: ``label, name, status, confidence``.
    classes : Classes
        All that there are.
    labelled : ndarray of bool, shape (N,)
        Items that came with a label.
    estimate : dict or None
        The estimate of the number of classes, as a run keeps it.
    held : FittedCollection or None
        The items and the model, of a model in memory.
    run : Run or None
        The run, where it is one.
    seed : int
        Seed of the fit.
    """

    table: pa.Table
    classes: Classes
    labelled: NDArray[np.bool_]
    estimate: dict[str, Any] | None
    held: FittedCollection | None
    run: Run | None
    seed: int

    @property
    def code(self) -> NDArray[np.int64]:
        """Code of each item's class, shape (N,)."""
        return np.asarray(self.table.column("label").to_numpy(), dtype=np.int64)

    @property
    def status(self) -> NDArray[np.str_]:
        """Status of each item, shape (N,)."""
        return np.asarray(self.table.column("status").cast(pa.string()).to_numpy(zero_copy_only=False), dtype=np.str_)

    def counts(self) -> list[tuple[int, int, int]]:
        """Labelled items, items that are not unsure or junk, and 1 if known, of each class by falling size."""
        code, counted = self.code, np.isin(self.status, ("known", "novel"))
        n = self.classes.next_code
        items = np.bincount(code[counted], minlength=n)
        labelled = np.bincount(code[counted & self.labelled], minlength=n)
        rows = [(int(labelled[c]), int(items[c]), int(k)) for c, k in zip(*self._classes(), strict=True) if items[c]]
        return sorted(rows, key=lambda row: -row[1])

    def _classes(self) -> tuple[tuple[int, ...], tuple[bool, ...]]:
        return self.classes.codes, self.classes.known

    def places(self) -> NDArray[np.float32]:
        """Where each item is on the map, shape (N, 2): as in the run's page, where it has one."""
        if self.run is None:
            assert self.held is not None
            return places_on_map(self.held.x, self.held.labels, self.seed).xy
        ids = self.table.column("id").combine_chunks()
        kept = kept_places(self.run, ids)
        return (kept or places_on_map(features_of(self.run, ids), self.code, self.seed)).xy

    def calibration(self) -> Calibration | None:
        """What confidences are worth, if that was rehearsed."""
        learnt = load_run_model(self.run).calibrations if self.run else self.held and self.held.calibrations
        return learnt.together if learnt else None

    def collection(self) -> FittedCollection:
        """The items with the model."""
        return self.held or load_fitted(str(self.run)).held


def shown(what: Plotted) -> Shown:
    """A fitted model, a run or the path of one, as charts ask for it."""
    if isinstance(what, CategoryDiscovery):
        if not hasattr(what, "_held"):
            raise InputError("This CategoryDiscovery is not fitted; call fit first.")
        held = what._held
        table = held.table()
        ids = table.column("id").combine_chunks()
        estimate = described_estimate(held.estimate, ids, held.n_old) if held.estimate else None
        classes = classes_of(read_metadata(table.schema), ())
        return Shown(table, classes, held.given != UNLABELLED, estimate, held, None, what._config.random_state)
    if not isinstance(what, Run | str | Path):
        raise InputError(f"A plot takes a fitted CategoryDiscovery, a run or its path, not a {type(what).__name__}.")
    run = what if isinstance(what, Run) else Run.open(what)
    table, labels = run.assignments(), run.labels()
    note = read_metadata(table.schema)
    ids = table.column("id").combine_chunks()
    labelled = labels.y[positions(ids, labels.ids, f"the labels of {run}", "restore them")] != UNLABELLED
    n_old = int(note.get("n_old", len(labels.class_names)))
    classes = classes_of({"k": run.class_count(note), **note}, labels.class_names[:n_old])
    return Shown(table, classes, np.asarray(labelled), run.estimate(), None, run, run.seed)


class Confusion(NamedTuple):
    """Items by what people say and what the model says.

    Attributes
    ----------
    counts : ndarray of int64, shape (R, R + 1)
        A row for each known class that has such items; the last column is all novel categories together.
    names : list of str
        Names of these classes.
    learnt_from : bool
        Whether these are the labels that the model was fitted with.
    """

    counts: NDArray[np.int64]
    names: list[str]
    learnt_from: bool


def confusion_of(what: Shown, answers: Sequence[Any] | None) -> Confusion:
    """Count the items of each known class by what the model says of them.

    With answers, of the items that came without a label, by the label they were given. Without, of the labelled items,
    by what the model makes of their vectors alone.
    """
    held = what.collection()
    if answers is None:
        if held.fitted.regime != "frozen":
            raise InputError("The last stage of a backbone was trained; say what is right with answers=….")
        rows, truth = np.flatnonzero(held.given != UNLABELLED), held.given
        said = held.fitted.predict(VectorViews(held.x[rows])).argmax(axis=1).astype(np.int64)
    else:
        codes, names = encode_labels_of_any_kind(answers, len(held.x), None, held.classes)
        number = {label: code for code, label in enumerate(held.classes)}
        # What is no class of the collection is none of the known ones that the table is about.
        truth = np.array([*(number.get(name, UNLABELLED) for name in names), UNLABELLED], dtype=np.int64)[codes]
        rows = np.flatnonzero((truth != UNLABELLED) & (held.given == UNLABELLED))
        said = held.labels[rows]
    rows_known = held.known[truth[rows]]
    said, truth = said[rows_known], truth[rows][rows_known]
    if not len(truth):
        raise InputError("No answer is a known class of an unlabelled item, so there is nothing to compare.")
    used = np.unique(np.concatenate([truth, said[held.known[said]]]))
    column = np.where(held.known[said], np.searchsorted(used, said), len(used))
    counts = np.zeros((len(used), len(used) + 1), dtype=np.int64)
    np.add.at(counts, (np.searchsorted(used, truth), column), 1)
    return Confusion(counts, [held.names()[code] for code in used], answers is None)


class Progress(NamedTuple):
    """Settled and unsure items before the first action and after each; and after which actions all was fitted again."""

    settled: list[int]
    unsure: list[int]
    refits: list[int]


def progress_of(what: Shown) -> Progress:
    """The course of a review, action by action; what was taken back is left out."""
    run = what.run
    if run is None:
        raise InputError("The course of a review is kept by a run; give its path or the Run, not a model.")
    check_log(run)
    log, found = EventLog(run.files.review), Progress([], [], [])
    for base in run.states():
        kept = log.kept(base)
        review = begin(run.read_state(base), (), next_code(kept))
        steps = [step for step in replayed(kept)[0] if step.active]
        if found.settled:
            found.refits.append(len(found.settled) - 1)
            found.settled.pop()  # a refit is no action: what it changed counts from there on
            found.unsure.pop()
        for step in (None, *steps):
            review = review if step is None else replay(review, [one.event for one in step.events])
            found.settled.append(int((review.given | review.junk).sum()))
            found.unsure.append(int((review.unsure & ~review.junk).sum()))
    if not found.settled:
        raise InputError(f"Nobody has reviewed {run} yet; 'ltgcd review {run}' opens its page.")
    return found
