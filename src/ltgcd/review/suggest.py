"""What to look at and what to try next: rows in order, odd ones, merges, splits, more of a kind, neighbours, an audit.

Arrays in, arrays out; nothing here knows a run, a page or a name. Rows are whitened features of unit length (N, d), so
that a cosine is a product. Work is done in blocks, and the only tables are of classes by classes.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ltgcd.common.numerics import softmax
from ltgcd.data.order import row_keys
from ltgcd.graph.class_shapes import Shapes
from ltgcd.graph.kmeans import cluster
from ltgcd.graph.whitening import normalise

ODD = 240  # odd ones that are shown at least: four screens
ODD_SHARE = 8  # one in so many items is worth a look, for rare classes grow with the collection
ODD_AMONG = 20_000  # items that they are looked for among
MUTUAL = 5  # nearest classes among which a partner is looked for
ALIKE = 0.4  # similarity of two categories from which they may be one: of such that are nearest to each other, half are
CLUSTERED = 2000  # rows of a class that a split is found on
CANDIDATES = 4000  # most alike items that are weighed when a class grows
SECOND = 0.65  # of the items that are wrong where they are, the share that the softmax over the other classes has right
TOLD = 2000  # given items that the temperature is fitted on
TEMPERATURES = np.geomspace(0.02, 1.0, 18)
Z95 = 1.959964  # normal quantile of a 95 % interval

Order = Literal["doubtful", "centre"]


# ---------------------------------------------------------------- rows


def in_order(
    order: Order,
    rows: NDArray[np.int64],
    doubt: NDArray[np.floating],
    cosine: NDArray[np.floating],
    given: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Rows of a class, the most doubtful or the most central first; what a person has confirmed is in no doubt.

    Parameters
    ----------
    order : {"doubtful", "centre"}
        By falling doubt, equal ones by rising cosine; or by falling cosine.
    rows : ndarray of int64, shape (n,)
        The rows.
    doubt, cosine, given : ndarray, shape (n,)
        Of these rows: chance that each is wrong, cosine to the centre of the class, whether a person gave it.
    """
    cosine = np.where(np.isfinite(cosine), cosine, 0.0)
    if order == "centre":
        return rows[np.lexsort((rows, -cosine))]
    return rows[np.lexsort((rows, cosine, -np.asarray(doubt), given))]


def odd_ones(
    z: NDArray[np.float32], shapes: Shapes, is_open: NDArray[np.bool_], n: int | None = None, limit: float = np.inf
) -> NDArray[np.int64]:
    """Up to n items that are unlike every class and unlike each other, the oddest first.

    What has no category of its own yet shows among them: rare classes that were taken for a part of another one are the
    larger part of what is wrong under a long tail. Each next item is the one whose most alike class, or odd one so far,
    is the least alike (farthest-first traversal, Gonzalez 1985).

    Parameters
    ----------
    z : ndarray of float32, shape (N, d)
        Rows of unit length.
    shapes : Shapes
        Of the classes that are there.
    is_open : ndarray of bool, shape (N,)
        Items that nobody has said anything about; of more than `ODD_AMONG` a sample is looked at, which their content
        draws: the order of the rows has no say.
    n : int, optional
        At most; by default `how_many_odd`.
    limit : float
        Cosine to a class, or to an odd one before, from which an item is not odd.
    """
    rows = np.flatnonzero(is_open).astype(np.int64)
    if len(rows) > ODD_AMONG:
        rows = np.sort(rows[np.argsort(row_keys(z[rows])[:, 0], kind="stable")[:ODD_AMONG]])
    n = how_many_odd(len(rows)) if n is None else n
    x, centres = z[rows], shapes.centres[shapes.counts > 0]
    closest = (x @ centres.T).max(axis=1) if len(centres) else np.full(len(x), -1, dtype=np.float32)
    chosen = np.empty(min(n, len(rows)), dtype=np.int64)
    for at in range(len(chosen)):
        chosen[at] = closest.argmin()
        if closest[chosen[at]] >= limit:
            return rows[chosen[:at]]
        closest = np.maximum(closest, x @ x[chosen[at]])
        closest[chosen[at]] = np.inf
    return rows[chosen]


