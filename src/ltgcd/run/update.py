"""Add new items to a finished run: every old id and label stays, and what no class explains is appended.

An update first writes what is its own, then what the run keeps of its items, and then the assignments, which count the
updates: from that moment on the run has them. The table of labels and the page follow. Killed before, nothing has
happened to the run; killed after, the same command writes what is missing. A second update waits for the first: a run
has one lock.

An item is its id and its content (`ltgcd.data.identity`): the same id with other content is another item, and gets an
id of its own. Labels of items that the run has already change nothing now; they are kept for its next training.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata
from ltgcd.common.progress import step, steps
from ltgcd.data.collection import UNLABELLED, Collection, Source, positions
from ltgcd.data.identity import Comparison, compare_items
from ltgcd.data.items import Kind, Vectors
from ltgcd.data.labels import codes_of, names_of
from ltgcd.data.write_source import labels_table
from ltgcd.discovery.assignments import core
from ltgcd.discovery.classes import Classes, table_of
from ltgcd.discovery.extend import extend
from ltgcd.discovery.memory import check_memory, discovering
from ltgcd.features.cache import FeatureStore, items_behind
from ltgcd.features.embed import Embedded
from ltgcd.output.report.layout import Places, places_beside
from ltgcd.run.directory import Run
from ltgcd.run.items import Features
from ltgcd.run.labels import LABEL_CODES, codes_of_labels, names_unheard_of
from ltgcd.run.made_classes import with_made_classes
from ltgcd.run.predict import RunModel, embed_new, load_run_model, model_views
from ltgcd.run.report import draw_after, draw_report, gone_sentence, shown_in_order
from ltgcd.run.reviewed import RunReview
from ltgcd.run.same_content import digests_beside, features_of_run
from ltgcd.run.suggested import with_suggestions_of_run
from ltgcd.run.train import Notify, silent, vectors
from ltgcd.run.update_told import difference, final_sentences, label_sentences
from ltgcd.training.methods import method_names
from ltgcd.training.model import check_extendable


def update_run(
    run: Run,
    source: Source,
    *,
    base: Path | None = None,
    store: FeatureStore | None = None,
    weights: Path | None = None,
    max_memory: str | None = None,
    notify: Notify = silent,
) -> dict[str, Any]:
    """Add new items to a finished run.

    Parameters
    ----------
    run : Run
        A finished run of a trained method.
    source : Source
        Images, texts or embeddings like those of the run. Items that the run has already are left as they are.
    base : path, optional
        Embeddings of the run's items, for a run that does not keep them.
    store : FeatureStore, optional
        Cached activations, where the source is a folder of ``ltgcd embed``.
    weights : path, optional
        Backbone weights, where they are not the usual ones.
    max_memory : str, optional
        Memory that may be taken ("12G"): what needs more is refused. By default that is only said, by what is free.
    notify : callable
        Told in a sentence what happens.
    """
    with run.lock("ltgcd update"):
        embeds = [] if source.collection.items.kind == "vector" else ["embedding"]
        with steps(*embeds, "labelling", "report"):
            return _update(run, source, base, store, weights, max_memory, notify)


def _update(
    run: Run,
    source: Source,
    base: Path | None,
    store: FeatureStore | None,
    weights: Path | None,
    max_memory: str | None,
    notify: Notify,
) -> dict[str, Any]:
    started = time.perf_counter()
    before = run.assignments()
    run.class_count()  # refused here if another tool has rewritten the assignments
    model = load_run_model(run, weights)
    n = len(before) + len(source.collection)
    check_memory(n, model.dim, model.fitted.k, max_memory, notify, work=discovering(None, again=True), held=False)
    # Read before anything is written: where the state that people reviewed is damaged, nothing must have happened.
    review = RunReview.open(run) if run.states() else None
    run.settle_labels()
    n, skipped, kind = len(source.collection), list[dict[str, str]](), source.collection.items.kind
    if run.kind == "vector" != kind:
        # Its vectors are all that the run knows of its items: so they are what new ones are compared by.
        _check_extendable(run, model)
        done, skipped = _embedded(run, source, model, weights, notify)
        source, store = done.source, done.store
    elif kind not in (run.kind, "vector"):
        raise _other_kind(run, kind)
    compared = _compare(run, source.collection, before, base, store)
    fresh = np.flatnonzero(compared.is_new)
    if run.kind == "vector" != kind and not len(fresh):
        run.drop_update_features(model.updates + 1)
    table = before
    x: NDArray[np.float32] | None = None
    if len(fresh):
        _check_extendable(run, model)  # refused before anything is computed
        x_old = features_of_run(run, before, base)
        new, store, more = _with_features(run, source, fresh, store, model, weights, notify)
        skipped += more
        if new is not None:
            table, x = _added(run, source, compared, new, store, x_old, before, model, review, notify)
            run.settle_labels()
    labels_kept = _keep_labels(run, source.collection, compared)
    if table is not before or not run.report_is_current:
        step("report")
        notify("drawing the report")
        x = features_of_run(run, table, base) if x is None else x
        ids = table.column("id").combine_chunks()
        shown, gone = shown_in_order(run, ids, run.items())
        if gone:
            notify(gone_sentence(run, gone, len(ids)))
        draw_after(run, partial(draw_report, run, table, x, shown), notify)
    status = table.column("status").to_numpy(zero_copy_only=False)[len(before) :]
    return {
        "n": n,
        "n_added": len(table) - len(before),
        "n_present": len(source.collection) - len(fresh),
        "n_renamed": len(compared.renamed),
        "n_copies": len(compared.copies),
        "n_labels_kept": labels_kept,
        "n_skipped": len(skipped),
        **{name: int((status == name).sum()) for name in ("known", "novel", "unsure")},
        **difference(before, table, model.classes.codes),
        "skipped": skipped,
        "notes": [*compared.sentences(), *label_sentences(labels_kept, run), *final_sentences(before, table)],
        "k": int(read_metadata(table.schema)["k"]),
        "seconds": round(time.perf_counter() - started, 3),
        "report": str(run.report),
        "run": str(run),
    }


def _compare(run: Run, new: Collection, before: pa.Table, base: Path | None, store: FeatureStore | None) -> Comparison:
    """Which of the new items the run has; where nothing is known of their content, no id may be of both."""
    ids = before.column("id").combine_chunks()
    x = features_of_run(run, before, base) if isinstance(new.items, Vectors) else None
    folder, features = None if store is None else store.folder, None if x is None else Features(ids, x)
    known = digests_beside(run, ids, new, folder, features)
    if known is not None:
        return compare_items(new.ids, known.given, ids, known.held)
    if n := pc.sum(pc.is_in(new.ids, ids)).as_py():
        raise InputError(
            f"{n} of the new {new.items.kind}s have ids of items of {run}, which keeps nothing that would tell whether "
            "they are the same; give them other ids."
        )
    return compare_items(new.ids, None, ids, None)


def _renamed(source: Source, compared: Comparison) -> Source:
    """The source with the new items under the ids that they get in the run."""
    return source.with_ids(pc.if_else(pa.array(compared.is_new), compared.ids, source.collection.ids))


def _keep_labels(run: Run, new: Collection, compared: Comparison) -> int:
    """Keep the labels of items that were there already; give the number of those that are news."""
    rows = np.flatnonzero(~compared.is_new & new.labelled)
    if not len(rows):
        return 0
    return run.keep_later_labels(compared.ids.take(rows), names_of(new.y[rows], new.class_names))


def _check_extendable(run: Run, model: RunModel) -> None:
    """Refuse a run whose classifier can't take up more classes, and say whose can."""
    try:
        check_extendable(model.fitted)
    except InputError as error:
        names = ", ".join(method_names(lambda method: method.has_prototypes))
        raise InputError(f"{run}: {error} 'update' takes runs of {names}.") from error


