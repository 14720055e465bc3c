"""A run that is changed by commands while its page is open: the page is told what, and shows what is there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.review.server.client import Answer, Client, open_client, seen
from tests.review.server.synthetic import make_run

from ltgcd.common.errors import InputError
from ltgcd.data.sources import read_source
from ltgcd.review.server import session
from ltgcd.run.check import check_run
from ltgcd.run.directory import Run
from ltgcd.run.discover import discover_source
from ltgcd.run.refine import refine_run, undo_refine
from ltgcd.run.relabel import relabel_run, undo_relabel
from ltgcd.run.update import update_run

CENTRES = 4 * np.random.RandomState(7).randn(6, 12)


def source(path: Path, kinds: np.ndarray, prefix: str) -> Path:
    x = (CENTRES[kinds] + np.random.RandomState(len(kinds)).randn(len(kinds), 12)).astype(np.float32)
    y = np.where((kinds < 3) & (np.arange(len(kinds)) % 2 == 0), kinds, -1)
    np.savez(path, x=x, y=y, ids=[f"{prefix}{n}" for n in range(len(kinds))], class_names=["ant", "bee", "cat"])
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("news")
    kinds = np.repeat(np.arange(5), [60, 50, 40, 30, 30])
    discover_source(read_source(source(folder / "x.npz", kinds, "i")), folder / "run", k=5, rehearsals=0)
    return folder / "run"


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Run:
    return Run(Path(shutil.copytree(made, tmp_path / "run")))


class Page:
    """What a page does: it remembers what it has seen, and asks whether there is more."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.look()

    def look(self) -> None:
        self.state: dict[str, Any] = self.client.get("/api/state").json

    def ask(self) -> Answer:
        return self.client.get("/api/news?" + "&".join(f"{key}={part}" for key, part in seen(self.state).items()))

    def post(self, path: str, **told: Any) -> Answer:
        return self.client.post(f"/api/{path}", {**told, **seen(self.state)})

    def junk(self, *rows: int) -> Answer:
        return self.post("act", events=[{"op": "junk", "rows": list(rows)}])

    def news(self) -> str:
        answer = self.ask()
        assert answer.status == 200, answer.body
        self.look()
        sentence: str = answer.json["sentence"]
        return sentence


def said(run: Run, text: str) -> None:
    path = run.folder.parent / "said.csv"
    path.write_text(text)
    relabel_run(run, path)


def test_every_command_is_told_and_what_it_did_is_there(run: Run, tmp_path: Path) -> None:
    page = Page(open_client(run.folder))
    assert page.news() == "" and page.state["added"] == 0 and page.client.rows("/api/rows?status=added") == []
    said(run, "id,label\ni1,bee\n")
    assert "Changed elsewhere, by a command or in another tab: 1 item confirmed as bee." in page.news()
    assert page.state["counts"]["given"] == 1 and page.news() == ""
    said(run, "category,name\nnovel-001,wasp\n")
    said(run, "id,label\ni3,junk\n")
    assert "1 item taken out, and 1 more." in page.news()
    undo_relabel(run)
    assert "taken back" in page.news() and page.state["redo"] == 1
    said(run, "id,label\ni5,junk\n")
    undo_relabel(run)
    assert "taken out" not in (news := page.news()) and "taken back, or done again" in news
    refine_run(run).keep()
    assert "fitted again elsewhere (ltgcd refine)" in page.news() and page.state["base"] == 1
    undo_refine(run)
    assert "refine was taken back" in page.news() and page.state["base"] == 0
    update_run(run, read_source(source(tmp_path / "more.npz", np.repeat([0, 5], 20), "j")))
    assert "Items were added elsewhere (ltgcd update)" in page.news()
    assert page.state["n"] == 250 and len(page.client.session.described.z) == 250
    added = page.client.rows("/api/rows?status=added")
    statuses = [row["status"] for row in page.client.get("/api/describe?rows=" + ",".join(map(str, added))).json]
    assert page.state["added"] == 40 and sorted(added) == list(range(210, 250))
    assert statuses == sorted(statuses, key=["novel", "unsure", "known"].index) and len(set(statuses)) > 1
    assert page.news() == ""
    lines = page.client.get("/api/history").json
    assert lines[0]["by"] == "update" and {one["sentence"] for one in lines[1:]} >= {"1 item confirmed as bee"}


def test_what_the_page_says_itself_is_no_news(run: Run) -> None:
    page = Page(open_client(run.folder))
    page.state = {**page.state, **page.client.act({"op": "junk", "rows": [3]})}
    assert page.news() == ""


def test_an_edit_of_a_page_that_has_not_seen_an_update_takes_nothing_from_it(run: Run, tmp_path: Path) -> None:
    """Nobody has reviewed the run yet: its labels are kept as a base with the first edit, and must be those of now."""
    page = Page(open_client(run.folder))
    update_run(run, read_source(source(tmp_path / "more.npz", np.repeat([0, 5], 20), "j")))
    assert page.junk(3).status == 409
    page.look()
    page.state |= page.junk(3).json
    assert page.post("apply").status == 200
    page.client.session.close()
    assert len(run.assignments()) == 250 and check_run(run)["sound"]


