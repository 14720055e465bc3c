"""An item is its id and its content: nothing new is skipped, nothing old is added twice, and labels are not dropped."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from conftest import WIDE, image_bytes, train
from ltgcd.cli import app
from ltgcd.common.errors import InputError
from ltgcd.data.sources import read_source
from ltgcd.features.backbones import load_backbone
from ltgcd.features.cache import open_features
from ltgcd.features.embed import embed
from ltgcd.run.directory import Run
from ltgcd.run.discover import QUALITIES, QUALITY, Embedding, discover_source
from ltgcd.run.export import export_run
from ltgcd.run.report import report_run
from ltgcd.run.update import update_run


def strings(*values: str | None) -> pa.StringArray:
    return pa.array(values, pa.string())


# ---------------------------------------------------------------- in a run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of vectors whose source counts its rows."""
    folder = tmp_path_factory.mktemp("identity")
    true = np.arange(120) % 3
    ids = np.array([f"IMG_{i:04d}.jpg" for i in range(120)])
    np.savez(
        folder / "first.npz", x=vectors(true, 0), y=np.where((true < 2) & (np.arange(120) < 60), true, -1), ids=ids
    )
    discover_source(read_source(folder / "first.npz"), folder / "run", k=3)
    return folder / "run"


def vectors(true: np.ndarray, seed: int) -> np.ndarray:
    return (np.eye(3, 8)[true] * 5 + np.random.RandomState(seed).randn(len(true), 8) * 0.3).astype(np.float32)


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def assigned(run: Path) -> dict[str, Any]:
    return {row["id"]: row for row in Run(run).assignments().to_pylist()}


def test_a_camera_that_counts_from_the_start_again(run: Path, tmp_path: Path) -> None:
    before, true = assigned(run), np.arange(30) % 3
    new = tmp_path / "november.npz"
    np.savez(new, x=vectors(true, 1), ids=np.array([f"IMG_{i:04d}.jpg" for i in range(30)]))
    done = CliRunner(env=WIDE).invoke(app, ["update", str(run), str(new)])
    assert done.exit_code == 0, done.output
    assert "30 added" in done.output and "0 were there already" in done.output
    assert "30 new items have an id that the run has for other content" in done.output
    assert "'IMG_0000.jpg' as 'IMG_0000 (2).jpg'" in done.output
    after = assigned(run)
    assert len(after) == 150 and {name: after[name] for name in before} == before
    assert after["IMG_0000 (2).jpg"]["label"] == before["IMG_0000.jpg"]["label"]
    kept = Run(run).features()
    assert kept is not None
    assert np.array_equal(kept.of(strings("IMG_0000 (2).jpg"), run), vectors(true, 1)[:1])
    # The same folder again: all of it is there.
    again = update_run(Run(run), read_source(new))
    assert (again["n_added"], again["n_present"], again["n_renamed"]) == (0, 30, 0)
    assert assigned(run) == after


def test_labels_of_items_that_are_there_are_kept(run: Path, finished: Path, tmp_path: Path) -> None:
    before = assigned(run)
    labels = tmp_path / "checked.csv"
    labels.write_text("id,label\nIMG_0000.jpg,0\nIMG_0100.jpg,1\nIMG_0101.jpg,77\n")
    done = CliRunner(env=WIDE).invoke(
        app, ["update", str(run), str(finished.parent / "first.npz"), "--labels", str(labels)]
    )
    assert done.exit_code == 0, done.output
    assert "2 labels are of items that were there already: kept in the run" in done.output
    assert assigned(run) == before
    assert sorted(map(tuple, (row.values() for row in Run(run).later_labels().to_pylist()))) == [
        ("IMG_0100.jpg", "1"),
        ("IMG_0101.jpg", "77"),
    ]
    again = update_run(Run(run), read_source(finished.parent / "first.npz", labels))
    assert again["n_labels_kept"] == 0  # no news
    # Another update leaves them where they are.
    np.savez(tmp_path / "more.npz", x=vectors(np.arange(5) % 3, 7), ids=np.array([f"more{i}" for i in range(5)]))
    assert update_run(Run(run), read_source(tmp_path / "more.npz"))["n_added"] == 5
    assert len(Run(run).later_labels()) == 2 and len(Run(run).labels().ids) == 125


def photos(folder: Path, first: int, n: int = 24) -> Path:
    for i in range(n):
        path = folder / ("red", "blue", "unlabelled")[i % 3] / f"{i:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image_bytes(first + i, (24, 24)))
    return folder


def embedded(source: Path, out: Path) -> Path:
    embed(read_source(source), load_backbone(QUALITIES[QUALITY][0], image_size=64), out)
    return out


