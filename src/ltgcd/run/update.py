"""Add new items to a finished run: every old id and label stays, and what no class explains is appended.

An update writes what is its own into ``updates/001`` and so on, then what the run keeps of its items, and then
``assignments.parquet``, which counts the updates: from that moment on the run has them. ``split.parquet`` and the page
follow. Killed before, nothing has happened to the run; killed after, the same command writes what is missing.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import read_json, read_metadata, with_metadata
from ltgcd.data.collection import UNLABELLED, Collection, Source, positions
from ltgcd.data.items import Items, Vectors
from ltgcd.data.labels import codes_of, names_of
from ltgcd.data.parquet import read_parquet
from ltgcd.data.sources import labels_table, read_source
from ltgcd.discovery.extend import extend
from ltgcd.features.cache import SKIPPED_FILE, FeatureStore, read_shards
from ltgcd.graph.whitening import class_means, normalise
from ltgcd.report.categories import align, directions
from ltgcd.report.layout import SAMPLE, map_items
from ltgcd.report.page import write_report
from ltgcd.run.directory import (
    assignments_table,
    class_name,
    core,
    features_checksum,
    read_assignments,
    read_config,
    read_run_labels,
)
from ltgcd.run.kept import (
    Features,
    add_items,
    keep_features,
    keep_map,
    kept_features,
    kept_items,
    kept_kind,
    kept_map,
    write_table,
)
from ltgcd.run.predict import PROTOTYPES, RunModel, embed_new, extended, load_run_model, model_views, update_folder
from ltgcd.run.train import Notify, silent, vectors
from ltgcd.training.checkpoints import write_tensors


def update_run(
    run: Path,
    source: Source,
    *,
    base: Path | None = None,
    store: FeatureStore | None = None,
    weights: Path | None = None,
    notify: Notify = silent,
) -> dict[str, Any]:
    """Add new items to a finished run.

    Parameters
    ----------
    run : path
        A finished run of a trained method.
    source : Source
        Images, texts or embeddings like those of the run. Items whose id the run has already are left as they are.
    base : path, optional
        Embeddings of the run's items, for a run that does not keep them.
    store : FeatureStore, optional
        Cached activations, where the source is a folder of ``ltgcd embed``.
    weights : path, optional
        Backbone weights, where they are not the usual ones.
    notify : callable
        Told in a sentence what happens.
    """
    started = time.perf_counter()
    config, before = read_config(run), read_assignments(run)
    if "k" not in read_metadata(before.schema):
        raise InputError(
            f"{run / 'assignments.parquet'} was rewritten by another tool and no longer says how many classes and "
            "updates the run has; restore it, or start the run again in a new folder."
        )
    model = load_run_model(run, weights)
    _settle_labels(run, before, model.updates)
    held = before.column("id").combine_chunks()
    fresh = np.flatnonzero(~np.asarray(pc.is_in(source.collection.ids, held)))
    table, skipped = before, list[dict[str, str]]()
    if len(fresh):
        none = np.zeros(0, dtype=np.int64)
        extended(model.fitted, np.zeros((0, 1), np.float32), np.zeros(0), none)  # refused before anything is computed
        features = _features_of_run(run, before, base)
        part = update_folder(run, model.updates + 1)
        new, store, skipped = _with_features(run, source, fresh, part, store, model, weights, notify)
        if new is not None:
            table = _added(run, config, source, new, store, features, before, model, part, notify)
            _settle_labels(run, table, model.updates + 1)
    page = run / "report.html"
    if table is not before or not page.is_file() or page.stat().st_mtime < _mtime(run / "assignments.parquet"):
        notify("drawing the report")
        _draw(run, config, table, base)
    status = table.column("status").to_numpy(zero_copy_only=False)[len(before) :]
    return {
        "n": len(source.collection),
        "n_added": len(table) - len(before),
        "n_present": len(source.collection) - len(fresh),
        "n_skipped": len(skipped),
        **{name: int((status == name).sum()) for name in ("known", "novel", "unsure")},
        **_difference(before, table),
        "skipped": skipped,
        "k": int(read_metadata(table.schema)["k"]),
        "seconds": round(time.perf_counter() - started, 3),
        "report": str(page),
        "run": str(run),
    }


def _features_of_run(run: Path, before: pa.Table, base: Path | None) -> NDArray[np.float32]:
    """Features (N, D) of the run's items, in the order of its assignments."""
    kept = kept_features(run)
    if kept is None and base is not None:
        source = read_source(base)
        kept = Features(source.collection.ids, vectors(source))
        own = Vectors(kept.of(read_run_labels(run).ids, run))
        if features_checksum(own) != read_config(run)["run"].get("features_checksum"):
            raise InputError(f"{base} holds other vectors than {run} was made from; give the embeddings of the run.")
    if kept is None:
        raise InputError(
            f"{run} keeps no features of its items; give the embeddings that it was made from with --source."
        )
    return kept.of(before.column("id").combine_chunks(), run)


