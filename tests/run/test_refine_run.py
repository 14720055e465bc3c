"""``ltgcd relabel`` and ``ltgcd refine`` on a run directory: kept, undone, killed, updated, exported."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from conftest import call_cli
from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata
from ltgcd.data.sources import read_source
from ltgcd.review.corrections import edits_of
from ltgcd.review.log import EventLog, StaleError
from ltgcd.run.check import check_run
from ltgcd.run.directory import Run
from ltgcd.run.discover import discover_source
from ltgcd.run.predict import load_run_model
from ltgcd.run.refine import Proposal, refine_run, refined_copy, undo_refine
from ltgcd.run.relabel import relabel_run, undo_relabel
from ltgcd.run.reviewed import RunReview
from ltgcd.run.update import update_run

SIZES = [60, 40, 30, 40, 30, 20]
KIND = np.repeat(np.arange(6), SIZES)
CENTRES = 4 * np.random.RandomState(7).randn(8, 16)


def vectors(kinds: np.ndarray, seed: int) -> np.ndarray:
    return (CENTRES[kinds] + np.random.RandomState(seed).randn(len(kinds), 16)).astype(np.float32)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of six kinds of items, three of them partly labelled as ant, bee and cat."""
    folder = tmp_path_factory.mktemp("made")
    y = np.where((KIND < 3) & (np.arange(len(KIND)) % 2 == 0), KIND, -1)
    ids = np.array([f"i{n}" for n in range(len(KIND))])
    names = np.array(["ant", "bee", "cat"])
    np.savez(folder / "x.npz", x=vectors(KIND, 0), y=y, ids=ids, class_names=names, y_true=KIND)
    discover_source(read_source(folder / "x.npz"), folder / "run", k=6, rehearsals=0)
    return folder / "run"


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Run:
    shutil.copytree(made, tmp_path / "run")
    return Run(tmp_path / "run")


def said(run: Run, text: str) -> dict:
    path = run.folder.parent / "corrections.csv"
    path.write_text(text)
    return relabel_run(run, path)


def novel_of(run: Run, kind: int) -> str:
    names = np.array(run.assignments().column("name").to_pylist())[kind == KIND]
    values, counts = np.unique(names, return_counts=True)
    return str(values[counts.argmax()])


def rows(run: Run) -> list[dict]:
    table = RunReview.open(run).review.table()  # with the column `given`, also where nothing was said yet
    assert table.select(["id", "label", "name", "status"]).equals(
        run.assignments().select(["id", "label", "name", "status"]).replace_schema_metadata(table.schema.metadata)
    )
    return table.select(["id", "label", "name", "status", "given"]).to_pylist()


def test_relabel_by_the_command(run: Run, tmp_path: Path) -> None:
    name = novel_of(run, 3)
    (tmp_path / "c.csv").write_text(f"id,label,category,name\ni0,bee,,\n,,{name},wasp\nnobody,ant,,\ni219,junk,,\n")
    done = call_cli("relabel", run, tmp_path / "c.csv", "--json")
    told = done.json
    assert done.code == 0
    wanted = {"renamed": 1, "merged": 0, "moved": 1, "confirmed": 0, "junk": 1, "events": 3}
    assert {key: told[key] for key in wanted} == wanted and told["run"] == str(run)
    assert [(row["row"], row["reason"]) for row in told["refused"]] == [(3, "no item has the id 'nobody'")]
    table = pq.read_table(run.files.assignments)  # what other programs read has it, too
    assert table.column("name")[0].as_py() == "bee" and table.column("given")[0].as_py()
    assert table.column("status")[219].as_py() == "junk"
    assert "wasp" in table.column("name").to_pylist()
    before = (tmp_path / "run" / "assignments.parquet").read_bytes()
    assert call_cli("relabel", run).code == 2
    assert call_cli("relabel", run, tmp_path / "nowhere.csv").code == 2
    assert call_cli("relabel", run, "--undo", "x").code == 2
    assert run.files.assignments.read_bytes() == before
    assert call_cli("relabel", run, "--undo", "--json").code == 0
    assert [row["given"] for row in rows(run)] == [False] * len(KIND)


