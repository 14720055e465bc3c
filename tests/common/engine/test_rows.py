"""Blocks of rows: the same whoever computes them, and what is finished is not computed again."""

from __future__ import annotations

import os
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import errands
import numpy as np
import pytest

import ltgcd.common.engine.rows as rows_module
from ltgcd.common.engine.rows import WORK, Sharing, by_rows, on_cluster, ours_in, shared
from ltgcd.graph import knn
from ltgcd.graph.knn import NeighbourGraph, knn_graph

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(50, 3)


def summed(folder: Path, trouble: str = "", threads: int = 1) -> tuple[np.ndarray, set[int]]:
    """Sums of rows, block by block, and the processes that computed them."""
    out, processes = np.empty(len(X)), np.empty(len(X), dtype=np.int64)
    for place, (sums, who) in by_rows(partial(errands.sums, folder, trouble), {"x": X}, len(X), 8, "summing", threads):
        out[place], processes[place] = sums, who
    return out, set(processes.tolist())


@pytest.mark.parametrize("threads", [1, 3])
def test_alone(tmp_path: Path, threads: int) -> None:
    found, processes = summed(tmp_path, threads=threads)
    np.testing.assert_array_equal(found, X.sum(axis=1))
    assert processes == {os.getpid()}
    assert sorted(errands.asked(tmp_path)) == [(start, min(start + 8, 50)) for start in range(0, 50, 8)]


def test_shared_by_two_processes_that_leave_nothing_behind(tmp_path: Path) -> None:
    with shared(Sharing(tmp_path / "shared", workers=2)):
        found, processes = summed(tmp_path)
    np.testing.assert_array_equal(found, X.sum(axis=1))
    assert len(processes) == 2 and os.getpid() not in processes
    assert not list((tmp_path / "shared").iterdir())
    assert summed(tmp_path)[1] == {os.getpid()}, "nobody shares outside"


def test_a_folder_of_somebodys_is_shared_through_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`predict --cluster --out team.parquet` shares through team.shared, which it removed with all that was in it."""
    monkeypatch.setattr(rows_module, "check_cluster", lambda name: name)
    monkeypatch.setattr(rows_module, "joined", nullcontext)
    folder, thesis = tmp_path / "team.shared", tmp_path / "team.shared" / "thesis.txt"
    for theirs in (True, False):
        folder.mkdir(exist_ok=True)
        thesis.write_text("precious")
        left = folder / f"{WORK}{'0' * 16}"  # of a call that was killed, with other vectors
        left.mkdir()
        (left / "x.npy").write_bytes(b"x")
        assert ours_in(folder) == [left]
        if not theirs:
            thesis.unlink()
        with on_cluster("auto", folder, lambda _sentence: None):
            pass
        assert not left.exists() and folder.exists() == theirs
        assert not theirs or thesis.read_text() == "precious"
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with on_cluster("auto", folder, lambda _sentence: None):
        pass
    assert folder.is_symlink() and (tmp_path / "elsewhere").is_dir()


def test_what_is_finished_is_not_computed_again(tmp_path: Path) -> None:
    """Stopped by an error after some blocks; the next call does the others, and one whose file is damaged."""
    with shared(Sharing(tmp_path / "shared", workers=2)):
        with pytest.raises(ZeroDivisionError):
            summed(tmp_path, "error")
        (folder,) = (tmp_path / "shared").iterdir()
        kept = sorted(folder.glob("rows-*.npz"))
        assert kept
        kept[0].write_bytes(kept[0].read_bytes()[:40])
        before = errands.asked(tmp_path)
        found, _ = summed(tmp_path, "error")  # the trouble is over
    np.testing.assert_array_equal(found, X.sum(axis=1))
    again = errands.asked(tmp_path)[len(before) :]
    assert len(again) == 7 - len(kept) + 1
    assert not list((tmp_path / "shared").iterdir())


def test_other_arrays_are_other_work(tmp_path: Path) -> None:
    with shared(Sharing(tmp_path / "shared", workers=2)):
        with pytest.raises(ZeroDivisionError):
            summed(tmp_path, "error")
        other = [
            found for _, (found, _) in by_rows(partial(errands.sums, tmp_path, "error"), {"x": X + 1}, 50, 8, "summing")
        ]
    np.testing.assert_array_equal(np.concatenate(other), (X + 1).sum(axis=1))


def same(a: NeighbourGraph, b: NeighbourGraph) -> bool:
    return np.array_equal(a.indices, b.indices) and np.array_equal(a.similarities, b.similarities)


@pytest.mark.parametrize("exact", [True, False])
def test_neighbours_are_the_same_whoever_searches(tmp_path: Path, exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knn, "QUERIES", 1024)
    centres = RANDOM.randn(40, 24)
    x = (np.repeat(centres, 150, axis=0) + 0.5 * RANDOM.randn(6000, 24)).astype(np.float32)
    x[50:60] = x[49]
    alone = knn_graph(x, 15, exact=exact)
    with shared(Sharing(tmp_path / "shared", workers=2)):
        assert same(knn_graph(x, 15, exact=exact), alone)
    assert alone.exact is exact
