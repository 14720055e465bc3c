"""An item is its id and its content: nothing new is skipped, nothing old is added twice, and labels are not dropped."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from conftest import WIDE, image_bytes
from ltgcd.cli import app
from ltgcd.data.sources import read_source
from ltgcd.run.directory import Run
from ltgcd.run.discover import Embedding, discover_source
from ltgcd.run.identity import compare_items, numbered_id
from ltgcd.run.update import update_run


def strings(*values: str | None) -> pa.StringArray:
    return pa.array(values, pa.string())


@pytest.mark.parametrize(
    ("item_id", "numbered"),
    [
        ("cat/IMG_1.jpg", "cat/IMG_1 (2).jpg"),
        ("7", "7 (2)"),
        (".png", ".png (2)"),
        ("v1.2/a", "v1.2/a (2)"),
        ("see you. later", "see you. later (2)"),
    ],
)
def test_numbers_are_where_a_file_manager_puts_them(item_id: str, numbered: str) -> None:
    assert numbered_id(item_id, 2) == numbered


def test_the_same_id_with_other_content_is_another_item() -> None:
    held, contents = strings("a.png", "b.png", "b (2).png"), strings("A", "B", "X")
    new = strings("a.png", "b.png", "c.png", "d.png")
    found = compare_items(new, strings("A", "C", "A", "D"), held, contents)
    assert found.is_new.tolist() == [False, True, True, True]
    assert found.ids.to_pylist() == ["a.png", "b (3).png", "c.png", "d.png"]
    assert found.renamed == [("b.png", "b (3).png")]
    assert found.copies == [("c.png", "a.png")]
    assert len(found.sentences()) == 2
    # Once they are there, the same source brings nothing new.
    later = compare_items(
        new,
        strings("A", "C", "A", "D"),
        pa.concat_arrays([held, found.ids.filter(pa.array(found.is_new))]),
        strings("A", "B", "X", "C", "A", "D"),
    )
    assert not later.is_new.any() and not later.sentences()
    assert later.ids.to_pylist() == ["a.png", "b (3).png", "c.png", "d.png"]


def test_a_new_id_is_taken_by_nobody() -> None:
    found = compare_items(strings("a", "a (2)"), strings("X", "Y"), strings("a"), strings("A"))
    assert found.ids.to_pylist() == ["a (3)", "a (2)"]
    assert found.is_new.all()


def test_what_is_not_known_is_told_by_its_id() -> None:
    empty = "cae66941d9efbd404e4d88758ea67670"
    found = compare_items(strings("a", "b", "c"), strings("X", empty, "C"), strings("a", "b"), strings(None, "B"))
    assert found.is_new.tolist() == [False, False, True]
    for digests, held in ((None, strings("A")), (strings("X", "Y"), None)):
        assert compare_items(strings("a", "b"), digests, strings("a"), held).is_new.tolist() == [False, True]


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


def test_photos_under_old_names_are_added(tmp_path: Path) -> None:
    for i in range(24):
        path = tmp_path / "photos" / ("red", "blue", "unlabelled")[i % 3] / f"{i:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image_bytes(i, (24, 24)))
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
