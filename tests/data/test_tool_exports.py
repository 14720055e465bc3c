"""Labels from files in the layouts that Label Studio, FiftyOne and COCO tools document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.common.errors import InputError
from ltgcd.data.tool_exports import ToolLabels, combine, read_tool_labels


def read(tmp_path: Path, content: object) -> ToolLabels:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(content))
    return read_tool_labels(path)


def labels(found: ToolLabels) -> dict[str, str | None]:
    return dict(zip(*found.table.to_pydict().values(), strict=True))


def choose(*choices: str, control: str = "category", kind: str = "choices") -> dict[str, Any]:
    return {
        "id": "q1",
        "type": kind,
        "origin": "manual",
        "from_name": control,
        "to_name": "image",
        "value": {kind: list(choices)},
    }


def task(item: str | None, *annotations: dict[str, Any], **data: Any) -> dict[str, Any]:
    """A task as Label Studio's export "JSON" has it, shortened."""
    own = {"image": "/data/local-files/?d=photos/a.png", "status": "novel", **data}
    if item is not None:
        own["item_id"] = item
    predictions = [{"model_version": "ltgcd 0.1.0", "score": 0.5, "result": [choose("predicted")]}]
    return {"id": 1, "data": own, "annotations": list(annotations), "predictions": predictions, "project": 1}


def annotation(*results: dict[str, Any], cancelled: bool = False) -> dict[str, Any]:
    return {"id": 7, "completed_by": 1, "was_cancelled": cancelled, "ground_truth": False, "result": list(results)}


def test_label_studio(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        [
            task("a", annotation(choose("cat"))),
            task("b", annotation(choose("unsure"))),
            task("c"),  # predictions are no labels
            task("d", annotation(choose("cat"), cancelled=True)),
            task("e", annotation(choose("bell␇")), class_names={"bell␇": "bell\x07"}),
            task("f", annotation(choose("cat")), annotation(choose("cat"))),
            task("g", annotation(choose("bad quality", control="quality"), choose("dog"))),
            task("h", annotation(choose("dog", control="mine"))),
            task("i", annotation(choose("x", kind="textarea"), choose("cat"))),
        ],
    )
    assert found.tool == "Label Studio"
    assert labels(found) == {
        "a": "cat",
        "b": None,
        "e": "bell\x07",
        "f": "cat",
        "g": "dog",
        "h": "dog",
        "i": "cat",
    }
    assert found.notes == []


def test_label_studio_says_what_it_left_out(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        [
            task("a", annotation(choose("cat"))),
            task("b", annotation(choose("cat")), annotation(choose("dog"))),
            task("c", annotation(choose("cat", "dog"))),
            task(None, annotation(choose("cat"))),
            task(None),
        ],
    )
    assert labels(found) == {"a": "cat"}
    assert len(found.notes) == 2
    assert "1 entries don't say which item they are about (item_id)" in found.notes[0]
    assert "2 items have several different labels" in found.notes[1]
    assert "'b'" in found.notes[1]


def test_label_studio_short_form(tmp_path: Path) -> None:
    rows = [
        {"image": "x", "item_id": "a", "id": 1, "category": "cat", "annotator": 1, "annotation_id": 1},
        {"image": "x", "item_id": "b", "id": 2, "category": {"choices": ["cat", "dog"]}, "annotator": 1},
        {"image": "x", "item_id": "c", "id": 3, "category": "␇", "class_names": {"␇": "\x07"}, "annotator": 1},
        {"image": "x", "item_id": "d", "id": 4, "annotator": 1},
    ]
    assert labels(read(tmp_path, rows)) == {"a": "cat", "c": "\x07"}


def test_fiftyone(tmp_path: Path) -> None:
    def entry(label: object, item: object) -> dict[str, Any]:
        return {"label": label, "confidence": 0.5, "attributes": {"item_id": item, "status": "known"}}

    content = {
        "classes": ["cat", "dog", "unsure"],
        "labels": {"1": entry(0, "x/1.png"), "2": entry(1, 2), "3": entry(2, "x/3.png"), "4": None, "5": entry(9, "y")},
    }
    found = read(tmp_path, content)
    assert found.tool == "FiftyOne"
    assert labels(found) == {"x/1.png": "cat", "2": "dog", "x/3.png": None}
    assert found.notes == ["1 entries are of a class that the file has no name for, and were left out."]
    # Without a list of classes the labels are names; several labels are a list.
    content = {"classes": None, "labels": {"1": entry("cat", "a"), "2": [entry("cat", "b"), entry("dog", "b")]}}
    assert labels(read(tmp_path, content)) == {"a": "cat"}
    with pytest.raises(InputError, match="2 entries don't say which item"):
        read(tmp_path, {"classes": ["cat"], "labels": {"1": 0, "2": {"label": 0}}})


