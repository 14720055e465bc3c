"""From embeddings to a finished run directory: what ``train``, ``discover``, ``demo`` and the benchmark share."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.class_number.estimate import KEstimate
from ltgcd.class_number.sampled import estimate_class_number
from ltgcd.common.engine.ray_together import run_together
from ltgcd.common.errors import InputError
from ltgcd.common.progress import steps
from ltgcd.data.check import doubts_about
from ltgcd.data.collection import Collection, Source, positions
from ltgcd.data.items import Items, Vectors
from ltgcd.discovery.assignments import assignments_table
from ltgcd.discovery.discover import Discovery, discover
from ltgcd.discovery.memory import processes_that_fit
from ltgcd.discovery.rehearsal import Calibrations
from ltgcd.discovery.task import DiscoveryConfig, Hooks, Task, check_class_number, configure
from ltgcd.features.backbones import backbone_of
from ltgcd.features.cache import FeatureStore
from ltgcd.features.views import CachedViews
from ltgcd.run.directory import Run
from ltgcd.run.suggested import with_suggestions
from ltgcd.training.config import Regime
from ltgcd.training.distributed import TIMEOUT, join_world
from ltgcd.training.fit import check_experiment
from ltgcd.training.loop import Watch, unwatched
from ltgcd.training.methods import get_method

Notify = Callable[[str], None]


def silent(_message: str) -> None:
    """Say nothing."""


class Finished(NamedTuple):
    """A finished run, with what is in its files in memory.

    Attributes
    ----------
    run : Run
        The directory.
    table : pyarrow.Table
        The assignments.
    estimate : dict or None
        The estimate of the number of classes, if it was asked for.
    seconds : float
        What the call took.
    """

    run: Run
    table: pa.Table
    estimate: dict[str, Any] | None
    seconds: float


def train_run(
    source: Source,
    folder: Path,
    config: DiscoveryConfig,
    *,
    store: FeatureStore | None = None,
    weights: Path | None = None,
    watch: Watch = unwatched,
    notify: Notify = silent,
    command: str | None = "ltgcd train",
    texts: Items | None = None,
    processes: Callable[[int], int] | None = None,
    together: Together | None = None,
) -> Finished:
    """Run a method on a source of embeddings and leave a run directory.

    If the folder holds the same run, it goes on where it stopped; a finished one is read.

    Parameters
    ----------
    source : Source
        The method sees the collection; the truth is kept for the evaluation.
    folder : path
        Run directory.
    config : DiscoveryConfig
        What is to be run.
    store : FeatureStore, optional
        Cached activations of the source's items.
    weights : path, optional
        Backbone weights that the store was made with, where they are not the usual ones.
    watch : callable
        Told what each epoch draws from, see `ltgcd.training.loop.fit`.
    notify : callable
        Told in a sentence what happens.
    command : str
        What this process is, for whoever wants to write to the run meanwhile; None if the caller has its lock.
    texts : Items, optional
        The N texts behind the embeddings: novel categories get proposed names by their words.
    processes : callable, optional
        How many rehearsals with so many classes may run side by side; by default one a core, if there is memory for so
        many.
    together : Together, optional
        The processes of a Ray cluster that train this run, as `train_together` says.
    """
    started = time.perf_counter()
    collection, x = source.collection, vectors(source)
    collection.require_partial_labels()
    check_class_number(config.k, collection.n_old, len(collection))
    task = Task(np.asarray(x, dtype=np.float32), collection.y, collection.n_old)
    if config.regime == "last-stage":
        assert store is not None
        tail = backbone_of(store.key, weights).tail  # refused before the folder is taken
        task = task._replace(views=CachedViews(store, rows_in(store, collection)), tail=tail)
    run, world = Run(folder), join_world()
    if not run.begun:
        doubts_about(task.x, task.y)  # what no answer can come from is refused before the folder is taken, too
    if together is not None and not run.finished:
        _train_elsewhere(source, run, config, store, weights, notify, command, texts, together)
    notify = notify if world.first else silent

    def take() -> None:
        run.check_free()
        if command is not None:
            held.enter_context(run.lock(command))
        run.begin(run_config(config, store), source)

    table = estimate = None
    with ExitStack() as held, world.alive(folder), steps(*steps_of(config)):
        world.from_first(take)
        if not run.finished:
            run.check_not_updated()
            hooks = Hooks(
                notify=notify,
                estimate=kept_estimate(run),
                estimated=lambda found: run.write_estimate(described_estimate(found, collection.ids, collection.n_old)),
                checkpoints=run.checkpoints,
                record=lambda line: _record(run, line, notify),
                watch=watch,
                world=world,
                processes=processes or partial(processes_that_fit, len(x), x.shape[1]),
            )
            found = discover(task, config, hooks)
            if world.first:
                table = keep_discovery(run, collection, found, task.x, store, texts)
            world.from_first(lambda: None)  # the others wait for what the first one writes
        table = run.assignments() if table is None else table
        estimate = run.estimate()
    return Finished(run, table, estimate, time.perf_counter() - started)


def steps_of(config: DiscoveryConfig) -> list[str]:
    """What a discovery does one after the other, as `ltgcd.common.progress.step` is told."""
    estimates = [] if config.k is not None else ["class number"]
    return [*estimates, "training", *(["rehearsals"] if config.rehearsals else [])]


class Together(NamedTuple):
    """Processes of a Ray cluster, as `ltgcd.common.engine.ray_together.run_together` takes them."""

    cluster: str
    workers: int


def train_together(config: DiscoveryConfig, cluster: str | None, workers: int | None) -> Together | None:
    """Who else trains a run: several processes of a cluster, where they were asked for and there is a last stage.

    An adapter on frozen features trains in a minute, and is not shared.
    """
    if cluster is None or (workers or 1) < 2 or config.regime != "last-stage" or config.experiment is None:
        return None
    check_experiment(config.experiment, workers or 1, keeps=True)
    return Together(cluster, workers or 1)


def _train_elsewhere(
    source: Source,
    run: Run,
    config: DiscoveryConfig,
    store: FeatureStore | None,
    weights: Path | None,
    notify: Notify,
    command: str | None,
    texts: Items | None,
    together: Together,
) -> None:
    """Have processes of a cluster do all of `train_run`; the first of them writes, and the lock is held here."""
    run.check_free()
    with run.lock(command) if command is not None else nullcontext():
        run.begin(run_config(config, store), source)
        opened = dataclasses.replace(store) if store is not None else None  # what was read of it stays here
        work = partial(_train_as_one_of_many, source, run.folder, config, opened, weights, texts)
        run_together(work, together.cluster, together.workers, run.shared, TIMEOUT.total_seconds(), notify)


def _train_as_one_of_many(
    source: Source,
    folder: Path,
    config: DiscoveryConfig,
    store: FeatureStore | None,
    weights: Path | None,
    texts: Items | None,
    notify: Notify,
) -> None:
    train_run(source, folder, config, store=store, weights=weights, notify=notify, command=None, texts=texts)


def keep_discovery(
    run: Run,
    collection: Collection,
    found: Discovery,
    x: NDArray[np.floating],
    store: FeatureStore | None = None,
    texts: Items | None = None,
) -> pa.Table:
    """Write what was found to a run that has begun, the assignments last; they are returned."""
    if found.fitted:
        tensors, description = found.fitted.state()
        note: dict[str, Any] = {"class_names": list(collection.class_names), "dim": x.shape[1]}
        note |= described_calibrations(found.calibrations)
        if store is not None:
            note["features"] = {key: value for key, value in store.key.items() if value is not None}
        run.write_model(tensors, {**description, "note": note})
    table = assignments_table(
        collection.ids,
        found.labels,
        found.confidence,
        collection.class_names,
        found.k,
        found.unsure,
        {"n_old": found.n_old, **calibration_note(found)} if found.fitted else {"n_old": found.n_old},
    )
    shown = collection if texts is None else dataclasses.replace(collection, items=texts)
    table = with_suggestions(table, shown, x, collection.y)
    run.write_assignments(table)
    run.clear_checkpoints()
    return table


def calibration_note(found: Discovery) -> dict[str, float | None]:
    """By how much confidences were off in rehearsals, and by how much chance alone would put them off."""
    learnt = found.calibration
    return {
        "calibration_error": round(learnt.error, 4) if learnt else None,
        "calibration_chance": round(learnt.chance, 4) if learnt else None,
        **({"rehearsed_on": sample} if (sample := found.calibrations.sample if found.calibrations else None) else {}),
    }


def described_calibrations(learnt: Calibrations | None) -> dict[str, Any]:
    """What confidences in the collection's own items are worth, for the note beside the model."""
    return {"calibration": dataclasses.asdict(learnt.together)} if learnt else {}


