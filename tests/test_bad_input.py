"""Bad input: exit 2, one sentence that names the file and the cure, no traceback, and `--json` stays one object."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from conftest import image_bytes
from ltgcd.cli import app

Npz = Callable[..., Path]


def fails(*arguments: object) -> str:
    """Run a command that must refuse its input; give the sentence it says."""
    done = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert done.exit_code == 2, (done.output, done.exception)
    said = json.loads(done.stdout)  # one JSON object on stdout and nothing else
    assert list(said) == ["error"]
    sentence = said["error"]
    assert done.stderr.strip().splitlines()[-1] == f"Error: {sentence}"
    assert "Traceback" not in done.stderr
    assert sentence.endswith((".", "?")), sentence
    assert "\n" not in sentence
    return sentence


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
    done = CliRunner().invoke(app, ["train", str(source), "--k", "3", "--out", str(out), "--json"])
    assert done.exit_code == 0, done.output
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert "run holds another run" in fails("train", source, "--k", "4", "--out", out)
    assert "run holds another run" in fails("train", source, "--k", "3", "--seed", "1", "--out", out)
    assert "holds another split or run" in fails("split", npz("f.npz", y=np.arange(40) % 3), "--out", out)
    occupied = tmp_path / "occupied"
    occupied.mkdir()
    (occupied / "thesis.tex").write_text("precious")
    assert "not empty" in fails("train", source, "--k", "3", "--out", occupied)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    # The same run again is not an error: it is there already.
    again = CliRunner().invoke(app, ["train", str(source), "--k", "3", "--out", str(out), "--json"])
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
    assert CliRunner().invoke(app, ["train", str(npz()), "--k", "3", "--out", str(out)]).exit_code == 0
    whole = (out / "assignments.parquet").read_bytes()
    (out / "assignments.parquet").write_bytes(whole[:-30])
    assert "assignments.parquet can't be read" in fails("evaluate", out)
    (out / "assignments.parquet").unlink()
    assert "no assignments.parquet yet" in fails("evaluate", out)
    (out / "config.toml").write_text("[run")
    assert "config.toml is damaged" in fails("evaluate", out)
