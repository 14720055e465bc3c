"""The map of the page: items in the plane, by t-SNE on a sample that keeps the tail, the others beside a neighbour."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE

from ltgcd.graph.whitening import principal_components
from ltgcd.report.categories import ROWS

SAMPLE = 4000  # items that t-SNE lays out
COMPONENTS = 50
PERPLEXITY = 30
ITERATIONS = 500
ANGLE = 0.8  # how coarsely far points are lumped together (Barnes-Hut); 0.5 looks the same and takes twice as long


def tail_sample(category: NDArray[np.int64], limit: int, random_state: int = 0) -> NDArray[np.int64]:
    """At most `limit` rows, ascending: each category gives its items up to a common cap, so the tail stays whole."""
    n = len(category)
    if n <= limit:
        return np.arange(n, dtype=np.int64)
    shuffled = np.random.RandomState(random_state).permutation(n)
    rows = shuffled[np.argsort(category[shuffled], kind="stable")]
    sizes = np.bincount(category)
    rank = np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # Rows by their rank within the category: the first ranks of all categories fit, the last one only in part.
    return np.sort(rows[np.argsort(rank, kind="stable")[:limit]]).astype(np.int64)


def map_items(z: NDArray[np.float32], category: NDArray[np.int64], random_state: int = 0) -> NDArray[np.float32]:
    """Coordinates (M, 2) of directions (M, D).

    Beyond `SAMPLE` items, those that t-SNE did not lay out are put next to their nearest neighbour that it did.
    """
    n = len(z)
    if n < 4:
        return np.column_stack([np.arange(n), np.zeros(n)]).astype(np.float32)
    x = principal_components(z, COMPONENTS)
    sample = tail_sample(category, SAMPLE, random_state)
    placed = _tsne(x[sample], random_state)
    if len(sample) == n:
        return placed
    out = np.empty((n, 2), dtype=np.float32)
    out[sample] = placed
    others = np.setdiff1d(np.arange(n), sample, assume_unique=True)
    anchors = x[sample]
    length = np.einsum("nd,nd->n", anchors, anchors)
    for start in range(0, len(others), ROWS):
        rows = others[start : start + ROWS]
        out[rows] = placed[np.argmin(length - 2 * (x[rows] @ anchors.T), axis=1)]
    # Beside, not on top: about as far as points of the sample are from one another.
    spacing = 0.5 * np.sqrt(np.prod(np.ptp(placed, axis=0)) / len(placed))
    out[others] += np.random.RandomState(random_state).normal(scale=spacing, size=(len(others), 2))
    return out


def _tsne(x: NDArray[np.float32], random_state: int) -> NDArray[np.float32]:
    random = np.random.RandomState(random_state)
    start = np.zeros((len(x), 2))
    start[:, : min(2, x.shape[1])] = x[:, :2]
    # The spread that van der Maaten's method starts from; the noise parts duplicates, and keeps it from being zero.
    start = 1e-4 * start / max(float(start[:, 0].std()), 1e-9) + random.normal(scale=1e-6, size=start.shape)
    perplexity = min(PERPLEXITY, max(1.0, (len(x) - 1) / 3))
    tsne = TSNE(
        init=start.astype(np.float32),
        perplexity=perplexity,
        max_iter=ITERATIONS,
        angle=ANGLE,
        random_state=random_state,
    )
    placed: NDArray[np.float32] = tsne.fit_transform(x).astype(np.float32)
    return placed
