"""`CategoryDiscovery`: the pipeline behind scikit-learn's ``fit`` and ``predict``; ``update`` adds new items.

It calls `ltgcd.discovery.discover` as the command line does, so the same rows and seed give the same classes, labels
and confidences to the last bit. What `save` writes is a run directory, which every command takes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ltgcd.class_number.estimate import KEstimate
from ltgcd.common.errors import InputError
from ltgcd.common.tables import most_likely
from ltgcd.common.warn import warn
from ltgcd.data.collection import UNLABELLED
from ltgcd.data.items import Items, Vectors
from ltgcd.data.python_labels import as_array, encode_labels_of_any_kind, with_novel_labels
from ltgcd.data.row_ids import as_frame, ids_of_index
from ltgcd.discovery.discover import discover
from ltgcd.discovery.fitted_collection import FittedCollection, add_items, cached_views
from ltgcd.discovery.memory import processes_that_fit
from ltgcd.discovery.new_rows import new_rows
from ltgcd.discovery.parameters import configured
from ltgcd.discovery.task import Hooks, Task
from ltgcd.features.backbones import backbone_of
from ltgcd.features.cache import FeatureStore
from ltgcd.output.report.categories import Category, describe_categories
from ltgcd.review.collection import correct, corrections_table
from ltgcd.run.report import draw_collection
from ltgcd.run.save_and_load import load_fitted, save_fitted
from ltgcd.training.config import Preset


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
    labels_from : {"collection", "elsewhere", "random-items"}
        Whether the labelled items are a part of the collection or were gathered beside it, for the estimate of the
        number of classes (`ltgcd.class_number.estimate.estimate_k`).
    fit_on : int, optional
        How many items teach the classifier, at most half of them labelled ones, which then labels the others: for
        collections that a fit can't hold. By default all.
    unlabelled : hashable, optional
        What stands for an unlabelled item in y, besides None and NaN: -1 by default. None where -1 is a class of yours,
        as it is in ``check_classifiers_classes`` of scikit-learn: -1 and 1 are two classes there, and by default one
        class with unlabelled items, which nothing in y tells apart. All its other checks pass as the defaults are.
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
        "known", "novel", "unsure" (the label is more likely wrong than right) or "junk" (taken out in `refine`).
    classes_ : ndarray, shape (``n_classes_``,)
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
        fit_on: int | None = None,
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
        self.fit_on = fit_on
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
            Labels of any kind (strings, numbers, …); None, NaN or -1 (`unlabelled`) for an unlabelled item. Text that
            says so ("NA", "unknown", "-1") is no class either, and warned of.
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
        config = configured(self.get_params(), len(known), len(x), store)
        task = Task(x, codes, len(known))
        if config.regime == "last-stage":
            assert store is not None
            tail = backbone_of(store.key, weights).tail
            task = task._replace(views=cached_views(store, len(x)), tail=tail)
        found = discover(task, config, Hooks(processes=partial(processes_that_fit, len(x), x.shape[1])))
        assert found.fitted is not None
        learnt = found.calibration
        self._config = config
        self._hold(
            FittedCollection(
                fitted=found.fitted,
                classes=with_novel_labels(known, len(known), found.k),
                known=np.arange(found.k) < len(known),
                x=x,
                given=codes,
                labels=found.labels,
                confidence=found.confidence,
                unsure=found.unsure,
                ids=ids_of_index(X),
                estimate=found.estimate,
                calibration_off=(learnt.error, learnt.chance) if learnt else (None, None),
                features_key=None if store is None else store.key,
                calibrations=found.calibrations,
            )
        )
        return self

    def fit_predict(
        self, X: ArrayLike, y: ArrayLike, *, store: FeatureStore | None = None, weights: Path | str | None = None
    ) -> NDArray[Any]:
        """Discover the classes of X and return `labels_`; parameters as in `fit`."""
        labels: NDArray[Any] = self.fit(X, y, store=store, weights=weights).labels_
        return labels

    def _hold(self, held: FittedCollection) -> None:
        """Keep the items and the model, and set the attributes that tell of them."""
        self._held = held
        self.classes_, self.n_classes_ = as_array(held.classes), len(held.classes)
        self.labels_ = self.classes_[held.labels]
        self.confidence_ = held.confidence
        self.status_ = held.status
        self.k_estimate_: KEstimate | None = held.estimate

    # ------------------------------------------------------------ new items

    def predict_proba(self, X: ArrayLike, *, store: FeatureStore | None = None) -> NDArray[np.float32]:
        """Probabilities (M, ``n_classes_``) of new items, in the order of `classes_`.

        Parameters
        ----------
        X : array-like, shape (M, D)
            Embeddings as in `fit`.
        store : FeatureStore, optional
            Their cached activations, for a model whose last stage was trained.
        """
        check_is_fitted(self)
        return self._held.fitted.predict(self._held.views(self._vectors(X), store))

    def predict(self, X: ArrayLike, *, store: FeatureStore | None = None) -> NDArray[Any]:
        """Class of new items, known or novel; see `predict_proba`."""
        check_is_fitted(self)
        p = self._held.fitted.table(self._held.views(self._vectors(X), store))
        return np.asarray(self.classes_[most_likely(p)[0]])

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Share of the labelled items whose class `predict` gives; items without a label have no say."""
        check_is_fitted(self)
        codes, classes = encode_labels_of_any_kind(y, len(self._vectors(X)), self.unlabelled, self._held.classes)
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

        `labels_`, `confidence_` and `status_` grow by the items that are new; one that no class explains and that is in
        no category either is "unsure". `classes_` grows by the new classes, and `predict` knows them. Rows that are
        there already, with the same id and content, or without ids the same content, are left as they are, with a
        warning; other content under an id that is taken gets an id of its own.

        Parameters
        ----------
        X_new : array-like or DataFrame, shape (M, D)
            Embeddings of the new items. An index that you set says which row is which; one that counts from 0 does not.
        y_new : array-like, shape (M,), optional
            Labels of some of them, as in `fit`. A label that is not in `classes_` is a class of its own, beside the
            novel categories; to say that items are of a novel category, give its label ("novel-001").
        store : FeatureStore, optional
            Cached activations of the new items, for a model whose last stage was trained.
        """
        check_is_fitted(self)
        x = self._vectors(X_new)
        given: Any = [None] * len(x) if y_new is None else y_new
        labels = encode_labels_of_any_kind(given, len(x), self.unlabelled, self._held.classes)
        new = new_rows(self._held, x, ids_of_index(X_new), labels)
        for note in new.notes:
            warn(note)
        self._hold(add_items(self._held, x, labels, new.rows, new.ids, store, self._config.random_state))
        return self

    def refine(
        self,
        corrections: Any,  # noqa: ANN401 - a path, a dict, or a table of any library
        *,
        store: FeatureStore | None = None,
        weights: Path | str | None = None,
    ) -> CategoryDiscovery:
        """Fit again with what you say about the last answer: what you confirm never moves, categories keep their names.

        `refinement_` tells what changed (see `ltgcd.review.refine.difference`); rows that can't be applied are in its
        ``refused``, and warned of.

        Parameters
        ----------
        corrections : dict, DataFrame, pyarrow.Table or path
            ``{id: label}``, or columns ``id, label`` and/or ``category, name``, as a file of ``ltgcd relabel`` has
            them. An id is as in `assignments`: that of the item, else the number of its row. A label of "junk" takes an
            item out, None takes back what was said; the name of another class merges a category with it.
        store, weights
            As in `fit`, for a model whose last stage was trained.
        """
        check_is_fitted(self)
        views = tail = None
        if self._held.fitted.regime == "last-stage":
            if store is None:
                raise InputError("The last stage of a backbone was trained; give the cached views with store=….")
            views, tail = cached_views(store, len(self._held.x)), backbone_of(store.key, weights).tail
        done = correct(self._held, corrections_table(corrections), self._config, views, tail)
        self.refinement_ = {**done.difference, "refused": done.refused}
        for row in done.refused:
            warn(f"Correction {row['row']} ({row['what']}) is refused: {row['reason']}.")
        self._hold(done.held)
        return self

    def _vectors(self, X: ArrayLike, *, reset: bool = False) -> NDArray[np.float32]:
        """Vectors as float32; new ones must be as long as those of the fit."""
        x = validate_data(self, X, dtype=np.float32, reset=reset, ensure_min_samples=2 if reset else 1)
        return Vectors(x).x  # refuses what is too large

    # ------------------------------------------------------------ look at it

    @property
    def categories_(self) -> list[Category]:
        """Each class or category with its size, confidence, coherence, nearest known classes and a suggested name."""
        check_is_fitted(self)
        return describe_categories(self._held.collection(), self._held.x, self._held.table(), self._held.source_labels)

    def assignments(self, ids: Sequence[Any] | None = None) -> Any:  # noqa: ANN401 - pandas is optional
        """A row for every item: id, label, status, confidence. A DataFrame, or without pandas a pyarrow Table.

        Parameters
        ----------
        ids : sequence, length N, optional
            Ids of the items; by default the index of the DataFrame they came in, as it is, so that the table joins it;
            else the number of their row.
        """
        check_is_fitted(self)
        n = len(self.labels_)
        ids = self._held.ids if ids is None else ids
        if ids is not None:
            self._held.ids_or(ids)  # refuses those that no file could hold
        own = list(range(n)) if ids is None else list(ids)
        return as_frame(id=own, label=self.labels_, status=self.status_, confidence=self.confidence_)

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
        return draw_collection(Path(path), self._held, items, ids, title=title, seed=self._config.random_state)

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
        columns = [str(name) for name in getattr(self, "feature_names_in_", ())]
        return save_fitted(folder, self._held, self._config, self.get_params(), columns, ids)

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
        parameters, config, columns, held = load_fitted(folder, weights)
        self = cls(**parameters)
        self._config = config
        self.n_features_in_ = int(held.x.shape[1])
        if columns:
            self.feature_names_in_ = np.array(columns, dtype=object)
        self._hold(held)
        return self
