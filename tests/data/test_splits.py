"""The data protocol: counts pinned to METHODS §1, draws reproducible, nothing told by the order."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from conftest import call_cli
from ltgcd.common.errors import BusyError, InputError
from ltgcd.common.files import locked, read_metadata
from ltgcd.data.collection import UNLABELLED, Collection, imbalance_factor
from ltgcd.data.datasets.base import Pool
from ltgcd.data.items import Vectors
from ltgcd.data.sources import read_source
from ltgcd.data.splits import SplitConfig, as_source, draw_split, exponential_profile, make_split

CIFAR100 = np.random.RandomState(5).permutation(np.repeat(np.arange(100), 500))
CIFAR10 = np.repeat(np.arange(10), 5000)
IMAGENET100 = np.repeat(np.arange(100), 1300)


def cifar(preset: str, imbalance: float = 10.0, **changes) -> tuple[np.ndarray, np.ndarray]:
    config = SplitConfig(preset=preset, imbalance=imbalance, **changes)
    return draw_split(CIFAR100, list(range(100)), 80, config, (120, 280)).counts()


@pytest.mark.parametrize(("imbalance", "expected"), [(5, None), (10, (3736, 10935)), (20, None)])
def test_paper_counts_of_cifar100(imbalance: int, expected: tuple[int, int] | None) -> None:
    labelled, unlabelled = cifar("paper-counts", imbalance)
    if expected:
        assert (labelled.sum(), unlabelled.sum()) == expected
    assert imbalance_factor(labelled) == imbalance_factor(unlabelled) == imbalance  # exactly, in both parts
    assert labelled.max() == 120
    assert unlabelled.max() == 280
    assert (labelled[80:] == 0).all()
    assert (unlabelled > 0).all()
    # The ranks are shared: a larger class in D^u is never smaller in D^l.
    order = np.argsort(-unlabelled[:80], kind="stable")
    assert (np.diff(labelled[order]) <= 0).all()


def test_paper_counts_of_imagenet100() -> None:
    split = draw_split(IMAGENET100, list(range(100)), 50, SplitConfig(), (300, 560))
    labelled, unlabelled = split.counts()
    assert (labelled.sum(), unlabelled.sum()) == (5883, 21930)


@pytest.mark.parametrize(("imbalance", "total"), [(20, 14315), (50, 11349), (100, 9754), (150, 9011)])
def test_bacon_totals_of_cifar100(imbalance: int, total: int) -> None:
    labelled, unlabelled = cifar("bacon", imbalance)
    assert labelled.sum() + unlabelled.sum() == total
    known = labelled[:80] - unlabelled[:80]
    assert set(known) <= {0, 1}  # half of each class, the labelled side takes the odd one


@pytest.mark.parametrize(("imbalance", "total"), [(20, 15318), (100, 11165)])
def test_bacon_totals_of_cifar10(imbalance: int, total: int) -> None:
    split = draw_split(CIFAR10, list(range(10)), 5, SplitConfig("bacon", imbalance))
    assert len(split.rows) == total


def test_text_literal_starts_from_the_full_class() -> None:
    labelled, unlabelled = cifar("text-literal")
    total = labelled + unlabelled
    assert total.max() == 500
    assert total.min() == 50
    assert total.sum() == exponential_profile(500, 10, 100).sum()


def test_gcd_protocol_is_the_reference_draw() -> None:
    """METHODS §1.2, written out with the legacy global generator as the reference does it."""
    np.random.seed(0)
    old = np.flatnonzero(CIFAR100 < 80)
    reference = old[np.random.choice(range(len(old)), replace=False, size=(int(0.5 * len(old)),))]
    split = draw_split(CIFAR100, list(range(100)), 80, SplitConfig("gcd"))
    assert set(split.rows[split.labelled]) == set(reference)
    assert len(split.rows) == 50_000
    assert split.labelled.sum() == 20_000


def test_natural_keeps_every_item_and_half_of_each_old_class() -> None:
    y = np.repeat(np.arange(4), [9, 1, 2, 50])
    split = draw_split(y, [3, 1, 2, 0], 3, SplitConfig("natural"))
    labelled, unlabelled = split.counts()
    assert labelled.tolist() == [25, 1, 1, 0]
    assert unlabelled.tolist() == [25, 0, 1, 9]
    assert sorted(split.rows) == list(range(62))
    by_instance = draw_split(y, [3, 1, 2, 0], 3, SplitConfig("natural", label_sampling="instance"))
    assert by_instance.labelled.sum() == 26


def test_old_and_new_classes_can_be_chosen() -> None:
    for n_old, n_new in [(80, 0), (50, 50), (30, 70), (30, 10)]:
        split = draw_split(CIFAR100, list(range(100)), 80, SplitConfig(n_old=n_old, n_new=n_new), (120, 280))
        labelled, unlabelled = split.counts()
        assert (labelled > 0).sum() == n_old == split.n_old
        assert len(unlabelled) == n_old + n_new == (unlabelled > 0).sum()
        assert set(CIFAR100[split.rows]) == set(range(n_old + n_new))
        np.testing.assert_array_equal(split.classes[split.y_true], CIFAR100[split.rows])


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 60), min_size=2, max_size=8),
    preset=st.sampled_from(["paper-counts", "text-literal", "bacon", "gcd", "natural"]),
    imbalance=st.floats(1, 5),
    seed=st.integers(0, 2**32 - 1),
    data=st.data(),
)
def test_properties(sizes: list[int], preset: str, imbalance: float, seed: int, data: st.DataObject) -> None:
    y = np.random.RandomState(1).permutation(np.repeat(np.arange(len(sizes)), sizes))
    n_old = data.draw(st.integers(1, len(sizes)))
    config = SplitConfig(preset=preset, imbalance=imbalance, seed=seed)
    try:
        split = draw_split(y, list(range(len(sizes))), n_old, config)
    except InputError as error:
        assert "smaller λ" in str(error)
        return
    again = draw_split(y, list(range(len(sizes))), n_old, config)
    np.testing.assert_array_equal(split.rows, again.rows)
    np.testing.assert_array_equal(split.labelled, again.labelled)
    assert len(set(split.rows)) == len(split.rows)
    assert (split.y_true[split.labelled] < n_old).all()
    np.testing.assert_array_equal(y[split.rows], split.y_true)


def test_the_order_of_rows_tells_nothing_about_classes() -> None:
    y = np.repeat(np.arange(100), 500)  # a pool sorted by class, as folders are
    split = draw_split(y, list(range(100)), 80, SplitConfig("natural"))
    new = split.y_true[~split.labelled]
    neighbours_agree = (new[1:] == new[:-1]).mean()
    assert neighbours_agree < 0.03  # 0.0125 by chance, 1 in a sorted file


# Pinned on NumPy 2: the legacy stream is frozen, so these hold on every machine and version.
def test_draws_are_pinned() -> None:
    split = draw_split(CIFAR10, list(range(10)), 5, SplitConfig("text-literal", 10, seed=7))
    assert split.rows[:6].tolist() == PINNED_ROWS
    pool = Pool(
        pa.array([str(i) for i in range(50_000)]),
        Vectors(np.zeros((50_000, 1), np.float16)),
        CIFAR10,
        tuple("abcdefghij"),
    )
    _, summary = as_source(pool, split, "pinned", SplitConfig("text-literal", 10, seed=7))
    assert summary["checksum"] == PINNED_CHECKSUM


PINNED_ROWS = [4849, 40877, 44690, 47550, 18066, 10370]
PINNED_CHECKSUM = "ac18b8a896d6632002fc7f4b7f4be5ea1069982747416809074836c69f910c48"


def test_the_labels_of_a_split_go_back_onto_its_source(npz, tmp_path) -> None:
    """labels.csv beside a split of one's own source: --labels with it gives the same labelled items."""
    x, true = np.random.RandomState(0).randn(40, 5), np.repeat([0, 1, 2], [20, 12, 8])
    whole = npz("whole.npz", x=x, y=true, y_true=None, ids=np.array([f'it"em, {i}' for i in range(40)]))
    summary = make_split(str(whole), tmp_path / "split", n_old=2)
    split, labelled = read_source(summary["path"]).collection, read_source(whole, tmp_path / "split" / "labels.csv")
    assert labelled.truth is not None  # what the source said before

    def held(collection: Collection) -> dict[str, str]:
        mask = collection.labelled
        names = [collection.class_names[c] for c in collection.y[mask]]
        return dict(zip(collection.ids.filter(pa.array(mask)).to_pylist(), names, strict=True))

    assert held(labelled.collection) == held(split)
    assert len(held(split)) == summary["n_labelled"] < 40


