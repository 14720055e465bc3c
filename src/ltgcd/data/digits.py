"""The embedded example: scikit-learn's digits, long-tailed, with four classes that nobody labelled."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_digits

from ltgcd.data.collection import Source
from ltgcd.data.datasets.base import Pool
from ltgcd.data.items import Vectors
from ltgcd.data.splits import SplitConfig, as_source, draw_split

N_OLD = 6


def digits_source(imbalance: float = 10.0, seed: int = 0) -> Source:
    """Digits 0–5 partly labelled, 6–9 novel: 8×8 pixels as 64-d vectors, one exponential profile over both."""
    digits = load_digits()
    y = digits.target.astype(np.int64)
    ids = pa.array([f"digit-{row:04d}" for row in range(len(y))], pa.string())
    pool = Pool(ids, Vectors(digits.data.astype(np.float32) / 16.0), y, tuple(str(d) for d in range(10)))
    config = SplitConfig(preset="text-literal", imbalance=imbalance, seed=seed)
    source, _ = as_source(pool, draw_split(y, list(range(10)), N_OLD, config), "digits", config)
    return source
