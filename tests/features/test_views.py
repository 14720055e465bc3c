"""Views: two different ones a pair, the same in one process as in several, from memory or from a cache on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.common.errors import InputError
from ltgcd.features.cache import FeatureStore, write_shard
from ltgcd.features.views import CachedViews, VectorViews, Views
from ltgcd.training.distributed import World


def store_of(folder: Path, n: int, n_views: int, shape: tuple[int, ...] = (2, 3)) -> FeatureStore:
    """Activations that say which item and view they are: 10 · item + view. Items lie in two shards, out of order."""
    shard, row = np.arange(n) % 2, np.arange(n) // 2
    for number in range(2):
        items = np.flatnonzero(shard == number)
        values = 10 * items[:, None] + np.arange(n_views + 1)
        activations = np.broadcast_to(values.reshape(*values.shape, *[1] * len(shape)), (*values.shape, *shape))
        write_shard(folder, number, activations.astype(np.float16), pa.table({"row": np.arange(len(items))}))
    key = {"views": n_views, "activation_shape": list(shape)}
    return FeatureStore(folder, key, pa.array([str(i) for i in range(n)]), shard, row)


def joined(views: Views, rows: np.ndarray, size: int, seed: int) -> torch.Tensor:
    """What `size` processes with random numbers of their own, from one seed, hold together."""
    shares = [World(rank, size).share(len(rows)) for rank in range(size)]
    parts = [views.pair(rows, mine, np.random.RandomState(seed)).unflatten(0, (2, -1)) for mine in shares]
    return torch.cat(parts, dim=1).flatten(0, 1)


@pytest.mark.parametrize("n_views", [2, 3, 5])
def test_cached_pairs_are_two_different_training_views_of_the_same_item(tmp_path: Path, n_views: int) -> None:
    views = CachedViews(store_of(tmp_path, 9, n_views), np.array([7, 2, 4, 0, 8]))
    rows = np.random.RandomState(1).randint(0, 5, 3000)
    pair = views.pair(rows, slice(None), np.random.RandomState(0))
    assert pair.shape == (6000, 2, 3)
    assert pair.dtype == torch.float32
    assert (pair == pair[:, :1, :1]).all()
    item, view = np.divmod(pair[:, 0, 0].numpy().astype(int), 10)
    assert np.array_equal(item, np.tile(views.rows[rows], 2))
    first, second = view[:3000], view[3000:]
    assert (first != second).all()
    # View 0 is the test view; every ordered pair of the others is as likely.
    counts = np.bincount(first * 10 + second, minlength=100).reshape(10, 10)
    used = counts[1 : n_views + 1, 1 : n_views + 1]
    assert used.sum() == 3000
    expected = 3000 / (n_views * (n_views - 1))
    assert np.abs(used[~np.eye(n_views, dtype=bool)] - expected).max() < 5 * np.sqrt(expected)


def test_cached_test_view(tmp_path: Path) -> None:
    views = CachedViews(store_of(tmp_path, 6, 2), np.array([5, 1, 3]))
    assert len(views) == 3
    got = views.test(np.array([2, 0, 0]))
    assert got.dtype == torch.float32
    assert got[:, 1, 2].tolist() == [30, 50, 50]
    assert views.test(np.empty(0, dtype=np.int64)).shape == (0, 2, 3)


@pytest.mark.parametrize("n_views", [0, 1])
def test_a_cache_with_too_few_views(tmp_path: Path, n_views: int) -> None:
    views = CachedViews(store_of(tmp_path, 4, n_views), np.arange(4))
    assert len(views.test(np.arange(4))) == 4  # labelling needs no pairs
    with pytest.raises(InputError, match=rf"holds {n_views} training views an image.*at least two.*--views 4"):
        views.pair(np.arange(4), slice(None), np.random.RandomState(0))


@pytest.mark.parametrize("kind", ["vectors", "cached"])
def test_one_process_and_several_see_the_same_views(tmp_path: Path, kind: str) -> None:
    x = np.random.RandomState(0).randn(10, 7).astype(np.float32)
    views: Views = VectorViews(x) if kind == "vectors" else CachedViews(store_of(tmp_path, 10, 4), np.arange(10))
    rows = np.random.RandomState(1).randint(0, 10, 12)
    alone = views.pair(rows, slice(0, 12), np.random.RandomState(3))
    for size in (1, 2, 3, 4):
        assert torch.equal(joined(views, rows, size, 3), alone)
    assert not torch.equal(joined(views, rows, 2, 4), alone)


@pytest.mark.parametrize("kind", ["vectors", "cached"])
def test_the_stream_of_random_numbers_does_not_hang_on_the_share(tmp_path: Path, kind: str) -> None:
    """The next batch is drawn from the same generator, so a share must leave it where another share does."""
    x = np.random.RandomState(0).randn(10, 7).astype(np.float32)
    views: Views = VectorViews(x) if kind == "vectors" else CachedViews(store_of(tmp_path, 10, 4), np.arange(10))
    after = []
    for mine in (slice(0, 8), slice(0, 4), slice(4, 8)):
        random = np.random.RandomState(5)
        views.pair(np.arange(8), mine, random)
        after.append(random.randint(2**31))
    assert len(set(after)) == 1


def test_vectors() -> None:
    x = np.arange(1, 4001, dtype=np.float32).reshape(4, 1000)
    views = VectorViews(x, 0.3)
    assert len(views) == 4
    assert np.array_equal(views.test(np.array([3, 0])).numpy(), x[[3, 0]])
    rows = np.array([1, 1, 2])
    pair = views.pair(rows, slice(None), np.random.RandomState(0)).numpy()
    assert pair.shape == (6, 1000)
    for view, row in zip(pair, np.tile(rows, 2), strict=True):
        kept = view != 0
        np.testing.assert_allclose(view[kept], x[row][kept] / 0.7, rtol=1e-6)
        assert kept.mean() == pytest.approx(0.7, abs=0.06)
    assert len({(view != 0).tobytes() for view in pair}) == 6  # no two alike, not even of the item drawn twice
    whole = VectorViews(x, 0.0).pair(rows, slice(None), np.random.RandomState(0)).numpy()
    assert np.array_equal(whole, x[np.tile(rows, 2)])


def test_a_view_does_not_change_the_vectors() -> None:
    x = np.ones((3, 5), dtype=np.float32)
    views = VectorViews(x, 0.5)
    views.pair(np.arange(3), slice(None), np.random.RandomState(0)).zero_()
    views.test(np.arange(3)).zero_()
    assert (x == 1).all()


@pytest.mark.parametrize("dropout", [1.0, -0.1])
def test_a_dropout_that_is_no_share(dropout: float) -> None:
    with pytest.raises(InputError, match="dropout probability"):
        VectorViews(np.ones((2, 3), dtype=np.float32), dropout).pair(
            np.arange(2), slice(None), np.random.RandomState(0)
        )


@settings(max_examples=40, deadline=None)
@given(n=st.integers(0, 50), size=st.integers(1, 9))
def test_shares_are_a_partition_in_order(n: int, size: int) -> None:
    shares = [World(rank, size).share(n) for rank in range(size)]
    assert [i for mine in shares for i in range(n)[mine]] == list(range(n))
    lengths = [mine.stop - mine.start for mine in shares]
    assert max(lengths) - min(lengths) <= 1


def test_a_world_of_one_passes_everything_through() -> None:
    world, rows = World(), torch.arange(6.0).reshape(3, 2)
    assert world.first
    assert world.gather_views(rows) is rows
    assert world.gather_rows(rows, 3) is rows
    assert world.from_first(lambda: 7) == 7
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.tensor([1.0, 2.0])
    world.average_gradients([parameter])
    assert parameter.grad.tolist() == [1.0, 2.0]
