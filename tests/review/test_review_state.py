"""What people say about a discovery: events, replay, undo, corrections."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.common.errors import InputError
from ltgcd.discovery.assignments import assignments_table
from ltgcd.review.corrections import edits_of, read_corrections
from ltgcd.review.log import EventLog, StaleError, replayed
from ltgcd.review.state import Event, Review, apply, begin, replay, with_codes

NAMES = ("ant", "bee")


@pytest.fixture
def review() -> Review:
    """Ten items: two known classes, novel-001 and novel-002; the last one is unsure."""
    labels = np.array([0, 0, 1, 1, 2, 2, 2, 3, 3, 2])
    unsure = np.arange(10) == 9
    ids = pa.array([f"i{n}" for n in range(10)])
    return begin(assignments_table(ids, labels, np.full(10, 0.7, np.float32), NAMES, 4, unsure), NAMES)


def rows(review: Review) -> list[tuple]:
    table = review.table()
    return list(zip(*(table.column(name).to_pylist() for name in ("label", "name", "status", "given")), strict=True))


def test_nothing_said_changes_nothing(review: Review) -> None:
    assert (
        review.table()
        .select(["id", "label", "name", "status", "confidence"])
        .equals(review.base.select(["id", "label", "name", "status", "confidence"]))
    )


def test_each_edit_by_hand(review: Review) -> None:
    moved = apply(review, {"op": "assign", "rows": [4, 9], "code": 3})
    assert rows(moved)[4] == (3, "novel-002", "novel", True)
    assert rows(moved)[9] == (3, "novel-002", "novel", True), "what a person says is not unsure"
    assert moved.table().column("confidence")[4].as_py() == 1.0
    named = apply(moved, {"op": "rename", "code": 3, "name": "wasp"})
    assert rows(named)[7] == (3, "wasp", "known", False)
    assert rows(named)[9] == (3, "wasp", "known", True)
    merged = apply(named, {"op": "merge", "code": 2, "into": 3})
    assert [row[1] for row in rows(merged)] == ["ant", "ant", "bee", "bee", *["wasp"] * 6]
    assert "novel-001" not in merged.class_names().values()
    junk = apply(merged, {"op": "junk", "rows": [0]})
    assert rows(junk)[0][2] == "junk"
    back = apply(junk, {"op": "clear", "rows": [0, 4]})
    assert rows(back)[0] == (0, "ant", "known", False)
    assert rows(back)[4] == (3, "wasp", "known", False), "cleared, it is what discovery found, in the merged class"
    made = apply(back, {"op": "create", "code": 4, "name": "fly"})
    assert rows(apply(made, {"op": "assign", "rows": [1], "code": 4}))[1] == (4, "fly", "known", True)
    assert review.table().equals(begin(review.base, NAMES).table()), "nothing was changed in place"


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        ({"op": "explode"}, "no edit 'explode'"),
        ({"op": "assign", "rows": [10], "code": 0}, "there are 10"),
        ({"op": "assign", "rows": [1], "code": 9}, "class 9, which is not there"),
        ({"op": "merge", "code": 2, "into": 2}, "with itself"),
        ({"op": "rename", "code": 2, "name": "ant"}, "merge the two"),
        ({"op": "rename", "code": 2, "name": " "}, "needs a name"),
        ({"op": "create", "code": 2, "name": "x"}, "has the code 4"),
        ({"op": "create", "code": 4, "name": "ant"}, "already"),
        ({"op": "assign", "rows": ["i1"], "code": 0}, "not a row number"),
        ({"op": "assign", "rows": [0.5], "code": 0}, "not there"),
        ({"op": "split", "code": 2, "parts": [[4], [4]]}, "no item in two"),
        ({"op": "split", "code": 2, "parts": [[4], []]}, "parts that have items"),
        ({"op": "split", "code": 2, "parts": [[0]]}, "not in it"),
        ({"op": "split", "code": 2, "parts": [[4]], "codes": [3]}, "4 and up"),
        ({"op": "distinct", "code": 2, "other": 2}, "apart from itself"),
    ],
)
def test_edits_that_make_no_sense_are_a_sentence(review: Review, event: dict, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        apply(review, event)


def test_split_reject_and_distinct_by_hand(review: Review) -> None:
    (event,) = with_codes(review, [{"op": "split", "code": 2, "parts": [[4, 5], [9]]}])
    assert event["codes"] == [4, 5]
    parts = apply(review, event)
    assert [row[1] for row in rows(parts)[4:]] == [
        "novel-003", "novel-003", "novel-001", "novel-002", "novel-002", "novel-004"
    ]  # fmt: skip
    assert rows(parts)[4] == (4, "novel-003", "novel", False), "a part is a proposal: nobody has confirmed its items"
    assert rows(parts)[9][2] == "unsure"
    with pytest.raises(InputError, match="novel-003"):
        apply(parts, {"op": "rename", "code": 2, "name": "novel-003"})
    base = review.base.append_column("runner_up", pa.array([1] * 10))
    other = apply(begin(base, NAMES), {"op": "reject", "rows": [4, 0], "code": 2})
    assert rows(other)[4] == (1, "bee", "unsure", False)
    assert rows(other)[0] == (0, "ant", "unsure", False), "it was not there anyway"
    (said,) = other.rejected
    assert said[0].tolist() == [4, 0] and said[1] == 2
    assert rows(apply(other, {"op": "assign", "rows": [4], "code": 2}))[4] == (2, "novel-001", "novel", True)
    apart = apply(parts, {"op": "distinct", "code": 4, "other": 5})
    assert apart.distinct == {frozenset((4, 5))}
    assert apply(apart, {"op": "merge", "code": 4, "into": 3}).distinct == {frozenset((3, 5))}
    assert apply(apart, {"op": "merge", "code": 4, "into": 5}).distinct == frozenset(), "who merges them thinks again"


def test_codes_and_names_are_never_given_twice(review: Review) -> None:
    """Also not if what had them was taken back, or in the review of the next fit."""
    split = apply(review, {"op": "split", "code": 2, "parts": [[4]]})
    merged = apply(split, {"op": "merge", "code": 4, "into": 3})
    again = begin(merged.table(), NAMES)
    assert again.next_code == 5 and 4 not in again.class_names()
    assert apply(again, {"op": "split", "code": 3, "parts": [[4]]}).class_names()[5] == "novel-004"
    taken_back = begin(review.base, NAMES, next_code=5)  # as the log says after an undo
    (event,) = with_codes(taken_back, [{"op": "split", "code": 2, "parts": [[4]]}])
    assert event["codes"] == [5] and apply(taken_back, event).class_names()[5] == "novel-004"


def test_a_base_keeps_what_was_said_before(review: Review) -> None:
    said = replay(
        review,
        [
            {"op": "assign", "rows": [4], "code": 3},
            {"op": "rename", "code": 3, "name": "wasp"},
            {"op": "junk", "rows": [0]},
            {"op": "distinct", "code": 2, "other": 3},
        ],
    )
    again = begin(said.table(), NAMES)
    assert again.table().equals(said.table())
    assert again.given.tolist() == [n == 4 for n in range(10)] and again.junk[0]
    assert again.known_classes() == {0, 1, 3} and again.distinct == said.distinct


EVENTS = st.one_of(
    st.builds(
        lambda r, c: {"op": "assign", "rows": r, "code": c},
        st.lists(st.integers(0, 9), max_size=4),
        st.integers(0, 3),
    ),
    st.builds(lambda r: {"op": "clear", "rows": r}, st.lists(st.integers(0, 9), max_size=4)),
    st.builds(lambda r: {"op": "junk", "rows": r}, st.lists(st.integers(0, 9), max_size=4)),
    st.builds(lambda c, n: {"op": "rename", "code": c, "name": n}, st.integers(0, 3), st.sampled_from("vwxyz")),
    st.builds(lambda c, d: {"op": "merge", "code": c, "into": d}, st.integers(0, 3), st.integers(0, 3)),
    st.builds(lambda c, d: {"op": "distinct", "code": c, "other": d}, st.integers(0, 3), st.integers(0, 3)),
    st.builds(
        lambda r, c: {"op": "reject", "rows": r, "code": c}, st.lists(st.integers(0, 9), max_size=4), st.integers(0, 3)
    ),
    st.builds(
        lambda c, r, n: {"op": "split", "code": c, "parts": [r], "codes": [n]},
        st.integers(0, 3),
        st.lists(st.integers(0, 9), min_size=1, max_size=2, unique=True),
        st.integers(4, 9),
    ),
)


def turn(log: EventLog, op: str, n: int = 1) -> int:
    """Take back the last actions that count, or let those that were taken back last count again, as rows of the log."""
    steps, waiting = replayed(log.kept(0))
    named = [step.action for step in steps if step.active][-n:] if op == "undo" else waiting[-n:][::-1]
    if named:
        log.append([{"op": op, "actions": named}])
    return len(named)


def in_force(log: EventLog, base: int = 0) -> list[Event]:
    """The events of a base that count, in order."""
    return [kept.event for step in replayed(log.kept(base))[0] if step.active for kept in step.events]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(EVENTS, st.sampled_from(["do", "undo", "redo"])), max_size=12))
def test_the_log_agrees_with_a_list_of_states(tmp_path_factory: pytest.TempPathFactory, steps: list) -> None:
    labels = np.array([0, 0, 1, 1, 2, 2, 2, 3, 3, 2])
    table = assignments_table(pa.array([f"i{n}" for n in range(10)]), labels, np.ones(10, np.float32), NAMES, 4)
    start = begin(table, NAMES)
    log = EventLog(tmp_path_factory.mktemp("log") / "review.db")
    past, future = [start], []
    for event, what in steps:
        if what == "do":
            try:
                past.append(apply(past[-1], event))
            except InputError:
                continue
            future = []
            log.append([event])
        elif what == "undo":
            assert turn(log, "undo") == (len(past) > 1)
            if len(past) > 1:
                future.append(past.pop())
        else:
            assert turn(log, "redo") == bool(future)
            if future:
                past.append(future.pop())
        assert replay(start, in_force(EventLog(log.path))).table().equals(past[-1].table())


def test_undo_of_several_and_bases_apart(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "review.db")
    assert in_force(log) == [] and turn(log, "undo") == 0 and not log.path.exists()
    for code in range(4):
        log.append([{"op": "rename", "code": code, "name": f"n{code}"}], author="me")
    log.append([{"op": "junk", "rows": [1, 2]}], base=1)
    assert turn(log, "undo", 2) == 2
    assert [event["code"] for event in in_force(log)] == [0, 1]
    assert turn(log, "redo", 1) == 1
    assert [event["code"] for event in in_force(log)] == [0, 1, 2]
    assert in_force(log, 1) == [{"op": "junk", "rows": [1, 2]}]
    assert turn(log, "undo", 99) == 3 and in_force(log) == []


def test_sent_again_it_is_kept_once_and_who_looked_too_early_is_told(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "review.db")
    assert log.version() == 0 and not log.has_key("a")
    first = log.append([{"op": "junk", "rows": [1]}], key="a", expected=0)
    assert log.append([{"op": "junk", "rows": [1]}], key="a", expected=0) == first, "the answer was lost on its way"
    assert len(replayed(log.kept(0))[0]) == 1 and log.has_key("a") and log.version() == 1
    with pytest.raises(StaleError):
        log.append([{"op": "junk", "rows": [2]}], key="b", expected=0)
    assert len(replayed(log.kept(0))[0]) == 1


def test_a_damaged_log_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "review.db").write_bytes(b"no database at all, but long enough to be read as one" * 40)
    with pytest.raises(InputError, match=r"review\.db can't be read"):
        EventLog(tmp_path / "review.db").kept()


def test_a_damaged_schema_is_a_sentence(tmp_path: Path) -> None:
    """SQLite quotes what it can't understand, and that may be no text (found by the standing trial)."""
    path = tmp_path / "review.db"
    EventLog(path).append([{"op": "name", "code": 2, "name": "wasp"}])
    content = path.read_bytes()
    at = content.index(b"CREATE TABLE events")
    path.write_bytes(content[:at] + b"CREATE TA\xa9LE" + content[at + 12 :])
    for work in (EventLog(path).version, EventLog(path).kept):
        with pytest.raises(InputError, match="can't be read or written"):
            work()


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    """Killed at random moments while events are kept: none that was acknowledged is lost, none is there twice."""
    code = (
        "import sys; from pathlib import Path; from ltgcd.review.log import EventLog\n"
        "log = EventLog(Path(sys.argv[1])); first = int(sys.argv[2])\n"
        "for n in range(first, first + 10**6):\n"
        "    log.append([{'op': 'junk', 'rows': [n]}, {'op': 'clear', 'rows': [n]}]); print(n, flush=True)\n"
    )
    path, first, random = tmp_path / "review.db", 0, np.random.RandomState(0)
    acknowledged: list[int] = []
    for _ in range(6):
        arguments = [sys.executable, "-c", code, str(path), str(first)]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        said = process.stdout.readline()  # it works
        time.sleep(random.rand() * 0.15)
        os.kill(process.pid, signal.SIGKILL)
        acknowledged += [int(line) for line in [said, *process.stdout.read().splitlines()] if line.strip()]
        process.wait()
        first = max(acknowledged) + 2
    steps = replayed(EventLog(path).kept(0))[0]
    kept = [step.events[0].event["rows"][0] for step in steps]
    assert len(kept) == len(set(kept))
    assert set(acknowledged) <= set(kept)
    assert all(len(step.events) == 2 for step in steps), "an action is whole or did not happen"


