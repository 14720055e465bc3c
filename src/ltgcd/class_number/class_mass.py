"""From a share of items to a number of classes: what is novel, divided by the mean mass of a known class.

The items that are left when the known ones are taken away make N_novel / (mean size of a known class) novel classes.
With class sizes from 9 to 1979 that mean says little about the next few classes. Clusters know a little more: an item
in a large cluster is probably one of many of its class. Density peaks, merged step by step, show the size of the
cluster around each item at every granularity; its geometric mean is s_i. With the weight w_i = s_i^−γ classes come
closer to the same mass, and mass counts classes: γ = 0 counts items, γ = 1 counts clusters.

No γ is chosen. Each is believed as far as it makes the masses of the labelled classes alike, and the class number is
the mean over all of them. The clusters are found without labels: known and novel classes are treated alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage

from ltgcd.class_number.known_share import KnownShare, mixture_shares
from ltgcd.class_number.peak_search import MAX_PEAKS, nearest
from ltgcd.common.logistic import platt_scalings
from ltgcd.common.progress import progress
from ltgcd.graph.density import density
from ltgcd.graph.knn import NeighbourGraph
from ltgcd.graph.peaks import find_peaks
from ltgcd.graph.whitening import normalise

PEAK_NEIGHBOURS = 5  # fewer than the paper's 10: small classes shall have a peak of their own
CUTS = 10  # granularities, from half of |Y_l| clusters to all peaks
EXPONENTS = np.linspace(0, 1.5, 7)
BINS = 300


@dataclass(frozen=True, eq=False)
class MassTable:
    """Log-odds of "known" in B bins and masses under G exponents: all that counting and its bootstrap need.

    Attributes
    ----------
    centres : ndarray, shape (B,)
        Log-odds of the bins.
    items : ndarray, shape (B,)
        Unlabelled items in each bin.
    per_item : ndarray, shape (G, B)
        Mean weight of an unlabelled item of the bin.
    known, novel : ndarray, shape (G, C, B)
        Mass of each labelled class in each bin, as it is and with the class hidden.
    spread : ndarray, shape (G,)
        Squared coefficient of variation of the masses of the labelled classes.
    belief : ndarray, shape (G,)
        How plausible each exponent is; they sum to 1.
    """

    centres: NDArray[np.float64]
    items: NDArray[np.float64]
    per_item: NDArray[np.float64]
    known: NDArray[np.float32]
    novel: NDArray[np.float32]
    spread: NDArray[np.float64]
    belief: NDArray[np.float64]


def mean_log_size(z: NDArray[np.float32], graph: NeighbourGraph, coarsest: int) -> NDArray[np.float64]:
    """Mean log-size (N,) of the clusters around each item, over `CUTS` granularities of merged density peaks.

    Parameters
    ----------
    z : ndarray, shape (N, d)
        Features, whitened or transformed by no label.
    graph : NeighbourGraph
        Nearest neighbours of the rows of `z`.
    coarsest : int
        Number of clusters at the coarsest granularity.
    """
    unit = normalise(z)
    d = density(graph, k=PEAK_NEIGHBOURS)
    peaks = find_peaks(d, graph, PEAK_NEIGHBOURS)
    peaks = peaks[np.argsort(-d[peaks], kind="stable")][:MAX_PEAKS]
    peaks = peaks[np.any(unit[peaks] != 0, axis=1)]  # a row of zeros has no direction
    if len(peaks) < 2:
        return np.full(len(z), np.log(len(z)))
    own = nearest(unit, unit[peaks])
    numbers = np.unique(np.geomspace(min(coarsest, len(peaks)), len(peaks), CUTS).astype(int))
    total = np.zeros(len(z))
    with progress("merging density peaks", len(numbers)) as advance:
        tree = linkage(unit[peaks].astype(np.float64), "average", metric="cosine")
        for number in numbers:  # not cut_tree for all at once: it takes the cut with every peak for itself for one
            of_item = fcluster(tree, number, "maxclust")[own]
            total += np.log(np.bincount(of_item)[of_item])
            advance(1)
    return total / len(numbers)


def mass_table(
    found: KnownShare, classes: NDArray[np.int64], labelled: NDArray[np.float64], unlabelled: NDArray[np.float64]
) -> MassTable:
    """Masses in bins of log-odds, for every exponent.

    Parameters
    ----------
    found : KnownShare
        Log-odds of the labelled and the unlabelled items.
    classes : ndarray of int64, shape (|D^l|,)
        Class of each labelled item.
    labelled, unlabelled : ndarray, shapes (|D^l|,) and (|D^u|,)
        Mean log-size of the clusters around the items.
    """
    odds = np.concatenate([found.unlabelled, found.as_known, found.as_novel])
    centres = np.unique(np.quantile(odds, np.linspace(0, 1, BINS)))
    edges = (centres[1:] + centres[:-1]) / 2
    place = np.searchsorted(edges, odds)
    n_u, n_l, b = len(unlabelled), len(labelled), len(centres)
    outside, inside, hidden = np.split(place, [n_u, n_u + n_l])
    log_size = np.concatenate([labelled, unlabelled])
    weights = np.exp(-EXPONENTS[:, None] * (log_size - log_size.mean()))
    weights /= weights.mean(axis=1, keepdims=True)
    items = np.bincount(outside, minlength=b).astype(np.float64)
    per_item = np.stack([np.bincount(outside, w, minlength=b) for w in weights[:, n_l:]]) / np.maximum(items, 1)
    known, novel = np.zeros((2, len(EXPONENTS), int(classes.max()) + 1, b), dtype=np.float32)
    for g, w in enumerate(weights[:, :n_l]):
        np.add.at(known[g], (classes, inside), w)
        np.add.at(novel[g], (classes, hidden), w)
    mass = known.sum(axis=2, dtype=np.float64)[:, np.unique(classes)]
    spread = mass.var(axis=1, ddof=1) / mass.mean(axis=1) ** 2
    return MassTable(centres, items, per_item, known, novel, spread, believe(spread, mass.shape[1]))


def believe(spread: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
    """Plausibility of each exponent: the likelihood of n normal masses of one mean is as (their variance)^−(n−1)/2."""
    log_likelihood = -(n_classes - 1) / 2 * np.log(spread + 1e-12)
    likelihood = np.exp(log_likelihood - log_likelihood.max())
    return np.asarray(likelihood / likelihood.sum(), dtype=np.float64)


def mass_share(
    table: MassTable, g: int, times: NDArray[np.float64] | None = None, items: NDArray[np.float64] | None = None
) -> tuple[float, NDArray[np.float64]]:
    """Known share of the mass of D^u under exponent number g, and the log-odds (B,) of the bins calibrated for it."""
    times = np.ones(table.known.shape[1]) if times is None else times
    shares, odds = mass_shares(table, g, times[None], (table.items if items is None else items)[None])
    return float(shares[0]), odds[0]


def mass_shares(
    table: MassTable, g: int, times: NDArray[np.float64], items: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The `mass_share` (m,) and the log-odds (m, B) in each of m draws of a bootstrap, side by side.

    `times` (m, C) says how often each labelled class counts, `items` (m, B) how many unlabelled ones are in each bin.
    The log-odds are calibrated again, since densities under weights are not those of the items.
    """
    weights = np.concatenate([times @ table.known[g], times @ table.novel[g]], axis=1)
    target = np.repeat([1, 0], len(table.centres))
    slope, offset = platt_scalings(np.tile(table.centres, 2), target, weights).T[:, :, None]
    odds = slope * table.centres + offset
    return mixture_shares(odds, items * table.per_item[g]), odds


