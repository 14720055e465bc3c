"""Evidence that an item is of a known class, which names no class: close class means, labelled neighbours, and so on.

Every labelled item is looked at twice: as it is (`evidence`), and with its own class hidden (`hidden_evidence`), as if
it were of a novel one. The unlabelled items are looked at once. What is learnt from the labelled ones holds for the
others only as far as both are looked at in the same way: who is compared with whom is what this file takes care of.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.engine.threads import available_cores
from ltgcd.common.progress import progress
from ltgcd.common.tables import block_rows
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.knn import NeighbourGraph
from ltgcd.graph.whitening import class_means, normalise, within_class_whitening

FOLDS = 5
NEIGHBOURS = 30
BLOCK = 4096  # rows of an (N, classes) table that are held at once, of fewer than 2,048 classes
TEMPERATURE = 0.05
RANKS = 3  # nearest classes whose closeness is evidence


def evidence(
    z: NDArray[np.float32],
    y: NDArray[np.int64],
    graph: NeighbourGraph,
    folds: NDArray[np.int64],
    items: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Evidence (n, F) for "known" of all items, or of n of them, among which all that are labelled must be.

    Cross-fitted: the whitening comes from the labels of the other folds. A labelled item is compared with its class
    without itself, an unlabelled one with the classes without one other item (`_without_one`), so that a labelled and
    an unlabelled item of the same class are treated alike.
    """
    items = np.arange(len(z)) if items is None else items
    inner, classes, fold_of = z[items], y[items], folds[items]
    n_classes, ranks, members = int(y.max()) + 1, _ranks(y), _members(z[items], y[items])
    parts: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
    with progress("comparing items with known classes", len(items)) as advance:
        for fold in np.unique(fold_of):
            white = within_class_whitening(inner, np.where(fold_of == fold, UNLABELLED, classes), n_classes)
            means, counts = class_means(white, classes, n_classes)

            def looked_at(
                rows: NDArray[np.int64],
                white: NDArray[np.float32] = white,
                means: NDArray[np.float32] = means,
                counts: NDArray[np.int64] = counts,
            ) -> NDArray[np.float64]:
                cosine, left_out = _without_one(white, rows, means, counts, members, own=classes[rows])
                return _evidence_rows(cosine, y, graph, items[rows], items[left_out], ranks)

            parts += _in_blocks(looked_at, np.flatnonzero(fold_of == fold), n_classes, advance)
    return _gathered(parts, len(items))


def hidden_evidence(
    z: NDArray[np.float32], y: NDArray[np.int64], graph: NeighbourGraph, random_state: int
) -> NDArray[np.float64]:
    """Evidence (|D^l|, F) of the labelled items with their own class hidden.

    No novel class has helped to whiten the features. So the whitening comes from other classes: folds of whole classes.
    """
    labelled = np.flatnonzero(y != UNLABELLED)
    classes, inner = y[labelled], z[labelled]
    n_classes, ranks, members = int(y.max()) + 1, _ranks(y), _members(inner, classes)
    fold_of = class_folds(classes, random_state)
    parts: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
    with progress("comparing items with classes but their own", len(labelled)) as advance:
        for fold in np.unique(fold_of):
            white = within_class_whitening(inner, np.where(fold_of == fold, UNLABELLED, classes), n_classes)
            means, counts = class_means(white, classes, n_classes)

            def looked_at(
                rows: NDArray[np.int64],
                white: NDArray[np.float32] = white,
                means: NDArray[np.float32] = means,
                counts: NDArray[np.int64] = counts,
            ) -> NDArray[np.float64]:
                hide = classes[rows]
                cosine, left_out = _without_one(white, rows, means, counts, members, hide=hide)
                return _evidence_rows(cosine, y, graph, labelled[rows], labelled[left_out], ranks, hide)

            parts += _in_blocks(looked_at, np.flatnonzero(fold_of == fold), n_classes, advance)
    return _gathered(parts, len(labelled))