@pytest.mark.parametrize("reviewed", [True, False])
@pytest.mark.parametrize("command", ["update", "refine"])
def test_a_tab_that_has_not_seen_what_another_was_told_changes_nothing(
    run: Run, tmp_path: Path, command: str, reviewed: bool
) -> None:
    """An update and a refine add no event, and whoever asks first lets the server catch up for all tabs."""
    client = open_client(run.folder)
    if reviewed:
        client.act({"op": "junk", "rows": [1]})
    first, second = Page(client), Page(client)
    if command == "update":
        update_run(run, read_source(source(tmp_path / "more.npz", np.repeat([0, 5], 20), "j")))
    else:
        refine_run(run).keep()
    assert "elsewhere" in first.news()
    before = client.session.held.log.version()
    answers = [second.junk(3), *(second.post(path) for path in ("undo", "redo", "apply", "refine", "refine/undo"))]
    assert [answer.status for answer in answers] == [409] * 6
    only_version = {"events": [{"op": "junk", "rows": [3]}], "version": second.state["version"]}
    assert client.post("/api/act", only_version).status == 409, "who names no base has seen that of the beginning"
    assert client.session.held.log.version() == before and client.get("/api/refine").json["state"] == "idle"
    assert first.junk(3).status == 200


def test_an_update_before_apply_is_seen_first(run: Run, tmp_path: Path) -> None:
    page = Page(open_client(run.folder))
    page.state |= page.junk(1).json
    update_run(run, read_source(source(tmp_path / "more.npz", np.repeat([0, 5], 20), "j")))
    assert page.post("apply").status == 409
    page.look()
    assert page.state["n"] == 250 and len(page.client.get("/api/items").body) == 8 + 250 * (8 + 4 + 3)
    page.state |= page.junk(240).json
    assert page.post("apply").status == 200
    page.client.session.close()
    status = run.written_assignments().column("status").to_pylist()
    assert len(status) == 250 and [n for n, one in enumerate(status) if one == "junk"] == [1, 240]


def test_apply_refuses_what_was_written_after_the_last_look(run: Run, tmp_path: Path) -> None:
    """The files of an update can't be read yet, so that the session has not caught up."""
    page = Page(open_client(run.folder))
    page.state |= page.junk(1).json
    update_run(run, read_source(source(tmp_path / "more.npz", np.repeat([0, 5], 20), "j")))
    page.client.session._catch_up = lambda: None  # type: ignore[method-assign]
    assert page.post("apply").status == 409 and page.junk(3).status == 409
    assert len(page.client.session.held.review) == 210


def test_items_that_can_not_be_read_yet_leave_everything_as_it_was(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update is killed, or still writes: the page goes on with what it has, and has the new items later."""
    page = Page(open_client(run.folder))
    update_run(run, read_source(source(tmp_path / "more.npz", np.repeat([0, 5], 20), "j")))
    real = session.read_material

    tries = []

    def not_yet(*_given: Any) -> None:
        tries.append(1)
        raise InputError("The labels of the new items are not there yet.")

    monkeypatch.setattr(session, "read_material", not_yet)
    for _ in range(2):
        assert page.ask().status == 422
        assert page.junk(3).status == 409, "the page has to look again, and can't yet"
        assert len(page.client.session.held.review) == len(page.client.session.described.z) == 210
    assert len(tries) == 1, "read again when a file of the run was written"
    monkeypatch.setattr(session, "read_material", real)
    run.contents.path.touch()
    assert "Items were added" in page.news() and page.state["n"] == 250


def test_one_statement_says_how_many_classes_there_are(tmp_path: Path, run: Run) -> None:
    make_run(tmp_path / "given")
    k = open_client(tmp_path / "given").get("/api/state").json["k"]
    assert k == {"k": 8, "sentence": "8 classes have items now; 4 of them known or confirmed."}
    run.write_estimate({"method": "peaks", "k": 7, "low": 6, "high": 9, "n_old": 3, "curve": []})
    client = open_client(run.folder)
    state = client.get("/api/state").json
    assert state["k"]["sentence"] == (
        "5 classes have items now; 3 of them known or confirmed. "
        "Estimated beforehand: about 7 classes in all, known and novel (90 % interval 6 to 9). "
        "There may be more: the odd ones (key O) show classes that have no category yet."
    )
    assert "stimate" not in state["meta"]["lead"], "it is said once"
    novel = next(one for one in state["classes"] if not one["known"])
    done = client.act({"op": "rename", "code": novel["code"], "name": "wasp"})
    assert "4 of them known or confirmed. Estimated beforehand: about 7" in done["k"]["sentence"]
