"""Start a command in a process of its own that need not import everything anew.

It is forked from a process that has imported what commands import and has computed nothing, so that no thread of it has
worked yet. It can be killed, stopped and waited for as any other; what it prints goes to files.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from conftest import ROOT

IMPORTED = ["pytest", "typer.testing", "pyarrow.parquet", "PIL.Image", "psutil", "safetensors.torch"]
IMPORTED += ["torch", "torch.distributed", "torch._dynamo", "sklearn.cluster", "faiss", "pandas", "rich.table"]
IMPORTED += ["ltgcd.cli", "ltgcd.run.discover", "ltgcd.run.train", "ltgcd.run.update", "ltgcd.features.embed"]


class Forked:
    """A command that has been started, with the methods of `subprocess.Popen` that tests use.

    `before` is called in the new process, ahead of the command; `environment` is added to ours.
    """

    def __init__(
        self,
        *arguments: object,
        before: Callable[[], None] | None = None,
        cwd: Path = ROOT,
        **environment: str,
    ) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(IMPORTED)
        self._folder = tempfile.TemporaryDirectory(prefix="ltgcd-test-")
        self._files = [Path(self._folder.name, name) for name in ("out", "err")]
        words, given = [str(word) for word in arguments], {**os.environ, **environment}
        self._process = context.Process(target=_command, args=(words, given, cwd, self._files, before), daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """As `Popen` has it: None while it runs, the number of a signal with a minus."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("ltgcd", timeout or 0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it wrote to stdout and stderr, when it has ended."""
        self.wait(timeout)
        out, err = (path.read_text() if path.exists() else "" for path in self._files)
        return out, err

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _command(
    arguments: list[str], environment: dict[str, str], cwd: Path, files: list[Path], before: Callable[[], None] | None
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    for number, path in enumerate(files, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.argv = ["ltgcd", *arguments]
    if before is not None:
        before()
    from ltgcd.__main__ import main

    main()