def _with_features(
    run: Path,
    source: Source,
    fresh: NDArray[np.int64],
    part: Path,
    store: FeatureStore | None,
    model: RunModel,
    weights: Path | None,
    notify: Notify,
) -> tuple[Source | None, FeatureStore | None, list[dict[str, str]]]:
    """The new items as vectors, without those that can't be read; None if that is all of them."""
    chosen = Source(source.collection.select(fresh), None)
    items = chosen.collection.items
    kind = kept_kind(run)
    if kind not in (items.kind, "vector"):
        raise InputError(f"{run} is a run of {kind}s, but the new items are {items.kind}s; give {kind}s.")
    if isinstance(items, Vectors):
        return chosen, store, []
    folder = part / "features"
    try:
        store = embed_new(run, chosen, folder, model, weights, notify)
    except InputError:
        skipped = _unreadable(folder, chosen.collection.ids)
        if len(skipped) < len(fresh):
            raise
        return None, None, skipped
    new = read_source(folder)
    skipped = _unreadable(folder, chosen.collection.ids)
    if skipped:
        notify(f"{len(skipped)} {items.kind}s could not be read and are left out; see {folder / SKIPPED_FILE}")
    return Source(new.collection, None), store, skipped


def _unreadable(folder: Path, ids: pa.StringArray) -> list[dict[str, str]]:
    """Id and reason of the items that could not be embedded; of an item in several shards the newest counts."""
    whole, _ = read_shards(folder, verify=False)
    rows = [row for _, table in sorted(whole.items()) for row in table.select(["id", "reason"]).to_pylist()]
    reasons = {row["id"]: row["reason"] for row in rows}
    asked = ((name, reasons.get(name)) for name in ids.to_pylist())
    return [{"id": name, "reason": reason} for name, reason in asked if reason is not None]


def _added(
    run: Path,
    config: dict[str, Any],
    source: Source,
    new: Source,
    store: FeatureStore | None,
    x_old: NDArray[np.float32],
    before: pa.Table,
    model: RunModel,
    part: Path,
    notify: Notify,
) -> pa.Table:
    """Label the new items, write all that is theirs, and last the assignments of all items, which are returned."""
    ids_old, ids_new = before.column("id").combine_chunks(), new.collection.ids
    rows = positions(ids_new, source.collection.ids, "the source", "run the same command again")
    given, named = _given(source.collection, rows, model)
    views = model_views(run, new, store, model)
    x = np.concatenate([x_old, np.asarray(vectors(new), dtype=np.float32)])
    labels = read_run_labels(run)
    at = positions(ids_old, labels.ids, run / "split.parquet", "restore it")
    y = np.where(labels.y[at] < model.fitted.n_old, labels.y[at], UNLABELLED)
    sure = np.asarray(pc.not_equal(before.column("status"), "unsure"))
    classes = core(np.asarray(before.column("label").to_numpy(), dtype=np.int64), sure)
    notify(f"looking at {len(ids_new):,} new items")
    seed = int(config.get("run", {}).get("random_state", 0))
    done = extend(model.fitted, views, x, y, classes, given, seed)
    told = {**read_metadata(before.schema), "k": done.fitted.k, "n_old": model.fitted.n_old}
    told |= {"updates": model.updates + 1, "named": {str(label): name for label, name in named.items()}}
    k = told.pop("k")
    added = assignments_table(ids_new, done.labels, done.confidence, model.class_names, k, done.unsure, named=named)
    table = with_metadata(pa.concat_tables([before.select(added.column_names), added]), {"k": k, **told})
    table = table.combine_chunks()
    # What belongs to this update alone, then what may hold more than the run does, then the run.
    if len(done.prior):
        appended = {"prototypes": done.prototypes, "prior": done.prior, "sizes": done.sizes}
        tensors = {name: torch.from_numpy(array) for name, array in appended.items()}
        write_tensors(part / PROTOTYPES, tensors, {})
    else:
        (part / PROTOTYPES).unlink(missing_ok=True)  # of another update that was killed here
    write_table(part / "split.parquet", labels_table(source, {}).take(pa.array(rows)))
    ids = pa.concat_arrays([ids_old, ids_new])
    keep_features(run, ids, x)
    if kept_kind(run) != "vector":
        add_items(run, ids_old, source.collection.select(rows), part)
    _place(run, ids_old, ids, x, done.labels, model.fitted.k)
    write_table(run / "assignments.parquet", table)
    return table


def _given(
    collection: Collection, rows: NDArray[np.int64], model: RunModel
) -> tuple[NDArray[np.int64], dict[int, str]]:
    """Labels of some rows as classes of the run, and the names of all classes that people named after training."""
    names = names_of(collection.y[rows], collection.class_names)
    classes = [model.named.get(c) or class_name(c, model.class_names) for c in range(model.fitted.k)]
    unheard = [name for name in collection.class_names if name not in classes and pc.index(names, name).as_py() >= 0]
    named = {**model.named, **{model.fitted.k + i: name for i, name in enumerate(unheard)}}
    return codes_of(names, classes + unheard), named


