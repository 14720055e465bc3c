"""The report, the served page, the file of assignments and Python tell the same of the classes of one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.review.server.synthetic import WORDS, make_run

from conftest import data_of
from ltgcd.data.items import Texts
from ltgcd.data.sources import read_source
from ltgcd.estimator import CategoryDiscovery
from ltgcd.review.server.session import Session
from ltgcd.run.check import check_run
from ltgcd.run.directory import Run
from ltgcd.run.discover import discover_source
from ltgcd.run.refine import refine_run
from ltgcd.run.relabel import relabel_run
from ltgcd.run.report import report_run
from ltgcd.run.suggested import with_suggestions_of_run
from ltgcd.run.update import update_run

KIND = np.repeat(np.arange(7), [60, 50, 40, 30, 40, 30, 20])
NAMES = ["ant", "bee", "cat", "dog"]
# Noise that all share, and far larger than what tells classes apart: raw and whitened features name other neighbours.
CENTRES = np.random.RandomState(3).randn(8, 24)
NOISE = np.diag([12.0] * 4 + [1.0] * 20)


def source(path: Path, kinds: np.ndarray, seed: int, prefix: str, labels: bool) -> Path:
    random = np.random.RandomState(seed)
    x = (2 * CENTRES[kinds] + random.randn(len(kinds), 24) @ NOISE).astype(np.float32)
    y = np.where((kinds < 4) & (np.arange(len(kinds)) % 2 == 0) & labels, kinds, -1)
    np.savez(path, x=x, y=y, ids=[f"{prefix}{n}" for n in range(len(kinds))], class_names=np.array(NAMES))
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("same")
    discover_source(read_source(source(folder / "x.npz", KIND, 0, "i", labels=True)), folder / "run", k=7, rehearsals=0)
    return Run(folder / "run")


def told(cards: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is said of each class that has items, in the order of the queue."""
    keys = ("code", "name", "known", "size", "leaning", "coherence", "suggested", "nearest", "gain", "why", "far")
    return [{key: one[key] for key in keys} for one in cards if one["size"] or one["leaning"]]


def check_same(run: Run, *, suggests: bool = True) -> list[dict[str, Any]]:
    """Compare everything that describes the classes of a run; `suggests` where the file is as the last fit left it."""
    page = told(Session.open(run.folder).state()["classes"])
    assert told(data_of(run.report.read_text(encoding="utf-8"))["categories"]) == page
    categories = {one.name: one for one in CategoryDiscovery.load(run.folder).categories_}
    for one in page:
        category = categories[one["name"]]
        assert category.suggested_name == one["suggested"]
        names = {other["code"]: other["name"] for other in page}
        assert [[o.name, o.cosine] for o in category.nearest_known] == [[names[c], s] for c, s in one["nearest"]]
    if suggests:
        table = pq.read_table(run.files.assignments)
        written = dict(zip(table.column("label").to_pylist(), table.column("suggested").to_pylist(), strict=True))
        assert {one["code"]: one["suggested"] or None for one in page} == written
    return page


def test_one_run_is_told_in_one_way_from_discovery_to_update(run: Run, tmp_path: Path) -> None:
    first = check_same(run)
    novel = [one["name"] for one in first if not one["known"]]
    assert len(novel) == 3 and all(one["suggested"] for one in first if not one["known"])
    (tmp_path / "said.csv").write_text(f"id,label\ni1,junk\ni180,dog\ni3,{novel[0]}\n")
    relabel_run(run, tmp_path / "said.csv")
    (tmp_path / "named.csv").write_text(f"category,name\n{novel[0]},wasp\nant,emu\n")
    relabel_run(run, tmp_path / "named.csv")
    report_run(run)
    check_same(run, suggests=False)
    refine_run(run).keep()
    check_same(run)
    few, loaded = (
        source(tmp_path / "few.npz", np.repeat([1], 4), 6, "k", labels=False),
        CategoryDiscovery.load(run.folder),
    )
    loaded.update(np.load(few)["x"])
    update_run(run, read_source(few))
    nearest = (
        {one.name: one.nearest_known for one in each.categories_}
        for each in (loaded, CategoryDiscovery.load(run.folder))
    )
    assert next(nearest) == next(nearest), "updated in Python or as a run"
    check_same(run)
    more = source(tmp_path / "more.npz", np.repeat([1, 7, 7], 20), 5, "j", labels=True)
    update_run(run, read_source(more))
    check_same(run)
    assert check_run(run)["sound"]


def test_texts_are_told_in_one_way_too(tmp_path: Path) -> None:
    make_run(
        tmp_path / "run", items=lambda true: Texts(pa.array([f"the {WORDS[t]} one {i}" for i, t in enumerate(true)]))
    )
    run = Run(tmp_path / "run")
    report_run(run)
    features, table = run.features(), run.assignments()
    assert features is not None
    made = with_suggestions_of_run(run, table, features.of(table.column("id").combine_chunks(), run))
    session = Session.open(run.folder)
    session._words.join()
    page = told(session.state()["classes"])
    assert told(data_of(run.report.read_text(encoding="utf-8"))["categories"]) == page
    written = dict(zip(made.column("label").to_pylist(), made.column("suggested").to_pylist(), strict=True))
    assert {one["code"]: one["suggested"] or None for one in page} == written
    assert all(one["known"] or set(one["suggested"].split()) & set(WORDS) for one in page)
