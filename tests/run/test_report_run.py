"""Reports of run directories, by the command and from Python."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from typer.testing import CliRunner

from conftest import WIDE
from ltgcd.cli import output
from ltgcd.common.files import with_metadata
from ltgcd.data.collection import Collection, Source, Truth
from ltgcd.data.digits import digits_source
from ltgcd.data.items import Texts, Vectors
from ltgcd.data.write_source import write_source
from ltgcd.run.directory import Run
from ltgcd.run.report import report_run

K = {"method": "peaks", "k": 3, "low": 2, "high": 5, "n_old": 2, "curve": [[2, -1.0], [3, -0.5], [4, -0.9]]}


def read_page(path: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def table(ids: list[str], labels: list[int], status: list[str], confidence: list[float], names: list[str]) -> pa.Table:
    return pa.table(
        {
            "id": ids,
            "label": pa.array(labels, pa.int64()),
            "name": names,
            "status": status,
            "confidence": pa.array(confidence, pa.float32()),
        }
    )


def texts_and_vectors(n: int = 40) -> tuple[Source, Source]:
    """The same items as texts, and as vectors with their truth: classes 0 and 1 known, 2 and 3 novel."""
    true = np.sort(np.random.RandomState(0).randint(0, 4, n))
    ids = pa.array([f"item-{i}" for i in range(n)])
    y = np.where((true < 2) & (np.arange(n) % 2 == 0), true, -1)
    texts = Texts(pa.array([f"common words {['red', 'green', 'blue', 'grey'][t]} {i}" for i, t in enumerate(true)]))
    x = (np.eye(4, 5)[true] * 4 + np.random.RandomState(1).randn(n, 5) * 0.3).astype(np.float32)
    truth = Truth(ids, true, ("cat", "dog", "novel-001", "novel-002"), 2)
    known = ("cat", "dog")
    return Source(Collection(ids, texts, y, known), None), Source(Collection(ids, Vectors(x), y, known), truth)


def cli(*arguments: object) -> Any:
    app = typer.Typer()
    app.command("report")(output.report_page)
    app.command("export")(output.export)
    return CliRunner(env=WIDE).invoke(app, [str(a) for a in arguments])


def make_run(folder: Path, source: Source, **metadata: Any) -> Path:
    """A finished run on a source that knows the truth, which is right about everything."""
    assert source.truth is not None
    Run(folder).begin({"method": "kmeans", "k": "auto", "random_state": 5}, source)
    y, names = source.truth.y_true.tolist(), source.truth.class_names
    status = ["known" if label < source.collection.n_old else "novel" for label in y]
    assigned = table(source.collection.ids.to_pylist(), y, status, [0.9] * len(y), [names[label] for label in y])
    pq.write_table(with_metadata(assigned, metadata), folder / "assignments.parquet")
    return folder


def test_a_run_directory_becomes_a_page(tmp_path: Path) -> None:
    source = digits_source()
    npz = write_source(tmp_path / "digits.npz", source)
    run = make_run(tmp_path / "run", source)
    done = cli("report", run, "--source", npz, "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    data = read_page(Path(result["report"]))
    assert data["meta"]["n"] == len(source.collection) == result["n"]
    assert f"{int(source.collection.labelled.sum()):,} of them labelled" in data["meta"]["lead"]
    assert data["meta"]["seed"] == 5
    assert data["k"] is None
    assert data["meta"]["right"] is None  # nothing was rehearsed
    make_run(run, source, k=10, calibration_error=0.021)
    (run / "k_estimate.json").write_text(json.dumps(K))
    report_run(Run(run), features=npz)
    data = read_page(run / "report.html")
    assert data["meta"]["right"] == [78, 82]
    assert data["k"]["curve"] == K["curve"]


def test_items_without_features_are_left_out(tmp_path: Path) -> None:
    source, vectors = texts_and_vectors()
    run = make_run(tmp_path / "run", vectors)
    texts = write_source(tmp_path / "texts.parquet", source)
    some = write_source(tmp_path / "some.npz", Source(vectors.collection.select(np.arange(5, 40)), None))
    pq.write_table(pq.read_table(run / "assignments.parquet").slice(5), run / "assignments.parquet")
    report_run(Run(run), texts, some)
    data = read_page(run / "report.html")
    assert data["meta"]["n"] == 35
    assert "item-39" in [data["items"]["prefix"] + rest for rest in data["items"]["ids"]]
    assert any("grey" in text for text in data["items"]["texts"])


def test_a_run_that_has_no_page_says_why(tmp_path: Path, npz) -> None:
    texts = write_source(tmp_path / "texts.parquet", texts_and_vectors()[0])
    for place, words in (
        (tmp_path / "nowhere", "is not there"),
        (texts, "not a run directory"),
        (tmp_path, "no config.toml"),
    ):
        done = cli("report", place)
        assert done.exit_code == 2
        assert words in done.output
    run = make_run(tmp_path / "run", digits_source())
    for options, words in (
        ((), "--features"),
        (("--source", texts), "give --features"),
        (("--source", npz()), "not in the source"),
        (("--source", tmp_path / "gone.npz"), "is not there"),
    ):
        done = cli("report", run, *options)
        assert done.exit_code == 2, done.output
        assert words in done.output
        assert "Traceback" not in done.output
    (run / "assignments.parquet").unlink()
    assert "finish the run first" in cli("report", run, "--source", npz()).output
