"""Variants of the whitening and of the start, for `rehearsed_start.py`."""

from __future__ import annotations

import dataclasses
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.tables import Table
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph import whitening
from ltgcd.graph.communities import starting_clusters
from ltgcd.graph.knn import knn_graph
from ltgcd.graph.whitening import Whitening, class_means, normalise, without_long_rows
from ltgcd.training.fit import fit_model
from ltgcd.training.methods import METHODS
from ltgcd.training.problem import Problem

NEAR = 10  # nearest neighbours whose differences are taken for spread within a class


@dataclasses.dataclass(frozen=True)
class Variant:
    """How features are whitened, and what the communities are looked for in; by default as it was until now.

    Attributes
    ----------
    dimensions, shrinkage
        Principal components, and the share of the target in the covariance that is whitened by.
    towards : {"round", "total", "neighbours"}
        The target: a multiple of the identity, of the covariance of all items, or of the covariance of differences
        between items that are each other's near neighbours.
    power : float
        Of the covariance: 1 whitens, 0 leaves the principal components as they are.
    spread : (k, share, rounds) or None
        Features of the start take up this share of the mean of the k nearest neighbours, some rounds.
    again : float
        Weight of an unlabelled item in a second whitening, around the means of the first start's clusters; 0 for none.
    root : bool
        Whether the signed square root of each feature is taken before anything else.
    """

    dimensions: int = 256
    shrinkage: float = 0.2
    towards: str = "round"
    power: float = 1.0
    spread: tuple[int, float, int] | None = None
    again: float = 0.0
    root: bool = False

    @property
    def name(self) -> str:
        """What differs from the first."""
        told = [
            f"{f.name} {getattr(self, f.name)}" for f in dataclasses.fields(self) if getattr(self, f.name) != f.default
        ]
        return ", ".join(told) or "as it was: 256 dimensions, shrinkage 0.2"


VARIANTS = [
    Variant(),
    *(Variant(512, s, "total") for s in (0.2, 0.4)),
    *(Variant(d, s) for d in (256, 512) for s in (0.2, 0.3, 0.4, 0.5, 0.6) if (d, s) != (256, 0.2)),
    *(Variant(shrinkage=s, root=True) for s in (0.2, 0.4)),
    *(Variant(shrinkage=0.4, spread=spread) for spread in ((5, 0.5, 1), (10, 1.0, 1), (10, 1.0, 2))),
    Variant(shrinkage=0.4, again=0.5),
    *(Variant(shrinkage=s, towards="neighbours") for s in (0.2, 0.5)),
    *(Variant(power=p) for p in (0.5, 0.75)),
]
TRAINED = [
    Variant(),
    *(Variant(shrinkage=s, root=root) for s, root in ((0.4, False), (0.5, False), (0.2, True), (0.4, True))),
]


def whitened_by(
    variant: Variant, x: NDArray[np.floating], y: NDArray[np.int64], weights: NDArray[np.float64] | None = None
) -> Whitening:
    """The whitening of a variant, from labelled items (N,) or from all that have a class and a weight."""
    x = without_long_rows(x)
    pca = whitening._pca(x, variant.dimensions)
    z = pca.transform(x).astype(np.float32)
    known = y != UNLABELLED
    means, counts = class_means(z, y, int(y.max()) + 1)
    residuals = (z[known] - means[y[known]]).astype(np.float64)
    w = np.ones(len(residuals)) if weights is None else weights[known]
    within = (residuals * w[:, None]).T @ residuals / max(1.0, w.sum() - (counts > 0).sum())
    size = np.trace(within) / len(within)
    target = {"round": _round, "total": _total, "neighbours": _between_neighbours}[variant.towards](z)
    target *= size / (np.trace(target) / len(target))
    values, axes = np.linalg.eigh((1 - variant.shrinkage) * within + variant.shrinkage * target)
    matrix = pca.components_.T @ (axes * np.maximum(values, 1e-6 * size) ** (-variant.power / 2))
    return Whitening(pca.mean_.astype(np.float32), matrix.astype(np.float32))


def _round(z: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.eye(z.shape[1])


def _total(z: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.asarray(np.cov(z.T), dtype=np.float64)


def _between_neighbours(z: NDArray[np.float32]) -> NDArray[np.float64]:
    """Covariance of the differences between items that are among each other's nearest."""
    near = knn_graph(z, NEAR).indices
    i, j = np.repeat(np.arange(len(z)), near.shape[1]), near.ravel()
    mutual = (near[j] == i[:, None]).any(axis=1) & (i < j)
    d = (z[i[mutual]] - z[j[mutual]]).astype(np.float64)
    return np.asarray(d.T @ d / max(1, len(d)) + 1e-6 * np.eye(z.shape[1]))


def prepared(variant: Variant, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Features (N, D) as the variant takes them."""
    return np.sign(x) * np.sqrt(np.abs(x)) if variant.root else x


def start(variant: Variant, problem: Problem, novel: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    """Clusters (N,) that the prototypes of a variant begin from."""
    found = whitened_by(variant, problem.x, problem.y)
    labels = _start_in(variant, found.transform(problem.x), problem, novel)
    if variant.again:
        weights = np.where(problem.y == UNLABELLED, variant.again, 1.0)
        found = whitened_by(variant, problem.x, labels, weights)
        labels = _start_in(variant, found.transform(problem.x), problem, novel)
    return labels


def _start_in(
    variant: Variant, white: NDArray[np.float32], problem: Problem, novel: NDArray[np.bool_] | None
) -> NDArray[np.int64]:
    if variant.spread:
        k, share, rounds = variant.spread
        for _ in range(rounds):
            white = normalise(white + np.float32(share) * white[knn_graph(white, k).indices].mean(axis=1))
    labels = starting_clusters(
        white, problem.y, problem.n_old, problem.k, "communities", problem.random_state, novel=novel
    )
    assert labels is not None
    return labels


def trained(variant: Variant, problem: Problem, novel: NDArray[np.bool_] | None) -> Table:
    """What the frozen default says (N, K) with the whitening and the start of a variant."""
    clusters = start(variant, problem, novel)
    with (
        patch("ltgcd.training.fit.fit_whitening", lambda x, y, _n: whitened_by(variant, x, y)),
        patch("ltgcd.training.fit._starting_clusters", lambda *_: clusters),
    ):
        return fit_model(problem, METHODS["ltgcd"].preset("frozen")).probabilities
