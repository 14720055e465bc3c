"""Which unlabelled items train the next epoch: S = S_conf ∪ S_dens, and its prior (paper, Sec. 3.2; methods.md §6).

S_conf holds the items that the classifier is sure of, S_dens the density peaks that survive NMDS. Under a long tail
the first are mostly of large classes, the second should be of all. Where the paper can be read in several ways, the
reading is a field of `SelectionConfig`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.numerics import softmax
from ltgcd.common.settings import check_fields
from ltgcd.common.tables import Rows, RowTable, Table, keep_most_likely, most_likely, probabilities
from ltgcd.data.collection import UNLABELLED, imbalance_factor
from ltgcd.graph.density import density, judge_classifier
from ltgcd.graph.feature_graph import FeatureGraph
from ltgcd.graph.knn import NeighbourGraph, knn_graph
from ltgcd.graph.peaks import Overlap, PeakTest, Rule, find_peaks, iou_k, iou_threshold, nmds

DensityForm = Literal["classifier", "calibrated", "affinity"]
PriorForm = Literal["l1", "softmax", "softmax-normalised"]
Crest = Literal["off", "quota", "threshold", "threshold-scaled"]
Sets = Literal["both", "confident", "dense", "all"]
GraphOf = Literal["epoch", "start"]
THRESHOLD_FLOOR = 0.5  # of CReST's thresholds by quantile
JUDGES = 32_768  # labelled items that judge the classifier, of more: 20,000 pairs of them are looked at


@dataclass(frozen=True)
class SelectionConfig:
    """How S and the prior are made.

    Attributes
    ----------
    sets : {"both", "confident", "dense", "all"}
        S_conf ∪ S_dens, one of the two alone, or all of D^u (no selection; the prior is then over all of D^u).
    confidence : float
        ε_conf: an item is confident if its largest probability at τ_t is at least this.
    k, k_s : int
        Neighbours of the density and of IoU_k.
    density : {"calibrated", "classifier", "affinity"}
        d_i with e_ij at a temperature that labelled neighbours agree with, at τ_t as printed, or without e_ij.
    pool : {"unlabelled", "all"}
        Where neighbours come from: D^u as printed, or D^l ∪ D^u. Peaks are always taken from D^u.
    graph : {"epoch", "start"}
        Whether neighbours are those of the features as an epoch leaves them, as printed, or those of the features
        before training, found once: where only a small adapter is trained, looking for them again takes longer than
        the epoch.
    peak_test : {"strict", "ge"}
        See `ltgcd.graph.peaks.find_peaks`.
    suppress : bool
        Whether NMDS is applied.
    rule, overlap, lam
        Of NMDS, see `ltgcd.graph.peaks.nmds`. They are not those of the estimate of K: training wants many peaks.
    crest, crest_alpha
        CReST's rule for S_conf, by pseudo class, and its α: `crest_confident`.
    floor : float
        Share of D^u below which S is filled up with the most confident items that are left.
    prior : {"l1", "softmax", "softmax-normalised"}
        Counts of S over their sum; softmax of the counts, as printed; softmax of counts over their sum.
    smoothing : float
        Added to every class's count ("l1" only).
    """

    sets: Sets = "both"
    confidence: float = 0.8
    k: int = 10
    k_s: int = 30
    density: DensityForm = "calibrated"
    pool: Literal["unlabelled", "all"] = "unlabelled"
    graph: GraphOf = "epoch"
    peak_test: PeakTest = "strict"
    suppress: bool = True
    rule: Rule = "greedy"
    overlap: Overlap = "jaccard-distance"
    lam: float = 0.8
    crest: Crest = "off"
    crest_alpha: float = 1 / 3
    floor: float = 0.1
    prior: PriorForm = "l1"
    smoothing: float = 1.0

    def __post_init__(self) -> None:
        check_fields(
            self,
            "the selection",
            confidence=(0, 1),
            lam=(0, 1),
            floor=(0, 1),
            k=(1, np.inf),
            k_s=(1, np.inf),
            crest_alpha=(0, np.inf),
            smoothing=(0, np.inf),
        )


LITERAL = SelectionConfig(
    density="classifier", peak_test="ge", rule="literal", overlap="iou", floor=0.0, prior="softmax", smoothing=0.0
)


class Graphs(NamedTuple):
    """Neighbours that the density needs: those of the pool, and those of D^l among itself.

    Labelled neighbours judge the classifier; the graph of D^u has none, so they get one of their own, where the density
    is calibrated and anything is labelled. `judges` are its rows: all of D^l, or `JUDGES` of them.
    """

    pool: NeighbourGraph
    labelled: NeighbourGraph | None
    judges: NDArray[np.int64]


class UsedDensity(NamedTuple):
    """Form of a density, temperature of its classifier, and why they are not those that the classifier came with."""

    form: str
    temperature: float
    why: str = ""


@dataclass(frozen=True, eq=False)
class Selection:
    """The selection of an epoch.

    Attributes
    ----------
    selected, confident, dense : ndarray of bool, shape (N,)
        S, S_conf and S_dens over all items; False on D^l.
    pseudo : ndarray of int64, shape (N,)
        argmax p of every item.
    prior : ndarray of float64, shape (K,)
        p_prior.
    density : str
        Form of the density that was used; "none" where S_dens is not asked for.
    why : str
        Why it is another than the classifier's own, in a sentence; empty where it is that or what was asked for.
    """

    selected: NDArray[np.bool_]
    confident: NDArray[np.bool_]
    dense: NDArray[np.bool_]
    pseudo: NDArray[np.int64]
    prior: NDArray[np.float64]
    density: str
    why: str = ""

    def imbalance(self, classes: NDArray[np.int64]) -> dict[str, float]:
        """λ of S_conf, S_dens and S under some classes (N,): the pseudo ones or, in evaluation, the true ones.

        Classes that a set lacks do not count, nor do items of class -1 (not known); 1 for an empty set.
        """
        known = classes >= 0
        return {name: imbalance_factor(np.bincount(classes[mask & known])) for name, mask in self.sets().items()}

    def sets(self) -> dict[str, NDArray[np.bool_]]:
        """The masks of S_conf, S_dens and S by name."""
        return {"confident": self.confident, "dense": self.dense, "selected": self.selected}

    def summary(self) -> dict[str, float | int | str]:
        """Sizes, and numbers of classes and λ with pseudo labels, for the line of the epoch.

        λ is over the classes that occur, so it says little without their number: a set of one class has λ = 1.
        """
        names = ("confident", "dense", "selected")
        sizes = {f"n_{name}": int(getattr(self, name).sum()) for name in names}
        classes = {f"classes_{name}": len(np.unique(self.pseudo[getattr(self, name)])) for name in names}
        imbalance = {f"lambda_{name}": round(value, 2) for name, value in self.imbalance(self.pseudo).items()}
        return {**sizes, **classes, **imbalance, "density": self.density, "density_why": self.why}


# ---------------------------------------------------------------- the parts


def select(
    features: NDArray[np.floating],
    logits: Table,
    y: NDArray[np.int64],
    temperature: float,
    config: SelectionConfig,
    graphs: Graphs | None = None,
) -> Selection:
    """Eq. 6 and 8: select S = S_conf ∪ S_dens from D^u.

    Parameters
    ----------
    features : ndarray, shape (N, D)
        h of D^l ∪ D^u, test view.
    logits : array or RowTable, shape (N, K)
        Cosines to the prototypes.
    y : ndarray of int64, shape (N,)
        Labels, -1 for D^u.
    temperature : float
        τ_t at which p is taken.
    config : SelectionConfig
        The reading.
    graphs : Graphs, optional
        `neighbour_graphs` of other features of the same items; by default those of `features` are made.
    """
    unlabelled = y == UNLABELLED
    n_classes = logits.shape[1]
    pseudo, sure = most_likely(probabilities(logits, temperature))
    confident = unlabelled & (sure >= config.confidence)
    if config.crest != "off":
        confident = crest_confident(sure, pseudo, unlabelled, n_classes, config)
    dense, used = np.zeros(len(y), dtype=bool), UsedDensity("none", temperature)
    if config.sets in ("both", "dense") and unlabelled.any():
        graphs = graphs or neighbour_graphs(FeatureGraph(features), y, config)
        dense, used = dense_items(graphs, logits, y, temperature, config)
    chosen = {"both": confident | dense, "confident": confident, "dense": dense, "all": unlabelled}[config.sets]
    chosen = _filled(chosen, sure, unlabelled, config.floor)
    counts = np.bincount(pseudo[chosen], minlength=n_classes)
    return Selection(chosen, confident, dense, pseudo, prior(counts, config), used.form, used.why)


def neighbour_graphs(whole: FeatureGraph, y: NDArray[np.int64], config: SelectionConfig) -> Graphs:
    """The graphs that S_dens is found on, of features (N, D) and labels (N,).

    Neighbours among D^u alone are not in the graph of all items (most neighbours of an item may be labelled), so they
    are searched for themselves; where the pool is all items, the shared graph serves.
    """
    labelled, unlabelled = np.flatnonzero(y != UNLABELLED), np.flatnonzero(y == UNLABELLED)
    k = max(config.k, config.k_s)
    pool = whole.nearest(k) if config.pool == "all" else knn_graph(whole.features[unlabelled], k)
    judges = labelled
    if len(labelled) > JUDGES:
        judges = np.sort(np.random.RandomState(0).permutation(labelled)[:JUDGES])
    judging = config.density == "calibrated" and len(labelled) > 0
    return Graphs(pool, knn_graph(whole.features[judges], config.k) if judging else None, judges)


def _pool(y: NDArray[np.int64], config: SelectionConfig) -> NDArray[np.int64]:
    return np.flatnonzero(y == UNLABELLED) if config.pool == "unlabelled" else np.arange(len(y))


def dense_items(
    graphs: Graphs,
    logits: Table,
    y: NDArray[np.int64],
    temperature: float,
    config: SelectionConfig,
) -> tuple[NDArray[np.bool_], UsedDensity]:
    """S_dens as a mask (N,), and the density that it was found with."""
    unlabelled = y == UNLABELLED
    rows, graph = _pool(y, config), graphs.pool
    used = UsedDensity(config.density, temperature)
    if config.density == "calibrated":
        used = calibrated(graphs, logits, y, temperature, config.k)
    if used.form == "affinity":
        d = density(graph, None, config.k)
    else:
        own = temperature if used.form == "classifier" else used.temperature
        d = density(graph, keep_most_likely(probabilities(logits, own), rows), config.k)
    peaks = find_peaks(d, graph, config.k, config.peak_test, unlabelled[rows])
    if config.suppress and len(peaks):
        overlaps = iou_k(graph, peaks, config.k_s, iou_threshold(config.lam, config.overlap))
        peaks = nmds(peaks, d, overlaps, config.lam, config.rule, config.overlap)
    dense = np.zeros(len(y), dtype=bool)
    dense[rows[peaks]] = True
    return dense, used


def calibrated(graphs: Graphs, logits: Table, y: NDArray[np.int64], temperature: float, k: int) -> UsedDensity:
    """The density that labelled neighbours agree with."""
    if graphs.labelled is None:
        return UsedDensity("affinity", temperature, "the density uses the mean cosine alone: no item is labelled")
    judges = graphs.judges

    def judged(rows: Rows) -> NDArray[np.floating]:
        return np.asarray(logits[judges[rows]] / temperature)

    report = judge_classifier(graphs.labelled, RowTable((len(judges), logits.shape[1]), judged), y[judges], k)
    why = "" if report.form == "classifier" else report.sentence
    return UsedDensity(report.form, temperature * report.temperature, why)


def crest_confident(
    sure: NDArray[np.floating],
    pseudo: NDArray[np.int64],
    candidates: NDArray[np.bool_],
    n_classes: int,
    config: SelectionConfig,
) -> NDArray[np.bool_]:
    """S_conf by a rule of CReST's (docs/methods.md §7.2): the rarer a pseudo class, the more of it is taken.

    μ_c = (N_{L+1−r} / N_1)^α for the class of rank r by falling count (equal counts by class number), so the rarest is
    taken whole. ``quota``: the top ⌈μ_c n_c⌉ of the n_c items with p ≥ ε_conf, equal ones by index. ``threshold``: all
    items whose p is at least the (1−μ_c)-quantile of their class, that is the ⌈μ_c N_c⌉-th largest, and at least 1/2.
    ``threshold-scaled``: p ≥ ε_conf (N_c/N_1)^α.

    Parameters
    ----------
    sure, pseudo : ndarray, shape (N,)
        Largest probability and its class.
    candidates : ndarray of bool, shape (N,)
        D^u; counts N_c are of its pseudo labels.
    n_classes : int
        K.
    config : SelectionConfig
        Which rule, α and ε_conf.

    Returns
    -------
    ndarray of bool, shape (N,)
        Candidates that are taken.
    """
    counts = np.bincount(pseudo[candidates], minlength=n_classes)
    falling = np.argsort(-counts, kind="stable")
    share = np.ones(n_classes)
    if counts.max(initial=0):
        # Classes that nothing is assigned to would make the head's share zero: the smallest that occurs is the tail.
        present = falling[counts[falling] > 0]
        share[present] = (counts[present[::-1]] / counts.max()) ** config.crest_alpha
    mu = share[pseudo]
    if config.crest == "threshold-scaled":
        least = config.confidence * (counts[pseudo] / max(counts.max(), 1)) ** config.crest_alpha
        return np.asarray(candidates & (sure >= least))
    pool = candidates & (sure >= config.confidence) if config.crest == "quota" else candidates
    # Rank by falling confidence inside each pseudo class, without a loop over classes.
    rows = np.flatnonzero(pool)
    order = rows[np.lexsort((rows, -sure[rows], pseudo[rows]))]
    sizes = np.bincount(pseudo[order], minlength=n_classes)
    rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    quota = np.ceil(mu[order] * sizes[pseudo[order]] - 1e-9)
    if config.crest == "threshold":
        # Equal confidences are on the same side of a threshold, whatever their ranks.
        last = rank + 1 == quota
        least = np.full(n_classes, np.inf)
        least[pseudo[order[last]]] = sure[order[last]]
        return np.asarray(candidates & (sure >= np.maximum(least, THRESHOLD_FLOOR)[pseudo]))
    taken = np.zeros(len(sure), dtype=bool)
    taken[order[rank < quota]] = True
    return taken


def _filled(
    chosen: NDArray[np.bool_], sure: NDArray[np.floating], unlabelled: NDArray[np.bool_], floor: float
) -> NDArray[np.bool_]:
    """The chosen, and as many of the most confident others as the floor asks for."""
    missing = int(np.ceil(floor * unlabelled.sum() - 1e-9)) - int(chosen.sum())
    if missing <= 0:
        return chosen
    left = np.flatnonzero(unlabelled & ~chosen)
    filled = chosen.copy()
    filled[left[np.argsort(-sure[left], kind="stable")[:missing]]] = True
    return filled


def prior(counts: NDArray[np.int64], config: SelectionConfig) -> NDArray[np.float64]:
    """Eq. 9: p_prior (K,) from the counts of S by pseudo class, as the configuration reads it; uniform without S."""
    total = counts.sum()
    if total == 0:
        return np.full(len(counts), 1 / len(counts))
    if config.prior == "l1":
        smoothed = counts + config.smoothing
        return np.asarray(smoothed / smoothed.sum(), dtype=np.float64)
    logits = counts / (total if config.prior == "softmax-normalised" else 1)
    return np.asarray(softmax(logits[None])[0], dtype=np.float64)
