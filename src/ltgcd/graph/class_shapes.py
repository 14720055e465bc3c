"""How classes lie to one another, from nothing but the sum of the unit rows of each: cheap enough for every action.

With S_c the sum of the n_c unit rows of class c, the mean cosine of two of its items is (|S_c|² − n_c) / (n_c² − n_c),
and that of an item of c and one of e is S_c·S_e / (n_c n_e). So a change to two classes costs two sums, however many
items and classes there are, and no table of items by classes is ever made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.whitening import normalise

PRIOR_PAIRS = 6.0  # pairs as alike as those of a usual class that each class is given: one of two items says little
LEAST_WITHIN = 0.05  # mean cosine of a class's own items, below which it has no direction to compare by
ROWS = 4096  # rows of a block
COUNTED = 1 << 20  # kinds of rows up to which they are counted and not sorted
FAR = 0.05  # share of the given items of a class that are called far from the others
GRAIN = 2.0**30  # coordinates are added up as whole numbers of this part of 1: exact, in any order, to 8 million items
PRIOR_GIVEN = 10.0  # given items as spread as those of all classes that each class is given


@dataclass(frozen=True, eq=False)
class Shapes:
    """Sums (K, d) of the unit rows of each class, and their numbers (K,)."""

    sums: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def centres(self) -> NDArray[np.float32]:
        """Directions (K, d) of the classes; zero for an empty one."""
        return normalise(self.sums)


def class_shapes(
    z: NDArray[np.float32],
    members: NDArray[np.int64],
    k: int,
) -> Shapes:
    """Shapes of `k` classes of unit rows (N, d).

    Parameters
    ----------
    z : ndarray of float32, shape (N, d)
        Rows of unit length.
    members : ndarray of int64, shape (N,)
        Class of each item that counts, -1 for the others.
    k : int
        Number of codes.
    """
    sums = np.zeros((k, z.shape[1]))
    for start in range(0, len(z), ROWS):
        part = slice(start, start + ROWS)
        sums += _sums(rounded(z[part]), members[part], k)
    return Shapes(sums, np.bincount(members[members != UNLABELLED], minlength=k).astype(np.int64))


def shapes_after(
    before: Sequence[Shapes],
    z: NDArray[np.float32],
    rows: NDArray[np.int64],
    changes: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
    k: int,
) -> list[Shapes]:
    """Shapes of `k` classes in several respects, after some rows (n,) have gone from their classes to others.

    `changes` are the classes (n,) that the rows were in and are in now in each respect, -1 for none; to read the rows
    takes longest, and so is done once. `z` (N, d) is what `rounded` gives. So what is taken off and added is exact:
    going there and back gives the same shapes to the last bit.
    """
    first, kind = _same([column for change in changes for column in change], len(rows), k)
    sums, counts = np.zeros((len(first), z.shape[1])), np.bincount(kind, minlength=len(first))
    for start in range(0, len(rows), ROWS):
        part = slice(start, start + ROWS)
        sums += _sums(z[rows[part]], kind[part], len(first))
    return [
        _after(held, sums, counts, was[first], now[first], k) for held, (was, now) in zip(before, changes, strict=True)
    ]


def _same(columns: Sequence[NDArray[np.int64]], n: int, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows (n,) that are alike in all columns, of numbers from -1 to k - 1: one row of each kind, and the kind of each.

    Counted column by column: to sort 50,000 rows takes five times as long.
    """
    kind, kinds = np.zeros(n, dtype=np.int64), 1
    for column in columns:
        kind = kind * (k + 1) + column + 1
        if kinds * (k + 1) > COUNTED:
            _, kind = np.unique(kind, return_inverse=True)
            kinds = int(kind.max(initial=-1)) + 1
            continue
        there = np.bincount(kind, minlength=1) > 0
        kind, kinds = (np.cumsum(there) - 1)[kind], int(there.sum())
    first = np.zeros(kinds if n else 0, dtype=np.int64)
    first[kind[::-1]] = np.arange(n)[::-1]
    return first, kind


def _after(
    before: Shapes,
    sums: NDArray[np.float64],
    counts: NDArray[np.int64],
    was: NDArray[np.int64],
    now: NDArray[np.int64],
    k: int,
) -> Shapes:
    """Shapes of `k` classes after groups of rows, with these sums and counts, have gone from classes to others."""
    after = Shapes(np.zeros((k, sums.shape[1])), np.zeros(k, dtype=np.int64))
    after.sums[: len(before.sums)], after.counts[: len(before.counts)] = before.sums, before.counts
    for change, codes in ((np.subtract, was), (np.add, now)):
        inside = codes != UNLABELLED
        change.at(after.sums, codes[inside], sums[inside])
        change.at(after.counts, codes[inside], counts[inside])
    return after