def test_fiftyone_samples(tmp_path: Path) -> None:
    def sample(**fields: Any) -> dict[str, Any]:
        return {"_id": {"$oid": "6afd"}, "filepath": "/x/0.png", "tags": [], "_media_type": "image", **fields}

    def label(name: str, item: str, kind: str = "Classification") -> dict[str, Any]:
        return {"_id": {"$oid": "6afe"}, "_cls": kind, "tags": [], "label": name, "confidence": 0.5, "item_id": item}

    content = {
        "samples": [
            sample(ground_truth=label("cat", "a"), other={"_cls": "Classification", "label": "no id"}),
            sample(mine=label("unsure", "b")),
            sample(mine={"_cls": "Detections", "detections": [label("dog", "c", "Detection")]}),
            sample(ground_truth=None),
            sample(first=label("cat", "d"), second=label("dog", "d")),
        ]
    }
    found = read(tmp_path, content)
    assert found.tool == "FiftyOne"
    assert labels(found) == {"a": "cat", "b": None, "c": "dog"}
    assert "1 items have several different labels" in found.notes[0]


def test_coco(tmp_path: Path) -> None:
    content: dict[str, Any] = {
        "info": {},
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "unsure"}],
        "images": [{"id": n, "file_name": f"{n}.png", "width": 2, "height": 2} for n in range(1, 6)],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 2], "attributes": {"item_id": "a"}},
            {"id": 2, "image_id": 2, "category_id": 2, "bbox": [0, 0, 2, 2], "item_id": "b"},
            {"id": 3, "image_id": 3, "category_id": 1, "bbox": [0, 0, 2, 2]},
            {"id": 4, "image_id": 4, "category_id": 9, "bbox": [0, 0, 2, 2]},
            {"id": 5, "image_id": 5, "category_id": 1, "bbox": [0, 0, 2, 2]},
        ],
    }
    content["images"][2]["item_id"] = "c"
    content["images"][3]["item_id"] = "d"
    found = read(tmp_path, content)
    assert found.tool == "COCO"
    assert labels(found) == {"a": "cat", "b": None, "c": "cat"}
    assert [note[:9] for note in found.notes] == ["1 entries", "1 entries"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("3", "not a file of labels"),
        ('{"tasks": []}', "not a file of labels"),
        ('{"samples": [{"ground_truth": {"label": "cat"}}, 3]}', "Nobody"),
        ("[]", "Nobody has labelled anything"),
        (json.dumps([task("a")]), "Nobody has labelled anything"),
        (json.dumps([task(None, annotation(choose("cat")))]), "item_id"),
        ('[{"data": {"item_id": "a"}, "annotations": [{"result": "?"}, null]}, 3]', "Nobody"),
        ('{"labels": {"1": {"label": "\\ud800", "attributes": {"item_id": "a"}}}}', "not UTF-8"),
        ('{"images": [3], "annotations": [{"image_id": [1]}], "categories": [{"id": {}}]}', "item_id"),
    ],
)
def test_what_can_not_be_used_is_said_in_a_sentence(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(InputError, match=words):
        read_tool_labels(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        read_tool_labels(tmp_path / "nowhere.json")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["data", "annotations", "result", "labels", "classes", "images", "categories", "item_id"])
            | st.sampled_from(["id", "label", "attributes", "category", "choices", "type", "value", "class_names"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@settings(deadline=None, max_examples=200)
@given(json_values)
def test_any_json_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: object) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(json.dumps(content))
    try:
        read_tool_labels(path)
    except InputError as error:
        assert "\n" not in str(error)


def test_nothing_to_combine() -> None:
    assert combine([]) == ({"id": [], "label": []}, [])
