"""What ``ltgcd check`` does: read every file of a run to its end, name what is damaged, rebuild what follows.

Every file carries its own checksum, and every command verifies what it reads; here all of them are read. What follows
from the rest can be made again: the page, the map, the table of labels after an update that was killed, the features
where the backbone's own are there. What does not follow is named, with what to do.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ltgcd.common.checksums import BROKEN_PARQUET
from ltgcd.common.errors import InputError
from ltgcd.common.outputs import is_sealed
from ltgcd.data.collection import positions
from ltgcd.data.content_ids import content_digests
from ltgcd.data.identity import EMPTY
from ltgcd.data.parquet import read_table
from ltgcd.data.sources import read_source
from ltgcd.features.cache import missing_in, open_features, skipped_is_as_written
from ltgcd.review.log import EventLog
from ltgcd.run.directory import Run
from ltgcd.run.file_problems import (
    AGAIN,
    CURVES,
    EMBED,
    Problem,
    curves_forgetter,
    find_changed_bytes,
    find_misplaced,
    is_sound,
    tried,
)
from ltgcd.run.files import read_lines
from ltgcd.run.report import draw_again, features_of
from ltgcd.run.reviewed import RunReview, check_log
from ltgcd.run.suggested import suggestions_agree, with_suggestions_of_run
from ltgcd.run.train import Notify, silent
from ltgcd.training.checkpoints import read_tensors
from ltgcd.training.methods import METHODS


def check_run(run: Run, *, repair: bool = False, notify: Notify = silent) -> dict[str, Any]:
    """Read all that a run keeps, name what is wrong and, if asked to, rebuild what follows from the rest.

    Parameters
    ----------
    run : Run
        A run, finished or not.
    repair : bool
        Whether to rebuild; without it, nothing is written.
    notify : callable
        Told in a sentence what happens.

    Returns
    -------
    dict
        ``sound`` (whether nothing is wrong, after the repair), ``problems`` (file, what, follows), ``repaired``
        (files), ``notes`` (on images outside of the run) and ``run``.
    """
    repaired: list[str] = []
    with run.lock("ltgcd check", sweeps=False):
        problems = list(find_problems(run, notify))
        for problem in problems if repair else ():
            if problem.repair is not None:
                notify(f"making {problem.file.name} again")
                try:
                    problem.repair()
                except (InputError, OSError) as error:  # what it follows from is damaged, too, and named in its place
                    notify(f"{problem.file.name} can't be made again yet: {error}")
                    continue
                repaired.append(str(problem.file))
        left = list(find_problems(run, silent)) if repaired else problems
        notes = notes_on_images(run, notify) if not left else []
    return {
        "sound": not left,
        "problems": [{"file": str(p.file), "what": p.what, "follows": p.repair is not None} for p in left],
        "repaired": repaired,
        "notes": notes,
        "run": str(run),
    }


def find_problems(run: Run, notify: Notify) -> Iterator[Problem]:
    """Everything that is wrong with a run, in the order in which it should be repaired."""
    named: set[Path] = set()
    # One after the other: what is named once is not named again for what follows from it.
    for problem in chain(_find_unreadable(run, notify), find_misplaced(run, named), find_changed_bytes(run, named)):
        named.add(problem.file)
        yield problem


def _find_unreadable(run: Run, notify: Notify) -> Iterator[Problem]:
    """What can't be read, is missing, left over, or not as the rest says."""
    files = run.files
    for path in run.folders_in_the_way():
        yield Problem(path, "is a folder, where a run keeps a file; move it away.")
    try:
        run.contents.read()
    except InputError as error:
        yield Problem(files.contents, f"{error}", run.contents.list_anew)
        return
    for path in run.leftovers():
        yield Problem(path, "was left half written by a process that was killed; nothing needs it.", _remover(path))
    try:
        config = run.config()
    except InputError as error:
        yield Problem(files.config, f"{error}")
        return
    notify("reading the labels and the model")
    yield from tried(files.labels, run.labels, AGAIN)
    for problem in tried(files.metrics, lambda: read_lines(files.metrics), CURVES):
        yield problem._replace(repair=curves_forgetter(run, files.metrics))
    lost = list(tried(files.assignments, run.class_count, AGAIN)) if run.finished else []
    yield from lost
    if lost:  # they say which model and which estimate count
        return
    if config.get("k") == "auto" or files.estimate.exists():
        needed = run.finished and run.model_files == files  # a refit may have had nothing to estimate
        yield from tried(files.estimate, lambda: _there(run.estimate(), files.estimate, needed), AGAIN)
    for stage, path in run.checkpoint_files():
        if not is_sound(lambda stage=stage, path=path: stage.read(path)):  # type: ignore[misc]
            yield Problem(path, "is damaged or of another place; training goes on from the one before.", _remover(path))
    if not run.finished:
        return
    known = METHODS.get(str(config.get("method")))
    lost = list(_find_problems_of_the_model(run)) if files.model.exists() or (known and known.trained) else []
    yield from lost
    if not lost:
        yield from tried(files.assignments, lambda: _all_classes(run), "what an update added is gone: restore it")
    yield from _find_problems_of_items(run, notify)


