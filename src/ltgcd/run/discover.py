"""What ``ltgcd discover`` does: a collection and a few labels in; categories, a page and a run directory out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from ltgcd.common.engine.ray_cluster import check_cluster
from ltgcd.common.engine.rows import on_cluster
from ltgcd.common.engine.shards import SAID_SECONDS
from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata
from ltgcd.common.progress import step, steps
from ltgcd.data.collection import UNLABELLED, Collection, Source, positions
from ltgcd.data.items import Items, Kind, Vectors
from ltgcd.discovery.classes import classes_of
from ltgcd.discovery.duration import Forecast, discovery_seconds, pace
from ltgcd.discovery.memory import check_memory, discovering, processes_that_fit
from ltgcd.discovery.task import DiscoveryConfig, check_class_number, configure
from ltgcd.features.backbones import check_backbone, default_backbone, load_backbone
from ltgcd.features.backbones.base import Backbone
from ltgcd.features.cache import FeatureStore, items_behind
from ltgcd.features.embed import embed
from ltgcd.output.report.sentences import count_categories
from ltgcd.run.directory import Run
from ltgcd.run.evaluate import accuracies
from ltgcd.run.report import draw_report
from ltgcd.run.train import (
    Finished,
    Notify,
    regime_for,
    run_config,
    silent,
    steps_of,
    train_run,
    train_together,
    vectors,
)

# Backbone and side of an image in pixels. With OpenVINO on a CPU the second takes twice as long as the first, and the
# third six times.
QUALITIES = {
    "quick": ("efficientnet_lite2", 128),
    "standard": ("efficientnet_lite2", 192),
    "best": ("efficientnet_lite0+efficientnet_lite2", 260),
}
QUALITY = "standard"  # the default: of five neighbours 3 to 5 in a hundred more are of an item's class than at 128 px


@dataclass(frozen=True)
class Embedding:
    """How images or texts become vectors.

    Attributes
    ----------
    backbone : str or None
        As `load_backbone` takes it; by default that of the quality for images, and "minilm" for texts.
    image_size : int or None
        Side of an image for the backbone, in pixels; by default that of the quality.
    views : int
        Training views an image: with 2 or more the last stage of the backbone is trained.
    weights : path or None
        Backbone weights, where they are not the usual ones.
    engine : {"auto", "torch", "openvino"}
        What computes, as `embed` takes it.
    workers : int or None
        Processes that share the work, as `embed` takes it, and the rehearsals.
    quality : {"quick", "standard", "best"} or None
        How much time images are worth: one of `QUALITIES`, `QUALITY` by default.
    cluster : str or None
        A Ray cluster that shares the work, as `embed` takes it, the search for neighbours and the pictures of the page;
        with 2 or more `workers`, also the training of a last stage.
    """

    backbone: str | None = None
    image_size: int | None = None
    views: int = 0
    weights: Path | None = None
    engine: str = "auto"
    workers: int | None = None
    quality: str | None = None
    cluster: str | None = None

    def model(self, kind: Kind) -> tuple[str, int | None]:
        """Name of the backbone for a kind of item, and the side of an image; a sentence if that can't be."""
        if kind != "image":
            if self.quality is not None:
                raise InputError(f"Only images can be looked at more closely; leave out --quality for {kind}s.")
            return self.backbone or default_backbone(kind), None
        name = self.quality or QUALITY
        if name not in QUALITIES:
            raise InputError(f"There is no quality '{name}'; choose {', '.join(QUALITIES)}.")
        backbone, size = QUALITIES[name]
        return self.backbone or backbone, size if self.image_size is None else self.image_size

    def load(self, kind: Kind) -> Backbone:
        """The backbone for a kind of item."""
        name, size = self.model(kind)
        return load_backbone(name, image_size=size, weights=self.weights)


