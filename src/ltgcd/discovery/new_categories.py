"""Find the categories of new items that no class of a run explains.

Three steps, each of which learns its measure from the run's own items. The few numbers that are left (`MIXED`,
`TOGETHER`, `COARSE`, and `LEAST` of `ltgcd.discovery.extend`) were chosen on CLINC150, HWU64 and Stanford Cars, and
looked at on BANKING77, plankton and CUB-200 (`benchmarks/update.py`).

1. Every item of the run can be looked at as it is and with its own class hidden (`class_number.known_share`). If its
   class had come only now, its neighbours of that class would be new, too; as it is, few of its neighbours are. What
   tells the two apart gives each new item a probability that a class of the run explains it. Below one half it is
   unexplained.
2. Unexplained items that are neighbours of one another form groups; fewer than `SMALLEST` of them are no category.
3. More new items than before of a small class look unexplained, too. So a group is of a class if it lies inside of it,
   its typical item no farther from the class's centre than `INSIDE` of the class's own items, and mixes with it: among
   the neighbours of the group, an item of the class is found at least `MIXED` times as often as one of the group.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sknetwork.clustering import Louvain

from ltgcd.class_number.evidence import NEIGHBOURS as EVIDENCE_NEIGHBOURS
from ltgcd.class_number.known_share import known_share, mixture_share, posterior
from ltgcd.common.engine.threads import numpy_in_one_thread
from ltgcd.common.logistic import LogisticRegression
from ltgcd.data.collection import UNLABELLED
from ltgcd.data.order import content_order
from ltgcd.graph.communities import NOVEL_NEIGHBOURS, SMALLEST
from ltgcd.graph.knn import NeighbourGraph, knn_graph
from ltgcd.graph.whitening import class_means, fit_whitening, normalise, principal_components

INSIDE = 0.95  # share of a class's items that its radius holds
MIXED = 0.5  # of 1, where class and group can't be told apart; groups of absent classes: below 0.46, most below 0.15
MIXING_NEIGHBOURS = 20
COMPANY = 10  # neighbours that may have come with an item: few, so that a class of a dozen fills them like a large one
TOGETHER = 0.2  # the same for a group and a category that was found just before
COARSE = 0.5  # resolution of the communities: few large groups, for a person has to look at each


class Found(NamedTuple):
    """What new items hold.

    Attributes
    ----------
    labels : ndarray of int64, shape (N,)
        Category k, k + 1, … by falling size, of the items that founded one; -1 for all others.
    alone : ndarray of bool, shape (N,)
        Items that no class explains and that are too few for a category.
    unexplained : ndarray of float64, shape (N,)
        Probability that no class explains a new item, by itself and by what came with it; 0 for all that were not
        asked about.
    """

    labels: NDArray[np.int64]
    alone: NDArray[np.bool_]
    unexplained: NDArray[np.float64]


@numpy_in_one_thread()
def new_categories(
    x: NDArray[np.floating],
    y: NDArray[np.int64],
    classes: NDArray[np.int64],
    new: NDArray[np.bool_],
    k: int,
    random_state: int = 0,
    leaning: NDArray[np.int64] | None = None,
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
    leaning : ndarray of int64, shape (N,), optional
        The same with the classes that other items of the run lean to; by default `classes`.
    """
    # New items are told apart from those that the run is not sure of as if they were a class of their own.
    order = content_order(np.asarray(x, dtype=np.float32), np.where(new, k, classes), k + 1)
    number = np.full(k + 1, UNLABELLED, dtype=np.int64)
    number[order.classes[order.classes != k]] = np.arange(k)
    people = np.unique(np.append(number[y], UNLABELLED), return_inverse=True)[1][:-1] - 1  # without gaps
    rows = order.rows
    towards = number[(classes if leaning is None else leaning)[rows]]
    found = _in_content_order(x[rows], people[rows], number[classes[rows]], towards, new[rows], k, random_state)
    return Found(
        labels=order.caller_rows(order.as_first_copy(found.labels)),
        alone=order.caller_rows(order.as_first_copy(found.alone)),
        unexplained=order.caller_rows(order.as_first_copy(found.unexplained)),
    )


