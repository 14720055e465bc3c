"""Several image backbones as one: what each of them gives, side by side, and the same once loaded again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from conftest import fails, image_bytes
from ltgcd.common.errors import InputError
from ltgcd.data.collection import Collection, Source
from ltgcd.data.items import ImageBytes
from ltgcd.features.backbones import backbone_of, check_backbone, load_backbone
from ltgcd.features.embed import embed

BOTH = "efficientnet_lite0+efficientnet_lite2"


def test_features_are_those_of_each_at_unit_length(tmp_path: Path) -> None:
    blobs = pa.array([image_bytes(i, (70, 64)) for i in range(20)], pa.binary())
    ids = pa.array([str(i) for i in range(20)])
    source = Source(Collection(ids, ImageBytes(blobs), np.full(20, -1), ()), None)
    done = embed(source, load_backbone(BOTH, image_size=64), tmp_path / "both", views=1)
    assert done.dim == 2560
    parts = []
    for name in BOTH.split("+"):
        x = embed(source, load_backbone(name, image_size=64), tmp_path / name).source.collection.items.take(
            np.arange(20)
        )
        parts.append(x / np.linalg.norm(x, axis=1, keepdims=True))
    got = done.source.collection.items.take(np.arange(20))
    np.testing.assert_allclose(got, np.concatenate(parts, axis=1), rtol=1e-4, atol=1e-5)
    # It is loaded again as it was, from what is kept with the features; the tail can be trained.
    again = backbone_of(done.store.key)
    activations = torch.from_numpy(done.store.take(np.arange(20)).astype(np.float32))
    again.tail(activations).square().mean().backward()
    assert all(p.grad is not None for p in again.tail.parameters() if p.requires_grad)
    with torch.no_grad():
        np.testing.assert_allclose(again.tail(activations).numpy(), got, rtol=1e-4, atol=1e-5)


def test_names_that_can_not_be_joined() -> None:
    assert load_backbone(BOTH).preprocessing.image_size == 260  # type: ignore[union-attr]
    check_backbone(BOTH, "image", 2)
    for name in ("efficientnet_lite0+efficientnet_lite0", "efficientnet_lite0+minilm", "efficientnet_lite0+", "+"):
        with pytest.raises(InputError, match="There is no backbone called"):
            check_backbone(name, "image")
        with pytest.raises(InputError, match="There is no backbone called"):
            load_backbone(name)
    with pytest.raises(InputError, match="takes images"):
        check_backbone(BOTH, "text")
    with pytest.raises(InputError, match="has no weights"):
        load_backbone(BOTH, weights="w.pth")


def test_backbones_that_prepare_images_differently_are_refused(tmp_path: Path) -> None:
    from ltgcd.features.backbones.joined import join

    small, large = (load_backbone("efficientnet_lite0", image_size=size) for size in (64, 96))
    with pytest.raises(InputError, match="prepare images in different ways"):
        join([small, large])
    assert "There is no backbone called" in fails(
        "embed", _photos(tmp_path), "--backbone", "a+b", "--out", tmp_path / "f"
    )


def _photos(folder: Path) -> Path:
    (folder / "photos").mkdir()
    (folder / "photos" / "a.png").write_bytes(image_bytes(0))
    return folder / "photos"
