"""The column ``suggested``: proposed names follow the categories through reviews, refits, updates and exports."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from conftest import call_cli
from ltgcd.common.files import read_metadata, with_metadata
from ltgcd.data.items import Texts
from ltgcd.data.sources import read_source
from ltgcd.discovery.task import configure
from ltgcd.estimator import CategoryDiscovery
from ltgcd.output.report.categories import describe_categories
from ltgcd.run.check import check_run
from ltgcd.run.directory import Run
from ltgcd.run.discover import discover_source
from ltgcd.run.refine import refine_run
from ltgcd.run.relabel import relabel_run, undo_relabel
from ltgcd.run.suggested import shown_collection, source_labels
from ltgcd.run.train import train_run
from ltgcd.run.update import update_run

KIND = np.repeat(np.arange(6), [60, 40, 30, 40, 30, 20])
CENTRES = 4 * np.random.RandomState(7).randn(7, 16)


def vectors(kinds: np.ndarray, seed: int) -> np.ndarray:
    return (CENTRES[kinds] + np.random.RandomState(seed).randn(len(kinds), 16)).astype(np.float32)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    y = np.where((KIND < 3) & (np.arange(len(KIND)) % 2 == 0), KIND, -1)
    ids, names = np.array([f"i{n}" for n in range(len(KIND))]), np.array(["ant", "bee", "cat"])
    np.savez(folder / "x.npz", x=vectors(KIND, 0), y=y, ids=ids, class_names=names)
    discover_source(read_source(folder / "x.npz"), folder / "run", k=6, rehearsals=0)
    return folder / "run"


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Run:
    shutil.copytree(made, tmp_path / "run")
    return Run(tmp_path / "run")


def proposals(run: Run) -> dict[str, set[str | None]]:
    """What the file of assignments proposes for each class, by name."""
    table = pq.read_table(run.files.assignments)
    found: dict[str, set[str | None]] = {}
    for name, suggested in zip(table.column("name").to_pylist(), table.column("suggested").to_pylist(), strict=True):
        found.setdefault(name, set()).add(suggested)
    return found


def described(run: Run) -> dict[str, set[str | None]]:
    """The same by the description of all categories, which the page shows."""
    table, features = run.assignments(), run.features()
    assert features is not None
    x = features.of(table.column("id").combine_chunks(), run)
    categories = describe_categories(
        shown_collection(run, table, x), x, table, source_labels(run, table.column("id").combine_chunks())
    )
    return {one.name: {one.suggested_name or None} for one in categories}


def said(run: Run, text: str) -> dict:
    path = run.folder.parent / "corrections.csv"
    path.write_text(text)
    return relabel_run(run, path)


def test_novel_categories_are_proposed_a_name_and_classes_none(run: Run) -> None:
    found = proposals(run)
    assert found == described(run)
    assert all(found[name] == {None} for name in ("ant", "bee", "cat"))
    novel = [next(iter(found[name])) for name in found if name.startswith("novel")]
    assert len(novel) == 3 and all(name is not None and name.startswith("near ") for name in novel)


def test_the_column_follows_what_people_say_and_take_back(run: Run) -> None:
    before = proposals(run)
    first, second, third = sorted(name for name in before if name.startswith("novel"))
    said(run, f"category,name\n{first},wasp\n{third},{second}\n")
    after = proposals(run)
    assert after["wasp"] == {None} and after[second] == before[second] and third not in after
    table = pq.read_table(run.files.assignments)
    here = table.column("name").to_pylist().index(second)
    said(run, f"id,label\n{table.column('id')[here].as_py()},wasp\n")
    assert pq.read_table(run.files.assignments).column("suggested")[here].as_py() is None
    assert check_run(run)["problems"] == [] or all("report" in p["file"] for p in check_run(run)["problems"])
    undo_relabel(run, 2)
    assert proposals(run) == before


def test_refits_and_updates_propose_anew(run: Run, tmp_path: Path) -> None:
    first = min(name for name in proposals(run) if name.startswith("novel"))
    said(run, f"category,name\n{first},wasp\nant,emu\nbee,fox\ncat,gnu\n")
    refine_run(run).keep()
    assert proposals(run) == described(run) and proposals(run)["wasp"] == {None}
    told = " ".join(str(next(iter(names))) for names in proposals(run).values())
    assert "near" in told and not any(old in told for old in ("ant", "bee", "cat")), "its neighbours have new names"
    np.savez(tmp_path / "more.npz", x=vectors(np.repeat(6, 30), 5), y=np.full(30, -1), ids=[f"j{n}" for n in range(30)])
    update = update_run(run, read_source(tmp_path / "more.npz"))
    (added,) = (row["name"] for row in update["categories_added"])
    assert proposals(run) == described(run) and proposals(run)[added] != {None}
    assert check_run(run)["sound"], check_run(run)["problems"]


def test_exports_show_it_and_corrections_ignore_it(run: Run, tmp_path: Path) -> None:
    for form in ("csv", "parquet"):
        out = tmp_path / f"labels.{form}"
        assert call_cli("export", run, "--format", form, "--out", out).code == 0
        table = pacsv.read_csv(out) if form == "csv" else pq.read_table(out)
        shown = [name or None for name in table.column("suggested").to_pylist()]
        assert shown == run.assignments().column("suggested").to_pylist() and any(shown)
        assert relabel_run(run, out)["events"] == 0, "nothing was edited"
    lines = (tmp_path / "labels.csv").read_text().splitlines()
    other = [line.replace("near ", "far from ") for line in lines]
    assert other != lines
    (tmp_path / "labels.csv").write_text("\n".join(other) + "\n")
    told = relabel_run(run, tmp_path / "labels.csv")
    assert (told["events"], told["refused"]) == (0, [])


def test_labels_of_an_export_do_not_take_a_proposal_for_a_class(run: Run, made: Path, tmp_path: Path) -> None:
    assert call_cli("export", run, "--format", "csv", "--out", tmp_path / "labels.csv").code == 0
    again = read_source(made.parent / "x.npz", labels=tmp_path / "labels.csv").collection
    assert not any(name.startswith("near") for name in again.class_names)


def test_check_names_a_column_that_is_not_what_is_noted(run: Run) -> None:
    table = run.written_assignments()
    assert check_run(run)["sound"]
    note = {**read_metadata(table.schema), "suggested": {}}
    run.write_assignments(with_metadata(table, note))
    told = check_run(run)
    assert not told["sound"] and "suggested" in told["problems"][0]["what"] and told["problems"][0]["follows"]
    assert check_run(run, repair=True)["sound"] and proposals(run) == described(run)


def test_a_run_without_the_column_is_sound_and_gets_it_with_the_next_refit(run: Run) -> None:
    table = run.written_assignments().drop_columns(["suggested"])
    note = {key: value for key, value in read_metadata(table.schema).items() if key != "suggested"}
    run.write_assignments(with_metadata(table, note))
    said(run, "id,label\ni1,bee\n")
    assert "suggested" not in pq.read_table(run.files.assignments).column_names
    refine_run(run).keep()
    assert proposals(run) == described(run) and check_run(run)["sound"]


def test_texts_give_words(tmp_path: Path) -> None:
    words = ["plum", "fig", "kiwi", "pear", "lime", "date"]
    y = np.where((KIND < 3) & (np.arange(len(KIND)) % 2 == 0), KIND, -1)
    np.savez(tmp_path / "x.npz", x=vectors(KIND, 0), y=y, class_names=np.array(words[:3]))
    texts = Texts(pa.array([f"the {words[kind]} is ripe" for kind in KIND]))
    config = configure(k=6, rehearsals=0)
    done = train_run(read_source(tmp_path / "x.npz"), tmp_path / "run", config, texts=texts)
    found = {name: next(iter(names)) for name, names in proposals(done.run).items() if name.startswith("novel")}
    assert sorted(str(name).split(" · ")[0] for name in found.values()) == ["date", "lime", "pear"]


def test_python_saves_it_too(tmp_path: Path) -> None:
    y = [["ant", "bee", "cat"][k] if k < 3 and n % 2 == 0 else None for n, k in enumerate(KIND)]
    model = CategoryDiscovery(n_classes=6, rehearsals=0).fit(vectors(KIND, 0), y)
    run = Run(model.save(tmp_path / "saved"))
    assert proposals(run) == {one.name: {one.suggested_name or None} for one in model.categories_}
