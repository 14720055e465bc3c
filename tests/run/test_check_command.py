"""A run under damage and kills: never read as other content, never lost; `ltgcd check` names it and rebuilds it."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from conftest import WIDE, call_cli, fails, image_bytes
from forks import IMPORTED
from ltgcd import CategoryDiscovery
from ltgcd.cli import app
from ltgcd.common.engine.rows import WORK
from ltgcd.common.errors import BusyError, InputError
from ltgcd.data.sources import read_source
from ltgcd.review.server.session import Session
from ltgcd.run.check import check_run
from ltgcd.run.directory import Run
from ltgcd.run.discover import Embedding, discover_source
from ltgcd.run.evaluate import evaluate_run
from ltgcd.run.export import export_run
from ltgcd.run.files import file_is_as_written
from ltgcd.run.predict import load_run_model
from ltgcd.run.report import report_run
from ltgcd.run.update import update_run


def write(path: Path, true: np.ndarray, y: np.ndarray, prefix: str, seed: int) -> Path:
    x = (np.eye(6, 12)[true] * 5 + np.random.RandomState(seed).randn(len(true), 12) * 0.4).astype(np.float32)
    np.savez(path, x=x, y=y, y_true=true, ids=np.array([f"{prefix}{i}" for i in range(len(true))]))
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with an estimate, and an update that has added a category."""
    folder = tmp_path_factory.mktemp("check")
    true = np.arange(240) % 4
    y = np.where((true < 3) & (np.arange(240) < 120), true, -1)
    discover_source(read_source(write(folder / "old.npz", true, y, "old", 0)), folder / "run")
    new = np.repeat([0, 5], 12)
    update_run(Run(folder / "run"), read_source(write(folder / "new.npz", new, np.full(24, -1), "new", 1)))
    assert check_run(Run(folder / "run"))["sound"]
    return folder / "run"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def contents(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_a_sound_run_is_sound_and_stays_as_it_is(run: Path) -> None:
    before = contents(run)
    done = CliRunner(env=WIDE).invoke(app, ["check", str(run)])
    assert done.exit_code == 0 and "is sound" in done.output
    assert contents(run) == before
    assert "not a run directory" in fails("check", run.parent)


FOLLOWS = ("report.html", "map.npz", "metrics.jsonl")  # of the curves what can still be read
LOST = ("config.toml", "split.parquet", "k_estimate.json", "model.toml", "model.safetensors",
        "assignments.parquet", "items.npz", "updates/001/prototypes.safetensors")  # fmt: skip


@pytest.mark.parametrize("name", [*FOLLOWS, *LOST])
def test_every_damaged_file_is_named_and_what_follows_is_rebuilt(run: Path, name: str) -> None:
    whole = (run / name).read_bytes()
    at = len(whole) // 2
    (run / name).write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
    done = CliRunner(env=WIDE).invoke(app, ["check", str(run), "--json"])
    result = json.loads(done.stdout)
    assert done.exit_code == 2 and not result["sound"]
    named = {Path(problem["file"]).name: problem["follows"] for problem in result["problems"]}
    owner = {"prototypes.safetensors": "assignments.parquet"}
    assert owner.get(Path(name).name, Path(name).name) in named
    if name == "model.safetensors":
        assert list(named) == [name]  # and not what is fitted to it
    assert all(problem["what"].endswith(".") and "\n" not in problem["what"] for problem in result["problems"])
    done = CliRunner(env=WIDE).invoke(app, ["check", str(run), "--repair", "--json"])
    assert done.exit_code == (0 if name in FOLLOWS else 2), done.stdout
    if name in FOLLOWS:
        assert check_run(Run(run))["sound"]
    if name in LOST:
        assert (run / name).read_bytes() != whole  # nothing is made up
        (run / name).write_bytes(whole)
        assert check_run(Run(run), repair=True)["sound"]


@pytest.mark.parametrize("name", ["map.npz", "metrics.jsonl"])
@pytest.mark.parametrize("missing", [7, 100])
def test_what_follows_is_rebuilt_however_it_was_cut(run: Path, name: str, missing: int) -> None:
    """An archive without its last bytes can be read, but no longer says which file it is."""
    whole = (run / name).read_bytes()
    (run / name).write_bytes(whole[:-missing])
    found = check_run(Run(run))
    assert [(Path(p["file"]).name, p["follows"]) for p in found["problems"]] == [(name, True)]
    assert check_run(Run(run), repair=True)["sound"] and check_run(Run(run))["sound"]
    if name == "map.npz":  # so does drawing the page
        (run / name).write_bytes((run / name).read_bytes()[:-missing])
        report_run(Run(run))
        assert check_run(Run(run))["sound"]


def test_a_run_that_never_had_a_page_lacks_none(finished: Path, tmp_path: Path) -> None:
    x = np.load(finished.parent / "old.npz")
    model = CategoryDiscovery(n_classes=4, rehearsals=0).fit(x["x"], x["y"])
    model.save(tmp_path / "run")
    assert check_run(Run(tmp_path / "run"))["sound"]
    report_run(Run(tmp_path / "run"))
    assert check_run(Run(tmp_path / "run"))["sound"]
    (tmp_path / "run" / "report.html").unlink()  # now it had one
    assert not check_run(Run(tmp_path / "run"))["sound"]


def test_no_byte_of_what_a_run_keeps_can_change_unnoticed(run: Path) -> None:
    """Also those that no reader of ours looks at; what is read being whole, such a file is written again."""
    kept = Run(run).sealed_files()
    assert {path.name for path in kept} >= {*LOST, *FOLLOWS, "split.parquet"} - {
        *(name for name in (*LOST, *FOLLOWS) if name.endswith(("html", "safetensors")))
    }
    unread: list[int] = []
    for path in kept:
        whole = path.read_bytes()
        assert file_is_as_written(path)
        for at in {*range(0, len(whole), max(1, len(whole) // 150)), len(whole) - 1}:
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert not file_is_as_written(path), f"{path.name}, byte {at}"
            if path == run / "split.parquet" and _reads(lambda: Run(run).labels()):
                unread.append(at)
        path.write_bytes(whole)
    path, at = run / "split.parquet", unread[0]
    whole, table = path.read_bytes(), pq.read_table(path)
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    assert {"file": str(path), "follows": True} in [
        {key: problem[key] for key in ("file", "follows")} for problem in check_run(Run(run))["problems"]
    ]
    assert check_run(Run(run), repair=True)["sound"] and pq.read_table(path).equals(table)


def _reads(read: Callable[[], object]) -> bool:
    try:
        read()
    except InputError:
        return False
    return True


@pytest.mark.parametrize("name", ["report.html", "map.npz", "model.toml", "items.npz", "k_estimate.json"])
def test_missing_files_are_named(run: Path, name: str) -> None:
    (run / name).unlink()
    assert name in {Path(problem["file"]).name for problem in check_run(Run(run))["problems"]}


def test_a_folder_in_the_place_of_a_file_is_refused_before_anything_is_written(run: Path, tmp_path: Path) -> None:
    (run / "map.npz").unlink()
    (run / "map.npz").mkdir()
    before = contents(run)
    new = write(tmp_path / "more.npz", np.repeat([0, 5], 3), np.full(6, -1), "more", 2)
    for arguments in (("update", run, new), ("report", run)):
        assert "map.npz is a folder" in fails(*arguments)
    assert {**contents(run), ".ltgcd.lock": b""} == {**before, ".ltgcd.lock": b""}
    problems = check_run(Run(run), repair=True)["problems"]
    assert {"map.npz"} == {Path(problem["file"]).name for problem in problems} and (run / "map.npz").is_dir()


def test_only_our_part_of_the_folder_that_a_cluster_shared_is_swept(run: Path) -> None:
    work = run / "shared" / f"{WORK}{'0' * 16}" / "x.npy"
    work.parent.mkdir(parents=True)
    work.write_bytes(b"x")
    (run / "shared" / "thesis.txt").write_text("precious")
    assert call_cli("report", run).code == 0
    assert [path.name for path in (run / "shared").iterdir()] == ["thesis.txt"]


def test_what_a_kill_left_is_swept(run: Path) -> None:
    left = [run / ".items.npz.0123.tmp", run / "updates" / "001" / ".x.npz.1.tmp", run / "checkpoint" / "rehearsal-1"]
    left += [run / "states" / ".000.parquet.1.tmp", run / "fits" / "001" / ".model.toml.1.tmp"]
    left[2].mkdir(parents=True)
    others = (left[2] / "epoch-00001.safetensors", run / "updates" / "007" / "split.parquet")
    for path in (*left[:2], *left[3:], *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")
    (run / "mine.tmp").write_text("not ours")
    assert len(check_run(Run(run))["problems"]) == 7  # five, what is in the third, and an update that does not count
    with Run(run).lock("the next writer"):
        assert not any(path.exists() for path in left)
    assert check_run(Run(run), repair=True)["sound"]
    assert not (run / "updates" / "007").exists()
    assert (run / "mine.tmp").read_text() == "not ours"


def test_features_follow_from_those_of_the_backbone(tmp_path: Path) -> None:
    for i in range(18):
        path = tmp_path / "photos" / ("red", "blue", "unlabelled")[i % 3] / f"{i:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image_bytes(i, (24, 24)))
    folder = tmp_path / "run"
    discover_source(read_source(tmp_path / "photos"), folder, k=3, embedding=Embedding(image_size=32))
    run = Run(folder)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "m.png").write_bytes(image_bytes(70, (24, 24)))
    update_run(run, read_source(tmp_path / "more"))
    ids = run.assignments().column("id").combine_chunks()
    kept = run.features()
    assert kept is not None
    before = kept.of(ids, run)
    (folder / "items.npz").write_bytes(b"PK")
    result = check_run(run, repair=True)
    assert result["sound"] and [Path(path).name for path in result["repaired"]] == ["items.npz"]
    kept = run.features()
    assert kept is not None and np.array_equal(kept.of(ids, run), before)
    (folder / "items.npz").write_bytes((folder / "items.npz").read_bytes()[:-7])  # it can be read all the same
    assert check_run(run, repair=True)["sound"]
    features = folder / "features"
    for name in ("features.json", "index.parquet", "features.npz", "manifest.parquet"):
        whole = (features / name).read_bytes()
        for damage in (None, whole[:-30]):
            (features / name).unlink()
            if damage is not None:
                (features / name).write_bytes(damage)
            assert any(problem["file"].startswith(str(features)) for problem in check_run(run)["problems"]), name
            (features / name).write_bytes(whole)
    assert check_run(run)["sound"]
    # One deleted photo, and one that is another now: said, and in nobody's way.
    (tmp_path / "photos" / "red" / "00.png").unlink()
    (tmp_path / "photos" / "red" / "03.png").write_bytes(image_bytes(99, (24, 24)))
    result = check_run(run)
    assert result["sound"] and len(result["notes"]) == 2
    assert "'red/00.png'" in result["notes"][0] and "'red/03.png'" in result["notes"][1]
    said: list[str] = []
    assert report_run(run, progress=said.append)["n_gone"] == 1
    assert any("1 of the 19 images" in sentence for sentence in said)
    sources = (None, tmp_path / "photos")
    for number, source in enumerate(sources):
        done = export_run(run, "folders", tmp_path / f"sorted{number}", source=source)
        assert any("left out" in note for note in done["notes"])
        assert export_run(run, "csv", tmp_path / f"{number}.csv", source=source)["n"] == 19
    assert report_run(run, tmp_path / "photos")["n_gone"] == 2  # nor is the update's in that folder
    with pytest.raises(InputError, match="lies in the source"):
        export_run(run, "folders", tmp_path / "photos" / "sorted")
    # Moved with everything gone: ids are shown, and --source is asked for.
    shutil.move(tmp_path / "photos", tmp_path / "elsewhere")
    shutil.move(tmp_path / "more" / "m.png", tmp_path / "elsewhere" / "m.png")
    said.clear()
    assert report_run(run, progress=said.append)["n_gone"] == 19
    assert any("--source" in sentence for sentence in said)
    assert report_run(run, tmp_path / "elsewhere")["n_gone"] == 1
    with pytest.raises(InputError, match="--source"):
        export_run(run, "folders", tmp_path / "none")


# ---------------------------------------------------------------- any damage

READERS: dict[str, Callable[[Run], Any]] = {
    "config.toml": lambda run: run.config(),
    "split.parquet": lambda run: [run.labels().ids, run.labels().y.tolist(), run.labels().class_names],
    "k_estimate.json": lambda run: run.estimate(),
    "metrics.jsonl": lambda run: run.epochs(),
    "model.toml": lambda run: run.read_model()[1],
    "assignments.parquet": lambda run: (run.assignments().to_pylist(), run.class_count(), run.updates),
    "items.npz": lambda run: run.features() and (run.features().ids.to_pylist(), run.features().x.tobytes()),  # type: ignore[union-attr]
    "updates/001/split.parquet": lambda run: load_run_model(run) and None,
    "updates/001/prototypes.safetensors": lambda run: [a.tobytes() for a in (run.read_update(1) or {}).values()],
}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted(READERS)),
    kind=st.sampled_from(["flip", "flip", "flip", "cut", "insert", "zero", "replace"]),
    place=st.floats(0, 1, exclude_max=True),
    bits=st.integers(1, 255),
    junk=st.binary(max_size=20),
)
def test_any_damage_is_a_sentence_or_without_effect(
    finished: Path, name: str, kind: str, place: float, bits: int, junk: bytes
) -> None:
    """Never a traceback, and never other content. Files that people may edit by hand are no exception."""
    path, run = finished / name, Run(finished)
    whole = path.read_bytes()
    expected = READERS[name](run)
    at = int(place * len(whole))
    damaged = {
        "flip": whole[:at] + bytes([whole[at] ^ bits]) + whole[at + 1 :],
        "cut": whole[:at],
        "insert": whole[:at] + junk + whole[at:],
        "zero": whole[:at] + bytes(len(whole[at : at + 64])) + whole[at + 64 :],
        "replace": junk,
    }[kind]
    path.write_bytes(damaged)
    try:
        found = READERS[name](run)
        # Without its checksum a file counts as another tool's: whole lines of the epochs may be cut away at the end.
        if name == "metrics.jsonl":
            assert found == expected[: len(found)]
        else:
            assert found == expected
    except InputError as error:
        assert "\n" not in str(error)
        assert str(finished) in str(error)
    finally:
        path.write_bytes(whole)


def test_a_run_that_another_tool_rewrote_is_a_sentence_everywhere(run: Path, finished: Path) -> None:
    table = pq.read_table(run / "assignments.parquet")
    pq.write_table(table.replace_schema_metadata(None), run / "assignments.parquet")
    old = finished.parent / "old.npz"
    for arguments in (("update", run, old), ("predict", run, old), ("discover", old, "--out", run)):
        assert "rewritten by another tool" in fails(*arguments)
    pq.write_table(table.set_column(2, "name", pa.array(["x"] * len(table))), run / "assignments.parquet")
    for arguments in (("update", run, old), ("evaluate", run), ("report", run), ("predict", run, old)):
        assert "another tool changed it" in fails(*arguments)


# ---------------------------------------------------------------- kills


def test_an_update_killed_at_any_file_operation_loses_nothing(finished: Path, tmp_path: Path) -> None:
    """The process dies before the first, the second … file takes its name; each time the same command goes on."""
    true = np.repeat([1, 4], 10)
    new = write(tmp_path / "more.npz", true, np.full(20, -1), "more", 3)
    whole = Path(shutil.copytree(finished, tmp_path / "whole"))
    source = read_source(new)
    update_run(Run(whole), source)
    expected, old = Run(whole).assignments(), Run(finished).assignments()
    kills = 0
    for number in range(60):
        folder = Path(shutil.copytree(finished, tmp_path / f"run{number}"))
        if _dies_at(number, folder, new):
            kills += 1
        else:
            break
        run = Run(folder)
        state = run.assignments()
        assert state.equals(old) or state.equals(expected)
        evaluate_run(run)
        update_run(run, source)
        assert run.assignments().equals(expected)
        assert run.labels().ids.equals(Run(whole).labels().ids)
        assert check_run(run)["sound"], check_run(run)
        assert not list(folder.rglob("*.tmp"))
        shutil.rmtree(folder)
    assert kills >= 6  # own labels and prototypes, features, map, assignments, labels, page


def _dies_at(number: int, folder: Path, new: Path) -> bool:
    """Update a run in a process that is killed at its n-th renaming; whether it was.

    It is forked from a process that has computed nothing: after threads have worked in this one, a fork of it may hang.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    child = context.Process(target=_update_until, args=(number, folder, new))
    child.start()
    child.join()
    assert child.exitcode in (0, 9)
    return child.exitcode == 9


def _update_until(number: int, folder: Path, new: Path) -> None:
    count, real = 0, Path.replace

    def replace(self: Path, target: Path) -> Path:
        nonlocal count
        if count == number:
            os._exit(9)
        count += 1
        return real(self, target)

    Path.replace = replace  # type: ignore[method-assign, assignment]
    update_run(Run(folder), read_source(new))


def test_an_edit_waits_for_who_is_writing_and_for_nothing_else(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two were told apart by words of the sentence, which a run may have in its name."""
    odd = run.rename(tmp_path / "being written")
    (odd / "map.npz").unlink()
    (odd / "map.npz").mkdir()
    (tmp_path / "edits.csv").write_text("category,name\nnovel-001,bee\n")
    waits: list[float] = []
    monkeypatch.setattr("ltgcd.run.reviewed.time.sleep", waits.append)
    assert "map.npz is a folder" in fails("relabel", odd, tmp_path / "edits.csv")
    assert not waits
    (odd / "map.npz").rmdir()
    monkeypatch.setattr("ltgcd.run.reviewed.PATIENCE", 0.2)
    with Run(odd).lock("ltgcd update"):
        assert "being written to by ltgcd update" in fails("relabel", odd, tmp_path / "edits.csv")
    assert waits


def test_a_lock_that_is_a_link_is_refused_by_every_command(run: Path, finished: Path, tmp_path: Path) -> None:
    victim = tmp_path / "thesis.tex"
    victim.write_text("precious")
    (run / ".ltgcd.lock").unlink()
    (run / ".ltgcd.lock").symlink_to(victim)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / ".ltgcd.lock").symlink_to(victim)
    old = finished.parent / "old.npz"
    for arguments in (
        ("check", run), ("report", run), ("update", run, old), ("discover", old, "--out", tmp_path / "new"),
        ("train", old, "--out", tmp_path / "new"), ("embed", old, "--out", tmp_path / "new"),
    ):  # fmt: skip
        assert ".ltgcd.lock is not what ltgcd keeps under that name" in fails(*arguments), arguments
        assert victim.read_text() == "precious", arguments


def test_every_command_that_writes_is_told_who_holds_the_run(run: Path, finished: Path) -> None:
    old = finished.parent / "old.npz"
    with Run(run).lock("ltgcd update"):
        for arguments in (
            ("update", run, old), ("predict", run, old), ("report", run), ("discover", old, "--out", run),
            ("train", old, "--out", run), ("check", run, "--repair"),
        ):  # fmt: skip
            done = call_cli(*arguments, "--json")
            assert done.code == 2, arguments
            assert f"is being written to by ltgcd update (process {os.getpid()})" in done.json["error"]


def test_who_corrects_is_told_who_holds_the_run(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also an edit of the page, what takes back, and Python; nothing of it is kept. Who only reads is let in."""
    monkeypatch.setattr("ltgcd.run.reviewed.PATIENCE", 0.1)
    first, more, out = tmp_path / "first.csv", tmp_path / "more.csv", tmp_path / "out.csv"
    first.write_text("id,label\nold0,ant\nold1,ant\n")
    more.write_text("id,label\nold2,wasp\n")
    assert call_cli("relabel", run, first).code == 0
    told = f"is being written to by ltgcd update (process {os.getpid()})"
    refused: tuple[tuple[object, ...], ...] = (
        ("relabel", run, more),
        ("relabel", run, "--undo"),
        ("refine", run),
        ("refine", run, "--out", tmp_path / "copy"),
    )
    for commands in (refused, (("refine", run, "--undo"),)):
        before = contents(run)
        with Run(run).lock("ltgcd update"):
            for arguments in commands:
                assert told in fails(*arguments), arguments
            session = Session.open(run)
            with pytest.raises(BusyError, match="written to by ltgcd update"):
                session.held.act([{"op": "junk", "rows": [3]}])
            session.close()
            with pytest.raises(BusyError, match="written to by ltgcd update"):
                CategoryDiscovery.load(run).save(run)
            assert call_cli("export", run, "--format", "csv", "--out", out).code == 0
        assert {**contents(run), ".ltgcd.lock": b""} == {**before, ".ltgcd.lock": b""}
        assert not (tmp_path / "copy").exists() and len(out.read_text().splitlines()) == 1 + 264
        out.unlink()
        assert call_cli("refine", run).code == 0