def test_an_export_that_was_edited_is_corrections(run: Run, tmp_path: Path) -> None:
    said(run, "id,label\ni1,junk\n")
    assert call_cli("export", run, "--format", "csv", "--out", tmp_path / "labels.csv").code == 0
    lines = (tmp_path / "labels.csv").read_text().splitlines()
    assert any("junk" in line for line in lines)
    assert relabel_run(run, tmp_path / "labels.csv")["events"] == 0, "nothing was edited"
    edited = [line.replace("ant", "bee", 1) if line.startswith('"i0"') else line for line in lines]
    assert edited != lines
    (tmp_path / "labels.csv").write_text("\n".join(edited) + "\n")
    told = relabel_run(run, tmp_path / "labels.csv")
    assert (told["moved"], told["refused"]) == (1, []) and rows(run)[0]["name"] == "bee"


def test_refine_and_its_undo(run: Run) -> None:
    three, four = novel_of(run, 3), novel_of(run, 4)
    untouched = novel_of(run, 5)
    said(run, f"category,name\n{three},wasp\n")
    said(run, "id,label\n" + "".join(f"i{n},wasp\n" for n in np.flatnonzero(KIND == 3)[:10]) + "i0,bee\n")
    before, note = rows(run), run.assignments_note()
    proposal = refine_run(run)
    assert rows(run) == before, "a proposal changes nothing"
    told = proposal.keep()
    assert told["kept"] == 11
    after = {row["id"]: row for row in rows(run)}
    for row in before:
        if row["given"]:
            assert after[row["id"]]["name"] == row["name"] and after[row["id"]]["given"]
    names = {row["name"] for row in after.values()}
    assert {"ant", "bee", "cat", "wasp", four, untouched} <= names
    codes = {row["name"]: row["label"] for row in before}
    assert all(row["label"] == codes[row["name"]] for row in after.values() if row["name"] in codes)
    assert check_run(run)["sound"], check_run(run)["problems"]
    with pytest.raises(InputError, match="since it was refined"):
        undo_relabel(run)
    said(run, "id,label\ni1,bee\n")
    said(run, "id,label\ni2,bee\n")
    told = call_cli("refine", run, "--undo")
    assert "2 things were said after that refine and are no longer in force" in told.out
    assert rows(run) == before and run.assignments_note()["classes"] == note["classes"]
    assert check_run(run)["sound"], check_run(run)["problems"]
    with pytest.raises(InputError, match="it was not refined"):
        undo_refine(run)
    assert undo_relabel(run, 9)["undone"] == 2, "what was said before can still be taken back"


def test_refine_by_the_command_shows_the_difference(run: Run, tmp_path: Path) -> None:
    said(run, f"category,name\n{novel_of(run, 3)},wasp\n")
    said(run, "id,label\ni0,junk\n")
    before = run.files.assignments.read_bytes()
    dry = call_cli("refine", run, "--dry-run")
    assert dry.code == 0 and "Nothing was replaced" in dry.out
    told = re.search(r"([\d,]+) items in known ones, ([\d,]+) in novel categories, ([\d,]+) unsure, 1 junk\.", dry.out)
    assert told and sum(int(n.replace(",", "")) for n in told.groups()) + 1 == len(KIND), "all items are told of"
    assert "items change their class" in dry.out
    assert run.files.assignments.read_bytes() == before
    done = call_cli("refine", run, "--out", tmp_path / "second", "--json")
    told = done.json
    assert done.code == 0 and told["run"] == str(tmp_path / "second")
    assert {"k", "low", "high", "known", "novel", "unsure", "report", "run", "changed", "kept"} <= set(told)
    assert run.files.assignments.read_bytes() == before
    assert "wasp" in Run(tmp_path / "second").assignments().column("name").to_pylist()
    assert call_cli("refine", run, "--out", tmp_path / "second").code == 2, "nothing is overwritten"