def _in_blocks(
    looked_at: Callable[[NDArray[np.int64]], NDArray[np.float64]],
    rows: NDArray[np.int64],
    n_classes: int,
    advance: Callable[[int], None],
) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Look at rows (n,) block by block, one a core at a time; each by itself, so that their number changes nothing."""
    step = min(BLOCK, block_rows(n_classes))  # every core holds a few tables of so many rows by all classes
    blocks = [rows[start : start + step] for start in range(0, len(rows), step)]
    found = []
    pool = ThreadPoolExecutor(available_cores())
    try:
        for block, seen in zip(blocks, pool.map(looked_at, blocks), strict=True):
            found.append((block, seen))
            advance(len(block))
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C waits for the blocks that were begun, and not for the others
    return found


@dataclass(frozen=True, eq=False)
class _Members:
    """The labelled rows, class by class (`first` says where each begins), and a number of each row by its content."""

    rows: NDArray[np.int64]
    first: NDArray[np.int64]
    number: NDArray[np.int64]


def _members(z: NDArray[np.float32], y: NDArray[np.int64]) -> _Members:
    labelled = np.flatnonzero(y != UNLABELLED)
    rows = labelled[np.argsort(y[labelled], kind="stable")]
    first = np.searchsorted(y[rows], np.arange(int(y.max()) + 1))
    return _Members(rows, first.astype(np.int64), (_row_hash(z, 0) // np.uint64(FOLDS)).astype(np.int64))


def _without_one(
    white: NDArray[np.float32],
    rows: NDArray[np.int64],
    means: NDArray[np.float32],
    counts: NDArray[np.int64],
    members: _Members,
    own: NDArray[np.int64] | None = None,
    hide: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Cosines (B, C) of some rows to the class means, of which one is taken without one item; and that item (B,).

    A labelled item is left out of its own class, or it would be near to itself. If an unlabelled item of the class met
    all of its labels it would look better known than any labelled one, and where classes are small, or hard to tell
    apart, the share of known items would come out too large. So it takes the place of a labelled item of the class that
    it is nearest to; and since nobody knows which unlabelled items are novel, these and the hidden ones do the same.

    Parameters
    ----------
    white : ndarray, shape (N, d)
        Unit rows.
    means, counts : ndarray, shapes (C, d) and (C,)
        Means of the labelled items of each class, and how many there are.
    own : ndarray of int64, shape (B,), optional
        Class of each row, -1 for an unlabelled one; by default no row is looked at as a labelled one.
    hide : ndarray of int64, shape (B,), optional
        A class that is not there for the row.
    """
    at = np.arange(len(rows))
    cosine = (white[rows] @ normalise(means).T).astype(np.float64)
    cosine[:, counts == 0] = -1.0
    if hide is not None:
        cosine[at, hide] = -1.0
    place = cosine.argmax(axis=1)
    left_out = members.rows[members.first[place] + members.number[rows] % np.maximum(counts[place], 1)]
    if own is not None:
        labelled = own != UNLABELLED
        place, left_out = np.where(labelled, own, place), np.where(labelled, rows, left_out)
    rest = normalise(means[place] * counts[place, None].astype(np.float32) - white[left_out])
    alone = counts[place] < 2
    cosine[at, place] = np.where(alone, -1.0, (white[rows] * rest).sum(axis=1, dtype=np.float64))
    return cosine, left_out


