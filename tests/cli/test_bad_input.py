"""Bad input: exit 2, one sentence that names the file and the cure, no traceback, and `--json` stays one object."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from conftest import LATIN1, WIDE, Npz, fails, image_bytes, run_cli
from ltgcd.cli import app


def test_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    sentence = fails("inspect", tmp_path / "empty")
    assert "empty holds no images" in sentence


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    assert "nowhere is not there" in fails("inspect", tmp_path / "nowhere")


def test_a_source_of_unknown_kind(tmp_path: Path) -> None:
    (tmp_path / "notes.docx").write_text("x")
    assert "notes.docx is of an unknown kind" in fails("inspect", tmp_path / "notes.docx")


@pytest.mark.parametrize("command", ["inspect", "estimate-k", "train"])
def test_the_sentence_names_the_source(npz: Npz, tmp_path: Path, command: str) -> None:
    out = ["--out", tmp_path / "run"] if command == "train" else []
    assert "No item is labelled in" in (sentence := fails(command, npz(y=np.full(40, -1)), *out))
    assert "source.npz" in sentence
    assert "source.npz, so there is nothing" in fails(command, npz(y=np.arange(40) % 3), *out)


@pytest.mark.parametrize("command", ["inspect", "estimate-k", "train"])
def test_no_labels_at_all(npz: Npz, tmp_path: Path, command: str) -> None:
    out = ["--out", tmp_path / "run"] if command == "train" else []
    assert "No item is labelled" in fails(command, npz(y=np.full(40, -1)), *out)
    assert "No item is labelled" in fails(command, npz(y=None, y_true=None), *out)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["inspect", "estimate-k", "train"])
def test_every_item_labelled(npz: Npz, tmp_path: Path, command: str) -> None:
    out = ["--out", tmp_path / "run"] if command == "train" else []
    assert "Every item is labelled" in fails(command, npz(y=np.arange(40) % 3), *out)
    assert not (tmp_path / "run").exists()


def test_a_label_for_an_id_that_is_not_there(image_folder: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("id,label\ncat/a.png,cat\nghost.png,cat\n")
    sentence = fails("inspect", image_folder, "--labels", labels)
    assert "labels.csv labels 1 ids that are not in the source (for example 'ghost.png')" in sentence


def test_labels_file_without_the_columns(image_folder: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("name,class\ncat/a.png,cat\n")
    assert "needs the columns 'id' and 'label'" in fails("inspect", image_folder, "--labels", labels)


def test_duplicate_ids(npz: Npz, tmp_path: Path, image_folder: Path) -> None:
    ids = np.array([f"v{i}" for i in range(40)])
    ids[7] = "v3"
    sentence = fails("inspect", npz(ids=ids))
    assert "source.npz has duplicate ids" in sentence
    assert "'v3'" in sentence
    manifest = tmp_path / "m.csv"
    manifest.write_text("id,text,label\na,one,x\na,two,\n")
    assert "m.csv has duplicate ids" in fails("inspect", manifest)
    labels = tmp_path / "labels.csv"
    labels.write_text("id,label\ncat/a.png,cat\ncat/a.png,dog\n")
    assert "labels.csv has duplicate ids" in fails("inspect", image_folder, "--labels", labels)


def test_mixed_label_types(tmp_path: Path, npz: Npz) -> None:
    manifest = tmp_path / "m.csv"
    manifest.write_text("text,label\none,3\ntwo,cat\nthree,\n")
    sentence = fails("inspect", manifest)
    assert "m.csv mixes label types: '3' is a number and 'cat' is a name" in sentence
    assert "y of type <U" in fails("inspect", npz(y=np.array(["0", "cat"] * 20)))
    assert "not whole numbers" in fails("inspect", npz(y=np.linspace(0, 1, 40)))
    assert "hold Python objects" in fails("inspect", npz(y=np.array([0, "cat"] * 20, dtype=object)))


@pytest.mark.parametrize("damage", ["truncated", "text", "empty"])
@pytest.mark.parametrize("name", ["unlabelled/d.png", "unlabelled/deep/e.jpg"])
def test_unreadable_image(image_folder: Path, damage: str, name: str) -> None:
    path = image_folder / name
    whole = path.read_bytes()
    path.write_bytes({"truncated": whole[: len(whole) // 2], "text": b"hello", "empty": b""}[damage])
    sentence = fails("inspect", image_folder)
    assert "1 of 5 images" in sentence
    assert name in sentence


def test_a_manifest_of_images_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("path,label\na.png,cat\nb.png,\n")
    assert "names 2 files that are not there (for example 'a.png')" in fails("inspect", tmp_path / "m.csv")


def test_truncated_parquet(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"text": ["a", "b"], "label": ["x", None]}), path)
    path.write_bytes(path.read_bytes()[:-20])
    assert "t.parquet can't be read as parquet" in fails("inspect", path)


def test_parquet_damaged_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    image = pa.array([{"bytes": image_bytes(i), "path": f"{i}.png"} for i in range(4)])
    pq.write_table(pa.table({"image": image, "label": ["x", None, "x", None]}), path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[20:400] = bytes(380)
    path.write_bytes(bytes(content))
    assert "t.parquet" in fails("inspect", path)


def test_truncated_npz(npz: Npz) -> None:
    path = npz()
    path.write_bytes(path.read_bytes()[:-50])
    assert "source.npz can't be read as an .npz" in fails("inspect", path)
    path.write_bytes(b"")
    assert "source.npz can't be read as an .npz" in fails("inspect", path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_or_inf_in_embeddings(npz: Npz, value: float) -> None:
    x = np.ones((40, 5), np.float32)
    x[7, 2] = value
    sentence = fails("train", npz(x=x), "--out", "unused")
    assert "source.npz" in sentence
    assert "NaN or infinite values (first in row 7)" in sentence
    assert not Path("unused").exists()


def test_unequal_lengths(npz: Npz) -> None:
    sentence = fails("inspect", npz(y=np.zeros(39, int), y_true=None))
    assert "source.npz has 40 rows in x but y of shape (39,)" in sentence


def test_x_of_the_wrong_shape(npz: Npz) -> None:
    assert "N×D floats" in fails("inspect", npz(x=np.zeros(40, np.float32)))
    assert "no array 'x'" in fails("inspect", npz(x=None))


def test_a_label_below_minus_one(npz: Npz) -> None:
    assert "has the label -3" in fails("inspect", npz(y=np.full(40, -3)))


def test_lambda_below_one(npz: Npz, tmp_path: Path) -> None:
    path = npz(y=np.repeat([0, 1, 2], [20, 12, 8]), y_true=None)
    sentence = fails("split", path, "--preset", "bacon", "--lambda", "0.5", "--out", tmp_path / "out")
    assert "λ must be at least 1 (1 = balanced), not 0.5" in sentence


def test_more_old_classes_than_classes(npz: Npz, tmp_path: Path) -> None:
    path = npz(y=np.repeat([0, 1, 2], [20, 12, 8]), y_true=None)
    assert "4 old classes were asked for, but there are 3" in fails(
        "split", path, "--old", "4", "--out", tmp_path / "o"
    )


def test_unknown_names(npz: Npz, tmp_path: Path) -> None:
    assert "no preset 'papercounts'" in fails("split", npz(), "--preset", "papercounts", "--out", tmp_path / "o")
    assert "cifar100" in fails("split", "cifar99", "--out", tmp_path / "o")
    assert "no method 'magic'" in fails("train", npz(), "--method", "magic", "--out", tmp_path / "o")
    assert "no estimator 'magic'" in fails("estimate-k", npz(), "--method", "magic")
    assert "--k takes 'auto' or a whole number" in fails("train", npz(), "--k", "ten", "--out", tmp_path / "o")
    assert "K = 1 is impossible" in fails("train", npz(), "--k", "1", "--out", tmp_path / "o")


def test_a_dataset_that_is_not_on_this_machine(tmp_path: Path) -> None:
    sentence = fails("split", "herbarium19", "--data", tmp_path, "--out", tmp_path / "o")
    assert "erbarium" in sentence


def test_an_output_folder_that_holds_another_run(npz: Npz, tmp_path: Path) -> None:
    source, out = npz(), tmp_path / "run"
    done = CliRunner(env=WIDE).invoke(app, ["train", str(source), "--k", "3", "--out", str(out), "--json"])
    assert done.exit_code == 0, done.output
    before = {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert "run holds another run" in fails("train", source, "--k", "4", "--out", out)
    assert "run holds another run" in fails("train", source, "--k", "3", "--seed", "1", "--out", out)
    assert "holds another split or run" in fails("split", npz("f.npz", y=np.arange(40) % 3), "--out", out)
    occupied = tmp_path / "occupied"
    occupied.mkdir()
    (occupied / "thesis.tex").write_text("precious")
    assert "not empty" in fails("train", source, "--k", "3", "--out", occupied)
    assert {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    # The same run again is not an error: it is there already.
    again = CliRunner(env=WIDE).invoke(app, ["train", str(source), "--k", "3", "--out", str(out), "--json"])
    assert again.exit_code == 0


def test_images_need_features_first(image_folder: Path, tmp_path: Path) -> None:
    assert "ltgcd embed" in fails("train", image_folder, "--out", tmp_path / "run")


def test_evaluate_refuses_what_it_cannot_score(npz: Npz, tmp_path: Path) -> None:
    assert "is not there" in fails("evaluate", tmp_path / "nothing")
    (tmp_path / "folder").mkdir()
    assert "not a run directory" in fails("evaluate", tmp_path / "folder")
    predictions = tmp_path / "p.csv"
    predictions.write_text("id,cluster\n0,1\n")
    assert "no column 'label'" in fails("evaluate", predictions)
    predictions.write_text("id,label\n0,1\n")
    assert "no column 'y_true'" in fails("evaluate", predictions)
    assert "have no prediction" in fails("evaluate", predictions, "--truth", npz())
    predictions.write_text("id,label,y_true\n0,1,0\n")
    assert "does not tell which classes are old" in fails("evaluate", predictions)
    assert "tells no true classes" in fails("evaluate", predictions, "--truth", npz(y_true=None))


def test_a_damaged_run(npz: Npz, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert CliRunner(env=WIDE).invoke(app, ["train", str(npz()), "--k", "3", "--out", str(out)]).exit_code == 0
    whole = (out / "assignments.parquet").read_bytes()
    (out / "assignments.parquet").write_bytes(whole[:-30])
    assert "assignments.parquet can't be read" in fails("evaluate", out)
    (out / "assignments.parquet").unlink()
    assert "assignments.parquet is missing; restore it" in fails("evaluate", out)
    (out / "config.toml").write_text("[run")
    assert "config.toml is damaged" in fails("evaluate", out)


# ---------------------------------------------------------------- tables


def test_a_column_name_that_occurs_twice(image_folder: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "m.csv"
    manifest.write_text("text,label,label\none,x,y\ntwo,,\n")
    assert "m.csv has more than one column called 'label'" in fails("inspect", manifest)
    labels = tmp_path / "labels.csv"
    labels.write_text("id,id,label\ncat/a.png,1,cat\n")
    assert "more than one column called 'id'" in fails("inspect", image_folder, "--labels", labels)
    predictions = tmp_path / "p.csv"
    predictions.write_text("label,y_true,y_true\n1,2,3\n")
    assert "more than one column called 'y_true'" in fails("evaluate", predictions, "--n-old", 1)
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"]), pa.array(["x"])], ["text", "text", "label"])
    pq.write_table(table, tmp_path / "t.parquet")
    assert "t.parquet has more than one column called 'text'" in fails("inspect", tmp_path / "t.parquet")


def test_a_csv_with_other_separators(tmp_path: Path) -> None:
    """Semicolons and tabs are understood; of anything else the columns are named, so that one sees what happened."""
    (tmp_path / "m.csv").write_text("text|label\na|x\n")
    assert "separate columns by commas" in fails("inspect", tmp_path / "m.csv")


def test_a_quote_that_is_never_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ltgcd.data.labels.CELL_BYTES", 1 << 16)
    (tmp_path / "m.csv").write_text('text,label\n"open,x\n' + "more,\n" * 100_000)
    assert "m.csv has a row of more than" in fails("inspect", tmp_path / "m.csv")


def test_names_that_are_too_long_for_the_system(tmp_path: Path) -> None:
    assert "is not there" in fails("inspect", "x" * 5000)
    (tmp_path / "m.csv").write_text(f"path,label\n{'x' * 5000},cat\nb.png,\n")
    assert "names 2 files that are not there" in fails("inspect", tmp_path / "m.csv")
    (tmp_path / "m.csv").write_text(f"path,label\nrows.parquet#{'9' * 30},cat\n")
    assert "names 1 files that are not there" in fails("inspect", tmp_path / "m.csv")


@pytest.mark.parametrize("values", [pa.array([["a"], ["b"]]), pa.array([b"\xff", b"b"]), LATIN1])
@pytest.mark.parametrize("column", ["text", "path", "id", "label"])
def test_columns_that_are_no_text(tmp_path: Path, column: str, values: pa.Array) -> None:
    columns = {"text": ["a", "b"], "label": ["x", None], column: values}
    if column == "path":
        del columns["text"]
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    sentence = fails("inspect", tmp_path / "t.parquet")
    assert "t.parquet has" in sentence
    assert column in sentence


@pytest.mark.parametrize("value", [float("inf"), 1e300, 2.0**60, 0.5])
def test_floats_that_are_no_class_ids(tmp_path: Path, npz: Npz, value: float) -> None:
    pq.write_table(pa.table({"text": ["a", "b"], "label": [value, None]}), tmp_path / "t.parquet")
    assert "t.parquet has labels that are not whole numbers" in fails("inspect", tmp_path / "t.parquet")
    assert "not whole numbers" in fails("inspect", npz(y=np.where(np.arange(40) < 9, value, -1)))


def test_parquet_damaged_where_the_names_are(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    image = pa.array([{"bytes": image_bytes(i), "path": f"{i}" * 50} for i in range(200)])
    pq.write_table(pa.table({"image": image, "label": ["x", None] * 100}), path, use_dictionary=False)
    offset = pq.ParquetFile(path).metadata.row_group(0).column(1).data_page_offset
    content = bytearray(path.read_bytes())
    content[offset + 10 : offset + 60] = b"\xff" * 50
    path.write_bytes(bytes(content))
    assert "t.parquet is damaged" in fails("inspect", path)


# ---------------------------------------------------------------- archives of arrays


def test_archives_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with path.open("wb") as file:
        np.save(file, np.ones((3, 2)))
    assert "a.npz can't be read as an .npz" in fails("inspect", path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", "hello")
    assert "a.npz can't be read as an .npz" in fails("inspect", path)
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (100000000000, 100), }".ljust(117) + "\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00v\x00" + header.encode())
    assert "a.npz does not fit into memory" in fails("inspect", path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x": np.ones((40, 0), np.float32)}, "shape (40, 0)"),
        ({"x": np.array(1.0)}, "shape ()"),
        ({"x": np.full((40, 5), 1e200)}, "too large for single precision (first in row 0)"),
        ({"x": np.full((40, 5), 1e30, np.float32)}, "too large for single precision"),
        ({"x": np.full((40, 5), 2e18, np.float32)}, "too large for single precision"),  # their squares, added up
        ({"x": np.ones((0, 5)), "y": np.ones(0), "y_true": None}, "has no rows"),
        ({"class_names": np.array("cat")}, "class_names as a list"),
        ({"class_names": np.array(["cat", "cat", "dog"])}, "class_names as a list"),
        ({"class_names": np.array(["2", "dog"])}, "a class 2 without a name"),
        ({"n_old": np.array([1, 2])}, "has n_old = [1 2]"),
        ({"n_old": np.array("two")}, "has n_old = two"),
        ({"n_old": np.array(10**12)}, "has n_old = 1000000000000"),
    ],
)
def test_arrays_that_make_no_sense(npz: Npz, changes: dict[str, Any], words: str) -> None:
    sentence = fails("inspect", npz(**changes))
    assert "source.npz" in sentence
    assert words in sentence


# ---------------------------------------------------------------- folders


def test_a_file_name_that_is_not_utf8(image_folder: Path) -> None:
    with open(os.fsencode(image_folder) + b"/cat/caf\xe9.png", "wb") as file:  # noqa: PTH123
        file.write(image_bytes(1))
    assert "not UTF-8 ('cat/caf\\udce9.png'); rename it" in fails("inspect", image_folder)


def test_a_folder_that_may_not_be_listed(image_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a stand-in: the tests may run as root, who may list everything."""
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("dog"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert "dog can't be listed (Permission denied)" in fails("inspect", image_folder)


@pytest.mark.parametrize("command", ["train", "embed", "split", "demo"])
def test_an_output_that_can_be_no_folder(npz: Npz, tmp_path: Path, command: str) -> None:
    (tmp_path / "file").write_text("precious")
    source = [npz(y=np.arange(40) % 3, y_true=None) if command == "split" else npz()] if command != "demo" else []
    assert "file is a file; give a folder with --out" in fails(command, *source, "--out", tmp_path / "file")
    sentence = fails(command, *source, "--out", tmp_path / "file" / "below")
    assert "below can't be read or written (Not a directory)" in sentence
    assert (tmp_path / "file").read_text() == "precious"


def test_a_split_is_never_overwritten_by_a_run(npz: Npz, tmp_path: Path) -> None:
    manifest = tmp_path / "m.csv"
    manifest.write_text("text,label\n" + "".join(f"text {i},{'ab'[i % 2]}\n" for i in range(8)))
    done = CliRunner(env=WIDE).invoke(app, ["split", str(manifest), "--out", str(tmp_path / "s"), "--json"])
    assert done.exit_code == 0, done.output
    before = (tmp_path / "s" / "split.parquet").read_bytes()
    assert "s is not empty" in fails("train", npz(), "--k", "3", "--out", tmp_path / "s")
    assert (tmp_path / "s" / "split.parquet").read_bytes() == before


def test_other_features_under_the_same_labels_are_another_run(npz: Npz, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert CliRunner(env=WIDE).invoke(app, ["train", str(npz()), "--k", "3", "--out", str(out)]).exit_code == 0
    x = np.random.RandomState(5).randn(40, 5).astype(np.float32)
    assert "run holds another run" in fails("train", npz(x=x), "--k", "3", "--out", out)
    true = np.random.RandomState(5).permutation(np.repeat([0, 1, 2], [20, 12, 8]))
    assert "run holds another run" in fails("train", npz(y_true=true), "--k", "3", "--out", out)


def test_a_run_that_another_tool_has_touched(npz: Npz, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert CliRunner(env=WIDE).invoke(app, ["train", str(npz()), "--k", "3", "--out", str(out)]).exit_code == 0
    path, split = out / "assignments.parquet", out / "split.parquet"
    table, labels = pq.read_table(path), pq.read_table(split)
    place = table.column_names.index("label")
    for wrong in (table.column("name"), pa.nulls(40, pa.int64()), pa.array(np.full(40, -1))):
        pq.write_table(table.set_column(place, "label", wrong), path)
        assert "assignments.parquet has labels that are not class ids" in fails("evaluate", out)
    pq.write_table(table.replace_schema_metadata(None), path)  # as pandas leaves it: fine
    assert CliRunner(env=WIDE).invoke(app, ["evaluate", str(out)]).exit_code == 0
    pq.write_table(labels.drop(["id"]), split)
    assert "split.parquet lacks the column" in fails("evaluate", out)


# ---------------------------------------------------------------- options


def test_numbers_that_make_no_sense(npz: Npz, tmp_path: Path) -> None:
    full = npz("full.npz", y=np.repeat([0, 1, 2], [20, 12, 8]), y_true=None)
    for value in ("nan", "inf"):
        assert "λ must be at least 1" in fails("split", full, "--lambda", value, "--out", tmp_path / "o")
    assert "--k takes 'auto'" in fails("train", npz(), "--k", "²", "--out", tmp_path / "o")
    predictions = tmp_path / "p.csv"
    predictions.write_text("label,y_true\n1,0\n")
    assert "old classes is -1" in fails("evaluate", predictions, "--n-old", "-1")
    predictions.write_text("label,y_true\n1,²\n")
    assert "not integers" in fails("evaluate", predictions, "--n-old", "1")
    predictions.write_text("label,y_true,y\n1,0,0\n")
    assert "p.csv: There is no unlabelled item" in fails("evaluate", predictions)


@pytest.mark.parametrize(
    ("options", "words", "corrected"),
    [
        (["schedule.choose=held-out"], "held_out=0.1", ["schedule.choose=held-out", "held_out=0.3"]),
        (["schedule.batch_size=63"], "multiple of 2", ["schedule.batch_size=64"]),
        (["warmup=nan"], "'warmup' of the method", ["warmup=0.5"]),
        (["supervised_weight=-3"], "'supervised_weight' of SimGCD", ["supervised_weight=0.3"]),
        (["start=communities"], "'start' is random", ["n_init=3"]),
    ],
)
def test_settings_that_are_refused_leave_nothing_behind(
    npz: Npz, tmp_path: Path, options: list[str], words: str, corrected: list[str]
) -> None:
    out = tmp_path / "run"
    method = "gcd" if "start=communities" in options else "ltgcd"
    command = ["train", npz(), "--method", method, "--epochs", "1", "--out", out]
    assert words in fails(*command, *(f"--set={option}" for option in options))
    assert not out.exists()
    done = CliRunner(env=WIDE).invoke(app, [*map(str, command), *(f"--set={option}" for option in corrected)])
    assert done.exit_code == 0, (done.output, done.exception)
    assert (out / "assignments.parquet").is_file()


def test_a_backbone_for_something_else(npz: Npz, tmp_path: Path) -> None:
    sentence = fails("embed", npz(), "--backbone", "efficientnet_lite0", "--out", tmp_path / "f")
    assert "The source holds vectors, but efficientnet_lite0 takes images" in sentence


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["embed", "x.npz"], "--out"),
        (["train", "x.npz", "--out", "r", "--seed", "-1"], "--seed"),
        (["split", "x.npz", "--out", "r", "--seed", 2**32], "--seed"),
        (["inspect", "x.npz", "--nope"], "--nope"),
    ],
)
def test_wrong_options_are_one_object_too(arguments: list[object], words: str) -> None:
    done = run_cli(*arguments, "--json")
    assert done.code == 2
    assert words in done.json["error"]
    assert "Traceback" not in done.err


