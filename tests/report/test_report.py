"""The report page without a browser: its figures against slow code, its file, and odd runs."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

from conftest import image_bytes
from ltgcd.cli import output
from ltgcd.common.errors import InputError
from ltgcd.common.files import with_metadata
from ltgcd.data.collection import Collection, Source, Truth
from ltgcd.data.digits import digits_source
from ltgcd.data.items import ImageBytes, Texts, Vectors
from ltgcd.data.sources import write_source
from ltgcd.report import categories as c
from ltgcd.report.columns import _by_priority, _shortened
from ltgcd.report.layout import map_items, tail_sample
from ltgcd.report.page import write_report
from ltgcd.report.pictures import thumbnails
from ltgcd.run.directory import open_run
from ltgcd.run.report import report_run

K = {"method": "peaks", "k": 3, "low": 2, "high": 5, "n_old": 2, "curve": [[2, -1.0], [3, -0.5], [4, -0.9]]}


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


def problem(n: int = 40, kind: str = "vector", d: int = 5, seed: int = 0) -> tuple[Source, np.ndarray, pa.Table]:
    """Blobs: classes 0 and 1 known, 2 novel, 3 a novel single item; every ninth item unsure."""
    random = np.random.RandomState(seed)
    true = np.sort(np.concatenate([[3], random.randint(0, 3, n - 1)]))
    x = (np.eye(4, d)[true] * 4 + random.randn(n, d) * 0.3).astype(np.float32)
    ids = pa.array([f"item-{i}" for i in range(n)])
    items: Any = Vectors(x)
    if kind == "text":
        items = Texts(pa.array([f"common words {['red', 'green', 'blue', 'grey'][t]} {i}" for i, t in enumerate(true)]))
    if kind == "image":
        items = ImageBytes(pa.array([image_bytes(i, (40, 30)) for i in range(n)], pa.binary()))
    y = np.where((true < 2) & (np.arange(n) % 2 == 0), true, -1)
    collection = Collection(ids, items, y, ("cat", "dog"))
    status = np.where(true < 2, "known", "novel").astype(object)
    status[(np.arange(n) % 9 == 4) & (y < 0) & (true < 3)] = "unsure"
    names = [["cat", "dog", "novel-001", "novel-002"][t] for t in true]
    confidence = random.uniform(0.5, 1, n).tolist()
    return Source(collection, None), x, table(ids.to_pylist(), true.tolist(), status.tolist(), confidence, names)


def read_page(path: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def write(folder: Path, source: Source, x: np.ndarray, assignments: pa.Table, **given: Any) -> dict[str, Any]:
    settings_ = {"k_estimate": K, "calibration_error": 0.03, **given}
    return read_page(write_report(folder, source, x, assignments, **settings_))


# ---------------------------------------------------------------- figures


def test_coherence_and_closeness_against_slow_code() -> None:
    source, x, assignments = problem(30)
    assigned = c.align(source.collection, assignments)
    z = c.directions(x[assigned.rows])
    found = c.geometry(z, assigned)
    members = [[i for i in range(30) if assigned.members[i] == cat] for cat in range(4)]
    centre = [z[rows].mean(axis=0) if rows else np.zeros(5) for rows in members]

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))

    silhouettes: dict[int, list[float]] = {cat: [] for cat in range(4)}
    for i in range(30):
        cat = int(assigned.category[i])
        rest = [j for j in members[cat] if j != i]
        if not rest:
            continue
        a = 1 - cosine(z[i], z[rest].mean(axis=0))
        assert found.closeness[i] == pytest.approx(1 - a, abs=1e-4)
        b = min(1 - cosine(z[i], centre[other]) for other in range(4) if other != cat)
        if assigned.status[i] != c.UNSURE:
            silhouettes[cat].append((b - a) / max(a, b))
    for cat in range(3):
        assert found.coherence[cat] == pytest.approx(np.mean(silhouettes[cat]), abs=1e-4)
    assert np.isnan(found.coherence[3])  # a single item
    assert found.similarity[0, 1] == pytest.approx(cosine(centre[0], centre[1]), abs=1e-4)


def test_nearest_known_classes_exclude_the_category_itself() -> None:
    source, x, assignments = problem(40)
    assigned = c.align(source.collection, assignments)
    near = c.nearest_known(assigned, c.geometry(c.directions(x), assigned).similarity)
    assert [{other for other, _ in row} for row in near] == [{1}, {0}, {0, 1}, {0, 1}]
    assert all(list(row) == sorted(row, key=lambda pair: -pair[1]) for row in near)


def test_a_category_of_unsure_items_alone_is_described_by_them() -> None:
    """It has no member, but a centre, a coherence and nearest known classes like any other."""
    source, x, assignments = problem(40)
    label = assignments.column("label").to_numpy()
    doubted = np.where(label == 2, "unsure", assignments.column("status").to_numpy(zero_copy_only=False))
    at = assignments.schema.get_field_index("status")
    assigned = c.align(source.collection, assignments.set_column(at, "status", pa.array(doubted)))
    everything = c.align(source.collection, assignments)
    assert not (assigned.members == 2).any()
    np.testing.assert_array_equal(assigned.core == 2, assigned.category == 2)
    sure = assigned.category != 2
    np.testing.assert_array_equal(assigned.core[sure], assigned.members[sure])
    shape, z = c.geometry(c.directions(x), assigned), c.directions(x)
    centre = c.normalise(z[assigned.category == 2].mean(axis=0)[None])[0]
    of_zero = c.normalise(z[everything.members == 0].mean(axis=0)[None])[0]
    assert shape.similarity[2, 0] == pytest.approx(float(centre @ of_zero), abs=1e-4)
    assert np.isfinite(shape.coherence[2])
    assert {other for other, _ in c.nearest_known(assigned, shape.similarity)[2]} == {0, 1}


def test_examples_show_small_categories_whole_and_no_item_twice() -> None:
    source, x, assignments = problem(60)
    assigned = c.align(source.collection, assignments)
    closeness = c.geometry(c.directions(x), assigned).closeness
    shown = c.examples(assigned, closeness)
    for cat, groups in enumerate(shown):
        rows = groups["centre"] + groups["edge"] + groups["doubtful"]
        members = np.flatnonzero(assigned.members == cat).tolist()
        assert len(set(rows)) == len(rows)
        assert set(rows) <= set(members)
        assert len(rows) == min(len(members), 12)
        assert groups["centre"][0] == max(members, key=lambda i: closeness[i])
        assert all(assigned.status[i] == c.UNSURE and assigned.category[i] == cat for i in groups["leaning"])
        if len(members) > 12:
            rest = [i for i in members if i not in groups["centre"]]
            assert groups["doubtful"] == sorted(rest, key=lambda i: assigned.confidence[i])[:4]
    assert shown[3]["centre"] == np.flatnonzero(assigned.members == 3).tolist()  # the single one is kept


def test_the_queue_by_hand() -> None:
    kinds = np.array([0, 0, 1, 1, 1, 1, 1])
    sizes = np.array([50, 60, 7, 63, 1, 1, 3])
    unsure = np.array([2, 9, 0, 0, 0, 0, 0])
    confidence = np.array([0.9, 0.9, 0.5, 0.5, 0.6, 0.8, 0.5])
    coherence = np.array([0.5, 0.5, 0.9, 0.5, np.nan, np.nan, -0.2])
    # log2(1+7)·0.9 = 2.7, log2(1+63)·0.5 = 3.0, log2(1+3)·0.05 = 0.1; then singles; then known by unsure items.
    assert c.queue_order(kinds, sizes, unsure, confidence, coherence).tolist() == [3, 2, 6, 5, 4, 1, 0]


def test_terms_tell_a_category_from_the_rest() -> None:
    texts = ["my card was lost", "card lost today", "lost my card", "my refund is late", "refund please", "a refund"]
    members = np.array([0, 0, 0, 1, 1, -1])
    terms = c.top_terms(texts, members, 2)
    assert terms[0][0] in {"lost", "card"}
    assert terms[1][0] == "refund"
    assert all("my" not in term.split() for term in (terms[0][0], terms[1][0]))
    assert c.top_terms(["!", "?"], np.array([0, 1]), 2) == [[], []]
    assert c.top_terms([], np.array([], dtype=np.int64), 1) == [[]]
    assert c.suggested_names(terms, [[], []], ("a", "b"))[1].startswith("refund")
    assert c.suggested_names(None, [[(1, 0.5), (0, 0.2)], []], ("a", "b")) == ["near b, a", ""]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=200), st.integers(1, 120))
def test_the_sample_keeps_the_tail(labels: list[int], limit: int) -> None:
    category = np.array(labels)
    rows = tail_sample(category, limit)
    assert len(rows) == min(limit, len(category)) == len(np.unique(rows))
    kept, sizes = np.bincount(category[rows], minlength=9), np.bincount(category, minlength=9)
    cap = kept.max(initial=0)
    assert ((kept == sizes) | (kept >= cap - 1)).all()


def test_the_map_takes_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ltgcd.report.layout.SAMPLE", 60)
    random = np.random.RandomState(0)
    for z in (np.zeros((1, 3)), np.zeros((3, 2)), np.ones((12, 1)), np.zeros((40, 4)), random.randn(5, 1)):
        places = map_items(z.astype(np.float32), np.zeros(len(z), np.int64))
        assert places.shape == (len(z), 2)
        assert np.isfinite(places).all()
    true = np.repeat([0, 1], [100, 20])
    z = (np.eye(2, 8)[true] * 5 + random.randn(120, 8) * 0.1).astype(np.float32)
    places = map_items(z, true)
    middle = [places[true == t].mean(axis=0) for t in (0, 1)]
    nearer = np.linalg.norm(places - middle[0], axis=1) < np.linalg.norm(places - middle[1], axis=1)
    assert (nearer == (true == 0)).mean() > 0.95  # those beyond the sample too
    assert np.array_equal(places, map_items(z, true))


def test_pictures_keep_the_budget_and_the_order_of_wishes() -> None:
    def pictures(rows: np.ndarray) -> list[Image.Image | None]:
        return [
            None if row == 3 else Image.fromarray(np.random.RandomState(row).randint(0, 255, (50, 50, 3), np.uint8))
            for row in rows.tolist()
        ]

    wanted, more = np.array([7, 3, 1, 9]), np.arange(20, 90)
    every = thumbnails(pictures, wanted, more, 10**9, np.arange(100)[::-1])
    assert list(every) == [7, 1, 9, *range(20, 90)]
    assert base64.b64decode(every[7])[8:12] == b"WEBP"
    size = sum(map(len, every.values())) // len(every)
    few = thumbnails(pictures, wanted, more, 9 * size, np.arange(100))
    assert list(few) == list(every)[: len(few)]  # what was wanted is there, and some more
    assert 5 <= len(few) <= 9
    assert sum(map(len, few.values())) <= 9 * size
    many = np.arange(40, 70)
    smaller = thumbnails(pictures, many, more[:0], 20 * size, np.arange(100))
    assert len(smaller) > 20  # made smaller rather than left out
    assert thumbnails(pictures, np.array([3]), more, 9000, np.arange(100)) == {}


def test_the_page_says_what_updates_have_added(tmp_path: Path) -> None:
    source, x, assignments = problem(40)
    for k, updates, appended in ((3, 1, 0), (5, 1, 2), (2, 1, 0), (5, 0, 0)):
        data = write(tmp_path / f"{k}-{updates}", source, x, with_metadata(assignments, {"k": k, "updates": updates}))
        assert data["meta"]["appended"] == appended
    told = with_metadata(assignments, {"k": 9, "updates": 1})
    assert write(tmp_path, source, x, told, k_estimate=None)["meta"]["appended"] == 0


def test_every_category_gets_its_first_picture_before_any_gets_a_second() -> None:
    groups = [{"centre": [1, 2], "edge": [3], "doubtful": [], "leaning": [9]}, {"centre": [4, 5], "edge": [6, 7]}]
    assert _by_priority(groups).tolist() == [1, 4, 3, 6, 9, 2, 5, 7]
    assert _shortened(["a" * 30, "b"], 20, keep_end=True) == ["…" + "a" * 15, "b"]


# ---------------------------------------------------------------- the file


@pytest.mark.parametrize("kind", ["vector", "text", "image"])
def test_the_page_holds_what_it_should(kind: str, tmp_path: Path) -> None:
    source, x, assignments = problem(40, kind)
    data = write(tmp_path, source, x, assignments, seed=7)
    meta, status = data["meta"], assignments.column("status").to_pylist()
    assert meta["n"] == 40
    assert meta["status"] == {name: status.count(name) for name in ("known", "novel", "unsure")}
    assert (meta["n_novel"], meta["n_doubtful"], meta["appended"]) == (2, 0, 0)
    assert (meta["n_old"], meta["n_novel"], meta["k"], meta["low"], meta["high"], meta["seed"]) == (2, 2, 3, 2, 5, 7)
    sizes = {card["name"]: card["size"] for card in data["categories"]}
    sure = [n for n, s in zip(assignments.column("name").to_pylist(), status, strict=True) if s != "unsure"]
    assert sizes == {name: sure.count(name) for name in set(sure)}
    assert data["unsure"]["size"] == status.count("unsure")
    assert sum(card["leaning"] for card in data["categories"]) == status.count("unsure")
    assert meta["imbalance"] == pytest.approx(max(sizes.values()) / 1, abs=0.1)
    # Item columns lead back to the assignments.
    category = np.frombuffer(base64.b64decode(data["items"]["category"]), "<u4")
    codes = np.frombuffer(base64.b64decode(data["items"]["status"]), np.uint8)
    for i, item in enumerate(data["items"]["ids"]):
        row = assignments.column("id").to_pylist().index(item)
        assert data["categories"][category[i]]["name"] == assignments.column("name")[row].as_py()
        assert c.STATUSES[codes[i]] == status[row]
    assert bool(data["pictures"]) == (kind == "image")
    if kind == "image":
        assert set(data["picture"]) == set(range(40))
    if kind == "text":
        terms = {card["name"]: card["terms"] for card in data["categories"]}
        assert terms["novel-001"][0] == "blue"
        assert all("common" in text for text in data["items"]["texts"])


def test_the_page_is_one_safe_file(tmp_path: Path) -> None:
    source, x, _ = problem(12)
    evil = "</script><script>alert(1)</script>"
    names = [evil, "\" onerror='x' & <b>", "שלום עולם", "novel\u2028two"]
    collection = Collection(
        pa.array([f"{evil}{i}" for i in range(12)]), source.collection.items, np.full(12, -1), (names[0], names[1])
    )
    labels = [i % 4 for i in range(12)]
    assigned = table(
        collection.ids.to_pylist(),
        labels,
        ["known" if k < 2 else "novel" for k in labels],
        [0.5] * 12,
        [names[k] for k in labels],
    )
    data = write(tmp_path, Source(collection, None), x, assigned, title="<img src=x>")
    page = (tmp_path / "report.html").read_text()
    assert page.count("<script") == 2  # the data and ours
    assert evil not in page
    assert "<img src=x>" not in page
    assert sorted(card["name"] for card in data["categories"]) == sorted(names)
    assert not re.search(r"(src|href)=[\"']?https?:|url\(|@import|fetch\(|innerHTML|insertAdjacent", page)
    script = page[page.rindex("<script>") + 8 : page.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page


def test_the_page_knows_nothing_of_the_truth(tmp_path: Path) -> None:
    source, x, assignments = problem(40)
    collection = source.collection
    truth = Truth(collection.ids, np.arange(40) % 3, ("cat", "dog", "SECRET-CLASS"), 2)
    first = write(tmp_path / "a", Source(collection, truth), x, assignments, title="t")
    second = write(tmp_path / "b", source, x, assignments, title="t")
    assert first == second  # and the same again is the same
    assert "SECRET-CLASS" not in (tmp_path / "a" / "report.html").read_text()


def test_odd_runs_have_a_page_too(tmp_path: Path) -> None:
    source, x, assignments = problem(40)
    one = Source(source.collection.select(np.array([0])), None)
    data = write(tmp_path / "one", one, x[:1], assignments.slice(0, 1), k_estimate=None, calibration_error=None)
    assert data["meta"]["n"] == 1
    assert data["k"] is None
    all_known = assignments.set_column(3, "status", pa.array(["known"] * 40)).set_column(1, "label", pa.array([0] * 40))
    data = write(tmp_path / "known", source, x, all_known.set_column(2, "name", pa.array(["cat"] * 40)))
    assert (data["meta"]["n_novel"], len(data["categories"]), data["unsure"]) == (0, 1, None)
    assert data["categories"][0]["coherence"] is None  # there is no other category
    unsure = assignments.set_column(3, "status", pa.array(["unsure"] * 40)).set_column(2, "name", pa.array(["?"] * 40))
    data = write(tmp_path / "unsure", source, x, unsure)
    assert data["unsure"]["size"] == 40
    assert {card["name"] for card in data["categories"]} == {"cat", "dog", "novel-001", "novel-002"}
    assert all(card["size"] == 0 for card in data["categories"])
    strange = {"k": float("nan"), "curve": None}
    assert write(tmp_path / "k", source, x, assignments, k_estimate=strange)["k"] is None
    holes = {"k": 3, "low": None, "high": None, "method": "ward", "curve": [[2, float("nan")], [3, 5.0]]}
    assert write(tmp_path / "h", source, x, assignments, k_estimate=holes)["k"]["curve"] == [[3, 5.0]]
    part = write(tmp_path / "part", source, x, assignments.slice(0, 30))
    assert part["meta"]["left_out"] == 10


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    source, x, assignments = problem(20)
    with pytest.raises(InputError, match="features for all 20"):
        write(tmp_path, source, x[:5], assignments)
    with pytest.raises(InputError, match="not in the source"):
        write(tmp_path, source, x, assignments.set_column(0, "id", pa.array([f"other-{i}" for i in range(20)])))
    with pytest.raises(InputError, match="status"):
        write(tmp_path, source, x, assignments.set_column(3, "status", pa.array(["maybe"] * 20)))
    with pytest.raises(InputError, match="shape"):
        write(tmp_path, source, x, assignments, coordinates=np.zeros((3, 2)))
    with pytest.raises(InputError, match="NaN"):
        write(tmp_path, source, np.full_like(x, np.nan), assignments)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("kind", ["text", "picture"])
def test_fifty_thousand_items_stay_under_ten_megabytes(kind: str, tmp_path: Path) -> None:
    n, random = 50_000, np.random.RandomState(0)
    labels = np.minimum(random.geometric(0.004, n) - 1, 799)
    ids = pa.array([f"a/long/path/to/an/image/of/some/collection-{i:06d}.jpeg" for i in range(n)])
    x = random.randn(n, 4).astype(np.float32)
    items: Any = Texts(pa.array(["a support ticket about number " * 8 + str(i) for i in range(n)]))
    noise = Image.fromarray(random.randint(0, 255, (64, 64, 3), np.uint8))  # nothing compresses worse
    collection = Collection(ids, items if kind == "text" else Vectors(x), np.full(n, -1), ("only",))
    assigned = table(
        ids.to_pylist(),
        labels.tolist(),
        np.where(labels < 1, "known", "novel").tolist(),
        random.uniform(0, 1, n).tolist(),
        [f"novel-{k:03d}" for k in labels],
    )
    pictures = (lambda rows: [noise] * len(rows)) if kind == "picture" else None
    write(tmp_path, Source(collection, None), x, assigned, coordinates=random.randn(n, 2), pictures=pictures)
    assert 2e6 < (tmp_path / "report.html").stat().st_size < 10e6


# ---------------------------------------------------------------- of a run directory


def cli(*arguments: object) -> Any:
    app = typer.Typer()
    app.command("report")(output.report_page)
    app.command("export")(output.export)
    return CliRunner().invoke(app, [str(a) for a in arguments])


def make_run(folder: Path, source: Source, **metadata: Any) -> Path:
    """A finished run on a source that knows the truth, which is right about everything."""
    assert source.truth is not None
    open_run(folder, {"method": "kmeans", "k": "auto", "random_state": 5}, source)
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
    assert data["meta"]["labelled"] == int(source.collection.labelled.sum())
    assert data["meta"]["seed"] == 5
    assert data["k"] is None
    assert data["meta"]["calibration_error"] is None
    make_run(run, source, k=10, calibration_error=0.021)
    (run / "k_estimate.json").write_text(json.dumps(K))
    report_run(run, features=npz)
    data = read_page(run / "report.html")
    assert data["meta"]["calibration_error"] == 0.021
    assert data["k"]["curve"] == K["curve"]


def test_items_without_features_are_left_out(tmp_path: Path) -> None:
    source, x, assignments = problem(40, "text")
    collection = source.collection
    truth = Truth(collection.ids, assignments.column("label").to_numpy(), ("cat", "dog", "novel-001", "novel-002"), 2)
    vectors = Source(Collection(collection.ids, Vectors(x), collection.y, ("cat", "dog")), truth)
    run = make_run(tmp_path / "run", vectors)
    texts = write_source(tmp_path / "texts.parquet", source)
    some = write_source(tmp_path / "some.npz", Source(vectors.collection.select(np.arange(5, 40)), None))
    pq.write_table(pq.read_table(run / "assignments.parquet").slice(5), run / "assignments.parquet")
    report_run(run, texts, some)
    data = read_page(run / "report.html")
    assert data["meta"]["n"] == 35
    assert "item-39" in data["items"]["ids"]
    assert any("grey" in text for text in data["items"]["texts"])


def test_a_run_that_has_no_page_says_why(tmp_path: Path, npz) -> None:
    source, _, _ = problem(40, "text")
    texts = write_source(tmp_path / "texts.parquet", source)
    for place, words in (
        (tmp_path / "nowhere", "not a run directory"),
        (texts, "not a run directory"),
        (tmp_path, "no config.toml"),
    ):
        done = cli("report", place)
        assert done.exit_code == 2
        assert words in done.output
    run = make_run(tmp_path / "run", digits_source())
    for options, words in (
        ((), "--features"),
        (("--source", texts), "give its features"),
        (("--source", npz()), "not in the source"),
        (("--source", tmp_path / "gone.npz"), "is not there"),
    ):
        done = cli("report", run, *options)
        assert done.exit_code == 2, done.output
        assert words in done.output
        assert "Traceback" not in done.output
    (run / "assignments.parquet").unlink()
    assert "finish the run first" in cli("report", run, "--source", npz()).output


def test_colours_have_contrast() -> None:
    style = (Path(c.__file__).parent / "static" / "page.css").read_text()
    blocks = re.findall(r":root \{(.*?)\n\s*\}", style, re.DOTALL)
    assert len(blocks) == 2

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for block in blocks:
        tones = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
        pairs = [(text, ground) for text in ("ink", "soft") for ground in ("paper", "surface", "sunk")]
        pairs += [(kind, f"{kind}-wash") for kind in ("known", "novel", "unsure")]
        pairs += [(kind, "surface") for kind in ("known", "novel", "unsure")]
        for text, ground in pairs:
            light, dark = sorted((luminance(tones[text]), luminance(tones[ground])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ground)
