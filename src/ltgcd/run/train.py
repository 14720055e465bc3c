"""From a source to a run directory: estimate K, train or cluster, assign, score."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.class_number.estimate import LabelsFrom, estimate_k, labels_origin
from ltgcd.common.errors import InputError
from ltgcd.common.files import read_json, read_metadata, write_json
from ltgcd.data.collection import Collection, Source, positions
from ltgcd.data.items import Vectors
from ltgcd.discovery.rehearsal import PARTS, rehearse
from ltgcd.evaluation.metric import Evaluation, evaluate_assignments
from ltgcd.features.backbones import backbone_of
from ltgcd.features.cache import FeatureStore
from ltgcd.features.views import CachedViews
from ltgcd.run.directory import (
    draw_epoch,
    open_run,
    read_assignments,
    read_config,
    read_epochs,
    read_run_labels,
    record_epoch,
    write_assignments,
)
from ltgcd.training.config import TRAINED, Experiment, Preset, Regime, changed, preset
from ltgcd.training.distributed import World, join_world
from ltgcd.training.fit import Task, check_experiment, fit_model
from ltgcd.training.loop import Watch, unwatched
from ltgcd.training.methods import CLUSTERINGS

Notify = Callable[[str], None]

REHEARSED = "rehearsals"  # folder of a run, until it is finished


def silent(_message: str) -> None:
    """Say nothing."""


# ---------------------------------------------------------------- how many classes


def estimate_source(
    source: Source,
    method: str = "peaks",
    random_state: int = 0,
    k_max: int | None = None,
    labels_from: str = "collection",
) -> dict[str, Any]:
    """Estimate the number of classes of a source of embeddings; the result is what ``k_estimate.json`` holds."""
    collection = source.collection
    collection.require_partial_labels()
    estimate = estimate_k(
        vectors(source),
        collection.y,
        method,
        n_old=collection.n_old,
        k_max=k_max,
        labels_from=labels_from,
        random_state=random_state,
    )
    evidence = dict(estimate.evidence)
    if "peaks" in evidence:  # rows mean nothing outside; ids do
        evidence["peaks"] = collection.ids.take(np.array(evidence["peaks"], dtype=np.int64)).to_pylist()
    return {
        "method": estimate.method,
        "k": estimate.k,
        "low": estimate.low,
        "high": estimate.high,
        "n_old": collection.n_old,
        "seconds": round(estimate.seconds, 3),
        "curve": [list(point) for point in estimate.curve],
        "evidence": evidence,
    }


# ---------------------------------------------------------------- train


def train(
    source: Source,
    folder: Path,
    *,
    method: str = "ltgcd",
    k: int | None = None,
    random_state: int = 0,
    name: Preset = "default",
    regime: Regime | Literal["auto"] = "auto",
    changes: dict[str, Any] | None = None,
    store: FeatureStore | None = None,
    weights: Path | None = None,
    rehearsals: int = 0,
    labels_from: str = "collection",
    watch: Watch = unwatched,
    notify: Notify = silent,
) -> dict[str, Any]:
    """Run a method on a source and leave a run directory.

    Parameters
    ----------
    source : Source
        What to run on; the method sees the collection, only the evaluation at the end sees the truth.
    folder : path
        Run directory. If it holds the same run, it goes on where it stopped; finished, it is reported.
    method : str
        A key of `ltgcd.training.methods.CLUSTERINGS` or one of `ltgcd.training.config.TRAINED`.
    k : int, optional
        Number of classes; estimated if None.
    random_state : int
        Seed.
    name : {"default", "paper", "literal"}
        Preset of a trained method.
    regime : {"auto", "frozen", "last-stage"}
        Train an adapter on the features, or the last stage of the backbone on cached views; ``auto`` takes the latter
        where there are views.
    changes : dict, optional
        Settings by path, see `ltgcd.training.config.changed`.
    store : FeatureStore, optional
        Cached activations of the source's items.
    weights : path, optional
        Backbone weights that the store was made with, where they are not the usual ones.
    rehearsals : int
        How often to train once more with known classes hidden, to learn what a confidence is worth
        (`ltgcd.discovery.rehearsal`); at 0, confidences are the model's own and no item is unsure.
    labels_from : {"collection", "elsewhere"}
        Where the labelled items come from, for the estimate of K, see `ltgcd.class_number.estimate.estimate_k`.
    watch : callable
        Told what each epoch draws from, see `ltgcd.training.loop.fit`.
    notify : callable
        Told in a sentence what happens.
    """
    collection = source.collection
    if method not in (*CLUSTERINGS, *TRAINED):
        raise InputError(f"There is no method '{method}'; choose one of {', '.join((*CLUSTERINGS, *TRAINED))}.")
    collection.require_partial_labels()
    if k is not None and not collection.n_old <= k <= len(collection):
        raise InputError(
            f"K = {k} is impossible: there are {collection.n_old} known classes and {len(collection)} items."
        )
    x = vectors(source)
    started = time.perf_counter()
    experiment, chosen = None, chosen_regime(regime, method, store)
    if method in TRAINED:
        experiment = changed(preset(method, chosen, name), changes or {})
    elif changes:
        raise InputError(f"'{method}' has no settings to change; leave out {', '.join(changes)}.")
    if not 0 <= rehearsals <= PARTS:
        raise InputError(f"There can be 0 to {PARTS} rehearsals, not {rehearsals}.")
    if rehearsals and not experiment:
        raise InputError(f"'{method}' trains nothing that could be rehearsed; leave out --rehearsals.")
    origin = labels_origin(labels_from)
    world = join_world()
    if experiment:
        # A folder that a refused run had taken would refuse the corrected one.
        check_experiment(experiment, world.size, keeps=True)
    notify = notify if world.first else silent
    config = run_config(method, k, random_state, chosen, experiment, store, rehearsals, origin)
    with world.alive(folder):
        world.from_first(lambda: open_run(folder, config, source))
        if not (folder / "assignments.parquet").is_file():
            number = k or world.from_first(lambda: _estimated(source, folder, random_state, origin, notify))
            notify(f"{'training' if experiment else 'clustering'} with {method}, {number} classes")
            if experiment:
                task = _task(collection, x, number, random_state, store if chosen == "last-stage" else None, weights)
                _train(collection, task, folder, experiment, store, rehearsals, watch, notify, world)
                world.from_first(lambda: None)  # the others wait for what the first one writes
            else:
                result = CLUSTERINGS[method](x, collection.y, collection.n_old, number, random_state)
                write_assignments(folder, collection, result.labels, result.confidence, number)
    return {
        "method": method,
        "k": _k_of(read_assignments(folder)),
        "n_old": collection.n_old,
        **_scores(source, folder),
        "seconds": round(time.perf_counter() - started, 3),
        "run": str(folder),
    }


def run_config(
    method: str,
    k: int | None,
    random_state: int,
    regime: Regime,
    experiment: Experiment | None,
    store: FeatureStore | None,
    rehearsals: int = 0,
    labels_from: LabelsFrom = "collection",
) -> dict[str, Any]:
    """What decides the result of a run, for its ``config.toml``."""
    config: dict[str, Any] = {"method": method, "k": "auto" if k is None else k, "random_state": random_state}
    if experiment:
        config |= {"regime": regime, "settings": dataclasses.asdict(experiment)}
    if experiment and regime == "last-stage" and store:
        config["features"] = {name: value for name, value in store.key.items() if value is not None}
    if experiment and rehearsals:
        config["rehearsals"] = rehearsals
    if k is None and labels_from != "collection":
        config["labels_from"] = labels_from
    return config


def _task(
    collection: Collection,
    x: NDArray[np.floating],
    k: int,
    random_state: int,
    store: FeatureStore | None,
    weights: Path | None,
) -> Task:
    """The problem, with the cached views of a store where the last stage is trained."""
    task = Task(np.asarray(x, dtype=np.float32), collection.y, collection.n_old, k, random_state)
    if store is None:
        return task
    views = CachedViews(store, rows_in(store, collection))
    return task._replace(views=views, tail=backbone_of(store.key, weights).tail)


def _train(
    collection: Collection,
    task: Task,
    folder: Path,
    experiment: Experiment,
    store: FeatureStore | None,
    rehearsals: int,
    watch: Watch,
    notify: Notify,
    world: World,
) -> None:
    result = fit_model(
        task,
        experiment,
        folder=folder / "checkpoint",
        record=lambda line: _record(folder, line, notify),
        watch=watch,
        notify=notify,
        world=world,
    )
    said, worth = result.probabilities.argmax(axis=1), None
    if rehearsals:
        novel_share = float((said[~collection.labelled] >= task.n_old).mean())
        worth = rehearse(
            task, experiment, novel_share, rehearsals, folder=folder / REHEARSED, notify=notify, world=world
        )
    if not world.first:
        return
    fitted, calibration = result.fitted, worth.together if worth else None
    # A labelled item keeps its label; its confidence is what the model thinks of that.
    labels = np.where(collection.labelled, collection.y, said)
    own = result.probabilities[np.arange(len(labels)), labels]
    confidence, unsure = dataclasses.replace(fitted, calibration=calibration).judged(own, labels)
    fitted.calibration = worth.alone if worth else None
    note: dict[str, Any] = {"class_names": list(collection.class_names), "dim": int(task.x.shape[1])}
    if store is not None:
        note["features"] = {key: value for key, value in store.key.items() if value is not None}
    fitted.save(folder, note)
    told: dict[str, Any] = {"calibration_error": None, "calibration_chance": None}
    if calibration:
        told = {"calibration_error": round(calibration.error, 4), "calibration_chance": round(calibration.chance, 4)}
    write_assignments(folder, collection, labels, confidence, task.k, unsure & ~collection.labelled, told)
    shutil.rmtree(folder / REHEARSED, ignore_errors=True)  # what they taught is in the model


def _record(folder: Path, line: dict[str, Any], notify: Notify) -> None:
    """Keep the line of an epoch; a density that is not the plain one is told once a run, also if it is resumed."""
    told = {old.get("density") for old in read_epochs(folder)}
    if line.get("density_why") and line["density"] not in told:
        notify(f"epoch {line['epoch']}: {line['density_why']}")
    record_epoch(folder, line)
    draw_epoch(folder, line)


def chosen_regime(wanted: str, method: str, store: FeatureStore | None) -> Regime:
    """The regime that is wanted; ``auto`` trains the last stage where there are views and a method that trains."""
    if wanted not in ("auto", *get_args(Regime)):
        raise InputError(f"The regime is auto, {' or '.join(get_args(Regime))}, not '{wanted}'.")
    cached = store is not None and store.n_views >= 2
    if wanted == "last-stage" and not cached:
        raise InputError(
            "Training the last stage takes cached views of images: embed them with --views 4 and give that folder."
        )
    return "last-stage" if cached and wanted != "frozen" and method in TRAINED else "frozen"


def _estimated(source: Source, folder: Path, random_state: int, labels_from: LabelsFrom, notify: Notify) -> int:
    """K̂ of a run, estimated once: a run that is resumed reads it."""
    path = folder / "k_estimate.json"
    if not path.is_file():
        notify("estimating the number of classes")
        write_json(path, estimate_source(source, random_state=random_state, labels_from=labels_from))
    estimate = read_json(path)
    if reason := estimate.get("evidence", {}).get("fallback"):
        notify(f"careful with the {estimate['k']} classes: {reason}")
    return int(estimate["k"])


def rows_in(store: FeatureStore, collection: Collection) -> NDArray[np.int64]:
    """Row of each item in the store."""
    return positions(collection.ids, store.ids, store.folder, "embed the source again")


# ---------------------------------------------------------------- evaluate


def evaluate_run(folder: Path) -> Evaluation:
    """Score a finished run on its unlabelled items."""
    read_config(folder)
    labels = read_run_labels(folder)
    if labels.truth is None:
        raise InputError(f"{folder} can't be evaluated: its source had no y_true.")
    table = read_assignments(folder)
    labelled_ids = labels.ids.filter(pa.array(labels.y >= 0))
    predicted = np.asarray(table.column("label").to_numpy(), dtype=np.int64)
    ids = table.column("id").combine_chunks()
    try:
        return evaluate_assignments(labels.truth, labelled_ids, ids, predicted, k=_k_of(table))
    except InputError as error:
        raise InputError(f"{folder}: {error}") from error


def _scores(source: Source, folder: Path) -> dict[str, Any]:
    scorable = source.truth is not None and source.truth.tells_any(~source.collection.labelled)
    scores = evaluate_run(folder).as_dict() if scorable else {}
    return {key: scores.get(key) for key in ("acc", "balanced_acc")}


def _k_of(assignments: pa.Table) -> int | None:
    """Classes of the method, empty ones included; None where another tool rewrote the file and dropped it."""
    k = read_metadata(assignments.schema).get("k")
    return None if k is None else int(k)


def vectors(source: Source) -> NDArray[np.floating]:
    """Embeddings (N, D) of a source, or a sentence that says how to make them."""
    items = source.collection.items
    if not isinstance(items, Vectors):
        raise InputError(f"This needs embeddings, but the source holds {items.kind}s; run 'ltgcd embed' on it first.")
    return items.x
