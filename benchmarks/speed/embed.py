"""Images a second of `ltgcd.features.embed.embed` against a plain torch loop in the same run, and its peak memory.

The plain loop is what one writes first: Pillow decode, resize, crop, a batch of 32, the published network in eval mode.

Then worker processes: how much faster two of them are than one, and what is left of the speed beside two other busy
processes, for workers of one thread each and for what was there before them, one process of two threads. Runs take
turns, so that whatever else the machine does meets all of them; the load average says how much that was.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from PIL import Image

from ltgcd.common.engine import shards as engine
from ltgcd.common.engine.threads import torch_threads
from ltgcd.data.collection import Collection, Source
from ltgcd.data.items import ImageBytes, Texts
from ltgcd.features import embed as features
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
    from ltgcd.data.write_source import write_source

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


# ---------------------------------------------------------------- workers


def sentences(n: int, seed: int = 0) -> Source:
    """Made-up sentences of 4 to 24 words."""
    random = np.random.RandomState(seed)
    words = "my card was lost where can it be ordered again today please the bank says no to a new one"
    texts = [" ".join(random.choice(words.split(), random.randint(4, 25))) for _ in range(n)]
    ids = pa.array([f"{i:06d}" for i in range(n)], pa.string())
    return Source(Collection(ids, Texts(pa.array(texts)), np.full(n, -1), ()), None)


class Clock:
    """Takes the place of the progress bar, to see when which items are done."""

    def __init__(self) -> None:
        self.times: list[tuple[float, int]] = []

    @contextlib.contextmanager
    def __call__(self, title: str, _total: int):
        first = title.startswith("embedding")
        if first:
            self.times = [(time.perf_counter(), 0)]
        yield lambda items: self.times.append((time.perf_counter(), items)) if first else None

    def steady_rate(self, workers: int) -> float:
        """Items a second once all workers are at work, which is after as many reports; one has nothing to start."""
        (start, _), *rest = self.times[workers if workers > 1 else 0 :]
        return sum(items for _, items in rest) / (rest[-1][0] - start)


def measured(source: Source, backbone, workers: int, threads: int = 1) -> tuple[float, float]:
    """Items a second, of the whole call and once it runs; `threads` more than one is how it was before."""
    clock, before = Clock(), (features.progress, engine.torch_threads)
    features.progress = clock
    engine.torch_threads = lambda _n: torch_threads(threads)
    try:
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            embed(source, backbone, Path(folder) / "f", engine="torch", workers=workers)
            return len(source.collection) / (time.perf_counter() - started), clock.steady_rate(workers)
    finally:
        features.progress, engine.torch_threads = before


@contextlib.contextmanager
def busy(processes: int):
    """As many other processes that compute all the time."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def workers_and_load(n_images: int, n_texts: int, rounds: int) -> None:
    kinds = {
        "images": (photos(n_images), load_backbone(NAME, image_size=SIZE)),
        "texts": (sentences(n_texts), load_backbone("minilm")),
    }
    ways = {
        "one worker": (0, 1, 1),
        "two workers": (0, 2, 1),
        "one process, two threads": (0, 1, 2),
        "two workers, two others busy": (2, 2, 1),
        "two threads, two others busy": (2, 1, 2),
    }
    for kind, (source, backbone) in kinds.items():
        rates: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        loads = []
        for _ in range(rounds):
            for way, (others, workers, threads) in ways.items():
                loads.append(os.getloadavg()[0])
                # Two threads beside busy processes take minutes for what others do in seconds: a quarter will do.
                n = len(source.collection) // (1 if threads == 1 else 4)
                with busy(others):
                    part = Source(source.collection.select(np.arange(n)), None)
                    rates[way].append(measured(part, backbone, workers, threads))
                print(
                    f"    {kind}, {way}: {rates[way][-1][1]:.1f}/s at load {loads[-1]:.1f}", file=sys.stderr, flush=True
                )
        print(
            f"{len(source.collection)} {kind} ({backbone.name}), {rounds} rounds, in turn; items a second once it runs,"
        )
        print(f"(of the whole call: start, index, tail), medians; load average {min(loads):.1f} to {max(loads):.1f}:")
        for way, values in rates.items():
            whole, steady = (statistics.median(part) for part in zip(*values, strict=True))
            print(f"  {way:32s} {steady:7.1f}/s  ({whole:.1f}/s)")
        two, one, old = "two workers", "one worker", "one process, two threads"
        kept = {
            way: ratio(rates, f"{way}, two others busy", alone) for way, alone in ((two, two), ("two threads", old))
        }
        print(f"  two workers: {ratio(rates, two, one):.2f}× one worker (whole call {ratio(rates, two, one, 0):.2f}×),")
        print(f"  {ratio(rates, two, old):.2f}× one process of two threads; beside two busy processes they keep")
        print(f"  {kept[two]:.0%} of their speed, and two threads {kept['two threads']:.0%} of theirs.")


def ratio(rates: dict[str, list[tuple[float, float]]], one: str, other: str, part: int = 1) -> float:
    """Median over the rounds of how much faster one way is than another."""
    return statistics.median(x[part] / y[part] for x, y in zip(rates[one], rates[other], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1500)
    parser.add_argument("--no-memory", action="store_true", help="speed only")
    parser.add_argument("--only-workers", action="store_true", help="workers and load only")
    parser.add_argument("--texts", type=int, default=6144)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    workers_and_load(options.images, options.texts, options.rounds)
    if options.only_workers:
        return
    speed(options.images)
    if not options.no_memory:
        small, large = peak_mib(2000), peak_mib(20000)
        print(f"peak memory: {small:.0f} MiB for 2,000 images, {large:.0f} MiB for 20,000 ({large / small:.2f}×)")
        assert math.isfinite(large)


if __name__ == "__main__":
    main()