def _find_problems_of_the_model(run: Run) -> Iterator[Problem]:
    """What is wrong with the classifier that counts: of its two files the one that it is."""
    tensors = run.model_files.tensors
    found = list(tried(tensors, lambda: read_tensors(run.contents.held(tensors)), AGAIN))
    yield from found or tried(run.model_files.model, run.read_model, AGAIN)


def _find_problems_of_items(run: Run, notify: Notify) -> Iterator[Problem]:
    """What is wrong with what a finished run keeps of its items, and with what was drawn of them."""
    files, ids = run.files, run.assignments().column("id").combine_chunks()
    other = {path for path, _ in run.contents.disagreeing()}  # also what can be read, but is not what was written
    if is_sound(run.labels) and not suggestions_agree(run.written_assignments(), run.labels().class_names):
        what = "has a column 'suggested' that is not what is noted beside it; it follows from the features."
        yield Problem(files.assignments, what, lambda: _suggest(run))
    yield from _find_problems_of_the_review(run)
    if is_sound(run.labels) and not run.labels_are_settled:
        yield Problem(files.labels, "lacks the labels of an update that was killed.", run.settle_labels)
    for path in run.abandoned_updates():
        yield Problem(path, "is of an update that was killed; run it again, or have it removed.", _remover(path, run))
    notify("reading the features")
    for folder in run.embedded_folders():
        if missing := missing_in(folder, shown=run.kind != "vector"):
            yield from (Problem(path, f"is missing; {EMBED}.") for path in missing)
            continue
        yield from tried(folder, lambda folder=folder: _read_features(folder), EMBED)  # type: ignore[misc]
    keeps_items = files.items.exists() or files.features.exists() or bool(run.updates) or bool(run.feature_folders())
    if not keeps_items:  # a run of 'ltgcd train' keeps labels and a model
        return
    if files.features in other or not is_sound(lambda: _covers(run, ids)):
        follows = is_sound(lambda: embedded_features(run, ids))
        yield Problem(
            files.features,
            f"is damaged, missing or lacks items; {'it follows from the features' if follows else AGAIN}.",
            (lambda: run.write_features(ids, embedded_features(run, ids))) if follows else None,
        )
    if files.items.exists() or run.feature_folders():
        yield from tried(files.items, lambda: read_table(files.items), "give the items with --source where asked")
    if files.images.exists():
        yield from tried(files.images, lambda: _read_through(files.images), AGAIN)
    # Python keeps a run without a map and a page; what it never had is not missing.
    if run.places() is None and (files.map.exists() or run.contents.lists(files.map)):
        yield Problem(files.map, "is damaged or missing; it is laid out anew.", lambda: _draw(run))
    if not run.report_is_current and (files.report.exists() or run.contents.lists(files.report)):
        yield Problem(
            files.report, "is damaged, missing or older than the labels; it is drawn again.", lambda: _draw(run)
        )
    if files.predictions.exists() and not is_sealed(files.predictions, "predictions"):
        yield Problem(files.predictions, "is damaged, or was changed; remove it and run 'ltgcd predict' again.")


def _find_problems_of_the_review(run: Run) -> Iterator[Problem]:
    """What is wrong with what people said, and with the labels that it is about."""
    lost = list(tried(run.files.review, lambda: _read_log(run), "restore it from a copy"))
    yield from lost
    for number in run.states():
        path = run.state_file(number)
        yield from tried(path, lambda number=number: run.read_state(number), AGAIN)  # type: ignore[misc]
    if not lost and is_sound(lambda: RunReview.open(run)) and not (held := RunReview.open(run)).is_written:
        yield Problem(
            run.files.assignments,
            "is whole, and lacks what was said last on the page: Apply there, or --repair, writes it.",
            _applier(held),
        )


