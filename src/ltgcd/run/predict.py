"""Label new items with the model of a run, the categories that were added to it later included."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import nn

from ltgcd.common.errors import InputError
from ltgcd.common.files import atomic_path, read_metadata
from ltgcd.data.collection import Source
from ltgcd.data.items import Vectors
from ltgcd.data.sources import read_source
from ltgcd.features.backbones import backbone_of, load_backbone
from ltgcd.features.cache import FeatureStore, open_features
from ltgcd.features.embed import embed
from ltgcd.features.views import CachedViews, VectorViews, Views
from ltgcd.run.directory import assignments_table, read_assignments
from ltgcd.run.train import Notify, rows_in, silent, vectors
from ltgcd.training.checkpoints import read_tensors
from ltgcd.training.fit import FittedModel
from ltgcd.training.heads import Head
from ltgcd.training.loop import Model

UPDATES, PROTOTYPES = "updates", "prototypes.safetensors"


def predict_source(
    run: Path,
    source: Source,
    out: Path,
    *,
    store: FeatureStore | None = None,
    weights: Path | None = None,
    notify: Notify = silent,
) -> dict[str, Any]:
    """Label new items with the model of a run.

    Parameters
    ----------
    run : path
        A finished run of a trained method.
    source : Source
        New items: vectors as in training, or images or texts, which are embedded with the run's backbone first.
    out : path
        Parquet file for ``id, label, name, status, confidence``.
    store : FeatureStore, optional
        Cached activations of the new items.
    weights : path, optional
        Backbone weights, where they are not the usual ones.
    notify : callable
        Told in a sentence what happens.
    """
    model = load_run_model(run, weights)
    items, x = source.collection.items, source
    if not isinstance(items, Vectors):
        folder = out.with_name(f"{out.stem}.features")
        store = embed_new(run, source, folder, model, weights, notify)
        if len(store) != len(items):
            raise InputError(
                f"{len(items) - len(store)} of the new {items.kind}s could not be read (see {folder / 'skipped.csv'}); "
                "remove or repair them."
            )
        x = read_source(folder)
    fitted = model.fitted
    p = fitted.predict(model_views(run, x, store, model))
    labels = p.argmax(axis=1).astype(np.int64)
    confidence, unsure = fitted.judged(p.max(axis=1), labels)
    table = assignments_table(
        x.collection.ids, labels, confidence, model.class_names, fitted.k, unsure, named=model.named
    )
    with atomic_path(out) as temporary:
        pq.write_table(table, temporary)
    status = table.column("status").to_numpy()
    counts = {name: int((status == name).sum()) for name in ("known", "novel", "unsure")}
    return {"n": len(labels), **counts, "path": str(out)}


# ---------------------------------------------------------------- the model of a run


class RunModel(NamedTuple):
    """The model of a run and what is noted beside it.

    Attributes
    ----------
    fitted : FittedModel
        With the categories of all updates.
    note : dict
        Of training: class names, dimension, key of the features.
    updates : int
        Number of updates.
    named : dict
        Names of classes beyond the known ones of training that people gave, by label.
    """

    fitted: FittedModel
    note: dict[str, Any]
    updates: int
    named: dict[int, str]

    @property
    def class_names(self) -> tuple[str, ...]:
        """Known classes of training."""
        return tuple(self.note["class_names"])


def load_run_model(run: Path, weights: Path | None = None) -> RunModel:
    """Read the model, and the prototypes of every update that ``assignments.parquet`` counts."""
    fitted, note = FittedModel.load(run, lambda note: backbone_of(note["features"], weights).tail)
    if "class_names" not in note:
        raise InputError(f"{run} was saved by CategoryDiscovery; load it with CategoryDiscovery.load.")
    told = read_metadata(read_assignments(run).schema) if (run / "assignments.parquet").is_file() else {}
    updates = int(told.get("updates", 0))
    for number in range(1, updates + 1):
        path = update_folder(run, number) / PROTOTYPES
        if path.is_file():  # an update need not append a class
            tensors, _ = read_tensors(path)
            fitted = extended(fitted, *(tensors[name].numpy() for name in ("prototypes", "prior", "sizes")))
    if updates and fitted.k != told["k"]:
        raise InputError(f"{run / UPDATES} lacks some of the {told['k']} classes of the run; restore it.")
    return RunModel(fitted, note, updates, {int(label): name for label, name in told.get("named", {}).items()})


def update_folder(run: Path, number: int) -> Path:
    """Where an update keeps what is its own."""
    return run / UPDATES / f"{number:03d}"


def extended(
    fitted: FittedModel, prototypes: NDArray[np.float32], prior: NDArray[np.float64], sizes: NDArray[np.int64]
) -> FittedModel:
    """The same model with more classes after its own.

    Parameters
    ----------
    fitted : FittedModel
        A model that takes cosines to prototypes.
    prototypes : ndarray, shape (a, d)
        Directions of the new classes in the space of its features.
    prior : ndarray, shape (a,)
        Their share of all items; the other classes share the rest as before.
    sizes : ndarray of int64, shape (a,)
        How many items they have.
    """
    head = fitted.model.head
    if not isinstance(head, Head):
        raise InputError(
            "The classifier of this run can't take up more classes; 'update' takes runs of ltgcd, ltgcd-crest, simgcd "
            "and orca."
        )
    k = fitted.k + len(prototypes)
    larger = Head(head.dim, k, contrastive=False)
    rows = torch.from_numpy(np.asarray(prototypes, dtype=np.float32)).reshape(-1, head.dim)
    larger.prototypes.weight = nn.Parameter(torch.cat([head.prototypes.weight.detach(), rows]))
    both = np.concatenate([fitted.prior * (1 - prior.sum()), prior])
    model = Model(fitted.model.tail, larger).eval()
    all_sizes = np.concatenate([fitted.sizes, sizes])
    return FittedModel(
        model, fitted.n_old, k, both, all_sizes, fitted.adjustment, fitted.temperature, fitted.calibration
    )


# ---------------------------------------------------------------- new items in the form that the model takes


def embed_new(
    run: Path, source: Source, folder: Path, model: RunModel, weights: Path | None, notify: Notify
) -> FeatureStore:
    """Embed images or texts with the run's backbone into a folder; what can't be read is left out."""
    items, key = source.collection.items, model.note.get("features")
    if key is None:
        raise InputError(
            f"{run} was trained on embeddings from elsewhere; embed the new {items.kind}s in the same way first."
        )
    notify(f"embedding {len(items):,} new {items.kind}s")
    backbone = backbone_of(key, weights) if key.get("preprocessing") else load_backbone(key["backbone"])
    embed(source, backbone, folder, engine=key["engine"], notify=notify)
    return open_features(folder)


def model_views(run: Path, source: Source, store: FeatureStore | None, model: RunModel) -> Views:
    """Test views of new items with features, in the form that the model was trained on."""
    if model.fitted.regime == "last-stage":
        if store is None or store.key["trunk"] != model.note.get("features", {}).get("trunk"):
            raise InputError(
                f"{run} trained the last stage of its backbone, so it takes images, or their features from 'ltgcd "
                "embed' with the same backbone and size."
            )
        return CachedViews(store, rows_in(store, source.collection))
    x = vectors(source)
    if x.shape[1] != model.note["dim"]:
        raise InputError(f"The new vectors have {x.shape[1]} numbers, but {run} was trained on {model.note['dim']}.")
    return VectorViews(np.asarray(x, dtype=np.float32))
