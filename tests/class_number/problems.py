"""Small problems with a known number of classes, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import numpy as np
import pytest

from ltgcd.class_number import interval

PACKAGES = {"finch": "finch", "evoc": "evoc"}  # that some estimators need


@pytest.fixture(scope="module", autouse=True)
def few_draws() -> Iterator[None]:
    """A quarter of the draws, for the modules that import this: they take most of the time of an estimate."""
    with mock.patch.object(interval, "BOOTSTRAPS", 100):
        yield


def blobs(
    n_old: int, n_new: int, seed: int = 0, size: int = 40, share: float = 0.5, spread: float = 0.35
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gaussian classes in 16 dimensions, sizes from size/2 to 3·size/2; a share of the old ones is labelled."""
    random = np.random.RandomState(seed)
    sizes = random.randint(size // 2, 3 * size // 2, n_old + n_new)
    true = np.repeat(np.arange(n_old + n_new), sizes)
    centres = random.randn(n_old + n_new, 16)
    x = centres[true] + spread * random.randn(len(true), 16)
    y = np.where((true < n_old) & (random.rand(len(true)) < share), true, -1)
    y[np.unique(true, return_index=True)[1][:n_old]] = np.arange(n_old)  # every old class has a label
    order = random.permutation(len(true))
    return x[order].astype(np.float32), y[order], true[order]
