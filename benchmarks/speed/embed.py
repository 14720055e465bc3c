"""Images a second of `ltgcd.features.embed.embed` against a plain torch loop in the same run, and its peak memory.

The plain loop is what one writes first: Pillow decode, resize, crop, a batch of 32, the published network in eval mode.
"""

from __future__ import annotations

import argparse
import io
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from PIL import Image

from ltgcd.data.collection import Collection, Source
from ltgcd.data.items import ImageBytes
from ltgcd.features.backbones import efficientnet_lite as lite
from ltgcd.features.backbones import load_backbone
from ltgcd.features.embed import embed

NAME, SIZE, BATCH = "efficientnet_lite2", 128, 32


def photos(n: int, seed: int = 0) -> Source:
    """JPEGs of 256×192 with smooth structure, made here so that the benchmark needs no data."""
    random = np.random.RandomState(seed)
    blobs = []
    for _ in range(n):
        small = Image.fromarray(random.randint(0, 256, (12, 16, 3)).astype(np.uint8))
        out = io.BytesIO()
        small.resize((256, 192), Image.Resampling.BICUBIC).save(out, "JPEG", quality=90)
        blobs.append(out.getvalue())
    ids = pa.array([f"{i:06d}" for i in range(n)], pa.string())
    return Source(Collection(ids, ImageBytes(pa.array(blobs, pa.binary())), np.full(n, -1), ()), None)


def plain_network() -> torch.nn.Module:
    """The published network as it is: normalisations not folded, channels first."""
    width, depth, _ = lite.VARIANTS[NAME]
    blocks = lite._blocks(width, depth)
    stem, head = lite.ConvNorm(3, lite.STEM_CHANNELS, 3, stride=2), lite.ConvNorm(blocks[-1].outputs, lite.DIM, 1)
    network = torch.nn.ModuleDict({"stem": stem, "blocks": torch.nn.ModuleList(blocks), "head": head})
    network.load_state_dict(lite._read_weights(lite._packaged_weights(NAME)))
    return torch.nn.Sequential(stem, *blocks, head, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()).eval()


def plain_loop(source: Source) -> np.ndarray:
    network, resize = plain_network(), int(SIZE / 0.875)
    mean, std = torch.tensor(lite.LITE_MEAN).view(3, 1, 1), torch.tensor(lite.LITE_STD).view(3, 1, 1)
    features = []
    blobs = source.collection.items.take(np.arange(len(source.collection)))
    with torch.no_grad():
        for start in range(0, len(blobs), BATCH):
            batch = []
            for blob in blobs[start : start + BATCH]:
                image = Image.open(io.BytesIO(blob)).convert("RGB")
                scale = resize / min(image.size)
                image = image.resize(
                    (round(image.width * scale), round(image.height * scale)), Image.Resampling.BICUBIC
                )
                left, top = (image.width - SIZE) // 2, (image.height - SIZE) // 2
                pixels = np.array(image.crop((left, top, left + SIZE, top + SIZE)))
                batch.append((torch.from_numpy(pixels).permute(2, 0, 1).float() / 255 - mean) / std)
            features.append(network(torch.stack(batch)).numpy())
    return np.concatenate(features)


def speed(n: int) -> None:
    source = photos(n)
    backbone = load_backbone(NAME, image_size=SIZE)
    rates: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        warm = Source(source.collection.select(np.arange(64)), None)
        plain_loop(warm)
        started = time.perf_counter()
        expected = plain_loop(source)
        rates["plain torch loop"] = n / (time.perf_counter() - started)
        for engine in ("torch", "openvino"):
            started = time.perf_counter()
            embed(source, backbone, Path(folder) / engine, engine=engine)
            rates[f"ltgcd embed --engine {engine}"] = n / (time.perf_counter() - started)
            with np.load(Path(folder) / engine / "features.npz") as arrays:
                a, b = arrays["x"], expected
            cosine = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
            print(f"  {engine}: cosine with the plain loop's features, smallest {cosine.min():.5f}")
    print(f"{n} JPEGs of 256×192, {NAME} at {SIZE} px, everything included (start, hashing, shards, tail):")
    for name, rate in rates.items():
        print(f"  {name:32s} {rate:7.1f} images/s  {rate / rates['plain torch loop']:.2f}×")


def peak_mib(n: int) -> float:
    """Peak memory of a process that embeds n images out of a parquet file."""
    code = f"""
import resource, sys, tempfile
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from embed import NAME, photos
from ltgcd.features.backbones import load_backbone
from ltgcd.features.embed import embed
from ltgcd.data.sources import read_source
source = read_source(sys.argv[1])
embed(source, load_backbone(NAME, image_size=64), sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
    from ltgcd.data.sources import write_source

    with tempfile.TemporaryDirectory() as folder:
        base = photos(1000)
        pick = np.arange(n) % 1000
        many = Collection(
            pa.array([f"{i:06d}" for i in range(n)], pa.string()),
            base.collection.items.select(pick),
            np.full(n, -1),
            (),
        )
        path = write_source(Path(folder) / "photos.parquet", Source(many, None))
        command = [sys.executable, "-c", code, str(path), str(Path(folder) / "out")]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1500)
    parser.add_argument("--no-memory", action="store_true", help="speed only")
    options = parser.parse_args()
    speed(options.images)
    if not options.no_memory:
        small, large = peak_mib(2000), peak_mib(20000)
        print(f"peak memory: {small:.0f} MiB for 2,000 images, {large:.0f} MiB for 20,000 ({large / small:.2f}×)")
        assert math.isfinite(large)


if __name__ == "__main__":
    main()
