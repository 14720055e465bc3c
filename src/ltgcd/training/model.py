"""The model: features in, probabilities of every class out, for the items it was trained on and for new ones.

It is an object in memory. `FittedModel.state` gives all that it is, tensors and a description, to whoever keeps files,
and `FittedModel.from_state` makes the same model of it again.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ltgcd.common.engine.threads import torch_threads
from ltgcd.common.errors import InputError
from ltgcd.common.numerics import softmax
from ltgcd.common.tables import Rows, RowTable
from ltgcd.features.backbones.embeddings import ResidualAdapter
from ltgcd.features.backbones.engines import filled_up, half_precision
from ltgcd.features.views import Views
from ltgcd.graph.whitening import Whitening
from ltgcd.training.calibration import SURE, Calibration
from ltgcd.training.config import Regime
from ltgcd.training.heads import CLASSIFIERS, Classifier, Head, Tensors
from ltgcd.training.losses import TAU_STUDENT
from ltgcd.training.smoothing import adjusted

TEST_BATCH = 256
CPU_ROWS = 128
LARGEST = 2**53  # number in a description


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


class Model(nn.Module):
    """Tail and head: cached activations in, features and the head's outputs out."""

    def __init__(self, tail: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.tail, self.head = tail, head

    def forward(self, activations: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        """Map (R, *shape) to features (R, D) and outputs of the head."""
        features = self.features(activations)
        return features, self.head(features)

    def features(self, activations: torch.Tensor) -> torch.Tensor:
        """Map (R, *shape) to features (R, D)."""
        if activations.ndim > 2 and activations.device.type == "cpu":
            # Maps of more rows than this fall out of the cache, and a tail of convolutions takes twice as long.
            # Without a gradient nothing is kept, and twice as many fit.
            n = CPU_ROWS if torch.is_grad_enabled() else TEST_BATCH
            return torch.cat([self.tail(rows) for rows in torch.split(activations, n)])
        features: torch.Tensor = self.tail(activations)
        return features


def precision(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """The context in which a device computes: short floats on a GPU that has them, float32 elsewhere."""
    half = half_precision(device)
    return contextlib.nullcontext() if half is None else torch.autocast(device.type, dtype=half)


def predict(model: Model, views: Views, rows: NDArray[np.int64], device: torch.device) -> tuple[torch.Tensor, Tensors]:
    """Features and outputs of some items in their test view, on the CPU, without a gradient."""

    def compute(batch: torch.Tensor) -> Tensors:
        features, outputs = model(batch)
        return {"": features, **outputs}

    found = _in_batches(compute, views.test, rows, device)
    return found.pop(""), found


def features_of(model: Model, views: Views, rows: NDArray[np.int64], device: torch.device) -> torch.Tensor:
    """Features (n, D) of some items in their test view, on the CPU, without a gradient."""
    return _in_batches(lambda batch: {"": model.features(batch)}, views.test, rows, device)[""]


def head_outputs(head: nn.Module, features: NDArray[np.float32], device: torch.device) -> dict[str, RowTable]:
    """What a head says about items of these features (N, D), by name; computed when it is asked for.

    The head is copied: what it learns or becomes later changes nothing.
    """
    head = copy.deepcopy(head).to(device).eval()

    def output(name: str, rows: Rows) -> NDArray[np.float32]:
        some = torch.from_numpy(features[rows])
        said = _in_batches(lambda batch: {name: head(batch)[name]}, some.__getitem__, np.arange(len(some)), device)
        table: NDArray[np.float32] = said[name].numpy()
        return table

    with torch.no_grad():
        examples = head(torch.zeros(1, features.shape[1], device=device))
    return {
        name: RowTable((len(features), example.shape[1]), functools.partial(output, name))
        for name, example in examples.items()
    }


def _in_batches(
    compute: Callable[[torch.Tensor], Tensors],
    read: Callable[[NDArray[np.int64]], torch.Tensor],
    rows: NDArray[np.int64],
    device: torch.device,
) -> Tensors:
    """What is computed of some rows (n,), by name, each (n, …), on the CPU and without a gradient.

    Vectors in one thread: on some processors several threads round a product otherwise. Pictures, for which that would
    cost too much, in as many as there are.
    """
    out: Tensors = {}
    with torch.no_grad(), precision(device):
        for start in range(0, max(len(rows), 1), TEST_BATCH):
            batch = read(rows[start : start + TEST_BATCH])
            n = len(batch)
            # Full batches: what is said about an item shall not depend on how many others are asked about.
            with torch_threads(1 if batch.ndim == 2 else None):
                computed = compute(filled_up(batch, TEST_BATCH).to(device))
            for name, values in computed.items():
                whole = out.setdefault(name, torch.empty(len(rows), *values.shape[1:]))
                whole[start : start + n] = values[:n].float().cpu()
    return out


@contextlib.contextmanager
def own_random_numbers(seed: int = 0) -> Iterator[None]:
    """Draw torch's global random numbers from this seed inside, and give the caller's back as they were."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield


# ---------------------------------------------------------------- a trained model


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
        Strength of the logit adjustment.
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

    @property
    def regime(self) -> Regime:
        """Whether vectors go in, or cached activations of images."""
        assert isinstance(self.model.tail, nn.Sequential)
        return "frozen" if isinstance(self.model.tail[0], Standardise) else "last-stage"

    def predict(self, views: Views) -> NDArray[np.float32]:
        """Class probabilities (n, K) of new items in their test view."""
        return self.table(views)[slice(0, len(views))]

    def table(self, views: Views) -> RowTable:
        """The same, block by block: a table of all of many items by all of many classes does not fit into memory."""

        def compute(rows: Rows) -> NDArray[np.float32]:
            _, outputs = predict(self.model, views, np.arange(len(views))[rows], torch.device("cpu"))
            return self.probabilities(outputs["logits"].numpy())

        return RowTable((len(views), self.k), compute)

    def probabilities(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Class probabilities (n, K) of items with these logits."""
        return adjusted(softmax(logits, self.temperature), self.prior, self.adjustment)

    def judged(
        self, confidence: NDArray[np.float32], labels: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Probability that each label (n,) is right, and whether it is unsure; as it is without a calibration."""
        if not self.calibration:
            return confidence, np.zeros(len(labels), dtype=np.bool_)
        p = self.calibration.apply(confidence, labels >= self.n_old, self.sizes[labels])
        return p, p < SURE

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """All that the model is: tensors by name, and a description in numbers, words and tables that TOML can hold."""
        classes = {"prior": torch.from_numpy(self.prior), "sizes": torch.from_numpy(self.sizes)}
        description: dict[str, Any] = {
            "n_old": self.n_old,
            "k": self.k,
            "adjustment": self.adjustment,
            "temperature": self.temperature,
            "regime": self.regime,
            "head": next(name for name, kind in CLASSIFIERS.items() if isinstance(self.model.head, kind)),
        }
        if self.calibration:
            description["calibration"] = dataclasses.asdict(self.calibration)
        return {**self.model.state_dict(), **classes}, description

    @staticmethod
    def from_state(tensors: Tensors, description: dict[str, Any], tail: Callable[[], nn.Module]) -> FittedModel:
        """The model that `state` described; a damaged or foreign description is one sentence.

        Parameters
        ----------
        tensors, description : dict
            What `state` gave.
        tail : callable
            Makes the last stage of the backbone; called only for a model that trained one.
        """
        n_old, k = (_number(description, name, whole=True) for name in ("n_old", "k"))
        adjustment, temperature = (_number(description, name) for name in ("adjustment", "temperature"))
        regime, kind = description.get("regime"), description.get("head")
        if regime not in get_args(Regime) or not isinstance(kind, str):
            raise _damaged("'regime' or 'head' is not what it can be")
        if kind not in CLASSIFIERS:
            raise InputError(
                f"The model's classifier is of a kind ('{kind}') that this version does not know; install the version "
                "it was made with."
            )
        calibration = Calibration.read(description["calibration"]) if "calibration" in description else None
        if not (0 <= n_old <= k and adjustment >= 0 and temperature > 0):
            raise _damaged("its numbers are impossible")
        last_stage = tail() if regime == "last-stage" else None
        weights = dict(tensors)
        try:
            prior, sizes = weights.pop("prior").double().numpy(), weights.pop("sizes").long().numpy()
            model = _assembled(weights, CLASSIFIERS[kind], last_stage)
            fits = prior.shape == sizes.shape == (int(k),) and _n_classes(model.head) == k
        except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
            raise _damaged("its weights are not those that it describes") from error
        if not fits:
            raise _damaged(f"its weights are not of {k} classes")
        return FittedModel(model, int(n_old), int(k), prior, sizes, float(adjustment), float(temperature), calibration)


def reordered(fitted: FittedModel, order: NDArray[np.int64]) -> FittedModel:
    """The model with its classes in another order (K,), the known ones first; its weights are moved in place."""
    assert isinstance(fitted.model.head, Classifier)
    fitted.model.head.reorder(torch.from_numpy(order))
    return dataclasses.replace(fitted, prior=fitted.prior[order], sizes=fitted.sizes[order])


def check_extendable(fitted: FittedModel) -> Head:
    """The head of a model that can take up more classes; one without a prototype for each class is refused."""
    if not isinstance(fitted.model.head, Head):
        raise InputError("This model can't take up more classes: it has no prototype for each class.")
    return fitted.model.head


def extended(
    fitted: FittedModel, prototypes: NDArray[np.float32], prior: NDArray[np.float64], sizes: NDArray[np.int64]
) -> FittedModel:
    """The same model with more classes after its own.

    Parameters
    ----------
    fitted : FittedModel
        A model with a prototype for each class.
    prototypes : ndarray, shape (a, d)
        Directions of the new classes in the space of its features.
    prior : ndarray, shape (a,)
        Their share of all items; the other classes share the rest as before.
    sizes : ndarray of int64, shape (a,)
        How many items they have.
    """
    head = check_extendable(fitted)
    added = np.asarray(prototypes, dtype=np.float32).reshape(-1, head.dim)
    rows = torch.cat([head.prototypes.weight.detach(), torch.from_numpy(added)])
    with own_random_numbers():
        larger = Head(head.dim, len(rows), contrastive=False)
    larger.load_state_dict({"prototypes.weight": rows})
    return dataclasses.replace(
        fitted,
        model=Model(fitted.model.tail, larger).eval(),
        k=len(rows),
        prior=np.concatenate([fitted.prior * (1 - prior.sum()), prior]),
        sizes=np.concatenate([fitted.sizes, sizes]),
    )


# ---------------------------------------------------------------- a model from its parts


def _number(description: dict[str, Any], name: str, *, whole: bool = False) -> float:
    value: Any = description.get(name)
    # A boolean is an int to Python, and a file may hold a number that is not finite or too large to compute with.
    if type(value) not in ((int,) if whole else (int, float)) or not abs(value) < LARGEST:
        raise _damaged(f"'{name}' is no {'whole ' if whole else ''}number")
    return value  # type: ignore[no-any-return]


def _damaged(why: str) -> InputError:
    return InputError(f"The description of the model is damaged ({why}); train again in a new folder.")


def _assembled(weights: Tensors, kind: type[Classifier], last_stage: nn.Module | None) -> Model:
    """A model of these weights: fixed layer and adapter, or last stage and fixed layer; then the head."""
    mean = weights.get("tail.0.mean" if last_stage is None else "tail.1.mean")
    with own_random_numbers():
        head = kind.like({name.removeprefix("head."): t for name, t in weights.items() if name.startswith("head.")})
        fixed = Standardise(head.dim if mean is None else len(mean), head.dim, whiten=mean is not None)
        layers = (fixed, ResidualAdapter(head.dim)) if last_stage is None else (last_stage, fixed)
    model = Model(nn.Sequential(*layers), head)
    model.load_state_dict(weights)
    return model.eval()


def _n_classes(head: nn.Module) -> int:
    assert isinstance(head, Classifier)
    with torch.no_grad():
        logits: torch.Tensor = head(torch.zeros(1, head.dim))["logits"]
    return logits.shape[1]
