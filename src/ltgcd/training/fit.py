"""Build, train and keep a model: features in, probabilities of every class out, for these items and for new ones."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli_w
import torch
from numpy.typing import NDArray
from torch import nn

from ltgcd.common.errors import InputError
from ltgcd.common.files import atomic_path
from ltgcd.data.collection import UNLABELLED
from ltgcd.features.backbones.embeddings import ResidualAdapter
from ltgcd.features.views import CachedViews, VectorViews, Views
from ltgcd.graph.communities import starting_clusters
from ltgcd.graph.density import softmax
from ltgcd.graph.knn import knn_graph
from ltgcd.graph.whitening import Whitening, class_means, fit_whitening, normalise
from ltgcd.training.calibration import SURE, Calibration
from ltgcd.training.checkpoints import read_tensors, write_tensors
from ltgcd.training.config import Experiment, Regime
from ltgcd.training.distributed import World
from ltgcd.training.heads import CLASSIFIERS, Classifier, Head, LinearHead
from ltgcd.training.loop import Method, Model, Snapshot, Watch, check_schedule, fit, predict, unwatched
from ltgcd.training.losses import TAU_STUDENT
from ltgcd.training.methods import gcd
from ltgcd.training.methods.gcd import GCD, ContrastiveHead, GCDConfig
from ltgcd.training.methods.ltgcd import LTGCD, LTGCDConfig
from ltgcd.training.methods.orca import ORCA, ORCAConfig
from ltgcd.training.methods.rankstats import RankStats, RankStatsConfig
from ltgcd.training.methods.simgcd import SimGCD
from ltgcd.training.methods.uno import UNO, UNOConfig, UNOHead
from ltgcd.training.smoothing import adjusted, class_prior, smoothed

HELD_OUT_LEAST = 3  # labelled items of a class that are never held out


class Task(NamedTuple):
    """A problem for a trained method.

    Attributes
    ----------
    x : ndarray of float32, shape (N, D)
        Features of the test view, before any training.
    y : ndarray of int64, shape (N,)
        Labels, -1 for unlabelled.
    n_old, k : int
        Number of known classes and of all classes.
    random_state : int
        Seed.
    views : CachedViews or None
        Cached activations and views of the same items, for the last-stage regime.
    tail : torch.nn.Module or None
        The last stage that they go into, with the pretrained weights.
    """

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    n_old: int
    k: int
    random_state: int = 0
    views: CachedViews | None = None
    tail: nn.Module | None = None


class Standardise(nn.Module):
    """Whitening and scaling as a fixed layer: rows of length √d.

    Attributes
    ----------
    mean, matrix : torch.Tensor, shapes (D,) and (D, d)
        Of the whitening; without one, zero and nothing.
    """

    def __init__(self, dim: int, out: int, *, whiten: bool) -> None:
        super().__init__()
        self.out = out
        self.whiten = whiten
        if whiten:
            self.register_buffer("mean", torch.zeros(dim))
            self.register_buffer("matrix", torch.zeros(dim, out))

    def load(self, whitening: Whitening) -> None:
        """Take over a fitted whitening."""
        self.mean = torch.from_numpy(whitening.mean)
        self.matrix = torch.from_numpy(whitening.matrix)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Map (B, D) to (B, d)."""
        if self.whiten:
            features = (features - self.mean) @ self.matrix
        scaled: torch.Tensor = nn.functional.normalize(features, dim=1) * self.out**0.5
        return scaled