def _sums(x: NDArray[np.float32], members: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Sums (k, d) of rounded rows (n, d) by class (n,), -1 for none."""
    inside = members != UNLABELLED
    ends = np.append(0, np.cumsum(inside))
    return np.asarray(csc_array((np.ones(ends[-1]), members[inside], ends), shape=(k, len(x))) @ x)


def rounded(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows (n, d) whose coordinates are whole numbers of 1 / `GRAIN`."""
    return np.asarray(np.rint(x * np.float32(GRAIN)) / np.float32(GRAIN))


def within_cosine(shapes: Shapes) -> NDArray[np.float64]:
    """Mean cosine (K,) of two items of each class; of a small class drawn towards what is usual."""
    n = shapes.counts.astype(np.float64)
    pairs = n * (n - 1) / 2
    total = (np.einsum("kd,kd->k", shapes.sums, shapes.sums) - n) / 2
    enough = n >= 3
    usual = float(np.median(total[enough] / pairs[enough])) if enough.any() else 0.5
    return np.asarray(np.clip((total + PRIOR_PAIRS * usual) / (pairs + PRIOR_PAIRS), LEAST_WITHIN, 1.0))


def class_similarity(shapes: Shapes) -> NDArray[np.float32]:
    """Cosines (K, K) of the classes' true centres, as far as these items tell; 0 for an empty class.

    The cosine of two means of few items is too small, because both hold noise. The mean cosine of pairs across, over
    the root of those of pairs within, has no such bias: two random halves of one class have 1, whatever its spread.
    """
    mean = shapes.sums / np.maximum(shapes.counts, 1)[:, None]
    scaled = mean / np.sqrt(within_cosine(shapes))[:, None]
    return np.clip(scaled @ scaled.T, -1.0, 1.0).astype(np.float32)


def coherence(shapes: Shapes) -> NDArray[np.float64]:
    """How much nearer a class's items are to their own centre than to the next one, shape (K,), in [-1, 1].

    A silhouette of the class as a whole, (a − b) / max(1 − a, 1 − b), with a the mean cosine of its items to the centre
    of the others among them, and b to the nearest other centre. NaN for fewer than two items, or without another class.
    """
    n = np.maximum(shapes.counts, 1).astype(np.float64)
    squared = np.einsum("kd,kd->k", shapes.sums, shapes.sums)
    with np.errstate(invalid="ignore", divide="ignore"):
        own = (squared / n - 1) / np.sqrt(np.maximum(squared * (1 - 2 / n) + 1, 1e-12))
    across = (shapes.sums / n[:, None]) @ shapes.centres.T.astype(np.float64)
    np.fill_diagonal(across, -1.0)
    across[:, shapes.counts == 0] = -1.0
    other = across.max(axis=1, initial=-1.0)
    found = (own - other) / np.maximum(np.maximum(1 - own, 1 - other), 1e-12)
    return np.where((shapes.counts > 1) & ((shapes.counts > 0).sum() > 1), np.clip(found, -1, 1), np.nan)


def own_cosines(
    z: NDArray[np.float32],
    rows: NDArray[np.int64],
    own: NDArray[np.int64],
    is_inside: NDArray[np.bool_],
    shapes: Shapes,
) -> NDArray[np.float32]:
    """Cosine of some rows to the centres of their classes, shape (n,); NaN where there is nothing to compare with.

    Parameters
    ----------
    z : ndarray of float32, shape (N, d)
        Rows of unit length.
    rows, own : ndarray of int64, shape (n,)
        Which ones, and the class of each.
    is_inside : ndarray of bool, shape (n,)
        Rows that are part of the sum of their class: they are taken out of it first.
    shapes : Shapes
        Of the classes.
    """
    sums = shapes.sums.astype(np.float32)
    dot = np.empty(len(rows))
    for start in range(0, len(rows), ROWS):
        part = slice(start, start + ROWS)
        dot[part] = np.einsum("nd,nd->n", z[rows[part]], sums[own[part]])
    squared = np.einsum("kd,kd->k", shapes.sums, shapes.sums)[own]
    # |S − z|² = |S|² − 2 z·S + 1 for a row that is a part of S.
    rest = np.where(is_inside, squared - 2 * dot + 1, squared)
    others = shapes.counts[own] - is_inside
    cosine = (dot - is_inside) / np.sqrt(np.maximum(rest, 1e-12))
    return np.where(others > 0, np.clip(cosine, -1, 1), np.nan).astype(np.float32)


class Spread(NamedTuple):
    """How far the given items of a usual class lie from its centre: their mean cosine, and a low quantile around it."""

    mean: float
    low: float
    weight: float = PRIOR_GIVEN  # given items that it counts as

    @classmethod
    def of(cls, cosine: NDArray[np.float32], code: NDArray[np.int64], k: int) -> Spread:
        """The spread of given items: their cosines (n,) to the centres of the others of their `k` classes (n,)."""
        known = np.isfinite(cosine)
        values, group = cosine[known].astype(np.float64), code[known]
        if not len(values):
            return cls(0.0, 0.0, 0.0)
        mean = np.bincount(group, weights=values, minlength=k) / np.maximum(np.bincount(group, minlength=k), 1)
        return cls(float(values.mean()), float(np.quantile(values - mean[group], FAR)))


class Contamination(NamedTuple):
    """Which assigned items do not look like the given ones of their class.

    Attributes
    ----------
    share : ndarray of float64, shape (K,)
        Share of each class's assigned items that are foreign to it, as far as one can tell.
    far : ndarray of int64, shape (K,)
        Number of its assigned items that lie far from the given ones.
    foreign : ndarray of float64, shape (N,)
        Chance that each item is foreign: the share of the class over that of its far items for these, else 0.
    """

    share: NDArray[np.float64]
    far: NDArray[np.int64]
    foreign: NDArray[np.float64]


def contamination(
    cosine: NDArray[np.float32],
    code: NDArray[np.int64],
    is_given: NDArray[np.bool_],
    is_assigned: NDArray[np.bool_],
    k: int,
    usual: Spread | None = None,
) -> Contamination:
    """Compare the assigned items of each class with those that people gave it.

    An item lies far if its cosine to the centre of the given items is below that of all but `FAR` of these themselves
    (each left out of the centre it is compared with). Of items like the given ones a share `FAR` lies far, too: that is
    taken off. A class of few given items borrows the spread of the others.

    Parameters
    ----------
    cosine : ndarray of float32, shape (N,)
        Of each item to the centre of the given items of its class, itself left out; NaN where there is none.
    code : ndarray of int64, shape (N,)
        Class of each item.
    is_given, is_assigned : ndarray of bool, shape (N,)
        Items that people gave their class, and items that were assigned to theirs.
    k : int
        Number of codes. A class without given or without assigned items has 0.
    usual : Spread, optional
        What a class of few given items borrows; by default the spread of all given items.
    """
    foreign = np.zeros(len(code))
    known = np.isfinite(cosine)
    given, assigned = np.flatnonzero(is_given & known), np.flatnonzero(is_assigned & known)
    if not len(assigned) or (usual is None and not len(given)):
        return Contamination(np.zeros(k), np.zeros(k, dtype=np.int64), foreign)
    usual = usual or Spread.of(cosine[given], code[given], k)
    limit = _low_quantiles(cosine[given].astype(np.float64), code[given], k, usual)
    distant = assigned[cosine[assigned] < limit[code[assigned]]]
    far = np.bincount(code[distant], minlength=k).astype(np.int64)
    share_far = far / np.maximum(np.bincount(code[assigned], minlength=k), 1)
    share = np.clip((share_far - FAR) / (1 - FAR), 0.0, 1.0)
    foreign[distant] = (share / np.maximum(share_far, 1e-12))[code[distant]]
    return Contamination(share, far, foreign)


def _low_quantiles(values: NDArray[np.float64], group: NDArray[np.int64], k: int, usual: Spread) -> NDArray[np.float64]:
    """The value (K,) below which a share `FAR` of each group lies, drawn towards what is usual, around its own mean."""
    n = np.bincount(group, minlength=k)
    mean = np.bincount(group, weights=values, minlength=k) / np.maximum(n, 1)
    weight = np.maximum(n + usual.weight, 1e-12)
    shared = (n * mean + usual.weight * usual.mean) / weight
    order = np.argsort(group.astype(np.min_scalar_type(k)), kind="stable")  # small numbers are sorted much faster
    together, ends, own = values[order], np.cumsum(n), np.zeros(k)
    for one in np.flatnonzero(n).tolist():  # only the element in question is put in its place: no class is sorted
        part, at = together[ends[one] - n[one] : ends[one]], int(FAR * n[one])
        own[one] = np.partition(part, at)[at] - mean[one]
    return np.asarray(shared + (n * own + usual.weight * usual.low) / weight)
