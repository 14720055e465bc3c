"""The report page without a browser: its figures against slow code, its file, and odd runs."""

from __future__ import annotations

import base64
import hashlib
import re
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from conftest import data_of, image_bytes
from ltgcd.common.engine import rows
from ltgcd.common.engine.rows import Sharing, shared
from ltgcd.common.errors import InputError
from ltgcd.data.collection import Collection
from ltgcd.data.items import ImageBytes, Texts, Vectors
from ltgcd.output.report import page as page_module
from ltgcd.output.report.assigned import STATUSES, UNSURE
from ltgcd.output.report.cards import examples
from ltgcd.output.report.categories import assigned_figures, describe_categories
from ltgcd.output.report.class_figures import Neighbour, suggested_name
from ltgcd.output.report.columns import _by_priority, _shortened
from ltgcd.output.report.geometry import whitened_features
from ltgcd.output.report.layout import Places, map_items, places_beside, places_on_map, tail_sample
from ltgcd.output.report.page import Report, report_html
from ltgcd.output.report.pictures import ImagePictures, PixelPictures, thumbnails
from ltgcd.output.report.queue import queue
from ltgcd.output.report.terms import Vocabulary

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


def problem(n: int = 40, kind: str = "vector", d: int = 5, seed: int = 0) -> tuple[Collection, np.ndarray, pa.Table]:
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
    return collection, x, table(ids.to_pylist(), true.tolist(), status.tolist(), confidence, names)


def html(collection: Collection, x: np.ndarray, assignments: pa.Table, **given: Any) -> str:
    settings_ = {"k_estimate": K, "calibration_error": 0.03, "places": Places(x[:, :2], len(x)), **given}
    return report_html(Report(collection, x, assignments, **settings_))


def draw(collection: Collection, x: np.ndarray, assignments: pa.Table, **given: Any) -> dict[str, Any]:
    return data_of(html(collection, x, assignments, **given))


# ---------------------------------------------------------------- figures


def test_closeness_is_the_cosine_to_the_others_of_the_category() -> None:
    collection, x, assignments = problem(30)
    assigned, figures = assigned_figures(collection, x, assignments)
    z, members, found = whitened_features(x, collection.y), figures.now.members, figures.closeness()
    for i in range(30):
        others = [j for j in range(30) if members[j] == assigned.labels[assigned.category[i]] and j != i]
        centre = z[others].sum(axis=0)
        wanted = float(z[i] @ centre / np.linalg.norm(centre)) if others else 0.0
        assert found[i] == pytest.approx(wanted, abs=1e-4)


def test_nearest_known_classes_exclude_the_category_itself() -> None:
    found = describe_categories(*problem(40))
    assert [{other.code for other in one.nearest_known} for one in found] == [{1}, {0}, {0, 1}, {0, 1}]
    assert all(list(one.nearest_known) == sorted(one.nearest_known, key=lambda o: -o.cosine) for one in found)


def test_a_category_of_unsure_items_alone_is_described_by_them() -> None:
    """It has no member, but a centre, a coherence and nearest known classes like any other."""
    collection, x, assignments = problem(40)
    label = assignments.column("label").to_numpy()
    doubted = np.where(label == 2, "unsure", assignments.column("status").to_numpy(zero_copy_only=False))
    at = assignments.schema.get_field_index("status")
    doubted_table = assignments.set_column(at, "status", pa.array(doubted))
    _, figures = assigned_figures(collection, x, doubted_table)
    np.testing.assert_array_equal(figures.now.members == 2, label == 2)
    found = describe_categories(collection, x, doubted_table)[2]
    assert (found.size, found.leaning) == (0, int((label == 2).sum()))
    assert found.coherence is not None
    assert {other.code for other in found.nearest_known} == {0, 1}


