"""A training step from cached activations against the same step done the public implementations' way, in one run.

Their way: two views of every image go through the whole trunk in each step and, for a ViT, every token through all of
the last block. Ours: activations are read from memory-mapped fp16 shards and only the trained tail is computed, for a
ViT its CLS row alone. Both steps have heads, all losses of SimGCD, backward and SGD. Images are given, so decoding and
augmentation, which only their way repeats, are not counted.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch import nn

from ltgcd.data.collection import UNLABELLED
from ltgcd.features.backbones import load_backbone
from ltgcd.features.backbones.embeddings import ResidualAdapter
from ltgcd.features.backbones.vit import VARIANTS, build_vit
from ltgcd.features.cache import FeatureStore, write_shard
from ltgcd.features.views import CachedViews, VectorViews, Views
from ltgcd.graph.feature_graph import FeatureGraph
from ltgcd.training.heads import Head
from ltgcd.training.loop import Batch, fit
from ltgcd.training.methods.ltgcd import LTGCD, LTGCDConfig
from ltgcd.training.methods.simgcd import SimGCD, SimGCDConfig
from ltgcd.training.model import Model, Standardise
from ltgcd.training.schedule import Schedule, make_optimiser

K, N_OLD = 100, 80


def seconds(step, repeats: int) -> float:
    step()
    started = time.perf_counter()
    for _ in range(repeats):
        step()
    return (time.perf_counter() - started) / repeats


def stepper(model: nn.Module, pair, contrastive: bool):
    """A training step on what `pair` gives: (2B, …) inputs of the model."""
    method = SimGCD(np.full(1, UNLABELLED), SimGCDConfig(contrastive=contrastive))
    optimiser = make_optimiser(model, Schedule())

    def step() -> None:
        inputs = pair()
        half = len(inputs) // 2
        y = torch.where(torch.arange(half) % 2 == 0, torch.arange(half) % N_OLD, UNLABELLED)
        features, outputs = model(inputs)
        loss = torch.stack(list(method.losses(features, outputs, Batch(torch.arange(half), y, 0.5)).values())).sum()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()

    return step


def cached(shape: tuple[int, ...], n: int, folder: Path) -> CachedViews:
    """A store of random activations, on disk."""
    rows = np.random.RandomState(0).randn(n, 3, *shape).astype(np.float16)
    ids = pa.array([str(i) for i in range(n)])
    write_shard(folder, 0, rows, pa.table({"id": ids}))
    store = FeatureStore(
        folder, {"views": 2, "activation_shape": list(shape)}, ids, np.zeros(n, np.int64), np.arange(n)
    )
    return CachedViews(store, np.arange(n))


def reader(views: Views, batch: int):
    random = np.random.RandomState(0)
    return lambda: views.pair(random.randint(len(views), size=batch), slice(0, batch), random)


def compare(title: str, trunk: nn.Module, their_tail: nn.Module, tail: nn.Module, images: torch.Tensor,
            views: Views, dim: int, target: str, *, contrastive: bool = True, repeats: int = 3) -> None:  # fmt: skip
    trunk.eval()
    batch = len(images) // 2

    def theirs_input() -> torch.Tensor:
        with torch.no_grad():
            return trunk(images)

    theirs = seconds(
        stepper(Model(their_tail, Head(dim, K, contrastive=contrastive)), theirs_input, contrastive), repeats
    )
    ours = seconds(
        stepper(Model(tail, Head(dim, K, contrastive=contrastive)), reader(views, batch), contrastive), 3 * repeats
    )
    print(
        f"{title}: {theirs:.3f} s a step of {batch} images, {ours:.4f} s from the cache: "
        f"{theirs / ours:.1f}× ({target})"
    )


def vit(folder: Path) -> None:
    variant = VARIANTS["dino_vitb16"]
    trunk, tail = build_vit(variant, 224, 1)
    _, whole = build_vit(variant, 224, 1)

    for block in whole.blocks:
        block.cls_only = False  # public code computes the last block for every token
    images = torch.randn(16, 3, 224, 224)
    views = cached((197, variant.dim), 64, folder)
    compare("ViT-B/16, random weights", trunk, whole, tail, images, views, variant.dim, "at least 15×", repeats=2)


def efficientnet(folder: Path) -> None:
    ours, theirs = (load_backbone("efficientnet_lite2", image_size=128) for _ in range(2))
    images = torch.randn(256, 3, 128, 128)
    views = cached(ours.activation_shape, 1024, folder)
    compare("EfficientNet-Lite2, 128 px, last stage", theirs.trunk, theirs.tail, ours.tail, images, views, 1280,
            "at least 2.2×; trunk without gradient in both")  # fmt: skip


def frozen() -> None:
    network = load_backbone("efficientnet_lite2", image_size=128)
    images = torch.randn(256, 3, 128, 128)
    trunk = nn.Sequential(network.trunk, network.tail, Standardise(1280, 1280, whiten=False))
    views = VectorViews(np.random.RandomState(0).randn(4096, 256).astype(np.float32))
    their_tail, tail = ResidualAdapter(1280), ResidualAdapter(256)
    theirs = seconds(
        stepper(Model(nn.Sequential(trunk.requires_grad_(False), their_tail), Head(1280, K, contrastive=False)),
                lambda: images, contrastive=False), 2)  # fmt: skip
    ours = seconds(stepper(Model(tail, Head(256, K, contrastive=False)), reader(views, 128), contrastive=False), 50)
    print(f"frozen, EfficientNet-Lite2: {theirs:.3f} s a step of 128 images, {ours:.5f} s from features: "
          f"{theirs / ours:.0f}× (at least 100×)")  # fmt: skip


def selection(folder: Path) -> None:
    """Share of the second epoch (the first has no selection) that goes to it, last-stage shapes, 4,000 items."""
    n, backbone = 4000, load_backbone("efficientnet_lite2", image_size=128)
    views = cached(backbone.activation_shape, n, folder)
    y = np.where(np.arange(n) % 4 == 0, np.arange(n) % N_OLD, UNLABELLED)
    lines: list[dict] = []
    start = FeatureGraph(np.random.RandomState(0).randn(n, 64).astype(np.float32))
    objective = LTGCD(y, LTGCDConfig(warmup=0.0), start)
    fixed = Standardise(1280, 1280, whiten=False)
    model = Model(nn.Sequential(backbone.tail, fixed), Head(1280, K, contrastive=True))
    fit(model, objective, views, y, Schedule(epochs=2, batch_size=256), record=lines.append)
    part, whole = lines[1]["seconds_selection"], lines[1]["seconds"]
    print(f"selection, last stage, N = {n}: {part:.2f} s of an epoch of {whole:.1f} s: {100 * part / whole:.0f} % "
          "(at most 20 %)")  # fmt: skip


def main() -> None:
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        for number, study in enumerate((vit, efficientnet, selection)):
            (Path(folder) / str(number)).mkdir()
            study(Path(folder) / str(number))
    frozen()


if __name__ == "__main__":
    main()