def _with_features(
    run: Run,
    source: Source,
    fresh: NDArray[np.int64],
    store: FeatureStore | None,
    model: RunModel,
    weights: Path | None,
    notify: Notify,
) -> tuple[Source | None, FeatureStore | None, list[dict[str, str]]]:
    """The new items as vectors, without those that can't be read; None if that is all of them."""
    chosen = Source(source.collection.select(fresh), None)
    items = chosen.collection.items
    if isinstance(items, Vectors):
        _shown(run, chosen.collection, store)  # refused here if nothing is known of the new items but their features
        return chosen, store, []
    if items.kind != run.kind:
        raise _other_kind(run, items.kind)
    done, skipped = _embedded(run, chosen, model, weights, notify)
    return (Source(done.source.collection, None) if done.n else None), done.store, skipped


def _shown(run: Run, collection: Collection, store: FeatureStore | None) -> Collection:
    """New items as what the run shows of its own: of features, the images or texts that they were made from."""
    if run.kind == collection.items.kind:
        return collection
    behind = items_behind(store, collection.ids)
    if behind is None or behind.items.kind != run.kind:
        raise _other_kind(run, collection.items.kind)
    return replace(collection, items=behind.items)


def _other_kind(run: Run, kind: Kind) -> InputError:
    return InputError(f"{run} is a run of {run.kind}s, but the new items are {kind}s; give {run.kind}s.")