def test_a_split_is_a_source_with_its_own_description(npz, tmp_path) -> None:
    path = npz("full.npz", y=np.repeat([0, 1, 2], [20, 12, 8]), y_true=None)
    result = make_split(str(path), tmp_path / "out", preset="natural", n_old=2, seed=3)
    assert result["n_labelled"] + result["n_unlabelled"] == 40
    collection, truth = read_source(result["path"])
    assert truth is not None
    assert collection.n_old == 2
    assert (collection.y != UNLABELLED).sum() == result["n_labelled"]
    assert set(truth.y_true[collection.y == UNLABELLED]) == {0, 1, 2}
    described = read_metadata(pq.read_schema(tmp_path / "out" / "split.parquet"))["split"]
    assert described["checksum"] == result["checksum"]
    assert [sum(c) for c in described["counts"].values()].count(20) == 1
    # The same split again is fine; another one in its place is not.
    assert make_split(str(path), tmp_path / "out", preset="natural", n_old=2, seed=3) == result
    with pytest.raises(InputError, match="holds another split"):
        make_split(str(path), tmp_path / "out", preset="natural", n_old=2, seed=4)


def drawn(path: Path, out: Path, **changes: Any) -> tuple[dict[str, Any], dict[str, tuple[str, bool]]]:
    """The summary of a split, and by id the class of each of its items and whether it is labelled."""
    summary = make_split(str(path), out, **changes)
    collection, truth = read_source(summary["path"])
    assert truth is not None
    names = [truth.class_names[c] for c in truth.y_true]
    found = zip(names, collection.labelled.tolist(), strict=True)
    return summary, dict(zip(collection.ids.to_pylist(), found, strict=True))