def test_predict_and_update_know_what_was_reviewed(run: Run, tmp_path: Path) -> None:
    three, four = novel_of(run, 3), novel_of(run, 4)
    said(run, f"category,name\n{three},{four}\n")  # merged
    said(run, "id,label\n" + "".join(f"i{n},dog\n" for n in np.flatnonzero(KIND == 5)))  # made
    new = np.repeat([3, 4, 5, 6], [6, 6, 6, 12])
    np.savez(tmp_path / "new.npz", x=vectors(new, 1), ids=np.array([f"n{i}" for i in range(len(new))]))
    assert call_cli("predict", run, tmp_path / "new.npz", "--out", tmp_path / "p.parquet").code == 0
    names = pq.read_table(tmp_path / "p.parquet").column("name").to_pylist()
    assert set(names[:12]) == {four}, "what was merged is one class for new items, too"
    before = rows(run)
    told = update_run(run, read_source(tmp_path / "new.npz"))
    assert told["n_added"] == len(new) and told["notes"] == []
    assert rows(run)[: len(before)] == before, "no old label changed"
    added = [row["name"] for row in rows(run)[len(before) :]]
    assert set(added[:12]) == {four}
    assert added[12:18].count("dog") >= 5, "a class that was made in the review has a prototype"
    appended = set(added[18:])
    assert len(appended) == 1 and not appended & {row["name"] for row in before}
    assert check_run(run)["sound"], check_run(run)["problems"]
    # Another fit takes up all of it.
    refine_run(run).keep()
    after = {row["id"]: row for row in rows(run)}
    assert all(after[f"i{n}"]["name"] == "dog" for n in np.flatnonzero(KIND == 5))
    assert {row["name"] for row in after.values()} >= {"ant", "bee", "cat", "dog", four} | appended
    assert load_run_model(run).fitted.k == run.class_count()
    with pytest.raises(InputError, match="since it was refined"):
        undo_relabel(run)
    np.savez(tmp_path / "more.npz", x=vectors(np.array([6] * 5 + [0] * 5), 2), ids=[f"m{i}" for i in range(10)])
    told = update_run(run, read_source(tmp_path / "more.npz"))
    assert ["is final now" in note for note in told["notes"]] == [True]
    assert {row["name"] for row in rows(run)[-10:-5]} == appended
    assert check_run(run)["sound"], check_run(run)["problems"]
    with pytest.raises(InputError, match="items were added since"):
        undo_refine(run)


def test_labels_that_came_later_count_in_the_next_fit(run: Run, tmp_path: Path) -> None:
    held = np.load(run.files.features)
    at = np.flatnonzero(KIND == 4)[:8]
    ids = np.array([f"i{n}" for n in at])
    np.savez(tmp_path / "known.npz", x=held["x"][at], y=np.zeros(8, int), ids=ids, class_names=np.array(["emu"]))
    told = update_run(run, read_source(tmp_path / "known.npz"))
    assert (told["n_added"], told["n_labels_kept"]) == (0, 8)
    refine_run(run).keep()
    named = {row["id"]: row for row in rows(run)}
    assert all(named[item]["name"] == "emu" and named[item]["given"] for item in ids)
    assert sum(row["name"] == "emu" for row in named.values()) > 20, "the others of its kind followed"