def how_many_odd(n: int) -> int:
    """How many odd ones of n open items are shown: an eighth, at least `ODD`, and as many as take no longer to find.

    Of two problems of plankton with 1,900 open items, 60, 120 and 240 of them gain 1.2, 2.7 and 4.9 in 80 actions.
    """
    return max(ODD, min(n // ODD_SHARE, ODD * ODD_AMONG // max(n, 1)))


# ---------------------------------------------------------------- merges


class Merge(NamedTuple):
    """Two classes that may be one, the smaller first, and how alike they are."""

    code: int
    into: int
    similarity: float
    mutual: bool


def merge_proposals(
    similarity: NDArray[np.float32],
    sizes: NDArray[np.int64],
    apart: NDArray[np.bool_],
    distinct: set[frozenset[int]],
    limit: int = 100,
) -> list[Merge]:
    """The most alike pairs of classes, those that are the likeliest to be one first.

    That is seldom so where people have labelled one of the two (2 of some 230 alike pairs, five problems), and in 10 of
    22 where nobody has and each is the nearest of the other: so these come first, then other pairs without labels.

    Parameters
    ----------
    similarity : ndarray of float32, shape (K, K)
        See `ltgcd.graph.class_shapes.class_similarity`.
    sizes : ndarray of int64, shape (K,)
        Items of each class; empty ones have no partner.
    apart : ndarray of bool, shape (K,)
        Classes that people have labelled items of: of these no two are ever proposed, for people told them apart.
    distinct : set of frozenset
        Pairs that a person said are two.
    limit : int
        Pairs.
    """
    live = np.flatnonzero(sizes > 0)
    if len(live) < 2:
        return []
    s = similarity[np.ix_(live, live)].copy()
    s[np.ix_(apart[live], apart[live])] = -2.0
    np.fill_diagonal(s, -2.0)
    place = {int(code): at for at, code in enumerate(live)}
    for pair in distinct:
        if len(pair) == 2 and pair <= set(place):
            one, other = (place[code] for code in pair)
            s[one, other] = s[other, one] = -2.0
    near = min(MUTUAL, len(live) - 1)
    among = np.zeros(s.shape, dtype=np.bool_)
    np.put_along_axis(among, np.argpartition(-s, near - 1, axis=1)[:, :near], True, axis=1)
    left, right = np.nonzero(np.triu((among | among.T) & (s > 0), 1))
    nearest, told = s.argmax(axis=1), apart[live]
    is_mutual = (nearest[left] == right) & (nearest[right] == left)
    best = np.lexsort((-s[left, right], ~is_mutual, told[left] | told[right]))[:limit]
    found = []
    for a, b, mutual in zip(left[best].tolist(), right[best].tolist(), is_mutual[best].tolist(), strict=True):
        # The smaller one goes into the larger, and never one with people's own labels into one without.
        first, second = sorted((a, b), key=lambda at: (bool(apart[live[at]]), int(sizes[live[at]]), -at))
        found.append(Merge(int(live[first]), int(live[second]), float(s[a, b]), mutual))
    return found


def twins(
    similarity: NDArray[np.float32],
    sizes: NDArray[np.int64],
    apart: NDArray[np.bool_],
    distinct: Collection[frozenset[int]],
) -> dict[int, int]:
    """The partner of each category that is perhaps the same as another one: each the nearest of all, and alike enough.

    Parameters are those of `merge_proposals`; what people have labelled has no partner.
    """
    live, free = np.flatnonzero(sizes > 0), np.flatnonzero((sizes > 0) & ~apart)
    if len(live) < 2 or not len(free):
        return {}
    s = similarity[np.ix_(free, live)]
    s[np.arange(len(free)), np.searchsorted(live, free)] = -2.0
    place, row = {int(code): at for at, code in enumerate(live)}, {int(code): at for at, code in enumerate(free)}
    for pair in distinct:
        for one, other in itertools.permutations(pair, 2):
            if one in row and other in place:
                s[row[one], place[other]] = -2.0
    nearest = dict(zip(free.tolist(), live[s.argmax(axis=1)].tolist(), strict=True))
    enough = dict(zip(free.tolist(), (s.max(axis=1) >= ALIKE).tolist(), strict=True))
    return {code: other for code, other in nearest.items() if enough[code] and nearest.get(other) == code}


# ---------------------------------------------------------------- split


def split_proposal(
    z: NDArray[np.float32],
    rows: NDArray[np.int64],
    parts: int,
    examples: NDArray[np.bool_],
    stays: NDArray[np.bool_],
    random_state: int = 0,
) -> tuple[list[NDArray[np.int64]], float]:
    """Parts of a class by sub-clustering, and how well they are separated, in [-1, 1].

    The first part is the one that keeps the class: it has the most examples, or is the largest. Rows that stay are in
    no other part.

    Parameters
    ----------
    z : ndarray of float32, shape (N, d)
        Rows of unit length.
    rows : ndarray of int64, shape (n,)
        The rows of the class.
    parts : int
        How many, 2 to 5.
    examples, stays : ndarray of bool, shape (n,)
        Rows that a person has given this class, and rows that were labelled with it before anything was found.
    random_state : int
        Seed.
    """
    x = z[rows]
    sample = np.sort(np.random.RandomState(random_state).permutation(len(rows))[:CLUSTERED])
    if len(rows) < 2:
        return [rows], 0.0
    with threadpool_limits(1):  # threads that wait for each other take a hundred times as long on a busy machine
        centres = normalise(cluster(x[sample], parts, random_state, n_init=4).cluster_centers_)
    cosines = x @ centres.T
    part = cosines.argmax(axis=1)
    both = np.sort(cosines, axis=1)[:, ::-1]
    far, near = 1 - both[:, 1], 1 - both[:, 0]
    separation = float(np.mean((far - near) / np.maximum(np.maximum(far, near), 1e-12)))
    sizes = np.bincount(part, minlength=len(centres))
    told = np.bincount(part[examples], minlength=len(centres))
    keeper = int(np.lexsort((-sizes, -told))[0])
    order = [keeper, *(int(c) for c in np.argsort(-sizes, kind="stable") if c != keeper)]
    found = []
    for c in order:
        inside = np.flatnonzero((part == c) & ~stays if c != keeper else (part == c) | stays)
        found.append(rows[inside[np.argsort(-cosines[inside, c], kind="stable")]])
    return [group for group in found if len(group)], separation


# ---------------------------------------------------------------- more of a kind


def fitted_temperature(z: NDArray[np.float32], y: NDArray[np.int64], shapes: Shapes, random_state: int = 0) -> float:
    """Temperature at which cosines to the class centres tell the labels best, each item left out of its own centre.

    Parameters
    ----------
    z : ndarray of float32, shape (N, d)
        Rows of unit length.
    y : ndarray of int64, shape (N,)
        Labels that people gave, -1 for none.
    shapes : Shapes
        Of these labels.
    """
    usable = np.flatnonzero((y >= 0) & (shapes.counts[y] > 1))
    if not len(usable):
        return float(np.median(TEMPERATURES))
    rows = np.sort(np.random.RandomState(random_state).permutation(usable)[:TOLD])
    live = np.flatnonzero(shapes.counts > 0)
    cosines = z[rows] @ shapes.centres[live].T
    own = np.searchsorted(live, y[rows])
    left = shapes.sums[y[rows]] - z[rows]
    inside = np.einsum("nd,nd->n", z[rows], left) / np.maximum(np.linalg.norm(left, axis=1), 1e-12)
    cosines[np.arange(len(rows)), own] = inside
    told = [
        float(np.log(np.maximum(softmax(cosines, t)[np.arange(len(rows)), own], 1e-12)).mean()) for t in TEMPERATURES
    ]
    return float(TEMPERATURES[int(np.argmax(told))])


class Grown(NamedTuple):
    """Items that may belong to a class, the most likely first, and the chance of each."""

    rows: NDArray[np.int64]
    chance: NDArray[np.float64]


def grow(
    z: NDArray[np.float32],
    target: int,
    code: NDArray[np.int64],
    confidence: NDArray[np.floating],
    is_open: NDArray[np.bool_],
    shapes: Shapes,
    temperature: float,
) -> Grown:
    """Items of other classes, and unsure ones, by their chance to be of the class `target`.

    An item that leans to the class has the chance that its confidence promises. One of another class is wrong there
    with a chance of 1 − confidence, of which this class has the share that a softmax over its cosines to the other
    classes gives, times `SECOND`: the softmax is fitted on labelled items, and what is wrong where it is lies between
    classes, or is of one that nobody has found. So the mean over a page is the precision to expect of it.

    Parameters
    ----------
    z : ndarray of float32, shape (N, d)
        Rows of unit length.
    target : int
        The class.
    code, confidence : ndarray, shape (N,)
        Class of each item, of an unsure one that which it leans to, and the calibrated chance that it is right.
    is_open : ndarray of bool, shape (N,)
        Items that may be proposed: not in the class already, not given, not junk, not refused for the class.
    shapes : Shapes
        Of all classes; that of `target` by its confirmed items where there are some.
    temperature : float
        See `fitted_temperature`.
    """
    rows = np.flatnonzero(is_open)
    centres = shapes.centres
    if not len(rows) or not shapes.counts[target]:
        return Grown(np.empty(0, dtype=np.int64), np.empty(0))
    closeness = z @ centres[target]
    if len(rows) > CANDIDATES:
        rows = rows[np.argpartition(-closeness[rows], CANDIDATES)[:CANDIDATES]]
    live = np.flatnonzero(shapes.counts > 0)
    place = np.full(len(shapes.counts), -1, dtype=np.int64)
    place[live] = np.arange(len(live))
    cosines = z[rows] @ centres[live].T
    own = place[code[rows]]
    leans, elsewhere = code[rows] == target, np.flatnonzero((own >= 0) & (code[rows] != target))
    cosines[elsewhere, own[elsewhere]] = -np.inf
    share = softmax(cosines, temperature)[:, place[target]].astype(np.float64)
    chance = np.where(leans, confidence[rows], (1 - confidence[rows]) * share * SECOND)
    best = np.lexsort((rows, -closeness[rows], -chance))
    return Grown(rows[best], chance[best])


def neighbours(z: NDArray[np.float32], row: int, n: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The n items most like an item, itself left out, and their cosines; every item is looked at."""
    cosines = z @ z[row]
    cosines[row] = -2.0
    n = min(n, len(z) - 1)
    best = np.argpartition(-cosines, n - 1)[:n] if n > 0 else np.empty(0, dtype=np.int64)
    best = best[np.lexsort((best, -cosines[best]))]
    return best.astype(np.int64), np.clip(cosines[best], -1, 1)


# ---------------------------------------------------------------- audit


def audit_order(code: NDArray[np.int64], is_drawn: NDArray[np.bool_], random_state: int = 0) -> NDArray[np.int64]:
    """Rows that can be drawn, by class (N,) and within a class at random: its first n are its sample of n.

    The chance order is one of all items, so that a sample lasts as other rows come and go.
    """
    rank = audit_ranks(len(code), random_state)
    rows = np.flatnonzero((code >= 0) & is_drawn).astype(np.int64)
    return rows[np.lexsort((rank[rows], code[rows]))]


@lru_cache(maxsize=2)
def audit_ranks(n: int, random_state: int = 0) -> NDArray[np.int64]:
    """The order of chance of n items: the rank (n,) of each."""
    rank = np.random.RandomState(random_state).permutation(n).astype(np.int64)
    rank.flags.writeable = False
    return rank


def wilson(right: int, checked: int) -> tuple[float, float]:
    """95 % interval of a share, of which `right` of `checked` were seen (Wilson's score interval)."""
    if checked == 0:
        return 0.0, 1.0
    share, extra = right / checked, Z95**2 / checked
    middle = (share + extra / 2) / (1 + extra)
    half = Z95 * np.sqrt(share * (1 - share) / checked + extra / (4 * checked)) / (1 + extra)
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))
