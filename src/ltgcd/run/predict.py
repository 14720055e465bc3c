"""Label new items with the model of a run, the categories that were added to it later included."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.checksums import write_parquet
from ltgcd.common.engine.ray_cluster import check_cluster
from ltgcd.common.engine.rows import on_cluster
from ltgcd.common.errors import InputError
from ltgcd.common.outputs import check_output, output_path, sealed_table
from ltgcd.common.progress import step
from ltgcd.data.collection import UNLABELLED, Source
from ltgcd.data.items import Vectors
from ltgcd.discovery.classes import SUGGESTED, Classes, classes_of, table_of
from ltgcd.discovery.labelling import said_of
from ltgcd.discovery.memory import LABELLING, check_memory
from ltgcd.discovery.rehearsal import Calibrations
from ltgcd.features.backbones import backbone_of
from ltgcd.features.cache import FeatureStore, differing_features
from ltgcd.features.embed import Embedded, embed
from ltgcd.features.views import CachedViews, VectorViews, Views
from ltgcd.run.directory import Run
from ltgcd.run.train import Notify, rows_in, silent, vectors
from ltgcd.training.calibration import Calibration
from ltgcd.training.model import FittedModel, extended


def predict_source(
    run: Run,
    source: Source,
    out: Path,
    *,
    store: FeatureStore | None = None,
    weights: Path | None = None,
    read_from: tuple[Path | None, ...] = (),
    cluster: str | None = None,
    max_memory: str | None = None,
    notify: Notify = silent,
) -> dict[str, Any]:
    """Label new items with the model of a run.

    Parameters
    ----------
    run : Run
        A finished run of a trained method.
    source : Source
        New items: vectors as in training, or images or texts, which are embedded with the run's backbone first. Those
        that can't be read are left out and named.
    out : path
        Parquet file for ``id, label, name, status, confidence`` and the ``suggested`` names of the run's novel
        categories; only predictions of ours are replaced.
    store : FeatureStore, optional
        Cached activations of the new items.
    weights : path, optional
        Backbone weights, where they are not the usual ones.
    read_from : tuple of paths
        Where the source is: nothing is written there.
    cluster : str, optional
        A Ray cluster that shares the work, as `ltgcd.features.embed.embed` takes it; `out` is where all of it see it.
    max_memory : str, optional
        Memory that may be taken ("12G"): what needs more is refused. By default that is only said, by what is free.
    notify : callable
        Told in a sentence what happens.
    """
    is_own = os.path.realpath(out) == os.path.realpath(run.predictions)
    check_output(out, "predictions", read_from, run.folder if is_own else None)
    if cluster is not None:
        check_cluster(cluster)
    sharing = on_cluster(cluster, out.with_name(f"{out.stem}.shared"), notify)
    with run.lock("ltgcd predict") if is_own else nullcontext(), sharing:
        return _predict(run, source, out, store, weights, cluster, max_memory, notify)


def _predict(
    run: Run,
    source: Source,
    out: Path,
    store: FeatureStore | None,
    weights: Path | None,
    cluster: str | None,
    max_memory: str | None,
    notify: Notify,
) -> dict[str, Any]:
    model = load_run_model(run, weights)
    skipped: tuple[tuple[str, str], ...] = ()
    is_there = isinstance(source.collection.items, Vectors)
    check_memory(len(source.collection), model.dim, None, max_memory, notify, work=LABELLING, held=is_there)
    if not is_there:
        done = embed_new(run, source, out.with_name(f"{out.stem}.features"), model, weights, notify, cluster)
        source, store, skipped = done.source, done.store, done.skipped
    labels, largest, _runner_up = said_of(model.fitted, model_views(run, source, store, model))
    confidence, unsure = model.fitted.judged(largest, labels)
    proposed = {name: kept for name, kept in run.assignments_note().items() if name == SUGGESTED}
    table = table_of(source.collection.ids, model.codes[labels], confidence, unsure, model.classes, proposed)
    with output_path(out, "predictions") as temporary:
        write_parquet(temporary, sealed_table(table, "predictions"))
    status = table.column("status").to_numpy()
    counts = {name: int((status == name).sum()) for name in ("known", "novel", "unsure")}
    left_out = [{"id": name, "reason": reason} for name, reason in skipped]
    return {"n": len(labels), **counts, "n_skipped": len(left_out), "skipped": left_out, "path": str(out)}


# ---------------------------------------------------------------- the model of a run


class RunModel(NamedTuple):
    """The model of a run and what is noted beside it.

    Attributes
    ----------
    fitted : FittedModel
        With the categories of all updates.
    codes : ndarray of int64, shape (K,)
        Code of each of its classes in the run; two have the same where people merged them since.
    classes : Classes
        All classes of the run.
    dim : int
        Numbers of a vector that it was trained on.
    features : dict or None
        What the vectors were made with, where ltgcd made them: the key of its cache.
    updates : int
        Number of updates.
    calibrations : Calibrations or None
        What confidences are worth, where that was rehearsed.
    """

    fitted: FittedModel
    codes: NDArray[np.int64]
    classes: Classes
    dim: int
    features: dict[str, Any] | None
    updates: int
    calibrations: Calibrations | None

    @property
    def class_names(self) -> list[str]:
        """Name of each class of the model, in its order."""
        spelled = self.classes.spelled().to_pylist()
        return [spelled[code] for code in self.codes]

    def index_of(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The model's class for each code (n,), -1 where it has none: what people made since the last fit."""
        index = np.full(self.classes.next_code + 1, UNLABELLED, dtype=np.int64)  # the last place is that of -1
        index[self.codes[::-1]] = np.arange(len(self.codes))[::-1]  # of merged classes, the first
        return index[codes]