def class_number(
    share: float, labelled: float, unlabelled: float, n_old: int, *, inside: bool, spread: float = 0.0
) -> float:
    """K = |Y_l| + mass of what is novel / mean mass of a known class.

    With labels out of the collection a known class has its labelled items too: its mean mass is
    (M^l + α M^u) / |Y_l|. With labels from elsewhere it is α M^u / |Y_l|.

    Parameters
    ----------
    share : float
        α, the known share of the mass of D^u.
    labelled, unlabelled : float
        M^l and M^u, the masses of D^l and of D^u; numbers of items where every item counts 1.
    n_old : int
        |Y_l|.
    inside : bool
        Whether the labelled items are a part of the collection.
    spread : float
        Squared coefficient of variation of the class masses. One over a mean of n is too large by spread / n.
    """
    known = share * unlabelled + (labelled if inside else 0.0)
    return n_old + n_old * (1 - share) * unlabelled / max(known, 1.0) / (1 + spread / n_old)


def class_numbers(table: MassTable, n_old: int, *, inside: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """K under each exponent (G,), and the known share of the mass (G,)."""
    shares = np.array([mass_share(table, g)[0] for g in range(len(EXPONENTS))])
    labelled, unlabelled = table.known.sum(axis=(1, 2)), table.per_item @ table.items
    numbers = [
        class_number(a, float(m), float(u), n_old, inside=inside, spread=float(c))
        for a, m, u, c in zip(shares, labelled, unlabelled, table.spread, strict=True)
    ]
    return np.array(numbers), shares


def expected_number(table: MassTable, numbers: NDArray[np.float64]) -> float:
    """The geometric mean of the class numbers under the exponents, each as plausible as it is."""
    return float(np.exp(table.belief @ np.log(numbers)))
