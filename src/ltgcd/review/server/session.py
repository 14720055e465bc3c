"""A review of a run in memory: the state that all pages share, and every change to it, one at a time.

What a page is told was done is on the disk. A page says which state its action is about (`Seen`), and is refused if
another page, or another command, has done something since: nobody overwrites what he has not seen.
"""

from __future__ import annotations

import base64
import dataclasses
import getpass
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata
from ltgcd.discovery.classes import STATUSES
from ltgcd.output.export.formats import export_items
from ltgcd.output.report.page import KINDS, facts_of_fit, k_curve
from ltgcd.output.report.sentences import estimate_sentence, expected_right, plural
from ltgcd.output.report.terms import Vocabulary
from ltgcd.review.log import StaleError
from ltgcd.review.server import lookups
from ltgcd.review.server.described import Described
from ltgcd.review.server.history import history, news, sentences_of
from ltgcd.review.server.material import Material, read_material
from ltgcd.review.server.thumbnails import Thumbnails
from ltgcd.review.state import Event
from ltgcd.run.directory import Run
from ltgcd.run.export import with_given
from ltgcd.run.report import appended_classes, draw_again
from ltgcd.run.reviewed import RunReview

MAGIC = b"LTG1"
GIVEN, LABELLED, DRAWN = 1, 2, 4  # bits of an item's flags
LISTED = 1000  # rows of an answer as lists of numbers; more are packed, which takes a tenth of the time
TERM_SECONDS = 1.0  # that the first state waits for the words of the texts
MOST_EVENTS = 10_000  # of an action


def _here(told: str) -> str:
    """What is said of a key of this page, on this page."""
    return told.replace(" in 'ltgcd review'", "")


class Seen(NamedTuple):
    """A state that a page shows. An update and a refine add no event: the last event alone does not tell.

    Attributes
    ----------
    version : int
        Number of the last event.
    base, n : int or None
        Of the labels that the events are about, and of the items; None for those that the server began with.
    """

    version: int
    base: int | None = None
    n: int | None = None