def run_config(config: DiscoveryConfig, store: FeatureStore | None) -> dict[str, Any]:
    """What decides the result of a run, in the form that its directory keeps."""
    decisive: dict[str, Any] = {
        "method": config.method,
        "k": "auto" if config.k is None else config.k,
        "random_state": config.random_state,
    }
    if config.experiment:
        decisive |= {"regime": config.regime, "settings": config.experiment.settings()}
        if config.rehearsals:
            decisive["rehearsals"] = config.rehearsals
        if config.fit_on is not None:
            decisive["fit_on"] = config.fit_on
        if config.regime == "last-stage" and store:
            decisive["features"] = {name: value for name, value in store.key.items() if value is not None}
    if config.k is None and config.labels_from != "collection":
        decisive["labels_from"] = config.labels_from
    return decisive


def config_of_run(run: Run) -> DiscoveryConfig:
    """The configuration that `run_config` described, without rehearsals: for the same fit once more."""
    kept = run.config()
    experiment = kept.get("settings")
    return configure(
        str(kept["method"]),
        regime=kept.get("regime", "frozen"),
        changes=dict(_paths(experiment)) if experiment else None,
        k=None if kept["k"] == "auto" else int(kept["k"]),
        rehearsals=0,
        labels_from=kept.get("labels_from", "collection"),
        fit_on=kept.get("fit_on"),
        random_state=run.seed,
    )


