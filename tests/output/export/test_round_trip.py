"""What an export says of the classes is what is read back from it."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ltgcd.common.files import read_metadata
from ltgcd.data.collection import Collection
from ltgcd.data.items import Texts
from ltgcd.data.labels import read_csv
from ltgcd.data.sources import read_source
from ltgcd.data.tool_exports import read_tool_labels
from ltgcd.discovery.assignments import ASSIGNMENT_COLUMNS, assignments_table
from ltgcd.discovery.exported import category_names
from ltgcd.output.export.formats import export_items
from ltgcd.output.export.label_studio import shown_names

IDS = ["cat/a.png", "cat/b.png", "dog/c.jpg", "unlabelled/d.png", "unlabelled/deep/e.jpg"]
# Class of each photo as a run has it, the last one leaning to the dogs.
LABELS = np.array([0, 0, 1, 2, 1])
FOUND = dict(zip(IDS, ["cat", "cat", "dog", "novel-001", None], strict=True))


@pytest.fixture
def assigned() -> pa.Table:
    unsure = np.array([False, False, False, False, True])
    scores = np.full(5, 0.5, np.float32)
    return assignments_table(pa.array(IDS), LABELS, scores, ("cat", "dog"), 3, unsure)


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns: dict[str, Any] = dict(zip(ASSIGNMENT_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    columns["confidence"] = pa.array(columns["confidence"], pa.float32())
    return pa.table(columns)


def known_labels(collection: Collection) -> dict[str, str | None]:
    names = (*collection.class_names, None)
    return {item: names[code] for item, code in zip(collection.ids.to_pylist(), collection.y.tolist(), strict=True)}


def test_a_csv_given_back_as_labels_has_the_same_classes(
    assigned: pa.Table, image_folder: Path, tmp_path: Path
) -> None:
    export_items(assigned, None, "csv", tmp_path / "labels.csv")
    back = read_source(image_folder, labels=tmp_path / "labels.csv").collection
    assert known_labels(back) == FOUND
    assert back.class_names == ("cat", "dog", "novel-001")


def test_what_unsure_items_lean_to_is_told_apart(assigned: pa.Table, tmp_path: Path) -> None:
    export_items(assigned, None, "parquet", tmp_path / "labels.parquet")
    rows = pq.read_table(tmp_path / "labels.parquet").to_pylist()
    assert {row["id"]: row["label"] for row in rows} == FOUND
    assert [row["code"] for row in rows] == [0, 0, 1, 2, None]
    assert [row["leans_to"] for row in rows] == [None] * 4 + ["dog"]
    # The reader of parquet then takes the labels as they are: "1" beside "cat", too.
    assert read_metadata(pq.read_schema(tmp_path / "labels.parquet"))["class_names"] == ["cat", "dog", "novel-001"]


def test_the_index_of_folders_is_a_source(assigned: pa.Table, image_folder: Path, tmp_path: Path) -> None:
    photos = read_source(image_folder).collection
    export_items(assigned, photos, "folders", tmp_path / "sorted")
    back = read_source(tmp_path / "sorted" / "index.csv").collection
    assert known_labels(back) == FOUND
    assert back.items.take(np.arange(5)) == photos.items.take(np.arange(5))
    assert sorted(path.name for path in (tmp_path / "sorted").iterdir()) == [
        "cat",
        "dog",
        "index.csv",
        "novel-001",
        "unsure",
    ]


def test_the_index_of_texts_is_not_taken_for_one_of_images(tmp_path: Path) -> None:
    texts = Collection(pa.array(["1"]), Texts(pa.array(["one"])), np.full(1, -1), ("a",))
    export_items(table_of([("1", 0, "a", "known", 0.5)]), texts, "folders", tmp_path / "out")
    assert read_csv(tmp_path / "out" / "index.csv").column_names[-1] == "file"


def test_no_class_gets_a_folder_that_is_read_as_unlabelled(tmp_path: Path) -> None:
    words = ["junk", "Unlabelled", "unlabeled", "unsure", "unsure.", "index.csv"]
    rows = [(str(n), n, word, "known", 0.5) for n, word in enumerate(words)]
    ids = pa.array([row[0] for row in rows])
    texts = Collection(ids, Texts(pa.array(words)), np.full(len(rows), -1), ("a",))
    export_items(table_of(rows), texts, "folders", tmp_path / "out")
    folders = [path.name for path in (tmp_path / "out").iterdir() if path.is_dir()]
    assert len(folders) == 6
    assert all("-" in name for name in folders)


def test_cells_that_a_spreadsheet_would_run(image_folder: Path, tmp_path: Path) -> None:
    names = ["=1+1", "+cat", "-2", "@sum", "\tx", "'=quoted", "'plain", "''+", "＝wide", "ok"]
    rows = [(f"={n}.png", n, name, "known", 0.5) for n, name in enumerate(names)]
    rows += [("-unsure", 0, names[0], "unsure", 0.1)]
    export_items(table_of(rows), None, "csv", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not [cell for cell in cells if cell[:1] in set("=+-@\t\r\n＝＋－＠") - {""} and cell]
    back = read_csv(tmp_path / "out.csv")
    assert back.column("id").to_pylist() == [row[0] for row in rows]
    assert back.column("label").to_pylist() == [*names, None]
    assert back.column("leans_to").to_pylist() == [None] * 10 + ["=1+1"]


def test_the_index_of_folders_has_no_formula_either(tmp_path: Path) -> None:
    names = ["=1+1", "@sum"]
    rows = [(f"={n}", n, name, "known", 0.5) for n, name in enumerate(names)]
    texts = Collection(pa.array([row[0] for row in rows]), Texts(pa.array(names)), np.full(2, -1), ("a",))
    export_items(table_of(rows), texts, "folders", tmp_path / "out")
    with (tmp_path / "out" / "index.csv").open(encoding="utf-8", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert {"'=0", "'=1+1", "'@sum"} <= set(cells) and not [cell for cell in cells if cell[:1] in ("=", "@")]
    assert read_csv(tmp_path / "out" / "index.csv").column("label").to_pylist() == names


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        # 105: a novel category with the name of a class, which people gave in an earlier round.
        ([(0, "novel-001", "known"), (1, "novel-001", "novel")], {0: "novel-001", 1: "novel-001-2"}),
        ([(0, "novel-001", "novel"), (1, "novel-001", "known")], {0: "novel-001-2", 1: "novel-001"}),
        # A category that a person gave the name of a class is that class.
        ([(0, "cat", "known"), (4, "cat", "known")], {0: "cat", 4: "cat"}),
        ([(0, "cat", "known"), (4, "cat", "unsure")], {0: "cat", 4: "cat"}),
        ([(0, "Cat", "known"), (1, "cat", "known")], {0: "Cat", 1: "cat"}),
        ([(0, "unsure", "known"), (1, "unsure-2", "known")], {0: "unsure-3", 1: "unsure-2"}),
        ([(0, "Unsure", "known")], {0: "Unsure-2"}),
        ([(3, None, "unsure")], {3: "unnamed"}),
    ],
)
def test_a_class_and_a_category_never_share_a_name(
    rows: list[tuple[int, str | None, str]], names: dict[int, str]
) -> None:
    assert category_names(rows) == names


def test_names_that_xml_can_not_hold(tmp_path: Path) -> None:
    names = ["a\x00b", "bell\x07", "line\nbreak", " spaces ", "bell␇", "$text", '<&">', "\x1b[31mred", "￿", "", "😀"]
    shown = shown_names(names)
    assert len(set(shown.values())) == len(names)
    assert shown["bell␇"] == "bell␇"
    rows = [(str(n), n, name, "known", 0.5) for n, name in enumerate(names)]
    ids = pa.array([row[0] for row in rows])
    texts = Collection(ids, Texts(pa.array([f"text {name}" for name in names])), np.full(len(rows), -1), ("a",))
    export_items(table_of(rows), texts, "label-studio", tmp_path / "tasks.json")
    interface = ElementTree.parse(tmp_path / "tasks-interface.xml").getroot()
    choices = {choice.get("value") for choice in interface.iter("Choice")}
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert "\0" not in tasks[0]["data"]["text"]
    for number, task in enumerate(tasks):
        result = task["predictions"][0]["result"]
        assert set(result[0]["value"]["choices"]) <= choices
        task.update(id=number, annotations=[{"id": number, "was_cancelled": False, "result": result}])
    # As Label Studio exports the tasks after someone accepted every prediction.
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    back = read_tool_labels(tmp_path / "export.json").table
    expected = ["unnamed" if name == "" else name for name in names]
    assert back.to_pydict() == {"id": [str(n) for n in range(len(names))], "label": expected}


@pytest.mark.parametrize("form", ["fiftyone", "coco"])
def test_directories_come_back_from_their_own_labels(
    form: str, assigned: pa.Table, image_folder: Path, tmp_path: Path
) -> None:
    export_items(assigned, read_source(image_folder).collection, form, tmp_path / "set")
    tool, table, notes = read_tool_labels(tmp_path / "set" / "labels.json")
    assert tool.lower() == form
    assert dict(zip(*table.to_pydict().values(), strict=True)) == FOUND
    assert notes == []