def discover_source(
    source: Source,
    folder: Path,
    *,
    k: int | None = None,
    embedding: Embedding | None = None,
    method: str = "ltgcd",
    rehearsals: int | Literal["auto"] = "auto",
    labels_from: str = "collection",
    fit_on: int | None = None,
    random_state: int = 0,
    store: FeatureStore | None = None,
    title: str | None = None,
    max_memory: str | None = None,
    notify: Notify = silent,
) -> dict[str, Any]:
    """Embed, estimate K, train, assign and draw the page; every step goes on where it stopped.

    Parameters
    ----------
    source : Source
        Images, texts or embeddings, partly labelled.
    folder : path
        Run directory; what the backbone makes of images and texts goes there, too.
    k : int, optional
        Number of classes; estimated if None.
    embedding : Embedding, optional
        How images or texts become vectors.
    method, rehearsals, labels_from, fit_on, random_state
        See `ltgcd.discovery.task.configure`.
    store : FeatureStore, optional
        Cached activations, where the source is a folder of ``ltgcd embed``.
    title : str, optional
        Name on the page.
    max_memory : str, optional
        Memory that may be taken ("12G"): what needs more is refused. By default that is only said, by what is free.
    notify : callable
        Told in a sentence what happens.
    """
    embedding = embedding or Embedding()
    run, collection = Run(folder), source.collection
    # All that can be refused is refused here, before the first long step and before the folder is taken.
    collection.require_partial_labels()
    check_class_number(k, collection.n_old, len(collection))
    run.check_free()
    if embedding.cluster is not None:
        check_cluster(embedding.cluster)
    config = _configured(source, embedding, store, k, method, rehearsals, labels_from, fit_on, random_state)
    together = train_together(config, embedding.cluster, embedding.workers)
    backbone = None if isinstance(collection.items, Vectors) else embedding.load(collection.items.kind)
    dim = vectors(source).shape[1] if backbone is None else backbone.dim
    work = discovering(fit_on)
    check_memory(len(collection), dim, k, max_memory, notify, work=work, held=backbone is None)
    # One lock from here to the end: an update between two steps would be undone by the next one.
    with run.lock("ltgcd discover"):
        run.check_not_updated()
        run.check_same(run_config(config, None), collection.ids)
        if run.finished:
            more = " and has been reviewed; 'ltgcd refine' fits it again" if run.states() else ""
            notify(f"{run} is finished{more}: its labels stay as they are")
        seconds = None if run.finished else _seconds(len(collection), dim, config, max_memory, embedding.workers)
        forecast = Forecast(seconds, config)
        first = [] if backbone is None else ["embedding"]
        with steps(*first, *steps_of(config), "report"), on_cluster(embedding.cluster, run.shared, notify):
            if backbone is None:
                embedded, items, skipped = source, items_behind(store, source.collection.ids), 0
            else:
                embedded, store, items, skipped = _embedded(source, run, backbone, embedding, notify, forecast)
            if sentence := forecast.of_the_rest():
                notify(sentence)
            texts = items.items if items is not None and items.items.kind == "text" else None
            n = len(vectors(embedded))
            finished = train_run(
                embedded,
                folder,
                config,
                store=store,
                weights=embedding.weights,
                notify=notify,
                command=None,
                texts=texts,
                processes=partial(processes_that_fit, n, dim, allowed=max_memory, most=embedding.workers),
                together=together,
            )
            x, ids = vectors(embedded), embedded.collection.ids
            run.write_features(ids, x)  # also of images: another source may be embedded there later
            if items is not None:
                run.write_items(items)
            step("report")
            notify("drawing the report")
            shown: Items | None = items.items if items is not None else None
            draw_report(run, finished.table, x, shown, title=title)
    return {**summary(finished, collection.n_old), "skipped": skipped, "report": str(run.report)}


def _seconds(n: int, dim: int, config: DiscoveryConfig, max_memory: str | None, workers: int | None) -> float | None:
    """Seconds of everything that comes after the embedding, here and now; None where that was never measured."""
    seconds = discovery_seconds(n, config, processes_that_fit(n, dim, config.k, max_memory, workers))
    return seconds if seconds is None or seconds < SAID_SECONDS / 4 else seconds * pace()


