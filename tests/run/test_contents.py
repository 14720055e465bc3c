"""An exchanged, foreign or older file of a run is whole in itself; the list of the run's files names it."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from conftest import Result, call_cli
from ltgcd.run import contents
from ltgcd.run.contents import Contents, stamp
from ltgcd.run.directory import Run
from ltgcd.run.file_problems import CURVES

KEPT = ("config.toml", "split.parquet", "metrics.jsonl", "model.safetensors", "model.toml", "assignments.parquet")
KEPT += ("items.npz", "map.npz", "updates/001/split.parquet", "states/000.parquet", "states/001.parquet")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with an update and corrections before and after it, another run, and older copies of the first."""
    folder = tmp_path_factory.mktemp("made")
    for name, seed in (("one", 0), ("two", 1)):
        random = np.random.RandomState(seed)
        true = np.repeat(np.arange(4), (20, 14, 10, 8))
        x = (random.randn(4, 8)[true] * 4 + random.randn(len(true), 8)).astype(np.float32)
        given = np.where((true < 2) & (np.arange(len(true)) % 2 == seed), true, -1)
        ids = np.array([f"i{n:03d}" for n in range(len(true))])
        np.savez(folder / f"{name}.npz", x=x, y=given, y_true=true, ids=ids)
        np.savez(folder / f"{name}-new.npz", x=x[::6] + 0.1, ids=np.array([f"n{n}" for n in range(len(x[::6]))]))
        run = folder / name
        ltgcd("discover", folder / f"{name}.npz", "--k", 4, "--out", run)
        shutil.copytree(run, folder / f"{name}-before")
        (folder / "said.csv").write_text("id,label\ni001,heap\ni003,heap\n")
        ltgcd("relabel", run, folder / "said.csv")
        ltgcd("update", run, folder / f"{name}-new.npz")
        (folder / "said.csv").write_text("id,label\ni005,heap\n")
        ltgcd("relabel", run, folder / "said.csv")
        ltgcd("report", run)
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Iterator[Path]:
    shutil.copytree(made / "one", tmp_path / "run")
    yield tmp_path / "run"


def ltgcd(*arguments: object, code: tuple[int, ...] = (0,)) -> Result:
    done = call_cli(*arguments)
    assert done.code in code, done
    return done


def problems(run: Path) -> dict[str, str]:
    """What ``check`` finds, by the name of the file."""
    found = json.loads(ltgcd("check", run, "--json", code=(0, 2)).out)["problems"]
    return {str(Path(one["file"]).relative_to(run)): one["what"] for one in found}


def test_a_run_is_sound_and_lists_what_it_keeps(run: Path) -> None:
    assert not problems(run)
    listed = json.loads((run / "contents.json").read_text())["files"]
    assert set(listed) >= set(KEPT)
    assert all(listed.values())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("split.parquet", "updates/001/split.parquet"),
        ("split.parquet", "assignments.parquet"),
        ("assignments.parquet", "states/001.parquet"),
        ("states/000.parquet", "states/001.parquet"),
        ("config.toml", "model.toml"),
        ("items.npz", "map.npz"),
    ],
)
def test_files_that_have_changed_places_are_named(run: Path, one: str, other: str) -> None:
    (run / one).rename(run / "x")
    (run / other).rename(run / one)
    (run / "x").rename(run / other)
    assert {one, other} & set(problems(run))
    if "npz" not in one:
        answer = ltgcd("evaluate", run, "--json", code=(0, 2))
        if {one, other} & {"split.parquet", "assignments.parquet", "config.toml"}:
            assert answer.code == 2
            assert f"but its {other if one in answer.err.split(' is ')[0] else one};" in answer.err


@pytest.mark.parametrize("name", KEPT)
def test_a_file_of_another_run_is_named(made: Path, run: Path, name: str) -> None:
    shutil.copyfile(made / "two" / name, run / name)
    if (made / "one" / name).read_bytes() == (run / name).read_bytes():
        pytest.skip("both runs have the same")
    what = problems(run)[name]
    assert "of another run" in what or name.endswith(".npz")  # the map and the features can be made again


@pytest.mark.parametrize("name", ["split.parquet", "assignments.parquet", "items.npz", "map.npz"])
def test_an_older_file_of_the_same_run_is_named(made: Path, run: Path, name: str) -> None:
    shutil.copyfile(made / "one-before" / name, run / name)
    what = problems(run)[name]
    assert "older" in what or name.endswith(".npz")


