"""The command for practitioners: a folder and a few labels in; categories, a report and an export out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.class_number.estimate import labels_origin
from ltgcd.common.errors import InputError
from ltgcd.common.files import read_json, read_metadata
from ltgcd.data.collection import Source, positions
from ltgcd.data.items import Vectors
from ltgcd.data.sources import read_source
from ltgcd.features.backbones import default_backbone, load_backbone
from ltgcd.features.cache import FeatureStore, open_features
from ltgcd.features.embed import embed
from ltgcd.report.categories import align, directions
from ltgcd.report.layout import SAMPLE, map_items
from ltgcd.report.page import write_report
from ltgcd.run.directory import read_assignments
from ltgcd.run.kept import keep_features, keep_items, keep_map, kept_map
from ltgcd.run.train import Notify, chosen_regime, silent, train, vectors

REHEARSALS = {"frozen": 4, "last-stage": 1}  # by what one costs: seconds to a minute, or as long as the run itself
IMAGE_SIZE = 128  # four times faster than the network's own size, and as good for small pictures


def discover(
    source: Source,
    folder: Path,
    *,
    k: int | None = None,
    views: int = 0,
    image_size: int = IMAGE_SIZE,
    engine: str = "torch",
    labels_from: str = "collection",
    random_state: int = 0,
    store: FeatureStore | None = None,
    notify: Notify = silent,
) -> dict[str, Any]:
    """Embed, estimate K, train, assign and report; every step goes on where it stopped.

    Parameters
    ----------
    source : Source
        Images, texts or embeddings, partly labelled.
    folder : path
        Run directory; features of images and texts go into its ``features``.
    k : int, optional
        Number of classes; estimated if None.
    views : int
        Training views an image: with 2 or more the last stage of the backbone is trained.
    image_size : int
        Side of an image for the backbone, in pixels.
    engine : {"torch", "openvino"}
        What embeds.
    labels_from : {"collection", "elsewhere"}
        Where the labelled items come from, for the estimate of K, see `ltgcd.class_number.estimate.estimate_k`.
    random_state : int
        Seed.
    store : FeatureStore, optional
        Cached activations, where the source is a folder of ``ltgcd embed``.
    notify : callable
        Told in a sentence what happens.
    """
    collection = source.collection
    collection.require_partial_labels()
    labels_origin(labels_from)  # a typing error shall not cost the embedding
    _check_not_updated(folder)
    embedded, skipped = source, 0
    if not isinstance(collection.items, Vectors):
        kind = collection.items.kind
        notify(f"embedding {len(collection):,} {kind}s")
        size = image_size if kind == "image" else None
        done = embed(
            source,
            load_backbone(default_backbone(kind), image_size=size),
            folder / "features",
            views=views if kind == "image" else 0,
            engine=engine if kind == "image" else "torch",
            notify=notify,
        )
        skipped = len(done.skipped)
        store = open_features(folder / "features")
        embedded = read_source(folder / "features")
        if skipped:
            notify(f"{skipped} {kind}s could not be read and are left out; see {folder / 'features' / 'skipped.csv'}")
    elif views:
        raise InputError("Embeddings have no views; leave out --views, or give the images.")
    result = train(
        embedded,
        folder,
        k=k,
        random_state=random_state,
        rehearsals=REHEARSALS[chosen_regime("auto", "ltgcd", store)],
        labels_from=labels_from,
        store=store,
        notify=notify,
    )
    table = read_assignments(folder)
    estimate = read_json(folder / "k_estimate.json") if k is None else None
    told = read_metadata(table.schema)
    error = told.get("calibration_error")
    shown, x = _shown(source, table.column("id").combine_chunks()), vectors(embedded)
    keep_features(folder, shown.collection.ids, x)  # also of images: another source may be embedded there later
    if not isinstance(collection.items, Vectors):
        keep_items(folder, shown.collection)
    notify("drawing the report")
    page = write_report(
        folder,
        shown,
        x,
        table,
        k_estimate=estimate,
        calibration_error=error,
        coordinates=_places(folder, shown, x, table, random_state),
        laid_out=min(len(table), SAMPLE),
        seed=random_state,
        title=folder.name,
    )
    status = table.column("status").to_numpy(zero_copy_only=False)
    return {
        "k": result["k"],
        "low": estimate["low"] if estimate else None,
        "high": estimate["high"] if estimate else None,
        "n_old": collection.n_old,
        **{name: int((status == name).sum()) for name in ("known", "novel", "unsure")},
        "skipped": skipped,
        "calibration_error": error,
        "calibration_chance": told.get("calibration_chance"),
        **{name: result[name] for name in ("acc", "balanced_acc", "seconds")},
        "report": str(page),
        "run": str(folder),
    }


def _check_not_updated(folder: Path) -> None:
    """Refuse to go on with a run that has got more items since."""
    if not (folder / "assignments.parquet").is_file():
        return
    updates = read_metadata(read_assignments(folder).schema).get("updates")
    if updates:
        raise InputError(
            f"{folder} has been updated {updates} times since it was finished; add to it with 'ltgcd update', draw its "
            "page with 'ltgcd report', or start again in a new folder with --out."
        )


def _places(
    folder: Path, shown: Source, x: NDArray[np.floating], table: pa.Table, random_state: int
) -> NDArray[np.float32]:
    """Places on the map, laid out once and kept: items that come later are put beside these."""
    ids, kept = shown.collection.ids, kept_map(folder)
    if kept is None or not kept[0].equals(ids):
        places = map_items(directions(x), align(shown.collection, table).category, random_state)
        keep_map(folder, ids, places, min(len(ids), SAMPLE))
        return places
    return kept[1]


def _shown(source: Source, ids: pa.StringArray) -> Source:
    """The items that have features, in the order of the features: skipped images are not on the page."""
    rows = positions(ids, source.collection.ids, "the source", "run the same command on the source it was begun with")
    return Source(source.collection.select(rows), None)
