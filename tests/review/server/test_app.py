"""Every route of the server, against the review that it is about."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from PIL import Image
from tests.review.server.client import Client, open_client
from tests.review.server.synthetic import WORDS, make_run

from conftest import image_bytes
from ltgcd.data.items import ImageBytes, Texts
from ltgcd.output.report.terms import Vocabulary
from ltgcd.review.server.session import Seen, Session
from ltgcd.run.directory import Run
from ltgcd.run.export import export_run
from ltgcd.run.relabel import relabel_run


def columns(client: Client) -> dict[str, np.ndarray]:
    """What the page's `readItems` makes of the block."""
    block = client.get("/api/items").body
    assert block[:4] == b"LTG1"
    n = int(np.frombuffer(block, "<u4", 1, 4)[0])
    at, found = 8, {}
    for name, kind, count in (
        ("xy", "<f4", 2 * n),
        ("code", "<i4", n),
        ("status", "u1", n),
        ("confidence", "u1", n),
        ("flags", "u1", n),
    ):
        found[name] = np.frombuffer(block, kind, count, at)
        at += found[name].nbytes
    assert at == len(block)
    return found


def by_code(answer: dict) -> dict[int, dict]:
    return {one["code"]: one for one in answer["classes"]}


def kept_up(held: list[dict], answer: dict) -> list[dict]:
    """The classes that a page holds after an answer, which tells only those that changed."""
    told = {**{one["code"]: one for one in held}, **by_code(answer)}
    return [told[code] for code in answer["order"]]


# ---------------------------------------------------------------- looking


def test_the_state_agrees_with_the_run(client: Client, run_folder: Path) -> None:
    state, table = client.get("/api/state").json, Run(run_folder).assignments()
    assert state["mode"] == "server"
    assert state["kind"] == "vector"
    assert state["title"] == "run"
    assert state["n"] == 240
    status = np.array(table.column("status").to_pylist())
    label = np.array(table.column("label").to_pylist())
    assert state["counts"] | {"labelled": 0} == {
        "known": (status == "known").sum(),
        "novel": (status == "novel").sum(),
        "unsure": (status == "unsure").sum(),
        "junk": 0,
        "given": 0,
        "labelled": 0,
    }
    assert state["counts"]["labelled"] == state["settled"] == (Run(run_folder).labels().y >= 0).sum()
    assert (state["version"], state["changes"], state["undo"], state["redo"], state["base"]) == (0, 0, 0, 0, 0)
    classes = by_code(state)
    assert sorted(classes) == list(range(8))
    for code, one in classes.items():
        assert one["size"] == ((label == code) & (status != "unsure")).sum()
        assert one["leaning"] == ((label == code) & (status == "unsure")).sum()
        assert one["known"] == (code < 4)
        assert one["why"].endswith(".")
        assert not one["accepted"]
        assert all(other < 4 and other != code for other, _cosine in one["nearest"])
    gains = [one["gain"] for one in state["classes"]]
    assert gains == sorted(gains, reverse=True)
    assert classes[5]["suggested"].startswith("near known-")
    assert classes[0]["suggested"] == ""
    assert state["k"]["sentence"].startswith(f"{state['k']['k']} classes have items now")


def test_items_are_columns_that_the_page_can_read(client: Client, run_folder: Path) -> None:
    found, table = columns(client), Run(run_folder).assignments()
    assert found["code"].tolist() == table.column("label").to_pylist()
    names = np.array(["known", "novel", "unsure", "junk"])
    assert names[found["status"]].tolist() == table.column("status").to_pylist()
    np.testing.assert_allclose(found["confidence"] / 255, table.column("confidence").to_numpy(), atol=0.003)
    kept = Run(run_folder).places()
    assert kept is not None
    np.testing.assert_array_equal(found["xy"].reshape(-1, 2), kept[1].xy)
    assert ((found["flags"] & 2) > 0).tolist() == (Run(run_folder).labels().y >= 0).tolist()
    assert (found["flags"] & 4).all()
    assert not (found["flags"] & 1).any()


