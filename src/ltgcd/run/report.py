"""The page of a run: the one place where what it needs is put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata
from ltgcd.common.outputs import check_output, output_path
from ltgcd.data.collection import Collection, positions
from ltgcd.data.items import Items, Vectors
from ltgcd.data.sources import read_source
from ltgcd.discovery.fitted_collection import FittedCollection
from ltgcd.features.cache import shown_items
from ltgcd.output.report.layout import Places, places_on_map
from ltgcd.output.report.page import Report, report_html
from ltgcd.output.report.pictures import pictures_of_vectors
from ltgcd.run.directory import PAGE, Run
from ltgcd.run.items import in_order
from ltgcd.run.same_content import check_same_items
from ltgcd.run.suggested import shown_collection, source_labels
from ltgcd.run.train import described_estimate


def draw_report(
    run: Run,
    table: pa.Table,
    x: NDArray[np.floating],
    items: Items | None = None,
    *,
    title: str | None = None,
    progress: Callable[[str], None] = lambda _stage: None,
    writing: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Path:
    """Draw the page of a finished run, and keep where each item stands on the map: it stands there from then on.

    Parameters
    ----------
    run : Run
        The run.
    table : pyarrow.Table
        Its assignments (N rows).
    x : ndarray, shape (N, D)
        Features of the items, in the order of the assignments.
    items : Items, optional
        The N images or texts to show; without them cards show ids.
    title : str, optional
        Name of the run; by default that of its folder.
    progress : callable
        Told the name of each stage as it starts.
    writing : callable
        Gives a context in which files are written: by who has no lock, one that takes it.
    """
    estimate = run.estimate()
    html = _page(
        shown_collection(run, table, x, items),
        x,
        table,
        _places(run, table, x, progress, writing),
        estimate,
        source_labels(run, table.column("id").combine_chunks()),
        appended=appended_classes(read_metadata(table.schema), estimate),
        seed=run.seed,
        title=title or run.folder.resolve().name,
        progress=progress,
    )
    with writing():
        run.write_report(html)
    return run.report


def draw_collection(
    path: Path,
    held: FittedCollection,
    items: Items | Sequence[str] | Sequence[Path] | None,
    ids: Sequence[Any] | None,
    *,
    title: str,
    seed: int,
) -> Path:
    """Draw the page of a collection that is in no run: of a fitted `CategoryDiscovery`, as its ``report`` says."""
    check_output(path, PAGE)
    collection, estimate = held.collection(items, ids), held.estimate
    html = _page(
        collection,
        held.x,
        held.table(ids),
        places_on_map(held.x, held.labels, seed),
        described_estimate(estimate, collection.ids, held.n_old) if estimate else None,
        held.source_labels,
        appended=held.appended,
        seed=seed,
        title=title,
    )
    with output_path(path, PAGE) as temporary:
        temporary.write_text(html, encoding="utf-8")
    return path


def _page(
    collection: Collection,
    x: NDArray[np.floating],
    table: pa.Table,
    places: Places,
    estimate: dict[str, Any] | None,
    y: NDArray[np.int64],
    *,
    appended: int,
    seed: int,
    title: str,
    progress: Callable[[str], None] = lambda _stage: None,
) -> str:
    """The page of a collection and its assignments, for a run as for `CategoryDiscovery`."""
    note = read_metadata(table.schema)
    return report_html(
        Report(
            collection=collection,
            features=x,
            assignments=table,
            places=places,
            k_estimate=estimate,
            calibration_error=note.get("calibration_error"),
            calibration_chance=note.get("calibration_chance"),
            refined=bool(note.get("refined")),
            appended=appended,
            pictures=pictures_of_vectors(x) if collection.items.kind == "vector" else None,
            seed=seed,
            title=title,
            y=y,
        ),
        progress,
    )


def _places(
    run: Run,
    table: pa.Table,
    x: NDArray[np.floating],
    progress: Callable[[str], None],
    writing: Callable[[], AbstractContextManager[None]],
) -> Places:
    """Places on the map: those that the run keeps, where it has one for every item, else laid out and kept."""
    ids = table.column("id").combine_chunks()
    if (kept := kept_places(run, ids)) is not None:
        return kept
    progress(f"drawing the map of {len(ids):,} items")
    labels = np.asarray(table.column("label").to_numpy(), dtype=np.int64)
    places = places_on_map(x, labels, run.seed)
    with writing():
        run.write_places(ids, places)
    return places


def kept_places(run: Run, ids: pa.StringArray) -> Places | None:
    """Places of these items on the run's map; None where it keeps none, or not of every one of them."""
    kept = run.places()
    if kept is None or (at := pc.index_in(ids, kept[0])).null_count:
        return None
    return Places(kept[1].xy[at.to_numpy()], kept[1].laid_out)