@settings(deadline=None, max_examples=12)
@given(
    st.permutations(range(24)),
    st.sampled_from(["natural", "gcd", "bacon", "paper-counts"]),
    st.sampled_from(["ids", "no ids", "texts"]),
)
def test_the_order_of_the_rows_of_one_s_own_source_has_no_say(order: list[int], preset: str, kind: str) -> None:
    """The same items are labelled, by id or, where there is none, by content; copies of an item have no say, either."""
    random = np.random.RandomState(0)
    x, y = random.randn(24, 3).astype(np.float32), np.repeat([2, 0, 1], 8)
    x[1] = x[0]  # a copy
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for name, rows in (("as it was", np.arange(24)), ("permuted", np.array(order))):
            if kind == "texts":
                path = Path(folder, f"{name}.csv")
                texts = (f"{int(1000 * x[row, 0])} is said,class {y[row]}" for row in rows)
                path.write_text("text,label\n" + "\n".join(texts) + "\n")
            else:
                path = Path(folder, f"{name}.npz")
                ids = {"ids": np.array([f"item {row}" for row in rows])} if kind == "ids" else {}
                np.savez(path, x=x[rows], y=y[rows], **ids)
            changes = {"imbalance": 2.0} if preset in ("bacon", "paper-counts") else {}
            found.append(drawn(path, Path(folder, f"split {name}"), preset=preset, seed=3, **changes))
    (summary, items), (other, others) = found
    assert items == others
    assert summary["checksum"] == other["checksum"]
    assert {flag for _, flag in items.values()} == {True, False}


def test_images_of_one_s_own_are_drawn_by_what_they_show(tmp_path: Path) -> None:
    """Another name for a file is another place in the folder, and no other draw."""
    for number in range(12):
        for name, order in (("a", number), ("b", 11 - number)):
            folder = tmp_path / name / f"class {number % 2}"
            folder.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (4, 4), (20 * number, 0, 0)).save(folder / f"{order:02}.png")
    labelled = []
    for name in ("a", "b"):
        collection = read_source(
            make_split(str(tmp_path / name), tmp_path / f"split-{name}", n_old=1)["path"]
        ).collection
        shown = collection.items.take(np.flatnonzero(collection.labelled))
        labelled.append(sorted(shown))
    assert labelled[0] == labelled[1]
    assert len(labelled[0]) == 3


def test_the_named_datasets_are_drawn_from_in_the_order_of_their_files() -> None:
    """As GCD's code does: what is recorded keeps its split, and whoever has another order has another split."""
    y = np.repeat(np.arange(10), 30)
    shuffled = np.random.RandomState(1).permutation(300)
    one, other = (draw_split(of, list(range(10)), 5, SplitConfig("gcd")) for of in (y, y[shuffled]))
    assert set(one.rows[one.labelled]) != set(shuffled[other.rows[other.labelled]])


def test_two_splits_at_once_keep_out_of_each_others_way(npz, tmp_path: Path) -> None:
    path, out = str(npz("full.npz", y=np.repeat([0, 1, 2], [20, 12, 8]), y_true=None)), tmp_path / "out"
    with locked(out, "ltgcd split"), pytest.raises(BusyError, match=r"written to by ltgcd split \(process \d+\)"):
        make_split(path, out, preset="natural", n_old=2)
    assert not out.exists()
    result = make_split(path, out, preset="natural", n_old=2)
    assert sorted(path.name for path in out.iterdir()) == ["labels.csv", "split.npz", "split.parquet"]
    # People go on with a split: what they make in its folder is theirs.
    assert call_cli("embed", result["path"], "--out", out / "features").code == 0


