"""Refine from the page: in the background, looked at, then taken or thrown away."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.review.server.client import Client, open_client, seen

from conftest import train
from ltgcd.common.errors import InputError
from ltgcd.data.collection import Collection, Source
from ltgcd.data.items import Vectors
from ltgcd.run import refine
from ltgcd.run.directory import Run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run of 160 items in four classes, of which two are known."""
    random = np.random.RandomState(0)
    true = np.repeat(np.arange(4), 40)
    x = (np.eye(4, 8)[true] * 4 + random.randn(160, 8) * 0.7).astype(np.float32)
    ids = pa.array([f"item-{row}" for row in range(160)])
    y = np.where((true < 2) & (np.arange(160) % 2 == 0), true, -1)
    folder = tmp_path_factory.mktemp("refine") / "run"
    train(Source(Collection(ids, Vectors(x), y, ("ant", "bee")), None), folder, k=4, changes={"schedule.epochs": 2})
    if Run(folder).features() is None:
        Run(folder).write_features(ids, x)
    return folder


def wait(client: Client) -> dict[str, Any]:
    for _ in range(600):
        answer: dict[str, Any] = client.get("/api/refine").json
        if answer["state"] != "running":
            return answer
        time.sleep(0.1)
    raise AssertionError(answer)


def test_a_refit_is_shown_then_taken_and_can_be_taken_back(trained: Path) -> None:
    client = open_client(trained)
    state = client.get("/api/state").json
    assert state["refine"]["state"] == "idle"
    assert state["refine"]["expected_seconds"] > 0
    assert client.post("/api/refine/accept", {}).status == 422, "there is none yet"
    rows = client.rows("/api/rows?code=2")
    wrong = client.rows("/api/rows?code=3&part=sure")[:4]
    edits = [{"op": "assign", "rows": rows, "code": 2}, {"op": "rename", "code": 2, "name": "wasp"}]
    done = client.act(*edits, {"op": "reject", "rows": wrong, "code": 3})
    assert client.post("/api/refine", {**seen(done), "version": done["version"] - 1}).status == 409
    assert client.post("/api/refine", seen(done)).json["state"] == "running"
    before = Run(trained).written_assignments()
    found = wait(client)
    assert found["state"] == "done", found
    assert found["diff"]["kept"] >= len(rows)
    assert Run(trained).written_assignments().equals(before), "nothing is written before it is taken"
    # The items that it would move can be looked at: all of them, and those from one class to another.
    would = client.get("/api/refine/moves").json
    changed = sorted(would["rows"])
    assert client.rows("/api/refine/rows") == [], "of what was taken"
    assert would["confidence"] == sorted(would["confidence"]) and would["confidence"][0] > 0
    assert set(wrong) <= set(changed), "else this shows nothing"
    labels = dict(zip(would["rows"], would["codes"], strict=True))
    assert len(changed) == found["diff"]["changed"] and found["changed"] == 0
    for move in found["diff"]["moves"]:
        one, other = move["codes"]
        answer = client.get(f"/api/refine/moves?from={one}&to={other}").json
        rows_of_it = answer["rows"]
        assert set(answer["codes"]) == {other} and answer["names"] == {str(other): move["to"]}
        assert len(rows_of_it) == move["n"] >= move["sure"] and set(rows_of_it) <= set(changed)
    taken = client.post("/api/refine/accept", seen(done))
    assert taken.status == 200, taken.body
    now = client.get("/api/state").json
    assert now["base"] == 1
    assert now["refine"]["state"] == "idle"
    assert now["refine"]["can_undo"]
    assert client.rows("/api/refine/rows") == changed and now["refine"]["changed"] == len(changed)
    assert all(Run(trained).assignments().column("label")[row].as_py() == labels[row] for row in changed)
    assert client.get("/api/refine/moves").status == 422, "none waits"
    assert set(client.rows("/api/rows?code=2")) >= set(rows), "confirmed items never move"
    assert {one["code"]: one["name"] for one in now["classes"]}[2] == "wasp"
    # What was said before stays in the history, behind the refine that took it up.
    later = client.act({"op": "junk", "rows": [5]})
    assert later["undo"] == 1
    lines = client.get("/api/history").json
    assert [(one["sentence"], one.get("past", False), one.get("by")) for one in lines] == [
        ("1 item taken out", False, None),
        ("Refined: another fit was taken", True, "refine"),
        (f"{len(rows)} items confirmed as novel-001; novel-001 called wasp; 4 items not novel-002", True, None),
    ]
    assert 0 <= time.time() - lines[1]["time"] < 600, "a refine has a time, too"
    assert len(client.get("/api/history?limit=2").json) == 2
    client.post("/api/undo", seen(later))
    back = client.post("/api/refine/undo", client.seen)
    assert back.status == 200, back.body
    last = client.get("/api/state").json
    assert last["base"] == 0
    assert last["undo"] == 1, "with everything that had been said until then"
    (line,) = client.get("/api/history").json
    assert line["active"] and "past" not in line
    client.session.close()


def test_one_at_a_time_thrown_away_and_failed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    go, calls = threading.Event(), []

    def slow(_run: Run, notify: Any) -> None:
        calls.append(1)
        notify("thinking")
        go.wait(30)
        raise InputError("It can't be\nfitted.")

    monkeypatch.setattr(refine, "refine_run", slow)
    now = client.seen
    client.post("/api/refine", now)
    for _ in range(100):
        if client.get("/api/refine").json["message"] == "thinking":
            break
        time.sleep(0.02)
    running = client.get("/api/refine").json
    assert (running["state"], running["message"]) == ("running", "thinking")
    assert client.post("/api/refine", now).status == 422, "one at a time"
    assert client.act({"op": "junk", "rows": [0]})["changes"] == 1, "edits need not wait"
    assert client.post("/api/refine/discard", {}).json["state"] == "idle"
    go.set()
    time.sleep(0.1)
    assert client.get("/api/refine").json["state"] == "idle", "what was thrown away has no say"
    client.post("/api/refine", client.seen)
    failed = wait(client)
    assert (failed["state"], failed["message"]) == ("failed", "It can't be fitted.")
    assert len(calls) == 2
    assert client.post("/api/refine/fly", {}).status == 404
