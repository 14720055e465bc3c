"""Label new items with the model of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from torch import nn

from ltgcd.backbones import backbone_of, load_backbone
from ltgcd.calibration import SURE
from ltgcd.collection import Source
from ltgcd.errors import InputError
from ltgcd.feature_store import FeatureStore, open_features
from ltgcd.features import embed
from ltgcd.fitting import FittedModel
from ltgcd.items import Vectors
from ltgcd.pipeline import Notify, rows_in, silent, vectors
from ltgcd.runs import assignments_table
from ltgcd.sources import read_source
from ltgcd.storage import atomic_path
from ltgcd.views import CachedViews, VectorViews, Views


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
    fitted, note = FittedModel.load(run, lambda note: _tail(note, weights))
    views = _new_views(run, source, out, note, fitted, store, weights, notify)
    p = fitted.predict(views)
    labels, confidence = p.argmax(axis=1).astype(np.int64), p.max(axis=1)
    unsure = np.zeros(len(labels), dtype=bool)
    if fitted.calibration:
        confidence = fitted.calibration.apply(confidence)
        unsure = confidence < SURE
    names = tuple(note["class_names"])
    table = assignments_table(source.collection.ids, labels, confidence, names, fitted.k, unsure)
    with atomic_path(out) as temporary:
        pq.write_table(table, temporary)
    status = table.column("status").to_numpy()
    counts = {name: int((status == name).sum()) for name in ("known", "novel", "unsure")}
    return {"n": len(labels), **counts, "path": str(out)}


def _tail(note: dict[str, Any], weights: Path | None) -> nn.Module:
    return backbone_of(note["features"], weights).tail


def _new_views(
    run: Path,
    source: Source,
    out: Path,
    note: dict[str, Any],
    fitted: FittedModel,
    store: FeatureStore | None,
    weights: Path | None,
    notify: Notify,
) -> Views:
    """Test views of new items, in the form that the model was trained on."""
    items, key = source.collection.items, note.get("features")
    if not isinstance(items, Vectors):
        if key is None:
            raise InputError(
                f"{run} was trained on embeddings from elsewhere; embed the new {items.kind}s in the same way first."
            )
        folder = out.with_name(f"{out.stem}.features")
        notify(f"embedding {len(items)} new {items.kind}s")
        backbone = backbone_of(key, weights) if key.get("preprocessing") else load_backbone(key["backbone"])
        embed(source, backbone, folder, engine=key["engine"], notify=notify)
        store = open_features(folder)
        if len(store) != len(items):
            raise InputError(
                f"{len(items) - len(store)} of the new {items.kind}s could not be read (see {folder / 'skipped.csv'}); "
                "remove or repair them."
            )
    if fitted.regime == "last-stage":
        if store is None or store.key["trunk"] != (key or {}).get("trunk"):
            raise InputError(
                f"{run} trained the last stage of its backbone, so it takes images, or their features from 'ltgcd "
                "embed' with the same backbone and size."
            )
        return CachedViews(store, rows_in(store, source.collection))
    x = vectors(source if store is None else read_source(store.folder))
    if x.shape[1] != note["dim"]:
        raise InputError(f"The new vectors have {x.shape[1]} numbers, but {run} was trained on {note['dim']}.")
    return VectorViews(np.asarray(x, dtype=np.float32))