@pytest.mark.parametrize("at", ["write_model", "write_state", "write_assignments"])
def test_a_refine_that_is_killed_changes_nothing_or_all(run: Run, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said(run, f"category,name\n{novel_of(run, 3)},wasp\n")
    before = rows(run)
    proposal = refine_run(run)

    class KilledError(BaseException):
        pass

    def killed(*_: object, **__: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(Run, at, killed)
        with pytest.raises(KilledError):
            proposal.keep()
    again = Run.open(run.folder)
    assert rows(again) == before
    assert undo_relabel(again)["undone"] == 1
    told = refine_run(again).keep()
    assert told["k"] == 6 and check_run(again)["sound"]


def test_an_event_counts_before_it_is_in_the_file(run: Run) -> None:
    """Killed after the event and before the assignments: every reader has it all the same."""
    RunReview.open(run).act([{"op": "assign", "rows": [0], "code": 1}])
    assert pq.read_table(run.files.assignments).column("name")[0].as_py() == "ant"
    assert rows(run)[0]["name"] == "bee"
    assert RunReview.open(run).pending == 1
    with run.lock("test"):
        RunReview.open(run).apply()
    assert RunReview.open(run).pending == 0
    assert pq.read_table(run.files.assignments).column("name")[0].as_py() == "bee"


def test_two_at_once_are_told(run: Run) -> None:
    one, other = RunReview.open(run), RunReview.open(run)
    first = one.act([{"op": "junk", "rows": [5]}], key="k1")
    with pytest.raises(StaleError):
        other.act([{"op": "assign", "rows": [5], "code": 0}])
    other.refresh()
    assert other.review.junk[5] and other.version == one.version
    assert other.act([{"op": "junk", "rows": [5]}], key="k1") == first, "sent again, it is kept once"
    assert len(other.steps()) == 1
    proposal = refine_run(run)
    other.act([{"op": "clear", "rows": [5]}])
    with pytest.raises(StaleError, match="was changed while"):
        proposal.keep()


def test_undo_and_redo_with_codes_never_given_twice(run: Run) -> None:
    held = RunReview.open(run)
    whole = np.flatnonzero(held.review.code == 3)
    held.act([{"op": "split", "code": 3, "parts": [whole[:5]]}])
    (first,) = held.review.created
    assert held.undo() == 1 and held.review.created == ()
    held.act([{"op": "split", "code": 3, "parts": [whole[5:9]]}])
    (second,) = held.review.created
    assert second == first + 1
    fresh = RunReview.open(run)
    assert fresh.review.table().equals(held.review.table()) and fresh.can_redo == 0
    assert held.undo() == 1 and held.redo() == 1
    assert held.review.table().equals(fresh.review.table())
    fresh.refresh()
    assert fresh.version == held.version


def test_labels_that_are_written_late_undo_nothing(run: Run, tmp_path: Path) -> None:
    new = np.repeat([3, 4], [6, 6])
    np.savez(tmp_path / "new.npz", x=vectors(new, 1), ids=np.array([f"n{i}" for i in range(len(new))]))
    slow = RunReview.open(run)
    slow.act(edits_of(pa.table({"id": ["i2"], "label": ["bee"]}), slow.review).events)
    said(run, "id,label\ni0,junk\n")  # somebody else, before the first one could write its labels
    with run.lock("the first"):
        slow.apply()
    kept = {row["id"]: row["name"] if row["status"] != "junk" else "junk" for row in rows(run)}
    assert (kept["i0"], kept["i2"]) == ("junk", "bee") and RunReview.open(run).pending == 0
    slow.act(edits_of(pa.table({"id": ["i4"], "label": ["bee"]}), slow.review).events)
    update_run(run, read_source(tmp_path / "new.npz"))
    before = rows(run)
    with run.lock("the first"):
        slow.apply()
    assert rows(run) == before and len(before) == len(kept) + len(new)
    assert {row["id"]: row["name"] for row in before}["i4"] == "bee"


def test_a_refined_copy_is_whole_or_not_there(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said(run, "id,label\ni0,junk\ni2,bee\n")
    before, out = run.assignments(), tmp_path / "copy"

    def stop(_proposal: Proposal) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # when all is computed, and nothing is kept
        refined_copy(run, out, show=stop)
    monkeypatch.setattr("ltgcd.run.refine.draw_again", lambda *_: stop(None))  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):  # when all but the page is there
        refined_copy(run, out)
    assert not out.exists() and not list(tmp_path.glob(".ltgcd-export-*"))
    monkeypatch.undo()
    result = refined_copy(run, out)
    assert result["run"] == str(out) and Path(result["report"]).is_file()
    assert check_run(Run(out))["sound"] and Run(out).fits() == [1]
    assert run.assignments().equals(before) and not run.fits()
    with pytest.raises(InputError, match="is there already"):
        refined_copy(run, out)
    with pytest.raises(InputError, match="keeps what is its own"):
        refined_copy(run, run.folder / "copy")


def test_a_dry_run_writes_nothing(run: Run) -> None:
    ids = pa.array(["i1", "i3"])
    run.keep_later_labels(ids, pa.array(["bee", "bee"]))
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    assert call_cli("refine", run, "--dry-run", "--json").code == 0
    after = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    assert before == after
    assert call_cli("refine", run, "--json").code == 0
    given = run.assignments().filter(pc.is_in(run.assignments().column("id"), ids))
    assert given.column("name").to_pylist() == ["bee", "bee"] and all(given.column("given").to_pylist())


def test_the_page_and_the_metadata_after_a_review(run: Run) -> None:
    said(run, "id,label\ni0,junk\ni2,bee\n")
    said(run, f"category,name\n{novel_of(run, 3)},wasp\n")
    assert call_cli("report", run, "--json").code == 0
    html = run.report.read_text()
    assert "wasp" in html
    note = read_metadata(pq.read_table(run.files.assignments).schema)
    assert note["base"] == 0 and note["model_k"] == 6


def test_a_refused_update_has_written_nothing_also_if_the_reviewed_state_is_damaged(run: Run, tmp_path: Path) -> None:
    said(run, "id,label\ni0,bee\n")
    np.savez(tmp_path / "new.npz", x=vectors(np.full(5, 1), 3), y=np.full(5, -1), ids=[f"new{n}" for n in range(5)])
    state = next((run.folder / "states").iterdir())
    state.write_bytes(state.read_bytes()[:-30])
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file() and path.name[0] != "."}
    with pytest.raises(InputError, match=state.name):
        update_run(run, read_source(tmp_path / "new.npz"))
    assert {path: path.read_bytes() for path in before} == before


def test_discover_again_keeps_what_people_said_and_says_so(run: Run, made: Path) -> None:
    told: list[str] = []
    said(run, "id,label\ni0,bee\n")
    before = rows(run)
    discover_source(read_source(made.parent / "x.npz"), run.folder, k=6, rehearsals=0, notify=told.append)
    assert rows(run) == before and before[0]["name"] == "bee"
    assert any("is finished and has been reviewed; 'ltgcd refine' fits it again" in sentence for sentence in told)


def test_discover_again_makes_no_labels_where_those_of_people_are_gone(run: Run, made: Path) -> None:
    said(run, "id,label\ni0,bee\n")
    run.files.assignments.unlink()
    with pytest.raises(InputError, match="is missing, and people have reviewed this run"):
        discover_source(read_source(made.parent / "x.npz"), run.folder, k=6, rehearsals=0)
    assert not run.finished


def test_a_second_refine_without_a_new_word_says_so(run: Run) -> None:
    told: list[str] = []
    said(run, "id,label\ni0,bee\n")
    refine_run(run, notify=told.append).keep()
    assert not any("nothing new" in sentence for sentence in told)
    refine_run(run, notify=told.append)
    assert any("nothing new was said since the last refine" in sentence for sentence in told)


def test_a_refused_relabel_is_not_kept(run: Run) -> None:
    before = run.assignments()
    curves = next(run.folder.glob("*.jsonl"))
    curves.unlink()
    curves.mkdir()
    with pytest.raises(InputError, match="is a folder, where a run keeps a file"):
        said(run, "id,label\ni0,bee\n")
    curves.rmdir()
    assert run.assignments().equals(before) and RunReview.open(run).can_undo == 0


def test_labels_that_another_tool_rewrote_after_a_refine_are_not_taken_for_those_before_it(run: Run) -> None:
    said(run, "id,label\ni0,bee\n")
    refine_run(run)
    said(run, f"category,name\n{novel_of(run, 3)},wasp\n")
    pq.write_table(pq.read_table(run.files.assignments).replace_schema_metadata(None), run.files.assignments)
    for look in (run.assignments, lambda: RunReview.open(run), lambda: load_run_model(run)):
        with pytest.raises(InputError, match="rewritten by another tool"):
            look()


def test_without_the_labels_a_reviewed_run_predicts_nothing(run: Run) -> None:
    """The first model is still there, with other numbers and names than the one that counts."""
    said(run, "id,label\ni0,bee\n")
    run.files.assignments.unlink()
    with pytest.raises(InputError, match=r"assignments\.parquet is missing; restore it"):
        load_run_model(run)


def test_relabel_beside_a_writer_that_takes_long_is_refused_and_keeps_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ltgcd.run.reviewed.PATIENCE", 0.1)
    append = EventLog.append

    def appended_then_locked(self: EventLog, *arguments: object, **more: object) -> int:
        action = append(self, *arguments, **more)
        with pytest.raises(InputError, match="being written"), run.lock("another process"):
            raise AssertionError("the lock was let go between the event and the labels")
        return action

    monkeypatch.setattr(EventLog, "append", appended_then_locked)
    said(run, "id,label\ni0,bee\n")
    assert rows(run)[0]["name"] == "bee" and not RunReview.open(run).pending
    with run.lock("another process"), pytest.raises(InputError, match="being written to by another process"):
        said(run, "id,label\ni1,bee\n")
    assert RunReview.open(run).can_undo == 1


@pytest.mark.parametrize("fits", [0, 1])
def test_what_is_taken_back_needs_the_state_that_it_was_said_about(run: Run, fits: int) -> None:
    """The labels that were written were taken for it: what had been said could not be taken back, without a word."""
    relabel_run(run, pa.table({"id": ["i1"], "label": ["bee"]}))
    for _ in range(fits):
        refine_run(run).keep()
        relabel_run(run, pa.table({"id": ["i2"], "label": ["cat"]}))
    before = run.assignments()
    run.state_file(fits).unlink()
    for command in (lambda: undo_relabel(run), lambda: relabel_run(run, pa.table({"id": ["i3"], "label": ["bee"]}))):
        with pytest.raises(InputError, match=f"lacks 00{fits}.parquet"):
            command()
    assert run.assignments().equals(before)


def test_a_reviewed_state_that_another_tool_rewrote_is_told(run: Run) -> None:
    said(run, "id,label\ni0,bee\n")
    state = next((run.folder / "states").iterdir())
    pq.write_table(pq.read_table(state).replace_schema_metadata(None), state)
    with pytest.raises(InputError, match=f"{state.name} was rewritten by another tool"):
        undo_relabel(run)