@dataclass(eq=False)
class FittedModel:
    """A trained model that can label new items.

    Attributes
    ----------
    model : Model
        Standardisation, tail and head.
    n_old, k : int
        Number of known classes and of all classes.
    prior : ndarray, shape (K,)
        Mean prediction on D^u, for the logit adjustment.
    sizes : ndarray of int64, shape (K,)
        Items of D^u in each class; for one that an update appended, the items that it was appended with.
    adjustment : float
        Its strength.
    temperature : float
        That logits are divided by: 0.1 for cosines.
    calibration : Calibration or None
        Of the confidence in new items, where it was rehearsed (`ltgcd.discovery.rehearsal`).
    """

    model: Model
    n_old: int
    k: int
    prior: NDArray[np.float64]
    sizes: NDArray[np.int64]
    adjustment: float = 0.0
    temperature: float = TAU_STUDENT
    calibration: Calibration | None = None

    def judged(
        self, confidence: NDArray[np.float32], labels: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Probability that each label (n,) is right, and whether it is unsure; as it is without a calibration."""
        if not self.calibration:
            return confidence, np.zeros(len(labels), dtype=np.bool_)
        p = self.calibration.apply(confidence, labels >= self.n_old, self.sizes[labels])
        return p, p < SURE

    @property
    def regime(self) -> Regime:
        """Whether vectors go in, or cached activations of images."""
        assert isinstance(self.model.tail, nn.Sequential)
        return "frozen" if isinstance(self.model.tail[0], Standardise) else "last-stage"

    def probabilities(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Class probabilities (n, K) of items with these logits."""
        return adjusted(softmax(logits, self.temperature), self.prior, self.adjustment)

    def predict(self, views: Views) -> NDArray[np.float32]:
        """Class probabilities of new items in their test view."""
        _, outputs = predict(self.model, views, np.arange(len(views)), torch.device("cpu"))
        return self.probabilities(outputs["logits"].numpy())

    def save(self, folder: Path, note: dict[str, Any]) -> None:
        """Write ``model.safetensors`` and ``model.toml`` (last), with a note of the caller's: class names, backbone."""
        classes = {"prior": torch.from_numpy(self.prior), "sizes": torch.from_numpy(self.sizes)}
        write_tensors(folder / "model.safetensors", {**self.model.state_dict(), **classes}, {})
        description = {
            "n_old": self.n_old,
            "k": self.k,
            "adjustment": self.adjustment,
            "temperature": self.temperature,
            "regime": self.regime,
            "head": next(name for name, kind in CLASSIFIERS.items() if isinstance(self.model.head, kind)),
            "note": note,
        }
        if self.calibration:
            description["calibration"] = asdict(self.calibration)
        with atomic_path(folder / "model.toml") as temporary:
            temporary.write_text(tomli_w.dumps(description), encoding="utf-8")

    @staticmethod
    def load(folder: Path, tail: Callable[[dict[str, Any]], nn.Module]) -> tuple[FittedModel, dict[str, Any]]:
        """Read what `save` wrote; `tail` makes the last stage from the note, where one was trained."""
        path = folder / "model.toml"
        try:
            described = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise InputError(f"{folder} holds no trained model; give the --out of a finished 'ltgcd train'.") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path} is damaged; train again in a new folder.") from error
        tensors, _ = read_tensors(folder / "model.safetensors")
        if "calibration" in described and "sizes" not in tensors:
            raise InputError(f"{folder} was made by an earlier version of ltgcd; run it again in a new folder.")
        prior = tensors.pop("prior").numpy()
        sizes = tensors.pop("sizes", torch.zeros(len(prior), dtype=torch.int64)).numpy()  # a calibration's alone
        frozen = described["regime"] == "frozen"
        at = "tail.0." if frozen else "tail.1."
        kind = CLASSIFIERS.get(described.get("head", "prototypes"))
        if kind is None:
            raise InputError(f"{path} is of a kind that this version does not know; install the one it was made with.")
        head = kind.like({name.removeprefix("head."): t for name, t in tensors.items() if name.startswith("head.")})
        out = head.dim
        whiten = f"{at}matrix" in tensors
        fixed = Standardise(len(tensors[f"{at}mean"]) if whiten else out, out, whiten=whiten)
        last = None if frozen else tail(described["note"])
        layers = nn.Sequential(fixed, ResidualAdapter(out)) if last is None else nn.Sequential(last, fixed)
        model = Model(layers, head)
        model.load_state_dict(tensors)
        numbers = {name: described[name] for name in ("n_old", "k", "adjustment", "temperature")}
        calibration = Calibration.read(described["calibration"]) if "calibration" in described else None
        fitted = FittedModel(model.eval(), prior=prior, sizes=sizes, calibration=calibration, **numbers)
        return fitted, described["note"]