def _embedded(
    run: Run, source: Source, model: RunModel, weights: Path | None, notify: Notify
) -> tuple[Embedded, list[dict[str, str]]]:
    """New images or texts as vectors, and those that can't be read."""
    done = embed_new(run, source, run.update_features(model.updates + 1), model, weights, notify)
    skipped = [{"id": name, "reason": reason} for name, reason in done.skipped]
    if skipped:
        kind = source.collection.items.kind
        notify(f"{len(skipped)} {kind}s could not be read and are left out; see {done.skipped_file}")
    return done, skipped


def _added(
    run: Run,
    source: Source,
    compared: Comparison,
    new: Source,
    store: FeatureStore | None,
    x_old: NDArray[np.float32],
    before: pa.Table,
    model: RunModel,
    review: RunReview | None,
    notify: Notify,
) -> tuple[pa.Table, NDArray[np.float32]]:
    """Label the new items, write all that is theirs and last the assignments of all; these and all features."""
    rows = positions(new.collection.ids, source.collection.ids, "the source", "run the same command again")
    named_source = _renamed(source, compared)
    ids_old, ids_new = before.column("id").combine_chunks(), named_source.collection.ids.take(rows)
    note = read_metadata(before.schema)
    old = np.asarray(before.column("label").to_numpy(), dtype=np.int64)
    status = before.column("status").to_numpy(zero_copy_only=False)
    model, made = with_made_classes(run, model, old[status != "junk"], x_old[status != "junk"])
    fitted, k = model.fitted, model.fitted.k
    given, unheard = _given(source.collection, rows, model)
    views = model_views(run, new, store, model)
    x = np.concatenate([x_old, np.asarray(vectors(new), dtype=np.float32)])
    leaning = np.where(status == "junk", UNLABELLED, model.index_of(old))
    classes = np.where(status == "junk", UNLABELLED, core(model.index_of(old), ~np.isin(status, ("unsure", "junk"))))
    step("labelling")
    notify(f"looking at {len(ids_new):,} new items")
    held = run.labels()
    of_label = codes_of_labels(held.class_names, note, model.classes)
    at = positions(ids_old, held.ids, f"the labels of {run}", "restore them")
    people = model.index_of(np.append(of_label, UNLABELLED)[held.y[at]])
    people = np.where(people < fitted.n_old, people, UNLABELLED)
    done = extend(fitted, views, x, people, classes, given, run.seed, leaning)
    number, (larger, codes) = model.updates + 1, _with_appended(model, unheard, done.fitted.k)
    names = (*held.class_names, *names_unheard_of(labels := labels_table(named_source, {}).take(pa.array(rows)), held))
    # What a table has besides, once it was reviewed or fitted again.
    more: dict[str, NDArray[Any]] = {"given": np.zeros(len(rows), dtype=np.bool_), "runner_up": codes[done.runner_up]}
    added = table_of(
        ids_new,
        codes[done.labels],
        done.confidence,
        done.unsure,
        larger,
        {
            **note,
            "updates": number,
            "added": len(rows),
            "model_k": done.fitted.k,
            LABEL_CODES: codes_of_labels(names, note, larger).tolist(),
        },
        **{name: column for name, column in more.items() if name in before.column_names},
    )
    table = pa.concat_tables([before.replace_schema_metadata(None), added.replace_schema_metadata(None)])
    table = table.replace_schema_metadata(added.schema.metadata).combine_chunks()
    # What belongs to this update alone, then what may hold more than the run does, then the run.
    appended: dict[str, NDArray[Any]] = {
        "prototypes": np.concatenate([made.prototypes, done.prototypes]),
        "prior": np.concatenate([made.prior * (1 - done.prior.sum()), done.prior]),
        "sizes": np.concatenate([made.sizes, done.sizes]),
        "codes": codes[k - len(made.prior) :],
    }
    run.write_update(number, labels, appended if len(appended["prior"]) else {})
    ids = pa.concat_arrays([ids_old, ids_new])
    run.write_features(ids, x)
    if run.kind != "vector":
        shown = _shown(run, source.collection.select(rows), store)
        run.add_items(ids_old, replace(shown, ids=ids_new), number)
    _place(run, ids_old, ids, x, done.labels, k)
    given_names = names_of(source.collection.y[rows], source.collection.class_names)
    table = with_suggestions_of_run(run, table, x, np.concatenate([held.y[at], codes_of(given_names, list(names))]))
    if review is not None:
        table = review.next_base(table, {"by": "update"})
    else:
        run.write_assignments(table)
    return table, x


