"""`ltgcd update`: new items in a finished run, nothing old changed, what no class explains appended."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import ltgcd.run.update
from conftest import WIDE, data_of, fails, image_bytes, train
from ltgcd.cli import app
from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata
from ltgcd.data.sources import read_source
from ltgcd.discovery.new_categories import closeness_rank, mixing, neighbour_groups, new_categories, unexplained_items
from ltgcd.graph.knn import NeighbourGraph, knn_graph
from ltgcd.graph.whitening import normalise, principal_components
from ltgcd.output.report.layout import places_beside, places_on_map
from ltgcd.review.log import StaleError
from ltgcd.run.directory import Run
from ltgcd.run.discover import Embedding, discover_source
from ltgcd.run.evaluate import evaluate_run
from ltgcd.run.predict import predict_source
from ltgcd.run.refine import refine_run
from ltgcd.run.relabel import relabel_run
from ltgcd.run.report import report_run
from ltgcd.run.reviewed import RunReview
from ltgcd.run.update import update_run

CENTRES = np.eye(9, 24) * 4


def blobs(true: np.ndarray, seed: int) -> np.ndarray:
    return (CENTRES[true] + np.random.RandomState(seed).randn(len(true), 24) * 0.7).astype(np.float32)


def write(path: Path, true: np.ndarray, y: np.ndarray, prefix: str, seed: int) -> Path:
    """An .npz of blobs; classes 0–3 are known, 4 and 5 novel, 6–8 absent from the run."""
    np.savez(path, x=blobs(true, seed), y=y, y_true=true, ids=np.array([f"{prefix}{i}" for i in range(len(true))]))
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of six blobs, four of them known."""
    folder = tmp_path_factory.mktemp("update")
    true = np.random.RandomState(0).randint(6, size=1000)
    y = np.where((true < 4) & (np.arange(1000) % 2 == 0), true, -1)
    source = write(folder / "old.npz", true, y, "old", 0)
    discover_source(read_source(source), folder / "run", k=6)
    return folder / "run"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """Sixty items of the six classes, thirty of a seventh, twelve of an eighth, one of a ninth."""
    true = np.concatenate([np.arange(60) % 6, np.full(30, 6), np.full(12, 7), [8]])
    return write(tmp_path / "new.npz", true, np.full(103, -1), "new", 1)