def test_no_command_answers_from_a_foreign_file(made: Path, run: Path, tmp_path: Path) -> None:
    for name in ("split.parquet", "assignments.parquet"):
        shutil.copy2(run / name, tmp_path / name)
        shutil.copyfile(made / "two" / name, run / name)
        for command in (("evaluate", run), ("update", run, made / "one-new.npz")):
            done = ltgcd(*command, "--json", code=(2,))
            assert name in done.err
            assert done.err.count("Error: ") == 1
        shutil.copy2(tmp_path / name, run / name)  # with its time: the page is not older
    assert not problems(run)


def test_features_that_are_gone_are_missed_where_an_answer_would_have_used_them(run: Path) -> None:
    whole = ltgcd("evaluate", run, "--json")
    (run / "items.npz").unlink()
    done = ltgcd("evaluate", run, "--json")
    assert json.loads(whole.out)["oracle"] and json.loads(done.out)["oracle"] is None
    assert "missing" not in whole.err and "items.npz is missing" in done.err


@pytest.mark.parametrize("lines", [1, 3])
def test_lines_that_are_cut_from_the_curves_are_noticed(run: Path, lines: int) -> None:
    path = run / "metrics.jsonl"
    kept = path.read_text().splitlines(keepends=True)[:-lines]
    path.write_text("".join(kept))
    assert set(problems(run)) == {"metrics.jsonl"}
    ltgcd("check", run, "--repair")  # nothing follows from them
    assert path.read_text() == "".join(kept)
    assert not problems(run)


def test_a_file_that_is_gone_is_named(run: Path) -> None:
    (run / "metrics.jsonl").unlink()
    assert problems(run) == {"metrics.jsonl": f"is missing; {CURVES}."}


def test_a_damaged_model_that_a_refine_has_replaced_is_named(run: Path) -> None:
    ltgcd("refine", run)
    path = run / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    assert set(problems(run)) == {"model.safetensors"}


def test_a_damaged_list_is_made_again(run: Path) -> None:
    for content in (b"", b"{}", b"[]", b'{"files": {}}', b"\xff"):
        (run / "contents.json").write_bytes(content)
        assert "check" in ltgcd("evaluate", run, code=(2,)).err
        assert set(problems(run)) == {"contents.json"}
        ltgcd("check", run, "--repair")
        assert not problems(run)


def test_a_run_without_a_list_is_taken_and_gets_one(made: Path, run: Path) -> None:
    (run / "contents.json").unlink()
    assert set(problems(run)) == {"contents.json"}
    ltgcd("evaluate", run)
    ltgcd("report", run)
    assert not problems(run)


def test_a_file_that_was_being_written_is_taken_and_settled(run: Path) -> None:
    held, path = Run(run), run / "map.npz"
    with pytest.raises(KeyboardInterrupt), held.contents.writing(path):
        raise KeyboardInterrupt
    assert held.contents.read()["map.npz"] is None  # type: ignore[index]
    assert held.contents.held(path) == path
    with held.lock("a test"):
        pass
    assert held.contents.read()["map.npz"] == stamp(path)  # type: ignore[index]


def test_a_reader_never_stumbles_over_a_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "PAUSE", 0.01)
    path, ends = tmp_path / "numbers.json", threading.Event()
    listed = Contents(tmp_path / "contents.json", lambda: [path])

    def write() -> None:
        number = 0
        while not ends.is_set():
            with listed.writing(path):
                half = tmp_path / "half"
                half.write_text(json.dumps({"checksum": str(number)}))
                half.replace(path)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(300):
            Contents(tmp_path / "contents.json", lambda: [path]).held(path)
    finally:
        ends.set()
        writer.join()


def test_the_review_of_another_run_and_an_older_one_are_named(made: Path, run: Path, tmp_path: Path) -> None:
    mine = (run / "review.db").read_bytes()
    shutil.copyfile(made / "two" / "review.db", run / "review.db")
    assert "of another run" in problems(run)["review.db"]
    assert "another run" in ltgcd("relabel", run, "--undo", code=(2,)).err
    (run / "review.db").write_bytes(mine)
    assert not problems(run)
    (run / "review.db").unlink()
    before = Run(run).assignments()
    assert "older" in ltgcd("relabel", run, "--undo", code=(2,)).err
    assert "review.db" in problems(run)
    assert Run(run).assignments().equals(before)
