"""One neighbour graph for one set of features: searched once, shared by everyone who asks for neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltgcd.graph.knn import NeighbourGraph, knn_graph
from ltgcd.graph.whitening import principal_components, without_long_rows


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


def components_of(x: NDArray[np.floating]) -> FeatureGraph:
    """Principal components (N, d) of features (N, D): no label has a say in them, nor in who is near to whom.

    So the class number, the fit and every rehearsal of it look at the same ones, whatever labels they hide.
    """
    return FeatureGraph(principal_components(without_long_rows(x)))
