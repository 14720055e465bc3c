"""The next fit: everything people have said becomes a constraint of it, and categories keep their codes and names.

==============================  ======================================================================================
confirmed items                 labels: their classes are known to the fit, and they never move
a class with a name             known, whatever its number
merged classes                  one class
the items of a category         where it begins, beside what is confirmed of it; also the parts of a split
"not this class"                that probability is 0 for the item
"never merge"                   two categories with a start of their own; never proposed as one again
junk                            in no training and no count
items moved without a word      parts of a split, say: they stay, unless the fit is quite sure of something else
the number of classes           what is there: who finds a class splits it off
==============================  ======================================================================================

No file is read or written here.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import nn

from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata
from ltgcd.data.collection import UNLABELLED
from ltgcd.discovery.assignments import core
from ltgcd.discovery.classes import NOTE, Classes, table_of
from ltgcd.discovery.discover import Discovery, discover
from ltgcd.discovery.rehearsal import Calibrations
from ltgcd.discovery.task import DiscoveryConfig, Hints, Hooks, Task
from ltgcd.features.views import CachedViews
from ltgcd.review.state import Review

SHOWN = 12  # pairs of classes that most items moved between


class Constraints(NamedTuple):
    """What a review means for the next fit.

    Attributes
    ----------
    rows : ndarray of int64, shape (n,)
        Items that take part: all but junk.
    y : ndarray of int64, shape (n,)
        Label of each of them as a position in `labelled`, -1 without.
    labelled : ndarray of int64, shape (L,)
        Codes of the classes that have labelled or confirmed items.
    start : ndarray of int64, shape (n,)
        Class that each item without a label begins in: a position in `labelled`, or L + one in `started`; -1 for none,
        and in classes that came with labels.
    started : ndarray of int64, shape (S,)
        Codes of the other classes that have items.
    forbidden : tuple of ndarrays of int64, each of shape (M,)
        Positions in `rows`, and what each is not of: a position in `labelled`, or L + one in `started`.
    placed : tuple of ndarrays of int64, each of shape (P,)
        Positions of items that a person moved with others and did not confirm, and where to: numbered in the same way.
    """

    rows: NDArray[np.int64]
    y: NDArray[np.int64]
    labelled: NDArray[np.int64]
    start: NDArray[np.int64]
    started: NDArray[np.int64]
    forbidden: tuple[NDArray[np.int64], NDArray[np.int64]]
    placed: tuple[NDArray[np.int64], NDArray[np.int64]]


class Refined(NamedTuple):
    """The next fit of a reviewed run.

    Attributes
    ----------
    table : pyarrow.Table
        The assignments that it gives: what the next review begins with.
    codes : ndarray of int64, shape (K,)
        Code of each class of the model.
    found : Discovery
        Of the items that took part; its model labels new ones.
    difference : dict
        What changed, see `difference`.
    before : ndarray of int64, shape (N,)
        Class that each item was in; -1 for junk, which stays where it is.
    """

    table: pa.Table
    codes: NDArray[np.int64]
    found: Discovery
    difference: dict[str, Any]
    before: NDArray[np.int64]

    def moved(self, pair: tuple[int, int] | None = None) -> NDArray[np.int64]:
        """Rows of the items whose class is another one now; with `pair`, of those that went from one to the other."""
        code = np.asarray(self.table.column("label").to_numpy(), dtype=np.int64)
        moved = (code != self.before) & (self.before != UNLABELLED)
        if pair is not None:
            moved &= (self.before == pair[0]) & (code == pair[1])
        return np.flatnonzero(moved).astype(np.int64)


def refine(
    review: Review,
    source: NDArray[np.int64],
    x: NDArray[np.float32],
    config: DiscoveryConfig,
    calibrations: Calibrations | None = None,
    hooks: Hooks | None = None,
    views: CachedViews | None = None,
    tail: nn.Module | None = None,
) -> Refined:
    """Fit again with everything people have said about the last answer.

    Parameters
    ----------
    review : Review
        The last answer, and what was said.
    source : ndarray of int64, shape (N,)
        Codes of the labels that the collection came with, -1 without.
    x : ndarray of float32, shape (N, D)
        Features of the items.
    config : DiscoveryConfig
        Of the last fit; nothing is rehearsed again, and K is the number of classes that have items.
    calibrations : Calibrations, optional
        What confidences were worth there.
    hooks : Hooks, optional
        See `ltgcd.discovery.discover.discover`.
    views, tail : CachedViews and torch.nn.Module, optional
        Cached views of all items and the last stage of the backbone, where that is what is trained.
    """
    said = constraints(review, source)
    if not len(said.labelled):
        raise InputError(
            "Nothing is labelled or confirmed, so there is nothing to learn from; accept a category first."
        )
    # Labels given here and there are no sample of their classes, which the estimate of K takes them for: of 98 single
    # labels it made 117 classes where there are 77. So K is what people have left there.
    config = dataclasses.replace(config, k=len(said.labelled) + len(said.started), rehearsals=0)
    hints = Hints(said.start, len(said.started), said.forbidden, said.placed, calibrations)
    chosen = views.select(said.rows) if views is not None else None
    task = Task(x[said.rows], said.y, len(said.labelled), chosen, tail, hints)
    found = discover(task, config, hooks)
    codes, classes = _codes(review, said, found)
    table = _table(review, said, found, codes, classes)
    return Refined(table, codes, found, difference(review, table), np.where(review.junk, UNLABELLED, review.code))


def constraints(review: Review, source: NDArray[np.int64]) -> Constraints:
    """What a review of items with these labels (N,) means for the next fit."""
    rows = np.flatnonzero(~review.junk)
    code = review.code[rows]
    # A label of the source counts where nobody has said otherwise: moved, merged or split off, the review is right.
    from_source = source[rows] != UNLABELLED
    from_source[from_source] = review.resolve(source[rows][from_source]) == code[from_source]
    is_labelled = review.given[rows] | from_source
    labelled = np.unique(code[is_labelled])
    started = np.setdiff1d(code, labelled)
    kept = core(code, ~review.unsure[rows])
    y = np.where(is_labelled, np.searchsorted(labelled, code), UNLABELLED).astype(np.int64)
    position = np.full(review.next_code + 1, UNLABELLED, dtype=np.int64)  # of each code among all of these classes
    position[np.concatenate([labelled, started])] = np.arange(len(labelled) + len(started))
    # A class that came with labels begins at these; what was found of any other is where it begins, beside what is
    # confirmed of it. The last position is that of no class.
    start = np.where(np.isin(code, code[from_source]), UNLABELLED, position[kept])
    start[is_labelled] = UNLABELLED
    moved = (code != review.resolve(_base_codes(review)[rows])) & ~is_labelled & ~review.unsure[rows]
    placed = np.flatnonzero(moved).astype(np.int64), position[code[moved]]
    forbidden = _forbidden(review, rows, position, y)
    return Constraints(rows, y, labelled, start, started, forbidden, placed)


def _base_codes(review: Review) -> NDArray[np.int64]:
    """Class (N,) that each item had before anything was said."""
    return np.asarray(review.base.column("label").to_numpy(), dtype=np.int64)


def _forbidden(
    review: Review, rows: NDArray[np.int64], position: NDArray[np.int64], y: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    nothing = np.empty(0, dtype=np.int64)
    if not review.rejected:
        return nothing, nothing
    place = np.full(len(review), UNLABELLED, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    items = np.concatenate([named for named, _ in review.rejected])
    classes = np.concatenate([np.full(len(named), review.target(code)) for named, code in review.rejected])
    items, classes = place[items], position[classes]
    # What was confirmed since is confirmed; junk and classes that are gone need no word.
    counts = (items != UNLABELLED) & (classes != UNLABELLED)
    counts[counts] = y[items[counts]] == UNLABELLED
    return items[counts], classes[counts]


def _codes(review: Review, said: Constraints, found: Discovery) -> tuple[NDArray[np.int64], Classes]:
    """Code of each class of the fit (K,), and all classes that there are.

    Categories keep their code by the items that they share with one of before (Hungarian); what shares none is new.
    """
    n, k = len(said.labelled), found.k
    codes = np.full(k, UNLABELLED, dtype=np.int64)
    codes[:n] = said.labelled
    before = np.searchsorted(said.started, review.code[said.rows])
    is_in = np.isin(review.code[said.rows], said.started) & (found.labels >= n)
    shared = np.zeros((len(said.started), k - n), dtype=np.int64)
    np.add.at(shared, (before[is_in], found.labels[is_in] - n), 1)
    for one, other in zip(*linear_sum_assignment(-shared), strict=True):
        if shared[one, other]:
            codes[n + other] = said.started[one]
    fresh = np.flatnonzero(codes == UNLABELLED)
    codes[fresh] = review.next_code + np.arange(len(fresh))
    now = review.classes_now
    names, known = dict(zip(now.codes, now.names, strict=True)), dict(zip(now.codes, now.known, strict=True))
    names |= {int(code): now.name_of(int(code)) for code in codes[fresh]}
    # A known class stays on the list without an item, and so does one that junk could come back to; a category that
    # lost all of its items is gone.
    of_junk = review.code[review.junk].tolist()
    kept = sorted({*codes.tolist(), *of_junk, *(code for code in now.codes if known[code])})
    return codes, Classes(
        tuple(kept),
        tuple(names[code] for code in kept),
        tuple(known.get(code, False) for code in kept),
        review.next_code + len(fresh),
        now.next_number + len(fresh),
    )


def _table(review: Review, said: Constraints, found: Discovery, codes: NDArray[np.int64], classes: Classes) -> pa.Table:
    """The assignments of all items, junk as it was."""
    code, confidence, unsure = review.code.copy(), review.confidence.copy(), review.unsure.copy()
    second = code.copy()
    code[said.rows] = codes[found.labels]
    confidence[said.rows] = found.confidence
    confidence[review.given] = 1
    unsure[said.rows] = found.unsure
    if found.runner_up is not None:
        second[said.rows] = codes[found.runner_up]
    kept = read_metadata(review.base.schema)
    note = {key: value for key, value in kept.items() if key not in ("named", "n_old", "merged")}
    note["distinct"] = sorted(sorted(pair) for pair in review.distinct)
    note["refined"] = True
    note["retired"] = {name: review.target(code) for name, code in sorted(review.retired.items())}
    return table_of(
        review.base.column("id"),
        code,
        confidence,
        unsure,
        classes,
        note,
        review.junk,
        given=review.given | review.junk,
        runner_up=second,
    )


# ---------------------------------------------------------------- what changed


def difference(before: Review, after: pa.Table) -> dict[str, Any]:
    """What a person wants to know before a new answer takes the place of the old one.

    Returns
    -------
    dict
        ``changed`` (items whose class is another one), ``kept`` (confirmed items, all of which kept theirs), the
        classes that have ``grown``, ``shrunk``, ``vanished``, ``appeared`` (code, name, before, after: sure items), how
        many are ``unchanged``, and ``moves`` (from, to, their ``codes``, n) of the most items, unsure ones included,
        with how many of them were ``sure``. Items become sure or unsure where they are, too: ``surer``, ``less_sure``.
        A category to which unsure items still lean has shrunk to nothing and has not vanished.
    """
    code = np.asarray(after.column("label").to_numpy(), dtype=np.int64)
    sure = np.asarray(after.column("status").to_numpy(zero_copy_only=False))
    sure_now, sure_then = ~np.isin(sure, ("unsure", "junk")), ~before.unsure & ~before.junk
    held = read_metadata(after.schema)[NOTE]
    names = {**before.class_names(), **dict(zip(held["codes"], held["names"], strict=True))}
    n = max(before.next_code, held["next_code"])
    then = np.bincount(before.code[sure_then], minlength=n)
    now = np.bincount(code[sure_now], minlength=n)
    was_there = np.bincount(before.code[~before.junk], minlength=n) > 0
    is_there = np.bincount(code[sure != "junk"], minlength=n) > 0
    rows = [
        {"code": c, "name": names[c], "before": int(then[c]), "after": int(now[c])}
        for c in np.flatnonzero(then + now).tolist()
    ]
    moved = (code != before.code) & ~before.junk
    pairs, counts = np.unique(np.stack([before.code[moved], code[moved]]), axis=1, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:SHOWN]
    moves = [(int(pairs[0, i]), int(pairs[1, i]), int(counts[i])) for i in order]
    were_sure = [int((sure_then & moved & (before.code == one) & (code == other)).sum()) for one, other, _ in moves]
    return {
        "changed": int(moved.sum()),
        "kept": int(before.given.sum()),
        "surer": int((sure_now & ~sure_then & ~before.junk).sum()),
        "less_sure": int((sure_then & ~sure_now).sum()),
        "vanished": [row for row in rows if not is_there[row["code"]]],
        "appeared": [row for row in rows if not was_there[row["code"]]],
        "grown": [row for row in rows if was_there[row["code"]] and row["before"] < row["after"]],
        "shrunk": [row for row in rows if is_there[row["code"]] and row["before"] > row["after"]],
        "unchanged": sum(row["before"] == row["after"] for row in rows),
        "moves": [
            {"from": names[one], "to": names[other], "codes": [one, other], "n": n, "sure": sure_of_them}
            for (one, other, n), sure_of_them in zip(moves, were_sure, strict=True)
        ],
    }
