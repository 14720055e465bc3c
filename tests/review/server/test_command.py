"""`ltgcd review` as a process: what it prints, how it ends, and that nothing is lost when it is killed."""

from __future__ import annotations

import json
import signal
import socket
import sys
from pathlib import Path

import pytest
from tests.review.server.kills import Server, trial
from typer.testing import CliRunner

from conftest import WIDE, fails
from ltgcd.cli import app
from ltgcd.review.server.session import Seen, Session
from ltgcd.run.directory import Run
from ltgcd.run.export import export_run


def test_killed_at_random_moments_it_loses_nothing(tmp_path: Path) -> None:
    done = trial(tmp_path / "run", kills=5, seed=1)
    assert done["acknowledged between kills"] > 5
    assert done["without an answer"] > 0


def test_it_prints_one_object_and_ends_cleanly(run_folder: Path, tmp_path: Path) -> None:
    server = Server(run_folder, command=True)
    assert set(server.told) == {"url", "token", "run"}
    assert server.told["url"] == f"http://127.0.0.1:{server.port}/?token={server.told['token']}"
    assert server.told["run"] == str(run_folder)
    state = server.ask("GET", "/api/state")[1]
    done = server.ask("POST", "/api/act", {"events": [{"op": "junk", "rows": [3]}], "version": state["version"]})
    assert done[0] == 200
    # Other commands work meanwhile, and see what was said.
    assert export_run(Run(run_folder), "csv", tmp_path / "out.csv")["n"] == 240
    assert "junk" in (tmp_path / "out.csv").read_text()
    with Run(run_folder).lock("a test"):
        pass
    assert "--port" in fails("review", run_folder, "--no-browser", "--port", server.port)
    assert server.stop(signal.SIGTERM) == 0
    assert server.process.out == "", "one object on stdout, and nothing else"
    said = server.process.err
    assert "Traceback" not in said
    assert "1 change" in said
    again = Server(run_folder)
    assert again.ask("GET", "/api/state")[1]["counts"]["junk"] == 1
    assert again.told["token"] != server.told["token"]
    assert again.stop(signal.SIGINT) == 0


def test_all_that_was_said_can_be_written_to_a_file(run_folder: Path, tmp_path: Path) -> None:
    session = Session.open(run_folder)
    session.act([{"op": "rename", "code": 5, "name": "wasp"}, {"op": "junk", "rows": [1]}], Seen(0), "")
    session.undo(Seen(2), "")
    out = tmp_path / "events.jsonl"
    done = CliRunner(env=WIDE).invoke(app, ["review", str(run_folder), "--export-events", str(out), "--json"])
    assert json.loads(done.stdout)["events"] == 3
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["op"] for line in lines] == ["rename", "junk", "undo"]
    assert lines[0]["name"] == "wasp"
    assert lines[1]["rows"] == [1]
    assert fails("review", run_folder, "--export-events", out), "nothing is overwritten"


def test_what_can_not_be_served_is_one_sentence(tmp_path: Path, run_folder: Path) -> None:
    assert "run" in fails("review", tmp_path / "nothing", "--no-browser")
    assert "run" in fails("review", tmp_path, "--no-browser")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert "port" in fails("review", run_folder, "--no-browser", "--port", other.getsockname()[1])
    assert "no.such.host" in fails("review", run_folder, "--no-browser", "--host", "no.such.host.example")


def test_without_the_extra_it_says_what_to_install(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert "pip install 'ltgcd[review]'" in fails("review", run_folder, "--no-browser")
