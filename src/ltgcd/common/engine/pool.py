"""Worker processes as their parent sees them: started, given one shard at a time, stopped, and missed when they die.

They are new Python processes (`ltgcd.common.engine.worker`), never forks: a fork after torch has computed in threads
hangs. Nor do they import the script that the user has started, as those of `multiprocessing` do, so that a script
needs no ``if __name__ == "__main__"``.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FunctionType
from typing import Any, NamedTuple

from ltgcd.common.engine.worker import read_message, write_message
from ltgcd.common.errors import InputError

DEATHS = 2  # workers that may die over a shard before it is given up
STOP_SECONDS = 3.0  # that a worker has for removing what it has half written

# What can be imported here can be imported there, a module of the current folder included.
_CODE = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from ltgcd.common.engine.worker import main; main()"
_ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1"),
    "TOKENIZERS_PARALLELISM": "false",
}


class NotForWorkers(Exception):
    """Why work can't be sent to another process. None of it has been done."""


def not_kept(_shard: object, _result: object) -> None:
    """Let go of what the function gives: it has kept itself what it has done."""


def run_in_workers(
    prepare: Callable[[], Callable[[Any, Callable[[int], None]], Any]],
    shards: Iterator[Any],
    workers: int,
    advance: Callable[[int], None],
    notify: Callable[[str], None],
    received: Callable[[Any, Any], None] = not_kept,
) -> None:
    """Have worker processes do all shards; see `ltgcd.common.engine.shards.map_shards`.

    `received` gets each shard with what the function gave for it, as soon as it is there.
    """
    if not sys.executable:
        raise NotForWorkers("no Python program is known that could be started")
    start = _packed(prepare)
    team = _Team(_Todo(shards), advance, notify, received)
    try:
        for _ in range(workers):
            team.hire()
        notify(f"{workers} worker processes, of one thread each, share the work")
        for worker in team.workers:
            worker.send(start)
        while not team.is_done:
            team.hear()
            team.hand_out()
    finally:
        for worker in team.workers:
            worker.stop()
        for worker in team.workers:
            worker.wait()


class _Team:
    """Workers, and what is known of their work."""

    def __init__(
        self,
        todo: _Todo,
        advance: Callable[[int], None],
        notify: Callable[[str], None],
        received: Callable[[Any, Any], None],
    ) -> None:
        self.workers: list[_Worker] = []
        self._inbox: _Inbox = queue.SimpleQueue()
        self._todo, self._advance, self._notify, self._received = todo, advance, notify, received

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to begin, and nothing begun is unfinished."""
        return self._todo.is_empty and all(worker.task is None for worker in self.workers)

    def hire(self) -> None:
        """Start one more."""
        self.workers.append(_Worker(self._inbox))

    def hand_out(self) -> None:
        """Give a shard to everyone who has none, as long as there are some."""
        for worker in self.workers:
            if worker.is_free and (task := self._todo.take()) is not None:
                worker.give(task)

    def hear(self) -> None:
        """Wait until one of them says something."""
        worker, what, content = self._inbox.get()
        if what == "advance":
            worker.items_done += content
            self._advance(content)
        elif what == "free":
            if worker.task is not None:
                self._received(worker.task.shard, content)
            worker.is_free, worker.task, worker.items_done = True, None, 0
        elif what == "warning":
            warnings.warn(content, stacklevel=2)
        elif what == "unloadable" and not self._todo.is_begun:
            raise NotForWorkers(content)
        elif what == "error":
            error, traceback = content
            raise error from RuntimeError(f"This happened in a worker process:\n{traceback}")
        elif what == "gone":
            self._lose(worker)

    def _lose(self, worker: _Worker) -> None:
        """Go on without a worker that died, or say in a sentence why that can't be."""
        self.workers.remove(worker)
        self._advance(-worker.items_done)
        left, how = len(self.workers), worker.how_it_ended()
        if not left:
            raise InputError(
                f"The last worker process {how}; what is finished is kept: run the same command again with fewer "
                "--workers."
            )
        if worker.task is not None:
            self._todo.give_back(worker.task)
        self._notify(f"a worker process {how}; what is finished is kept, and the rest goes on with {left}")


class _Task(NamedTuple):
    shard: Any
    deaths: int = 0


class _Todo:
    """What nobody has begun yet: shards over which a worker died first, then the others in order."""

    def __init__(self, shards: Iterator[Any]) -> None:
        self._shards = shards
        self._again: list[_Task] = []
        self.is_begun = self.is_empty = False

    def take(self) -> _Task | None:
        """The next one, or None if all have been begun."""
        self.is_begun = True
        if self._again:
            return self._again.pop()
        try:
            return _Task(next(self._shards))
        except StopIteration:
            self.is_empty = True
            return None

    def give_back(self, task: _Task) -> None:
        """Put a shard back whose worker died."""
        if task.deaths + 1 == DEATHS:
            raise InputError(
                f"{DEATHS} worker processes died over the same part of the work; what is finished is kept: make room "
                "in memory, and run the same command again with --workers 1."
            )
        self._again.append(_Task(task.shard, task.deaths + 1))
        self.is_empty = False


class _Worker:
    """One worker process, and a thread that puts what it says into the inbox."""

    def __init__(self, inbox: _Inbox) -> None:
        self.task: _Task | None = None
        self.items_done = 0  # of this task
        self.is_free = False
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CODE, json.dumps([*sys.path, os.getcwd()])],  # noqa: PTH109 - a string
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **_ONE_THREAD},
            start_new_session=True,  # Ctrl-C comes to us alone, and we stop them
        )
        threading.Thread(target=self._listen, args=(inbox,), daemon=True).start()

    def _listen(self, inbox: _Inbox) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream, suppress(OSError):
            while (message := read_message(stream)) is not None:
                inbox.put((self, *pickle.loads(message)))
        inbox.put((self, "gone", None))

    def send(self, message: bytes) -> None:
        """Send some bytes. Of a worker that has died, its thread tells."""
        assert self._process.stdin is not None
        with suppress(OSError):
            write_message(self._process.stdin, message)

    def give(self, task: _Task) -> None:
        """Give it a shard to do."""
        self.task, self.is_free = task, False
        self.send(pickle.dumps(task.shard, pickle.HIGHEST_PROTOCOL))

    def stop(self) -> None:
        """Let go of its input, at whose end it stops, whatever it is doing."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def wait(self) -> int:
        """Its exit code, once it has stopped or was made to."""
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def how_it_ended(self) -> str:
        """What became of it, as the rest of a sentence."""
        code = self.wait()
        if code >= 0:
            return f"ended with exit code {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return f"was killed ({name}{', maybe because memory ran out' if name == 'SIGKILL' else ''})"


_Inbox = queue.SimpleQueue[tuple[_Worker, str, Any]]


def _packed(prepare: object) -> bytes:
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(prepare)
    except (pickle.PicklingError, TypeError, AttributeError) as error:  # each of them for something that can't be
        raise NotForWorkers(error) from error
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    """A pickler that refuses what another process can't import: the script or notebook that was started."""

    def reducer_override(self, obj: Any) -> Any:  # noqa: ANN401
        """Pickle everything as usual, once looked at."""
        if isinstance(obj, type | FunctionType) and obj.__module__ == "__main__":
            raise pickle.PicklingError(f"{obj.__qualname__} is not in a module")
        return NotImplemented
