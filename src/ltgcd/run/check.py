"""What ``ltgcd check`` does: read every file of a run to its end, name what is damaged, rebuild what follows.

Every file carries its own checksum, and every command verifies what it reads; here all of them are read. What follows
from the rest can be made again: the page, the map, the table of labels after an update that was killed, the features
where the backbone's own are there. What does not follow is named, with what to do.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ltgcd.common.checksums import CHECKSUM, is_as_written, write_table
from ltgcd.common.errors import InputError
from ltgcd.common.files import read_json, write_json
from ltgcd.common.outputs import is_sealed
from ltgcd.data.collection import positions
from ltgcd.data.content_ids import content_digests
from ltgcd.data.npz import read_npz, write_npz
from ltgcd.data.parquet import read_parquet, read_table
from ltgcd.data.sources import read_source
from ltgcd.features.cache import open_features, skipped_is_as_written
from ltgcd.review.log import EventLog
from ltgcd.run.directory import Run
from ltgcd.run.files import file_is_as_written, read_lines
from ltgcd.run.identity import EMPTY
from ltgcd.run.report import draw_again
from ltgcd.run.reviewed import RunReview, check_log
from ltgcd.run.train import Notify, silent
from ltgcd.training.checkpoints import read_tensors
from ltgcd.training.methods import METHODS

AGAIN = "it can't be made from the rest: restore it from a copy, or start the run again in a new folder"


class Problem(NamedTuple):
    """Something that is wrong with a run.

    Attributes
    ----------
    file : path
        What is damaged, missing or left over.
    what : str
        A sentence: what is wrong, and what to do.
    repair : callable or None
        Makes it again from the rest; None if it does not follow.
    """

    file: Path
    what: str
    repair: Callable[[], None] | None = None


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
    for problem in chain(_find_unreadable(run, notify), _find_misplaced(run, named), _find_changed_bytes(run, named)):
        named.add(problem.file)
        yield problem


def _find_misplaced(run: Run, named: set[Path]) -> Iterator[Problem]:
    """Files that are whole, but not those that the run wrote there, and files that are gone."""
    listed = run.files.contents
    if listed in named:  # damaged: what it said is not known
        return
    if not listed.is_file():
        yield Problem(listed, "is missing; it is made again from what is there.", run.contents.list_anew)
        return
    for path, what in run.contents.disagreeing():
        if path not in named:
            forget = _curves_forgetter(run, path)
            yield Problem(path, f"{what}; {'only curves of training are in it' if forget else AGAIN}.", forget)


def _curves_forgetter(run: Run, path: Path) -> Callable[[], None] | None:
    """Goes on with what is left of the curves of training, from which nothing else follows."""
    if path != run.files.metrics or not _is_sound(lambda: read_lines(path)):
        return None

    def forget() -> None:
        with run.contents.writing(path):
            pass

    return forget


def _find_changed_bytes(run: Run, named: set[Path]) -> Iterator[Problem]:
    """Files that can be read, but not every byte of which is as it was written: another tool may read others.

    Also models that count no longer: a refine may be taken back.
    """
    for path in run.listed_files():
        if path.suffix == ".safetensors" and path not in named:
            yield from _tried(path, lambda path=path: read_tensors(path), AGAIN)  # type: ignore[misc]
    for path in run.sealed_files():
        if named & {path, path.parent} or file_is_as_written(path):
            continue
        again = _rewriter(run, path)
        cure = "what is read of it is whole, and it is written again" if again else AGAIN
        yield Problem(path, f"is not, byte for byte, what this version of ltgcd wrote; {cure}.", again)


def _rewriter(run: Run, path: Path) -> Callable[[], None] | None:
    """Writes a file again from what is read of it, where that has a checksum of its own."""
    write: Callable[[], None] | None = None
    if path.suffix == ".npz" and _is_sound(lambda: read_npz(path)):  # a zip archive has one of each array
        write = lambda: write_npz(path, read_npz(path))  # noqa: E731
    elif path.suffix == ".parquet" and is_as_written(read_parquet(path)):
        write = lambda: write_table(path, read_table(path))  # noqa: E731
    elif path.suffix == ".json" and CHECKSUM in read_json(path):
        write = lambda: write_json(path, read_json(path))  # noqa: E731
    if write is None:
        return None
    times = path.stat()

    def again() -> None:
        with run.contents.writing(*({path} & set(run.listed_files()))):
            write()
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # the page that was drawn of it is not older now

    return again


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
    yield from _tried(files.labels, run.labels, AGAIN)
    yield from _tried(
        files.metrics,
        lambda: read_lines(files.metrics),
        "it holds only the curves of training, which nothing else needs",
    )
    lost = list(_tried(files.assignments, run.class_count, AGAIN)) if run.finished else []
    yield from lost
    if lost:  # they say which model and which estimate count
        return
    if config.get("k") == "auto" or files.estimate.exists():
        needed = run.finished and run.model_files == files  # a refit may have had nothing to estimate
        yield from _tried(files.estimate, lambda: _there(run.estimate(), files.estimate, needed), AGAIN)
    for stage, path in run.checkpoint_files():
        if not _is_sound(lambda stage=stage, path=path: stage.read(path)):  # type: ignore[misc]
            yield Problem(path, "is damaged or of another place; training goes on from the one before.", _remover(path))
    if not run.finished:
        return
    known = METHODS.get(str(config.get("method")))
    if files.model.exists() or (known is not None and known.trained):
        yield from _tried(files.model, run.read_model, AGAIN)
    yield from _find_problems_of_items(run, notify)


def _find_problems_of_items(run: Run, notify: Notify) -> Iterator[Problem]:
    """What is wrong with what a finished run keeps of its items, and with what was drawn of them."""
    files, ids = run.files, run.assignments().column("id").combine_chunks()
    yield from _tried(files.assignments, lambda: _all_classes(run), "what an update added is gone: restore it")
    yield from _find_problems_of_the_review(run)
    if _is_sound(run.labels) and not run.labels_are_settled:
        yield Problem(files.labels, "lacks the labels of an update that was killed.", run.settle_labels)
    for path in run.abandoned_updates():
        yield Problem(path, "is of an update that was killed; run it again, or have it removed.", _remover(path, run))
    notify("reading the features")
    for folder in run.feature_folders():
        cure = "the command that made it makes the damaged part anew"
        yield from _tried(folder, lambda folder=folder: _read_features(folder), cure)  # type: ignore[misc]
    keeps_items = files.items.exists() or files.features.exists() or bool(run.updates) or bool(run.feature_folders())
    if not keeps_items:  # a run of 'ltgcd train' keeps labels and a model
        return
    if not _is_sound(lambda: _covers(run, ids)):
        follows = _is_sound(lambda: embedded_features(run, ids))
        yield Problem(
            files.features,
            f"is damaged, missing or lacks items; {'it follows from the features' if follows else AGAIN}.",
            (lambda: run.write_features(ids, embedded_features(run, ids))) if follows else None,
        )
    if files.items.exists() or run.feature_folders():
        yield from _tried(files.items, lambda: read_table(files.items), "give the items with --source where asked")
    if files.images.exists():
        yield from _tried(files.images, lambda: _read_through(files.images), AGAIN)
    if run.places() is None:
        yield Problem(files.map, "is damaged or missing; it is laid out anew.", lambda: _draw(run))
    if not run.report_is_current:
        yield Problem(
            files.report, "is damaged, missing or older than the labels; it is drawn again.", lambda: _draw(run)
        )
    if files.predictions.exists() and not is_sealed(files.predictions, "predictions"):
        yield Problem(files.predictions, "is damaged, or was changed; remove it and run 'ltgcd predict' again.")


def _find_problems_of_the_review(run: Run) -> Iterator[Problem]:
    """What is wrong with what people said, and with the labels that it is about."""
    lost = list(_tried(run.files.review, lambda: _read_log(run), "restore it from a copy"))
    yield from lost
    for number in run.states():
        path = run.state_file(number)
        yield from _tried(path, lambda number=number: run.read_state(number), AGAIN)  # type: ignore[misc]
    if not lost and _is_sound(lambda: RunReview.open(run)) and (held := RunReview.open(run)).pending:
        yield Problem(run.files.assignments, "lacks what was said last; it follows from the review.", _applier(held))


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


def _tried(path: Path, read: Callable[[], object], cure: str) -> Iterator[Problem]:
    """A problem if a file can't be read."""
    try:
        read()
    except (InputError, OSError) as error:
        said = str(error).partition("; ")[0].rstrip(".")
        yield Problem(path, f"{said}; {cure}.")


def _is_sound(read: Callable[[], object]) -> bool:
    try:
        read()
    except (InputError, OSError):
        return False
    return True


def _read_through(path: Path) -> None:
    """Read a table that may not fit into memory to its end."""
    try:
        for _ in pq.ParquetFile(path, page_checksum_verification=True).iter_batches(64):
            pass
    except (pa.ArrowException, OSError) as error:
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
