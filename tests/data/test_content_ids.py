"""Items without ids are known by what they are, wherever they stand (DEFECTS 11, 103, 106)."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Npz, image_bytes
from ltgcd.data.content_ids import content_digests, content_ids
from ltgcd.data.items import ImageBytes, ImageFiles, Texts, Vectors
from ltgcd.data.sources import read_source


def ids_of(path: Path) -> list[str]:
    found: list[str] = read_source(path).collection.ids.to_pylist()
    return found


def test_sorted_again_texts_keep_their_ids(tmp_path: Path) -> None:
    lines = [f"text {i},{'x' if i < 3 else ''}" for i in range(9)]
    (tmp_path / "a.csv").write_text("\n".join(["text,label", *lines]))
    (tmp_path / "b.csv").write_text("\n".join(["text,label", *reversed(lines)]))
    assert ids_of(tmp_path / "a.csv") == ids_of(tmp_path / "b.csv")[::-1]
    assert ids_of(tmp_path / "a.csv")[0] != "0"


def test_rows_of_another_archive_are_other_items(npz: Npz) -> None:
    x = np.random.RandomState(1).randn(40, 5).astype(np.float32)
    mine, shuffled, other = npz("a.npz", x=x), npz("b.npz", x=x[::-1]), npz("c.npz", x=x + 1)
    assert ids_of(mine) == ids_of(shuffled)[::-1]
    assert not set(ids_of(mine)) & set(ids_of(other))
    assert ids_of(npz("d.npz", x=x.astype(np.float64))) == ids_of(mine)


def test_images_in_parquet_without_names(tmp_path: Path) -> None:
    blobs = [image_bytes(i) for i in (3, 1, 2, 1)]
    for name, column in {
        "plain": pa.array(blobs, pa.binary()),
        "unnamed": pa.array([{"bytes": blob, "path": None} for blob in blobs]),
        "one name": pa.array([{"bytes": blob, "path": "image.png"} for blob in blobs]),
    }.items():
        pq.write_table(pa.table({"image": column, "label": ["a", None, None, None]}), tmp_path / f"{name}.parquet")
        ids = ids_of(tmp_path / f"{name}.parquet")
        assert ids == content_ids(ImageBytes(pa.array(blobs, pa.binary()))).to_pylist()
        assert ids[3] == f"{ids[1]}-2"


def test_given_ids_and_paths_stay(npz: Npz, image_folder: Path, tmp_path: Path) -> None:
    assert ids_of(npz(ids=np.arange(40)))[:2] == ["0", "1"]
    assert ids_of(image_folder)[0] == "cat/a.png"
    (tmp_path / "t.csv").write_text("id,text,label\n7,one,x\n8,two,\n")
    assert ids_of(tmp_path / "t.csv") == ["7", "8"]


@given(st.lists(st.sampled_from(["a", "b", "", "é", "a "]), max_size=30), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_copies_are_numbered_and_the_order_does_not_matter(texts: list[str], seed: int) -> None:
    ids = content_ids(Texts(pa.array(texts, pa.string()))).to_pylist()
    assert len(set(ids)) == len(texts)
    shuffled = np.random.RandomState(seed).permutation(len(texts))
    again = content_ids(Texts(pa.array([texts[i] for i in shuffled], pa.string()))).to_pylist()
    assert sorted(again) == sorted(ids)
    meant = dict(zip(ids, texts, strict=True))
    assert [meant[i] for i in again] == [texts[i] for i in shuffled]
    for text in set(texts):
        mine = [i for i, t in zip(ids, texts, strict=True) if t == text]
        assert mine == [mine[0], *(f"{mine[0]}-{n}" for n in range(2, len(mine) + 1))]


def test_the_same_name_with_another_content_has_another_digest(image_folder: Path) -> None:
    files = read_source(image_folder).collection.items
    assert isinstance(files, ImageFiles)
    before = content_digests(files).to_pylist()
    (image_folder / "cat" / "a.png").write_bytes(image_bytes(99))
    after = content_digests(files).to_pylist()
    assert [a == b for a, b in zip(before, after, strict=True)] == [False, True, True, True, True]
    assert {len(digest) for digest in after} == {32}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_digests_of_rows_do_not_depend_on_the_others(dtype: type) -> None:
    x = np.random.RandomState(0).randn(70_000, 2).astype(dtype)  # more than one block
    every = content_digests(Vectors(x))
    assert every.take([65_000, 69_999]).equals(content_digests(Vectors(x[[65_000, 69_999]])))


def test_a_million_rows_take_seconds(tmp_path: Path) -> None:
    """`inspect` of 20 million rows took more than two minutes (DEFECTS 120): nothing may loop over rows in Python."""
    n = 1_000_000
    x = np.random.RandomState(0).randn(n, 4).astype(np.float32)
    np.savez(tmp_path / "big.npz", x=x, y=np.arange(n) % 50 - 1, y_true=np.arange(n) % 60)
    started = time.process_time()
    collection = read_source(tmp_path / "big.npz").collection
    assert time.process_time() - started < 5
    assert collection.n_old == 49