class Session:
    """A review that pages look at and edit. All methods may be called from several threads.

    Parameters
    ----------
    run : Run
        A finished run.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.lock = threading.RLock()
        self.writing = threading.Lock()  # one of us at a time asks for the lock of the run
        self._drawing: threading.Thread | None = None
        self._threads = ThreadpoolController()
        self._begin(RunReview.open(run))
        self._first = self.seen
        self._unread: tuple[object, InputError] | None = None  # a state of the run that could not be read, and why

    def _begin(self, held: RunReview) -> None:
        """Read the items, and describe the classes; where they can't be read, everything is as it was."""
        self.material: Material = read_material(self.run, held.review.base)
        self.held = held
        self._sent: dict[int, dict[str, Any]] = {}  # classes by code as every page holds them that has seen this state
        self.described = Described(self.material.z, self.material.y, self.held.review)
        self.thumbnails = Thumbnails(self.material.items, self.material.pictures)
        threading.Thread(target=self.held.encode_state, daemon=True).start()
        self._words = threading.Thread(target=self._read_words, args=(self.material, self.described), daemon=True)
        self._words.start()

    @classmethod
    def open(cls, folder: Path | str) -> Session:
        """The review of the run in a folder, or one sentence about why there is none."""
        run = Run.open(folder)
        if not run.finished:
            raise InputError(f"{folder} is not finished yet; run the same command again to go on with it.")
        return cls(run)

    def _read_words(self, material: Material, described: Described) -> None:
        """Count the words of the texts, beside everything else."""
        found = material.vocabulary(described.now)
        if found is not None:
            self.learn_words(described, *found)

    def learn_words(self, described: Described, vocabulary: Vocabulary, rows: NDArray[np.int64]) -> None:
        """Describe the classes by the words of some rows, too, from now on."""
        with self.lock:
            described.set_vocabulary(vocabulary, rows)
            self._sent = {}

    # ------------------------------------------------------------ what there is

    @property
    def seen(self) -> Seen:
        """What a page has seen that looks now."""
        return Seen(self.held.version, self.held.base, len(self.material.ids))

    def state(self) -> dict[str, Any]:
        """All that the page shows at first, without the items."""
        self._words.join(TERM_SECONDS)
        with self.lock:
            self._catch_up()
            return {
                "mode": "server",
                "run": str(self.run),
                "title": self.run.folder.resolve().name,
                "kind": self.material.kind,
                "tiny": self.thumbnails.are_tiny(),
                "meta": self._facts(),
                "curve": k_curve(self.material.estimate),
                "added": lookups.added_by_update(self.held.review.base),
                "audit": lookups.audit_of_all(self.described, self._machine(), self.run.seed),
                **self._figures(),
                "classes": self.described.classes(),
            }

    def _facts(self) -> dict[str, Any]:
        """What the overview says of the fit."""
        note, estimate = read_metadata(self.held.review.base.schema), self.material.estimate
        error, refined = note.get("calibration_error"), bool(note.get("refined"))
        n, labelled = len(self.material.ids), self.material.n_labelled
        lead = _here(
            f"{plural(n, *KINDS[self.material.kind])}, {labelled:,} of them labelled. {expected_right(error, refined)}"
        )
        return {"lead": lead, **facts_of_fit(estimate, error, note.get("calibration_chance"), self.run.seed, refined)}

    def _figures(self) -> dict[str, Any]:
        """What every action may change."""
        tally, held = self.described.tally, self.held
        counted = {name: int(count) for name, count in zip(STATUSES, tally.statuses, strict=True)}
        counted["given"] = tally.given_items
        counted["labelled"] = self.material.n_labelled
        return {
            **self.seen._asdict(),
            "changes": held.can_undo,
            "unapplied": held.pending,
            "undo": held.can_undo,
            "redo": held.can_redo,
            "k": self._class_number(),
            "counts": counted,
            "settled": tally.settled,
            "next_code": held.review.next_code,
        }

    def _class_number(self) -> dict[str, Any]:
        """The number of classes that are there, and one statement of what it is beside what was estimated before."""
        has_items = self.described.sizes > 0
        there, settled = int(has_items.sum()), int((has_items & (self.described.accepted | self.described.known)).sum())
        now = f"{plural(there, 'class has', 'classes have')} items now; {settled:,} of them known or confirmed."
        note, estimate = read_metadata(self.held.review.base.schema), self.material.estimate
        before = estimate_sentence(estimate, appended_classes(note, estimate))
        return {"k": there, "sentence": _here(" ".join(filter(None, [now, before])))}

    def items(self) -> bytes:
        """Places, classes, statuses, confidences and flags of all items as one block, see the page's ``readItems``."""
        with self.lock:
            now = self.described.now
            columns = (
                np.array([len(now.code)], dtype="<u4"),
                self.material.xy.astype("<f4"),
                now.code.astype("<i4"),
                now.status,
                np.round(255 * now.confidence).astype(np.uint8),
                self._flags(slice(None)),
            )
        return MAGIC + b"".join(column.tobytes() for column in columns)

    def _flags(self, rows: slice | NDArray[np.int64]) -> NDArray[np.uint8]:
        given, labelled = self.described.now.given[rows], self.material.labelled[rows]
        flags = GIVEN * given + LABELLED * labelled + DRAWN * self.material.drawn[rows]
        return np.asarray(flags, dtype=np.uint8)

    def check_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows that are there, or a sentence."""
        n = len(self.material.ids)
        if len(rows) and not 0 <= rows.min() <= rows.max() < n:
            raise InputError(f"There is no such item: rows go from 0 to {n - 1}.")
        return rows

    def history(self, limit: int) -> list[dict[str, Any]]:
        """What was done, the last first."""
        with self.lock:
            return history(self.held, limit)

    def news(self, version: int, base: int, n: int) -> dict[str, Any]:
        """What was done since a page has seen an event, a base and n items, in a sentence; an empty one for nothing."""
        with self.lock:
            self._catch_up()
            return {"base": self.held.base, "sentence": news(self.held, version, base, n)}

    def audit(self, code: int, n: int) -> dict[str, Any]:
        """A random sample of a class, and what it has told so far."""
        with self.lock:
            return lookups.audit(self.described, self._machine(), self.run.seed, code, n)

    def export(self) -> bytes:
        """The labels as they are now, as ``ltgcd export --format csv`` writes them."""
        with self.lock:
            table = self.held.review.table()
        with tempfile.TemporaryDirectory() as place:
            table = with_given(table, self.described.labelled)
            export_items(table, self.material.with_texts, "csv", Path(place) / "labels.csv")
            return (Path(place) / "labels.csv").read_bytes()

    def _machine(self) -> NDArray[np.int64]:
        events = [kept.event for step in self.held.steps() if step.active for kept in step.events]
        return lookups.machine_codes(self.held.review, events)

    # ------------------------------------------------------------ changes

    def act(self, events: list[Event], seen: Seen, key: str) -> dict[str, Any]:
        """Do what a person did in one go; it is on the disk when this returns."""
        if len(events) > MOST_EVENTS:
            raise InputError(f"An action has at most {MOST_EVENTS:,} edits; send it in parts.")
        return self._change(lambda: self.held.act(events, author=_author(), key=key), seen, key)

    def undo(self, seen: Seen, key: str) -> dict[str, Any]:
        """Take back the last action."""
        return self._turn(lambda: self.held.undo(key=key), seen, key)

    def redo(self, seen: Seen, key: str) -> dict[str, Any]:
        """Do again what was taken back last."""
        return self._turn(lambda: self.held.redo(key=key), seen, key)

    def _turn(self, change: Callable[[], object], seen: Seen, key: str) -> dict[str, Any]:
        """Take something back, or do it again, and say what it was."""
        with self.lock:
            before = {step.action for step in self.held.steps() if step.active}
            answer = self._change(change, seen, key)
            turned = before ^ {step.action for step in self.held.steps() if step.active}
            lines = sentences_of(self.held.steps(), self.held.review.classes)
            said = [sentence for step, sentence in lines if step.action in turned]
            return {**answer, "sentence": "; ".join(said)}

    def _change(self, change: Callable[[], object], seen: Seen, key: str) -> dict[str, Any]:
        with self.lock:
            if key and self.held.log.has_key(key):  # sent again, for the first answer was lost
                self._catch_up()
                return {"reload": True, **self._figures(), "classes": self.described.classes()}
            self.check(seen)
            try:
                change()
            except StaleError:
                with suppress(InputError):  # the page is told that it is late, whatever can be read
                    self._catch_up()
                raise
            return self._changed()

    def check(self, seen: Seen) -> None:
        """Refuse whoever has not seen what is there now: the last event, fit and update, of this process or another."""
        with suppress(InputError):  # what can't be read yet can't be changed either: whoever writes finds out
            self._catch_up()
        base = self._first.base if seen.base is None else seen.base
        n = self._first.n if seen.n is None else seen.n
        if Seen(seen.version, base, n) != self.seen:
            raise StaleError("Something else was changed meanwhile, in another tab or by a command; look again.")

    def _changed(self) -> dict[str, Any]:
        with self._threads.limit(limits=1):  # small sums: on a busy machine threads would wait for each other
            rows = self.described.update(self.held.review)
        now = self.described.now
        changed = {
            "rows": rows.astype("<i4"),
            "codes": now.code[rows].astype("<i4"),
            "statuses": now.status[rows],
            "flags": self._flags(rows),
        }
        answer = {**self._figures(), **self._changed_classes()}
        if len(rows) <= LISTED:
            return {**{name: column.tolist() for name, column in changed.items()}, **answer}
        packed = {name: base64.b64encode(column.tobytes()).decode() for name, column in changed.items()}
        return {"packed": packed, **answer}

    def _changed_classes(self) -> dict[str, Any]:
        """All classes in order, and those that are others than after the change before, which every page has seen.

        Where pages may hold others, for they have looked before the words were counted or before another fit, all are.
        """
        every = self.described.classes()
        before, self._sent = self._sent, {one["code"]: one for one in every}
        return {"order": list(self._sent), "classes": [one for one in every if before.get(one["code"]) != one]}

    def _catch_up(self) -> None:
        """Read again what another process has said since, or the items that it has added."""
        note, version = self.run.written_note(), self.held.log.version()
        if (
            version == self.held.version
            and self.held.is_about(note)
            and len(self.held.review) == len(self.material.ids)
        ):
            return
        listed = self.run.contents.path.stat().st_mtime_ns if self.run.contents.path.is_file() else 0
        now = note, version, listed  # the list of its files is written with every one of them
        if self._unread is not None and self._unread[0] == now:
            raise self._unread[1]
        try:
            self._take(RunReview.open(self.run))
        except InputError as error:
            self._unread = now, error
            raise

    def refitted(self) -> None:
        """Go on with another fit, which the run holds now."""
        with self.lock:
            self._take(RunReview.open(self.run))

    def _take(self, held: RunReview) -> None:
        """Go on with what was said, fitted or added."""
        if len(held.review) != len(self.material.ids):
            self._begin(held)  # refused while an update still writes its items: then it is asked again
            return
        if held.base != self.held.base:  # another fit has another estimate, or none
            self.material = dataclasses.replace(self.material, estimate=self.run.estimate())
        self.held, self._sent = held, {}
        self.described.update(held.review)

    # ------------------------------------------------------------ into the run

    def apply(self, seen: Seen) -> dict[str, Any]:
        """Write the labels as they are now into the run; its page is drawn beside."""
        with self.lock:
            self.check(seen)
        with self.writing, self.run.lock("ltgcd review"), self.lock:
            self.check(seen)
            self.held.apply(seen=True)
            answer = self._figures()
        self.draw()
        return answer

    def draw(self) -> None:
        """Draw the page of the run beside everything else."""
        self.close()
        self._drawing = threading.Thread(target=self._draw)
        self._drawing.start()

    def _draw(self) -> None:
        note = self.run.written_note()

        @contextmanager
        def writing() -> Iterator[None]:
            """The lock of the run for a moment only, so that edits need not wait until the page is drawn."""
            with self.lock, self.run.lock("ltgcd review"):
                if self.run.written_note() != note:
                    raise StaleError(f"{self.run} was written again meanwhile.")
                yield

        try:
            draw_again(self.run, None, None, lambda _stage: None, writing)
        except (InputError, OSError):  # another command has the run: it draws the page itself, or 'ltgcd report' does
            return

    def close(self) -> None:
        """Finish what has been begun."""
        if self._drawing is not None:
            self._drawing.join()


def _author() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return ""
