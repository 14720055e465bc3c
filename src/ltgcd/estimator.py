"""`CategoryDiscovery`: the pipeline behind scikit-learn's ``fit`` and ``predict``; ``update`` adds new items.

It calls `ltgcd.discovery.discover` as the command line does, so the same rows and seed give the same classes, labels
and confidences to the last bit. What `save` writes is a run directory, which every command takes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ltgcd.class_number.estimate import KEstimate
from ltgcd.common.errors import InputError
from ltgcd.common.outputs import check_output, output_path
from ltgcd.data.any_labels import KINDS, as_array, encode_labels_of_any_kind, kind_of, with_novel_labels
from ltgcd.data.collection import UNLABELLED, Collection, Source, positions
from ltgcd.data.items import ImageFiles, Items, Texts, Vectors
from ltgcd.discovery.assignments import assignments_table, core
from ltgcd.discovery.discover import DiscoveryConfig, Task, configure, discover, status_of
from ltgcd.discovery.extend import extend
from ltgcd.features.backbones import backbone_of
from ltgcd.features.cache import FeatureStore, differing_features
from ltgcd.features.views import CachedViews, VectorViews, Views
from ltgcd.report.categories import Category, describe_categories
from ltgcd.report.layout import places_on_map
from ltgcd.report.page import Report, report_html
from ltgcd.run.directory import PAGE, Run
from ltgcd.run.predict import load_run_model
from ltgcd.run.train import described_estimate, kept_estimate, run_config
from ltgcd.training.config import Preset
from ltgcd.training.methods import get_method
from ltgcd.training.model import FittedModel


class CategoryDiscovery(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Find known classes and novel categories in partly labelled embeddings.

    Parameters
    ----------
    n_classes : int or "auto"
        Number of classes, known and novel; "auto" estimates it.
    method : str
        A trained method of `ltgcd.training.methods.METHODS`.
    preset : {"default", "paper", "literal"}
        What we recommend, the corrected reading of the paper alone, or the paper as printed.
    epochs : int, optional
        Epochs of training; the preset's by default.
    settings : dict, optional
        Other settings by path, see `ltgcd.training.config.changed`.
    rehearsals : int or "auto"
        How often to train once more with known classes hidden, to learn how often a label is right and which items are
        unsure. "auto" is what ``ltgcd discover`` does: 4, or 1 where the last stage of a backbone is trained. At 0,
        confidences are the model's own, and too high.
    labels_from : {"collection", "elsewhere"}
        Whether the labelled items are a part of the collection or were gathered beside it, for the estimate of the
        number of classes (`ltgcd.class_number.estimate.estimate_k`).
    unlabelled : hashable, optional
        What stands for an unlabelled item in y, besides None and NaN: -1 by default. None where -1 is a class of yours.
    random_state : int
        Seed. The same seed and data give the same labels, in any order of the rows.

    Attributes
    ----------
    labels_ : ndarray, shape (N,)
        Class of every item: the given label of a labelled one; for the others a known class or a novel category, where
        neighbours in the collection have a say, which they have not in `predict`.
    confidence_ : ndarray of float32, shape (N,)
        Probability that the label is right.
    status_ : ndarray of str, shape (N,)
        "known", "novel" or "unsure": an unsure item's label is more likely wrong than right.
    classes_ : ndarray, shape (n_classes_,)
        Known classes first, under their own labels, then novel categories by falling number of sure items: numbers
        after the largest known one where labels are numbers, else "novel-001" and so on.
    n_classes_ : int
        Their number.
    categories_ : list of Category
        Each class or category with its size, confidence, coherence, nearest known classes and a suggested name.
    k_estimate_ : KEstimate or None
        The estimate of the number of classes, if it was not given.
    n_features_in_ : int
        Length of a vector.

    Examples
    --------
    >>> import numpy as np
    >>> from ltgcd import CategoryDiscovery
    >>> rng = np.random.RandomState(0)
    >>> centres = np.eye(4, 16) * 5
    >>> x = np.concatenate([rng.randn(30, 16) + centre for centre in centres])
    >>> y = ["ant"] * 30 + ["bee"] * 30 + [None] * 60
    >>> model = CategoryDiscovery(n_classes=4).fit(x, y)
    >>> [str(name) for name in model.classes_]
    ['ant', 'bee', 'novel-001', 'novel-002']
    """

    def __init__(
        self,
        n_classes: int | Literal["auto"] = "auto",
        method: str = "ltgcd",
        preset: Preset = "default",
        epochs: int | None = None,
        settings: dict[str, Any] | None = None,
        rehearsals: int | Literal["auto"] = "auto",
        labels_from: str = "collection",
        unlabelled: Hashable | None = UNLABELLED,
        random_state: int = 0,
    ) -> None:
        self.n_classes = n_classes
        self.method = method
        self.preset = preset
        self.epochs = epochs
        self.settings = settings
        self.rehearsals = rehearsals
        self.labels_from = labels_from
        self.unlabelled = unlabelled
        self.random_state = random_state

    # ------------------------------------------------------------ fit

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        store: FeatureStore | None = None,
        weights: Path | str | None = None,
    ) -> CategoryDiscovery:
        """Discover the classes of X.

        Parameters
        ----------
        X : array-like or DataFrame, shape (N, D)
            Embeddings.
        y : array-like, shape (N,)
            Labels of any kind (strings, numbers, …); None, NaN or -1 (`unlabelled`) for an unlabelled item.
        store : FeatureStore, optional
            What `ltgcd.open_features` gives for the folder of ``ltgcd embed --views 4``, of the same N items in the
            same order: the last stage of the backbone is then trained on its cached views.
        weights : path, optional
            Backbone weights that the store was made with, where they are not the usual ones.
        """
        x = self._vectors(X, reset=True)
        codes, known = encode_labels_of_any_kind(y, len(x), self.unlabelled)
        if not known:
            raise InputError("No item is labelled; label a few items of at least one class.")
        config = self._configured(len(known), len(x), store)
        task = Task(x, codes, len(known))
        if config.regime == "last-stage":
            assert store is not None
            tail = backbone_of(store.key, weights).tail
            task = task._replace(views=self._cached(store, len(x)), tail=tail)
        found = discover(task, config)
        assert found.fitted is not None
        self._fitted, self._config = found.fitted, config
        learnt = found.calibration  # by how much confidences are off, in rehearsals and by chance alone
        self._calibration_off = (learnt.error, learnt.chance) if learnt else (None, None)
        self._features_key = None if store is None else store.key
        self._x, self._known, self._index = x, len(known), _index_of(X)
        self._codes, self._given, self._unsure = found.labels, codes, found.unsure
        self._named: tuple[int, ...] = ()  # classes beyond those of the fit that `update` was told of
        self.confidence_ = found.confidence
        self.k_estimate_: KEstimate | None = found.estimate
        self._name_classes(with_novel_labels(known, len(known), found.k))
        return self

    def fit_predict(self, X: ArrayLike, y: ArrayLike) -> NDArray[Any]:
        """Discover the classes of X and return `labels_`."""
        labels: NDArray[Any] = self.fit(X, y).labels_
        return labels

    def _configured(self, n_old: int, n: int, store: FeatureStore | None) -> DiscoveryConfig:
        """The parameters as the pipeline takes them; what can't be is refused in a sentence."""
        get_method(self.method, trained=True)
        changes = dict(self.settings or {})
        if not all(isinstance(path, str) for path in changes):
            raise InputError("settings are given by their names: {'selection.k': 20}.")
        if self.epochs is not None:
            changes["schedule.epochs"] = self.epochs
        whole = isinstance(self.n_classes, int | np.integer) and not isinstance(self.n_classes, bool)
        if self.n_classes != "auto" and not (whole and n_old <= int(self.n_classes) <= n):
            raise InputError(
                f"n_classes is 'auto' or a whole number from {n_old} (the known classes) to {n} (the items), "
                f"not {self.n_classes!r}."
            )
        seed = self.random_state
        if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
            raise InputError(
                f"random_state is a whole number from 0 to {2**32 - 1}, not {seed!r}: the same seed gives the same "
                "labels."
            )
        return configure(
            self.method,
            preset=self.preset,
            regime="frozen" if store is None or store.n_views == 0 else "last-stage",
            changes=changes,
            k=None if self.n_classes == "auto" else int(self.n_classes),
            rehearsals=self.rehearsals,
            labels_from=self.labels_from,
            random_state=int(seed),
        )

    def _name_classes(self, classes: list[Any]) -> None:
        """Set what follows from the codes of the items and the labels of the classes."""
        self.classes_, self.n_classes_ = as_array(classes), len(classes)
        self.labels_ = self.classes_[self._codes]
        known = (self._codes < self._known) | np.isin(self._codes, self._named)
        self.status_ = status_of(known, self._unsure)

    # ------------------------------------------------------------ new items

    def predict_proba(self, X: ArrayLike, *, store: FeatureStore | None = None) -> NDArray[np.float32]:
        """Probabilities (M, n_classes_) of new items, in the order of `classes_`.

        Parameters
        ----------
        X : array-like, shape (M, D)
            Embeddings as in `fit`.
        store : FeatureStore, optional
            Their cached activations, for a model whose last stage was trained.
        """
        check_is_fitted(self)
        return self._fitted.predict(self._views(self._vectors(X), store))

    def predict(self, X: ArrayLike, *, store: FeatureStore | None = None) -> NDArray[Any]:
        """Class of new items, known or novel; see `predict_proba`."""
        p = self.predict_proba(X, store=store)
        return np.asarray(self.classes_[p.argmax(axis=1)])

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Share of the labelled items whose class `predict` gives; items without a label have no say."""
        codes, classes = encode_labels_of_any_kind(y, len(self._vectors(X)), self.unlabelled)
        labelled = codes != UNLABELLED
        if not labelled.any():
            raise InputError("No item is labelled, so there is nothing to score.")
        right = np.array([a == classes[c] for a, c in zip(self.predict(X).tolist(), codes, strict=True)])
        weights = None if sample_weight is None else np.asarray(sample_weight)[labelled]
        return float(np.average(right[labelled], weights=weights))

    def update(
        self, X_new: ArrayLike, y_new: ArrayLike | None = None, *, store: FeatureStore | None = None
    ) -> CategoryDiscovery:
        """Add new items: what is there stays as it is, and what no class explains is appended.

        `labels_`, `confidence_` and `status_` grow by M; an item that no class explains and that is in no category
        either is "unsure". `classes_` grows by the new classes, and `predict` knows them.

        Parameters
        ----------
        X_new : array-like, shape (M, D)
            Embeddings of the new items.
        y_new : array-like, shape (M,), optional
            Labels of some of them, as in `fit`. A label that is not in `classes_` is a class of its own, beside the
            novel categories; to say that items are of a novel category, give its label ("novel-001").
        store : FeatureStore, optional
            Cached activations of the new items, for a model whose last stage was trained.
        """
        check_is_fitted(self)
        x = self._vectors(X_new)
        given_labels: Any = [None] * len(x) if y_new is None else y_new
        codes, classes = encode_labels_of_any_kind(given_labels, len(x), self.unlabelled)
        held = {label: code for code, label in enumerate(self.classes_.tolist())}
        unheard = [label for label in classes if label not in held]
        names = [*self.classes_.tolist(), *unheard]
        held |= {label: self.n_classes_ + i for i, label in enumerate(unheard)}
        given = np.array([*(held[label] for label in classes), UNLABELLED], dtype=np.int64)[codes]
        sure = core(self._codes, ~self._unsure)
        y = np.where(self._given < self._known, self._given, UNLABELLED)
        both = np.concatenate([self._x, x])
        done = extend(self._fitted, self._views(x, store), both, y, sure, given, self._config.random_state)
        self._named = (*self._named, *range(self.n_classes_, len(names)))
        index = _index_of(X_new)
        self._index = [*self._index, *index] if self._index is not None and index is not None else None
        self._fitted, self._x = done.fitted, both
        self._codes = np.concatenate([self._codes, done.labels])
        self._given = np.concatenate([self._given, given])
        self._unsure = np.concatenate([self._unsure, done.unsure])
        self.confidence_ = np.concatenate([self.confidence_, done.confidence])
        self._name_classes(with_novel_labels(names, self._known, done.fitted.k))
        return self

    def _vectors(self, X: ArrayLike, *, reset: bool = False) -> NDArray[np.float32]:
        """Vectors as float32; new ones must be as long as those of the fit."""
        x = validate_data(self, X, dtype=np.float32, reset=reset, ensure_min_samples=2 if reset else 1)
        return Vectors(x).x  # refuses what is too large

    def _views(self, x: NDArray[np.float32], store: FeatureStore | None) -> Views:
        if store is not None and (difference := differing_features(self._features_key, store.key)):
            raise InputError(f"This model can't label these features: {difference}")
        if self._fitted.regime == "frozen":
            return VectorViews(x)
        if store is None:
            raise InputError("The last stage of a backbone was trained; give the cached activations with store=….")
        return self._cached(store, len(x))

    @staticmethod
    def _cached(store: FeatureStore, n: int) -> CachedViews:
        if len(store) != n:
            raise InputError(f"The store holds {len(store)} items, but X has {n}; give the features of the same items.")
        return CachedViews(store, np.arange(n, dtype=np.int64))

    # ------------------------------------------------------------ look at it

    @property
    def categories_(self) -> list[Category]:
        """Each class or category with its size, confidence, coherence, nearest known classes and a suggested name."""
        check_is_fitted(self)
        return describe_categories(self._collection(None, None), self._x, self._table(None))

    def assignments(self, ids: Sequence[Any] | None = None) -> Any:  # noqa: ANN401 - pandas is optional
        """A row for every item: id, label, status, confidence. A DataFrame, or without pandas a pyarrow Table.

        Parameters
        ----------
        ids : sequence, length N, optional
            Ids of the items; by default the index of the DataFrame they came in, else the number of their row.
        """
        check_is_fitted(self)
        n = len(self._codes)
        ids = self._index if ids is None else ids
        if ids is not None and len(ids) != n:
            raise InputError(f"There are {len(ids)} ids for {n} items; give one for each.")
        columns = {
            "id": list(range(n)) if ids is None else list(ids),
            "label": self.labels_,
            "status": self.status_,
            "confidence": self.confidence_,
        }
        try:
            import pandas  # noqa: PLC0415 - optional
        except ImportError:
            return pa.table({name: pa.array(np.asarray(column).tolist()) for name, column in columns.items()})
        return pandas.DataFrame(columns)

    def report(
        self,
        path: Path | str,
        items: Items | Sequence[str] | Sequence[Path] | None = None,
        *,
        ids: Sequence[str] | None = None,
        title: str = "ltgcd",
    ) -> Path:
        """Write a page that shows every category, a map and what to look at first: one HTML file, no network.

        Parameters
        ----------
        path : path
            HTML file to write.
        items : sequence of str or of Path, optional
            The N texts (str) or image files (Path) behind the vectors; without them cards show ids.
        ids : sequence of str, length N, optional
            Ids of the items; by default as in `assignments`.
        title : str
            Name on the page.
        """
        check_is_fitted(self)
        check_output(Path(path), PAGE)
        collection, table = self._collection(items, ids), self._table(ids)
        estimate = self.k_estimate_
        html = report_html(
            Report(
                collection=collection,
                features=self._x,
                assignments=table,
                places=places_on_map(self._x, self._codes, self._config.random_state),
                k_estimate=described_estimate(estimate, collection) if estimate else None,
                calibration_error=self._calibration_off[0],
                calibration_chance=self._calibration_off[1],
                appended=self.n_classes_ - estimate.k if estimate else 0,
                seed=self._config.random_state,
                title=title,
            )
        )
        with output_path(Path(path), PAGE) as temporary:
            temporary.write_text(html, encoding="utf-8")
        return Path(path)

    def _table(self, ids: Sequence[str] | None) -> pa.Table:
        """The assignments as a run keeps them."""
        names = [str(name) for name in self.classes_]
        named = {code: names[code] for code in self._named}
        note: dict[str, Any] = {"n_old": self._known, "named": {str(code): name for code, name in named.items()}}
        off = (None if value is None else round(value, 4) for value in self._calibration_off)
        note |= dict(zip(("calibration_error", "calibration_chance"), off, strict=True))
        known = tuple(names[: self._known])
        return assignments_table(
            _ids(self._index if ids is None else ids, len(self._codes)),
            self._codes,
            self.confidence_,
            known,
            self.n_classes_,
            self._unsure,
            note,
            named,
        )

    def _collection(self, items: Items | Sequence[Any] | None, ids: Sequence[str] | None) -> Collection:
        """The items with the labels that people gave."""
        # A class that was named after the fit has its number behind the novel ones; who asks wants known ones only.
        y = np.where(self._given < self._known, self._given, UNLABELLED)
        names = tuple(str(name) for name in self.classes_[: self._known])
        return Collection(_ids(self._index if ids is None else ids, len(y)), _items(items, self._x), y, names)

    # ------------------------------------------------------------ keep it

    def save(self, folder: Path | str, ids: Sequence[str] | None = None) -> Path:
        """Write a run directory, with no pickle: `load` reads it, and so do ``ltgcd update``, ``report``, ``export``.

        Parameters
        ----------
        folder : path
            A new folder, or one that holds the very same run: after `update`, save to another one.
        ids : sequence of str, length N, optional
            Ids of the items; by default as in `assignments`.
        """
        check_is_fitted(self)
        run, config = Run(folder), run_config(self._config, None)
        config["estimator"] = {
            "classes": [str(label) for label in self.classes_],
            "kind": kind_of(self.classes_.tolist()),
            "parameters": _plain(self.get_params()),
            "columns": [str(name) for name in getattr(self, "feature_names_in_", ())],
        }
        names = tuple(str(name) for name in self.classes_[[*range(self._known), *self._named]])
        place = np.full(self.n_classes_ + 1, UNLABELLED)  # the last one is that of -1
        place[[*range(self._known), *self._named]] = np.arange(len(names))
        every = _ids(self._index if ids is None else ids, len(self._x))
        collection = Collection(every, Vectors(self._x), place[self._given], names)
        run.check_free()
        with run.lock("CategoryDiscovery.save"):
            run.check_not_updated()  # what a command has added since is not put back
            run.begin(config, Source(collection, None))
            tensors, description = self._fitted.state()
            note = {"class_names": list(names[: self._known]), "dim": int(self._x.shape[1])}
            if self._features_key is not None:
                note["features"] = {key: value for key, value in self._features_key.items() if value is not None}
            run.write_model(tensors, {**description, "note": note})
            run.write_features(collection.ids, self._x)
            if self.k_estimate_ is not None:
                run.write_estimate(described_estimate(self.k_estimate_, collection))
            run.write_assignments(self._table(ids))
        return run.folder

    @classmethod
    def load(cls, folder: Path | str, weights: Path | str | None = None) -> CategoryDiscovery:
        """Read a run directory: what `save` wrote, or a finished run of ``ltgcd discover``.

        Parameters
        ----------
        folder : path
            The run.
        weights : path, optional
            Backbone weights, for a run whose last stage was trained with others than the usual ones.
        """
        run = Run.open(folder)
        config, model = run.config(), load_run_model(run, Path(weights) if weights is not None else None)
        table, features, labels = run.assignments(), run.features(), run.labels()
        if features is None:
            raise InputError(f"{folder} keeps no features of its items, which a model needs to be updated.")
        kept = config.get("estimator") or {}
        parameters = kept.get("parameters") or _parameters(config, model.fitted)
        self = cls(**{"unlabelled": None, **parameters})  # what is missing was None
        ids = table.column("id").combine_chunks()
        at = positions(ids, labels.ids, f"the labels of {run}", "restore them")
        n_old, names = model.fitted.n_old, list(labels.class_names)
        self._fitted, self._features_key, self._known = model.fitted, model.features, n_old
        self._x = features.of(ids, run)
        self._codes = np.asarray(table.column("label").to_numpy(), dtype=np.int64)
        self._named = tuple(sorted(model.named))
        # Classes that an update named stand behind the known ones in the labels, under numbers of their own in the run.
        codes = [*range(n_old), *(next(c for c, n in model.named.items() if n == name) for name in names[n_old:])]
        self._given = np.array([*codes, UNLABELLED], dtype=np.int64)[labels.y[at]]
        status = table.column("status").to_numpy(zero_copy_only=False)
        self._unsure = np.asarray(status == "unsure", dtype=np.bool_)
        self.confidence_ = np.asarray(table.column("confidence").to_numpy(), dtype=np.float32)
        note = run.assignments_note()
        self._calibration_off = (note.get("calibration_error"), note.get("calibration_chance"))
        self._config = self._configured(n_old, max(len(self._x), model.fitted.k), None)
        self.k_estimate_ = kept_estimate(run)
        self.n_features_in_ = int(self._x.shape[1])
        if kept.get("columns"):
            self.feature_names_in_ = np.array(kept["columns"], dtype=object)
        self._index = ids.to_pylist()
        read = KINDS[kept.get("kind", "str")]
        classes = [read(label) for label in kept.get("classes", names[:n_old])]
        for code, name in sorted(model.named.items()):  # an update by the command may have named more
            if code >= len(classes):
                classes = [*with_novel_labels(classes, n_old, code), name]
        self._name_classes(with_novel_labels(classes, n_old, model.fitted.k))
        return self


def _parameters(config: dict[str, Any], fitted: FittedModel) -> dict[str, Any]:
    """Parameters of a run that a command made, as far as they are parameters here."""
    return {
        "n_classes": fitted.k if config.get("k") == "auto" else config["k"],
        "method": config["method"],
        "rehearsals": config.get("rehearsals", 0),
        "labels_from": config.get("labels_from", "collection"),
        "unlabelled": UNLABELLED,
        "random_state": config.get("random_state", 0),
    }


def _ids(ids: Sequence[str] | None, n: int) -> pa.StringArray:
    if ids is None:
        return pa.array(np.arange(n)).cast(pa.string())
    if len(ids) != n:
        raise InputError(f"There are {len(ids)} ids for {n} items; give one for each.")
    return pa.array([str(one) for one in ids], pa.string())


def _index_of(X: object) -> list[str] | None:
    """The index of a DataFrame as ids, where each item has its own."""
    index = getattr(X, "index", None)
    if index is None or callable(index) or not getattr(index, "is_unique", False):
        return None
    return [str(name) for name in index]


def _items(items: Items | Sequence[Any] | None, x: NDArray[np.float32]) -> Items:
    """What the page shows: texts (str), image files (Path), or nothing but the vectors."""
    if items is None:
        return Vectors(x)
    if isinstance(items, Items):
        return items
    if len(items) != len(x):
        raise InputError(f"There are {len(items)} items for {len(x)} vectors; give one for each.")
    if all(isinstance(one, str) for one in items):
        return Texts(pa.array(list(items), pa.large_string()))
    if all(isinstance(one, Path) for one in items):
        return ImageFiles(Path(), pa.array([str(one.resolve()) for one in items], pa.string()))
    raise InputError("items are texts (str) or image files (pathlib.Path), one for each vector.")


def _plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters as TOML can hold them: no numbers of NumPy's, and None left out."""
    return {
        name: _plain(value) if isinstance(value, dict) else value.item() if isinstance(value, np.generic) else value
        for name, value in parameters.items()
        if value is not None
    }