def test_rows_of_a_class_are_its_items_in_order(client: Client) -> None:
    found = columns(client)
    for code in (0, 5):
        mine = found["code"] == code
        sure = np.flatnonzero(mine & (found["status"] < 2)).tolist()
        unsure = np.flatnonzero(mine & (found["status"] == 2)).tolist()
        assert sorted(client.rows(f"/api/rows?code={code}&part=sure&order=centre")) == sure
        assert sorted(client.rows(f"/api/rows?code={code}&part=unsure")) == unsure
        everything = client.rows(f"/api/rows?code={code}")
        assert sorted(everything) == sorted(sure + unsure)
        first, last = everything[: len(everything) // 3], everything[-len(everything) // 3 :]
        assert found["confidence"][first].mean() < found["confidence"][last].mean(), "doubtful ones first"
    assert sorted(client.rows("/api/rows?status=unsure")) == np.flatnonzero(found["status"] == 2).tolist()
    assert client.rows("/api/rows?status=junk") == []


def test_odd_ones_stay_as_they_are_but_for_what_was_said(client: Client) -> None:
    found, odd = columns(client), client.rows("/api/rows?status=odd")
    assert odd and len(set(odd)) == len(odd)
    assert not (found["flags"][odd] & 3).any(), "nobody has said anything of them"
    answer = client.act({"op": "junk", "rows": odd[:2]})
    assert answer["version"] > 0
    assert client.rows("/api/rows?status=odd") == odd[2:]
    client.post("/api/undo", client.seen)
    assert client.rows("/api/rows?status=odd") == odd


def test_rows_are_described(client: Client, run_folder: Path) -> None:
    table = Run(run_folder).assignments()
    (one, other) = client.get("/api/describe?rows=7,3").json
    assert (one["row"], other["row"]) == (7, 3)
    assert one["id"] == "item-000007"
    assert one["code"] == table.column("label")[7].as_py()
    assert one["status"] == table.column("status")[7].as_py()
    assert "text" not in one
    assert client.get("/api/describe?rows=").json == []


def test_neighbours_merges_split_grow_search_audit(client: Client) -> None:
    near = client.get("/api/neighbours/3?n=5").json
    assert len(near["rows"]) == 5
    assert 3 not in near["rows"]
    assert near["cosines"] == sorted(near["cosines"], reverse=True)
    merges = client.get("/api/merges").json
    assert merges
    assert all({one["code"], one["other"]} - set(range(4)) for one in merges), "people told the known ones apart"
    assert all(one["code"] == 5 for one in client.get("/api/merges?code=5").json)
    split = client.get("/api/split?code=5&parts=3").json
    rows = sorted(client.rows("/api/rows?code=5"))
    assert sorted(row for part in split["parts"] for row in part) == rows
    assert -1 <= split["separation"] <= 1
    assert [set(some) <= set(part) for some, part in zip(split["open"], split["parts"], strict=True)] == [True] * 3
    assert all(5 not in some and 0 < len(some) <= 5 for some in split["alike"]), "other classes, the most alike first"
    usual = client.get("/api/split?code=5").json["parts"]
    assert 2 <= len(usual) <= 6 and sorted(row for part in usual for row in part) == rows
    grown = client.get("/api/grow?code=5&limit=4").json
    assert len(grown["rows"]) == 4
    assert not set(grown["rows"]) & set(client.rows("/api/rows?code=5&part=sure"))
    assert 0 <= grown["precision"] <= 1
    assert len(grown["chances"]) == 4 and grown["chances"] == sorted(grown["chances"], reverse=True)
    assert np.mean(grown["chances"]) == pytest.approx(grown["precision"], abs=0.001)
    everything = client.get("/api/grow?code=5&limit=1000").json
    assert everything["left"] == len(everything["rows"]) == grown["left"], "what is on the page is left, too"
    assert max(everything["chances"]) <= 0.65, (
        "nothing that leans, or is in another class, is likely enough to go in unseen"
    )
    second = client.get("/api/grow?code=5&limit=4&page=1").json
    assert not set(second["rows"]) & set(grown["rows"])
    assert second["left"] == grown["left"] - 4
    assert client.get("/api/search?q=000012").json == {"rows": [12], "classes": []}
    assert client.get("/api/search?q=KNOWN-2").json == {"rows": [], "classes": [2]}
    assert client.get("/api/search?q=").json == {"rows": [], "classes": []}
    audit = client.get("/api/audit?code=5&n=6").json
    assert audit == client.get("/api/audit?code=5&n=6").json
    assert len(audit["rows"]) == 6
    assert (audit["checked"], audit["right"], audit["low"], audit["high"]) == (0, 0, 0.0, 1.0)
    size = len(client.get("/api/audit?code=5&n=1000").json["rows"])
    rows = audit["rows"]
    client.act({"op": "assign", "rows": rows[1:4], "code": 5})
    told = client.get("/api/audit?code=5&n=6").json
    assert (told["checked"], told["right"]) == (0, 0), "not a sample of chance as long as the first is unchecked"
    assert told["rows"][:3] == [rows[0], *rows[4:]]
    client.act({"op": "assign", "rows": rows[:1], "code": 6}, {"op": "reject", "rows": rows[4:5], "code": 5})
    client.act({"op": "junk", "rows": rows[5:]})
    told = client.get("/api/audit?code=5&n=1000").json
    assert (told["checked"], told["right"]) == (6, 3)
    assert len(told["rows"]) == size - 6
    assert not set(told["rows"]) & set(rows)
    every = client.get("/api/state").json["audit"]
    assert (every["checked"], every["right"]) == (6, 3)


# ---------------------------------------------------------------- editing


def test_an_action_changes_what_it_says_and_undo_takes_it_back(client: Client, run_folder: Path) -> None:
    before, state = columns(client), client.get("/api/state").json
    rows = client.rows("/api/rows?code=5&part=all")
    done = client.act({"op": "assign", "rows": rows, "code": 5}, {"op": "rename", "code": 5, "name": "wasp"})
    assert (done["version"], done["undo"], done["redo"], done["changes"]) == (2, 1, 0, 1)
    assert sorted(done["rows"]) == sorted(rows)
    assert set(done["codes"]) == {5}
    assert set(done["statuses"]) == {0}
    assert all(flag & 1 for flag in done["flags"])
    wasp = by_code(done)[5]
    assert wasp["accepted"]
    assert wasp["known"]
    assert (wasp["name"], wasp["size"], wasp["given"], wasp["leaning"]) == ("wasp", len(rows), len(rows), 0)
    assert done["settled"] == state["settled"] + len(rows)
    assert Session.open(run_folder).held.review.class_names()[5] == "wasp", "it is on the disk"
    now = columns(client)
    changed = np.flatnonzero((before["code"] != now["code"]) | (before["flags"] != now["flags"]))
    assert changed.tolist() == sorted(rows)
    undone = client.post("/api/undo", {"version": done["version"], "key": "u1"}).json
    assert (undone["undo"], undone["redo"]) == (0, 1)
    said = f"{len(rows)} items confirmed as novel-002; novel-002 called wasp"
    assert undone["sentence"] == said, "by the name at that time"
    assert sorted(undone["rows"]) == sorted(rows)
    assert kept_up(done["classes"], undone) == state["classes"], "to the last figure"
    again = client.post("/api/redo", {"version": undone["version"], "key": "r1"}).json
    assert kept_up(state["classes"], again) == done["classes"]
    assert again["sentence"] == said
    assert [one["sentence"] for one in client.get("/api/history").json] == [said]


def test_a_page_that_is_told_what_changed_holds_all_classes(client: Client) -> None:
    """Two pages in turn, each told little; what changed beside the edits (here words that are found) is told, too."""
    pages = {name: client.get("/api/state").json["classes"] for name in ("early", "late")}
    code = pages["early"][0]["code"]
    first = client.act({"op": "junk", "rows": client.rows(f"/api/rows?code={code}")[:1]})
    pages["early"] = kept_up(pages["early"], first)
    assert pages["early"] == client.get("/api/state").json["classes"]
    few = client.act({"op": "junk", "rows": client.rows(f"/api/rows?code={code}")[:1]})
    assert code in by_code(few)
    assert len(few["classes"]) < len(few["order"]), "most classes are what they were, and are not sent"
    pages["early"] = kept_up(pages["early"], few)
    words = Vocabulary(["red ants", "blue bees", "red bees"] * 20)
    client.session.learn_words(client.session.described, words, np.arange(60, dtype=np.int64))  # counted at last
    pages["late"] = client.get("/api/state").json["classes"]  # this one looks when they are there
    told = client.act({"op": "rename", "code": code, "name": "ant"})
    for name, held in pages.items():
        assert kept_up(held, told) == client.get("/api/state").json["classes"], name


def test_the_history_calls_classes_as_they_were_called(client: Client) -> None:
    rows = client.rows("/api/rows?code=5&part=sure")
    fresh = client.get("/api/state").json["next_code"]
    client.act({"op": "split", "code": 5, "parts": [rows[:2]], "codes": [fresh]})
    client.act({"op": "rename", "code": fresh, "name": "moth"})
    client.act({"op": "rename", "code": 5, "name": "wasp"})
    done = client.act({"op": "merge", "code": fresh, "into": 5})
    for _ in range(2):  # the merge, and the name before it
        done = client.post("/api/undo", {"version": done["version"]}).json
    client.act({"op": "rename", "code": 5, "name": "bee"})
    client.act({"op": "assign", "rows": rows[3:5], "code": 5})
    assert [one["sentence"] for one in client.get("/api/history").json] == [
        "2 items confirmed as bee",
        "novel-002 called bee",
        "moth merged into wasp",
        "novel-002 called wasp",
        "novel-005 called moth",
        "novel-002 split: 2 items in 1 category",
    ]


def test_changes_are_those_in_force(client: Client) -> None:
    def turned(how: str) -> tuple[int, int]:
        answer = client.post(f"/api/{how}", client.seen).json
        return answer["changes"], answer["unapplied"]

    for row in range(2):
        done = client.act({"op": "junk", "rows": [row]})
    assert (done["changes"], done["unapplied"]) == (2, 2)
    assert turned("undo") == (1, 1)
    assert turned("redo") == (2, 2)
    assert turned("undo") == (1, 1)
    assert turned("apply") == (1, 0)
    assert turned("undo") == (0, 1), "the run says what was taken back"
    assert turned("redo") == (1, 0), "as the run says it"
    assert turned("undo") == (0, 1)
    client.act({"op": "junk", "rows": [3]})
    assert turned("apply") == (1, 0)


def test_the_items_that_look_different_can_be_asked_for(client: Client) -> None:
    apart = client.rows("/api/rows?code=6&part=sure")
    merged = client.act({"op": "merge", "code": 6, "into": 5})
    assert 6 not in by_code(merged)
    assert client.rows("/api/rows?code=6") == [], "asked by a page that has not heard of it yet"
    own = [row for row in client.rows("/api/rows?code=5&part=sure") if row not in set(apart)]
    done = by_code(client.act({"op": "assign", "rows": own[: len(own) // 2], "code": 5}))[5]
    far = client.rows("/api/rows?code=5&part=far")
    assert len(far) == done["far"] > 2
    assert set(far) & set(apart) and not set(far) & set(own[: len(own) // 2])
    assert f"{len(far)} of " in done["why"] and "different from its labelled items" in done["why"]


def test_confirming_the_middle_of_a_category_does_not_make_its_rim_look_different(tmp_path: Path) -> None:
    make_run(tmp_path / "run", n=900, d=24)
    client = open_client(tmp_path / "run")
    largest = max(client.get("/api/state").json["classes"], key=lambda one: one["size"] * (not one["known"]))
    middle = client.rows(f"/api/rows?code={largest['code']}&part=sure&order=centre")[:16]
    done = by_code(client.act({"op": "assign", "rows": middle, "code": largest["code"]}))[largest["code"]]
    assert largest["size"] > 60 and done["far"] < 0.1 * largest["size"]


def test_merge_split_create_reject_and_distinct(client: Client) -> None:
    best = client.get("/api/merges").json[0]
    pair = {best["code"], best["other"]}
    client.act({"op": "distinct", "code": best["code"], "other": best["other"]})
    assert all({one["code"], one["other"]} != pair for one in client.get("/api/merges").json)
    parts = client.get("/api/split?code=6&parts=2").json["parts"]
    done = client.act({"op": "split", "code": 6, "parts": parts[1:]})
    assert by_code(done)[8]["size"] + by_code(done)[8]["leaning"] == len(parts[1])
    assert by_code(done)[8]["name"] == "novel-005"
    done = client.act({"op": "merge", "code": 8, "into": 6})
    assert 8 not in by_code(done)
    assert by_code(done)[6]["size"] + by_code(done)[6]["leaning"] == sum(map(len, parts))
    done = client.act({"op": "create", "code": done["next_code"], "name": "moth"})
    code = done["next_code"] - 1
    assert by_code(done)[code] | {"gain": 0} == by_code(done)[code], "nothing to be gained"
    done = client.act({"op": "assign", "rows": [1, 2], "code": code})
    assert by_code(done)[code]["given"] == 2
    rows = client.rows("/api/rows?code=7&part=sure")[:2]
    client.act({"op": "reject", "rows": rows, "code": 7})
    assert not set(rows) & set(client.get("/api/grow?code=7&limit=500").json["rows"]), (
        "what was refused is not proposed"
    )
    assert set(rows) <= set(client.rows("/api/rows?status=unsure"))


@pytest.mark.parametrize(
    ("told", "word"),
    [
        ({}, "events"),
        ({"events": [], "version": 0}, "events"),
        ({"events": ["x"], "version": 0}, "events"),
        ({"events": [{"op": "junk", "rows": [0]}]}, "version"),
        ({"events": [{"op": "junk", "rows": [0]}], "version": True}, "version"),
        ({"events": [{"op": "junk", "rows": [0]}], "version": 0, "key": 5}, "key"),
        ({"events": [{"op": "fly"}], "version": 0}, "fly"),
        ({"events": [{"rows": [0]}], "version": 0}, "edit"),
        ({"events": [{"op": "junk", "rows": [240]}], "version": 0}, "240"),
        ({"events": [{"op": "junk", "rows": "abc"}], "version": 0}, "row"),
        ({"events": [{"op": "assign", "rows": [0], "code": 99}], "version": 0}, "99"),
        ({"events": [{"op": "rename", "code": 5, "name": "known-1"}], "version": 0}, "merge"),
        ({"events": [{"op": "junk", "rows": [0]}, {"op": "merge", "code": 1, "into": 1}], "version": 0}, "itself"),
    ],
)
def test_what_can_not_be_done_is_a_sentence_and_changes_nothing(client: Client, told: dict, word: str) -> None:
    answer = client.post("/api/act", told)
    assert answer.status == 422, answer.body
    assert word in answer.json["error"]
    assert client.seen["version"] == 0


def test_requests_that_make_no_sense_are_sentences(client: Client) -> None:
    for path in (
        "/api/rows",
        "/api/rows?code=99",
        "/api/rows?code=-1",
        "/api/rows?code=5&part=half",
        "/api/rows?code=5&order=up",
        "/api/rows?status=gone",
        "/api/describe?rows=1,x",
        "/api/describe?rows=240",
        f"/api/describe?rows={','.join(['1'] * 501)}",
        "/api/neighbours/240",
        "/api/neighbours/3?n=0",
        "/api/split?code=5&parts=10",
        "/api/grow?code=5&limit=0",
        "/api/grow?code=99",
        "/api/audit?code=99",
        "/api/history?limit=x",
    ):
        answer = client.get(path)
        assert answer.status == 422, path
        assert answer.json["error"].endswith("."), path
    assert client.get("/api/nothing").status == 404
    assert client.ask("POST", "/api/act", b"{", client.writes).status == 422
    assert client.ask("POST", "/api/act", b"[1]", client.writes).status == 422
    assert client.ask("POST", "/api/act", b"[" * 100_000, client.writes).status == 422


def test_two_tabs_nothing_is_overwritten_in_silence(client: Client) -> None:
    first = client.post("/api/act", {"events": [{"op": "junk", "rows": [0]}], "version": 0, "key": "a"})
    assert first.status == 200
    second = client.post("/api/act", {"events": [{"op": "assign", "rows": [0], "code": 2}], "version": 0, "key": "b"})
    assert second.status == 409
    assert second.json["version"] == first.json["version"]
    assert second.json["error"].endswith(".")
    for path in ("/api/undo", "/api/redo", "/api/apply", "/api/refine"):
        assert client.post(path, {"version": 0}).status == 409
    assert client.get("/api/describe?rows=0").json[0]["status"] == "junk"


def test_the_same_action_sent_again_is_done_once(client: Client) -> None:
    told = {"events": [{"op": "junk", "rows": [0]}], "version": 0, "key": "once"}
    first, again = client.post("/api/act", told), client.post("/api/act", told)
    assert (first.status, again.status) == (200, 200)
    assert again.json["reload"]
    assert again.json["version"] == first.json["version"]
    assert again.json["undo"] == 1
    back = {"version": first.json["version"], "key": "back"}
    assert client.post("/api/undo", back).json["undo"] == 0
    assert client.post("/api/undo", back).json["redo"] == 1, "not taken back twice"


def test_what_another_process_said_is_seen(client: Client, run_folder: Path) -> None:
    assert client.seen["version"] == 0
    other = Session.open(run_folder)
    other.act([{"op": "rename", "code": 5, "name": "wasp"}], Seen(0), "")
    stale = client.post("/api/act", {"events": [{"op": "junk", "rows": [0]}], "version": 0})
    assert stale.status == 409
    assert by_code(client.get("/api/state").json)[5]["name"] == "wasp"
    assert client.act({"op": "junk", "rows": [0]})["counts"]["junk"] == 1


def test_apply_writes_the_run_and_its_page(client: Client, run_folder: Path) -> None:
    done = client.act({"op": "rename", "code": 5, "name": "wasp"})
    assert done["changes"] == 1
    applied = client.post("/api/apply", {"version": done["version"]})
    assert applied.status == 200
    assert (applied.json["changes"], applied.json["unapplied"]) == (1, 0)
    assert "wasp" in Run(run_folder).written_assignments().column("name").to_pylist()
    client.session.close()
    assert "wasp" in Run(run_folder).report.read_text()
    undone = client.post("/api/undo", {"version": done["version"]}).json
    assert (undone["changes"], undone["unapplied"]) == (0, 1)


def test_the_labels_as_they_are_now_can_be_downloaded_and_given_back(client: Client, tmp_path: Path) -> None:
    client.act({"op": "rename", "code": 5, "name": '=wasp, "large"'}, {"op": "assign", "rows": [7], "code": 5})
    answer = client.get("/api/export")
    assert answer.headers["content-disposition"] == 'attachment; filename="labels.csv"'
    assert answer.headers["content-type"].startswith("text/csv")
    found = pacsv.read_csv(io.BytesIO(answer.body))
    assert found.column("id")[7].as_py() == "item-000007"
    assert "wasp" in found.column("label")[7].as_py()
    given, labelled = found.column("given").to_pylist(), client.session.material.labelled.tolist()
    assert given == [n == 7 or one for n, one in enumerate(labelled)] and 0 < sum(labelled) < len(labelled)
    export_run(client.session.run, "csv", tmp_path / "by-command.csv")
    assert (tmp_path / "by-command.csv").read_bytes() == answer.body
    (tmp_path / "labels.csv").write_bytes(answer.body)
    again = relabel_run(Run(client.session.run.folder), tmp_path / "labels.csv")
    assert (again["events"], again["refused"]) == (0, [])


# ---------------------------------------------------------------- pictures and texts


def images(true: np.ndarray) -> ImageBytes:
    return ImageBytes(pa.array([image_bytes(int(t), (200, 150)) for t in true], pa.binary()))


def texts(true: np.ndarray) -> Texts:
    return Texts(pa.array([f"{WORDS[t]} thing <script>alert(1)</script> {row}" for row, t in enumerate(true)]))


def test_pictures_come_by_row_and_by_nothing_else(tmp_path: Path) -> None:
    make_run(tmp_path / "run", n=40, items=images)
    (tmp_path / "run" / "secret.png").write_bytes(image_bytes(99))
    client = open_client(tmp_path / "run")
    assert client.get("/api/state").json["kind"] == "image"
    for size, side in ((96, 96), (192, 192), (1024, 200), (8192, 200)):
        answer = client.get(f"/api/thumb/3?size={size}")
        assert answer.status == 200
        assert answer.headers["content-type"] == "image/webp"
        assert max(Image.open(io.BytesIO(answer.body)).size) == side
        assert answer.headers["vary"] == "Cookie"
    assert client.get("/api/thumb/3").body == client.get("/api/thumb/3?size=96").body
    for trick in (
        "secret.png",
        "..%2Fsecret.png",
        "../secret.png",
        "../../../../etc/passwd",
        "%2e%2e/secret.png",
        "-1",
        "40",
        "1e1",
        "３",
        "3.0",
        "+3",
        " 3",
        "3,4",
        "0x3",
        "9" * 40,
        "3%00.png",
    ):
        answer = client.get(f"/api/thumb/{trick}")
        assert answer.status in (404, 422), trick
        assert answer.json["error"]
    for size in ("0", "97", "4096", "-96", "x"):
        assert client.get(f"/api/thumb/3?size={size}").status == 422
    for trick in ("../page.py", "..%2fpage.py", "%2e%2e/page.py", "....//page.py", "/etc/passwd"):
        assert client.get(f"/static/{trick}").status == 404, trick


def test_vectors_that_are_pixels_have_pictures(tmp_path: Path) -> None:
    make_run(tmp_path / "digits", n=60, d=64, pixels=True)
    client = open_client(tmp_path / "digits")
    state = client.get("/api/state").json
    assert (state["kind"], state["tiny"]) == ("image", False)
    answer = client.get("/api/thumb/3")
    assert Image.open(io.BytesIO(answer.body)).size == (48, 48)
    assert state["meta"]["lead"].startswith("60 images, ")
    make_run(tmp_path / "features", n=60, d=64)
    client = open_client(tmp_path / "features")
    assert client.get("/api/state").json["kind"] == "vector"
    assert client.get("/api/thumb/3").status == 404


def test_an_image_that_is_gone_is_a_grey_square(tmp_path: Path) -> None:
    blobs = [b"", b"no image", *(image_bytes(row) for row in range(38))]
    make_run(tmp_path / "run", n=40, items=lambda _true: ImageBytes(pa.array(blobs, pa.binary())))
    client = open_client(tmp_path / "run")
    for row in (0, 1):
        answer = client.get(f"/api/thumb/{row}")
        assert answer.status == 200
        assert Image.open(io.BytesIO(answer.body)).size == (64, 64)


def test_texts_are_shown_searched_and_give_terms(tmp_path: Path) -> None:
    make_run(tmp_path / "run", n=120, items=texts)
    client = open_client(tmp_path / "run")
    state = client.get("/api/state").json
    assert state["kind"] == "text"
    assert WORDS[5] in by_code(state)[5]["terms"][0]
    assert by_code(state)[5]["suggested"].startswith(by_code(state)[5]["terms"][0])
    (one,) = client.get("/api/describe?rows=0").json
    assert one["text"] == f"{WORDS[0]} thing <script>alert(1)</script> 0"
    hits = client.get(f"/api/search?q={WORDS[5].upper()}").json["rows"]
    assert len(hits) >= 3
    assert client.get("/api/thumb/0").status == 404
    moved = client.act({"op": "assign", "rows": hits, "code": 6}, {"op": "assign", "rows": [0], "code": 5})
    assert WORDS[5] in " ".join(by_code(moved)[6]["terms"])


def test_names_with_markup_come_back_as_they_are(client: Client) -> None:
    for name in ("<script>alert(1)</script>", "\u202etxt.exe", "x" * 10_000, '"; drop table events; --', "a\u0000b"):
        done = client.act({"op": "rename", "code": 5, "name": name})
        assert by_code(done)[5]["name"] == name.strip()
    assert client.get("/api/state").headers["content-type"] == "application/json"
    json.dumps(client.get("/api/history").json)


def test_texts_are_in_the_labels_that_are_downloaded(tmp_path: Path) -> None:
    words = ["=1+1", *("a long text " * 30 for _ in range(119))]
    make_run(tmp_path / "run", n=120, items=lambda _true: Texts(pa.array(words, pa.large_string())))
    client = open_client(tmp_path / "run")
    answer = client.get("/api/export").body
    found = pacsv.read_csv(io.BytesIO(answer)).column("text").to_pylist()
    assert found[0] == "'=1+1" and found[1] == words[1][:200]
    export_run(client.session.run, "csv", tmp_path / "by-command.csv")
    assert (tmp_path / "by-command.csv").read_bytes() == answer
    client.session.close()
