"""The review of a run: what people said about its labels, on top of what its last fit or update left.

A review is about a *base*: the labels as a fit or an update left them, kept as a table of their own. Every event says
which base it is about. The labels that count are the base with its events replayed; `ltgcd refine` and `ltgcd update`
begin a new base. An event is on the disk before anybody is told that it is, and the file of assignments is written
after it: killed in between, `Run.assignments` still gives what was said.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from ltgcd.common.checksums import write_table
from ltgcd.common.errors import BusyError, InputError
from ltgcd.common.files import read_metadata, with_metadata
from ltgcd.discovery.classes import NOTE, Classes, classes_of
from ltgcd.review.log import EventLog, Kept, StaleError, Step, replayed
from ltgcd.review.state import Event, Review, begin, carried_out, replay
from ltgcd.run.labels import LABEL_CODES, codes_of_labels

if TYPE_CHECKING:
    from ltgcd.run.directory import Run

LAST_EVENT = "last_event"  # in the note of the assignments: the digest of the last event that is in them
BY_REFINE = "refine"  # how a base came about, in the note of the assignments
PATIENCE = 5.0  # seconds that an edit waits for another process that is writing
REMEMBERED = 16  # states that an undo need not make again


def with_review(run: Run, table: pa.Table) -> pa.Table:
    """Assignments with everything that people have said about them, also what is not in their file yet."""
    log, note = EventLog(run.files.review), read_metadata(table.schema)
    version = log.version()
    if version <= int(note.get("events", 0)):
        return table  # all that was said is in it, also if the log is gone
    check_log(run, note)
    base = int(note.get("base", 0))
    if base not in run.states():  # it was about to be kept for the first event, which never came
        return table
    return _noted(_replayed(run, base, log.kept(base)), log, version)


def check_log(run: Run, note: dict[str, Any] | None = None) -> None:
    """Refuse a log of events that is not the one which the assignments were written with, or an older one of it."""
    note = run.written_note() if note is None else note
    events, digest = int(note.get("events", 0)), note.get(LAST_EVENT)
    log = EventLog(run.files.review)
    if not events:
        if log.version():  # assignments that another tool rewrote don't say which base the events are about
            run.class_count(note)
        return
    if log.version() < events or (digest is not None and log.digest(events) != digest):
        raise InputError(
            f"{run.files.review} is missing, of another run or older than the labels, which were written after "
            f"{events} events; restore it from a copy."
        )


def base_table(run: Run, table: pa.Table) -> pa.Table:
    """Assignments as a review can begin with them: they say by themselves which classes there are, and whose labels."""
    run.class_count(read_metadata(table.schema))  # refused if another tool has rewritten them
    names = run.labels().class_names
    note = {"n_old": len(names), **read_metadata(table.schema)}
    classes = classes_of(note, names[: note["n_old"]])
    codes = codes_of_labels(names, note, classes)
    note |= {NOTE: classes.as_note(), LABEL_CODES: codes.tolist(), "base": int(note.get("base", 0))}
    return with_metadata(table, {"model_k": int(note["k"]), **note})


def _replayed(run: Run, base: int, kept: Sequence[Kept]) -> Review:
    events = [one.event for step in replayed(kept)[0] if step.active for one in step.events]
    return replay(begin(run.read_state(base), (), next_code(kept)), events)


def next_code(kept: Sequence[Kept]) -> int:
    """First code that no class had in these events, also in none that was taken back."""
    codes = [0]
    for one in kept:
        codes += one.event.get("codes", [])
        if one.event["op"] == "create":
            codes.append(one.event["code"])
    return max(codes) + 1


def _noted(review: Review, log: EventLog, version: int) -> pa.Table:
    """The labels as they are after an event of the log."""
    table = review.table()
    return with_metadata(table, {**read_metadata(table.schema), **_last(log, version)})


def _last(log: EventLog, version: int) -> dict[str, Any]:
    """The last event that labels are with, for their note."""
    return {"events": version, LAST_EVENT: log.digest(version)}


class Earlier(NamedTuple):
    """A base that was reviewed before: what ended it (`BY_REFINE` or ``update``), when, its classes and actions."""

    ended_by: str
    ended: float | None
    classes: Classes
    steps: list[Step]


class RunReview:
    """The review of a run, in memory: say something, take it back, and write it to the assignments.

    Attributes
    ----------
    run : Run
        The run, finished.
    base : int
        Number of the base that is reviewed.
    version : int
        Last event that this object has seen.
    review : Review
        The labels now.
    """

    def __init__(self, run: Run) -> None:
        self.run, self.log = run, EventLog(run.files.review)
        self.refresh()

    @classmethod
    def open(cls, run: Run) -> RunReview:
        """The review of a finished run, whether anything was said yet or not."""
        return cls(run)

    def refresh(self) -> None:
        """Look again: another process may have said something, or begun another base."""
        written = self.run.written_assignments()
        self.base = int(read_metadata(written.schema).get("base", 0))
        self.applied = int(read_metadata(written.schema).get("events", 0))
        self._updates = read_metadata(written.schema).get("updates")
        check_log(self.run, read_metadata(written.schema))
        self.version = self.log.version()
        self._kept = self.log.kept(self.base)
        self._states: dict[tuple[int, ...], Review] = {}
        # The first base is the file itself until something is said about it; every other one has a state of its own.
        is_file = not self.base and not self._kept and self.base not in self.run.states()
        self._first = base_table(self.run, written) if is_file else None
        self._encoded: tuple[pa.Table, bytes] | None = None  # a table that was made a file, see `encode_state`
        self._steps, self._waiting = replayed(self._kept)
        start = self.run.read_state(self.base) if self._first is None else self._first
        self._begin = begin(start, (), next_code(self._kept))
        self.review = replay(self._begin, self.events())
        self._remember()

    def is_about(self, note: dict[str, Any]) -> bool:
        """Whether assignments with this note are those that this review has read, but for what was said of them.

        An update of a run that nobody has reviewed begins no base: its number tells that there are more items.
        """
        return int(note.get("base", 0)) == self.base and note.get("updates") == self._updates

    # ------------------------------------------------------------ what was said

    def steps(self) -> list[Step]:
        """Every action about this base in order, and whether it counts."""
        return self._steps

    def events(self) -> list[Event]:
        """The events that count, in order."""
        return [one.event for step in self._steps if step.active for one in step.events]

    @property
    def made_by(self) -> str:
        """How this base came about: `BY_REFINE`, ``update``, or nothing for the first."""
        return str(read_metadata(self._begin.base.schema).get("by", ""))

    def earlier(self) -> Iterator[Earlier]:
        """What was said before this base came about, base by base, the last first."""
        note = read_metadata(self._begin.base.schema)
        while (before := note.get("before")) is not None and before in self.run.states():
            next_one = self.run.state_file(int(note.get("base", 0)))  # written when this one was taken
            ended = next_one.stat().st_mtime if next_one.is_file() else None
            ended_by, note = str(note.get("by", "")), self.run.note_of(self.run.state_file(before))
            yield Earlier(ended_by, ended, classes_of(note, ()), replayed(self.log.kept(before))[0])

    @property
    def can_undo(self) -> int:
        """How many actions can be taken back."""
        return sum(step.active for step in self._steps)

    @property
    def can_redo(self) -> int:
        """How many actions that were taken back can count again."""
        return len(self._waiting)

    @property
    def pending(self) -> int:
        """By how many actions the labels differ from the file of assignments: said since, or taken back since."""
        written = replayed([one for one in self._kept if one.seq <= self.applied])[0]
        return len({step.action for step in written if step.active} ^ set(self._key()))

    @property
    def is_written(self) -> bool:
        """Whether the file of assignments knows of every event, also of one that was taken back."""
        return all(one.seq <= self.applied for one in self._kept)

    # ------------------------------------------------------------ say something

    def act(self, events: Sequence[Event], author: str = "", key: str = "", *, applies: bool = False) -> int:
        """Keep what a person did in one go; it is on the disk when this returns. Gives the number of the action.

        Parameters
        ----------
        events : sequence of dict
            See `ltgcd.review.state`; what can't be is one sentence, and then nothing is kept.
        author : str
            Who says so.
        key : str
            Sent again with the same key, an action is not kept twice.
        applies : bool
            Whether the assignments are written, too, under the same lock: all of it is done, or nothing.
        """
        if not events:
            raise InputError("Nothing was said; name at least one edit.")
        if self.log.has_key(key):
            return self._again(key)
        events, after = carried_out(self.review, events, fresh=True)
        with self._writing(applies):
            action = self.log.append(events, self.base, author, key, self.version)
            self._look_at_new_events(after)
            if applies:
                self.apply()
        return action

    def undo(self, n: int = 1, author: str = "", key: str = "", *, applies: bool = False) -> int:
        """Take back the last actions that count; gives how many. `applies` as in `act`."""
        active = [step.action for step in self._steps if step.active]
        return self._turn("undo", active[-n:] if n > 0 else [], author, key, applies)

    def redo(self, n: int = 1, author: str = "", key: str = "") -> int:
        """Let actions count again that were taken back last; gives how many."""
        return self._turn("redo", self._waiting[-n:][::-1] if n > 0 else [], author, key)

    def _turn(self, op: str, actions: list[int], author: str, key: str, applies: bool = False) -> int:
        if not actions:
            return 0
        if self.log.has_key(key):
            self._again(key)
            return len(actions)
        with self._writing(applies):
            self.log.append([{"op": op, "actions": actions}], self.base, author, key, self.version)
            self._look_at_new_events(None)
            if applies:
                self.apply()
        return len(actions)

    def _again(self, key: str) -> int:
        self.refresh()
        return self.log.append([], self.base, key=key)

    def _look_at_new_events(self, after: Review | None) -> None:
        """Take up what was just kept; `after` is what it comes to, where that is known."""
        self._first = self._encoded = None
        self._kept += self.log.kept(self.base, self.version)
        self._steps, self._waiting = replayed(self._kept)
        self.version = self.log.version()
        if after is None:
            after = self._states.get(self._key()) or replay(self._begin, self.events())
        floor = max(after.next_code, next_code(self._kept))
        self.review = after if floor == after.next_code else after.with_next_code(floor)
        self._remember()

    def _key(self) -> tuple[int, ...]:
        return tuple(step.action for step in self._steps if step.active)

    def _remember(self) -> None:
        self._states[self._key()] = self.review
        while len(self._states) > REMEMBERED:
            self._states.pop(next(iter(self._states)))

    @contextmanager
    def _writing(self, applies: bool) -> Iterator[None]:
        """The run's lock for a moment, and the base still there that the event is about."""
        what = "ltgcd relabel" if applies else "ltgcd review"
        ends = time.monotonic() + PATIENCE
        while True:
            try:
                with self.run.lock(what, sweeps=applies):
                    self.run.check_writable()  # what is kept counts: it must not be told afterwards that it does not
                    if not self.is_about(self.run.written_note()):
                        raise StaleError("The run was fitted again or updated meanwhile; look again.")
                    if self._first is not None:
                        made = self._encoded
                        encoded = made[1] if made is not None and made[0] is self._first else None
                        self.run.write_state(self.base, self._first, encoded)
                    yield
                return
            except BusyError:
                if time.monotonic() > ends:
                    raise
                time.sleep(0.05)

    # ------------------------------------------------------------ write it

    def encode_state(self) -> None:
        """Make the file of the labels that this review begins with, so that its first edit only has to write it."""
        if (first := self._first) is None:
            return
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "state.parquet"
            write_table(path, first)
            encoded = path.read_bytes()
        self._encoded = first, encoded

    def keep_state(self) -> None:
        """Keep the labels that this review began with, for who has the lock of the run."""
        if self._first is not None:
            self.run.write_state(self.base, self._first)
            self._first = None

    def apply(self, *, seen: bool = False) -> pa.Table:
        """Write the labels as they are now to the assignments, for who has the lock of the run; these are returned.

        Between what was said and this, another process may have said more, or begun another base with it: an update.
        That is applied, too, unless people look at this review: with `seen` nothing is written that they don't see.
        """
        if not self.is_about(self.run.written_note()) or self.log.version() != self.version:
            if seen:
                raise StaleError(f"{self.run} was changed meanwhile; look again.")
            self.refresh()
        if self.is_written:
            return self.run.written_assignments()
        table = _noted(self.review, self.log, self.version)
        self.run.write_assignments(table)
        self.applied = self.version
        return table

    def last_base(self) -> pa.Table:
        """Go back to the base before this one, for who has the lock of the run; its labels count from now on."""
        note = self.run.written_note()
        before = note.get("before")
        if before is None or before not in self.run.states():
            raise InputError(f"{self.run} has no earlier state to go back to.")
        table = _noted(_replayed(self.run, before, self.log.kept(before)), self.log, self.log.version())
        self.run.write_assignments(table)
        self.refresh()
        return table

    def next_base(self, table: pa.Table, note: dict[str, Any]) -> pa.Table:
        """Begin another base with these labels, for who has the lock of the run; they count from now on.

        `note` says how they came about.
        """
        number = max([self.base, *self.run.states()]) + 1
        held = read_metadata(table.schema)
        table = with_metadata(
            table, {**held, **note, "base": number, "before": self.base, **_last(self.log, self.log.version())}
        )
        self.run.write_state(number, table)
        self.run.write_assignments(table)
        return table
