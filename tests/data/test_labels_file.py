"""Labels that come back: what `ltgcd export` wrote and a person edited, and words that mean "no label"."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import image_bytes
from ltgcd.common.errors import InputError
from ltgcd.data.collection import Collection, Source
from ltgcd.data.items import Texts
from ltgcd.data.labels import NO_LABEL, names_of, without_no_label
from ltgcd.data.sources import read_source
from ltgcd.data.write_source import write_source
from ltgcd.output.export.formats import export_items

IDS = ["cat/a.png", "cat/b.png", "dog/c.jpg", "unlabelled/d.png", "unlabelled/deep/e.jpg"]


def rows(source: Source) -> dict[str, str | None]:
    collection = source.collection
    labels = names_of(collection.y, collection.class_names)
    return dict(zip(collection.ids.to_pylist(), labels.to_pylist(), strict=True))


def assigned(names: list[str], statuses: list[str]) -> pa.Table:
    codes = {name: code for code, name in enumerate(dict.fromkeys(names))}
    label = [codes[name] for name in names]
    confidence = [0.9] * len(names)
    return pa.table(
        {"id": IDS[: len(names)], "label": label, "name": names, "status": statuses, "confidence": confidence}
    )


NUMBERS = assigned(["0", "1", "=cat", "novel-001", "1"], ["known", "known", "known", "novel", "unsure"])
FOUND = dict(zip(IDS, ["0", "1", "=cat", "novel-001", None], strict=True))


# ---------------------------------------------------------------- round trips of exports


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_an_export_given_back_has_the_same_classes(image_folder: Path, tmp_path: Path, form: str) -> None:
    export_items(NUMBERS, None, form, tmp_path / f"out.{form}")
    assert rows(read_source(image_folder, tmp_path / f"out.{form}")) == FOUND


def test_an_export_that_a_spreadsheet_has_saved_again(image_folder: Path, tmp_path: Path) -> None:
    export_items(NUMBERS, None, "csv", tmp_path / "out.csv")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    edited = [lines[0], *sorted(line.replace('"1"', '"cat fish"') for line in lines[1:])]
    edited = [edited[0] + ",note", *(line + ",checked" for line in edited[1:])]
    (tmp_path / "out.csv").write_bytes(("\ufeff" + "\r\n".join(edited)).encode())
    expected = {item: "cat fish" if name == "1" else name for item, name in FOUND.items()}
    assert rows(read_source(image_folder, tmp_path / "out.csv")) == expected


def test_an_export_that_pandas_has_saved_again(image_folder: Path, tmp_path: Path) -> None:
    """Our metadata is gone, and what was empty is an empty text."""
    export_items(NUMBERS, None, "parquet", tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet").replace_schema_metadata(None)
    table = table.set_column(1, "label", pc.fill_null(table.column("label"), ""))
    pq.write_table(table, tmp_path / "out.parquet")
    assert rows(read_source(image_folder, tmp_path / "out.parquet")) == FOUND


def test_folders_given_back_are_the_same_classes(image_folder: Path, tmp_path: Path) -> None:
    items = read_source(image_folder).collection
    export_items(NUMBERS, items, "folders", tmp_path / "sorted")
    back = rows(read_source(tmp_path / "sorted"))
    assert sorted(str(name) for name in back.values()) == sorted(str(name) for name in FOUND.values())
    (tmp_path / "sorted" / "Junk").mkdir()
    (tmp_path / "sorted" / "Junk" / "blurred.png").write_bytes(image_bytes(5))
    assert rows(read_source(tmp_path / "sorted"))["Junk/blurred.png"] is None
    index = rows(read_source(tmp_path / "sorted" / "index.csv"))
    assert index == FOUND


def test_texts_given_back(tmp_path: Path) -> None:
    texts = Texts(pa.array([f"text {i}" for i in range(5)]))
    source = Source(Collection(pa.array(IDS), texts, np.array([0, -1, -1, -1, -1]), ("a",)), None)
    write_source(tmp_path / "t.parquet", source)
    export_items(NUMBERS, None, "csv", tmp_path / "out.csv")
    assert rows(read_source(tmp_path / "t.parquet", tmp_path / "out.csv")) == FOUND


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1, max_size=6), max_size=5).map(
        lambda names: [name for name in names if name.strip() and name.strip().casefold() not in NO_LABEL]
    )
)
@settings(max_examples=60, deadline=None)
def test_any_names_come_back_from_a_csv(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    if not names:
        return
    folder = tmp_path_factory.mktemp("any")
    lines = pa.table({"id": IDS[: len(names)], "text": ["some"] * len(names)})
    pacsv.write_csv(lines, folder / "t.csv")
    export_items(assigned(names, ["known"] * len(names)), None, "csv", folder / "out.csv")
    back = rows(read_source(folder / "t.csv", folder / "out.csv"))
    assert back == dict(zip(IDS, names, strict=False))


# ---------------------------------------------------------------- what labelling tools export


def test_labels_from_a_labelling_tool(image_folder: Path, tmp_path: Path) -> None:
    content = {
        "classes": ["cat", "0", "unsure", "NA"],
        "labels": {
            str(n): {"label": label, "attributes": {"item_id": item}}
            for n, (item, label) in enumerate(zip(IDS[:4], [0, 1, 2, 3], strict=True))
        }
        | {"nobody": {"label": 1}},
    }
    (tmp_path / "labels.json").write_text(json.dumps(content))
    said: list[str] = []
    source = read_source(image_folder, tmp_path / "labels.json", notify=said.append)
    assert rows(source) == dict(zip(IDS, ["cat", "0", None, None, None], strict=True))
    assert len(said) == 2
    assert "labels.json: 1 entries don't say which item" in said[0]
    assert "1 'NA' were read as unlabelled" in said[1]


# ---------------------------------------------------------------- words that mean nothing


def test_words_that_mean_no_label_are_read_so_and_said_once(tmp_path: Path) -> None:
    labels = ["7", "NA", " n/a", "null", "None", "nan", "Unlabelled", "UNSURE", "unsorted", "?", "-", "NA", "8", ""]
    lines = [f"{n},text {n},{label}" for n, label in enumerate(labels)]
    (tmp_path / "t.csv").write_text("\n".join(["id,text,label", *lines]))
    said: list[str] = []
    source = read_source(tmp_path / "t.csv", notify=said.append)
    assert source.collection.class_names == ("7", "8")  # and no "mixes label types"
    assert source.collection.labelled.sum() == 2
    (sentence,) = said
    assert "t.csv, column 'label': 2 'NA' and 1 ' n/a' and" in sentence
    assert "needs a longer one, for example 'class NA'" in sentence
    with pytest.warns(UserWarning, match="were read as unlabelled"):
        read_source(tmp_path / "t.csv")
    pq.write_table(pa.table({"text": ["a", "b"], "label": ["NA", "x"]}), tmp_path / "t.parquet")
    with pytest.warns(UserWarning, match="1 'NA' were read as unlabelled"):
        assert read_source(tmp_path / "t.parquet").collection.class_names == ("x",)


def test_in_a_labels_file_and_as_folders(image_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("id,label\ncat/a.png,1\ndog/c.jpg,none\n")
    said: list[str] = []
    assert read_source(image_folder, tmp_path / "labels.csv", notify=said.append).collection.class_names == ("1",)
    assert "1 'none' were read as unlabelled" in said[0]
    for name in ("Unsure", "junk", "unsorted"):
        (image_folder / name).mkdir()
        (image_folder / name / "x.png").write_bytes(image_bytes(7))
    said.clear()
    assert read_source(image_folder, notify=said.append).collection.class_names == ("cat", "dog")
    assert said == [
        f"{image_folder}, sub-folders: 1 'unsorted' were read as unlabelled; a class of that name needs a longer one, "
        "for example 'class unsorted'."
    ]


def test_a_class_that_we_were_told_of_may_be_called_so(tmp_path: Path) -> None:
    y, names = np.array([0, 1, -1]), ("NA", "unknown")
    source = Source(Collection(pa.array(["a", "b", "c"]), Texts(pa.array(["x", "y", "z"])), y, names), None)
    write_source(tmp_path / "t.parquet", source)
    assert rows(read_source(tmp_path / "t.parquet")) == {"a": "NA", "b": "unknown", "c": None}
    info = {"info": {"features": {"label": {"names": ["none", "3"], "_type": "ClassLabel"}}}}
    table = pa.table({"text": ["x", "y", "z"], "label": [0, 1, -1]})
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(info)}), tmp_path / "hf.parquet")
    with pytest.warns(UserWarning, match="'none' is taken for a class"):
        assert read_source(tmp_path / "hf.parquet").collection.class_names == ("3", "none")


@pytest.mark.parametrize("words", [("ant", "unknown"), ("unsure", "junk"), ("N.A.", "ant"), ("ant", "--")])
def test_in_the_names_of_an_archive(words: tuple[str, str], tmp_path: Path) -> None:
    """A list of names is most often what a column of labels held, "unknown" and all."""
    path, y = tmp_path / "a.npz", np.array([0, 1, 1, -1, 0])
    np.savez(path, x=np.eye(5, 3, dtype=np.float32), y=y, y_true=np.abs(y), class_names=np.array(words), n_old=2)
    said: list[str] = []
    collection, truth = read_source(path, notify=said.append)
    assert collection.class_names == (("ant",) if "ant" in words else ())
    assert truth is not None and truth.class_names == collection.class_names
    assert collection.labelled.sum() == sum(int((y == code).sum()) for code in (0, 1) if words[code] == "ant")
    assert any("were read as unlabelled" in sentence for sentence in said)
    # What we wrote ourselves lists classes.
    ours = Source(Collection(collection.ids, collection.items, y, words), None)
    write_source(tmp_path / "ours.npz", ours)
    assert set(read_source(tmp_path / "ours.npz").collection.class_names) == set(words)


@pytest.mark.parametrize("word", ["n.a.", "missing", "nil", "TBD", "--", "unassigned", "#N/A", "—", "??"])
def test_what_people_write_where_there_is_no_label(word: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"id,text,label\na,x,ant\nb,y,{word}\n", encoding="utf-8")
    with pytest.warns(UserWarning, match="were read as unlabelled"):
        assert read_source(tmp_path / "t.csv").collection.class_names == ("ant",)


def test_the_words_are_counted_as_they_are_written() -> None:
    names = pa.array(["NA", "na", None, "", "cat", "NA", "Junk"])
    left, counts = without_no_label(names, classes=["Junk"])
    assert left.to_pylist() == [None, None, None, None, "cat", None, "Junk"]
    assert counts == {"NA": 2, "na": 1}


# ---------------------------------------------------------------- what can't be read


@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet", "labels.json"])
def test_a_pipe_is_no_file_of_labels(image_folder: Path, tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="is a pipe, a socket or a device"):
        read_source(image_folder, tmp_path / name)
