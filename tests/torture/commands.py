"""Run ltgcd commands in forked children of a process that has imported everything, so that hundreds are cheap.

A fork is safe here because the parent imports torch but never computes with it: no threads have worked yet.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["COLUMNS"] = "10000"  # what is said in one line: checks look for sentences
SOURCES = str(Path(importlib.util.find_spec("ltgcd").origin).parents[1])  # type: ignore[union-attr,arg-type]
ROOT = str(Path(__file__).parents[2])
SAVE = "save-in-python"  # beside the commands: a run is loaded in Python, and saved to another folder
TIMEOUT = 40.0  # seconds until a command counts as hanging; the slowest of these takes 3 on a free core
REAL_TIMEOUT = 120.0  # with all imports
# What commands import when they first need it; in a child, each would cost a second.
IMPORTED_LATE = (
    *("torch", "torch._dynamo", "torch.profiler", "sklearn.cluster", "faiss", "pandas", "pydantic", "rich.table"),
    *("pyarrow.dataset", "pyarrow.pandas_compat", "PIL.Image", "ltgcd.cli", "ltgcd.data.check", "ltgcd.run.discover"),
    *("ltgcd.run.train", "ltgcd.run.update", "ltgcd.run.predict", "ltgcd.run.export", "ltgcd.run.report"),
    *("ltgcd.run.evaluate", "ltgcd.evaluation.predictions", "ltgcd.output.report.k_plot", "ltgcd.run.check"),
    *("ltgcd.run.relabel", "ltgcd.run.refine", "ltgcd.estimator", "sqlite3"),
)
# Events of Python at which a child can be told to die: whatever touches a file.
FILE_EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate")
FILE_EVENTS += ("shutil.rmtree", "shutil.copyfile", "fcntl.flock", "os.listdir", "os.scandir")


@dataclass(frozen=True)
class Kill:
    """A signal to a command: at its n-th file event (exactly repeatable), or so many seconds after its start."""

    signal: int
    event: int | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        when = f"at file event {self.event}" if self.event is not None else f"after {self.seconds * 1000:.1f} ms"
        return f"{signal.Signals(self.signal).name} {when}"


@dataclass(frozen=True)
class Done:
    """What a command left: exit code (negative: died of a signal), what it printed, whether it had to be stopped."""

    arguments: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float
    hung: bool = False
    killed: bool = False

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.out)
        return value

    @property
    def command(self) -> str:
        return "ltgcd " + shlex.join(self.arguments)

    def __str__(self) -> str:
        return f"{self.command} -> {self.code}: {(self.err or self.out).strip()[-6000:]}"


def save(run: str, folder: str) -> None:
    """What a person does in Python; a refusal is told as commands tell theirs."""
    from ltgcd import CategoryDiscovery
    from ltgcd.common.errors import InputError

    try:
        CategoryDiscovery.load(run).save(folder)
    except InputError as error:
        print(f"Error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:  # in Python it is for the caller
        raise SystemExit(130) from None


REAL_SAVE = "import sys; from tests.torture.commands import save; save(*sys.argv[1:])"


def prepare() -> None:
    """Import what the commands import; nothing is computed."""
    for name in IMPORTED_LATE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


class Running:
    """A command that has been started; `wait` for what it leaves."""

    def __init__(self, *arguments: object, cwd: Path, kill: Kill | None = None, real: bool = False) -> None:
        self.arguments, self.kill, self.real = tuple(map(str, arguments)), kill, real
        self.files = [os.memfd_create(name) for name in ("out", "err")]
        self.started = time.perf_counter()
        self.pid = self._real(cwd) if real else self._fork(cwd)

    def _real(self, cwd: Path) -> int:
        """The command as a person starts it, imports and all."""
        command = [sys.executable, "-m", "ltgcd", *self.arguments]
        if self.arguments[0] == SAVE:
            command = [sys.executable, "-c", REAL_SAVE, *self.arguments[1:]]
        out, err = self.files
        own = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([SOURCES, ROOT]),
        }  # it starts in another folder, and shall be this ltgcd there, too
        return subprocess.Popen(command, cwd=cwd, stdout=out, stderr=err, process_group=0, env=own).pid

    def _fork(self, cwd: Path) -> int:
        ready, tell = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(ready)
                self._child(cwd, tell)
            finally:
                os._exit(99)
        os.close(tell)
        os.read(ready, 1)  # the child is about to begin; its clock starts now
        os.close(ready)
        self.started = time.perf_counter()
        return pid

    def _child(self, cwd: Path, tell: int) -> None:
        code = 99
        try:
            os.setpgid(0, 0)
            os.chdir(cwd)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(self.files[0], 1)
            os.dup2(self.files[1], 2)
            sys.stdin = open(0)  # noqa: SIM115
            sys.stdout = open(1, "w", encoding="utf-8")  # noqa: SIM115
            sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)  # noqa: SIM115
            sys.argv = ["ltgcd", *self.arguments]
            gc.callbacks.clear()  # hypothesis has one, which would swallow a signal
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            from ltgcd.__main__ import main

            if self.kill and self.kill.event is not None:
                _die_at(self.kill.event, self.kill.signal)
            os.write(tell, b".")
            if self.arguments[0] == SAVE:
                save(*self.arguments[1:])
                code = 0
            else:
                main()
        except SystemExit as done:
            code = done.code if isinstance(done.code, int) else 0 if done.code is None else 1
        except KeyboardInterrupt as error:
            begun = error.__traceback__ and error.__traceback__.tb_next and error.__traceback__.tb_next.tb_next
            if begun:  # else it came at the very first line of the command
                traceback.print_exc()
            code = 130
        except BaseException:
            traceback.print_exc()
            code = 1
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)

    def wait(self) -> Done:
        """Wait until it has ended, kill it when its time has come, and stop it if it hangs."""
        died, timeout = os.pidfd_open(self.pid), _patience(REAL_TIMEOUT if self.real else TIMEOUT)
        killed = hung = False
        if self.kill and self.kill.event is None and not _ended(died, self.kill.seconds):
            os.kill(self.pid, self.kill.signal)
            killed = True
        if not _ended(died, max(timeout - (time.perf_counter() - self.started), 0.1)):
            hung = True
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(died)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # children that it may have left
        code = os.waitstatus_to_exitcode(status)
        if self.kill and self.kill.event is not None:
            killed = code < 0 or code in (130, 143)
        texts = []
        for file in self.files:
            os.lseek(file, 0, os.SEEK_SET)
            with os.fdopen(file, "rb") as content:
                texts.append(content.read().decode("utf-8", errors="replace"))
        return Done(self.arguments, code, texts[0], texts[1], time.perf_counter() - self.started, hung, killed)


def run(*arguments: object, cwd: Path, kill: Kill | None = None, real: bool = False) -> Done:
    """Run a command to its end."""
    return Running(*arguments, cwd=cwd, kill=kill, real=real).wait()


def file_events(*arguments: object, cwd: Path) -> int:
    """How many file events a command has, in a child that counts them: the range to draw a kill from."""
    count = Running(*arguments, cwd=cwd, kill=Kill(0, 10**9))
    done = count.wait()
    found = [line for line in done.err.splitlines() if line.startswith("file events: ")]
    return int(found[-1].split(": ")[1]) if found else 100


def _patience(seconds: float) -> float:
    """More time on a machine that has more to do than it can: a hang lasts for ever, so it is found all the same."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _ended(died: int, seconds: float) -> bool:
    return bool(select.select([died], [], [], seconds)[0])


def _die_at(event: int, number: int) -> None:
    """Send this process a signal at its n-th file event; without a signal, count them."""
    seen, pid = 0, os.getpid()

    def hook(name: str, _arguments: Any) -> None:
        nonlocal seen
        if name in FILE_EVENTS and os.getpid() == pid:
            seen += 1
            if seen == event and number:
                os.kill(pid, number)

    sys.addaudithook(hook)
    if not number:
        leave = os._exit

        def counted(code: int) -> None:
            os.write(2, f"file events: {seen}\n".encode())
            leave(code)

        os._exit = counted  # type: ignore[assignment]