def corrections(tmp_path: Path, text: str, name: str = "c.csv") -> pa.Table:
    (tmp_path / name).write_text(text)
    return read_corrections(tmp_path / name)


def test_a_file_of_corrections(review: Review, tmp_path: Path) -> None:
    table = corrections(
        tmp_path,
        "id,label,category,name\ni4,bee,,\ni5,junk,,\ni6,spider,,\n,,novel-002,wasp\nnobody,ant,,\ni0,ant,,\ni0,bee,,\n"
        ",,novel-009,x\ni4,bee,,\n",
    )
    edits = edits_of(table, review)
    after = replay(review, edits.events)
    assert [row[1] for row in rows(after)] == [
        "ant",
        "ant",
        "bee",
        "bee",
        "bee",
        *["novel-001"],
        "spider",
        *["wasp"] * 2,
        "novel-001",
    ]
    assert rows(after)[5][2] == "junk"
    assert edits.counts == {
        "renamed": 1, "merged": 0, "created": 1, "moved": 2, "confirmed": 1, "cleared": 0, "junk": 1
    }  # fmt: skip
    assert edits.new_classes == [{"name": "spider", "items": 1, "like": None}] and edits.stayed == 0
    slip = edits_of(corrections(tmp_path, "id,label\ni4,novel-0O2\n"), review)
    assert slip.new_classes == [{"name": "novel-0O2", "items": 1, "like": "novel-002"}]
    assert [(one["row"], one["reason"]) for one in edits.refused] == [
        (5, "no item has the id 'nobody'"),
        (7, "another row says something else about this item"),
        (8, "there is no category 'novel-009'"),
    ]