class Fit(NamedTuple):
    """A fitted model and what it says about the items it was fitted on.

    Attributes
    ----------
    fitted : FittedModel
        For new items too.
    features : ndarray, shape (N, D)
        Of the test views.
    probabilities : ndarray, shape (N, K)
        Smoothed over neighbours, where the experiment says so.
    alone : ndarray, shape (N, K)
        What `fitted` says about each item by itself, as it would about a new one.
    """

    fitted: FittedModel
    features: NDArray[np.float32]
    probabilities: NDArray[np.float32]
    alone: NDArray[np.float32]


# ---------------------------------------------------------------- fitting


def fit_model(
    task: Task,
    experiment: Experiment,
    *,
    folder: Path | None = None,
    record: Callable[[dict[str, Any]], None] = lambda _line: None,
    watch: Watch = unwatched,
    notify: Callable[[str], None] = lambda _message: None,
    world: World | None = None,
) -> Fit:
    """Train a method on a task; see `ltgcd.training.loop.fit` for the keywords."""
    world = world or World()
    check_experiment(experiment, world.size, keeps=folder is not None)
    y, held_out = hold_out(task.y, experiment.held_out, task.random_state)
    # Everything that is drawn or estimated before training comes from one process, to be the same in all.
    whitening = world.from_first(lambda: fit_whitening(task.x, y, task.n_old)) if experiment.whiten else None
    white = whitening.transform(task.x) if whitening else normalise(task.x)
    clusters = world.from_first(
        lambda: starting_clusters(white, y, task.n_old, task.k, experiment.start, task.random_state)
    )
    torch.manual_seed(task.random_state)
    fixed = Standardise(task.x.shape[1], white.shape[1], whiten=experiment.whiten)
    if whitening:
        fixed.load(whitening)
    head, method = make_method(task._replace(y=y), experiment, white)
    if clusters is not None and isinstance(head, Head):
        head.prototypes.start_from(class_means(white, clusters, task.k)[0])
    views: Views
    if task.views is not None and task.tail is not None:
        model = Model(nn.Sequential(copy.deepcopy(task.tail), fixed), head)  # the caller's stays as it is
        trained, views = model, task.views
    else:
        # The fixed layer is applied once and not in every step.
        adapter = ResidualAdapter(white.shape[1])
        model = Model(nn.Sequential(fixed, adapter), head)
        trained = Model(adapter, head)
        views = VectorViews(white * np.float32(np.sqrt(white.shape[1])), experiment.dropout)
    snapshot = fit(
        trained,
        method,
        views,
        y,
        experiment.schedule,
        random_state=task.random_state,
        folder=folder,
        held_out=held_out,
        record=record,
        watch=watch,
        notify=notify,
        world=world,
    )
    model.cpu().eval()
    # GCD clusters only now, and in one process, to have the same centres in all.
    model.head = classifier = world.from_first(lambda: make_classifier(head, snapshot, task._replace(y=y), experiment))
    p = alone = softmax(_logits(classifier, snapshot), classifier.temperature)
    if experiment.smoothing:
        p = smoothed(p, knn_graph(snapshot.features, 10), y, experiment.smoothing)
    prior = class_prior(p[y == UNLABELLED])
    p = adjusted(p, prior, experiment.adjustment)
    sizes = np.bincount(p[y == UNLABELLED].argmax(axis=1), minlength=task.k)
    order = by_size(sizes, task.n_old)
    classifier.reorder(torch.from_numpy(order))
    p = p[:, order]
    fitted = FittedModel(
        model, task.n_old, task.k, prior[order], sizes[order], experiment.adjustment, classifier.temperature
    )
    alone = adjusted(alone, prior, experiment.adjustment)[:, order]
    return Fit(fitted, snapshot.features, p, alone)


