"""A refit in the background: begun by the page, watched while it runs, then taken or thrown away."""

from __future__ import annotations

import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata
from ltgcd.discovery.classes import NOTE
from ltgcd.review.log import StaleError
from ltgcd.review.server.session import Seen, Session
from ltgcd.run.reviewed import BY_REFINE

if TYPE_CHECKING:
    from ltgcd.run.refine import Proposal

# Seconds to begin and for an item, before a refit has been timed here: what one took on two cores.
SECONDS = {"frozen": (3.0, 0.0005), "last-stage": (5.0, 0.009)}


class Refining:
    """The one refit that may run beside a session.

    Parameters
    ----------
    session : Session
        Whose review becomes the constraints of the next fit.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._lock = threading.Lock()
        self._state = "idle"
        self._message = ""
        self._started = 0.0
        self._seconds = 0.0
        start, item = SECONDS[session.run.config().get("regime", "frozen")]
        self._expected = start + item * len(session.material.ids)
        self._seen = session.seen  # the state that it is fitted to
        self._number = 0  # of the refit: one that was thrown away while it ran has no say when it ends
        self._found: Proposal | None = None
        self._taken: tuple[int, NDArray[np.int64]] | None = None  # base that the last one made, and what it changed

    def state(self) -> dict[str, Any]:
        """How far it is, and what it would change."""
        with self._lock:
            running = self._state == "running"
            answer: dict[str, Any] = {
                "state": self._state,
                "message": self._message,
                "seconds": round(time.monotonic() - self._started if running else self._seconds, 1),
                "expected_seconds": round(self._expected, 1),
            }
            answer["can_undo"] = self.session.run.written_note().get("by") == BY_REFINE
            answer["changed"] = len(self._changed())
            if self._found is not None:
                answer["diff"] = self._found.refined.difference
                answer["stale"] = self._seen != self.session.seen
            return answer

    def _changed(self) -> NDArray[np.int64]:
        """Rows that the last refit changed, where it was taken here and is what the page shows."""
        is_here = self._taken is not None and self._taken[0] == self.session.held.base
        return self._taken[1] if is_here and self._taken is not None else np.empty(0, dtype=np.int64)

    def changed(self) -> NDArray[np.int64]:
        """Rows that the last refit that was taken has moved."""
        with self._lock:
            return self._changed()

    def moves(self, pair: tuple[int, int] | None = None) -> dict[str, Any]:
        """What the refit that waits would move, or from one class to another: where to, and how sure it is of that.

        The least sure first; ``names`` are those of the classes that they would go to.
        """
        with self._lock:
            if self._found is None:
                raise InputError("There is no finished refit to look at.")
            refined = self._found.refined
        rows, table = refined.moved(pair), refined.table
        code, sure = (table.column(name).to_numpy()[rows] for name in ("label", "confidence"))
        order = np.lexsort((rows, sure))
        held = read_metadata(table.schema)[NOTE]
        names = dict(zip(held["codes"], held["names"], strict=True))
        return {
            "rows": rows[order].tolist(),
            "codes": code[order].tolist(),
            "confidence": np.round(sure[order].astype(np.float64), 4).tolist(),
            "names": {one: names[one] for one in np.unique(code).tolist()},
        }

    def begin(self, seen: Seen) -> dict[str, Any]:
        """Begin a refit of the state that the page has seen."""
        with self.session.lock:
            self.session.check(seen)
            now = self.session.seen
        with self._lock:
            if self._state == "running":
                raise InputError("A refit is running already; wait for it, or throw it away.")
            self._state, self._message, self._found = "running", "reading the run", None
            self._started, self._seen = time.monotonic(), now
            self._number += 1
            threading.Thread(target=self._work, args=(self._number,), daemon=True).start()
        return self.state()

    def _work(self, number: int) -> None:
        from ltgcd.run.refine import refine_run  # noqa: PLC0415 - brings torch, which nothing else here needs

        try:
            found = refine_run(self.session.run, notify=lambda sentence: self._say(number, sentence))
            self._end(number, "done", "", found)
        except (InputError, OSError) as error:
            self._end(number, "failed", " ".join(str(error).split()), None)
        except Exception as error:
            traceback.print_exception(error)
            self._end(number, "failed", "The refit broke off; the terminal of 'ltgcd review' says why.", None)

    def _say(self, number: int, sentence: str) -> None:
        with self._lock:
            if number == self._number:
                self._message = sentence

    def _end(self, number: int, state: str, message: str, found: Proposal | None) -> None:
        with self._lock:
            if number != self._number or self._state != "running":
                return
            self._state, self._message, self._found = state, message, found
            self._seconds = time.monotonic() - self._started
            if found is not None:
                self._expected = self._seconds

    def accept(self, seen: Seen) -> dict[str, Any]:
        """Take the result: it is written to the run, and the review goes on with it."""
        with self._lock:
            found, fitted_to = self._found, self._seen
        if found is None:
            raise InputError("There is no finished refit to take.")
        session = self.session
        with session.lock:
            session.check(seen)
            if fitted_to != session.seen:
                raise StaleError("The review was changed after this refit had begun; refit again, or throw it away.")
        with session.writing:
            found.keep()
        answer = self._refitted()
        with self._lock:
            self._taken = session.held.base, found.refined.moved()
        return {**answer, **self.state()}

    def undo(self, seen: Seen) -> dict[str, Any]:
        """Bring back what was before the last refit that was taken, if that is what the page shows."""
        from ltgcd.run.refine import undo_refine  # noqa: PLC0415

        with self.session.lock:
            self.session.check(seen)
            base = self.session.held.base
        with self.session.writing:
            undo_refine(self.session.run, base=base)
        return self._refitted()

    def _refitted(self) -> dict[str, Any]:
        self.session.refitted()
        return {**self.discard(), "reload": True, "version": self.session.held.version}

    def discard(self) -> dict[str, Any]:
        """Throw the result away, also that of one that is still running."""
        with self._lock:
            self._number += 1
            self._state, self._message, self._found = "idle", "", None
        return self.state()