def test_the_name_of_another_class_merges_and_an_empty_label_takes_back(review: Review, tmp_path: Path) -> None:
    edits = edits_of(corrections(tmp_path, "category,name\nnovel-001,ant\nnovel-002,junk\n"), review)
    after = replay(review, edits.events)
    assert edits.counts["merged"] == 1 and edits.counts["junk"] == 2
    assert [row[0] for row in rows(after)] == [0, 0, 1, 1, 0, 0, 0, 3, 3, 0]
    assert [row[2] for row in rows(after)[7:9]] == ["junk", "junk"]
    said = replay(review, edits_of(corrections(tmp_path, "id,label\ni4,bee\n"), review).events)
    back = edits_of(corrections(tmp_path, "id,label\ni4,\ni5,\n"), said)
    assert back.counts["cleared"] == 1 and back.stayed == 1, "of i5 nobody had said anything"
    assert replay(said, back.events).table().equals(review.table())


def test_json_lines_and_what_is_no_corrections(review: Review, tmp_path: Path) -> None:
    lines = [{"id": "i4", "label": "bee"}, {"category": "novel-002", "name": "wasp"}]
    table = corrections(tmp_path, "\n".join(json.dumps(line) for line in lines), "c.jsonl")
    assert edits_of(table, review).counts["renamed"] == 1
    for text, name, sentence in (
        ("{]", "x.jsonl", "line 1, is not JSON"),
        ('{"id": 1}', "x.jsonl", "line 1, needs"),
        ("a,b\n1,2\n", "x.csv", "corrections have 'id' and 'label'"),
    ):
        with pytest.raises(InputError, match=sentence):
            corrections(tmp_path, text, name)
    with pytest.raises(InputError, match="is not there"):
        read_corrections(tmp_path / "nowhere.csv")