def by_size(sizes: NDArray[np.int64], n_old: int) -> NDArray[np.int64]:
    """Order of classes of these sizes (K,): the known ones as they are, then the novel ones by falling size."""
    return np.concatenate([np.arange(n_old), n_old + np.argsort(-sizes[n_old:], kind="stable")])


def make_method(task: Task, experiment: Experiment, white: NDArray[np.float32]) -> tuple[nn.Module, Method]:
    """The method that a configuration is of, and the head that it trains on features like these (N, d)."""
    config, dim, y = experiment.method, white.shape[1], task.y
    if isinstance(config, GCDConfig):
        return ContrastiveHead(dim, config.width), GCD(y, config)
    if isinstance(config, RankStatsConfig):
        return LinearHead(dim, task.k), RankStats(y, config, task.n_old)
    if isinstance(config, UNOConfig):
        heads = UNOHead(dim, task.n_old, task.k, config)
        return heads, UNO(y, config, heads, task.n_old, task.k)
    if isinstance(config, ORCAConfig):
        return Head(dim, task.k, contrastive=False), ORCA(y, config, task.random_state)
    if isinstance(config, LTGCDConfig):
        head = Head(dim, task.k, contrastive=config.base.contrastive)
        return head, LTGCD(y, config, white, task.random_state)
    return Head(dim, task.k, contrastive=config.contrastive), SimGCD(y, config)


def make_classifier(head: nn.Module, snapshot: Snapshot, task: Task, experiment: Experiment) -> Classifier:
    """What labels items in the end: the trained head; the best of UNO's; for GCD the centres of its features."""
    if isinstance(experiment.method, GCDConfig):
        return gcd.cluster(snapshot.features, task.y, task.n_old, task.k, experiment.method, task.random_state)
    if isinstance(head, UNOHead):
        return head.best()
    assert isinstance(head, Classifier)
    return head


def _logits(classifier: Classifier, snapshot: Snapshot) -> NDArray[np.float32]:
    """What the classifier says about the items of the snapshot; most say it there already."""
    if "logits" in snapshot.outputs:
        return snapshot.outputs["logits"]
    with torch.no_grad():
        logits: NDArray[np.float32] = classifier(torch.from_numpy(snapshot.features))["logits"].numpy()
    return logits


def check_experiment(experiment: Experiment, n_processes: int = 1, *, keeps: bool) -> None:
    """Refuse settings that don't go together, before anything is computed or written.

    Parameters
    ----------
    experiment : Experiment
        Each setting is in its range already.
    n_processes : int
        How many train together.
    keeps : bool
        Whether checkpoints are kept.
    """
    if experiment.start != "random" and isinstance(experiment.method, GCDConfig | RankStatsConfig | UNOConfig):
        raise InputError(f"'start' is random for this method, not '{experiment.start}': it has no prototypes to place.")
    if experiment.schedule.choose != "last" and isinstance(experiment.method, GCDConfig):
        raise InputError("'schedule.choose' is last for GCD: it has no classifier before its last epoch.")
    check_schedule(experiment.schedule, n_processes, can_choose=keeps and experiment.held_out > 0)


def hold_out(
    y: NDArray[np.int64], share: float, random_state: int
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Hide the labels of a share of the labelled items of each class; return labels with and of the hidden ones.

    `HELD_OUT_LEAST` items of a class always stay labelled.
    """
    if not share:
        return y, None
    order = np.random.RandomState(random_state).permutation(len(y))
    order = order[y[order] != UNLABELLED]
    order = order[np.argsort(y[order], kind="stable")]
    sizes = np.bincount(y[order])
    rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    hidden = order[rank < np.minimum(np.round(share * sizes), sizes - HELD_OUT_LEAST)[y[order]]]
    kept, held_out = y.copy(), np.full_like(y, UNLABELLED)
    kept[hidden], held_out[hidden] = UNLABELLED, y[hidden]
    return kept, held_out
