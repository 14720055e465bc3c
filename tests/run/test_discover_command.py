"""`ltgcd discover`: one command from a collection to labels and a page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from conftest import Npz, call_cli, data_of
from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata
from ltgcd.data.collection import Source
from ltgcd.data.digits import digits_source
from ltgcd.data.sources import read_source
from ltgcd.run.discover import Embedding, discover_source

KEYS = {"k", "low", "high", "known", "novel", "unsure", "report", "run"}


def blobs(n: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Six classes that overlap, four of them partly labelled."""
    random = np.random.RandomState(seed)
    true = random.randint(6, size=n)
    x = np.eye(6, 16)[true] * 3 + random.randn(n, 16) * noise
    return x.astype(np.float32), np.where((true < 4) & (random.rand(n) < 0.6), true, -1), true


def test_vectors_through_the_command(tmp_path: Path) -> None:
    x, y, true = blobs(900, 1.1)
    np.savez(tmp_path / "blobs.npz", x=x, y=y, y_true=true)
    done = call_cli("discover", tmp_path / "blobs.npz", "--out", tmp_path / "run", "--json")
    assert done.code == 0, done.err
    result = done.json
    assert set(result) >= KEYS
    assert result["low"] <= result["k"] <= result["high"]
    assert result["known"] + result["novel"] + result["unsure"] == 900
    assert Path(result["report"]).is_file()
    table = pq.read_table(tmp_path / "run" / "assignments.parquet")
    assert read_metadata(table.schema)["calibration_error"] == result["calibration_error"]
    assert 0 <= result["calibration_error"] < 0.2
    status, labels = table.column("status").to_numpy(zero_copy_only=False), table.column("label").to_numpy()
    confidence = table.column("confidence").to_numpy()
    assert (status[y >= 0] == "known").all(), "a labelled item is never unsure"
    assert np.array_equal(labels[y >= 0], y[y >= 0])
    free = y < 0
    assert ((confidence < 0.5) == (status == "unsure"))[free].all()
    # Unsure items of known classes are wrong more often than the others: at least twice as often.
    old = free & (true < 4)
    wrong = labels != true
    assert (status[old] == "unsure").sum() >= 5
    assert wrong[old & (status == "unsure")].mean() > 2 * wrong[old & (status != "unsure")].mean()
    # The same command again computes nothing and says the same.
    again = call_cli("discover", tmp_path / "blobs.npz", "--out", tmp_path / "run", "--json")
    assert {k: v for k, v in again.json.items() if k != "seconds"} == {
        k: v for k, v in result.items() if k != "seconds"
    }


def test_new_items_get_calibrated_labels_too(tmp_path: Path) -> None:
    x, y, _ = blobs(900, 1.1)
    np.savez(tmp_path / "blobs.npz", x=x, y=y)
    discover_source(read_source(tmp_path / "blobs.npz"), tmp_path / "run", k=6)
    new, _, _ = blobs(200, 1.5, seed=1)
    np.savez(tmp_path / "new.npz", x=new, y=np.full(200, -1))
    done = call_cli("predict", tmp_path / "run", tmp_path / "new.npz", "--json")
    assert done.code == 0, done.err
    assert done.json["n"] == 200
    assert done.json["unsure"] > 0
    assert done.json["known"] + done.json["novel"] + done.json["unsure"] == 200


def test_pictures_with_a_broken_one(tmp_path: Path) -> None:
    random = np.random.RandomState(0)
    shades = random.randint(0, 256, (3, 3))
    for number in range(36):
        name = ("red", "blue", "unlabelled")[number % 3] if number < 18 else "unlabelled"
        pixels = np.clip(shades[number % 3] + random.normal(0, 50, (24, 24, 3)), 0, 255).astype(np.uint8)
        path = tmp_path / "photos" / name / f"{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    (tmp_path / "photos" / "unlabelled" / "broken.png").write_bytes(b"no picture")
    arguments = ("discover", tmp_path / "photos", "--out", tmp_path / "run", "--image-size", "32", "--json")
    done = call_cli(*arguments)
    assert done.code == 0, done.err
    assert done.json["skipped"] == 1
    assert done.json["known"] + done.json["novel"] + done.json["unsure"] == 36
    assert "broken.png" in (tmp_path / "run" / "features" / "skipped.csv").read_text()
    assert data_of(Path(done.json["report"]).read_text())["pictures"]
    again = call_cli(*arguments[:-1])  # finished: the same answer, in words
    assert again.code == 0, again.err
    assert again.err.startswith("· 37 images, 12 labelled in 2 classes"), "what was understood comes first"
    status = pq.read_table(tmp_path / "run" / "assignments.parquet").column("status").to_pylist()
    n, labelled = {name: status.count(name) for name in ("known", "novel", "unsure")}, done.json["n_labelled"]
    assert labelled == 12
    told = f"Of the 24 items without a label {n['known'] - labelled} are in your classes and {n['novel']} in "
    assert told in again.out and f"; {n['unsure']} are unsure" in again.out
    assert ("The largest of what looks new is novel-001" in again.out) == bool(done.json["categories"])


def test_other_data_in_the_same_folder_is_refused_and_nothing_is_lost(npz: Npz, tmp_path: Path) -> None:
    source = npz()
    done = call_cli("discover", source, "--k", "3", "--out", tmp_path / "run", "--json")
    assert done.code == 0, done.err
    before = (tmp_path / "run" / "assignments.parquet").read_bytes()
    other = call_cli("discover", source, "--k", "4", "--out", tmp_path / "run", "--json")
    assert other.code == 2
    assert "another run" in json.loads(other.out)["error"]
    assert (tmp_path / "run" / "assignments.parquet").read_bytes() == before


def test_embeddings_have_no_views(tmp_path: Path) -> None:
    source: Source = digits_source()
    with pytest.raises(InputError, match="taken as they are"):
        discover_source(source, tmp_path / "run", embedding=Embedding(views=4))


def photos(folder: Path, first: int) -> Path:
    """Eighteen pictures of three shades, two of them partly labelled, named from a number on."""
    random = np.random.RandomState(first)
    for number in range(18):
        shade = ((200, 60, 60), (60, 200, 60), (60, 60, 200))[number % 3]
        name = ("red", "green", "unlabelled")[number % 3] if number < 9 else "unlabelled"
        pixels = np.clip(np.array(shade) + random.normal(0, 40, (24, 24, 3)), 0, 255).astype(np.uint8)
        path = folder / name / f"{first + number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    return folder


def test_another_source_is_refused_before_it_is_embedded(tmp_path: Path) -> None:
    """A folder that holds another run is left as it is: nothing is embedded into it."""
    run, mine, other = tmp_path / "run", photos(tmp_path / "mine", 0), photos(tmp_path / "other", 100)
    first = call_cli("discover", mine, "--k", 3, "--image-size", 32, "--out", run, "--json")
    assert first.code == 0, first.err
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for arguments in ((other, "--k", 3), (mine, "--k", 4), (mine, "--k", 3, "--seed", 1)):
        done = call_cli("discover", *arguments, "--image-size", 32, "--out", run, "--json")
        assert done.code == 2 and "another run" in done.json["error"], done.err
        assert "· embedding" not in done.err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
