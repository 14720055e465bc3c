"""`Run`: the only code that knows a run directory; foreign and damaged ones are a sentence, a second writer is told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import ROOT, call_cli, run_cli, train
from forks import Forked
from ltgcd.common.errors import InputError
from ltgcd.common.files import locked
from ltgcd.data.digits import digits_source
from ltgcd.data.sources import read_source
from ltgcd.data.write_source import write_source
from ltgcd.run import paths
from ltgcd.run.directory import Run
from ltgcd.run.paths import files_of

# Names that scripts and people rely on, and all that a run has.
PROMISED = {"config.toml", "split.parquet", "metrics.jsonl", "k_estimate.json", "assignments.parquet", "report.html"}
FILES = {path.name for path in files_of(Path())} | {paths.METRICS, paths.PROTOTYPES}


def test_no_other_code_knows_the_files_of_a_run() -> None:
    assert FILES >= PROMISED
    package = ROOT / "src" / "ltgcd"
    hub = "features/backbones/vit.py"  # names a file of the hub's folders
    own = FILES - {"split.parquet"}  # what `ltgcd split` writes is called so, too
    pattern = re.compile("|".join(re.escape(name) for name in sorted(own)))
    found = {
        f"{path.relative_to(package).as_posix()}:{number}: {line.strip()}"
        for path in package.rglob("*.py")
        if path.relative_to(package).as_posix() not in ("run/paths.py", hub)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    }
    assert not found, "\n".join(sorted(found))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(digits_source(), folder, k=10, changes={"schedule.epochs": 1})
    return folder


def test_what_is_there_is_as_scripts_expect_it(finished: Path) -> None:
    assert {"config.toml", "split.parquet", "metrics.jsonl", "assignments.parquet"} <= {
        path.name for path in finished.iterdir()
    }
    table = Run(finished).assignments()
    assert table.column_names[:5] == ["id", "label", "name", "status", "confidence"]


@pytest.mark.parametrize("name", ["config.toml", "model.toml", "k_estimate.json", "metrics.jsonl"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{]", b"[1]", b"x = 1\n", b'{"epoch": "one"}'])
def test_damage_is_a_sentence(finished: Path, tmp_path: Path, name: str, content: bytes) -> None:
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    (folder / name).write_bytes(content)
    run = Run(folder)
    read = {
        "config.toml": run.config,
        "model.toml": lambda: __import__("ltgcd.run.predict", fromlist=["x"]).load_run_model(run),
        "k_estimate.json": run.estimate,
        "metrics.jsonl": run.epochs,
    }[name]
    with pytest.raises(InputError) as caught:
        read()
    assert str(caught.value).count("\n") == 0


@pytest.mark.parametrize(("name", "key"), [("config.toml", "random_state"), ("model.toml", "k")])
def test_another_value_in_a_whole_file_is_never_taken(finished: Path, tmp_path: Path, name: str, key: str) -> None:
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    text = (folder / name).read_text()
    changed = re.sub(rf"(?m)^{key} = \d+$", f"{key} = 7", text, count=1)
    assert changed != text
    (folder / name).write_text(changed)
    with pytest.raises(InputError, match="is damaged"):
        Run(folder).config() and Run(folder).read_model()


@pytest.mark.parametrize(("name", "column"), [("assignments.parquet", "label"), ("split.parquet", "id")])
def test_another_value_in_a_table_is_never_taken(finished: Path, tmp_path: Path, name: str, column: str) -> None:
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    table = pq.read_table(folder / name)
    values = table.column(column).to_pylist()
    values[0] = values[0] + 1 if column == "label" else "another"
    at, field = table.column_names.index(column), table.schema.field(column)
    pq.write_table(table.set_column(at, field, pa.array(values, field.type)), folder / name)  # with the old checksum
    with pytest.raises(InputError, match="checksum"):
        Run(folder).assignments() and Run(folder).labels()


def test_runs_of_another_version_are_a_sentence(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[run]\nmethod = "ltgcd"\n')
    with pytest.raises(InputError, match="another version"):
        Run.open(tmp_path)
    with pytest.raises(InputError, match="nowhere is not there"):
        Run.open(tmp_path / "nowhere")


def test_a_foreign_folder_is_never_taken(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="not empty"):
        train(digits_source(), tmp_path, k=10)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--k", "3"),
        ("--k", "100000"),
        ("--labels-from", "moon"),
        ("--views", "4"),
        ("--backbone", "minilm"),
    ],
)
def test_a_refused_discover_takes_no_folder(tmp_path: Path, arguments: tuple[str, str]) -> None:
    source = write_source(tmp_path / "digits.npz", digits_source())
    done = call_cli("discover", source, *arguments, "--out", tmp_path / "run", "--json")
    assert done.code == 2, done.err
    assert not (tmp_path / "run").exists()


def test_what_can_be_refused_is_refused_before_anything_is_embedded(image_folder: Path, tmp_path: Path) -> None:
    for arguments in (("--k", "1"), ("--backbone", "minilm"), ("--backbone", "nonsense")):
        done = call_cli("discover", image_folder, *arguments, "--out", tmp_path / "run", "--json")
        assert done.code == 2, done.err
        assert "· embedding" not in done.err
        assert not (tmp_path / "run").exists()


def test_a_second_writer_is_told_who_writes(finished: Path, tmp_path: Path) -> None:
    run = Run(finished)
    with run.lock("ltgcd update"):
        source = read_source(write_source(tmp_path / "digits.npz", digits_source()))
        with pytest.raises(InputError, match=rf"ltgcd update \(process {os.getpid()}\)"):
            train(source, finished, k=10, changes={"schedule.epochs": 1})
    train(source, finished, k=10, changes={"schedule.epochs": 1})  # the lock is free again


def test_a_process_that_dies_lets_go_of_its_lock(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from ltgcd.common.files import locked\n"
        "with locked(Path(sys.argv[1]), 'me'): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    with locked(tmp_path, "another"):
        pass


def test_a_stray_rank_silences_nothing(npz: object) -> None:
    done = run_cli("inspect", npz(), "--json", RANK="3")  # type: ignore[operator]
    assert done.code == 0 and done.json["n"] == 40


def test_two_updates_at_once_lose_nothing(tmp_path: Path) -> None:
    random = np.random.RandomState(0)
    true = np.arange(200) % 4
    x = (np.eye(4, 8)[true] * 4 + random.randn(200, 8)).astype(np.float32)
    y = np.where((true < 3) & (random.rand(200) < 0.5), true, -1)
    np.savez(tmp_path / "first.npz", x=x, y=y, ids=[f"a{i}" for i in range(200)])
    done = call_cli("discover", tmp_path / "first.npz", "--k", 4, "--out", tmp_path / "run", "--json")
    assert done.code == 0, done.err
    for name in "bc":
        np.savez(tmp_path / f"{name}.npz", x=x[:30] + random.randn(30, 8) * 0.1, ids=[f"{name}{i}" for i in range(30)])
    processes = [Forked("update", tmp_path / "run", tmp_path / f"{name}.npz", "--json") for name in "bc"]
    codes = [process.wait() for process in processes]
    assert sorted(codes) in ([0, 0], [0, 2])
    ids = set(Run(tmp_path / "run").assignments().column("id").to_pylist())
    for name, code in zip("bc", codes, strict=True):
        assert (f"{name}0" in ids) == (code == 0)
        if code:  # told to wait: the same command again
            assert call_cli("update", tmp_path / "run", tmp_path / f"{name}.npz").code == 0
    ids = set(Run(tmp_path / "run").assignments().column("id").to_pylist())
    assert {"a0", "b29", "c29"} <= ids and len(ids) == 260


def test_vectors_that_no_answer_can_come_from_take_no_folder(tmp_path: Path) -> None:
    np.savez(tmp_path / "zero.npz", x=np.zeros((30, 4), np.float32), y=np.where(np.arange(30) < 10, 0, -1))
    done = call_cli("train", tmp_path / "zero.npz", "--k", 2, "--out", tmp_path / "run", "--json")
    assert done.code == 2 and "are zero" in done.json["error"], done.err
    assert not (tmp_path / "run").exists()


def test_a_damaged_part_of_an_old_update_does_not_spoil_the_next(tmp_path: Path) -> None:
    random = np.random.RandomState(0)
    true = np.arange(160) % 4
    x = (np.eye(4, 8)[true] * 4 + random.randn(160, 8)).astype(np.float32)
    y = np.where((true < 3) & (random.rand(160) < 0.5), true, -1)
    np.savez(tmp_path / "a.npz", x=x, y=y, ids=[f"a{i}" for i in range(160)])
    for name in "bc":
        np.savez(tmp_path / f"{name}.npz", x=x[:20] + random.randn(20, 8) * 0.1, ids=[f"{name}{i}" for i in range(20)])
    run = tmp_path / "run"
    assert call_cli("discover", tmp_path / "a.npz", "--k", 4, "--out", run).code == 0
    assert call_cli("update", run, tmp_path / "b.npz").code == 0
    (run / "updates" / "001" / "split.parquet").write_bytes(b"PAR1 no more")
    done = call_cli("update", run, tmp_path / "c.npz", "--json")
    labels, table = Run(run).labels(), Run(run).assignments()
    assert len(labels.ids) == len(table), "the labels and the assignments are of the same items"
    assert done.code == 0 and len(table) == 200, done.err
