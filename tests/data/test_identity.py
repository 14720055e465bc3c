"""Which items are there already: an item is its id and its content."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ltgcd.data.identity import compare_items, numbered_id


def strings(*values: str | None) -> pa.StringArray:
    return pa.array(values, pa.string())


@pytest.mark.parametrize(
    ("item_id", "numbered"),
    [
        ("cat/IMG_1.jpg", "cat/IMG_1 (2).jpg"),
        ("7", "7 (2)"),
        (".png", ".png (2)"),
        ("v1.2/a", "v1.2/a (2)"),
        ("see you. later", "see you. later (2)"),
    ],
)
def test_numbers_are_where_a_file_manager_puts_them(item_id: str, numbered: str) -> None:
    assert numbered_id(item_id, 2) == numbered


def test_the_same_id_with_other_content_is_another_item() -> None:
    held, contents = strings("a.png", "b.png", "b (2).png"), strings("A", "B", "X")
    new = strings("a.png", "b.png", "c.png", "d.png")
    found = compare_items(new, strings("A", "C", "A", "D"), held, contents)
    assert found.is_new.tolist() == [False, True, True, True]
    assert found.ids.to_pylist() == ["a.png", "b (3).png", "c.png", "d.png"]
    assert found.renamed == [("b.png", "b (3).png")]
    assert found.copies == [("c.png", "a.png")]
    assert len(found.sentences()) == 2
    # Once they are there, the same source brings nothing new.
    later = compare_items(
        new,
        strings("A", "C", "A", "D"),
        pa.concat_arrays([held, found.ids.filter(pa.array(found.is_new))]),
        strings("A", "B", "X", "C", "A", "D"),
    )
    assert not later.is_new.any() and not later.sentences()
    assert later.ids.to_pylist() == ["a.png", "b (3).png", "c.png", "d.png"]


def test_a_new_id_is_taken_by_nobody() -> None:
    found = compare_items(strings("a", "a (2)"), strings("X", "Y"), strings("a"), strings("A"))
    assert found.ids.to_pylist() == ["a (3)", "a (2)"]
    assert found.is_new.all()


def test_what_is_not_known_is_told_by_its_id() -> None:
    empty = "cae66941d9efbd404e4d88758ea67670"
    found = compare_items(strings("a", "b", "c"), strings("X", empty, "C"), strings("a", "b"), strings(None, "B"))
    assert found.is_new.tolist() == [False, False, True]
    for digests, held in ((None, strings("A")), (strings("X", "Y"), None)):
        assert compare_items(strings("a", "b"), digests, strings("a"), held).is_new.tolist() == [False, True]
