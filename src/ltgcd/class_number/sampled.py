"""The class number of more items than an estimate looks at: on samples, with what a sample makes of it measured.

A sample has sparser classes than the collection: where density peaks blur, and where neighbours are of another class
more often, the estimate is another one. Two things tell by how much, without looking at all items: how far several
samples differ from one another, and by how much the estimate changes from half of a sample to all of it. The interval
is widened by both.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from ltgcd.class_number.estimate import TAILS, KEstimate, estimate_k
from ltgcd.class_number.interval import LEAST, geometric_mean
from ltgcd.class_number.peak_search import nearest, partition
from ltgcd.common.errors import InputError
from ltgcd.common.progress import progress
from ltgcd.common.tables import most_likely
from ltgcd.data.collection import UNLABELLED, seed_after
from ltgcd.data.order import ContentOrder, content_order
from ltgcd.data.samples import stratified_sample
from ltgcd.graph.feature_graph import FeatureGraph
from ltgcd.graph.whitening import ROWS, class_means, cosines, fit_whitening, normalise

WHOLE_ITEMS = 2_000_000  # more are estimated on samples; a constant, so that no machine gives another answer
SAMPLE_ITEMS = 500_000  # of each of them
SAMPLES = 3
REACH = float(norm.ppf(TAILS[1]))  # of the interval, in standard deviations of a normal distribution
FEWEST = 2  # labelled items of a class in a sample, if it has as many: more would weigh too much for a small class


def estimate_class_number(
    features: NDArray[np.floating],
    y: NDArray[np.int64],
    method: str = "peaks",
    *,
    sample: int | None = None,
    n_old: int | None = None,
    k_max: int | None = None,
    labels_from: str = "collection",
    random_state: int = 0,
    order: ContentOrder | None = None,
    components: FeatureGraph | None = None,
) -> KEstimate:
    """Estimate the number of classes on all items, or on samples of `sample` items.

    By default more than `WHOLE_ITEMS` items are estimated on samples of `SAMPLE_ITEMS`. The other parameters are those
    of `ltgcd.class_number.estimate.estimate_k`.
    """
    x, y = np.asarray(features), np.asarray(y, dtype=np.int64)
    given: dict[str, Any] = {"n_old": n_old, "k_max": k_max, "labels_from": labels_from}
    if sample is not None and method != "peaks":
        raise InputError(f"Only 'peaks' estimates on samples, not '{method}'; leave out one of the two.")
    size = sample_size(len(y), sample) if method == "peaks" else None
    n_known = len(np.unique(y[y != UNLABELLED]))
    if size is None or not n_known:
        return estimate_k(x, y, method, **given, random_state=random_state, order=order, components=components)
    if size < (least := 4 * FEWEST * n_known):
        raise InputError(
            f"A sample of {size:,} items is too small for {n_known:,} known classes; take {least:,} items or more."
        )
    started = time.perf_counter()
    given["n_old"] = n_old = max(int(y.max()) + 1, n_old or 0)
    order = order or content_order(x, y, n_old)
    labels, found, halves = order.labels(y), list[KEstimate](), list[KEstimate]()
    rows = np.empty(0, dtype=np.int64)
    with progress("estimating on samples", 2 * SAMPLES) as advance:
        for number in reversed(range(SAMPLES)):  # the first one last: it is the one that the partition is made of
            seed = seed_after(random_state, number)
            rows = stratified_sample(labels + 1, size, seed, FEWEST).rows
            half = rows[stratified_sample(labels[rows] + 1, size // 2, seed, FEWEST).rows]
            for some, estimates in ((half, halves), (rows, found)):
                at = order.rows[some]
                estimates.append(estimate_k(x[at], y[at], **given, random_state=random_state))
                advance(1)
    together = combined(found, halves, n_old, len(y) / len(rows), len(y) if k_max is None else k_max)
    evidence = {
        **found[-1].evidence,
        **together.evidence,
        "peaks": [int(order.rows[rows[place]]) for place in found[-1].evidence.get("peaks", [])],
        "sampled": _sentence(together.evidence["sample"], len(y)),
    }
    clusters = _clusters_of_all(x, y, n_old, together.k, order.rows[rows], np.array(evidence["peaks"], dtype=np.int64))
    seconds = time.perf_counter() - started
    return dataclasses.replace(together, labels=clusters, seconds=seconds, evidence=evidence)


def sample_size(n: int, sample: int | None) -> int | None:
    """Items of each sample of n, where `sample` were asked for, or nobody asked; None for all of them at once."""
    size = sample or (SAMPLE_ITEMS if n > WHOLE_ITEMS else n)
    return size if size < n else None


def combined(found: list[KEstimate], halves: list[KEstimate], n_old: int, times: float, ceiling: int) -> KEstimate:
    """One estimate from those of several samples and of their halves.

    The numbers of novel classes are compared by their logarithms, as everywhere. Their variance, divided by the number
    of samples, and the square of what `times` as many items would change, if every doubling changed as much as the last
    one, are added to the square of half of the interval.

    Parameters
    ----------
    found, halves : list of KEstimate
        Of the samples, and of half of each.
    n_old : int
        Number of known classes.
    times : float
        How many times as many items there are as in a sample.
    ceiling : int
        The largest number of classes there can be.
    """
    novel, before = (np.log([max(each.k - n_old, LEAST) for each in several]) for several in (found, halves))
    k = int(np.clip(round(geometric_mean(np.array([float(each.k) for each in found]))), n_old, ceiling))
    spread = float(novel.std(ddof=1)) if len(found) > 1 else 0.0
    doubling = float((novel - before).mean())
    error = np.sqrt(spread**2 / len(found) + (doubling * np.log2(times)) ** 2)
    middle, bounds = np.log(max(k - n_old, LEAST)), list[float]()
    for bound, sign in (("low", -1), ("high", 1)):
        own = [np.log(max(v - n_old, LEAST)) for each in found if (v := getattr(each, bound)) is not None]
        own_reach = max(sign * (float(np.mean(own)) - float(novel.mean())), 0.0) if own else 0.0
        bounds.append(n_old + float(np.exp(middle + sign * np.hypot(own_reach, REACH * error))))
    has_interval = all(each.low is not None for each in found)
    evidence = {
        "sample": {
            "items": round(len(found[-1].labels)),
            "numbers": [each.k for each in found],
            "numbers_with_half": [each.k for each in halves],
            "spread": round(spread, 4),
            "change_by_doubling": round(doubling, 4),
            "error": round(float(error), 4),
        }
    }
    last = found[-1]
    low = int(np.clip(np.floor(bounds[0]), n_old, k)) if has_interval else None
    high = int(np.clip(np.ceil(bounds[1]), k, max(k, ceiling))) if has_interval else None
    return KEstimate(last.method, k, low, high, last.curve, last.labels, 0.0, evidence)


def _sentence(sample: dict[str, Any], n: int) -> str:
    """What was done, and what it says, for people."""
    numbers, change = sample["numbers"], sample["change_by_doubling"]
    more = f"{abs(np.expm1(change)):.0%} {'more' if change > 0 else 'fewer'}"
    which = f"found {more} novel classes than" if abs(change) >= 0.005 else "found as many novel classes as"
    return (
        f"estimated on {len(numbers)} samples of {sample['items']:,} of the {n:,} items, which gave {min(numbers):,} "
        f"to {max(numbers):,} classes; they {which} samples of half the size, and the interval is widened by both"
    )


def _clusters_of_all(
    x: NDArray[np.floating],
    y: NDArray[np.int64],
    n_old: int,
    k: int,
    rows: NDArray[np.int64],
    peaks: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Clusters of all items (N,): those of a sample's items (n,) at K, and each other item in the nearest of them."""
    whitening = fit_whitening(x[rows], y[rows], n_old)
    white = whitening.transform(x[rows])
    known, sizes = class_means(white, y[rows], n_old)
    novelty = 1.0 - most_likely(cosines(white, known[sizes > 0]))[1].astype(np.float64)
    by_row = np.argsort(rows)
    places = by_row[np.searchsorted(rows, peaks, sorter=by_row)]  # of the peaks, in the sample
    clusters = partition(white, y[rows], n_old, k, places, novelty)
    centres, sizes = class_means(white, clusters, max(k, n_old))
    codes = np.flatnonzero(sizes)
    labels = np.empty(len(y), dtype=np.int64)
    for start in range(0, len(y), ROWS):
        part = slice(start, start + ROWS)
        labels[part] = codes[nearest(whitening.transform(x[part]), normalise(centres[codes]))]
    return np.where(y == UNLABELLED, labels, y)
