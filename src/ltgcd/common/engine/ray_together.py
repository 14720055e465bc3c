"""A function in several processes of a Ray cluster that compute together, as ``torchrun`` starts them on one machine.

Ray Train starts them, and joins them to one group of torch.distributed; they are told their number by the same
variables of the environment, so that what they run need not know who has started them. Only the first one talks. One
that dies takes the others with it, and all of them are started again: they go on from the last finished epoch.
"""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Any

from ltgcd.common.engine.pool import DEATHS
from ltgcd.common.engine.ray_cluster import CHECK_SECONDS, check_cluster, joined
from ltgcd.common.engine.rows import WORK
from ltgcd.common.engine.worker import sendable
from ltgcd.common.errors import InputError, PeerGone
from ltgcd.common.files import atomic_path
from ltgcd.common.processes import is_first_process

Notify = Callable[[str], None]
CALL = "call.pickle"


def run_together(
    function: Callable[[Notify], None], cluster: str, workers: int, folder: Path, timeout: float, notify: Notify
) -> None:
    """Call a function once in each of some processes of a cluster, which form one group of torch.distributed.

    Parameters
    ----------
    function : callable
        A `functools.partial` of a function of a module; it is called with what tells a sentence. What it gives is let
        go of: it keeps itself what it has done.
    cluster : str
        As `check_cluster` takes it.
    workers : int
        Processes, of one core each; on GPUs, if there are enough of them.
    folder : path
        Where the call goes through, on storage that all of them see.
    timeout : float
        Seconds that a process waits for another one.
    notify : callable
        Told in a sentence what happens.
    """
    with joined(check_cluster(cluster)) as cores, redirect_stdout(sys.stderr):
        import ray  # noqa: PLC0415
        from ray import exceptions  # noqa: PLC0415
        from ray.util.queue import Queue  # noqa: PLC0415

        if workers > cores:
            raise InputError(f"The cluster has {cores} cores, but --workers {workers}; give fewer.")
        folder = folder.resolve() / f"{WORK}together"
        with atomic_path(folder / CALL) as temporary:
            temporary.write_bytes(pickle.dumps(function, pickle.HIGHEST_PROTOCOL))
        on_gpus = ray.cluster_resources().get("GPU", 0) >= workers
        heard, told = Queue(actor_options={"num_cpus": 0}), _Told(notify)
        # Begun by a task of the cluster, for this process may be none of it (ray://).
        begin = ray.remote(num_cpus=0, max_retries=0)(_train)
        ending = begin.remote(folder, os.getcwd(), workers, on_gpus, timeout, heard)  # noqa: PTH109 - a string
        notify(f"{workers} processes of the cluster train together")
        try:
            is_done = False
            while not is_done:
                is_done = bool(ray.wait([ending], timeout=CHECK_SECONDS)[0])
                told.hear(heard.get_nowait_batch(heard.qsize()))
            ray.get(ending)
        except exceptions.RayError as error:
            told.raise_error()
            raise InputError(
                f"{DEATHS} times a process that trains with others died or did not answer; the epochs that were "
                "finished are kept: make room in memory, and start the same command again."
            ) from error
        finally:
            with suppress(exceptions.RayError):
                heard.shutdown(force=True)
            shutil.rmtree(folder, ignore_errors=True)
        told.raise_refusal()


class _Told:
    """What the processes have said: sentences are passed on at once, what went wrong is kept until they have ended."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._refusal: str | None = None
        self._error: tuple[Exception, str] | None = None

    def hear(self, messages: list[tuple[str, Any]]) -> None:
        for what, content in messages:
            if what == "sentence":
                self._notify(content)
            elif what == "refusal":
                self._refusal = content
            else:
                self._error = content

    def raise_refusal(self) -> None:
        if self._refusal is not None:
            raise InputError(self._refusal)

    def raise_error(self) -> None:
        if self._error is not None:
            error, place = self._error
            raise error from RuntimeError(f"This happened in a process of the cluster:\n{place}")


# ---------------------------------------------------------------- on the cluster


def _train(folder: Path, here: str, workers: int, on_gpus: bool, timeout: float, heard: Any) -> None:  # noqa: ANN401
    """Have Ray Train start the processes, and start them again if one of them dies."""
    from ray.train import FailureConfig, RunConfig, ScalingConfig  # noqa: PLC0415
    from ray.train.torch import TorchConfig, TorchTrainer  # noqa: PLC0415

    TorchTrainer(
        partial(_work, folder, here, heard),
        scaling_config=ScalingConfig(num_workers=workers, use_gpu=on_gpus, resources_per_worker={"CPU": 1}),
        torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if on_gpus else "gloo", timeout_s=int(timeout)),
        run_config=RunConfig(
            name="together", storage_path=str(folder / "ray"), failure_config=FailureConfig(max_failures=DEATHS - 1)
        ),
    ).fit()


def _work(folder: Path, here: str, heard: Any) -> None:  # noqa: ANN401 - a queue of Ray
    """What one of the processes does."""
    with suppress(OSError):  # Ray has gone to a folder of its own, and paths may be relative
        os.chdir(here)
    function = pickle.loads((folder / CALL).read_bytes())
    mouth = _Mouth(heard) if is_first_process() else None
    say = mouth.say if mouth else _silent
    warnings.showwarning = lambda message, *_place, **_rest: say(str(message))
    try:
        with redirect_stderr(mouth or sys.stderr):  # lines that tell how far it is
            function(say)
    except PeerGone:
        raise
    except InputError as error:  # all of them refuse the same
        if mouth:
            heard.put(("refusal", str(error)))
    except Exception as error:
        heard.put(("error", (sendable(error), traceback.format_exc())))
        raise


class _Mouth:
    """A stream whose lines are sentences for who has given the command."""

    def __init__(self, heard: Any) -> None:  # noqa: ANN401
        self._heard, self._line = heard, ""

    def say(self, sentence: str) -> None:
        self._heard.put(("sentence", sentence))

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self.say(line.removeprefix("· "))
        return len(text)

    def flush(self) -> None:
        """Nothing is held back but a line that has not ended."""

    def isatty(self) -> bool:
        return False


def _silent(_sentence: str) -> None:
    """Say nothing."""
