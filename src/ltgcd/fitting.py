"""Build, train and keep a model: features in, probabilities of every class out, for these items and for new ones."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli_w
import torch
from numpy.typing import NDArray
from torch import nn

from ltgcd.assignment import adjusted, class_prior, smoothed
from ltgcd.backbones.embeddings import ResidualAdapter
from ltgcd.checkpoints import read_tensors, write_tensors
from ltgcd.collection import UNLABELLED
from ltgcd.communities import starting_clusters
from ltgcd.density import softmax
from ltgcd.distributed import World
from ltgcd.errors import InputError
from ltgcd.experiments import Experiment, Regime
from ltgcd.heads import Head
from ltgcd.losses import TAU_STUDENT
from ltgcd.methods.ltgcd import LTGCD, LTGCDConfig
from ltgcd.methods.simgcd import SimGCD
from ltgcd.neighbours import knn_graph
from ltgcd.storage import atomic_path
from ltgcd.training import Method, Model, fit, predict
from ltgcd.views import CachedViews, VectorViews, Views
from ltgcd.whitening import Whitening, class_means, fit_whitening, normalise

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
    adjustment : float
        Its strength.
    temperature : float
        That cosines are divided by.
    """

    model: Model
    n_old: int
    k: int
    prior: NDArray[np.float64]
    adjustment: float = 0.0
    temperature: float = TAU_STUDENT

    @property
    def regime(self) -> Regime:
        """Whether vectors go in, or cached activations of images."""
        assert isinstance(self.model.tail, nn.Sequential)
        return "frozen" if isinstance(self.model.tail[0], Standardise) else "last-stage"

    def probabilities(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Class probabilities (n, K) of items with these cosines."""
        return adjusted(softmax(logits, self.temperature), self.prior, self.adjustment)

    def predict(self, views: Views) -> NDArray[np.float32]:
        """Class probabilities of new items in their test view."""
        _, outputs = predict(self.model, views, np.arange(len(views)), torch.device("cpu"))
        return self.probabilities(outputs["logits"].numpy())

    def save(self, folder: Path, note: dict[str, Any]) -> None:
        """Write ``model.safetensors`` and ``model.toml`` (last), with a note of the caller's: class names, backbone."""
        tensors = {**self.model.state_dict(), "prior": torch.from_numpy(self.prior)}
        write_tensors(folder / "model.safetensors", tensors, {})
        description = {
            "n_old": self.n_old,
            "k": self.k,
            "adjustment": self.adjustment,
            "temperature": self.temperature,
            "regime": self.regime,
            "note": note,
        }
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
        prior = tensors.pop("prior").numpy()
        frozen = described["regime"] == "frozen"
        at = "tail.0." if frozen else "tail.1."
        k, out = tensors["head.prototypes.weight"].shape
        whiten = f"{at}matrix" in tensors
        fixed = Standardise(len(tensors[f"{at}mean"]) if whiten else out, out, whiten=whiten)
        head = Head(out, k, contrastive=any(name.startswith("head.projector.") for name in tensors))
        last = None if frozen else tail(described["note"])
        layers = nn.Sequential(fixed, ResidualAdapter(out)) if last is None else nn.Sequential(last, fixed)
        model = Model(layers, head)
        model.load_state_dict(tensors)
        numbers = {name: described[name] for name in ("n_old", "k", "adjustment", "temperature")}
        return FittedModel(model.eval(), prior=prior, **numbers), described["note"]


class Fit(NamedTuple):
    """A fitted model and what it says about the items it was fitted on: features (N, D), probabilities (N, K)."""

    fitted: FittedModel
    features: NDArray[np.float32]
    probabilities: NDArray[np.float32]


# ---------------------------------------------------------------- fitting


def fit_model(
    task: Task,
    experiment: Experiment,
    *,
    folder: Path | None = None,
    record: Callable[[dict[str, Any]], None] = lambda _line: None,
    notify: Callable[[str], None] = lambda _message: None,
    world: World | None = None,
) -> Fit:
    """Train a method on a task; see `ltgcd.training.fit` for `folder`, `record`, `notify` and `world`."""
    world = world or World()
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
    head = Head(white.shape[1], task.k, contrastive=_contrastive(experiment))
    if clusters is not None:
        head.prototypes.start_from(class_means(white, clusters, task.k)[0])
    method = make_method(y, experiment, white, task.random_state)
    views: Views
    if task.views is not None and task.tail is not None:
        model = Model(nn.Sequential(task.tail, fixed), head)
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
        notify=notify,
        world=world,
    )
    model.eval()
    p = softmax(snapshot.outputs["logits"], TAU_STUDENT)
    if experiment.smoothing:
        p = smoothed(p, knn_graph(snapshot.features, 10), y, experiment.smoothing)
    prior = class_prior(p[y == UNLABELLED])
    p = adjusted(p, prior, experiment.adjustment)
    order = by_size(p, y, task.n_old)
    with torch.no_grad():
        head.prototypes.weight.copy_(head.prototypes.weight[torch.from_numpy(order)])
    fitted = FittedModel(model, task.n_old, task.k, prior[order], experiment.adjustment)
    return Fit(fitted, snapshot.features, p[:, order])


def by_size(p: NDArray[np.floating], y: NDArray[np.int64], n_old: int) -> NDArray[np.int64]:
    """Order of the classes (K,): the known ones as they are, then the novel ones by falling number of items."""
    sizes = np.bincount(p[y == UNLABELLED].argmax(axis=1), minlength=p.shape[1])
    return np.concatenate([np.arange(n_old), n_old + np.argsort(-sizes[n_old:], kind="stable")])


def make_method(y: NDArray[np.int64], experiment: Experiment, white: NDArray[np.float32], random_state: int) -> Method:
    """The method that a configuration is of."""
    if isinstance(experiment.method, LTGCDConfig):
        return LTGCD(y, experiment.method, white, random_state)
    return SimGCD(y, experiment.method)


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


def _contrastive(experiment: Experiment) -> bool:
    method = experiment.method
    return (method.base if isinstance(method, LTGCDConfig) else method).contrastive