def _evidence_rows(
    cosine: NDArray[np.float64],
    y: NDArray[np.int64],
    graph: NeighbourGraph,
    rows: NDArray[np.int64],
    left_out: NDArray[np.int64],
    ranks: int,
    hide: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Evidence (B, F) of some rows from their cosines to the class means (B, C).

    For each of them the label of one item is left out, and `hide` hides a class.
    """
    near = graph.indices[rows, :NEIGHBOURS]
    labels = np.where(near == left_out[:, None], UNLABELLED, y[near])
    if hide is not None:
        labels = np.where(labels == hide[:, None], UNLABELLED, labels)
    return _evidence_columns(cosine, labels, graph.similarities[rows, :NEIGHBOURS].astype(np.float64), ranks)


def _ranks(y: NDArray[np.int64]) -> int:
    """How many nearest classes every item has, also one whose own class is hidden: at most `RANKS`.

    What a hidden item can't have no item is asked for: a gap to a class that isn't there would tell the two apart.
    """
    return max(1, min(RANKS, len(np.unique(y[y != UNLABELLED])) - 1))


def _gathered(parts: list[tuple[NDArray[np.int64], NDArray[np.float64]]], n: int) -> NDArray[np.float64]:
    table = np.zeros((n, parts[0][1].shape[1]))
    for rows, block in parts:
        table[rows] = block
    return table


def class_folds(classes: NDArray[np.int64], random_state: int) -> NDArray[np.int64]:
    """Fold of each item, the same for all items of a class."""
    fold_of = np.random.RandomState(random_state).permutation(int(classes.max()) + 1) % FOLDS
    folds: NDArray[np.int64] = fold_of[classes].astype(np.int64)
    return folds


def _evidence_columns(
    cosine: NDArray[np.float64], labels: NDArray[np.int64], similarity: NDArray[np.float64], ranks: int
) -> NDArray[np.float64]:
    """Evidence (B, F) from cosines to class means (B, C), labels (B, k) and similarities (B, k) of the neighbours.

    With fewer `ranks` than `RANKS` what needs more classes is 0 for all.
    """
    b, k = labels.shape
    top = -np.sort(np.partition(-cosine, ranks - 1, axis=1)[:, :ranks], axis=1)
    gaps = np.zeros((b, RANKS - 1))
    gaps[:, : ranks - 1] = top[:, :-1] - top[:, 1:]
    spread = np.zeros(b)
    if ranks == RANKS:
        spread = np.log(np.exp((cosine - top[:, :1]) / TEMPERATURE).sum(axis=1))
    is_labelled = labels != UNLABELLED
    shares = [is_labelled[:, :n].mean(axis=1) for n in (5, 10, k)]
    votes = np.zeros((b, cosine.shape[1] + 1))
    np.add.at(votes, (np.arange(b)[:, None], labels), 1.0)  # the last column takes the unlabelled
    first = np.where(is_labelled.any(axis=1), is_labelled.argmax(axis=1), k)
    nearest_labelled = np.where(first < k, similarity[np.arange(b), np.minimum(first, k - 1)], similarity[:, -1])
    columns = [
        top[:, 0],
        *gaps.T,
        spread,
        *shares,
        votes[:, :-1].max(axis=1) / k,
        np.log1p(first),
        nearest_labelled,
        similarity[:, 0],
        similarity[:, min(9, k - 1)],
    ]
    return np.stack(columns, axis=1)


def with_siblings(y: NDArray[np.int64], folds: NDArray[np.int64]) -> NDArray[np.int64]:
    """The classes, ascending, whose labelled items lie in two folds or more.

    Only these show what the other items of a class look like: an item that has no labelled sibling looks novel, and
    the unlabelled items of its class nearly so.
    """
    labelled = y != UNLABELLED
    pairs = np.unique(np.stack([y[labelled], folds[labelled]]), axis=1)
    classes, n_folds = np.unique(pairs[0], return_counts=True)
    return np.asarray(classes[n_folds >= 2], dtype=np.int64)


def recoded(y: NDArray[np.int64], classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Labels (N,) as places in `classes`, ascending; those of other classes are taken away."""
    place = np.searchsorted(classes, y) % max(len(classes), 1)
    return np.where(np.isin(y, classes), place, UNLABELLED).astype(np.int64)


def row_folds(z: NDArray[np.float32], random_state: int) -> NDArray[np.int64]:
    """Fold of each row, from its content alone: another order of the rows gives the same folds."""
    return (_row_hash(z, random_state) % np.uint64(FOLDS)).astype(np.int64)


def sibling_folds(z: NDArray[np.float32], y: NDArray[np.int64], random_state: int) -> NDArray[np.int64]:
    """Folds of rows (N,) in which every class with two labelled items has labels in two folds.

    Where chance has put all of them into one, the first by its content moves to the next.
    """
    folds, order = row_folds(z, random_state), np.argsort(_row_hash(z, random_state), kind="stable")
    labelled = order[y[order] != UNLABELLED]
    classes, first, sizes = np.unique(y[labelled], return_index=True, return_counts=True)
    together = (sizes > 1) & ~np.isin(classes, with_siblings(y, folds))
    moved = labelled[first[together]]
    folds[moved] = (folds[moved] + 1) % FOLDS
    return folds


def _row_hash(z: NDArray[np.float32], random_state: int) -> NDArray[np.uint64]:
    # Rounded, because copies of an item may differ in the last bits of their components. Each number to twelve binary
    # digits of its own: on one scale for all of them a single long row would make all others equal.
    digits, power = np.frexp(z[:, :8].astype(np.float64))
    whole = (np.round(digits * 2**12) + 2.0**14 * power).astype(np.int64).view(np.uint64)
    odd = 2 * np.random.RandomState(random_state).randint(1, 2**31, size=(1, whole.shape[1])) + 1
    mixed: NDArray[np.uint64] = (whole * odd.astype(np.uint64)).sum(axis=1)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return mixed >> np.uint64(33)