def test_an_export_that_was_edited_says_only_what_was_changed(review: Review, tmp_path: Path) -> None:
    from ltgcd.output.export.formats import export_items

    export_items(
        review.table().select(["id", "label", "name", "status", "confidence"]), None, "csv", tmp_path / "e.csv"
    )
    table = read_corrections(tmp_path / "e.csv")
    assert edits_of(table, review).events == []
    text = (tmp_path / "e.csv").read_text().splitlines()
    edited = [line.replace("novel-001", "wasp") if line.startswith(("i4,", '"i4"')) else line for line in text]
    assert edited != text
    (tmp_path / "e.csv").write_text("\n".join(edited) + "\n")
    edits = edits_of(read_corrections(tmp_path / "e.csv"), review)
    assert edits.counts["created"] == 1 and edits.counts["moved"] == 1 and not edits.refused


def test_an_export_from_before_a_name_was_given_follows_it(review: Review, tmp_path: Path) -> None:
    """Its other rows say nothing; to call anything else by the old name is still refused."""
    from ltgcd.output.export.formats import export_items

    columns = ["id", "label", "name", "status", "confidence"]
    export_items(review.table().select(columns), None, "csv", tmp_path / "e.csv")
    called = replay(review, edits_of(corrections(tmp_path, "category,name\nnovel-002,wasp\n"), review).events)
    assert edits_of(read_corrections(tmp_path / "e.csv"), called) == edits_of(
        read_corrections(tmp_path / "e.csv"), review
    )
    said = edits_of(corrections(tmp_path, "id,label\ni7,novel-002\ni4,novel-002\n"), called)
    assert (said.counts["confirmed"], said.counts["created"]) == (1, 0) and [one["row"] for one in said.refused] == [2]


