"""Embeddings that no answer can come from are refused, doubtful ones warned of (DEFECTS 107); empty classes (104)."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conftest import Npz, fails
from ltgcd.common.errors import InputError
from ltgcd.data.check import doubts_about, inspect_source
from ltgcd.data.collection import Collection, Source, Truth, check_unique, without_empty_classes
from ltgcd.data.items import Vectors
from ltgcd.data.labels import names_of
from ltgcd.data.sources import read_source

Y = np.where(np.arange(60) < 20, np.arange(60) % 2, -1)


def blobs(d: int = 4) -> np.ndarray:
    return np.random.RandomState(0).randn(60, d).astype(np.float32)


def test_good_embeddings_raise_no_doubt() -> None:
    for x in (blobs(), blobs() * 1e-15, blobs() * 1e10, blobs() + 1000, blobs(2), blobs().astype(np.float16)):
        assert doubts_about(x, Y) == []


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.zeros((60, 4)), "All 60 embeddings are zero"),
        (blobs() * np.float32(1e-30), "too small for single precision"),
        (blobs().astype(np.float64) * 1e-200, "too small for single precision"),
        (np.ones((60, 4)), "All 60 embeddings are the same"),
        (1e6 + np.random.RandomState(0).randn(60, 4) * 1e-3, "All 60 embeddings are the same but for rounding"),
        (blobs(1), "(n_features = 1) can tell two groups apart, and no more, but 2 classes are known"),
        (np.outer(blobs(1).ravel(), np.ones(4)), "numbers that all say the same"),
        (np.eye(3)[np.arange(60) % 2], "numbers that all say the same"),
        (np.vstack([np.zeros((30, 4)), np.ones((30, 4))]), "numbers that all say the same"),
    ],
)
def test_what_no_answer_can_come_from_is_refused(x: np.ndarray, words: str) -> None:
    with pytest.raises(InputError) as refused:
        doubts_about(x, Y)
    assert words in str(refused.value)


def test_more_classes_than_different_rows() -> None:
    with pytest.raises(InputError, match="Only 3 of 60 embeddings differ, but 5 classes are known"):
        doubts_about(blobs()[np.arange(60) % 3], np.where(np.arange(60) < 20, np.arange(60) % 5, -1))


def test_what_is_doubtful_is_said() -> None:
    x = blobs()
    x[7] *= 1e6
    (doubt,) = doubts_about(x, Y)
    assert "1 of 60 embeddings are more than 1,000 times as long as most (the longest, row 7, " in doubt
    x = blobs()
    x[[50, 51]] = 0
    (doubt,) = doubts_about(x, Y)
    assert "2 of 60 embeddings are zero (the first is row 50)" in doubt
    (doubt,) = doubts_about(blobs()[np.arange(60) % 20], Y)
    assert "Only 20 of 60 embeddings differ" in doubt
    x = blobs()
    x[1], x[30] = x[0], x[0]
    (doubt,) = doubts_about(x, Y)
    assert "2 labelled items have the same embedding as an item with another label" in doubt
    (doubt,) = doubts_about(blobs(1), np.where(Y == 0, 0, -1))
    assert "can tell two groups apart, and no more; give" in doubt


def test_inspect_refuses_and_notes(npz: Npz) -> None:
    assert "embeddings are the same" in fails("inspect", npz(x=np.ones((40, 5))))
    x = np.random.RandomState(0).randn(40, 5).astype(np.float32)
    x[3] = 0
    said: list[str] = []
    result = inspect_source(npz(x=x), notify=said.append)
    assert result["notes"] == said
    assert "source.npz: 1 of 40 embeddings are zero" in said[0]


def test_ids_are_looked_at_once_and_never_counted_as_strings(npz: Npz, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20 million rows, counting strings takes minutes, and `inspect` did it twice (DEFECTS 120)."""
    looked_at: list[int] = []

    def counted(ids: pa.StringArray, owner: str | Path) -> None:
        looked_at.append(len(ids))
        check_unique(ids, owner)

    def refuse(_ids: pa.StringArray) -> None:
        raise AssertionError("strings are counted")

    for room in ("collection", "sources"):
        monkeypatch.setattr(f"ltgcd.data.{room}.check_unique", counted)
    monkeypatch.setattr("ltgcd.data.collection.pc.count_distinct", refuse)
    assert inspect_source(npz())["n"] == 40
    assert looked_at == [40]


def test_every_array_of_an_archive_is_read_once(npz: Npz, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every access to a member of an archive reads all of it again: of 20 million rows, a minute each (DEFECTS 120)."""
    path, read, real = npz(ids=np.array([f"i{i}" for i in range(40)])), list[str](), zipfile.ZipFile.open

    def opened(self: zipfile.ZipFile, name: Any, *arguments: Any, **more: Any) -> Any:
        read.append(getattr(name, "filename", name))
        return real(self, name, *arguments, **more)

    monkeypatch.setattr(zipfile.ZipFile, "open", opened)
    assert inspect_source(path)["n"] == 40
    assert sorted(read) == ["ids.npy", "x.npy", "y.npy", "y_true.npy"]


def test_empty_texts(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('id,text,label\na,"  ",x\nb,,\n')
    assert "All 2 texts in" in fails("inspect", tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text('id,text,label\na," ",x\nb,,\nc,word,\n')
    with pytest.warns(UserWarning, match="2 of 3 texts are empty"):
        read_source(tmp_path / "t.csv")


# ---------------------------------------------------------------- classes without an example


def test_a_class_without_an_example_is_not_known(npz: Npz) -> None:
    said: list[str] = []
    path = npz(class_names=np.array(["ant", "bee", "new", "wasp"]), n_old=np.array(4))
    collection, truth = read_source(path, notify=said.append)
    assert collection.class_names == ("ant", "bee")
    assert len(said) == 1
    assert "no item is labelled 'new', 'wasp', so that 2 of the listed classes are not known" in said[0]
    assert truth is not None
    assert truth.n_old == 2
    assert names_of(truth.y_true, truth.class_names).to_pylist() == ["ant"] * 20 + ["bee"] * 12 + ["new"] * 8
    unlabelled = npz(y=np.full(40, -1), y_true=None, n_old=np.array(4))
    assert read_source(unlabelled, notify=said.append).collection.class_names == ()
    assert len(said) == 1  # nothing is known of such a source, and it claims nothing


def test_the_truth_of_other_classes_stays() -> None:
    ids = pa.array(list("abcd"))
    y, names = np.array([2, 0, -1, -1]), ("a", "empty", "c")
    truth = Truth(ids, np.array([2, 0, 1, 3]), (*names, "new"), 3)
    lean, empty = without_empty_classes(Source(Collection(ids, Vectors(np.eye(4)), y, names), truth))
    assert empty == ["empty"]
    assert lean.collection.class_names == ("a", "c")
    assert lean.collection.y.tolist() == [1, 0, -1, -1]
    assert lean.truth is not None
    assert lean.truth.n_old == 2
    assert names_of(lean.truth.y_true, lean.truth.class_names).to_pylist() == ["c", "a", "empty", "new"]
    again, none = without_empty_classes(lean)
    assert again is lean
    assert none == []
