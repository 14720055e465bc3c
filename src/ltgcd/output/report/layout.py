"""The map of the page: items in the plane, by t-SNE on a sample that keeps the tail, the others beside a neighbour.

Places are found once and handed on from then on: items that come later are put beside the old ones, and no point moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.progress import progress
from ltgcd.data.collection import UNLABELLED
from ltgcd.data.order import content_order
from ltgcd.graph.whitening import class_means, fit_components, normalise, principal_components
from ltgcd.output.report.geometry import ROWS, directions

SAMPLE = 4000  # items that t-SNE lays out
FITTED = 200_000  # rows that the components of the map are those of
COMPONENTS = 50
PERPLEXITY = 30
ITERATIONS = 500
ANGLE = 0.8  # how coarsely far points are lumped together (Barnes-Hut); 0.5 looks the same and takes twice as long


@dataclass(frozen=True, eq=False)
class Places:
    """Where items are on the map.

    Attributes
    ----------
    xy : ndarray of float32, shape (N, 2)
        Coordinates, in no unit.
    laid_out : int
        How many of the items t-SNE laid out; each of the others stands beside one of these.
    """

    xy: NDArray[np.float32]
    laid_out: int


def places_on_map(features: NDArray[np.floating], labels: NDArray[np.int64], random_state: int = 0) -> Places:
    """Places of all items, from their features (N, D); labels (N,) decide which of too many are laid out."""
    category = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    # By content, so that a table that was sorted again has the same map.
    order = content_order(np.asarray(features, dtype=np.float32), category, int(category.max(initial=-1)) + 1)
    if len(labels) > FITTED:
        z = _components_of_many(features, order.rows)
    else:
        z = directions(features[order.rows], in_place=True)  # a copy of ours
    xy = map_items(z, order.labels(category), random_state)
    return Places(order.caller_rows(xy), min(len(labels), SAMPLE))


def _components_of_many(features: NDArray[np.floating], rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Principal components (N, d) of the directions of so many rows that no copy of all of them is made.

    They are those of the first rows of the order, which their content draws.
    """
    mean = features.mean(axis=0, dtype=np.float64).astype(np.float32)
    found = fit_components(directions(features[rows[:FITTED]], in_place=True), COMPONENTS)
    z = np.empty((len(rows), found.n_components_), dtype=np.float32)
    for start in range(0, len(rows), ROWS):
        part = np.asarray(features[rows[start : start + ROWS]], dtype=np.float32)
        z[start : start + ROWS] = found.transform(normalise(part - mean))
    return z


def places_beside(
    places: Places,
    old_features: NDArray[np.floating],
    new_features: NDArray[np.floating],
    new_labels: NDArray[np.int64],
    k: int,
) -> Places:
    """Places of old and new items together: each new one beside the old item that is most like it.

    Parameters
    ----------
    places : Places
        Of the N old items.
    old_features, new_features : ndarray, shapes (N, D) and (M, D)
        In the order of the places, and of the labels.
    new_labels : ndarray of int64, shape (M,)
        Labels of the new items. Those of `k` and more are of categories that have come with these items: such a
        category is put down whole, beside the old item that is most like its centre.
    k : int
        Number of classes before.

    Returns
    -------
    Places
        Of N + M items: the old ones first, where they were, then the new ones.
    """
    n, m = len(old_features), len(new_features)
    if m == 0:
        return places
    order = content_order(np.asarray(new_features, dtype=np.float32), np.full(m, UNLABELLED, dtype=np.int64), 0)
    new_features, new_labels = new_features[order.rows], new_labels[order.rows]
    z = directions(np.concatenate([old_features, new_features]), in_place=True)
    old, new = z[:n], z[n:]
    appended = np.where(new_labels < k, UNLABELLED, new_labels - k).astype(np.int64)
    centres = normalise(class_means(new, appended, int(appended.max(initial=0)) + 1)[0])
    query = np.where((appended >= 0)[:, None], centres[appended], new)
    nearest = np.concatenate([(block @ old.T).argmax(axis=1) for block in np.array_split(query, m // 512 + 1)])
    # Another seed whenever there are other items, so that two updates don't put their points on top of each other.
    beside = order.caller_rows(places.xy[nearest] + _scatter(places.xy, m, random_state=n))
    return Places(np.concatenate([places.xy, beside]).astype(np.float32), places.laid_out)


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
    """Coordinates (M, 2) of directions (M, D), whose categories (M,) are numbered from 0.

    Beyond `SAMPLE` items, those that t-SNE did not lay out are put next to their nearest neighbour that it did.
    """
    n = len(z)
    if n < 4:
        return np.column_stack([np.arange(n), np.zeros(n)]).astype(np.float32)
    x = principal_components(z, COMPONENTS)
    sample = tail_sample(category, SAMPLE, random_state)
    with progress("placing items on the map", n) as advance:
        placed = _tsne(x[sample], random_state)
        if len(sample) == n:
            return placed
        advance(len(sample))
        out = np.empty((n, 2), dtype=np.float32)
        out[sample] = placed
        others = np.setdiff1d(np.arange(n), sample, assume_unique=True)
        anchors = x[sample]
        length = np.einsum("nd,nd->n", anchors, anchors)
        for start in range(0, len(others), ROWS):
            rows = others[start : start + ROWS]
            out[rows] = placed[np.argmin(length - 2 * (x[rows] @ anchors.T), axis=1)]
            advance(len(rows))
        out[others] += _scatter(placed, len(others), random_state)
    return out


def _scatter(xy: NDArray[np.float32], n: int, random_state: int) -> NDArray[np.float64]:
    """Small steps (n, 2), about as long as these points are from one another: beside a point, not on top of it."""
    spacing = 0.5 * np.sqrt(np.prod(np.ptp(xy, axis=0)) / len(xy))
    return np.random.RandomState(random_state).normal(scale=spacing, size=(n, 2))


def _tsne(x: NDArray[np.float32], random_state: int) -> NDArray[np.float32]:
    from sklearn.manifold import TSNE  # noqa: PLC0415 - slow to import, and whoever only keeps places needs none

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
