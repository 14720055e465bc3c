"""Rows of `CategoryDiscovery` keep who they are: an index is an id, and an item is its id and its content."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from numpy.typing import NDArray

from conftest import call_cli
from ltgcd import CategoryDiscovery

N = 90


def vectors(seed: int, n: int = N) -> NDArray[np.float32]:
    true = np.arange(n) % 3
    return (np.eye(3, 8)[true] * 5 + np.random.RandomState(seed).randn(n, 8) * 0.3).astype(np.float32)


Y = np.where((np.arange(N) % 3 < 2) & (np.arange(N) < 45), np.arange(N) % 3, -1)


def fitted(x: Any) -> CategoryDiscovery:
    return CategoryDiscovery(n_classes=3, epochs=1, rehearsals=0).fit(x, Y)


def frame(seed: int, n: int = N, **how: Any) -> pandas.DataFrame:
    return pandas.DataFrame(vectors(seed, n), columns=[f"c{i}" for i in range(8)], **how)


def ids_of(model: CategoryDiscovery) -> list[Any]:
    found: list[Any] = model.assignments()["id"].tolist()
    return found


def test_rows_that_are_only_counted_get_new_numbers(tmp_path: Path) -> None:
    """Both tables count their rows from 0: that was taken for an id, twice."""
    model = fitted(frame(0)).update(frame(1, 30))
    assert ids_of(model) == list(range(N + 30))
    assert sum(category.size + category.leaning for category in model.categories_) == N + 30
    model.report(tmp_path / "page.html")
    again = CategoryDiscovery.load(model.save(tmp_path / "run"))
    assert ids_of(again) == ids_of(model)
    row = int(np.flatnonzero(model.status_ == "novel")[0])
    model.refine({str(row): "wasp"})
    assert model.labels_[row] == "wasp"


@pytest.mark.parametrize("how", ["array", "counted", "index"])
def test_rows_given_twice_are_there_already(how: str, tmp_path: Path) -> None:
    x, more = vectors(0), vectors(1, 30)
    if how != "array":
        x, more = (pandas.DataFrame(one) for one in (x, more))
    if how == "index":
        x.index, more.index = [f"a{i}" for i in range(N)], [f"b{i}" for i in range(30)]
    model = fitted(x).update(more)
    before = model.assignments()
    with pytest.warns(UserWarning, match="30 of 30 rows were there already"):
        model.update(more)
    assert model.assignments().equals(before)
    with pytest.warns(UserWarning, match="5 of 5 rows were there already"):
        model.update(x[:5])
    assert model.assignments().equals(before)
    labels = np.where(np.arange(30) < 2, 1, -1)
    labels[1] = 77
    with pytest.warns(UserWarning, match=r"2 labels of rows that were there already have no effect.*refine"):
        model.update(more, labels)
    assert model.assignments().equals(before)
    loaded = CategoryDiscovery.load(model.save(tmp_path / "run"))
    assert loaded.assignments()["id"].tolist() == before["id"].tolist()


def test_an_index_that_is_there_for_other_content_is_another_row() -> None:
    names = [f"IMG_{i:04d}.jpg" for i in range(N)]
    model = fitted(frame(0, index=names))
    with pytest.warns(UserWarning, match=r"20 new items have an id that the collection has for other content"):
        model.update(frame(1, 20, index=names[:20]))
    assert ids_of(model)[N:] == [f"IMG_{i:04d} (2).jpg" for i in range(20)]
    # Some rows that are there, some that are not, in one table.
    both = pandas.concat([frame(0, index=names)[:10], frame(2, 7, index=[f"new{i}" for i in range(7)])])
    labels = [None] * 15 + ["hornet"] * 2
    with pytest.warns(UserWarning, match="10 of 17 rows were there already"):
        model.update(both, labels)
    assert ids_of(model)[-7:] == [f"new{i}" for i in range(7)]
    assert model.labels_[-2:].tolist() == ["hornet"] * 2


def test_a_part_of_a_table_is_told_from_the_rest() -> None:
    whole = frame(3, 160)
    model = fitted(whole[:N])
    with pytest.warns(UserWarning, match="10 of 40 rows were there already"):
        model.update(whole[80:120])
    assert ids_of(model) == list(range(120))
    assert model.assignments().set_index("id").index.equals(pandas.RangeIndex(120))


def test_assignments_join_the_table_that_was_fitted(tmp_path: Path) -> None:
    for index in (
        pandas.Index(np.arange(N) * 7 + 3),
        pandas.date_range("2026-01-01", periods=N),
        pandas.RangeIndex(N),
        pandas.Index([f"r{i}" for i in range(N)]),
    ):
        table = frame(0, index=index)
        model = fitted(table)
        joined = table.join(model.assignments().set_index("id"))
        assert joined["label"].tolist() == model.labels_.tolist()
        if index.dtype.kind != "M":  # what a file can't hold comes back as text
            again = CategoryDiscovery.load(model.save(tmp_path / f"{index[1]}-{type(index).__name__}"))
            assert table.join(again.assignments().set_index("id"))["status"].tolist() == model.status_.tolist()


def test_without_pandas_ids_of_any_kind_are_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted(frame(0, index=[i if i % 2 else f"r{i}" for i in range(N)]))
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    assert model.assignments().column("id").to_pylist()[:3] == ["r0", "1", "r2"]


def test_an_index_that_is_not_unique_is_said() -> None:
    table = frame(0, index=[f"r{i // 2}" for i in range(N)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fitted(table)
    assert [str(one.message) for one in caught if "not unique" in str(one.message)] == [
        "The index of X is not unique, so it says nothing about which row is which; rows are numbered instead."
    ]
    assert ids_of(model) == list(range(N))


def test_warnings_name_the_line_that_called() -> None:
    x = vectors(0)
    x[:30] = x[0]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CategoryDiscovery(n_classes=3, epochs=1, rehearsals=0).fit(x, Y)
        fitted(frame(0)).refine({"nobody": "wasp"})
        fitted(frame(0, index=[f"r{i // 2}" for i in range(N)]))
        fitted(vectors(0)).fit_predict(vectors(0), Y[:, None])
    assert len(caught) >= 4
    assert {one.filename for one in caught} == {__file__}


def test_the_command_agrees(tmp_path: Path) -> None:
    """What is there already for the one is for the other."""
    folder = fitted(vectors(0)).save(tmp_path / "run")
    np.savez(tmp_path / "more.npz", x=vectors(1, 30), ids=[f"m{i}" for i in range(30)])
    assert call_cli("update", folder, tmp_path / "more.npz", "--json").json["n_added"] == 30
    model = CategoryDiscovery.load(folder)
    assert ids_of(model) == [*range(N), *(f"m{i}" for i in range(30))]
    with pytest.warns(UserWarning, match="30 of 30 rows were there already"):
        model.update(frame(1, 30, index=[f"m{i}" for i in range(30)]))
