"""Numerical functions that several rooms share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BUFFER = 64 * 2**20  # bytes of a block in float64


def softmax(logits: NDArray[np.floating], temperature: float = 1.0) -> NDArray[np.float32]:
    """Class probabilities (N, K) of logits (N, K) at a temperature; in float64 inside, block of rows by block."""
    p = np.empty(logits.shape, dtype=np.float32)
    step = max(1, BUFFER // (8 * logits.shape[1]))
    for start in range(0, len(logits), step):
        block = logits[start : start + step].astype(np.float64)
        block -= block.max(axis=1, keepdims=True)
        np.exp(block / temperature, out=block)
        p[start : start + step] = block / block.sum(axis=1, keepdims=True)
    return p