def _in_content_order(
    x: NDArray[np.floating],
    y: NDArray[np.int64],
    classes: NDArray[np.int64],
    leaning: NDArray[np.int64],
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
    graph = knn_graph(z, EVIDENCE_NEIGHBOURS, random_state=random_state)
    asked = np.flatnonzero(new)
    strange, unexplained[asked] = unexplained_items(z, classes, graph, asked, random_state)
    alone[asked[strange > 0.5]] = True
    rows = asked[unexplained[asked] > 0.5]
    group_of = neighbour_groups(graph, rows, random_state)
    sizes = np.bincount(group_of, minlength=1)
    white = fit_whitening(x, y, max(1, int(y.max(initial=UNLABELLED)) + 1)).transform(x)
    settled, leaning, n = classes.copy(), leaning.copy(), k
    for group in np.argsort(-sizes, kind="stable")[: int((sizes >= SMALLEST).sum())]:
        members = rows[group_of == group]
        mixed = mixing(graph, leaning, members, n)
        holds = closeness_rank(white, settled, members, n) >= 1 - INSIDE
        holds &= mixed >= np.where(np.arange(n) < k, MIXED, TOGETHER)
        alone[members] = False
        best = int(np.where(holds, mixed, -1).argmax())
        if not holds.any():
            best, n = n, n + 1
        if best >= k:  # what a class of the run explains is left to the model
            labels[members] = settled[members] = leaning[members] = best
    by_size = k + np.argsort(np.argsort(-np.bincount(labels[labels >= k] - k, minlength=n - k), kind="stable"))
    labels[labels >= k] = by_size[labels[labels >= k] - k]
    return Found(labels, alone, unexplained)


def unexplained_items(
    z: NDArray[np.float32],
    classes: NDArray[np.int64],
    graph: NeighbourGraph,
    asked: NDArray[np.int64],
    random_state: int = 0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probabilities (n,) that no class explains each of the rows that are `asked` about (n,).

    The first by the row alone, which finds single strange items; the second also by how many of its neighbours have
    come with it, which finds classes. The share of explained ones is that of these rows, not of the items that the run
    is unsure of.
    """
    place = np.cumsum(classes == UNLABELLED) - 1
    found = known_share(z, classes, graph, random_state)
    odds = found.unlabelled[place[asked]]
    inside = np.flatnonzero(classes != UNLABELLED)
    came = np.zeros(len(classes), dtype=bool)
    came[asked] = True
    near = graph.indices[:, :COMPANY]
    with_it = came[near].mean(axis=1)
    # With its class hidden and all of it new, an item of the run would have the class's items come with it.
    own = (classes[near[inside]] == classes[inside][:, None]).mean(axis=1)
    per_class = 1.0 / np.sqrt(np.bincount(classes[inside])[classes[inside]])  # as `known_share` weighs them
    model = LogisticRegression.fit(
        np.concatenate(
            [
                _company(found.as_known, with_it[inside]),
                _company(found.as_novel, np.minimum(own + with_it[inside], 1)),
            ]
        ),
        np.repeat([1, 0], len(inside)),
        np.concatenate([np.ones(len(inside)), per_class * len(inside) / per_class.sum()]),
    )
    together = model.log_odds(_company(odds, with_it[asked]))
    return 1 - posterior(odds, mixture_share(odds)), 1 - posterior(together, mixture_share(together))


def _company(log_odds: NDArray[np.float64], share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Evidence (n, 3): log-odds of "known", and the share of neighbours that came too; the first few say the most."""
    return np.stack([np.clip(log_odds, -30, 30), share, np.sqrt(share)], axis=1)


def mixing(
    graph: NeighbourGraph, classes: NDArray[np.int64], members: NDArray[np.int64], k: int
) -> NDArray[np.float64]:
    """How well a group of rows mixes with each class, (k,): 1 where they can't be told apart, 0 where they never meet.

    Among the nearest neighbours of the group, how often an item of the class is found, on average, compared with how
    often an item of the group is.
    """
    near = graph.indices[members, :MIXING_NEIGHBOURS]
    in_group = np.zeros(len(classes), dtype=bool)
    in_group[members] = True
    met, of = int(in_group[near].sum()), classes[near]
    counts = np.bincount(of[of != UNLABELLED], minlength=k)
    sizes = np.bincount(classes[classes != UNLABELLED], minlength=k)
    ratio: NDArray[np.float64] = counts / np.maximum(sizes, 1) / max(met / max(len(members) - 1, 1), 1e-9)
    return ratio


def neighbour_groups(graph: NeighbourGraph, rows: NDArray[np.int64], random_state: int = 0) -> NDArray[np.int64]:
    """Louvain communities (n,) of some rows (n,), joined where one is among the nearest neighbours of the other.

    Everything has nearest neighbours. A row that is nobody's in return is in no community, but alone.
    """
    n = len(rows)
    position = np.full(graph.n, UNLABELLED, dtype=np.int64)
    position[rows] = np.arange(n)
    near = position[graph.indices[rows, :NOVEL_NEIGHBOURS]]
    start, column = np.nonzero(near != UNLABELLED)
    if not len(start):
        return np.arange(n, dtype=np.int64)
    edges = sparse.csr_matrix((np.ones(len(start)), (start, near[start, column])), shape=(n, n))
    group = np.asarray(Louvain(COARSE, random_state=random_state).fit_predict(edges.maximum(edges.T)), dtype=np.int64)
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