def _paths(settings: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Settings of groups in groups by their paths."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _paths(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def regime_for(wanted: Regime | Literal["auto"], method: str, store: FeatureStore | None) -> Regime:
    """The regime that a method is run in: the last stage where views of images are cached, unless told otherwise."""
    if wanted not in ("auto", *get_args(Regime)):
        raise InputError(f"There is no regime '{wanted}'; choose auto, {' or '.join(get_args(Regime))}.")
    cached = store is not None and store.n_views > 0
    if wanted == "last-stage" and not cached:
        raise InputError(
            "Training the last stage takes cached views of images: embed them with --views 4 and give that folder."
        )
    return "last-stage" if cached and wanted != "frozen" and get_method(method).trained else "frozen"


def _record(run: Run, line: dict[str, Any], notify: Notify) -> None:
    """Keep the line of an epoch; a density that is not the plain one is told once a run, also if it is resumed."""
    if line.get("density_why") and line["density"] not in {old.get("density") for old in run.epochs()}:
        notify(f"epoch {line['epoch']}: {line['density_why']}")
    run.record_epoch(line)
    run.draw_epoch(line)


# ---------------------------------------------------------------- how many classes


def estimate_source(
    source: Source,
    method: str = "peaks",
    random_state: int = 0,
    k_max: int | None = None,
    labels_from: str = "collection",
    sample: int | None = None,
) -> dict[str, Any]:
    """Estimate the number of classes of a source of embeddings, in the form that a run keeps."""
    collection = source.collection
    collection.require_partial_labels()
    estimate = estimate_class_number(
        vectors(source),
        collection.y,
        method,
        sample=sample,
        n_old=collection.n_old,
        k_max=k_max,
        labels_from=labels_from,
        random_state=random_state,
    )
    return described_estimate(estimate, collection.ids, collection.n_old)


def described_estimate(estimate: KEstimate, ids: pa.StringArray, n_old: int) -> dict[str, Any]:
    """An estimate as JSON can hold it: peaks by their ids, for rows mean nothing outside."""
    evidence = dict(estimate.evidence)
    # Those of a run that was read are ids already.
    if "peaks" in evidence and not any(isinstance(peak, str) for peak in evidence["peaks"]):
        evidence["peaks"] = ids.take(np.array(evidence["peaks"], dtype=np.int64)).to_pylist()
    return {
        "method": estimate.method,
        "k": estimate.k,
        "low": estimate.low,
        "high": estimate.high,
        "n_old": n_old,
        "seconds": round(estimate.seconds, 3),
        "curve": [list(point) for point in estimate.curve],
        "evidence": evidence,
    }


def kept_estimate(run: Run) -> KEstimate | None:
    """What a run that was stopped had estimated; training needs its number, not its partition."""
    kept = run.estimate()
    if kept is None:
        return None
    nothing = np.empty(0, dtype=np.int64)
    evidence = kept.get("evidence") or {}
    curve = tuple((int(k), float(score)) for k, score in kept.get("curve") or ())
    return KEstimate(
        str(kept.get("method", "")), kept["k"], kept.get("low"), kept.get("high"), curve, nothing, 0.0, evidence
    )


# ---------------------------------------------------------------- rows


def rows_in(store: FeatureStore, collection: Collection) -> NDArray[np.int64]:
    """Row of each item in the store."""
    return positions(collection.ids, store.ids, store.folder, "embed the source again")


def vectors(source: Source) -> NDArray[np.floating]:
    """Embeddings (N, D) of a source, or a sentence that says how to make them."""
    items = source.collection.items
    if not isinstance(items, Vectors):
        raise InputError(f"This needs embeddings, but the source holds {items.kind}s; run 'ltgcd embed' on it first.")
    return items.x