def test_names_that_are_not_utf8_can_be_printed() -> None:
    done = run_cli("inspect", os.fsdecode(b"caf\xe9"), "--json")
    assert done.code == 2, done.err
    assert "is not there" in done.json["error"]
    assert run_cli("inspect", "café", "--json", PYTHONIOENCODING="ascii").json["error"].startswith("café is not there")


# ---------------------------------------------------------------- what is no file, no text or no column


@pytest.mark.parametrize("name", ["pipe.csv", "pipe.parquet", "pipe.npz", "pipe"])
def test_a_pipe_is_refused_and_never_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    assert f"{name} is a pipe, a socket or a device" in fails("inspect", tmp_path / name)
    assert "is a pipe, a socket or a device" in fails("inspect", "/dev/null")


def test_a_pipe_that_a_manifest_points_at(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    (tmp_path / "m.csv").write_text("path,label\na.png,cat\n")
    assert "names 1 files that are not there (for example 'a.png')" in fails("inspect", tmp_path / "m.csv")


def test_names_that_are_no_unicode(npz: Npz, tmp_path: Path) -> None:
    ids = np.array([f"v{i}" for i in range(40)])
    ids[7] = "\udce9"
    assert "source.npz has an id that is not UTF-8 ('\\udce9'); correct it." in fails("inspect", npz(ids=ids))
    names = np.array(["cat", "d\ud800g", "x"])
    assert "source.npz has a class name that is not UTF-8" in fails("inspect", npz(class_names=names))
    info = '{"info": {"features": {"label": {"names": ["cat", "\\ud800"], "_type": "ClassLabel"}}}}'
    table = pa.table({"text": ["a", "b"], "label": [0, -1]}).replace_schema_metadata({"huggingface": info})
    pq.write_table(table, tmp_path / "t.parquet")
    assert "t.parquet has a class name that is not UTF-8" in fails("inspect", tmp_path / "t.parquet")


def test_a_hugging_face_file_without_the_column_of_its_labels(tmp_path: Path) -> None:
    info = '{"info": {"features": {"kind": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}'
    table = pa.table({"text": ["a", "b"]}).replace_schema_metadata({"huggingface": info})
    pq.write_table(table, tmp_path / "t.parquet")
    assert "No item is labelled in" in fails("inspect", tmp_path / "t.parquet")


@pytest.mark.parametrize("label", [2**63 - 1, 2**64 - 1])
def test_numbers_of_classes_that_are_too_large(tmp_path: Path, label: int) -> None:
    info = '{"info": {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}'
    table = pa.table({"text": ["a", "b"], "label": pa.array([label, 0], pa.uint64())})
    pq.write_table(table.replace_schema_metadata({"huggingface": info}), tmp_path / "t.parquet")
    assert f"t.parquet has the label {label}, but only 2 class names" in fails("inspect", tmp_path / "t.parquet")
