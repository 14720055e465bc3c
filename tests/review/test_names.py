"""Names mean the classes that had them, "junk" means junk, and none is given twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ltgcd.common.errors import InputError
from ltgcd.discovery.assignments import assignments_table
from ltgcd.output.export.formats import export_items
from ltgcd.review.corrections import edits_of, read_corrections
from ltgcd.review.names import reason_against
from ltgcd.review.state import Event, Review, apply, begin, carried_out, replay

NAMES = ("ant", "bee")


@pytest.fixture
def review() -> Review:
    """Ten items: ant and bee, and the novel categories 1 to 3."""
    labels = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
    ids = pa.array([f"i{n}" for n in range(10)])
    return begin(assignments_table(ids, labels, np.full(10, 0.7, np.float32), NAMES, 5), NAMES)


def read(folder: Path, text: str) -> pa.Table:
    (folder / "c.csv").write_text(text)
    return read_corrections(folder / "c.csv")


def names(review: Review) -> list[str]:
    return review.table().column("name").to_pylist()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_file_means_the_names_that_were_before_it(review: Review, tmp_path: Path, order: tuple[int, ...]) -> None:
    """Whatever the order of its rows: novel-003 goes into what was novel-001, and nothing else is called that."""
    lines = ["novel-001,tunicate bits", "novel-003,novel-001"]
    edits = edits_of(read(tmp_path, "category,name\n" + "\n".join(lines[at] for at in order)), review)
    assert (edits.counts["renamed"], edits.counts["merged"], edits.refused) == (1, 1, [])
    after = replay(review, edits.events)
    assert names(after)[4:] == ["tunicate bits", "tunicate bits", "novel-002", "novel-002", *["tunicate bits"] * 2]
    text = "id,label,category,name\n,,novel-001,wasp\ni0,novel-001,,\ni1,wasp,,\n"
    edits = edits_of(read(tmp_path, text), review)
    assert edits.counts["created"] == 0 and names(replay(review, edits.events))[:2] == ["wasp", "wasp"]


def test_a_name_that_means_something_else_is_refused_row_by_row(review: Review, tmp_path: Path) -> None:
    named = replay(review, [{"op": "rename", "code": 2, "name": "wasp"}, {"op": "rename", "code": 2, "name": "fly"}])
    text = (
        "id,label,category,name\n,,novel-002,novel-777\n,,novel-003,wasp\n,,novel-003,Unsure\n"
        ",,fly,gnat\n,,fly,moth\ni0,novel-099,,\ni1,WASP,,\n"
    )
    edits = edits_of(read(tmp_path, text), named)
    assert [one["row"] for one in edits.refused] == [1, 2, 3, 5, 6]
    reasons = [one["reason"] for one in edits.refused]
    assert "a number is given once" in reasons[0] and "a number is given once" in reasons[4]
    assert "was the name of another class, which is 'fly' now" in reasons[1]
    assert "items in no class" in reasons[2] and "'gnat'" in reasons[3]
    assert edits.counts["renamed"] == 1 and [one["name"] for one in edits.new_classes] == ["WASP"]


def test_the_server_says_no_too_and_old_logs_are_read(review: Review) -> None:
    for name, words in (("Junk", "items in no class"), ("novel-777", "given once"), ("NOVEL-12", "given once")):
        events: list[Event] = [{"op": "rename", "code": 2, "name": name}]
        for one in (events, [{"op": "create", "code": 5, "name": name}]):
            with pytest.raises(InputError, match=words):
                carried_out(review, one, fresh=True)
        assert name in names(replay(review, events)), "said before there was such a rule"
    named = apply(review, {"op": "rename", "code": 2, "name": "wasp"})
    again = apply(named, {"op": "rename", "code": 2, "name": "fly"})
    assert reason_against(again, "wasp") is not None and reason_against(again, "wasp", 3) is not None
    assert reason_against(again, "wasp", 2) is None, "its own"
    assert reason_against(named, "wasp", 2) is None and reason_against(review, "novel-001", 2) is None
    merged = apply(named, {"op": "merge", "code": 2, "into": 3})
    assert reason_against(merged, "wasp", 3) is None, "that of what is in it"
    assert reason_against(merged, "wasp", 4) is not None
    later = begin(merged.table(), NAMES)
    assert reason_against(later, "wasp") is not None, "and in the next fit"


def test_a_label_junk_takes_out_in_any_case(review: Review, tmp_path: Path) -> None:
    edits = edits_of(read(tmp_path, "id,label\ni0,Junk\ni1, JUNK \ni1,junk\n"), review)
    assert edits.counts["junk"] == 2 and edits.counts["created"] == 0 and not edits.refused
    edits = edits_of(read(tmp_path, "category,name\nnovel-001,Junk\n"), review)
    assert edits.counts["junk"] == 2


def test_a_word_for_no_label_is_no_label(review: Review, tmp_path: Path) -> None:
    """As in every source; a class that is called so all the same, by its own labels, keeps its name."""
    said = replay(review, [{"op": "assign", "rows": [4], "code": 0}, {"op": "assign", "rows": [5], "code": 1}])
    edits = edits_of(read(tmp_path, "id,label\ni4,NA\ni5,n/a\ni6,NA\ni7,unknown\n"), said)
    assert edits.no_label == {"NA": 2, "n/a": 1, "unknown": 1}
    assert (edits.counts["cleared"], edits.stayed, edits.counts["created"], edits.refused) == (2, 2, 0, [])
    assert not replay(said, edits.events).given.any()
    edits = edits_of(read(tmp_path, "category,name\nnovel-001,Unknown\n"), review)
    assert "where there is no label" in edits.refused[0]["reason"] and not edits.events
    called = apply(review, {"op": "rename", "code": 2, "name": "none"})  # said before there was such a rule
    edits = edits_of(read(tmp_path, "id,label\ni0,none\n"), called)
    assert edits.no_label == {} and replay(called, edits.events).code[0] == 2


def test_the_export_of_a_class_that_was_called_junk_says_nothing_new(review: Review, tmp_path: Path) -> None:
    """An older version let a class be called that; exports call it junk-2."""
    old = replay(review, [{"op": "rename", "code": 2, "name": "junk"}])
    table = old.table().select(["id", "label", "name", "status", "confidence"])
    export_items(table, None, "csv", tmp_path / "e.csv")
    assert '"junk-2"' in (tmp_path / "e.csv").read_text()
    assert edits_of(read_corrections(tmp_path / "e.csv"), old).events == []
    text = (tmp_path / "e.csv").read_text().replace('"i0","ant"', '"i0","junk-2"')
    (tmp_path / "e.csv").write_text(text)
    edits = edits_of(read_corrections(tmp_path / "e.csv"), old)
    assert edits.counts["moved"] == 1 and edits.counts["created"] == 0
    assert replay(old, edits.events).code[0] == 2