@pytest.mark.parametrize("name", ["labels.csv", "split.npz"])
def test_a_split_again_leaves_what_somebody_has_changed(npz, tmp_path, name: str) -> None:
    path = npz("full.npz", y=np.repeat([0, 1, 2], [20, 12, 8]), y_true=None)
    make_split(str(path), tmp_path / "out")
    changed = tmp_path / "out" / name
    if name == "labels.csv":
        changed.write_text(changed.read_text() + "mine,class 7\n")
    else:
        np.savez(changed, **{**np.load(changed), "y": np.zeros(40, dtype=int)})
    before = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    with pytest.raises(InputError, match=f"{name} is not as 'ltgcd split' writes it"):
        make_split(str(path), tmp_path / "out")
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == before
    changed.unlink()
    make_split(str(path), tmp_path / "out")
    assert changed.is_file()


def test_a_split_that_was_killed_half_way_can_be_made_again(npz, tmp_path, monkeypatch) -> None:
    path = npz("full.npz", y=np.repeat([0, 1, 2], [20, 12, 8]), y_true=None)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("ltgcd.data.splits.write_embeddings", killed)
        make_split(str(path), tmp_path / "out")
    (tmp_path / "out" / ".split.npz.123.tmp").write_bytes(b"half")
    assert read_source(make_split(str(path), tmp_path / "out")["path"]).collection.n_old == 1
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".split.parquet.123.tmp").write_bytes(b"half")
    make_split(str(path), tmp_path / "other")


def test_a_folder_called_like_a_dataset_is_that_dataset(tmp_path, monkeypatch) -> None:
    (tmp_path / "plankton" / "train" / "copepod").mkdir(parents=True)
    (tmp_path / "plankton" / "train" / "copepod" / "a.png").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="121"):
        make_split("plankton", tmp_path / "out", data=tmp_path)
    with pytest.raises(InputError, match="old classes"):  # a source of one class
        make_split("./plankton", tmp_path / "out", data=tmp_path)


def test_real_cifar100_and_plankton(real_data, tmp_path) -> None:
    result = make_split("cifar100", tmp_path / "c", preset="paper-counts", imbalance=10.0, seed=0, data=real_data)
    assert (result["n_labelled"], result["n_unlabelled"]) == (3736, 10935)
    assert (result["lambda_labelled"], result["lambda_unlabelled"]) == (10, 10)
    collection, truth = read_source(tmp_path / "c")
    assert len(collection) == 3736 + 10935
    assert truth is not None
    assert collection.items.take(np.array([5]))[0][:4] == b"\x89PNG"
    plankton = make_split("plankton", tmp_path / "p", seed=1, data=real_data)
    assert plankton["preset"] == "natural"
    assert plankton["n_labelled"] + plankton["n_unlabelled"] == 30336
    assert (plankton["n_old"], plankton["n_classes"]) == (60, 121)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"imbalance": 0.5}, "at least 1"),
        ({"imbalance": float("nan")}, "at least 1"),
        ({"imbalance": float("inf")}, "at least 1"),
        ({"seed": -1}, "seed must lie between"),
        ({"seed": 2**32}, "seed must lie between"),
        ({"n_old": 101}, "101 old classes were asked for, but there are 100"),
        ({"n_old": 90, "n_new": 20}, "20 new classes"),
        ({"n_old": 0}, "0 old classes"),
        ({"label_share": 1.5}, "between 0 and 1"),
        ({"label_sampling": "instance"}, "fixes the number of labelled items"),
        ({"imbalance": 1000.0}, "smaller λ"),
    ],
)
def test_bad_settings(changes: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        cifar("paper-counts", **changes)


@pytest.mark.parametrize("name", ["herbarium19", "herbarium19-lt"])
def test_herbarium_is_split_as_gcd_does_and_its_own_tail_is_kept(name: str, tmp_path: Path) -> None:
    """683 classes of 2 or 3 sheets: half of the items of the 341 old ones are labelled, whatever their class."""
    for c in range(683):
        folder = tmp_path / "data" / "herbarium19" / "small-train" / str(c)
        folder.mkdir(parents=True)
        for number in range(2 + c % 2):
            (folder / f"{number}.jpg").touch()
    summary = make_split(name, tmp_path / "out", data=tmp_path / "data")
    assert (summary["preset"], summary["label_sampling"]) == ("gcd", "instance")
    assert summary["n_labelled"] + summary["n_unlabelled"] == 683 * 2 + 341
    old = list(summary["counts"].values())[:341]
    assert summary["n_labelled"] == sum(map(sum, old)) // 2
    assert min(labelled for labelled, _ in old) == 0  # by class every one would have a label