def summary(finished: Finished, n_old: int) -> dict[str, Any]:
    """What a command prints of a finished run: the number of classes, items by status, scores."""
    table, estimate, note = finished.table, finished.estimate, read_metadata(finished.table.schema)
    k, status = finished.run.class_count(note), table.column("status")  # refused where another tool rewrote the table
    classes = classes_of(note, finished.run.labels().class_names[:n_old])
    return {
        "k": k,
        "low": estimate["low"] if estimate else None,
        "high": estimate["high"] if estimate else None,
        "n_old": n_old,
        "n_named": max(0, sum(classes.known) - n_old),
        "caution": (estimate or {}).get("evidence", {}).get("fallback"),
        **{name: pc.sum(pc.equal(status, name)).as_py() or 0 for name in ("known", "novel", "unsure")},
        "n_labelled": int((finished.run.labels().y != UNLABELLED).sum()),
        "categories": _novel_categories(table),
        "only_unsure": count_categories(table, n_old).only_unsure,
        "calibration_error": note.get("calibration_error"),
        "calibration_chance": note.get("calibration_chance"),
        **accuracies(finished.run),
        "seconds": round(finished.seconds, 3),
        "assignments": str(finished.run.files.assignments),
        "run": str(finished.run),
    }


def _novel_categories(table: pa.Table) -> list[dict[str, Any]]:
    """Name and sure items of every novel category, the largest first."""
    novel = table.filter(pc.equal(table.column("status"), "novel"))
    counts = (
        novel.group_by("name").aggregate([("id", "count")]).sort_by([("id_count", "descending"), ("name", "ascending")])
    )
    return [{"name": one["name"], "items": one["id_count"]} for one in counts.to_pylist()]


def _configured(
    source: Source,
    embedding: Embedding,
    store: FeatureStore | None,
    k: int | None,
    method: str,
    rehearsals: int | Literal["auto"],
    labels_from: str,
    fit_on: int | None,
    random_state: int,
) -> DiscoveryConfig:
    """The configuration of the run, with everything checked that needs no features."""
    kind = source.collection.items.kind
    backbone, _ = embedding.model(kind)
    if kind == "vector":
        if embedding.views or embedding.backbone or embedding.weights:
            raise InputError(
                "Embeddings are taken as they are; leave out --views, --backbone and --weights, or give the images or "
                "texts."
            )
        regime = regime_for("auto", method, store)
    else:
        check_backbone(backbone, kind, embedding.views)
        regime = "last-stage" if embedding.views else "frozen"
    return configure(
        method,
        regime=regime,
        k=k,
        rehearsals=rehearsals,
        labels_from=labels_from,
        fit_on=fit_on,
        random_state=random_state,
        keeps_checkpoints=True,
    )


def _embedded(
    source: Source, run: Run, backbone: Backbone, embedding: Embedding, notify: Notify, forecast: Forecast
) -> tuple[Source, FeatureStore, Collection, int]:
    """Vectors of the images or texts that can be read, their cache, these items themselves, and how many can't."""
    collection = source.collection
    kind = collection.items.kind
    if not run.finished:
        step("embedding")
        notify(f"embedding {len(collection):,} {kind}s")
    engine = embedding.engine if kind == "image" else "auto"
    is_timed = embedding.workers is None and embedding.cluster is None
    if not is_timed and (sentence := forecast.of_the_rest()):
        notify(f"after that, {sentence}")
    done = embed(
        source,
        backbone,
        run.embedded,
        views=embedding.views,
        engine=engine,
        workers=embedding.workers,
        cluster=embedding.cluster,
        notify=notify,
        foretell=forecast.of_the_whole,
    )
    if done.skipped:
        notify(f"{len(done.skipped)} {kind}s could not be read and are left out; see {done.skipped_file}")
    rows = positions(done.source.collection.ids, collection.ids, "the source", "run the same command again")
    return done.source, done.store, collection.select(rows), len(done.skipped)
