"""Every export format read back, and what is refused."""

from __future__ import annotations

import base64
import csv
import io
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from conftest import image_bytes
from ltgcd.common.errors import InputError
from ltgcd.data.collection import Collection
from ltgcd.data.items import Texts
from ltgcd.data.sources import read_source
from ltgcd.discovery.assignments import ASSIGNMENT_COLUMNS
from ltgcd.output.export.files import safe_name, unique_name
from ltgcd.output.export.formats import FORMATS, check_export, export_items

# Of the conftest's folder of photos: names that are no file names, a class that is called unsure, and an unsure item.
ROWS = [
    ("cat/a.png", 0, "cat", "known", 0.9),
    ("cat/b.png", 0, "cat", "known", 0.8),
    ("dog/c.jpg", 1, "unsure", "known", 0.7),
    ("unlabelled/d.png", 2, "new/../<b>", "novel", 0.6),
    ("unlabelled/deep/e.jpg", 2, "new/../<b>", "unsure", 0.3),
]
CATEGORIES = {"cat/a.png": "cat", "cat/b.png": "cat", "dog/c.jpg": "unsure-2", "unlabelled/d.png": "new/../<b>"}
CATEGORIES["unlabelled/deep/e.jpg"] = "unsure"


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns: dict[str, Any] = dict(zip(ASSIGNMENT_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    columns["confidence"] = pa.array(columns["confidence"], pa.float32())
    return pa.table(columns)


@pytest.fixture
def assigned() -> pa.Table:
    return table(ROWS)


@pytest.fixture
def photos(image_folder: Path) -> Collection:
    return read_source(image_folder).collection


@pytest.fixture
def packed(image_folder: Path, tmp_path: Path) -> Collection:
    """The same images inside a parquet file."""
    source = read_source(image_folder)
    blobs = source.collection.items.take(np.arange(5))
    image = pa.StructArray.from_arrays([pa.array(blobs, pa.binary())], ["bytes"])
    pq.write_table(pa.table({"id": source.collection.ids, "image": image}), tmp_path / "packed.parquet")
    return read_source(tmp_path / "packed.parquet").collection


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_tables_are_the_assignments(assigned: pa.Table, tmp_path: Path) -> None:
    result = export_items(assigned, None, "csv", tmp_path / "deep" / "out.csv")
    assert (result["format"], result["n"]) == ("csv", 5)
    rows = read_table(Path(result["path"]))
    assert list(rows[0]) == ["id", "label", "code", "status", "confidence", "leans_to"]
    assert [(r["id"], r["label"], r["code"], r["status"], r["leans_to"]) for r in rows] == [
        ("cat/a.png", "cat", "0", "known", ""),
        ("cat/b.png", "cat", "0", "known", ""),
        ("dog/c.jpg", "unsure-2", "1", "known", ""),
        ("unlabelled/d.png", "new/../<b>", "2", "novel", ""),
        ("unlabelled/deep/e.jpg", "", "", "unsure", "new/../<b>"),
    ]
    assert [float(r["confidence"]) for r in rows] == pytest.approx([row[4] for row in ROWS])
    export_items(assigned, None, "parquet", tmp_path / "out.parquet", statuses=("novel", "unsure"))
    kept = pq.read_table(tmp_path / "out.parquet")
    assert kept.column("id").to_pylist() == ["unlabelled/d.png", "unlabelled/deep/e.jpg"]
    assert kept.column("status").to_pylist() == ["novel", "unsure"]
    assert kept.column("label").to_pylist() == ["new/../<b>", None]
    assert kept.column("code").to_pylist() == [2, None]


def test_names_that_do_not_come_back_are_said(assigned: pa.Table, tmp_path: Path) -> None:
    """ "unsure" was called "unsure-2" without a word, and "unknown" is no class to who reads it again."""
    (note,) = export_items(assigned, None, "csv", tmp_path / "one.csv")["notes"]
    assert "'unsure' is called 'unsure-2' here" in note
    rows = [(f"i{code}", code, name, "known", 0.9) for code, name in enumerate(("ant", "Unknown"))]
    (note,) = export_items(table(rows), None, "csv", tmp_path / "two.csv")["notes"]
    assert "'Unknown' says that there is no label" in note
    with pytest.warns(UserWarning, match="1 'Unknown' were read as unlabelled"):
        read_manifest_of(tmp_path / "two.csv")


def read_manifest_of(path: Path) -> Collection:
    """Exported labels, beside texts of their items."""
    rows = read_table(path)
    texts = path.with_name("texts.csv")
    texts.write_text("id,text\n" + "".join(f"{row['id']},text of {row['id']}\n" for row in rows))
    return read_source(texts, path).collection


@pytest.mark.parametrize("how", ["link", "copy", "packed"])
def test_folders(
    how: str, assigned: pa.Table, photos: Collection, packed: Collection, image_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "sorted"
    source = packed if how == "packed" else photos
    result = export_items(assigned, source, "folders", out, copy=how == "copy")
    files = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    folder = "new_.._[b]".replace("[", "_").replace("]", "_")
    assert files == ["cat/a.png", "cat/b.png", "index.csv", f"{folder}/d.png", "unsure-2/c.jpg", "unsure/e.jpg"]
    assert result["n"] == 5
    assert all(path.is_symlink() == (how == "link") for path in out.rglob("*.png"))
    index = {row["id"]: row for row in read_table(out / "index.csv")}
    for item, *_ in ROWS:
        assert (out / index[item]["path"]).read_bytes() == (image_folder / item).read_bytes()
    assert index["unlabelled/deep/e.jpg"]["status"] == "unsure"
    assert any("inside a table" in note for note in result["notes"]) == (how == "packed")
    assert any("index.csv has the names" in note and f"'{folder}'" in note for note in result["notes"])
    assert not list(tmp_path.glob(".*tmp"))
    # Only folders of images: what ltgcd and ImageFolder read as classes ("unsure" is for ltgcd to leave unlabelled).
    assert set(read_source(out).collection.class_names) - {"unsure"} == {"cat", folder, "unsure-2"}


def test_folders_where_links_are_not_possible(
    assigned: pa.Table, photos: Collection, image_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    result = export_items(assigned, photos, "folders", tmp_path / "out")
    assert any("were copied" in note for note in result["notes"])
    assert (tmp_path / "out" / "cat" / "a.png").read_bytes() == (image_folder / "cat" / "a.png").read_bytes()
    assert not (tmp_path / "out" / "cat" / "a.png").is_symlink()


def test_folders_of_texts_with_names_that_meet(tmp_path: Path) -> None:
    ids = ["x/same", "y/same", "Same", "same-2"]
    collection = Collection(pa.array(ids), Texts(pa.array(["one", "two", "three", "four"])), np.full(4, -1), ("a",))
    export_items(table([(i, 0, "a", "known", 0.5) for i in ids]), collection, "folders", tmp_path / "out")
    found = {path.name: path.read_text() for path in (tmp_path / "out" / "a").iterdir()}
    assert sorted(found.values()) == ["four", "one", "three", "two"]
    assert len({name.lower() for name in found}) == 4
    assert all(name.endswith(".txt") for name in found)
    by_id = {row["id"]: (tmp_path / "out" / row["file"]).read_text() for row in read_table(tmp_path / "out/index.csv")}
    assert by_id == dict(zip(ids, ["one", "two", "three", "four"], strict=True))


def test_label_studio_tasks_of_files(
    assigned: pa.Table, photos: Collection, image_folder: Path, tmp_path: Path
) -> None:
    result = export_items(assigned, photos, "label-studio", tmp_path / "tasks.json")
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert len(tasks) == result["n"] == 5
    interface = ElementTree.parse(tmp_path / "tasks-interface.xml").getroot()
    shown, control = interface.find("Image"), interface.find("Choices")
    assert shown is not None
    assert control is not None
    values = {choice.get("value") for choice in control}
    assert values == set(CATEGORIES.values())
    for task, (item, _, name, status, confidence) in zip(tasks, ROWS, strict=True):
        assert task["data"]["image"] == f"/data/local-files/?d=photos/{item}"
        assert shown.get("value") == "$image"
        (prediction,) = task["predictions"]
        (answer,) = prediction["result"]
        assert answer["type"] == "choices"
        assert (answer["from_name"], answer["to_name"]) == (control.get("name"), shown.get("name"))
        assert answer["value"]["choices"] == [CATEGORIES[item]]
        assert prediction["score"] == pytest.approx(confidence)
        assert (task["data"]["item_id"], task["data"]["status"]) == (item, status)
        assert task["data"].get("leans_to") == (name if status == "unsure" else None)
    assert any(f"DOCUMENT_ROOT={image_folder.parent}" in note for note in result["notes"])


def test_label_studio_tasks_of_bytes_and_texts(
    assigned: pa.Table, packed: Collection, image_folder: Path, tmp_path: Path
) -> None:
    export_items(assigned, packed, "label-studio", tmp_path / "bytes.json", statuses=("known",))
    tasks = json.loads((tmp_path / "bytes.json").read_text())
    assert len(tasks) == 3
    kind, _, content = tasks[2]["data"]["image"].partition(";base64,")
    assert kind == "data:image/jpeg"
    assert base64.b64decode(content) == (image_folder / "dog/c.jpg").read_bytes()
    texts = ["plain", 'quotes " and <tags>', "שלום\nline"]
    collection = Collection(pa.array(["1", "2", "3"]), Texts(pa.array(texts)), np.full(3, -1), ("a",))
    own = table([(str(i), 0, "a", "known", 0.5) for i in (3, 1, 2)])
    export_items(own, collection, "label-studio", tmp_path / "texts.json")
    tasks = json.loads((tmp_path / "texts.json").read_text())
    assert [task["data"]["text"] for task in tasks] == [texts[2], texts[0], texts[1]]
    assert '<Text name="text" value="$text"/>' in (tmp_path / "texts-interface.xml").read_text()


def test_fiftyone_dataset(assigned: pa.Table, packed: Collection, tmp_path: Path) -> None:
    export_items(assigned, packed, "fiftyone", tmp_path / "set")
    labels = json.loads((tmp_path / "set" / "labels.json").read_text())
    # As its importer looks files up: by name without ending.
    data = {path.stem: path for path in (tmp_path / "set" / "data").iterdir()}
    assert set(data) == set(labels["labels"])
    assert len(data) == 5
    found = {}
    for key, value in labels["labels"].items():
        assert Image.open(data[key]).size == (12, 10)
        found[value["attributes"]["item_id"]] = labels["classes"][value["label"]]
        assert value["confidence"] == pytest.approx({row[0]: row[4] for row in ROWS}[value["attributes"]["item_id"]])
        # FiftyOne makes fields of these beside its own, among which are id and label.
        assert set(value["attributes"]) <= {"item_id", "status", "leans_to"}
    assert found == CATEGORIES
    assert labels["classes"][-1] == "unsure"


def test_fiftyone_names_differ_without_their_endings(tmp_path: Path) -> None:
    for name in ("one/a.png", "one/a.jpg", "two/a.png"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / name).write_bytes(image_bytes(len(name), form="PNG" if name.endswith("png") else "JPEG"))
    collection = read_source(tmp_path / "photos").collection
    ids = collection.ids.to_pylist()
    export_items(table([(item, 0, "one", "known", 0.5) for item in ids]), collection, "fiftyone", tmp_path / "set")
    labels = json.loads((tmp_path / "set" / "labels.json").read_text())["labels"]
    assert {value["attributes"]["item_id"] for value in labels.values()} == set(ids)
    assert {path.stem for path in (tmp_path / "set" / "data").iterdir()} == set(labels)


def test_coco(assigned: pa.Table, photos: Collection, tmp_path: Path) -> None:
    export_items(assigned, photos, "coco", tmp_path / "coco")
    content = json.loads((tmp_path / "coco" / "labels.json").read_text())
    assert set(content) == {"info", "licenses", "categories", "images", "annotations"}
    images = {image["id"]: image for image in content["images"]}
    categories = {category["id"]: category for category in content["categories"]}
    assert len(images) == len(content["annotations"]) == 5
    found = {}
    for annotation in content["annotations"]:
        image, category = images[annotation["image_id"]], categories[annotation["category_id"]]
        with Image.open(tmp_path / "coco" / "data" / image["file_name"]) as opened:
            assert opened.size == (image["width"], image["height"])
        assert annotation["bbox"] == [0, 0, image["width"], image["height"]]
        assert annotation["area"] == image["width"] * image["height"]
        assert annotation["segmentation"] == [[0, 0, image["width"], 0, image["width"], image["height"], 0, 10]]
        assert category["supercategory"] == annotation["attributes"]["status"]
        found[image["item_id"]] = category["name"]
    assert found == CATEGORIES


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_is_ever_overwritten(form: str, assigned: pa.Table, photos: Collection, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    out.write_text("mine")
    with pytest.raises(InputError, match="nothing is overwritten"):
        check_export(form, out)
    with pytest.raises(InputError, match="nothing is overwritten"):
        export_items(assigned, photos, form, out)
    assert out.read_text() == "mine"
    out.unlink()
    out.symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="nothing is overwritten"):
        export_items(assigned, photos, form, out)
    assert not list(tmp_path.glob(".*tmp"))


def test_what_is_refused(assigned: pa.Table, photos: Collection, npz, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(InputError, match="choose csv, parquet, folders"):
        check_export("yolo", out)
    with pytest.raises(InputError, match="known, novel, unsure or junk"):
        check_export("csv", out, ("maybe",))
    for form in ("folders", "label-studio"):
        with pytest.raises(InputError, match="--source"):
            export_items(assigned, None, form, out)
    with pytest.raises(InputError, match="not in the source"):
        export_items(assigned, read_source(npz()).collection, "fiftyone", out)
    (tmp_path / "out-interface.xml").write_text("mine")
    with pytest.raises(InputError, match="nothing is overwritten"):
        export_items(assigned, photos, "label-studio", out)
    assert not out.exists()
    assert not list(tmp_path.glob(".*tmp"))


def test_vectors_have_nothing_to_put_into_folders(npz, tmp_path: Path) -> None:
    own = table([(str(i), 0, "a", "known", 0.5) for i in range(40)])
    for form in ("folders", "fiftyone", "coco", "label-studio"):
        with pytest.raises(InputError, match="the source holds vectors"):
            export_items(own, read_source(npz(ids=np.arange(40).astype(str))).collection, form, tmp_path / "out")
        assert not (tmp_path / "out").exists()


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_text_becomes_a_file_name(text: str) -> None:
    name = safe_name(text)
    assert name
    assert name not in {".", ".."}
    assert not set(name) & set('/\\:*?"<>|\0\n')
    assert len(name.encode(errors="surrogatepass")) <= 210
    assert name == name.strip()
    assert not name.endswith(".")


@settings(deadline=None)
@given(st.lists(st.sampled_from(["a", "A", "a-2", "b", "ß", "ss"]), max_size=12))
def test_names_are_made_unique(names: list[str]) -> None:
    taken: dict[str, int] = {}
    made = [unique_name(name, taken).casefold() for name in names]
    assert len(set(made)) == len(made)


def test_files_that_are_broken_are_left_out(tmp_path: Path) -> None:
    blobs = pa.array([image_bytes(1), None, b"no image"], pa.binary())
    image = pa.StructArray.from_arrays([blobs], ["bytes"])
    pq.write_table(pa.table({"id": ["1", "2", "3"], "image": image}), tmp_path / "s.parquet")
    collection = read_source(tmp_path / "s.parquet").collection
    own = table([(i, 0, "a", "known", 0.5) for i in ("1", "2", "3")])
    result = export_items(own, collection, "coco", tmp_path / "out")
    assert result["n"] == 1
    assert any("2 items can't be read" in note and "'2'" in note for note in result["notes"])
    content = json.loads((tmp_path / "out" / "labels.json").read_text())
    assert [image["file_name"] for image in content["images"]] == ["1.png"]
    assert [path.name for path in (tmp_path / "out/data").iterdir()] == ["1.png"]
    assert Image.open(io.BytesIO((tmp_path / "out/data/1.png").read_bytes())).size == (12, 10)