def test_examples_show_small_categories_whole_and_no_item_twice() -> None:
    collection, x, assignments = problem(60)
    assigned, figures = assigned_figures(collection, x, assignments)
    closeness = figures.closeness()[assigned.rows]
    shown = examples(assigned, closeness)
    for cat, groups in enumerate(shown):
        rows = groups["centre"] + groups["edge"] + groups["doubtful"]
        members = np.flatnonzero(assigned.members == cat).tolist()
        assert len(set(rows)) == len(rows)
        assert set(rows) <= set(members)
        assert len(rows) == min(len(members), 12)
        assert groups["centre"][0] == max(members, key=lambda i: closeness[i])
        assert all(assigned.status[i] == UNSURE and assigned.category[i] == cat for i in groups["leaning"])
        if len(members) > 12:
            rest = [i for i in members if i not in groups["centre"]]
            assert groups["doubtful"] == sorted(rest, key=lambda i: assigned.confidence[i])[:4]
    assert shown[3]["centre"] == np.flatnonzero(assigned.members == 3).tolist()  # the single one is kept


def test_the_queue_is_doubt_times_spread_and_not_items() -> None:
    found = queue(
        np.array([100, 100, 100, 10, 0]),
        np.array([0.9, 0.9, 0.9, 0.9, np.nan]),
        np.array([0, 0, 0, 0, 8]),
        np.array([0, 0.5, 0, 0, 0.0]),
        np.array([False, False, True, True, False]),
        np.array([0.5, 0.5, 0.5, 0.2, 0.5]),
    )
    np.testing.assert_allclose(found.doubt, [0.1, 1 - 0.9 * 0.5, 1 - 0.9 * 0.5, 1 - 0.9 * 0.5, 0])
    # A class of ten is worth two thirds of one of many; eight that lean to one count as two; some doubt always stays.
    many = 100 / 105
    expected = [0.1 * 0.5 * many, 0.55 * 0.5 * many, 0.55 * 0.5 * many, 0.55 * 0.8 * 10 / 15, 0.02 * 0.5 * 2 / 7]
    np.testing.assert_allclose(found.gain, expected)


def test_a_label_below_zero_is_a_sentence() -> None:
    collection, x, table = problem(40)
    label = table.schema.get_field_index("label")
    below = np.where(np.arange(len(table)) < 3, -1, table.column("label").to_numpy())
    with pytest.raises(InputError, match="below 0"):
        describe_categories(collection, x, table.set_column(label, "label", pa.array(below)))


def test_terms_tell_a_category_from_the_rest() -> None:
    texts = ["my card was lost", "card lost today", "lost my card", "my refund is late", "refund please", "a refund"]
    vocabulary = Vocabulary(texts)
    terms = [vocabulary.terms(np.array(rows)) for rows in ([0, 1, 2], [3, 4])]
    assert terms[0][0] in {"lost", "card"}
    assert terms[1][0] == "refund"
    assert all("my" not in term.split() for term in (terms[0][0], terms[1][0]))
    assert Vocabulary(["!", "?"]).terms(np.array([0])) == Vocabulary([]).terms(np.array([], dtype=np.int64)) == []
    near = (Neighbour(1, "b", 0.5), Neighbour(0, "a", 0.2))
    assert suggested_name(tuple(terms[1]), near).startswith("refund")
    assert suggested_name((), near) == "near b, a"
    assert suggested_name((), ()) == ""


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
    monkeypatch.setattr("ltgcd.output.report.layout.SAMPLE", 60)
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


def test_of_very_many_items_a_sample_gives_the_directions_of_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ltgcd.output.report.layout.FITTED", 90)
    monkeypatch.setattr("ltgcd.output.report.layout.ROWS", 32)
    random = np.random.RandomState(0)
    true = np.repeat([0, 1, 2], [100, 60, 40])
    x = (np.eye(3, 8)[true] * 5 + random.randn(200, 8) * 0.2 + 3).astype(np.float32)
    places = places_on_map(x, true).xy
    middle = np.stack([places[true == t].mean(axis=0) for t in range(3)])
    nearest = np.linalg.norm(places[:, None] - middle, axis=2).argmin(axis=1)
    assert (nearest == true).mean() > 0.95
    order = random.permutation(200)
    np.testing.assert_allclose(places_on_map(x[order], true[order]).xy, places[order], atol=1e-3)
    held = x.copy()
    places_on_map(x, true)
    np.testing.assert_array_equal(x, held)  # the caller's features stay as they are


