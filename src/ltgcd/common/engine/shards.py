"""Run a function on every shard of some work: in this process, in worker processes of one thread each, or on Ray.

Threads that share each sum wait for one another at its end, so that one core taken by somebody else stops all of them:
measured on two cores beside two busy processes, a sentence encoder fell from 266 texts a second to between 4 and 30.
Workers share nothing and wait for nobody.

What a shard gives is kept by the function itself, on disk and at once (a whole file or none). So it does not matter to
what is there already who computed it, how many they were, and which of them was stopped when.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

from ltgcd.common.engine.pool import NotForWorkers, run_in_workers
from ltgcd.common.engine.ray_cluster import run_on_ray
from ltgcd.common.engine.threads import available_cores, torch_threads
from ltgcd.common.progress import time_left

Shard = TypeVar("Shard")
Job = TypeVar("Job")
Advance = Callable[[int], None]
Function = Callable[[Shard, Advance], None]

SAID_SECONDS = 10.0  # what takes less is not announced
Foretell = Callable[[int, float], str | None]  # of the items that are left and their seconds, a sentence
START_SECONDS = 6.0  # until a worker has imported torch, and transformers for texts, and has got its model


def foretold(items: int, seconds: float) -> str | None:
    """How long some items will take, as a sentence; None where it is not worth one."""
    return f"the {items:,} others will take about {time_left(seconds)}" if seconds >= SAID_SECONDS else None


def map_shards(
    prepare: Callable[[], Function[Shard]],
    shards: Iterable[Shard],
    total: int,
    *,
    workers: int | None = None,
    cluster: str | None = None,
    advance: Advance = lambda _items: None,
    notify: Callable[[str], None] = lambda _message: None,
    foretell: Foretell = foretold,
) -> None:
    """Call ``prepare()(shard, advance)`` for every shard; each process prepares once.

    An exception of the function stops everything and is raised here; finished shards are kept, as on Ctrl-C. A worker
    that dies is told of, and another one does its shard.

    Parameters
    ----------
    prepare : callable
        Makes the function, for instance by loading a model. It goes to the workers by pickle, as the shards do; where
        it can't, that is said, and this process works alone.
    shards : iterable
        Parts of the work; taken one by one, when somebody is free to do them.
    total : int
        Items in all shards, of which the function reports how many are done.
    workers : int, optional
        Worker processes; 1 is this process alone. By default this process does the first shard, and sees by the time it
        took whether one worker a core would be done sooner with the others, start included, and how long they take.
    cluster : str, optional
        A Ray cluster, as `check_cluster` of `ltgcd.common.engine.ray_cluster` takes it, whose actors do all of it:
        `workers` of them, by default one a core.
    advance : callable
        Told how many more items are done; fewer than none where a worker died over them.
    notify : callable
        Told in a sentence what happens.
    foretell : callable
        Makes the sentence on how long the rest takes; for who has more to do after it.
    """
    waiting = iter(shards)
    if cluster is not None:
        run_on_ray(prepare, waiting, cluster, workers, advance, notify)
        return
    function: Function[Shard] | None = None
    with torch_threads(1):
        if workers is None:
            function = prepare()
            seconds, items = _timed(function, islice(waiting, 1), advance)
            left = seconds / max(items, 1) * (total - items)
            workers = _workers_that_pay(left)
            takes = left / workers + (START_SECONDS if workers > 1 else 0)
            if sentence := foretell(total - items, takes):
                notify(sentence)
        if workers > 1 and (following := next(waiting, None)) is not None:
            waiting = chain([following], waiting)
            try:
                run_in_workers(prepare, waiting, workers, advance, notify)
            except NotForWorkers as reason:
                notify(f"worker processes can't be given this ({reason}); one process does it alone")
        for shard in waiting:
            function = function or prepare()
            function(shard, advance)


def in_processes(
    prepare: Callable[[], Callable[[Job, Advance], Any]],
    jobs: list[Job],
    processes: int,
    *,
    advance: Advance = lambda _items: None,
    notify: Callable[[str], None] = lambda _message: None,
) -> list[Any]:
    """What ``prepare()(job, advance)`` gives for each of a few long jobs, in their order, done side by side.

    For what is small when it is done: it comes back by pickle, and a job whose process died is done again. Raises
    `NotForWorkers` if `prepare` can't be sent to another process; nothing has been done then.
    """
    done: dict[int, Any] = {}

    def received(shard: tuple[int, Job], result: object) -> None:
        done[shard[0]] = result

    run_in_workers(partial(_numbered, prepare), enumerate(jobs), processes, advance, notify, received)
    return [done[number] for number in range(len(jobs))]


def _numbered(prepare: Callable[[], Callable[[Job, Advance], Any]]) -> Callable[[tuple[int, Job], Advance], Any]:
    function = prepare()
    return lambda shard, advance: function(shard[1], advance)


def processes_that_pay(jobs: int, seconds: float, most: int) -> int:
    """How many processes, of `most`, end sooner than this one alone with some jobs that take it some seconds in all."""
    n = max(1, min(jobs, most))
    return n if START_SECONDS + seconds * -(-jobs // n) / jobs < seconds else 1


def _workers_that_pay(seconds: float) -> int:
    """How many processes do soonest what takes one of them some seconds: one a core, or none but this."""
    cores = available_cores()
    return cores if START_SECONDS + seconds / cores < seconds else 1


def _timed(function: Function[Shard], shards: Iterable[Shard], advance: Advance) -> tuple[float, int]:
    """Do some shards; seconds that it took, and items that were done."""
    items = 0

    def count(done: int) -> None:
        nonlocal items
        items += done
        advance(done)

    started = time.perf_counter()
    for shard in shards:
        function(shard, count)
    return time.perf_counter() - started, items
