"""What a training loop reads: two random views of a batch of items, or the test view of any of them.

Images have V training views whose trunk activations are cached on disk, memory-mapped; a pair is two of them. Vectors
have none, so dropout makes a pair. Randomness is drawn for the whole batch before a process takes its share of it, so
that one process and several see the same views.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.features.backbones.embeddings import feature_dropout
from ltgcd.features.cache import FeatureStore


class Views(Protocol):
    """N items, each with a test view and random training views, as float32 activations of a trunk."""

    def __len__(self) -> int:
        """Number N of items."""
        ...

    def test(self, rows: NDArray[np.int64]) -> torch.Tensor:
        """Test view of some items, (B, *shape)."""
        ...

    def pair(self, rows: NDArray[np.int64], mine: slice, random: np.random.RandomState) -> torch.Tensor:
        """Two training views of the items ``rows[mine]``, (2b, *shape): first views, then second views."""
        ...


@dataclass(frozen=True, eq=False)
class VectorViews:
    """Vectors (N, D), times `scale`; a view zeroes a share `dropout` of the numbers and scales up the rest."""

    x: NDArray[np.float32]
    dropout: float = 0.3
    scale: float = 1.0

    def __len__(self) -> int:
        return len(self.x)

    def test(self, rows: NDArray[np.int64]) -> torch.Tensor:
        """Rows as they are, to scale: a scaled copy of all of them would take as much memory again."""
        return torch.from_numpy(self.x[rows] * np.float32(self.scale))

    def pair(self, rows: NDArray[np.int64], mine: slice, random: np.random.RandomState) -> torch.Tensor:
        """Two drop-outs of the same rows."""
        generator = torch.Generator().manual_seed(int(random.randint(2**31)))
        whole = self.test(rows)
        views = [feature_dropout(whole, self.dropout, generator)[mine] for _ in range(2)]
        return torch.cat(views)


@dataclass(frozen=True, eq=False)
class CachedViews:
    """Cached activations of images.

    Attributes
    ----------
    store : FeatureStore
        With at least two training views an item, where pairs are asked for.
    rows : ndarray of int64, shape (N,)
        Rows of the store that are the items.
    """

    store: FeatureStore
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def test(self, rows: NDArray[np.int64]) -> torch.Tensor:
        """View 0 of the store."""
        return torch.from_numpy(self.store.take(self.rows[rows], 0)).float()

    def select(self, rows: NDArray[np.int64]) -> CachedViews:
        """Views of some of the items, or of all in another order."""
        return CachedViews(self.store, self.rows[rows])

    def pair(self, rows: NDArray[np.int64], mine: slice, random: np.random.RandomState) -> torch.Tensor:
        """Two different training views of each item."""
        n = self.store.n_views
        if n < 2:
            raise InputError(
                f"{self.store.folder} holds {n} training views an image, and training the last stage takes at least "
                "two; embed again with --views 4, or train on the frozen features."
            )
        first = random.randint(n, size=len(rows))
        second = (first + 1 + random.randint(n - 1, size=len(rows))) % n
        index = np.tile(self.rows[rows[mine]], 2)
        return torch.from_numpy(self.store.take(index, 1 + np.concatenate([first[mine], second[mine]]))).float()
