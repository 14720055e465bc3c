"""Shards on a Ray cluster: one actor a core, given one shard at a time, replaced when it or its machine dies.

What a shard gives is on disk before the actor says so, as in a worker process of this machine. So nothing is lost with
an actor, a machine or this process but the shards that were in work, and no result goes through Ray's object store. All
machines must see the same folders under the same paths, and have the same ltgcd installed.

Ray is asked for (``--cluster``), never started by itself, and reports nothing to its makers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from typing import Any

from ltgcd.common.engine.pool import DEATHS
from ltgcd.common.engine.threads import available_cores, torch_threads
from ltgcd.common.errors import InputError

LOCAL = "ray"  # a cluster of this machine alone, which ends with us
OBJECT_STORE = 128 << 20  # bytes: what goes through it are shards, which are lists of items
CHECK_SECONDS = 1.0


def check_cluster(cluster: str) -> str:
    """The address of a cluster as a person has typed it, or a sentence; nothing is started."""
    if cluster not in (LOCAL, "auto") and not cluster.startswith("ray://"):
        raise InputError(
            f"'{cluster}' is no cluster: give ray (one on this machine), auto (the one that this machine is part of), "
            "or its address, as in ray://host:10001."
        )
    try:
        import ray  # noqa: F401, PLC0415 - a second, and only where it is asked for
    except ImportError as error:
        raise InputError("--cluster needs Ray: pip install 'ltgcd[ray]', on every machine of the cluster.") from error
    return cluster


@contextmanager
def joined(cluster: str) -> Iterator[int]:
    """Be part of a cluster inside; gives its number of cores. One that was joined before is used as it is."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray  # noqa: PLC0415

    mine = not ray.is_initialized()
    if mine:
        options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        if cluster == LOCAL:
            options |= {
                "address": "local",
                "num_cpus": available_cores(),
                "include_dashboard": False,
                "object_store_memory": OBJECT_STORE,
                "_node_ip_address": "127.0.0.1",
            }
        else:
            options["address"] = cluster
        try:
            ray.init(**options)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise InputError(
                f"The Ray cluster '{cluster}' can't be joined ({reason}); start one with 'ray start --head', or check "
                "the address."
            ) from error
    try:
        yield max(1, int(ray.cluster_resources().get("CPU", 1)))
    finally:
        if mine:
            ray.shutdown()


def run_on_ray(
    prepare: Callable[[], Callable[[Any, Callable[[int], None]], None]],
    shards: Iterator[Any],
    cluster: str,
    workers: int | None,
    advance: Callable[[int], None],
    notify: Callable[[str], None],
) -> None:
    """Have the actors of a cluster do all shards; see `ltgcd.common.engine.shards.map_shards`."""
    # What Ray prints about actors that die goes to stderr: stdout is for what the command says.
    with joined(check_cluster(cluster)) as cores, redirect_stdout(sys.stderr):
        import ray  # noqa: PLC0415
        from ray import exceptions  # noqa: PLC0415

        # A logical core each, and one thread. One that dies is replaced here and not by Ray, which refuses what is
        # given to an actor while it starts again.
        remote = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(_Actor)
        packed, here = ray.put(prepare), os.getcwd()  # noqa: PTH109 - a string
        n = min(workers or cores, cores)
        idle = [remote.remote(packed, here) for _ in range(n)]
        notify(f"{n} Ray actors, of one thread each, share the work")
        team = list(idle)
        working: dict[Any, tuple[Any, Any, int]] = {}  # what is waited for: actor, shard, deaths over it
        again: list[tuple[Any, int]] = []
        try:
            while True:
                while idle and (task := again.pop() if again else _next(shards)) is not None:
                    actor = idle.pop()
                    working[actor.work.remote(task[0])] = (actor, *task)
                if not working:
                    return
                done, _ = ray.wait(list(working), timeout=CHECK_SECONDS)
                for future in done:
                    actor, shard, deaths = working.pop(future)
                    idle.append(actor)
                    try:
                        advance(ray.get(future))
                    except exceptions.RayTaskError as error:
                        raise error.cause from error
                    except exceptions.RayError as error:  # the actor, or its machine, is gone
                        if deaths + 1 == DEATHS:
                            raise InputError(
                                f"{DEATHS} actors died over the same part of the work; what is finished is kept: make "
                                "room in memory, and run the same command again."
                            ) from error
                        again.append((shard, deaths + 1))
                        idle[-1] = remote.remote(packed, here)
                        team.append(idle[-1])
                        notify("a Ray actor died; what is finished is kept, and another one does its part")
        finally:
            for actor in team:
                with suppress(exceptions.RayError):
                    ray.kill(actor)


def _next(shards: Iterator[Any]) -> tuple[Any, int] | None:
    """The next shard, over which nobody has died yet."""
    for shard in shards:
        return shard, 0
    return None


class _Actor:
    """One process of the cluster: it prepares once, and then does shard after shard."""

    def __init__(self, prepare: Callable[[], Callable[[Any, Callable[[int], None]], None]], here: str) -> None:
        with suppress(OSError):  # paths may be relative to where the command was started
            os.chdir(here)
        self._prepare = prepare
        self._function: Callable[[Any, Callable[[int], None]], None] | None = None

    def work(self, shard: Any) -> int:  # noqa: ANN401
        """Do a shard, and give the number of its items."""
        items = 0

        def count(done: int) -> None:
            nonlocal items
            items += done

        # Prepared here and not when it starts, so that what goes wrong is told as an error of the work.
        self._function = self._function or self._prepare()
        with torch_threads(1) if "torch" in sys.modules else nullcontext():
            self._function(shard, count)
        return items