def load_run_model(run: Run, weights: Path | None = None) -> RunModel:
    """Read the model, and the prototypes of every update that the assignments count."""
    tensors, description = run.read_model()
    note: Any = description.get("note")
    whole = isinstance(note, dict) and isinstance(note.get("dim"), int) and isinstance(note.get("class_names"), list)
    if not whole:
        raise InputError(f"The description of the model in {run} is damaged; start the run again in a new folder.")
    features = note.get("features")
    try:
        fitted = FittedModel.from_state(tensors, description, lambda: backbone_of(features or {}, weights).tail)
    except InputError as error:
        raise InputError(f"{run}: {error}") from error
    noted = run.assignments_note()
    if run.finished or run.has_updates or run.states():
        # Without the table, or in one that another tool rewrote, nothing says which updates there were, which fit
        # counts and what people have called its classes.
        run.assignments()
        run.class_count()
    codes = [np.asarray(note.get("codes", range(fitted.k)), dtype=np.int64)]
    updates = int(noted.get("updates", 0))
    for number in range(int(note.get("updates", 0)) + 1, updates + 1):  # the fit knows those before it
        appended = run.read_update(number)
        if appended is not None:  # an update need not append a class
            codes.append(
                np.asarray(appended.get("codes", fitted.k + np.arange(len(appended["prior"]))), dtype=np.int64)
            )
            fitted = extended(fitted, *(appended[name] for name in ("prototypes", "prior", "sizes")))
    expected = noted.get("model_k", noted.get("k"))
    if updates and fitted.k != expected:
        raise InputError(f"{run} lacks some of its {expected} classes: what an update added is gone; restore it.")
    classes = classes_of({"k": fitted.k, **noted}, tuple(note["class_names"]))
    merged = {int(code): into for code, into in noted.get("merged", {}).items()}
    own = np.array([merged.get(code, code) for code in np.concatenate(codes).tolist()], dtype=np.int64)
    together = Calibration.read(note["calibration"]) if "calibration" in note else None
    both = Calibrations(together, fitted.calibration) if together and fitted.calibration else None
    return RunModel(fitted, own, classes, note["dim"], features, updates, both)


# ---------------------------------------------------------------- new items in the form that the model takes


def embed_new(
    run: Run,
    source: Source,
    folder: Path,
    model: RunModel,
    weights: Path | None,
    notify: Notify,
    cluster: str | None = None,
) -> Embedded:
    """Embed images or texts with the run's backbone into a folder; what can't be read is left out."""
    items, key = source.collection.items, model.features
    if key is None:
        raise InputError(
            f"{run} was trained on embeddings from elsewhere; embed the new {items.kind}s in the same way first."
        )
    backbone = backbone_of(key, weights)
    if backbone.kind != items.kind:
        raise InputError(f"{run} is a run of {backbone.kind}s, but the new items are {items.kind}s.")
    step("embedding")
    notify(f"embedding {len(items):,} new {items.kind}s")
    return embed(source, backbone, folder, engine=key["engine"], cluster=cluster, may_be_empty=True, notify=notify)


def model_views(run: Run, source: Source, store: FeatureStore | None, model: RunModel) -> Views:
    """Test views of new items with features, in the form that the model was trained on."""
    if store is not None and (difference := differing_features(model.features, store.key)):
        raise InputError(f"{run} can't label these features: {difference}")
    if model.fitted.regime == "last-stage":
        if store is None:
            raise InputError(
                f"{run} trained the last stage of its backbone, so it takes images, or their features from 'ltgcd "
                "embed' with the same backbone and size."
            )
        return CachedViews(store, rows_in(store, source.collection))
    x = vectors(source)
    if x.shape[1] != model.dim:
        raise InputError(f"The new vectors have {x.shape[1]} numbers, but {run} was trained on {model.dim}.")
    return VectorViews(np.asarray(x, dtype=np.float32))
