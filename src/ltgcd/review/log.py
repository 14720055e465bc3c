"""The log of a review: every event, kept for good in SQLite. Nothing is changed or deleted; an undo is a row, too.

An action is what a person did in one go (a file of corrections, a key press) and may hold many events; undo and redo go
action by action, also after a restart. What is active follows from the rows alone, read from the first to the last.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ltgcd.common.errors import InputError
from ltgcd.review.state import Event

BUSY_SECONDS = 10  # how long a second writer waits
FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY,     -- order of all events
    action INTEGER NOT NULL,     -- what a person did in one go
    base INTEGER NOT NULL,       -- the fit that it was said about: 0 is the first
    time REAL NOT NULL,          -- seconds since 1970
    author TEXT NOT NULL,
    op TEXT NOT NULL,            -- an operation of state.py, or undo, or redo
    args TEXT NOT NULL,          -- JSON, without the rows
    rows BLOB,                   -- rows of items, int32, compressed: an action may name all of them
    key TEXT NOT NULL,           -- given by who sent the action, so that sending it again does nothing
    digest TEXT NOT NULL         -- of the columns from action on: SQLite does not notice a changed byte
)
"""


class StaleError(InputError):
    """Somebody else has said something since this one looked."""


class Kept(NamedTuple):
    """An event as the log holds it."""

    seq: int
    action: int
    base: int
    time: float
    author: str
    event: Event


class Step(NamedTuple):
    """An action with its events, and whether it counts."""

    action: int
    events: list[Kept]
    active: bool


class EventLog:
    """The log in a file; making the object touches nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def _open(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        """A connection; with `write` a transaction that is whole or did not happen."""
        try:
            with closing(sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                if write:
                    connection.execute("BEGIN IMMEDIATE")
                    connection.execute(_SCHEMA)
                    connection.execute("CREATE INDEX IF NOT EXISTS by_key ON events (key)")
                    connection.execute(f"PRAGMA user_version = {FORMAT}")
                yield connection
                if write:
                    connection.execute("COMMIT")
        except (sqlite3.Error, UnicodeDecodeError) as error:  # it quotes a damaged schema, which may be no text
            raise InputError(f"{self.path} can't be read or written ({error}); restore it from a copy.") from error

    def append(
        self, events: Sequence[Event], base: int = 0, author: str = "", key: str = "", expected: int | None = None
    ) -> int:
        """Keep the events of one action; they are on the disk when this returns. Gives the number of the action.

        Parameters
        ----------
        events : sequence of dict
            What a person did in one go.
        base : int
            Number of the fit that it is about.
        author : str
            Who says so.
        key : str
            An action with a key that the log has is there already: nothing is kept, and its number is given.
        expected : int, optional
            The last event that the caller has seen; if there are later ones, nothing is kept.
        """
        with self._open(write=True) as connection:
            if key and (held := connection.execute("SELECT action FROM events WHERE key = ?", (key,)).fetchone()):
                return int(held[0])
            seen, last = connection.execute(
                "SELECT COALESCE(MAX(seq), 0), COALESCE(MAX(action), 0) FROM events"
            ).fetchone()
            if expected is not None and seen != expected:
                raise StaleError("Something else was said about this run meanwhile; look again.")
            action = int(last) + 1
            for event in events:
                row = (action, base, time.time(), author, event["op"], *_packed(event), key)
                connection.execute(
                    "INSERT INTO events (action, base, time, author, op, args, rows, key, digest) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (*row, _digest(row)),
                )
        return action

    def has_key(self, key: str) -> bool:
        """Whether an action with this key is kept."""
        if not key or not self.path.is_file():
            return False
        with self._open(write=False) as connection:
            return _is_made(connection) and bool(
                connection.execute("SELECT 1 FROM events WHERE key = ?", (key,)).fetchone()
            )

    def version(self) -> int:
        """Number of the last event of all; 0 before the first."""
        if not self.path.is_file():
            return 0
        with self._open(write=False) as connection:
            if not _is_made(connection):
                return 0
            return int(connection.execute("SELECT COALESCE(MAX(seq), 0) FROM events").fetchone()[0])

    def digest(self, seq: int) -> str | None:
        """Digest of an event, which no other event has; None if there is none of this number."""
        if not self.path.is_file():
            return None
        with self._open(write=False) as connection:
            found = (
                _is_made(connection)
                and connection.execute("SELECT digest FROM events WHERE seq = ?", (seq,)).fetchone()
            )
        return str(found[0]) if found else None

    def kept(self, base: int | None = None, after: int = 0) -> list[Kept]:
        """Every row of the log, or of one base, behind the event `after`."""
        if not self.path.is_file():
            return []
        with self._open(write=False) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version not in (0, FORMAT):
                raise InputError(f"{self.path} was written by a later version of ltgcd; install that one.")
            if not _is_made(connection):
                return []
            query = (
                "SELECT seq, action, base, time, author, op, args, rows, key, digest FROM events "
                "WHERE seq > ? AND base = COALESCE(?, base) ORDER BY seq"
            )
            found = connection.execute(query, (after, base)).fetchall()
        if not all(_digest(tuple(row[1:-1])) == row[-1] for row in found):
            raise InputError(f"{self.path} is damaged: an event is not what was kept; restore it from a copy.")
        return [
            Kept(seq, action, of, when, author, _unpacked(op, args, rows, self.path))
            for seq, action, of, when, author, op, args, rows, _, _ in found
        ]


def replayed(kept: Sequence[Kept]) -> tuple[list[Step], list[int]]:
    """Actions of some rows of the log in order, and those that can be redone, the next one last."""
    by_action: dict[int, list[Kept]] = {}
    active: dict[int, bool] = {}
    waiting: list[int] = []
    for one in kept:
        op = one.event["op"]
        if op in ("undo", "redo"):
            named = one.event["actions"]
            for action in named:
                active[action] = op == "redo"
            waiting = [*waiting, *named[::-1]] if op == "undo" else [a for a in waiting if a not in named]
            continue
        if one.action not in by_action:
            waiting = []  # something new was said: what was taken back before it is past
        by_action.setdefault(one.action, []).append(one)
        active.setdefault(one.action, True)
    return [Step(action, events, active[action]) for action, events in by_action.items()], waiting


def _is_made(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT name FROM sqlite_master WHERE name = 'events'").fetchone())


def _digest(row: tuple[Any, ...]) -> str:
    """SHA-256 of the columns of a row."""
    digest = hashlib.sha256()
    for cell in row:
        cell = cell if isinstance(cell, bytes) else repr(cell).encode()  # noqa: PLW2901
        digest.update(b"%d:" % len(cell) + cell)
    return digest.hexdigest()


def _packed(event: Event) -> tuple[str, bytes | None]:
    """Arguments of an event as JSON, and its rows apart."""
    args = json.dumps({key: value for key, value in event.items() if key not in ("op", "rows")}, default=_plain)
    if "rows" not in event:
        return args, None
    return args, zlib.compress(np.asarray(event["rows"], dtype="<i4").tobytes(), level=1)


def _plain(value: Any) -> Any:  # noqa: ANN401 - numbers and arrays of NumPy's
    return value.tolist()


def _unpacked(op: str, args: str, rows: bytes | None, path: Path) -> dict[str, Any]:
    try:
        event: dict[str, Any] = {"op": op, **json.loads(args)}
        if rows is not None:
            event["rows"] = np.frombuffer(zlib.decompress(rows), dtype="<i4").astype(np.int64).tolist()
    except (ValueError, TypeError, zlib.error) as error:
        raise InputError(f"{path} holds an event that can't be read; restore it from a copy.") from error
    return event