def test_places_are_found_once_and_new_items_come_beside_them() -> None:
    random = np.random.RandomState(0)
    true = np.repeat([0, 1, 2], [40, 30, 30])
    x = (np.eye(4, 8)[true] * 5 + random.randn(100, 8) * 0.2).astype(np.float32)
    places = places_on_map(x, true)
    assert places.xy.shape == (100, 2)
    assert places.laid_out == 100
    np.testing.assert_array_equal(places.xy, places_on_map(x, true + 7).xy)  # whatever the labels are called
    # Ten more of class 1, and a category of five that has come with them and looks like class 2 more than the others.
    labels = np.repeat([1, 3], [10, 5])
    new = np.eye(4, 8)[labels] * 5 + random.randn(15, 8) * 0.2
    new[10:, 2] += 2
    both = places_beside(places, x, new.astype(np.float32), labels, 3)
    np.testing.assert_array_equal(both.xy[:100], places.xy)  # no point moves
    assert both.xy.shape == (115, 2)
    assert both.xy.dtype == np.float32
    assert both.laid_out == 100
    middle = np.stack([places.xy[true == t].mean(axis=0) for t in range(3)])
    nearest = np.linalg.norm(both.xy[100:, None] - middle, axis=2).argmin(axis=1)
    assert (nearest == np.repeat([1, 2], [10, 5])).all()
    assert np.ptp(both.xy[110:], axis=0).max() < np.ptp(places.xy, axis=0).max() / 4  # the category stays together
    assert places_beside(places, x, new[:0], labels[:0], 3) is places
    with pytest.raises(InputError, match="NaN"):
        places_on_map(np.full((5, 2), np.nan), np.zeros(5, np.int64))


class Noise(NamedTuple):
    """Pictures of noise, each of its own; the third can't be decoded."""

    seeds: np.ndarray

    def __call__(self, rows: np.ndarray) -> list[Image.Image | None]:
        return [
            None if seed == 3 else Image.fromarray(np.random.RandomState(seed).randint(0, 255, (50, 50, 3), np.uint8))
            for seed in self.seeds[rows].tolist()
        ]

    def select(self, rows: np.ndarray) -> Noise:
        return Noise(self.seeds[rows])


def test_pictures_keep_the_budget_and_the_order_of_wishes() -> None:
    pictures = Noise(np.arange(100))
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


