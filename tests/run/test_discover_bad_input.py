"""`ltgcd discover` on broken sources: exit 2, one sentence, one JSON object; and nothing that was computed is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import LATIN1, Npz, call_cli, fails, image_bytes
from ltgcd.common.errors import InputError
from ltgcd.data.sources import read_source
from ltgcd.features.cache import open_features
from ltgcd.run.directory import Run
from ltgcd.run.discover import Embedding, discover_source
from ltgcd.run.update import update_run
from ltgcd.training.checkpoints import Checkpoints


class Makers:
    """What the broken sources are made with."""

    def __init__(self, npz: Npz, photos: Path, folder: Path) -> None:
        self.npz, self.photos, self.folder = npz, photos, folder

    def text(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def table(self, **columns: Any) -> Path:
        path = self.folder / "t.parquet"
        pq.write_table(pa.table(columns), path)
        return path

    def cut(self, path: Path, n: int) -> Path:
        path.write_bytes(path.read_bytes()[:-n])
        return path

    def vectors(self, row: int, value: float) -> Path:
        x = np.ones((40, 5), np.float32)
        x[row, 2] = value
        return self.npz(x=x)

    def empty(self) -> Path:
        (self.folder / "empty").mkdir()
        return self.folder / "empty"

    def all_broken(self) -> Path:
        for path in self.photos.rglob("*.*g"):
            path.write_bytes(b"no picture")
        return self.photos

    def labels(self, content: str) -> list[object]:
        return [self.photos, "--labels", self.text("labels.csv", content)]


BROKEN: dict[str, tuple[Callable[[Makers], Any], str]] = {
    "not there": (lambda m: m.folder / "nowhere", "is not there"),
    "unknown kind": (lambda m: m.text("notes.docx", "x"), "of an unknown kind"),
    "empty folder": (lambda m: m.empty(), "holds no images"),
    "folder of broken images": (lambda m: m.all_broken(), "None of the 5 items could be read"),
    "no labels": (lambda m: m.npz(y=np.full(40, -1)), "No item is labelled"),
    "all labelled": (lambda m: m.npz(y=np.arange(40) % 3), "Every item is labelled"),
    "truncated npz": (lambda m: m.cut(m.npz(), 50), "can't be read as an .npz"),
    "no x": (lambda m: m.npz(x=None), "no array 'x'"),
    "NaN": (lambda m: m.vectors(7, np.nan), "NaN or infinite values (first in row 7)"),
    "infinity": (lambda m: m.vectors(3, -np.inf), "NaN or infinite values (first in row 3)"),
    "too large": (lambda m: m.vectors(0, 1e30), "too large for single precision"),
    "one dimension": (lambda m: m.npz(x=np.zeros(40, np.float32)), "N×D floats"),
    "unequal lengths": (lambda m: m.npz(y=np.zeros(39, int), y_true=None), "y of shape (39,)"),
    "label below -1": (lambda m: m.npz(y=np.full(40, -3)), "has the label -3"),
    "labels of words": (lambda m: m.npz(y=np.array(["0", "cat"] * 20)), "y of type <U"),
    "duplicate ids": (lambda m: m.npz(ids=np.array(["a"] * 40)), "duplicate ids"),
    "truncated parquet": (lambda m: m.cut(m.table(text=["a", "b"], label=["x", None]), 20), "can't be read as parquet"),
    "text that is none": (lambda m: m.table(text=LATIN1, label=["x", None]), "can't be read as text"),
    "no rows": (lambda m: m.text("m.csv", "text,label\n"), "has no rows"),
    "empty csv": (lambda m: m.text("m.csv", ""), "can't be read as a CSV"),
    "other separator": (lambda m: m.text("m.csv", "text|label\na|x\n"), "separate columns by commas"),
    "mixed labels": (lambda m: m.text("m.csv", "text,label\na,3\nb,cat\nc,\n"), "mixes label types"),
    "no such column": (
        lambda m: m.text("m.csv", "name,label\na,x\nb,\n"),
        "'label']); say which with --text-column, --label",
    ),
    "missing files": (lambda m: m.text("m.csv", "path,label\na.png,cat\nb.png,\n"), "2 files that are not there"),
    "not UTF-8": (lambda m: m.text("m.csv", b"text,label\n\xff\xfe,x\nb,\n"), "UTF-8"),
    "labels of ghosts": (lambda m: m.labels("id,label\nghost.png,cat\n"), "not in the source"),
    "labels without columns": (lambda m: m.labels("name,class\na,b\n"), "needs the columns 'id' and 'label'"),
    "labels twice": (lambda m: m.labels("id,label\ncat/a.png,x\ncat/a.png,y\n"), "duplicate ids"),
    "labels not there": (lambda m: [m.photos, "--labels", m.folder / "nolabels.csv"], "is not there"),
    "k too small": (lambda m: [m.npz(), "--k", "1"], "K = 1 is impossible"),
    "k too large": (lambda m: [m.npz(), "--k", "41"], "K = 41 is impossible"),
    "k in words": (lambda m: [m.npz(), "--k", "ten"], "--k takes 'auto'"),
    "views of vectors": (lambda m: [m.npz(), "--views", "4"], "taken as they are"),
    "unknown quality": (lambda m: [m.photos, "--quality", "perfect"], "There is no quality 'perfect'; choose quick"),
    "quality of vectors": (lambda m: [m.npz(), "--quality", "best"], "leave out --quality for vectors"),
    "unknown engine": (lambda m: [m.photos, "--engine", "steam"], "engine"),
}


@pytest.mark.parametrize("name", list(BROKEN))
def test_broken_sources(name: str, npz: Npz, image_folder: Path, tmp_path: Path) -> None:
    make, words = BROKEN[name]
    made = make(Makers(npz, image_folder, tmp_path))
    arguments = made if isinstance(made, list) else [made]
    out = tmp_path / "run"
    assert words in fails("discover", *arguments, "--image-size", "32", "--out", out)
    assert not (out / "config.toml").exists()


@pytest.mark.parametrize("n", [2, 3, 5])
def test_tiny_sources_end_in_a_run_or_in_a_sentence(n: int, npz: Npz, tmp_path: Path) -> None:
    x = np.random.RandomState(0).randn(n, 4).astype(np.float32)
    source = npz(x=x, y=np.where(np.arange(n) == 0, 0, -1), y_true=None)
    done = call_cli("discover", source, "--out", tmp_path / "run", "--json")
    assert done.code in (0, 2), done.err
    assert "Traceback" not in done.err
    assert ("error" in done.json) == (done.code == 2)


# ---------------------------------------------------------------- nothing is lost


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number in range(36):
        path = tmp_path / "photos" / ("red", "blue", "unlabelled")[number % 3] / f"{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image_bytes(number, (24, 24)))
    return tmp_path / "photos"


def arguments(photos: Path) -> tuple[object, ...]:
    return ("discover", photos, "--out", photos.parent / "run", "--image-size", "32", "--k", "3")


def test_the_quality_decides_backbone_and_size_unless_they_are_given(photos: Path, tmp_path: Path) -> None:
    both = "efficientnet_lite0+efficientnet_lite2"
    assert Embedding().model("image") == ("efficientnet_lite2", 192)
    assert Embedding(quality="quick").model("image") == ("efficientnet_lite2", 128)
    assert Embedding(quality="best").model("image") == (both, 260)
    assert Embedding(quality="best", image_size=64).model("image") == (both, 64)
    assert Embedding(quality="standard", backbone="dino_vits16").model("image") == ("dino_vits16", 192)
    assert Embedding(image_size=64).model("text") == ("minilm", None)
    discover_source(read_source(photos), tmp_path / "run", k=3, embedding=Embedding(quality="standard"))
    key = open_features(Run(tmp_path / "run").embedded).key
    assert (key["backbone"], key["image_size"]) == ("efficientnet_lite2", 192)
    # A run goes on at the quality that it was begun with.
    assert "it differs in: activation_shape, image_size" in fails(
        "discover", photos, "--out", tmp_path / "run", "--k", "3", "--quality", "quick"
    )


def test_a_source_that_was_replaced_meanwhile(photos: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = discover_source(read_source(photos), run, k=3, embedding=Embedding(image_size=32))
    before = {name: held for name, held in contents(run).items() if not name.startswith("features/")}
    whole = {path: path.read_bytes() for path in sorted(photos.rglob("*.png"))}  # the order of a folder is anyone's
    for number, path in enumerate(whole):
        path.write_bytes(image_bytes(100 + number, (24, 24)))
    assert "holds another run" in fails(*arguments(photos))
    after = {name: held for name, held in contents(run).items() if not name.startswith("features/")}
    assert after == before
    # The run can still be added to, by its own features, and with its own source it says the same.
    added = tmp_path / "added"
    added.mkdir()
    (added / "new.png").write_bytes(image_bytes(200, (24, 24)))
    for path, content in whole.items():
        path.write_bytes(content)
    again = discover_source(read_source(photos), run, k=3, embedding=Embedding(image_size=32))
    assert {**again, "seconds": 0} == {**first, "seconds": 0}
    assert update_run(Run(run), read_source(added))["n_added"] == 1


def test_a_truncated_image_in_the_middle_is_skipped_and_named(photos: Path, tmp_path: Path) -> None:
    path = photos / "unlabelled" / "17.png"
    path.write_bytes(path.read_bytes()[:60])
    result = discover_source(read_source(photos), tmp_path / "run", k=3, embedding=Embedding(image_size=32))
    assert result["skipped"] == 1
    assert "17.png" in (tmp_path / "run" / "features" / "skipped.csv").read_text()
    assert result["known"] + result["novel"] + result["unsure"] == 35


def test_a_damaged_shard_is_made_anew(photos: Path, tmp_path: Path) -> None:
    first = discover_source(read_source(photos), tmp_path / "run", k=3, embedding=Embedding(image_size=32))
    shard = next((tmp_path / "run" / "features").glob("shard-*.npy"))
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-8] + bytes(8))
    again = discover_source(read_source(photos), tmp_path / "run", k=3, embedding=Embedding(image_size=32))
    assert {**again, "seconds": 0} == {**first, "seconds": 0}
    assert shard.read_bytes() == whole


def test_a_damaged_checkpoint_costs_an_epoch_and_no_more(
    npz: Npz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, run = read_source(npz()), tmp_path / "run"
    expected = discover_source(source, tmp_path / "whole", k=3)
    save = Checkpoints.save

    def killed(self: Checkpoints, epoch: int, *rest: Any) -> None:
        save(self, epoch, *rest)
        if epoch == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            discover_source(source, run, k=3)
    newest = max((run / "checkpoint").glob("epoch-*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-10])
    said: list[str] = []
    result = discover_source(source, run, k=3, notify=said.append)
    assert any("damaged; training goes on from" in sentence for sentence in said)
    places = dict.fromkeys(("seconds", "run", "report", "assignments"), 0)
    assert {**result, **places} == {**expected, **places}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.toml", b"[run", "config.toml is damaged"),
        ("config.toml", b"\xff\xfe", "config.toml is damaged"),
        ("assignments.parquet", b"PAR1", "assignments.parquet can't be read"),
        ("k_estimate.json", b"{", "k_estimate.json is damaged"),
    ],
)
def test_a_damaged_run_is_a_sentence(npz: Npz, tmp_path: Path, name: str, content: bytes, words: str) -> None:
    source, run = npz(), tmp_path / "run"
    discover_source(read_source(source), run)
    (run / name).write_bytes(content)
    before = contents(run)
    assert words in fails("discover", source, "--out", run)
    assert contents(run) == before


@pytest.mark.parametrize("name", ["items.npz", "map.npz", "report.html"])
def test_what_can_be_made_again_is(npz: Npz, tmp_path: Path, name: str) -> None:
    source, run = npz(), tmp_path / "run"
    discover_source(read_source(source), run, k=3)
    whole = (run / name).read_bytes()
    (run / name).write_bytes(b"damaged")
    discover_source(read_source(source), run, k=3)
    if name == "report.html":
        assert (run / name).read_bytes() == whole
    else:
        assert all(np.array_equal(np.load(run / name)[key], value) for key, value in _arrays(whole, tmp_path).items())


def _arrays(content: bytes, folder: Path) -> dict[str, np.ndarray]:
    (folder / "whole.npz").write_bytes(content)
    return dict(np.load(folder / "whole.npz"))


def test_another_folder_of_features_is_refused_before_anything_is_computed(photos: Path, tmp_path: Path) -> None:
    discover_source(read_source(photos), tmp_path / "run", k=3, embedding=Embedding(image_size=32))
    before = contents(tmp_path / "run")
    with pytest.raises(InputError, match="another model or preprocessing"):
        discover_source(read_source(photos), tmp_path / "run", k=3, embedding=Embedding(image_size=64))
    assert contents(tmp_path / "run") == before