def _given(collection: Collection, rows: NDArray[np.int64], model: RunModel) -> tuple[NDArray[np.int64], list[str]]:
    """Labels of some rows as classes of the model, and the names of classes behind its own."""
    names = names_of(collection.y[rows], collection.class_names)
    held = model.class_names
    unheard = [name for name in collection.class_names if name not in held and pc.index(names, name).as_py() >= 0]
    # Classes that people merged have one name: the first of them has it here.
    once = [name if held.index(name) == at else f"\0{at}" for at, name in enumerate(held)]
    return codes_of(names, once + unheard), unheard


def _with_appended(model: RunModel, unheard: list[str], k: int) -> tuple[Classes, NDArray[np.int64]]:
    """The classes of the run with those that an update appended, and the code of each class of its model (k,)."""
    held = model.classes
    names, known = dict(zip(held.codes, held.names, strict=True)), dict(zip(held.codes, held.known, strict=True))
    number = {name: code for code, name in names.items()}
    codes, next_code = model.codes.tolist(), held.next_code
    for at in range(k - model.fitted.k):
        name = unheard[at] if at < len(unheard) else None
        code = number.get(name, next_code) if name is not None else next_code
        names[code], known[code] = name or held.name_of(code), name is not None
        next_code = max(next_code, code + 1)
        codes.append(code)
    ordered = sorted(names)
    larger = Classes(
        tuple(ordered),
        tuple(names[code] for code in ordered),
        tuple(known[code] for code in ordered),
        next_code,
        held.next_number + next_code - held.next_code,
    )
    return larger, np.array(codes, dtype=np.int64)


def _place(
    run: Run,
    ids_old: pa.StringArray,
    ids: pa.StringArray,
    x: NDArray[np.float32],
    labels: NDArray[np.int64],
    k: int,
) -> None:
    """Put new items on the map that the run keeps, beside their nearest old ones."""
    kept = run.places()
    if kept is None or (at := pc.index_in(ids_old, kept[0])).null_count:
        return
    old = Places(kept[1].xy[at.to_numpy()], kept[1].laid_out)
    n = len(ids_old)
    run.write_places(ids, places_beside(old, x[:n], x[n:], labels, k))