@pytest.mark.parametrize("kind", ["image", "vector"])
def test_pictures_are_the_same_whoever_makes_them(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In this process, and in two others; nothing is left behind, and how far they are is shown."""
    blobs = [image_bytes(row) if row != 3 else b"no image" for row in range(90)]
    pictures = ImagePictures(ImageBytes(pa.array(blobs))) if kind == "image" else PixelPictures(np.eye(90, 100))
    wanted, more = np.arange(80)[::-1], np.arange(85, 90)
    monkeypatch.setattr("ltgcd.output.report.pictures.CHUNK", 8)
    monkeypatch.setattr("ltgcd.common.progress.LINE_SECONDS", 0.0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(rows, "START_SECONDS", 1000.0)
    alone = thumbnails(pictures, wanted, more, 10**9, np.arange(90))
    assert "making small pictures: 16 of 85" in capfd.readouterr().err
    monkeypatch.setattr(rows, "START_SECONDS", 0.0)
    with shared(Sharing(tmp_path / "shared", workers=2)):
        two = thumbnails(pictures, wanted, more, 10**9, np.arange(90))
    assert "making small pictures" in capfd.readouterr().err
    by_default = thumbnails(pictures, wanted, more, 10**9, np.arange(90))
    assert list(two.items()) == list(by_default.items()) == list(alone.items())
    assert len(alone) == (84 if kind == "image" else 85)
    assert list(tmp_path.rglob("*")) == [tmp_path / "shared"]


def test_the_page_says_what_later_items_have_added() -> None:
    assert "later have added 2" in draw(*problem(40), appended=2)["meta"]["lead"]
    assert "added" not in draw(*problem(40))["meta"]["lead"]
    assert "added" not in draw(*problem(40), k_estimate=None, appended=2)["meta"]["lead"]


def test_a_number_from_samples_says_so() -> None:
    estimate = {"k": 7, "low": 6, "high": 9, "evidence": {"sampled": "estimated on 3 samples of 9 of the 40 items"}}
    lead = draw(*problem(40), k_estimate=estimate)["meta"]["lead"]
    assert "That number was estimated on 3 samples of 9 of the 40 items." in lead
    assert "sample" not in draw(*problem(40))["meta"]["lead"]


def test_every_category_gets_its_first_picture_before_any_gets_a_second() -> None:
    groups = [{"centre": [1, 2], "edge": [3], "doubtful": [], "leaning": [9]}, {"centre": [4, 5], "edge": [6, 7]}]
    assert _by_priority(groups).tolist() == [1, 4, 3, 6, 9, 2, 5, 7]
    assert _shortened(["a" * 30, "b"], 20, keep_end=True) == ["…" + "a" * 15, "b"]


def test_categories_are_described() -> None:
    collection, x, assignments = problem(60)
    found = describe_categories(collection, x, assignments)
    assert [(c.code, c.name, c.status) for c in found] == [
        (0, "cat", "known"),
        (1, "dog", "known"),
        (2, "novel-001", "novel"),
        (3, "novel-002", "novel"),
    ]
    rows = assignments.to_pylist()
    for c in found:
        sure = [r["confidence"] for r in rows if r["label"] == c.code and r["status"] != "unsure"]
        assert c.size == len(sure)
        assert c.leaning == sum(r["label"] == c.code and r["status"] == "unsure" for r in rows)
        assert c.labelled == int((collection.y == c.code).sum())
        assert c.confidence == pytest.approx(np.mean(sure), abs=1e-6)
        assert c.code not in {other.code for other in c.nearest_known}
        assert all(other.name == collection.class_names[other.code] for other in c.nearest_known)
    assert found[3].coherence is None  # a single item
    assert min(c.coherence or 0 for c in found[:3]) > 0.5
    assert found[0].suggested_name == ""
    assert found[2].suggested_name == "near " + ", ".join(other.name for other in found[2].nearest_known)
    shuffled = np.random.RandomState(1).permutation(60)
    assert describe_categories(collection, x, assignments.take(pa.array(shuffled))) == found
    texts, x, assignments = problem(60, "text")
    assert describe_categories(texts, x, assignments)[2].suggested_name.startswith("blue")


def test_the_cards_are_the_described_categories() -> None:
    collection, x, assignments = problem(60)
    described = {c.name: c for c in describe_categories(collection, x, assignments)}
    cards = draw(collection, x, assignments)["categories"]
    assert len(cards) == len(described)
    for card in cards:
        c = described[card["name"]]
        assert (card["code"], card["known"], card["size"], card["leaning"], card["suggested"]) == (
            c.code,
            c.status == "known",
            c.size,
            c.leaning,
            c.suggested_name,
        )
        assert [code for code, _ in card["nearest"]] == [other.code for other in c.nearest_known]


# ---------------------------------------------------------------- the file


@pytest.mark.parametrize("kind", ["vector", "text", "image"])
def test_the_page_holds_what_it_should(kind: str) -> None:
    collection, x, assignments = problem(40, kind)
    data = draw(collection, x, assignments, seed=7)
    meta, status = data["meta"], assignments.column("status").to_pylist()
    assert meta["n"] == 40
    assert meta["status"] == {name: status.count(name) for name in ("known", "novel", "unsure")}
    assert meta["counts"] == {"known": 2, "known_empty": 0, "novel": 2, "only_unsure": 0}
    assert (meta["k"], meta["low"], meta["high"], meta["seed"], meta["right"]) == (3, 2, 5, 7, [77, 83])
    sizes = {card["name"]: card["size"] for card in data["categories"]}
    sure = [n for n, s in zip(assignments.column("name").to_pylist(), status, strict=True) if s != "unsure"]
    assert sizes == {name: sure.count(name) for name in set(sure)}
    assert sum(card["leaning"] for card in data["categories"]) == status.count("unsure")
    assert meta["imbalance"] == pytest.approx(max(sizes.values()) / 1, abs=0.1)
    # Item columns lead back to the assignments.
    items = data["items"]
    label = np.frombuffer(base64.b64decode(items["code"]), "<i4")
    codes, flags = (np.frombuffer(base64.b64decode(items[key]), np.uint8) for key in ("status", "flags"))
    names = {card["code"]: card["name"] for card in data["categories"]}
    assert (items["prefix"], items["whole"]) == ("item-", True)
    for i, item in enumerate(items["ids"]):
        row = assignments.column("id").to_pylist().index(items["prefix"] + item)
        assert names[label[i]] == assignments.column("name")[row].as_py()
        assert STATUSES[codes[i]] == status[row]
        assert flags[i] & 3 == 2 * (collection.y[row] >= 0)
    assert bool(data["pictures"]) == (kind == "image")
    if kind == "image":
        assert set(data["picture"]) == set(range(40))
    if kind == "text":
        terms = {card["name"]: card["terms"] for card in data["categories"]}
        assert terms["novel-001"][0] == "blue"
        assert all("common" in text for text in data["items"]["texts"])


def test_the_page_is_one_safe_file() -> None:
    bare, x, _ = problem(12)
    evil = "</script><script>alert(1)</script>"
    names = [evil, "\" onerror='x' & <b>", "שלום עולם", "novel\u2028two"]
    collection = Collection(
        pa.array([f"{evil}{i}" for i in range(12)]), bare.items, np.full(12, -1), (names[0], names[1])
    )
    labels = [i % 4 for i in range(12)]
    assigned = table(
        collection.ids.to_pylist(),
        labels,
        ["known" if k < 2 else "novel" for k in labels],
        [0.5] * 12,
        [names[k] for k in labels],
    )
    page = html(collection, x, assigned, title="<img src=x>")
    data = data_of(page)
    assert page.count("<script") == 2  # the data and ours
    assert evil not in page
    assert "<img src=x>" not in page
    assert sorted(card["name"] for card in data["categories"]) == sorted(names)
    assert not re.search(r"(src|href)=[\"']?https?:|url\((?!#)|@import|fetch\(|innerHTML|insertAdjacent", page)
    script = page[page.rindex("<script>") + 8 : page.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page


def test_the_same_again_is_the_same_page() -> None:
    assert html(*problem(40)) == html(*problem(40))


def test_odd_runs_have_a_page_too() -> None:
    collection, x, assignments = problem(40)
    one = collection.select(np.array([0]))
    data = draw(one, x[:1], assignments.slice(0, 1), k_estimate=None, calibration_error=None)
    assert data["meta"]["n"] == 1
    assert data["k"] is None
    all_known = assignments.set_column(3, "status", pa.array(["known"] * 40)).set_column(1, "label", pa.array([0] * 40))
    data = draw(collection, x, all_known.set_column(2, "name", pa.array(["cat"] * 40)))
    assert (data["meta"]["counts"]["novel"], len(data["categories"])) == (0, 1)
    assert "1 known class has no item." in data["meta"]["lead"]
    assert data["categories"][0]["coherence"] is None  # there is no other category
    unsure = assignments.set_column(3, "status", pa.array(["unsure"] * 40)).set_column(2, "name", pa.array(["?"] * 40))
    data = draw(collection, x, unsure)
    assert sum(card["leaning"] for card in data["categories"]) == 40
    assert {card["name"] for card in data["categories"]} == {"cat", "dog", "novel-001", "novel-002"}
    assert all(card["size"] == 0 for card in data["categories"])
    strange = {"k": float("nan"), "curve": None}
    assert draw(collection, x, assignments, k_estimate=strange)["k"] is None
    holes = {"k": 3, "low": None, "high": None, "method": "ward", "curve": [[2, float("nan")], [3, 5.0]]}
    assert draw(collection, x, assignments, k_estimate=holes)["k"]["curve"] == [[3, 5.0]]
    part = draw(collection, x, assignments.slice(0, 30))
    assert part["meta"]["left_out"] == 10


def test_bad_input_is_one_sentence() -> None:
    collection, x, assignments = problem(20)
    with pytest.raises(InputError, match="features for all 20"):
        draw(collection, x[:5], assignments)
    with pytest.raises(InputError, match="not in the source"):
        draw(collection, x, assignments.set_column(0, "id", pa.array([f"other-{i}" for i in range(20)])))
    with pytest.raises(InputError, match="status"):
        draw(collection, x, assignments.set_column(3, "status", pa.array(["maybe"] * 20)))
    with pytest.raises(InputError, match="shape"):
        draw(collection, x, assignments, places=Places(np.zeros((3, 2), np.float32), 3))
    with pytest.raises(InputError, match="NaN"):
        draw(collection, np.full_like(x, np.nan), assignments)


class Same(NamedTuple):
    """One picture for everything."""

    image: Image.Image

    def __call__(self, rows: np.ndarray) -> list[Image.Image | None]:
        return [self.image] * len(rows)

    def select(self, _rows: np.ndarray) -> Same:
        return self


@pytest.mark.parametrize("kind", ["text", "picture"])
def test_fifty_thousand_items_stay_under_ten_megabytes(kind: str) -> None:
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
    pictures = Same(noise) if kind == "picture" else None
    page = html(collection, x, assigned, places=Places(random.randn(n, 2).astype(np.float32), n), pictures=pictures)
    assert 2e6 < len(page.encode()) < 10e6


def test_colours_have_contrast() -> None:
    style = (Path(page_module.__file__).parent / "static" / "page.css").read_text()
    blocks = re.findall(r":root(?:\[data-theme=\"dark\"\])? \{(.*?)\n\s*\}", style, re.DOTALL)
    assert len(blocks) == 2

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for block in blocks:
        tones = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
        pairs = [(text, ground) for text in ("ink", "soft") for ground in ("paper", "surface", "sunk")]
        pairs += [(kind, f"{kind}-wash") for kind in ("known", "novel", "unsure")]
        pairs += [(kind, "surface") for kind in ("known", "novel", "unsure", "chosen", "done", "warn", "focus")]
        pairs += [("done", "done-wash"), ("warn", "warn-wash")]
        for text, ground in pairs:
            light, dark = sorted((luminance(tones[text]), luminance(tones[ground])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ground)


@pytest.mark.parametrize(
    ("code", "given", "sentence"),
    [
        (2, [], "New: not accepted yet."),
        (2, [0], "2 of 4 unconfirmed may be wrong."),
        (2, [0, 1, 2, 3, 4], "Every item is labelled or confirmed. 1 unsure item leans to it."),
        (0, [], "1 of 2 unconfirmed may be wrong."),
    ],
)
def test_what_was_confirmed_was_looked_at(code: int, given: list[int], sentence: str) -> None:
    """Why a class stands where it does, on the report as on the page of a review."""
    label = [2] * 6 + [0] * 3 + [1] * 3
    ids = [f"i{n}" for n in range(12)]
    x = (np.eye(3, 4)[label] + 0.01 * np.random.RandomState(0).randn(12, 4)).astype(np.float32)
    y = np.array([-1] * 6 + [0, -1, -1, 1, -1, -1])
    status = ["novel"] * 5 + ["unsure"] + ["known"] * 6
    held = table(ids, label, status, [0.5] * 12, [["cat", "dog", "novel-001"][c] for c in label])
    held = held.append_column("given", pa.array([n in given for n in range(12)]))
    cards = draw(Collection(pa.array(ids), Vectors(x), y, ("cat", "dog")), x, held)["categories"]
    assert {card["code"]: card["why"] for card in cards}[code] == sentence
