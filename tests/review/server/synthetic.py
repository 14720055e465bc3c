"""Finished runs of any size in a second, for the server: long-tailed blobs with labels, a map, and what they show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ltgcd.data.collection import Collection, Source
from ltgcd.data.items import Items, Vectors
from ltgcd.discovery.assignments import assignments_table
from ltgcd.output.report.layout import Places
from ltgcd.run.directory import Run

SHARE_WRONG = 0.1
WORDS = ("red", "green", "blue", "grey", "black", "white", "pink", "brown")


def make_run(
    folder: Path, n: int = 240, d: int = 12, k: int = 8, n_old: int = 4, items: Any = None, pixels: bool = False
) -> np.ndarray:
    """Write a finished run of n items in k classes, of which n_old are known; gives the true class of each item.

    A tenth of the labels are wrong, with less confidence; the least confident are unsure.
    """
    random = np.random.RandomState(0)
    share = 1.0 / np.arange(1, k + 1) ** 0.7
    true = np.concatenate([np.arange(k).repeat(3), random.choice(k, n - 3 * k, p=share / share.sum())])
    centres = random.standard_normal((k, d)).astype(np.float32)
    x = centres[true] + 0.6 * random.standard_normal((n, d)).astype(np.float32)
    if pixels:  # square grey pictures, as those of the demo
        x = (np.clip(np.rint(4 * x + 8), 0, 16) / 16).astype(np.float32)
    ids = pa.array([f"item-{row:06d}" for row in range(n)])
    names = tuple(f"known-{c}" for c in range(n_old))
    y = np.where((true < n_old) & (random.rand(n) < 0.3), true, -1)
    shown: Items = Vectors(x) if items is None else items(true)
    wrong = (random.rand(n) < SHARE_WRONG) & (y < 0)
    label = np.where(wrong, random.randint(0, k, n), true)
    confidence = np.clip(np.where(wrong, 0.5, 0.9) + 0.1 * random.standard_normal(n), 0.05, 0.99).astype(np.float32)
    run = Run(folder)
    run.begin({"method": "ltgcd", "k": k, "random_state": 0}, Source(Collection(ids, Vectors(x), y, names), None))
    run.write_features(ids, x)
    if items is not None:
        run.write_items(Collection(ids, shown, y, names))
    run.write_places(ids, Places(x[:, :2].copy(), n))
    table = assignments_table(ids, label, confidence, names, k, (confidence < 0.45) & (y < 0), {"n_old": n_old})
    run.write_assignments(table)
    return true
