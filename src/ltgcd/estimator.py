"""`CategoryDiscovery`: the whole pipeline behind scikit-learn's ``fit`` and ``predict``; ``update`` adds new items."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from ltgcd.class_number.estimate import KEstimate, LabelsFrom, estimate_k, labels_origin
from ltgcd.common.errors import InputError
from ltgcd.data.collection import UNLABELLED
from ltgcd.data.items import Vectors
from ltgcd.discovery.extend import extend
from ltgcd.features.views import VectorViews
from ltgcd.run.directory import core
from ltgcd.training.config import TRAINED, Preset, changed, preset
from ltgcd.training.fit import FittedModel, Task, check_experiment, fit_model


class CategoryDiscovery(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Find known and novel classes in partly labelled embeddings.

    Parameters
    ----------
    n_classes : int or "auto"
        Number of classes, known and novel; "auto" estimates it.
    method : {"ltgcd", "ltgcd-crest", "simgcd", "gcd", "orca", "uno", "rankstats"}
        Trained method, see `ltgcd.training.config.TRAINED`.
    preset : {"default", "paper", "literal"}
        Reading of the paper, see `ltgcd.training.config.preset`.
    epochs : int, optional
        Epochs of training; the preset's by default.
    settings : dict, optional
        Other settings by path, see `ltgcd.training.config.changed`.
    labels_from : {"collection", "elsewhere"}
        Whether the labelled items are a part of the collection or were gathered beside it, for the estimate of the
        number of classes (`ltgcd.class_number.estimate.estimate_k`).
    random_state : int
        Seed. The same seed and data give the same labels.

    Attributes
    ----------
    labels_ : ndarray of int64, shape (N,)
        Class of every item: the given label of a labelled one; known classes under their own numbers, novel ones from
        the largest of these + 1 on, by falling size. Neighbours in the collection have a say (`smoothing` of
        `ltgcd.training.config.Experiment`), which they have not in `predict`.
    confidence_ : ndarray of float32, shape (N,)
        Probability of that class.
    status_ : ndarray of str, shape (N,)
        "known" or "novel"; after `update` also "unsure".
    classes_ : ndarray of int64, shape (n_classes_,)
        All classes, the known ones first.
    n_classes_ : int
        Their number.
    k_estimate_ : KEstimate or None
        The estimate, if the number was not given.
    n_features_in_ : int
        Length of a vector.

    Examples
    --------
    >>> import numpy as np
    >>> from ltgcd import CategoryDiscovery
    >>> rng = np.random.RandomState(0)
    >>> centres = np.eye(4, 16) * 5
    >>> x = np.concatenate([rng.randn(30, 16) + centre for centre in centres])
    >>> y = np.repeat([0, 1, -1, -1], 30)
    >>> model = CategoryDiscovery(n_classes=4).fit(x, y)
    >>> model.n_classes_, sorted(set(model.status_))
    (4, ['known', 'novel'])
    """

    def __init__(
        self,
        n_classes: int | Literal["auto"] = "auto",
        method: str = "ltgcd",
        preset: Preset = "default",
        epochs: int | None = None,
        settings: dict[str, Any] | None = None,
        labels_from: str = "collection",
        random_state: int = 0,
    ) -> None:
        self.n_classes = n_classes
        self.method = method
        self.preset = preset
        self.epochs = epochs
        self.settings = settings
        self.labels_from = labels_from
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> CategoryDiscovery:
        """Discover the classes of X.

        Parameters
        ----------
        X : array-like, shape (N, D)
            Embeddings.
        y : array-like of int, shape (N,)
            Labels, -1 for an unlabelled item.
        """
        x, labels = validate_data(self, X, y, dtype=np.float32, ensure_min_samples=2)
        Vectors(x)  # refuses what is too large
        numbers = np.issubdtype(labels.dtype, np.number)
        if not numbers or not np.array_equal(labels, np.floor(labels)):
            raise InputError("Unknown label type: y must hold whole numbers, -1 for an unlabelled item.")
        labels = labels.astype(np.int64)
        if labels.min() < UNLABELLED:
            raise InputError(f"y holds {labels.min()}; labels are 0 or more, and -1 for an unlabelled item.")
        known = np.unique(labels[labels != UNLABELLED])
        if not len(known):
            raise InputError("No item is labelled; label a few items of at least one class.")
        codes = np.where(labels == UNLABELLED, UNLABELLED, np.searchsorted(known, labels))
        if self.method not in TRAINED:
            raise InputError(f"There is no trained method '{self.method}'; choose one of {', '.join(TRAINED)}.")
        changes = dict(self.settings or {})
        if self.epochs is not None:
            changes["schedule.epochs"] = self.epochs
        experiment = changed(preset(self.method, "frozen", self.preset), changes)
        check_experiment(experiment, keeps=False)
        seed, origin = self._seed(), labels_origin(self.labels_from)
        k = self._number(x, codes, len(known), seed, origin)
        fit = fit_model(Task(x, codes, len(known), k, seed), experiment)
        self._fitted = fit.fitted
        self.n_classes_ = k
        self.classes_ = np.concatenate([known, known.max() + 1 + np.arange(k - len(known))])
        chosen = np.where(codes == UNLABELLED, fit.probabilities.argmax(axis=1), codes)
        self.labels_ = self.classes_[chosen]
        self.confidence_ = fit.probabilities[np.arange(len(x)), chosen]
        self.status_ = np.where(chosen < len(known), "known", "novel")
        self._x, self._y = x, codes
        self._named = np.empty(0, dtype=np.int64)  # classes that `update` was told of
        return self

    def update(self, X_new: ArrayLike, y_new: ArrayLike | None = None) -> CategoryDiscovery:
        """Add new items: what is there stays as it is, and what no class explains is appended.

        `labels_`, `confidence_` and `status_` grow by M; an item that no class explains and that is no category either
        is "unsure". `classes_` grows by the new classes, and `predict` knows them.

        Parameters
        ----------
        X_new : array-like, shape (M, D)
            Embeddings of the new items.
        y_new : array-like of int, shape (M,), optional
            Labels of some of them, -1 for the others. A number that is not in `classes_` is a class of its own.
        """
        check_is_fitted(self)
        if not hasattr(self, "_x"):
            raise InputError("A model that was loaded does not know the items it was fitted on; fit it again.")
        x = self._new(X_new)
        labels = np.full(len(x), UNLABELLED) if y_new is None else np.asarray(y_new)
        whole = labels.shape == (len(x),) and np.issubdtype(labels.dtype, np.number)
        if not whole or not np.array_equal(labels, np.floor(labels)) or labels.min() < UNLABELLED:
            raise InputError("y_new must hold a whole number an item, -1 for an unlabelled one.")
        labels = labels.astype(np.int64)
        unheard = np.setdiff1d(labels, np.append(self.classes_, UNLABELLED))
        numbers = np.concatenate([self.classes_, unheard])
        order = np.argsort(numbers)
        given = np.where(labels == UNLABELLED, UNLABELLED, order[np.searchsorted(numbers[order], labels) % len(order)])
        classes = np.argsort(self.classes_)[np.searchsorted(np.sort(self.classes_), self.labels_)]
        sure = core(classes, self.status_ != "unsure")
        done = extend(self._fitted, VectorViews(x), np.concatenate([self._x, x]), self._y, sure, given, self._seed())
        found = done.fitted.k - len(numbers)
        self._fitted, self.n_classes_ = done.fitted, done.fitted.k
        self.classes_ = np.concatenate([numbers, numbers.max() + 1 + np.arange(found)])
        status = np.where(done.labels < done.fitted.n_old, "known", "novel")
        self._named = np.concatenate([self._named, unheard])
        status = np.where(np.isin(self.classes_[done.labels], self._named), "known", status)
        self.labels_ = np.concatenate([self.labels_, self.classes_[done.labels]])
        self.confidence_ = np.concatenate([self.confidence_, done.confidence])
        self.status_ = np.concatenate([self.status_, np.where(done.unsure, "unsure", status)])
        self._x = np.concatenate([self._x, x])
        self._y = np.concatenate([self._y, np.where(given < done.fitted.n_old, given, UNLABELLED)])
        return self

    def _new(self, X: ArrayLike) -> NDArray[np.float32]:
        """Vectors of new items, as long as those of the fit."""
        return Vectors(validate_data(self, X, dtype=np.float32, reset=False)).x

    def _seed(self) -> int:
        if not isinstance(self.random_state, int | np.integer) or not 0 <= self.random_state < 2**32:
            raise InputError(
                f"random_state is a whole number from 0 to {2**32 - 1}, not {self.random_state!r}: the same seed gives "
                "the same labels."
            )
        return int(self.random_state)

    def _number(
        self, x: NDArray[np.float32], codes: NDArray[np.int64], n_old: int, seed: int, labels_from: LabelsFrom
    ) -> int:
        self.k_estimate_: KEstimate | None = None
        if self.n_classes == "auto":
            if (codes != UNLABELLED).all():
                return n_old
            self.k_estimate_ = estimate_k(x, codes, labels_from=labels_from, random_state=seed)
            return self.k_estimate_.k
        if not isinstance(self.n_classes, int | np.integer) or not n_old <= self.n_classes <= len(x):
            raise InputError(
                f"n_classes is 'auto' or a whole number from {n_old} (the known classes) to {len(x)} (the items), "
                f"not {self.n_classes!r}."
            )
        return int(self.n_classes)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float32]:
        """Probabilities (N, n_classes_) of the classes, in the order of `classes_`, of new items."""
        check_is_fitted(self)
        x = self._new(X)
        return self._fitted.predict(VectorViews(x))

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Class of new items, known or novel."""
        p = self.predict_proba(X)
        return np.asarray(self.classes_[p.argmax(axis=1)], dtype=np.int64)

    def save(self, folder: Path | str) -> None:
        """Write the model to a folder: safetensors and TOML, no pickle."""
        check_is_fitted(self)
        note = {
            "classes": [int(c) for c in self.classes_],
            "n_features_in": int(self.n_features_in_),
            "parameters": _plain(self.get_params()),
        }
        self._fitted.save(Path(folder), note)

    @classmethod
    def load(cls, folder: Path | str) -> CategoryDiscovery:
        """Read what `save` wrote: it predicts and has its parameters, but no longer knows the items of the fit."""
        fitted, note = FittedModel.load(Path(folder), _no_tail)
        if "classes" not in note:
            raise InputError(f"{folder} was not saved by CategoryDiscovery; use 'ltgcd predict' on a run.")
        self = cls(**note.get("parameters", {"n_classes": fitted.k}))  # earlier versions kept none
        self._fitted, self.n_classes_ = fitted, fitted.k
        self.classes_ = np.array(note["classes"], dtype=np.int64)
        self.n_features_in_ = int(note["n_features_in"])
        return self


def _no_tail(_note: dict[str, Any]) -> nn.Module:
    raise InputError("This model was trained on images, with the last stage of their backbone; use 'ltgcd predict'.")


def _plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters as TOML can hold them: no numbers of NumPy's, and None left out, which is what a missing one is."""
    return {
        name: _plain(value) if isinstance(value, dict) else value.item() if isinstance(value, np.generic) else value
        for name, value in parameters.items()
        if value is not None
    }
