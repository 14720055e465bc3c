"""Labels of new items with the model of a run: with its own backbone alone, and without what can't be read."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from conftest import data_of, image_bytes
from ltgcd import CategoryDiscovery
from ltgcd.common.errors import InputError
from ltgcd.data.sources import read_source
from ltgcd.discovery.task import configure
from ltgcd.features.cache import open_features
from ltgcd.run.directory import Run
from ltgcd.run.discover import Embedding, discover_source
from ltgcd.run.predict import load_run_model, predict_source
from ltgcd.run.train import train_run

OTHERS = (
    {"backbone": "efficientnet_lite2"},  # whose vectors are as long
    {"image_size": 64},
    {"trunk": "0" * 64},
)


def photos(folder: Path, names: list[str], first: int = 0) -> Path:
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image_bytes(first + number, (24, 24)))
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("predict")
    source = photos(folder / "photos", [f"{('red', 'blue', 'unlabelled')[i % 3]}/{i:02d}.png" for i in range(24)])
    embedding = Embedding(backbone="efficientnet_lite0", image_size=32)
    discover_source(read_source(source), folder / "run", k=3, rehearsals=0, embedding=embedding)
    return Run(folder / "run")


def test_the_backbone_is_the_one_that_was_asked_for(run: Run) -> None:
    features = load_run_model(run).features
    assert features is not None
    assert (features["backbone"], features["image_size"]) == ("efficientnet_lite0", 32)


@pytest.mark.parametrize("changes", OTHERS)
def test_features_of_another_backbone_are_refused_everywhere(run: Run, tmp_path: Path, changes: dict[str, str]) -> None:
    source, store = read_source(run.embedded), open_features(run.embedded)
    assert predict_source(run, source, tmp_path / "own.parquet", store=store)["n"] == 24
    other = dataclasses.replace(store, key={**store.key, **changes})
    with pytest.raises(InputError, match="can't label these features"):
        predict_source(run, source, tmp_path / "new.parquet", store=other)
    assert not (tmp_path / "new.parquet").exists()
    x = source.collection.items.x  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="can't label these features"):
        CategoryDiscovery.load(run.folder).predict(x, store=other)


def test_one_broken_image_leaves_the_others(run: Run, tmp_path: Path) -> None:
    added = photos(tmp_path / "added", ["a.png", "b.png"], 50)
    (added / "broken.png").write_bytes(b"no picture")
    done = predict_source(run, read_source(added), tmp_path / "new.parquet")
    assert (done["n"], done["n_skipped"], done["skipped"][0]["id"]) == (2, 1, "broken.png")
    assert pq.read_table(tmp_path / "new.parquet").column("id").to_pylist() == ["a.png", "b.png"]


def test_the_page_of_a_feature_folder_shows_its_pictures(run: Run, tmp_path: Path) -> None:
    source, store = read_source(run.embedded), open_features(run.embedded)
    done = discover_source(source, tmp_path / "again", k=3, rehearsals=0, store=store)
    assert data_of(Path(done["report"]).read_text())["pictures"]


def test_other_weights_are_refused_before_the_folder_is_taken(run: Run, tmp_path: Path) -> None:
    """A last stage that can't be loaded as it was in the features; the corrected command finds no other run there."""
    store = open_features(run.embedded)
    other = dataclasses.replace(store, key={**store.key, "trunk": "0" * 64})
    config = configure("ltgcd", regime="last-stage", k=3)
    with pytest.raises(InputError, match="other weights"):
        train_run(read_source(run.embedded), tmp_path / "new", config, store=other)
    assert not (tmp_path / "new").exists()