def test_upper_and_lower_case_are_the_same_in_a_file_as_on_the_page(review: Review, tmp_path: Path) -> None:
    edits = edits_of(corrections(tmp_path, "id,label\ni4,Bee\ni5,BEE\n"), review)
    assert edits.new_classes == [] and edits.counts["moved"] == 2
    assert [row[1] for row in rows(replay(review, edits.events))[4:6]] == ["bee", "bee"]
    as_they_came = edits_of(corrections(tmp_path, "id,label\ni4,Bee\n"), review, any_name=True)
    assert [one["name"] for one in as_they_came.new_classes] == ["Bee"], "a source may tell them apart"


def test_a_name_for_every_sure_item_of_a_category_is_its_name(review: Review, tmp_path: Path) -> None:
    """A spreadsheet that calls all rows of novel-001 wasp: no twin stays for the unsure item that leans there."""
    edits = edits_of(corrections(tmp_path, "id,label\ni4,wasp\ni5,wasp\ni6,wasp\n"), review)
    assert (edits.counts["renamed"], edits.counts["created"], edits.counts["confirmed"]) == (1, 0, 3)
    after = replay(review, edits.events)
    assert sorted(set(after.class_names().values())) == ["ant", "bee", "novel-002", "wasp"]
    assert rows(after)[9][:3] == (2, "wasp", "unsure")
    for file in ("i4,wasp\ni5,wasp\n", "i4,wasp\ni5,wasp\ni6,wasp\ni7,wasp\n", "i0,wasp\ni1,wasp\n"):
        part = edits_of(corrections(tmp_path, "id,label\n" + file), review)
        assert (part.counts["renamed"], part.counts["created"]) == (0, 1), "not all, more, or a known class"
    mixed = edits_of(corrections(tmp_path, "id,label\ni4,bee\ni5,wasp\ni6,wasp\n"), review)
    assert (mixed.counts["renamed"], mixed.counts["created"]) == (0, 1), "one of them is something else"
