"""Backbones by name: loaded again as they were, one's own among them; another one's features are never mistaken."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from conftest import ROOT, image_bytes
from ltgcd.common.errors import InputError
from ltgcd.data.collection import Collection, Source
from ltgcd.data.items import ImageBytes
from ltgcd.data.sources import read_source
from ltgcd.features.backbones import backbone_of, check_backbone, load_backbone
from ltgcd.features.cache import cache_key, differing_features, shown_items
from ltgcd.features.embed import embed

OWN = """
import torch
from torch import nn
from ltgcd.features.backbones import Backbone
from ltgcd.features.backbones.preprocessing import Preprocessing


def load() -> Backbone:
    torch.manual_seed({seed})
    trunk, tail = nn.Conv2d(3, 2, 8, 8), nn.Sequential(nn.Flatten(), nn.Linear(8, 5))
    return Backbone("anything", "image", trunk, tail, (2, 2, 2), 5, Preprocessing(image_size=16))


def nothing() -> None:
    return None
"""


def images(n: int = 6) -> Source:
    blobs = pa.array([image_bytes(i, (20, 24)) for i in range(n)], pa.binary())
    ids = pa.array([f"im-{i}" for i in range(n)], pa.string())
    return Source(Collection(ids, ImageBytes(blobs), np.where(np.arange(n) < 2, 0, -1), ("cat",)), None)


# ---------------------------------------------------------------- loaded again


@pytest.mark.parametrize("trained_blocks", [1, 2])
def test_the_very_backbone_is_loaded_again(trained_blocks: int) -> None:
    made = load_backbone("efficientnet_lite0", image_size=64, trained_blocks=trained_blocks)
    # As a run keeps it: TOML has no null.
    key = {name: value for name, value in cache_key(made, 4, "torch").items() if value is not None}
    again = backbone_of(key)
    assert again.fingerprint == made.fingerprint
    assert again.tail_fingerprint == made.tail_fingerprint
    assert len(again.tail.blocks) == trained_blocks  # type: ignore[arg-type]
    with pytest.raises(InputError, match="efficientnet_lite0 has other weights here than in training"):
        backbone_of({**key, "trunk": "0" * 64})


def test_texts_with_other_weights_are_loaded_again_and_checked(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the text extra is not installed")
    packaged = pytest.importorskip("ltgcd.features.backbones.minilm")._packaged_folder()
    other = tmp_path / "other"
    shutil.copytree(packaged, other)
    (other / "sentence_bert_config.json").write_text('{"max_seq_length": 16}')
    key = cache_key(load_backbone("minilm", weights=other), 0, "torch")
    assert backbone_of(key, other).fingerprint == key["trunk"]
    with pytest.raises(
        InputError, match=r"minilm has other weights here than in training; give those .* with --weights"
    ):
        backbone_of(key)
    usual = cache_key(load_backbone("minilm"), 0, "torch")
    with pytest.raises(InputError, match="other weights"):
        backbone_of(usual, other)


# ---------------------------------------------------------------- one's own


def test_own_backbones_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_nets.py").write_text(OWN.format(seed=0))
    path = list(sys.path)
    backbone = load_backbone("my_nets:load")
    assert sys.path == path
    assert backbone.name == "my_nets:load"
    done = embed(images(), backbone, tmp_path / "f", views=2)
    assert backbone_of(done.store.key).fingerprint == backbone.fingerprint
    check_backbone("my_nets:load", "image", 4)
    for name, sentence in {
        "my_nets:nothing": "gave a NoneType; it must return an ltgcd Backbone",
        "my_nets:missing": "has no function 'missing'",
        "my_other_nets:load": "no module 'my_other_nets' .* run from the folder that holds it",
        "my nets:load": "package.module:function",
        "resnet": "choose one of .* or package.module:function for one of your own",
    }.items():
        with pytest.raises(InputError, match=sentence):
            load_backbone(name)
    with pytest.raises(InputError, match="has no image_size"):
        load_backbone("my_nets:load", image_size=32)
    # Other weights under the same name are noticed.
    (tmp_path / "my_nets.py").write_text(OWN.format(seed=1) + "\n")
    monkeypatch.delitem(sys.modules, "my_nets")
    with pytest.raises(InputError, match="my_nets:load has other weights here than in training"):
        backbone_of(done.store.key)


def test_the_page_on_own_backbones_can_be_run(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "own-backbone.md").read_text()
    name, code = re.findall(r"`(\w+\.py)`[^\n]*\n+```python\n(.*?)```", page, re.S)[0]
    command = re.findall(r"```bash\n(.*?)```", page, re.S)[0]
    (tmp_path / name).write_text(code)
    for i in range(12):
        photo = tmp_path / "photos" / ("cat" if i < 4 else "unlabelled") / f"{i}.png"
        photo.parent.mkdir(parents=True, exist_ok=True)
        photo.write_bytes(image_bytes(i, (40, 30)))
    lines = [line for line in command.splitlines() if line.startswith("ltgcd embed")]
    assert lines
    for line in lines:
        words = line.split("#")[0].split()[1:]
        done = subprocess.run(
            [sys.executable, "-c", "from ltgcd.cli import main; main()", *words],
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    assert len(read_source(tmp_path / "features" / "photos").collection) == 12


# ---------------------------------------------------------------- before any embedding


@pytest.mark.parametrize(
    ("name", "kind", "views", "sentence"),
    [
        ("minilm", "image", 0, r"holds images, but minilm takes texts; .*\(efficientnet_lite2 takes images\)"),
        ("dino_vits16", "text", 0, "holds texts, but dino_vits16 takes images"),
        ("minilm", "text", 2, "Only images have views"),
        ("efficientnet_lite0", "image", -1, "number of views is -1"),
        ("efficientnet_lite9", "image", 0, "no backbone called 'efficientnet_lite9'"),
        ("no_such_module_here:load", "image", 0, "no module 'no_such_module_here'"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_loaded(name: str, kind: str, views: int, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        check_backbone(name, kind, views)  # type: ignore[arg-type]


def test_what_fits_is_let_through() -> None:
    check_backbone("efficientnet_lite2", "image", 4)
    check_backbone("minilm", "text")
    check_backbone("embeddings", "vector")


# ---------------------------------------------------------------- whose features these are


def test_features_of_another_backbone_are_told_apart_where_their_length_is_the_same() -> None:
    lite0, lite2 = (cache_key(load_backbone(f"efficientnet_lite{n}", image_size=64), 0, "torch") for n in (0, 2))
    assert lite0["dim"] == lite2["dim"]
    assert "features of efficientnet_lite0, and these are of efficientnet_lite2" in str(
        differing_features(lite0, lite2)
    )
    larger = cache_key(load_backbone("efficientnet_lite0", image_size=96), 0, "torch")
    assert "images of 64 px, and these features are of images of 96 px" in str(differing_features(lite0, larger))
    two = cache_key(load_backbone("efficientnet_lite0", image_size=64, trained_blocks=2), 0, "torch")
    assert "1 trained blocks, and these features are of 2 trained blocks" in str(differing_features(lite0, two))
    fine_tuned = load_backbone("efficientnet_lite0", image_size=64)
    with torch.no_grad():
        fine_tuned.tail.head.conv.weight[0] += 0.1  # type: ignore[index, operator, union-attr]
    assert "other weights" in str(differing_features(lite0, cache_key(fine_tuned, 0, "torch")))
    assert "another way" in str(differing_features(lite0, {**lite0, "preprocessing": "views-1 nearest"}))


def test_what_makes_no_difference_to_the_features() -> None:
    key = cache_key(load_backbone("efficientnet_lite0", image_size=64), 0, "torch")
    kept = {name: value for name, value in key.items() if value is not None}
    assert differing_features(kept, {**key, "views": 4, "engine": "openvino"}) is None
    assert differing_features(None, key) is None
    assert differing_features(key, None) is None


# ---------------------------------------------------------------- the items behind the features


def test_the_pictures_behind_a_feature_folder_are_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_nets.py").write_text(OWN.format(seed=0))
    monkeypatch.delitem(sys.modules, "my_nets", raising=False)
    for i in range(5):
        photo = tmp_path / "photos" / ("cat" if i < 2 else "unlabelled") / f"{i}.png"
        photo.parent.mkdir(parents=True, exist_ok=True)
        photo.write_bytes(b"broken" if i == 3 else image_bytes(i, (20, 24)))
    embed(read_source(tmp_path / "photos"), load_backbone("my_nets:load"), tmp_path / "features" / "f")
    # Moved together, the features still find the photos.
    (tmp_path / "elsewhere").mkdir()
    for name in ("photos", "features"):
        (tmp_path / name).rename(tmp_path / "elsewhere" / name)
    folder = tmp_path / "elsewhere" / "features" / "f"
    shown = shown_items(folder)
    assert shown is not None
    assert shown.ids.to_pylist() == ["cat/0.png", "cat/1.png", "unlabelled/2.png", "unlabelled/4.png"]
    assert shown.ids.equals(read_source(folder).collection.ids)
    assert not shown.labelled.any()
    assert shown.items.take(np.array([3])) == [image_bytes(4, (20, 24))]
    # One that is gone leaves the others; images in memory are kept with the features.
    (tmp_path / "elsewhere" / "photos" / "cat" / "0.png").unlink()
    left = shown_items(folder)
    assert left is not None
    assert left.items.take(np.array([0, 1])) == [b"", image_bytes(1, (20, 24))]
    held = shown_items(embed(images(), load_backbone("my_nets:load"), tmp_path / "memory").path)
    assert held is not None
    assert held.items.take(np.array([5])) == [image_bytes(5, (20, 24))]


def test_vectors_have_nothing_to_show(npz, tmp_path: Path) -> None:
    source = read_source(npz())
    embed(source, load_backbone("embeddings", dim=5), tmp_path / "v")
    assert shown_items(tmp_path / "v") is None


def test_a_file_alone_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run from elsewhere may name any module: it is imported only if a person has typed the name."""
    (tmp_path / "planted.py").write_text("raise SystemExit('code was run')")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="--backbone planted:make"):
        backbone_of({"backbone": "planted:make"})