def _place(
    run: Path,
    held: pa.StringArray,
    ids: pa.StringArray,
    x: NDArray[np.float32],
    labels: NDArray[np.int64],
    k: int,
) -> None:
    """Put new items on the map beside their nearest old one; those of an appended category stay together."""
    kept = kept_map(run)
    if kept is None:
        return
    at = pc.index_in(held, kept[0])
    if at.null_count:
        return
    n, z = len(held), directions(x)
    appended = np.where(labels < k, UNLABELLED, labels - k)
    centres = normalise(class_means(z[n:], appended, int(appended.max(initial=0)) + 1)[0])
    query = np.where((appended >= 0)[:, None], centres[appended], z[n:])
    nearest = np.concatenate(
        [(block @ z[:n].T).argmax(axis=1) for block in np.array_split(query, len(query) // 512 + 1)]
    )
    old = kept[1][at.to_numpy()]
    spacing = 0.5 * np.sqrt(np.prod(np.ptp(old, axis=0)) / len(old))
    beside = old[nearest] + np.random.RandomState(0).normal(scale=spacing, size=(len(query), 2))
    keep_map(run, ids, np.concatenate([old, beside]), kept[2])


def _settle_labels(run: Path, table: pa.Table, updates: int) -> None:
    """Bring ``split.parquet`` up to the assignments: the labels of an update are added after it counts."""
    path = run / "split.parquet"
    held = read_parquet(path)
    if len(held) >= len(table):
        return
    names = list(read_metadata(held.schema)["class_names"])
    parts = [held]
    for number in range(1, updates + 1):
        part = read_parquet(update_folder(run, number) / "split.parquet")
        part = part.filter(pc.invert(pc.is_in(part.column("id"), held.column("id").combine_chunks())))
        names += [n for n in read_metadata(part.schema)["class_names"] if n not in names and _occurs(part, n)]
        parts.append(part)
    bare = [part.replace_schema_metadata(None) for part in parts]
    merged = pa.concat_tables(bare, promote_options="default")
    write_table(path, with_metadata(merged, {**read_metadata(held.schema), "class_names": names}))


def _occurs(part: pa.Table, name: str) -> bool:
    return bool(pc.any(pc.equal(part.column("label"), name)).as_py())


def _draw(run: Path, config: dict[str, Any], table: pa.Table, base: Path | None) -> None:
    """The page of the run as it is now."""
    ids = table.column("id").combine_chunks()
    x = _features_of_run(run, table, base)
    labels, told = read_run_labels(run), read_metadata(table.schema)
    n_old = int(told.get("n_old", len(labels.class_names)))
    y = labels.y[positions(ids, labels.ids, run / "split.parquet", "restore it")]
    shown = kept_items(run)
    items: Items = Vectors(x)
    if shown is not None and not (at := pc.index_in(ids, shown.ids)).null_count:
        items = shown.items.select(at.to_numpy().astype(np.int64))
    # A class that was named after training has its number behind the novel ones; the page asks who is labelled only.
    collection = Collection(ids, items, np.minimum(y, n_old - 1), labels.class_names[:n_old])
    estimate, seed = run / "k_estimate.json", config.get("run", {}).get("random_state")
    kept = kept_map(run)
    if kept is None or pc.index_in(ids, kept[0]).null_count:
        places = map_items(directions(x), align(collection, table).category, seed or 0)
        laid_out = min(len(ids), SAMPLE)
        keep_map(run, ids, places, laid_out)
    else:
        places, laid_out = kept[1][pc.index_in(ids, kept[0]).to_numpy()], kept[2]
    write_report(
        run,
        Source(collection, None),
        x,
        table,
        k_estimate=read_json(estimate) if estimate.is_file() else None,
        calibration_error=told.get("calibration_error"),
        coordinates=places,
        laid_out=laid_out,
        seed=seed,
        title=run.resolve().name,
    )


def _difference(before: pa.Table, after: pa.Table) -> dict[str, Any]:
    """Categories that were added, grew or stayed as they are, by their sure items."""
    sizes = [_sizes(before), _sizes(after)]
    rows: list[dict[str, Any]] = [
        {"label": label, "name": name, "before": sizes[0].get((label, name), 0), "after": n}
        for (label, name), n in sorted(sizes[1].items())
    ]
    k = int(read_metadata(before.schema).get("k", 0))
    added = [row for row in rows if row["label"] >= k]
    grown = [row for row in rows if row["label"] < k and row["after"] > row["before"]]
    return {
        "added": len(added),
        "grown": len(grown),
        "unchanged": len(rows) - len(added) - len(grown),
        "categories_added": added,
        "categories_grown": grown,
    }


def _sizes(table: pa.Table) -> dict[tuple[int, str], int]:
    sure = table.filter(pc.not_equal(table.column("status"), "unsure"))
    counted = sure.group_by(["label", "name"]).aggregate([([], "count_all")]).to_pylist()
    return {(row["label"], row["name"]): row["count_all"] for row in counted}


def _mtime(path: Path) -> float:
    return path.stat().st_mtime
