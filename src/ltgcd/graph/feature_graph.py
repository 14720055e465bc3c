"""One neighbour graph for one set of features: searched once, shared by everyone who asks for neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltgcd.graph.knn import NeighbourGraph, knn_graph


class FeatureGraph:
    """Features and, searched when somebody first asks, the nearest neighbours of every row among all rows.

    Attributes
    ----------
    features : ndarray, shape (N, d)
        Compared by their cosines.
    """

    def __init__(self, features: NDArray[np.floating]) -> None:
        self.features = features
        self._graph: NeighbourGraph | None = None

    def nearest(self, k: int) -> NeighbourGraph:
        """The k nearest neighbours of every row; only asking for more than ever before searches again."""
        if self._graph is None or self._graph.k < min(k, self._graph.n - 1):
            self._graph = knn_graph(self.features, k)
        return self._graph.first(k)
