"""How many classes? An estimate with an interval and its evidence, by any of several methods under one interface.

``peaks`` (the default) asks which share of D^u is of known classes (`known_share`), by items weighted so that classes
are about equally heavy (`class_mass`): what is left, divided by the mean mass of a known class, is the number of novel
classes. Draws over all that chance decided, hidden classes among it, give the interval, and their geometric mean is
the estimate (`interval`). Density peaks give the weights and the partition.
Where labels were drawn at random over the items, counts alone tell (`richness`).
``peaks-literal`` is the paper's search as printed, ``peaks-merged`` its corrected reading.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from ltgcd.class_number.class_mass import EXPONENTS, class_number, mass_table, mean_log_size
from ltgcd.class_number.evidence import NEIGHBOURS, recoded, sibling_folds, with_siblings
from ltgcd.class_number.interval import (
    beliefs,
    bootstrap,
    geometric_mean,
    measured_error,
    quantiles,
    redraw,
    widened,
)
from ltgcd.class_number.known_share import KnownShare, known_share
from ltgcd.class_number.peak_search import LITERAL, PeakConfig, density_peaks, partition, search_peaks
from ltgcd.class_number.richness import missing_share, richness
from ltgcd.class_number.rivals import ChosenPartition, evoc_layers, finch_levels, hdbscan, leiden_scan, ward_scan
from ltgcd.class_number.search import Curve, Search, labelled_accuracy, search_k
from ltgcd.common.engine.threads import numpy_in_one_thread
from ltgcd.common.errors import InputError
from ltgcd.common.tables import most_likely
from ltgcd.data.collection import UNLABELLED
from ltgcd.data.order import ContentOrder, content_order
from ltgcd.graph import kmeans
from ltgcd.graph.feature_graph import FeatureGraph, components_of
from ltgcd.graph.knn import knn_graph
from ltgcd.graph.whitening import (
    class_means,
    cosines,
    normalise,
    within_class_whitening,
    without_long_rows,
)

LabelsFrom = Literal["collection", "elsewhere", "random-items"]
LEVEL = 0.9  # nominal coverage of the interval
FEWEST_ITEMS = 20  # below it neighbours are no evidence
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)


@dataclass(frozen=True, eq=False)
class KEstimate:
    """An estimated number of classes.

    Attributes
    ----------
    method : str
        Name of the estimator.
    k : int
        The estimate.
    low, high : int or None
        Interval with a nominal coverage of 90 %; None where the method has none.
    curve : tuple of (int, float)
        Every K that was looked at, ascending, with its score: labelled ACC in percent, or the mean log-likelihood.
    labels : ndarray of int64, shape (N,)
        Clusters at `k`; those of ``peaks`` are numbered as the classes, the known ones first.
    seconds : float
        Time it took.
    evidence : dict
        What it rests on, for people and for the file that a run keeps.
    """

    method: str
    k: int
    low: int | None
    high: int | None
    curve: Curve
    labels: NDArray[np.int64]
    seconds: float
    evidence: dict[str, Any] = field(default_factory=dict)


def labels_origin(labels_from: str) -> LabelsFrom:
    """Where labels come from, as a person has typed it, or a sentence."""
    if labels_from not in get_args(LabelsFrom):
        *others, last = get_args(LabelsFrom)
        raise InputError(f"Labels come from {', '.join(others)} or {last}, not from '{labels_from}'.")
    return cast(LabelsFrom, labels_from)


@numpy_in_one_thread()
def estimate_k(
    features: NDArray[np.floating],
    y: NDArray[np.int64],
    method: str = "peaks",
    *,
    n_old: int | None = None,
    k_max: int | None = None,
    labels_from: str = "collection",
    random_state: int = 0,
    order: ContentOrder | None = None,
    components: FeatureGraph | None = None,
) -> KEstimate:
    """Estimate the number of classes in D^l ∪ D^u.

    The answer is the same for the same items, whatever the order of the rows and the numbers of the classes.

    Parameters
    ----------
    features : ndarray, shape (N, D)
        Features of all items.
    y : ndarray of int64, shape (N,)
        Labels 0 … n_old − 1, -1 for unlabelled.
    method : str
        A key of `ESTIMATORS`.
    n_old : int, optional
        Number of known classes, where some of them may have no labelled item; by default the largest label + 1.
    k_max : int, optional
        Largest K that is considered. (HDBSCAN, Leiden, FINCH and EVoC offer a few partitions: the nearest is taken.)
    labels_from : {"collection", "elsewhere", "random-items"}
        Whether the labelled items are a part of the collection (a known class then has fewer unlabelled items than a
        novel one of the same size), were gathered beside it, or were drawn from all items of the collection at random,
        novel classes being those that no draw has met. Only ``peaks`` uses it.
    random_state : int
        Seed.
    order, components : ContentOrder and FeatureGraph, optional
        The `content_order` of these rows, and `components_of` the features in it, where the caller has them already.
    """
    if method not in ESTIMATORS:
        raise InputError(f"There is no estimator '{method}'; choose one of {', '.join(ESTIMATORS)}.")
    x, y = np.asarray(features, dtype=np.float32), np.asarray(y, dtype=np.int64)
    if x.ndim != 2 or len(x) != len(y):
        raise InputError(f"There are features of shape {x.shape} for {len(y)} labels; give one row for each.")
    if y.size and y.min() < UNLABELLED:
        raise InputError(f"y holds {y.min()}; labels are 0 or more, and -1 for an unlabelled item.")
    if not np.isfinite(x).all():
        raise InputError("The features hold NaN or infinite values; remove or repair these rows.")
    if not (y != UNLABELLED).any():
        raise InputError("No item is labelled; an estimate needs labelled items of at least one class.")
    started = time.perf_counter()
    n_old = max(int(y.max()) + 1, n_old or 0)
    if n_old > len(x):
        raise InputError(f"There can't be {n_old} known classes in {len(x)} items; number the classes from 0 on.")
    if k_max is not None and k_max < n_old:
        raise InputError(f"The largest number of classes ({k_max}) must not be below the {n_old} known ones.")
    # Draws, ties and sums follow the order of the rows and classes: by content it is the same for the same items.
    order = order or content_order(x, y, n_old)
    task = _Task(x, order, order.labels(y), n_old, k_max, labels_origin(labels_from), random_state, components)
    k, low, high, curve, labels, evidence = ESTIMATORS[method](task)
    labels = order.caller_rows(labels)
    if method == "peaks":  # whose first clusters are the known classes; those of the others have no meaning
        labels = order.caller_classes(labels)
    if "peaks" in evidence:
        evidence = {**evidence, "peaks": [int(order.rows[place]) for place in evidence["peaks"]]}
    if k_max is not None and k >= k_max > n_old:
        evidence = {**evidence, "k_max_reached": True}
    seconds = time.perf_counter() - started
    return KEstimate(method, int(k), low, high, curve, labels, seconds, {"n_old": n_old, **evidence})


@dataclass(frozen=True, eq=False)
class _Task:
    """What every estimator gets; its rows and classes stand in the order of their content."""

    given: NDArray[np.float32]
    order: ContentOrder
    y: NDArray[np.int64]
    n_old: int
    k_max: int | None
    labels_from: LabelsFrom
    random_state: int
    shared: FeatureGraph | None

    @cached_property
    def x(self) -> NDArray[np.float32]:
        """Features (N, D); who has their components need not copy them."""
        return without_long_rows(self.given[self.order.rows])

    @cached_property
    def components(self) -> FeatureGraph:
        """Principal components of the features, and their neighbours."""
        return self.shared or components_of(self.x)


_Result = tuple[int, int | None, int | None, Curve, NDArray[np.int64], dict[str, Any]]


# ---------------------------------------------------------------- the default: labelled evidence and peaks


def _by_known_share(task: _Task) -> _Result:
    labelled = task.y != UNLABELLED
    if labelled.all():
        reason = "every item is labelled: nothing is left that could be novel"
        return task.n_old, task.n_old, task.n_old, ((task.n_old, 100.0),), task.y.copy(), {"fallback": reason}
    if task.labels_from == "random-items":
        return _by_richness(task)
    z = task.components.features
    if len(z) < FEWEST_ITEMS:
        return _by_peaks_alone(task, z, f"fewer than {FEWEST_ITEMS} items are too few to learn from")
    # A known class that can't show what its other items look like is one of those to be found.
    shown = with_siblings(task.y, sibling_folds(z, task.y, task.random_state))
    if len(shown) < 2:
        return _by_peaks_alone(task, z, "it takes two classes with two labelled items each to learn what is known")
    graph = task.components.nearest(NEIGHBOURS)
    y, n_shown = recoded(task.y, shown), len(shown)
    known = y != UNLABELLED
    found = known_share(z, y, graph, task.random_state)
    if task.labels_from == "elsewhere" and found.share * (~known).sum() < n_shown:
        return _by_peaks_alone(task, z, "hardly an unlabelled item is of a known class, so how large these are is open")
    log_size = mean_log_size(z, graph, max(2, n_shown // 2))
    table = mass_table(found, y[known], log_size[known], log_size[~known])
    errors = measured_error(z, y, graph, log_size, task.random_state)
    redrawn = redraw(table, task.random_state)
    drawn = {
        origin: bootstrap(table, redrawn, n_shown, inside=origin == "collection")
        for origin in ("collection", "elsewhere")
    }
    by_origin = {}
    for origin, (numbers, _) in drawn.items():
        # An error that nobody measured makes the interval wide; it is no reason for another estimate.
        likely = np.maximum(widened(numbers, errors, n_shown) if len(errors) else numbers, task.n_old)
        by_origin[origin] = geometric_mean(likely, beliefs(likely, task.n_old))
    numbers, shares = drawn[task.labels_from]
    number = by_origin[task.labels_from]
    ceiling = len(y) if task.k_max is None else task.k_max
    k = int(np.clip(round(number), task.n_old, ceiling))
    likely = np.maximum(widened(numbers, errors, n_shown), task.n_old)
    bounds = quantiles(likely, beliefs(likely, task.n_old), TAILS)
    low = int(np.clip(np.floor(bounds[0]), task.n_old, k))
    high = int(np.clip(np.ceil(bounds[1]), k, max(k, ceiling)))
    white = within_class_whitening(z, task.y, task.n_old)
    peaks, _ = density_peaks(white, graph, PeakConfig(), candidates=~labelled)
    novelty = np.zeros(len(y))
    novelty[~known] = 1.0 - found.posterior()
    silent = np.setdiff1d(task.y[labelled], shown)
    novelty = np.minimum(novelty, _distance(white, task, silent))  # near a labelled item of one nothing is novel
    labels = partition(white, task.y, task.n_old, k, peaks, novelty)
    evidence: dict[str, Any] = {
        "known_share": round(found.share, 4),
        "known_mass": round(float(np.median(shares)), 4),
        "known_mass_interval": [round(float(q), 4) for q in np.quantile(shares, TAILS)],
        "mass_exponent": round(float(table.belief @ EXPONENTS), 4),
        "spread_of_class_sizes": round(float(table.spread[0]), 4),
        "spread_of_class_masses": round(float(table.belief @ table.spread), 4),
        "error_with_half_hidden": round(float(np.sqrt((errors**2).mean())), 4) if len(errors) else None,
        "separation_auc": round(found.auc, 4),
        "labels_from": task.labels_from,
        "k_if_labels_are_from": {origin: round(number, 1) for origin, number in by_origin.items()},
        "assumption": "novel classes have on average the mass of the known ones, and are as unlike them as these are "
        "unlike each other",
        "peaks": [int(peak) for peak in peaks],
        "neighbour_recall": graph.recall,
    }
    if n_shown < task.n_old:
        evidence["known_classes_that_show_nothing"] = task.n_old - n_shown
    return k, low, high, _likelihood_curve(found, number, high, n_shown, task), labels, evidence


def _by_richness(task: _Task) -> _Result:
    """The number by the counts of the labels alone (`richness`), and a partition into as many clusters.

    Which share of the items is novel the counts say better than any likeness to classes with few labels: known classes
    are the large ones, and a large class with its labels taken away is not like the small ones that nobody has met.
    """
    counts = np.bincount(task.y[task.y != UNLABELLED])
    number, *bounds = richness(counts, LEVEL, task.random_state)
    ceiling = len(task.y) if task.k_max is None else task.k_max
    k = int(np.clip(round(number), task.n_old, ceiling))
    low = int(np.clip(np.floor(bounds[0]), task.n_old, k))
    high = int(np.clip(np.ceil(bounds[1]), k, max(k, ceiling)))
    white = within_class_whitening(task.components.features, task.y, task.n_old)
    config = PeakConfig()
    graph = knn_graph(white, max(config.k, config.k_s))
    peaks, _ = density_peaks(white, graph, config, candidates=task.y == UNLABELLED)
    novelty = _distance(white, task, np.unique(task.y[task.y != UNLABELLED]))
    labels = partition(white, task.y, task.n_old, k, peaks, novelty)
    evidence: dict[str, Any] = {
        "missing_share": round(missing_share(counts), 4),
        "classes_with_so_many_labelled_items": {str(m): int((counts == m).sum()) for m in range(1, 5)},
        "labels_from": task.labels_from,
        "assumption": "every item of the collection was as likely to be labelled as any other",
        "peaks": [int(peak) for peak in peaks],
        "neighbour_recall": graph.recall,
    }
    return k, low, high, ((k, round(labelled_accuracy(labels, task.y, balanced=True), 4)),), labels, evidence


def _by_peaks_alone(task: _Task, z: NDArray[np.float32], reason: str) -> _Result:
    """As many classes as there are density peaks after NMDS: what the paper takes for the most that there can be.

    For labels that show nothing: of one class, or one item of each. Whatever is scored on them is right for any number
    of classes.
    """
    white = within_class_whitening(z, task.y, task.n_old)
    config = PeakConfig()
    peaks, _ = density_peaks(white, knn_graph(white, max(config.k, config.k_s)), config)
    k = int(np.clip(len(peaks), task.n_old, len(white) if task.k_max is None else task.k_max))
    novelty = _distance(white, task, np.unique(task.y[task.y != UNLABELLED]))
    labels = partition(white, task.y, task.n_old, k, peaks, novelty)
    reason += "; this is the number of density peaks, which nothing calibrates, so there is no interval"
    evidence = {"peaks": [int(p) for p in peaks], "n_peaks": len(peaks), "fallback": reason}
    return k, None, None, ((k, round(labelled_accuracy(labels, task.y, balanced=True), 4)),), labels, evidence


def _distance(white: NDArray[np.float32], task: _Task, classes: NDArray[np.int64]) -> NDArray[np.float64]:
    """One minus the cosine to the nearest mean of some classes (N,); 2, the most that it can be, without a class."""
    if not len(classes):
        return np.full(len(white), 2.0)
    means = class_means(white, task.y, task.n_old)[0][classes]
    return np.asarray(1.0 - most_likely(cosines(white, means))[1], dtype=np.float64)


def _likelihood_curve(found: KnownShare, number: float, high: int, n_shown: int, task: _Task) -> Curve:
    """Mean log-likelihood of D^u for every K up to beyond the interval, at the share of items that the K stands for.

    K and α go together through the mass of a novel class: as heavy as it is at the estimate.
    """
    ks = np.unique(np.linspace(task.n_old, max(int(1.3 * high), task.n_old + 5), 80).astype(int))
    n_unlabelled, n_labelled = len(found.unlabelled), len(found.as_known)
    inside = n_labelled if task.labels_from == "collection" else 0
    # By items a known class has (inside + α n_u) / n_shown; a novel one has that, times what makes it the estimate.
    by_items = class_number(found.share, n_labelled, n_unlabelled, n_shown, inside=inside > 0)
    factor = (by_items - n_shown) / max(number - n_shown, 0.5) if by_items > n_shown else 1.0
    as_items = n_shown + (ks - n_shown) * factor
    shares = np.clip((n_shown * (n_unlabelled + inside) / as_items - inside) / n_unlabelled, 0, 1)
    ratio = np.exp(np.clip(found.unlabelled, -30, 30)) - 1
    return tuple((int(k), round(float(np.log1p(a * ratio).mean()), 6)) for k, a in zip(ks, shares, strict=True))


# ---------------------------------------------------------------- searches by a labelled objective


def _by_search(task: _Task, config: PeakConfig) -> _Result:
    literal = config == LITERAL
    unit = normalise(task.x)
    if not literal:
        unit = within_class_whitening(task.components.features, task.y, task.n_old)
    graph = knn_graph(unit, max(config.k, config.k_s))
    k, curve, labels, peaks = search_peaks(unit, task.y, task.n_old, graph, config, task.k_max)
    return k, None, None, curve, labels, {"peaks": [int(p) for p in peaks], "n_peaks": len(peaks)}


def _by_kmeans(task: _Task, *, balanced: bool = False, n_init: int = 10, upper: int, search: Search) -> _Result:
    unit = normalise(task.x)
    high = max(task.n_old, min(upper if task.k_max is None else task.k_max, len(unit)))
    fits: dict[int, KMeans] = {}

    def score(k: int) -> float:
        fits[k] = kmeans.cluster(unit, k, task.random_state, n_init)
        return labelled_accuracy(fits[k].labels_.astype(np.int64), task.y, balanced=balanced)

    k, curve = search_k(score, task.n_old, high, search)
    return k, None, None, curve, fits[k].labels_.astype(np.int64), {"evaluations": len(curve)}


def _brent_upper(task: _Task) -> int:
    return min(1000, max(task.n_old + 1, len(task.x) // 5))


def _by_rival(task: _Task, rival: Callable[..., ChosenPartition]) -> _Result:
    k, curve, labels, evidence = rival(task.x, task.y, task.n_old, task.k_max, task.random_state)
    return k, None, None, curve, labels, evidence


ESTIMATORS: dict[str, Callable[[_Task], _Result]] = {
    "peaks": _by_known_share,
    "peaks-merged": lambda task: _by_search(task, PeakConfig()),
    "peaks-literal": lambda task: _by_search(task, LITERAL),
    # Vaze et al.'s code says KMeans(K) and no more: ten starts in scikit-learn of their day, one since 1.4.
    "kmeans-brent": lambda task: _by_kmeans(task, upper=_brent_upper(task), search="bounded"),
    "kmeans-brent-1": lambda task: _by_kmeans(task, n_init=1, upper=_brent_upper(task), search="bounded"),
    "kmeans-balanced": lambda task: _by_kmeans(task, balanced=True, upper=4 * task.n_old, search="exhaustive"),
    "ward": lambda task: _by_rival(task, ward_scan),
    "leiden": lambda task: _by_rival(task, leiden_scan),
    "finch": lambda task: _by_rival(task, finch_levels),
    "evoc": lambda task: _by_rival(task, evoc_layers),
    "hdbscan": lambda task: _by_rival(task, hdbscan),
}

# How often the answers of an estimator have changed since its first figures: benches run it again then.
# That rows are now put in order before anything is drawn is like another seed for the rivals, and no revision.
REVISIONS = {"peaks": 4}
