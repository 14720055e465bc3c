from __future__ import annotations

import io
import json
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from PIL import Image
from typer.testing import CliRunner

# One numerical thread a test process: two pytest workers share two cores. Where a test asks for more, those that wait
# for each other sleep; by default they keep a core busy that other tests need.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
SLEEPING = {"OMP_WAIT_POLICY": "PASSIVE", "OPENBLAS_THREAD_TIMEOUT": "4"}
for variable, value in {**dict.fromkeys(THREADS[:2], "1"), **SLEEPING}.items():
    os.environ.setdefault(variable, value)

# How long an example takes says something of the machine, which others are at work on, and nothing of the code.
settings.register_profile("without a clock", deadline=None)
settings.load_profile("without a clock")

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parents[1]
# A terminal in which every sentence is one line, so that tests can look for it; tests/cli/test_words.py has others.
WIDE = {"COLUMNS": "10000"}
Npz = Callable[..., Path]  # what the fixture `npz` gives
# Files that take longest begin first, so that no process is left with one of them when the others have nothing to do.
LONGEST = (
    "common/engine/test_ray",
    "training/test_training_runs",
    "torture/test_small_trial",
    "run/test_one_pipeline",
    "discovery/test_memory",
    "discovery/test_rehearsal",
    "discovery/test_discover",
    "test_estimator",
    "run/test_check_command",
    "docs/test_site",
    "test_wheel",
    "run/test_killed_on_cluster",
)
# Text that is not UTF-8.
LATIN1 = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"\xe9\xe8")]
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {ROOT / "tests" / f"{name}.py": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def cpu_of_children() -> float:
    """CPU seconds of the processes that have ended: on a shared machine the clock says little."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def data_folder() -> Path | None:
    """Folder of the real data: $LTGCD_DATA, or ../shared/data beside the checkout."""
    folder = Path(os.environ.get("LTGCD_DATA", ROOT.parent / "shared" / "data"))
    return folder if folder.is_dir() else None


@pytest.fixture(scope="session")
def real_data() -> Path:
    folder = data_folder()
    if folder is None:
        pytest.skip("no real data: set LTGCD_DATA to a folder that holds cifar100, plankton, clinc150, banking77")
    return folder


def image_bytes(seed: int, size: tuple[int, int] = (12, 10), form: str = "PNG") -> bytes:
    pixels = np.random.RandomState(seed).randint(0, 256, (size[1], size[0], 3)).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form)
    return out.getvalue()


@pytest.fixture
def image_folder(tmp_path: Path) -> Path:
    """Three labelled images of two classes, two unlabelled ones, and a file that is no image."""
    for number, name in enumerate(["cat/a.png", "cat/b.png", "dog/c.jpg", "unlabelled/d.png", "unlabelled/deep/e.jpg"]):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image_bytes(number, form="PNG" if name.endswith("png") else "JPEG"))
    (tmp_path / "photos" / "notes.txt").write_text("not an image")
    return tmp_path / "photos"


@pytest.fixture
def npz(tmp_path: Path) -> Callable[..., Path]:
    """Write an .npz; by default three well separated blobs, two of them partly labelled."""

    def write(name: str = "source.npz", **changes: Any) -> Path:
        random = np.random.RandomState(0)
        true = np.repeat([0, 1, 2], [20, 12, 8])
        arrays: dict[str, Any] = {
            "x": (np.eye(3, 5)[true] * 5 + random.randn(40, 5) * 0.2).astype(np.float32),
            "y": np.where((true < 2) & (np.arange(40) % 2 == 0), true, -1),
            "y_true": true,
        }
        arrays.update(changes)
        path = tmp_path / name
        np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
        return path

    return write


class Result(NamedTuple):
    """What a command left: its exit code, and what it wrote to stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.out)
        return value


def run_cli(*arguments: object, cwd: Path | None = None, **environment: str) -> Result:
    """Run the real command in a process of its own, where that matters: its start takes seconds, see `call_cli`."""
    done = subprocess.run(
        [sys.executable, "-m", "ltgcd", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **WIDE, **environment},
        timeout=300,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def call_cli(*arguments: object) -> Result:
    """Run a command in this process."""
    from ltgcd.cli import app

    done = CliRunner(env=WIDE).invoke(app, [*map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception  # a bug, with its traceback
    return Result(done.exit_code, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def with_two_threads() -> Iterator[Callable[..., Any]]:
    """Calls a function in another process, of two numerical threads; one for all calls, for its start takes seconds."""
    with pytest.MonkeyPatch.context() as patch, ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
        for name in THREADS:
            patch.setenv(name, "2")
        assert other.submit(_threads).result() == 2  # it is started by this
        patch.undo()
        yield lambda function, *arguments: other.submit(function, *arguments).result()


def _threads() -> int:
    import torch

    return int(torch.get_num_threads())


def train(
    source: Any,
    folder: Path,
    *,
    method: str = "ltgcd",
    regime: str = "auto",
    store: Any = None,
    weights: Path | None = None,
    rehearsals: int = 0,
    preset: str = "default",
    watch: Any = None,
    notify: Any = lambda _message: None,
    **configured: Any,
) -> dict[str, Any]:
    """What `ltgcd train` does, from Python: the run directory is left in `folder`."""
    from ltgcd.discovery.task import configure
    from ltgcd.run.discover import summary
    from ltgcd.run.train import regime_for, train_run
    from ltgcd.training.loop import unwatched

    source.collection.require_partial_labels()
    config = configure(
        method,
        preset=preset,
        regime=regime_for(regime, method, store),
        rehearsals=rehearsals,
        keeps_checkpoints=True,
        **configured,
    )
    done = train_run(source, folder, config, store=store, weights=weights, watch=watch or unwatched, notify=notify)
    return {"method": method, **summary(done, source.collection.n_old)}


def fails(*arguments: object) -> str:
    """Run a command that must refuse its input; give the sentence it says."""
    from ltgcd.cli import app

    done = CliRunner(env=WIDE).invoke(app, [*map(str, arguments), "--json"])
    assert done.exit_code == 2, (done.output, done.exception)
    said = json.loads(done.stdout)  # one JSON object on stdout and nothing else
    assert list(said) == ["error"]
    sentence = said["error"]
    assert done.stderr.strip().splitlines()[-1] == f"Error: {sentence}"
    assert "Traceback" not in done.stderr
    assert sentence.endswith((".", "?")), sentence
    assert "\n" not in sentence
    return sentence


def data_of(page: str) -> dict[str, Any]:
    """What a report page shows, from its text."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data