@pytest.fixture(scope="module")
def of_photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Features of 24 photos, those of 24 others under the same names, and runs made from photos and from features."""
    folder = tmp_path_factory.mktemp("of_photos")
    for name, first in (("october", 0), ("november", 500)):
        embedded(photos(folder / name, first), folder / f"{name}-features")
    source = read_source(folder / "october")
    discover_source(source, folder / "run", k=3, embedding=Embedding(image_size=64))
    store = open_features(folder / "october-features")
    discover_source(read_source(store.folder), folder / "run-of-features", k=3, store=store)
    # Where nothing tells where the photos are, all that a run knows of them are their features.
    manifest = (store.folder / "manifest.parquet").rename(folder / "manifest.parquet")
    discover_source(read_source(store.folder), folder / "run-of-vectors", k=3, store=store)
    manifest.rename(store.folder / "manifest.parquet")
    assert [Run(folder / name).kind for name in RUNS_OF_PHOTOS] == ["image", "image", "vector"]
    return folder


RUNS_OF_PHOTOS = ("run", "run-of-features", "run-of-vectors")


@pytest.mark.parametrize("name", RUNS_OF_PHOTOS)
def test_features_of_other_photos_under_old_names_are_no_old_items(name: str, of_photos: Path, tmp_path: Path) -> None:
    run = Run(shutil.copytree(of_photos / name, tmp_path / name))
    before, features = assigned(run.folder), of_photos / "october-features"
    same = update_run(run, read_source(features), store=open_features(features))
    assert (same["n_added"], same["n_present"], same["notes"]) == (0, 24, [])
    labels, features = tmp_path / "checked.csv", of_photos / "november-features"
    labels.write_text("id,label\n" + "".join(f"unlabelled/{i:02d}.png,red\n" for i in range(2, 15, 3)))
    command = ["update", str(run), str(features), "--labels", str(labels)]
    done = CliRunner(env=WIDE).invoke(app, command)
    assert len(run.later_labels()) == 0, "a label of a new photo is none of the old one's"
    assert done.exit_code == 0, done.output
    assert {item: row for item, row in assigned(run.folder).items() if item in before} == before
    if run.kind == "image":
        items, november = run.items(), of_photos / "november"
        assert items is not None and len(items) == 48
        new = items.items.take(pc.index_in(pa.array(["unlabelled/02 (2).png"]), items.ids).to_numpy())
        assert new == [(november / "unlabelled/02.png").read_bytes()], "the page shows the new photo"
    assert "24 added" in done.output and "24 new items have an id that the run has for other content" in done.output
    assert assigned(run.folder)["unlabelled/02 (2).png"]["name"] == "red"
    assert "24 were there already" in CliRunner(env=WIDE).invoke(app, command).output


def test_features_of_photos_that_are_gone_are_refused_where_a_run_shows_photos(of_photos: Path, tmp_path: Path) -> None:
    run = Run(shutil.copytree(of_photos / "run", tmp_path / "run"))
    features = Path(shutil.copytree(of_photos / "november-features", tmp_path / "features"))
    (features / "manifest.parquet").unlink()
    before = assigned(run.folder)
    with pytest.raises(InputError, match="is a run of images"):
        update_run(run, read_source(features), store=open_features(features))
    assert assigned(run.folder) == before


def test_photos_are_told_from_others_by_a_run_that_keeps_their_features(of_photos: Path, tmp_path: Path) -> None:
    run = Run(shutil.copytree(of_photos / "run-of-vectors", tmp_path / "run"))
    same = update_run(run, read_source(of_photos / "october"))
    assert (same["n_added"], same["n_present"]) == (0, 24)
    assert not run.abandoned_updates()
    other = update_run(run, read_source(of_photos / "november"))
    assert (other["n_added"], other["n_present"], other["n_renamed"]) == (24, 0, 24)
    again = update_run(run, read_source(of_photos / "november"))
    assert (again["n_added"], again["n_present"], again["n_renamed"]) == (0, 24, 0)


def test_photos_under_old_names_are_added(tmp_path: Path) -> None:
    photos(tmp_path / "photos", 0)
    discover_source(read_source(tmp_path / "photos"), tmp_path / "run", k=3, embedding=Embedding(image_size=32))
    new = tmp_path / "november"
    (new / "red").mkdir(parents=True)
    (new / "red" / "00.png").write_bytes(image_bytes(900, (24, 24)))  # another picture
    (new / "red" / "03.png").write_bytes(image_bytes(3, (24, 24)))  # the same
    (new / "copy.png").write_bytes(image_bytes(1, (24, 24)))  # the same under another name
    done = update_run(Run(tmp_path / "run"), read_source(new))
    assert (done["n_added"], done["n_present"], done["n_renamed"], done["n_copies"]) == (2, 1, 1, 1)
    assert any("'copy.png' and 'blue/01.png'" in note for note in done["notes"])
    items = Run(tmp_path / "run").items()
    assert items is not None
    assert items.ids.to_pylist()[-2:] == ["copy.png", "red/00 (2).png"]
    assert items.items.take(np.array([25]))[0] == image_bytes(900, (24, 24))
    assert pq.read_table(tmp_path / "run" / "items.parquet").column("digest").null_count == 0
    again = update_run(Run(tmp_path / "run"), read_source(new))
    assert (again["n_added"], again["n_present"]) == (0, 3)
    # Moved away, the run still finds its images, and takes more of them.
    shutil.move(tmp_path / "run", tmp_path / "deep" / "elsewhere" / "run")
    moved = Run(tmp_path / "deep" / "elsewhere" / "run")
    items = moved.items()
    assert items is not None and items.items.take(np.array([0]))[0] == image_bytes(1, (24, 24))
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "m.png").write_bytes(image_bytes(77, (24, 24)))
    assert update_run(moved, read_source(tmp_path / "more"))["n_added"] == 1
    items = moved.items()
    assert items is not None and all(items.items.take(np.arange(27)))


# ---------------------------------------------------------------- --source


def tickets(folder: Path, texts: list[str], name: str) -> Path:
    rows = "".join(
        f"{i},{text},{('cat', 'dog')[i % 2] if i < 20 else ''}\n" for i, text in enumerate(texts)
    )  # numbered from the start again, whatever the order
    (folder / f"{name}.csv").write_text("id,text,label\n" + rows)
    return folder / f"{name}.csv"


TEXTS = [f"the {('cat', 'dog')[i % 2]} of number {i} sleeps" for i in range(40)]


def test_a_sorted_and_numbered_table_is_another_source(tmp_path: Path) -> None:
    """Each text was exported into the folder of another."""
    discover_source(read_source(tickets(tmp_path, TEXTS, "first")), tmp_path / "run", k=3)
    run = Run(tmp_path / "run")
    shuffled = tickets(tmp_path, TEXTS[:30] + TEXTS[:29:-1], "again")
    page = run.report.read_bytes()
    for work in (
        lambda: export_run(run, "folders", tmp_path / "out", source=shuffled),
        lambda: report_run(run, shuffled),
    ):
        with pytest.raises(InputError, match=r"other items than .* under the same ids .*10 of 40 are others"):
            work()
    assert not (tmp_path / "out").exists() and run.report.read_bytes() == page
    sorted_only = tmp_path / "sorted.csv"
    lines = (tmp_path / "first.csv").read_text().splitlines()
    sorted_only.write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")
    assert export_run(run, "folders", tmp_path / "out", source=sorted_only)["notes"] == []
    # One that somebody has corrected since is still the same item, and it is said.
    mended = tickets(tmp_path, ["a cat that was a dog", *TEXTS[1:]], "mended")
    done = export_run(run, "folders", tmp_path / "out2", source=mended)
    assert "1 of 40 texts" in done["notes"][0] and "have changed since" in done["notes"][0]
    said: list[str] = []
    report_run(run, mended, progress=said.append)
    assert any("have changed since" in sentence for sentence in said)


def test_another_folder_with_the_same_names_is_another_source(of_photos: Path, tmp_path: Path) -> None:
    for name in RUNS_OF_PHOTOS[:2]:
        run, out = Run(shutil.copytree(of_photos / name, tmp_path / name)), tmp_path / f"{name}-out"
        for other in (of_photos / "november", of_photos / "november-features"):
            with pytest.raises(InputError, match="24 of 24 are others"):
                report_run(run, other)
        with pytest.raises(InputError, match="24 of 24 are others"):
            export_run(run, "folders", out, source=of_photos / "november")
        with pytest.raises(InputError, match="24 of 24 are others"):
            report_run(run, of_photos / "october", of_photos / "november-features")
        (note,) = export_run(run, "folders", out, source=of_photos / "october")["notes"]
        assert note.startswith("They are links to your files")  # and nothing about which they are
        assert report_run(run, of_photos / "october", of_photos / "october-features")["n"] == 24
    # What a run of vectors can't tell, it says.
    run = Run(of_photos / "run-of-vectors")
    done = export_run(run, "folders", tmp_path / "out", source=of_photos / "october")
    assert any("by ids alone" in note for note in done["notes"])


def test_vectors_in_another_order_draw_no_map(run: Path, finished: Path, tmp_path: Path) -> None:
    first = dict(np.load(finished.parent / "first.npz"))
    turned = {**first, "x": first["x"][::-1]}
    np.savez(tmp_path / "turned.npz", **turned)
    places = (run / "map.npz").read_bytes()
    with pytest.raises(InputError, match="other items"):
        report_run(Run(run), tmp_path / "turned.npz")
    (run / "items.npz").unlink()  # as `ltgcd train` leaves a run: its configuration has a checksum
    Run(run).contents.list_anew()
    with pytest.raises(InputError, match="not the vectors that it was made from"):
        report_run(Run(run), tmp_path / "turned.npz")
    assert (run / "map.npz").read_bytes() == places
    report_run(Run(run), finished.parent / "first.npz")


def test_photos_beside_features_of_a_run_that_keeps_neither(of_photos: Path, tmp_path: Path) -> None:
    features = of_photos / "october-features"
    train(read_source(features), tmp_path / "run", k=3, store=open_features(features))
    with pytest.raises(InputError, match="24 of 24 are others"):
        report_run(Run(tmp_path / "run"), of_photos / "november", features)
    with pytest.raises(InputError, match="not the vectors"):
        report_run(Run(tmp_path / "run"), of_photos / "october", of_photos / "november-features")
    assert report_run(Run(tmp_path / "run"), of_photos / "october", features)["n"] == 24