def appended_classes(note: dict[str, Any], estimate: dict[str, Any] | None) -> int:
    """Classes that updates have added to those that were estimated."""
    if not note.get("updates") or "k" not in note or estimate is None:
        return 0
    return max(0, int(note["k"]) - int(estimate["k"]))


def report_run(
    run: Run,
    source: Path | None = None,
    features: Path | None = None,
    *,
    progress: Callable[[str], None] = lambda _stage: None,
) -> dict[str, Any]:
    """Draw the page of a finished run again, from what it keeps or from what is given.

    Parameters
    ----------
    run : Run
        A finished run.
    source : path, optional
        Images or texts to show, or embeddings.
    features : path, optional
        What ``ltgcd embed`` wrote, or an ``.npz``; by default what the run keeps, or the source itself.
    progress : callable
        Told the name of each stage as it starts.
    """
    progress("reading the run")
    with run.lock("ltgcd report"):
        return draw_again(run, source, features, progress)


def draw_after(run: Run, draw: Callable[[], object], notify: Callable[[str], None]) -> None:
    """Draw the page of labels that are written already: if it can't be drawn, they count all the same, and it is said.

    The next ``ltgcd report`` draws it.
    """
    try:
        draw()
    except InputError as error:
        notify(f"The labels are kept, but the page could not be drawn ({error}); then run 'ltgcd report {run}'.")


def draw_again(
    run: Run,
    source: Path | None,
    features: Path | None,
    progress: Callable[[str], None],
    writing: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> dict[str, Any]:
    """What `report_run` does, for who has the lock of the run, or takes it by `writing` while something is written."""
    with writing():
        run.settle_labels()  # an update may have been killed before it had added its own
    table = run.assignments()
    ids = table.column("id").combine_chunks()
    given = read_source(source, notify=progress).collection if source is not None else run.items()
    x = features_of(run, ids, features, given, progress)
    if source is not None and given is not None and (note := check_same_items(run, ids, given, source, features)):
        progress(note)
    if given is None and features is not None:
        given = shown_items(features)
    shown, gone = shown_in_order(run, ids, given, source)
    if gone:
        progress(gone_sentence(run, gone, len(ids)))
    path = draw_report(run, table, x, shown, progress=progress, writing=writing)
    return {"report": str(path), "n": len(table), "n_gone": gone, "bytes": path.stat().st_size}


def shown_in_order(
    run: Run, ids: pa.StringArray, given: Collection | None, source: Path | None = None
) -> tuple[Items | None, int]:
    """The images or texts of some ids, and how many are gone; None where all that is known of them are vectors."""
    if given is None:
        return None, len(ids) if run.kind == "image" else 0
    if isinstance(given.items, Vectors):
        return None, 0
    return in_order(ids, given, source or f"the items of {run}")


def gone_sentence(run: Run, gone: int, n: int) -> str:
    """What to do about images that are not where they were."""
    which = f"All {n:,} images of {run} are" if gone == n else f"{gone:,} of the {n:,} images of {run} are"
    return (
        f"{which} not where they were (moved or deleted?), and are shown by their ids; if they are elsewhere, give "
        "their folder with --source."
    )


def features_of(
    run: Run,
    ids: pa.StringArray,
    features: Path | None = None,
    given: Collection | None = None,
    notify: Callable[[str], None] = lambda _sentence: None,
) -> NDArray[np.floating]:
    """Features (N, D) of a run's items: from a path, what the run keeps or what it embedded, or the given vectors."""
    if features is None and (kept := run.features()) is not None:
        return kept.of(ids, run)
    if features is None and given is not None and isinstance(given.items, Vectors):
        return given.items.x[positions(ids, given.ids, "the source", "give the source that the run was made from")]
    is_own = features is None and run.embedded.is_dir()
    if is_own:
        features = run.embedded
    if features is None:
        raise InputError(
            f"{run} keeps no features of its items; give --features (what 'ltgcd embed' wrote), or --source with the "
            "embeddings that it was made from."
        )
    collection = read_source(features, notify=lambda _sentence: None).collection
    if not isinstance(collection.items, Vectors):
        raise InputError(
            f"{features} holds {collection.items.kind}s; give their features (the --out of 'ltgcd embed')."
        )
    if not is_own and (note := check_same_items(run, ids, collection, features)):
        notify(note)
    return collection.items.x[positions(ids, collection.ids, features, "give the features of the run's items")]