def _read_log(run: Run) -> None:
    EventLog(run.files.review).kept()
    check_log(run)


def _applier(held: RunReview) -> Callable[[], None]:
    def apply() -> None:
        held.apply()

    return apply


def notes_on_images(run: Run, notify: Notify) -> list[str]:
    """What became of the images that a run has been made of: outside of it, so no damage to it."""
    if run.kind != "image":
        return []
    given = run.items()
    if given is None:
        return [f"No image of {run} is where it was; give their folder with --source where images are needed."]
    notify("reading the images")
    now, before = content_digests(given.items), run.digests(given.ids)
    is_gone = pc.equal(now, EMPTY)
    is_other = pc.fill_null(pc.and_not(pc.not_equal(now, now if before is None else before), is_gone), False)
    return [
        f"{len(ids):,} of {len(given):,} images {what} (for example '{ids[0]}')."
        for ids, what in (
            (given.ids.filter(is_gone), "are gone or can't be read"),
            (given.ids.filter(is_other), "are not what they were when the run saw them"),
        )
        if len(ids)
    ]


# ---------------------------------------------------------------- parts


def _read_through(path: Path) -> None:
    """Read a table that may not fit into memory to its end."""
    try:
        for _ in pq.ParquetFile(path, page_checksum_verification=True).iter_batches(64):
            pass
    except BROKEN_PARQUET as error:
        raise InputError(f"{path} is damaged") from error


def _read_features(folder: Path) -> None:
    """Refuse a folder of features in which something is damaged."""
    store = open_features(folder)
    if not store.ids.equals(read_source(folder, notify=silent).collection.ids):
        raise InputError(f"the features in {folder} are of other items")
    if not skipped_is_as_written(folder):
        raise InputError(f"the list of skipped items in {folder} is damaged or missing")


def _there(value: object, path: Path, needed: bool) -> None:
    if value is None and needed:
        raise InputError(f"{path} is missing")


def _remover(path: Path, listed_in: Run | None = None) -> Callable[[], None]:
    def remove() -> None:
        if path.is_dir() and listed_in is not None:
            with listed_in.contents.writing(*(file for file in listed_in.listed_files() if file.is_relative_to(path))):
                shutil.rmtree(path)
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    return remove


def _draw(run: Run) -> None:
    """Draw the page, and lay out the map if it is not whole."""
    draw_again(run, None, None, silent)


def _suggest(run: Run) -> None:
    """Propose names of the novel categories anew."""
    table = run.written_assignments()
    run.write_assignments(with_suggestions_of_run(run, table, features_of(run, table.column("id").combine_chunks())))


def _covers(run: Run, ids: pa.StringArray) -> None:
    """Refuse features that are not there for every item."""
    kept = run.features()
    if kept is None:
        raise InputError(f"{run.files.features} is missing")
    kept.of(ids, run)


def _all_classes(run: Run) -> None:
    """Refuse a run that lacks classes which an update had added."""
    if not run.files.model.exists():
        return
    description = run.read_model()[1]
    k, since = int(description.get("k", 0)), int((description.get("note") or {}).get("updates", 0))
    for number in range(since + 1, run.updates + 1):
        appended = run.read_update(number)
        k += 0 if appended is None else len(appended["prior"])
    expected = int(run.assignments_note().get("model_k", run.class_count()))  # people merge and make classes, too
    if k != expected:
        raise InputError(f"{run} has {expected} classes, but its model and its updates {k}")


def embedded_features(run: Run, ids: pa.StringArray) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Features (N, D) of the run's items from what the backbone made of them; a sentence if some are not there.

    Items that an update renamed have other ids there: then they don't follow.
    """
    sources = [read_source(folder, notify=silent).collection for folder in run.feature_folders()]
    if not sources:
        raise InputError(f"{run} keeps no features of its backbone")
    held = pa.concat_arrays([one.ids for one in sources])
    x = np.concatenate([np.asarray(one.items.x, dtype=np.float32) for one in sources])  # type: ignore[union-attr]
    return np.asarray(x[positions(ids, held, "the features", "restore them")], dtype=np.float32)
