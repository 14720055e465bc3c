"""Find the categories of new items that no class of a run explains.

Three steps, each of which learns its measure from the run's own items; nothing is fitted on a benchmark.

1. Every item of the run can be looked at as it is and with its own class hidden (`class_number.known_share`). What
   tells the two apart gives each new item a probability that a class of the run explains it. Below one half it is
   unexplained.
2. Unexplained items that are neighbours of one another form groups; fewer than `SMALLEST` of them are no category.
3. More new items than before of a small class look unexplained, too. So a group is a category only if it lies outside
   of every class: its typical item is farther from the class's centre than `INSIDE` of the class's own items.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sknetwork.clustering import Louvain

from ltgcd.class_number.evidence import NEIGHBOURS as EVIDENCE_NEIGHBOURS
from ltgcd.class_number.known_share import known_share, mixture_share, posterior
from ltgcd.data.collection import UNLABELLED
from ltgcd.data.order import content_order
from ltgcd.graph.communities import NEIGHBOURS, SMALLEST
from ltgcd.graph.knn import NeighbourGraph, knn_graph
from ltgcd.graph.whitening import class_means, fit_whitening, normalise, principal_components

INSIDE = 0.95  # share of a class's items that its radius holds


class Found(NamedTuple):
    """What new items hold.

    Attributes
    ----------
    labels : ndarray of int64, shape (N,)
        Category k, k + 1, … by falling size, of the items that founded one; -1 for all others.
    alone : ndarray of bool, shape (N,)
        Items that no class explains and that are too few for a category.
    unexplained : ndarray of float64, shape (N,)
        Probability that no class explains a new item; 0 for all that were not asked about.
    """

    labels: NDArray[np.int64]
    alone: NDArray[np.bool_]
    unexplained: NDArray[np.float64]


def new_categories(
    x: NDArray[np.floating],
    y: NDArray[np.int64],
    classes: NDArray[np.int64],
    new: NDArray[np.bool_],
    k: int,
    random_state: int = 0,
) -> Found:
    """Find the categories that the run has no class for, whatever the order of rows and the numbers of classes.

    Parameters
    ----------
    x : ndarray, shape (N, D)
        Features of the run's items and of the new ones.
    y : ndarray of int64, shape (N,)
        Labels that people gave, as positions among the known classes; -1 without. The whitening learns from them.
    classes : ndarray of int64, shape (N,)
        Class of each item of the run that it is sure of, and of each new item with a label; -1 for the others.
    new : ndarray of bool, shape (N,)
        New items without a label: those that are asked about.
    k : int
        Number of classes so far.
    random_state : int
        Seed.
    """
    # New items are told apart from those that the run is not sure of as if they were a class of their own.
    order = content_order(np.asarray(x, dtype=np.float32), np.where(new, k, classes), k + 1)
    number = np.full(k + 1, UNLABELLED, dtype=np.int64)
    number[order.classes[order.classes != k]] = np.arange(k)
    people = np.unique(np.append(number[y], UNLABELLED), return_inverse=True)[1][:-1] - 1  # without gaps
    rows = order.rows
    found = _in_content_order(x[rows], people[rows], number[classes[rows]], new[rows], k, random_state)
    return Found(
        labels=order.caller_rows(order.as_first_copy(found.labels)),
        alone=order.caller_rows(order.as_first_copy(found.alone)),
        unexplained=order.caller_rows(order.as_first_copy(found.unexplained)),
    )


def _in_content_order(
    x: NDArray[np.floating],
    y: NDArray[np.int64],
    classes: NDArray[np.int64],
    new: NDArray[np.bool_],
    k: int,
    random_state: int,
) -> Found:
    labels, alone = np.full(len(x), UNLABELLED, dtype=np.int64), np.zeros(len(x), dtype=bool)
    unexplained = np.zeros(len(x))
    # With one class there is nothing to learn from: hidden, it leaves none.
    if not new.any() or len(np.unique(classes[classes != UNLABELLED])) < 2:
        return Found(labels, alone, unexplained)
    z = principal_components(x)
    graph = knn_graph(z, max(EVIDENCE_NEIGHBOURS, NEIGHBOURS), random_state=random_state)
    asked = np.flatnonzero(new)
    unexplained[asked] = 1 - explained(z, classes, graph, asked, random_state)
    rows = asked[unexplained[asked] > 0.5]
    alone[rows] = True
    group_of = neighbour_groups(graph, rows, random_state)
    sizes = np.bincount(group_of, minlength=1)
    white = fit_whitening(x, y, max(1, int(y.max(initial=UNLABELLED)) + 1)).transform(x)
    settled, n = classes.copy(), k
    for group in np.argsort(-sizes, kind="stable")[: int((sizes >= SMALLEST).sum())]:
        members = rows[group_of == group]
        inside = closeness_rank(white, settled, members, n)
        alone[members] = False
        best = int(inside.argmax())
        if inside[best] < 1 - INSIDE:
            best, n = n, n + 1
        if best >= k:  # what a class of the run explains is left to the model
            labels[members] = settled[members] = best
    by_size = k + np.argsort(np.argsort(-np.bincount(labels[labels >= k] - k, minlength=n - k), kind="stable"))
    labels[labels >= k] = by_size[labels[labels >= k] - k]
    return Found(labels, alone, unexplained)


def explained(
    z: NDArray[np.float32],
    classes: NDArray[np.int64],
    graph: NeighbourGraph,
    asked: NDArray[np.int64],
    random_state: int = 0,
) -> NDArray[np.float64]:
    """Probability (n,) that one of the classes explains each of the rows that are `asked` about, shape (n,).

    The share of explained ones is that of these rows alone, not of the items that the run is unsure of.
    """
    place = np.cumsum(classes == UNLABELLED) - 1
    odds = known_share(z, classes, graph, random_state).unlabelled[place[asked]]
    return posterior(odds, mixture_share(odds))


def neighbour_groups(graph: NeighbourGraph, rows: NDArray[np.int64], random_state: int = 0) -> NDArray[np.int64]:
    """Louvain communities (n,) of some rows (n,), joined where one is among the nearest neighbours of the other.

    Everything has nearest neighbours. A row that is nobody's in return is in no community, but alone.
    """
    n = len(rows)
    position = np.full(graph.n, UNLABELLED, dtype=np.int64)
    position[rows] = np.arange(n)
    near = position[graph.indices[rows, :NEIGHBOURS]]
    start, column = np.nonzero(near != UNLABELLED)
    if not len(start):
        return np.arange(n, dtype=np.int64)
    edges = sparse.csr_matrix((np.ones(len(start)), (start, near[start, column])), shape=(n, n))
    group = np.asarray(Louvain(random_state=random_state).fit_predict(edges.maximum(edges.T)), dtype=np.int64)
    lonely = np.flatnonzero(np.asarray(edges.multiply(edges.T).sum(axis=1)).ravel() == 0)
    group[lonely] = group.max() + 1 + np.arange(len(lonely))
    return group


def closeness_rank(
    white: NDArray[np.float32], classes: NDArray[np.int64], members: NDArray[np.int64], k: int
) -> NDArray[np.float64]:
    """How deep a group of rows lies inside each class, (k,): 0 outside of all its items, 1 at its centre.

    The share of the class's items that are farther from its centre (of the others) than the group's median item is. A
    single item has no others: there it is the share of the group that is farther from the group's centre than the item.
    A class without items holds nothing.
    """
    inside = np.flatnonzero(classes != UNLABELLED)
    of = classes[inside]
    means, counts = class_means(white, classes, k)
    typical = np.median(white[members] @ normalise(means).T, axis=0)
    own = _without_itself(white[inside], (means * counts[:, None])[of])
    in_class = np.bincount(of, weights=own < typical[of], minlength=k) / np.maximum(counts, 1)
    total = white[members].sum(axis=0, keepdims=True)
    own = np.sort(_without_itself(white[members], total))
    in_group = np.searchsorted(own, normalise(means) @ normalise(total)[0]) / len(members)
    return np.asarray(np.select([counts > 1, counts == 1], [in_class, in_group], 0.0), dtype=np.float64)


def _without_itself(rows: NDArray[np.float32], sums: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cosine of each unit row to the centre of its class, itself left out of the centre."""
    cosine: NDArray[np.float32] = np.einsum("nd,nd->n", normalise(sums - rows), rows)
    return cosine