def command(*arguments: object) -> dict[str, Any]:
    done = CliRunner(env=WIDE).invoke(app, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def rows(run: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(run / "assignments.parquet").to_pylist()
    return found


def contents(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_old_items_stay_and_absent_classes_are_appended(run: Path, new: Path) -> None:
    before = rows(run)
    result = command("update", run, new)
    assert result["n"] == result["n_added"] == 103
    assert (result["n_present"], result["n_skipped"], result["k"]) == (0, 0, 8)
    assert result["known"] + result["novel"] + result["unsure"] == 103
    after = rows(run)
    assert after[:1000] == before
    assert [row["id"] for row in after[1000:]] == [f"new{i}" for i in range(103)]
    assert (result["added"], result["grown"], result["unchanged"]) == (2, 6, 0)
    assert [row["name"] for row in result["categories_added"]] == ["novel-003", "novel-004"]
    assert all(row["after"] > row["before"] > 0 for row in result["categories_grown"])
    label = np.array([row["label"] for row in after[1000:]])
    assert (label[60:90] == 6).all()
    assert (label[90:102] == 7).all()
    assert (label[:60] < 6).mean() > 0.9
    assert after[-1]["status"] == "unsure", "one item is no category"
    # Everything else works on the run as it is now.
    assert evaluate_run(Run(run)).as_dict()["n"] == 1103 - _labelled(run)
    assert evaluate_run(Run(run)).as_dict()["acc"]["all"] > 95
    assert report_run(Run(run))["n"] == 1103
    assert command("export", run, "--format", "csv", "--out", run.parent / "out.csv")["n"] == 1103
    assert '"n":1103' in (run / "report.html").read_text()


def _labelled(run: Path) -> int:
    table = pq.read_table(run / "split.parquet")
    assert len(table) == len(rows(run))
    return len(table) - table.column("label").null_count


def test_the_same_update_twice_changes_nothing(run: Path, new: Path) -> None:
    update_run(Run(run), read_source(new))
    before = contents(run)
    again = update_run(Run(run), read_source(new))
    assert (again["n_added"], again["n_present"], again["added"], again["grown"]) == (0, 103, 0, 0)
    assert again["unchanged"] == 8
    assert contents(run) == before


def test_a_class_that_people_made_is_not_one_that_the_update_added(run: Path, new: Path, tmp_path: Path) -> None:
    (tmp_path / "merged.csv").write_text("category,name\nnovel-002,novel-001\n")  # so that codes have a gap
    moved = [row["id"] for row in rows(run) if row["name"] == "novel-001"][:5]
    (tmp_path / "said.csv").write_text("id,label\n" + "".join(f"{one},wasp\n" for one in moved) + "old0,junk\n")
    for said in ("merged.csv", "said.csv"):
        relabel_run(Run(run), tmp_path / said)
    result = update_run(Run(run), read_source(new))
    added = {row["name"] for row in result["categories_added"]}
    assert added and not added & {row["name"] for row in rows(run)[:1000]}, "'wasp' was there before"
    assert len({(row["label"], row["name"]) for row in rows(run) if row["status"] in ("known", "novel")}) == (
        result["added"] + result["grown"] + result["unchanged"]
    )
    again = update_run(Run(run), read_source(new))
    assert (again["n_added"], again["added"], again["grown"]) == (0, 0, 0)


def test_a_second_update_goes_on_where_the_first_one_ended(run: Path, new: Path, tmp_path: Path) -> None:
    update_run(Run(run), read_source(new))
    first = rows(run)
    true = np.concatenate([np.full(10, 6), np.full(10, 0), np.full(20, 8)])
    second = update_run(Run(run), read_source(write(tmp_path / "more.npz", true, np.full(40, -1), "more", 2)))
    after = rows(run)
    assert after[: len(first)] == first
    label = np.array([row["label"] for row in after[len(first) :]])
    assert (label[:10] == 6).all(), "the category that the first update appended has grown"
    assert (label[20:] == 8).all()
    assert [row["name"] for row in second["categories_added"]] == ["novel-005"]
    assert sorted(path.name for path in (run / "updates").iterdir()) == ["001", "002"]
    # `predict` knows the appended categories as well.
    true = np.repeat([6, 7, 8, 1], 5)
    new_items = read_source(write(tmp_path / "p.npz", true, np.full(20, -1), "p", 3))
    predict_source(Run(run), new_items, tmp_path / "p.parquet")
    predicted = pq.read_table(tmp_path / "p.parquet").to_pylist()
    assert [row["label"] for row in predicted[:15]] == [6] * 5 + [7] * 5 + [8] * 5
    assert {row["name"] for row in predicted[:5]} == {"novel-003"}


STEPS = {
    "own": (Run, "write_update"),
    "features": (Run, "write_features"),
    "places": (ltgcd.run.update, "_place"),
    "labels": (Run, "settle_labels"),
    "page": (ltgcd.run.update, "draw_report"),
}


@pytest.mark.parametrize("step", list(STEPS))
def test_killed_half_way_the_same_command_goes_on(
    run: Path, new: Path, step: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = Path(shutil.copytree(run, tmp_path / "whole"))
    expected = update_run(Run(whole), read_source(new))
    old = rows(run)
    real: Callable[..., Any] = getattr(*STEPS[step])
    calls = []

    def killed(*arguments: Any, **keywords: Any) -> Any:
        calls.append(arguments)
        if step == "labels" and len(calls) == 1:
            return real(*arguments, **keywords)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(*STEPS[step], killed)
        with pytest.raises(KeyboardInterrupt):
            update_run(Run(run), read_source(new))
    committed = step in ("labels", "page")
    assert rows(run) == (rows(whole) if committed else old)
    evaluate_run(Run(run))
    report_run(Run(run))
    again = update_run(Run(run), read_source(new))
    assert again["n_added"] == (0 if committed else 103)
    assert again["k"] == expected["k"]
    assert rows(run) == rows(whole)
    assert pq.read_table(run / "split.parquet").equals(pq.read_table(whole / "split.parquet"))
    assert evaluate_run(Run(run)).as_dict() == evaluate_run(Run(whole)).as_dict()


def test_labels_of_new_items_are_kept(run: Path, tmp_path: Path) -> None:
    true = np.repeat([0, 1, 6], 8)
    path = write(tmp_path / "new.npz", true, np.full(24, -1), "new", 4)
    labels = tmp_path / "labels.csv"
    # A label against the evidence, one of a novel category, and a class that no one has heard of before.
    labels.write_text("id,label\nnew0,3\nnew16,77\nnew17,77\n")
    result = command("update", run, path, "--labels", labels)
    after = {row["id"]: row for row in rows(run)}
    assert (after["new0"]["label"], after["new0"]["name"], after["new0"]["status"]) == (3, "3", "known")
    assert [(after[i]["label"], after[i]["name"], after[i]["status"]) for i in ("new16", "new17")] == [
        (6, "77", "known")
    ] * 2
    assert sum(after[f"new{i}"]["name"] == "77" for i in range(18, 24)) >= 4, "items like them join the class"
    assert result["categories_added"][0]["name"] == "77"
    split = {row["id"]: row["label"] for row in pq.read_table(run / "split.parquet").to_pylist()}
    assert (split["new0"], split["new16"], split["new18"]) == ("3", "77", None)
    evaluate_run(Run(run))
    report_run(Run(run))
    # The name stays with the class in the next update.
    more = write(tmp_path / "more.npz", np.full(6, 6), np.full(6, -1), "more", 5)
    update_run(Run(run), read_source(more))
    assert {row["name"] for row in rows(run)[-6:]} == {"77"}


def test_another_truth_changes_no_label(run: Path, new: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(run, tmp_path / "other"))
    arrays = dict(np.load(new))
    np.savez(tmp_path / "lie.npz", **{**arrays, "y_true": np.random.RandomState(7).permutation(arrays["y_true"])})
    update_run(Run(run), read_source(new))
    update_run(Run(other), read_source(tmp_path / "lie.npz"))
    assert rows(run) == rows(other)


def test_more_of_the_same_is_no_new_category(run: Path, tmp_path: Path) -> None:
    """Also where the new items are not distributed as the old ones are."""
    true = np.repeat([2, 5], [150, 10])
    result = update_run(Run(run), read_source(write(tmp_path / "new.npz", true, np.full(160, -1), "new", 6)))
    assert result["added"] == 0


def test_a_run_without_its_features_asks_for_them(finished: Path, tmp_path: Path, new: Path) -> None:
    old = finished.parent / "old.npz"
    train(read_source(old), tmp_path / "trained", k=6)
    with pytest.raises(InputError, match="--source"):
        update_run(Run(tmp_path / "trained"), read_source(new))
    # Old ids with other content are other items, also where the run itself keeps nothing to compare them with.
    with np.load(new) as held:
        np.savez(tmp_path / "numbered.npz", **{**held, "ids": np.array([f"old{i}" for i in range(len(held["x"]))])})
    copied = shutil.copytree(tmp_path / "trained", tmp_path / "copied")
    numbered = read_source(tmp_path / "numbered.npz")
    with pytest.raises(InputError, match="keeps no features"):
        update_run(Run(copied), numbered)
    result = update_run(Run(copied), numbered, base=old)
    assert result["n_present"] == 0 and result["n_renamed"] == result["n_added"] == len(numbered.collection)
    result = update_run(Run(tmp_path / "trained"), read_source(new), base=old)
    assert result["n_added"] == 103
    assert update_run(Run(tmp_path / "trained"), read_source(new))["n_added"] == 0


def test_other_vectors_under_the_same_ids_are_refused(finished: Path, tmp_path: Path, new: Path) -> None:
    """What a run is told to be made of is checked: noise, or vectors of another length, would poison what follows."""
    old = finished.parent / "old.npz"
    train(read_source(old), tmp_path / "trained", k=6)
    held = dict(np.load(old))
    for name, x in (("noise", held["x"][::-1]), ("short", held["x"][:, :5])):
        np.savez(tmp_path / f"{name}.npz", **{**held, "x": x})
        with pytest.raises(InputError, match="holds other vectors"):
            update_run(Run(tmp_path / "trained"), read_source(new), base=tmp_path / f"{name}.npz")


def test_assignments_that_another_tool_rewrote_are_refused(run: Path, new: Path) -> None:
    path = run / "assignments.parquet"
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    before = contents(run)
    with pytest.raises(InputError, match="rewritten by another tool"):
        update_run(Run(run), read_source(new))
    assert contents(run) == before


def test_predict_does_not_forget_the_updates_of_a_run_without_its_table(run: Path, new: Path, tmp_path: Path) -> None:
    update_run(Run(run), read_source(new))
    (run / "assignments.parquet").unlink()
    assert "assignments.parquet is missing" in fails("predict", run, new, "--out", tmp_path / "p.parquet")


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_labels_that_another_tool_wrote_in_another_form_are_added_to(run: Path, new: Path, kind: pa.DataType) -> None:
    table = pq.read_table(run / "split.parquet").replace_schema_metadata(None)
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    if pa.types.is_dictionary(kind):
        columns = {name: column.dictionary_encode() for name, column in columns.items()}
    else:
        columns = {name: column.cast(kind) for name, column in columns.items()}
    pq.write_table(pa.table(columns), run / "split.parquet")
    update_run(Run(run), read_source(new))
    assert pq.read_schema(run / "split.parquet").field("id").type == pa.string()
    assert Run(run).labels_are_settled


def test_bad_input_is_a_sentence(run: Path, new: Path, tmp_path: Path) -> None:
    before = contents(run)
    np.savez(tmp_path / "narrow.npz", x=np.ones((5, 3)), y=np.full(5, -1), ids=np.array(list("abcde")))
    (tmp_path / "texts.csv").write_text("text\nhello\nworld\n")
    (tmp_path / "empty").mkdir()
    train(read_source(run.parent / "new.npz", _some_labels(tmp_path)), tmp_path / "clustered", method="kmeans", k=9)
    for arguments, words in [
        ((run, tmp_path / "narrow.npz"), "3 numbers"),
        ((run, tmp_path / "texts.csv"), "trained on embeddings from elsewhere"),
        ((run, tmp_path / "nowhere"), "is not there"),
        ((tmp_path / "empty", new), "not a run directory"),
        ((tmp_path / "clustered", new), "no trained model"),
    ]:
        assert words in fails("update", *arguments)
    assert contents(run) == before


def _some_labels(folder: Path) -> Path:
    (folder / "some.csv").write_text("id,label\nnew0,0\nnew1,1\n")
    return folder / "some.csv"


def test_discover_does_not_undo_an_update(finished: Path, run: Path, new: Path) -> None:
    update_run(Run(run), read_source(new))
    before = contents(run)
    with pytest.raises(InputError, match="updated 1 time since"):
        discover_source(read_source(finished.parent / "old.npz"), run, k=6)
    assert contents(run) == before


# ---------------------------------------------------------------- images and texts


def photos(folder: Path, names: list[str], first: int) -> Path:
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image_bytes(first + number, (24, 24)))
    return folder


def test_images_are_embedded_once_and_broken_ones_named(tmp_path: Path) -> None:
    names = [f"{('red', 'blue', 'unlabelled')[i % 3]}/{i:02d}.png" for i in range(36)]
    source = read_source(photos(tmp_path / "photos", names, 0))
    discover_source(source, tmp_path / "run", k=3, embedding=Embedding(image_size=32))
    added = photos(tmp_path / "added", ["n1.png", "n2.png", "n3.png"], 50)
    (added / "broken.png").write_bytes(b"no picture")
    done = command("update", tmp_path / "run", added)
    assert (done["n_added"], done["n_skipped"]) == (3, 1)
    assert done["skipped"][0]["id"] == "broken.png"
    assert "broken.png" in (tmp_path / "run/updates/001/features/skipped.csv").read_text()
    assert data_of((tmp_path / "run/report.html").read_text())["pictures"]
    # The broken one is still broken: named again, and nothing else happens.
    before = rows(tmp_path / "run")
    again = update_run(Run(tmp_path / "run"), read_source(added))
    assert (again["n_added"], again["n_present"], again["n_skipped"]) == (0, 3, 1)
    assert rows(tmp_path / "run") == before
    # Mended, it is added, from a parquet file beside a folder of files, and only it is embedded.
    (added / "broken.png").write_bytes(image_bytes(99, (24, 24)))
    image = [{"bytes": (added / name).read_bytes(), "path": name} for name in ("n1.png", "broken.png")]
    pq.write_table(pa.table({"image": pa.array(image)}), tmp_path / "added.parquet")
    mended = update_run(Run(tmp_path / "run"), read_source(tmp_path / "added.parquet"))
    assert (mended["n_added"], mended["n_present"], mended["n_skipped"]) == (1, 1, 0)
    shard = pq.read_table(next((tmp_path / "run/updates/002/features").glob("shard-*.parquet")))
    assert shard.column("id").to_pylist() == ["broken.png"]
    kept = read_source(tmp_path / "run/items.parquet").collection
    assert len(kept) == 40
    assert kept.items.take(np.array([39]))[0] == (added / "broken.png").read_bytes()
    places = ("--source", tmp_path / "run/items.parquet", "--out", tmp_path / "sorted")
    assert command("export", tmp_path / "run", "--format", "folders", *places)["n"] == 40
    # An old photo that is gone does not stand in the way.
    (tmp_path / "photos/red/00.png").unlink()
    more = photos(tmp_path / "more", ["m1.png"], 70)
    assert update_run(Run(tmp_path / "run"), read_source(more))["n_added"] == 1


# ---------------------------------------------------------------- the parts


def test_rank_worked_out_by_hand() -> None:
    """A class on a fan of angles: 0°, ±10°, ±20°; the centre without an item is the mean of the other directions."""

    def at(*degrees: float) -> np.ndarray:
        angle = np.deg2rad(degrees)
        return np.column_stack([np.cos(angle), np.sin(angle)]).astype(np.float32)

    fan = [0.0, 10, -10, 20, -20]
    white = np.concatenate([at(*fan), at(90.0), at(15, 15, 15), at(60, 60, 60)])
    classes = np.array([0] * 5 + [1] + [-1] * 6)
    # Angles to the centre of the other four: 0 for 0°, 12.5 for ±10°, 25 for ±20° (to the mean of the unit vectors).
    own = []
    for i in range(5):
        rest = np.delete(at(*fan), i, axis=0).sum(axis=0)
        own.append(float(at(*fan)[i] @ rest / np.linalg.norm(rest)))
    expected = np.mean(np.array(own) < np.cos(np.deg2rad(15)))
    near, far = closeness_rank(white, classes, np.arange(6, 9), 3), closeness_rank(white, classes, np.arange(9, 12), 3)
    assert near[0] == pytest.approx(expected) == 0.4
    assert far[0] == 0
    assert near[2] == far[2] == 0, "a class without items holds nothing"
    assert near[1] == far[1] == 0, "the single item at 90° is farther from both groups than any of their own"


def test_mixing_worked_out_by_hand() -> None:
    """Neighbours of rows 4 and 5: each other, twice an item of class 0, once one of class 1, which has three items."""
    near = np.array([[1, 2], [0, 2], [0, 1], [0, 1], [5, 0, 1, 2], [4, 0, 6, 6]], dtype=object)
    indices = np.array([[*row, *row][:4] for row in near], dtype=np.int64)
    indices[5] = [4, 0, 6, 3]
    graph = NeighbourGraph(np.concatenate([indices, indices[:1]]), np.ones((7, 4), dtype=np.float32), 1.0, True)
    classes = np.array([0, 0, 1, 1, -1, -1, 1])
    # Group items meet one another twice in all, 2 / (2 − 1) each; class 0 is met three times by two items, class 1
    # three times by three.
    got = mixing(graph, classes, np.array([4, 5]), 3)
    assert got.tolist() == pytest.approx([3 / 2 / 2, 3 / 3 / 2, 0])
    # Strangers among themselves mix with whatever they are near to.
    assert (mixing(graph, classes, np.array([4]), 3)[:2] > 1).all()


def test_what_comes_in_numbers_is_told_from_what_does_not() -> None:
    """Classes that overlap, mean of six draws: three items of an absent class are no news, the same of thirty are."""
    found = []
    for seed in range(6):
        random = np.random.RandomState(seed)
        true = np.concatenate([np.repeat(np.arange(12), 60), np.repeat(np.arange(13), [*[5] * 12, 30])])
        x = (0.75 * random.randn(13, 24)[true] + random.randn(len(true), 24)).astype(np.float32)
        for n in (3, 30):
            rows = np.arange(len(true) - 30 + n)
            z, asked = principal_components(x[rows]), rows[720:]
            classes = np.where(rows < 720, true[rows], -1)
            _, together = unexplained_items(z, classes, knn_graph(z, 30), asked)
            found.append((together[60:63].mean(), np.mean((together > 0.5) == (true[asked] >= 12))))
    news, right = np.array(found).reshape(6, 2, 2).mean(axis=0).T
    assert news[0] < 0.1 and news[1] > 0.7
    assert (right > 0.9).all()


def test_groups_are_of_neighbours() -> None:
    x = np.concatenate([blobs(np.full(8, 0), 0), blobs(np.full(8, 1), 1), blobs(np.repeat(np.arange(2, 9), 15), 2)])
    graph = knn_graph(x, 10)
    group = neighbour_groups(graph, np.concatenate([np.arange(16), [16, 31]]))
    assert len(np.unique(group[:8])) == 1
    assert len(np.unique(group[8:16])) == 1
    assert len(np.unique(group)) == 4
    assert neighbour_groups(graph, np.array([0, 16])).tolist() == [0, 1]


def test_nothing_to_learn_from_appends_nothing() -> None:
    x = normalise(np.random.RandomState(0).randn(30, 8))
    y = np.where(np.arange(30) < 20, 0, -1)
    found = new_categories(x, y, y, y == -1, 1)
    assert (found.labels == -1).all()
    assert not found.alone.any()
    nothing = new_categories(x, y, np.arange(30) % 2, np.zeros(30, dtype=bool), 2)
    assert (nothing.labels == -1).all()


def test_neither_the_order_of_rows_nor_the_numbers_of_classes_change_what_is_found() -> None:
    random = np.random.RandomState(3)
    true = np.concatenate([random.randint(6, size=300), random.randint(9, size=120)])
    x, new = blobs(true, 3), np.arange(420) >= 300
    classes = np.where(new | (random.rand(420) < 0.1), -1, true)
    y = np.where((true < 4) & ~new & (np.arange(420) % 2 == 0), true, -1)
    x[310], x[340] = x[305], x[20]  # copies
    found = new_categories(x, y, classes, new, 6)
    assert (found.labels >= 6).any()
    order, number = random.permutation(420), np.append(random.permutation(6), -1)
    other = new_categories(x[order], number[y][order], number[classes][order], new[order], 6)
    for one, two in zip(found, other, strict=True):
        np.testing.assert_array_equal(one[order], two)


def test_neither_the_order_of_rows_nor_the_numbers_of_categories_move_the_map() -> None:
    random = np.random.RandomState(4)
    true = random.randint(6, size=80)
    x, order, number = blobs(true, 4), random.permutation(60), random.permutation(6)
    new = 60 + random.permutation(20)
    one = places_on_map(x[:60], true[:60])
    two = places_on_map(x[order], number[true[order]])
    np.testing.assert_array_equal(one.xy[order], two.xy)
    later = places_beside(one, x[:60], x[60:], true[60:], 6)
    other = places_beside(two, x[order], x[new], true[new], 6)
    np.testing.assert_allclose(later.xy[np.concatenate([order, new])], other.xy, atol=1e-4)


def test_the_whole_is_kept_in_the_metadata(run: Path, new: Path) -> None:
    update_run(Run(run), read_source(new))
    told = read_metadata(pq.read_table(run / "assignments.parquet").schema)
    assert (told["k"], told["n_old"], told["updates"], told["classes"]["known"]) == (8, 4, 1, [True] * 4 + [False] * 4)
    assert told["calibration_error"] is not None


def test_points_stay_where_they_are(run: Path, new: Path) -> None:
    """An update puts new items beside the old ones, and drawing the page again moves nothing."""
    ids, before = Run(run).places()
    update_run(Run(run), read_source(new))
    later, after = Run(run).places()
    assert later.slice(0, len(ids)).equals(ids)
    assert np.array_equal(after.xy[: len(ids)], before.xy)
    page = Run(run).report.read_text()
    report_run(Run(run))
    assert Run(run).report.read_text() == page
    assert np.array_equal(Run(run).places()[1].xy, after.xy)


def test_the_runner_up_of_a_new_item_is_the_class_that_it_would_be_in_otherwise(run: Path, tmp_path: Path) -> None:
    refine_run(Run(run)).keep()  # from then on a run knows the runner-up of every item
    between = np.tile([[1, 2], [3, 0]], (6, 1))  # more of the first, and some of the second
    x = 0.7 * CENTRES[between[:, 0]] + 0.3 * CENTRES[between[:, 1]] + 0.2 * np.random.RandomState(4).randn(12, 24)
    np.savez(tmp_path / "new.npz", x=x.astype(np.float32), y=np.full(12, -1), ids=[f"new{n}" for n in range(12)])
    update_run(Run(run), read_source(tmp_path / "new.npz"))
    table = Run(run).assignments().slice(1000)
    assert table.column("label").to_pylist() == between[:, 0].tolist()
    assert table.column("runner_up").to_pylist() == between[:, 1].tolist()


def test_a_review_that_has_not_seen_an_update_says_nothing_about_it(run: Path, new: Path) -> None:
    """Nobody has reviewed the run yet, so that its labels are kept as a base with the first edit: those of now."""
    held, fit = RunReview.open(Run(run)), refine_run(Run(run))
    update_run(Run(run), read_source(new))
    n = len(Run(run).assignments())
    assert n > 1000
    with pytest.raises(StaleError, match="updated meanwhile"):
        held.act([{"op": "junk", "rows": [3]}])
    with pytest.raises(StaleError, match="while it was fitted again"):
        fit.keep()
    held.refresh()
    held.act([{"op": "junk", "rows": [3]}], applies=True)
    assert len(Run(run).assignments()) == n
