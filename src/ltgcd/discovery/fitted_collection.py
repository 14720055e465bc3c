"""A collection and the model that was fitted on it: what `CategoryDiscovery` holds between its calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.class_number.estimate import KEstimate
from ltgcd.common.errors import InputError
from ltgcd.data.collection import UNLABELLED, Collection
from ltgcd.data.items import ImageFiles, Items, Texts, Vectors
from ltgcd.data.labels import text_array
from ltgcd.data.python_labels import with_novel_labels
from ltgcd.data.row_ids import as_text
from ltgcd.discovery.assignments import core
from ltgcd.discovery.classes import numbered, table_of
from ltgcd.discovery.discover import status_of
from ltgcd.discovery.extend import extend
from ltgcd.discovery.rehearsal import Calibrations
from ltgcd.features.cache import FeatureStore, differing_features
from ltgcd.features.views import CachedViews, VectorViews, Views
from ltgcd.training.model import FittedModel

OWNER = "The collection"  # in sentences about what a person has given for its items


@dataclass(frozen=True)
class FittedCollection:
    """N items with what people said of them and what was found. A class is a number here, a place in `classes`.

    Attributes
    ----------
    fitted : FittedModel
        The model, with the classes of all updates.
    classes : list
        The label of each class, as the user has it: the classes with labelled items of the fit, then the others.
    known : ndarray of bool, shape (K,)
        Whether each class has a label that people gave it.
    x : ndarray of float32, shape (N, D)
        Vectors.
    given : ndarray of int64, shape (N,)
        Class that people gave an item, -1 without.
    labels : ndarray of int64, shape (N,)
        Class that an item has got.
    confidence : ndarray of float32, shape (N,)
        Probability that it is right.
    unsure : ndarray of bool, shape (N,)
        Items whose class is more likely wrong than right.
    ids : list or None
        Ids of the items, of any kind, where they have any of their own; else they are the numbers of their rows.
    estimate : KEstimate or None
        The estimate of the number of classes, if it was not given.
    calibration_off : tuple of two floats or None
        By how much confidences were off in rehearsals, and by how much chance alone would put them off.
    features_key : dict or None
        What the vectors were made with, where ltgcd made them.
    junk : ndarray of bool, shape (N,), or None
        Items that people have taken out.
    next_number : int
        First number that no novel category ever had; 0 where it follows from the labels of the classes.
    calibrations : Calibrations or None
        What confidences are worth, where that was rehearsed.
    appended : int
        Number of classes that updates have added since the last fit.
    source : ndarray of int64, shape (N,), or None
        Labels that the items came with, -1 without, in a run of which people have said more since; else `given`.
    """

    fitted: FittedModel
    classes: list[Any]
    known: NDArray[np.bool_]
    x: NDArray[np.float32]
    given: NDArray[np.int64]
    labels: NDArray[np.int64]
    confidence: NDArray[np.float32]
    unsure: NDArray[np.bool_]
    ids: list[Any] | None
    estimate: KEstimate | None
    calibration_off: tuple[float | None, float | None]
    features_key: dict[str, Any] | None
    junk: NDArray[np.bool_] | None = None
    next_number: int = 0
    calibrations: Calibrations | None = None
    appended: int = 0
    source: NDArray[np.int64] | None = None

    @property
    def n_old(self) -> int:
        """Number of classes that had labelled items in the fit."""
        return self.fitted.n_old

    @property
    def status(self) -> NDArray[np.str_]:
        """Status (N,) of the items: known, novel, unsure or junk."""
        status = status_of(self.known[self.labels], self.unsure)
        return status if self.junk is None else np.where(self.junk, "junk", status)

    @property
    def labelled_in_fit(self) -> NDArray[np.int64]:
        """Class (N,) that people gave an item, where the fit knew it: those named later are -1, for who asks for y."""
        return np.where(self.given < self.n_old, self.given, UNLABELLED)

    @property
    def source_labels(self) -> NDArray[np.int64]:
        """Labels (N,) by which likeness is measured, as on the page of the run: without what a review added."""
        return self.given if self.source is None else self.source

    def names(self) -> list[str]:
        """The labels of the classes as text."""
        return [str(label) for label in self.classes]

    def ids_or(self, ids: Sequence[Any] | None) -> pa.StringArray:
        """The ids that were asked for, one for each item; else the items' own, or the numbers of their rows."""
        ids = self.ids if ids is None else ids
        if ids is None:
            return pa.array(np.arange(len(self.x))).cast(pa.string())
        if len(ids) != len(self.x):
            raise InputError(f"There are {len(ids)} ids for {len(self.x)} items; give one for each.")
        return as_text(ids)

    def table(self, ids: Sequence[str] | None = None) -> pa.Table:
        """The assignments, as a run keeps them."""
        off = (None if value is None else round(value, 4) for value in self.calibration_off)
        note: dict[str, Any] = dict(zip(("calibration_error", "calibration_chance"), off, strict=True))
        classes = numbered(self.names(), self.known.tolist(), self.next_number)
        return table_of(self.ids_or(ids), self.labels, self.confidence, self.unsure, classes, note, self.junk)

    def collection(
        self, items: Items | Sequence[str] | Sequence[Path] | None = None, ids: Sequence[str] | None = None
    ) -> Collection:
        """The items with the labels that people gave, for the page: texts, image files or the vectors alone."""
        names = tuple(self.names()[: self.n_old])
        return Collection(self.ids_or(ids), _shown(items, self.x), self.labelled_in_fit, names)

    def views(self, x: NDArray[np.float32], store: FeatureStore | None, rows: NDArray[np.int64] | None = None) -> Views:
        """Test views of new items, or of some `rows` of them, as the model takes them; other features are refused."""
        if store is not None and (difference := differing_features(self.features_key, store.key)):
            raise InputError(f"This model can't label these features: {difference}")
        if self.fitted.regime == "frozen":
            return VectorViews(x if rows is None else x[rows])
        if store is None:
            raise InputError("The last stage of a backbone was trained; give the cached activations with store=….")
        cached = cached_views(store, len(x))
        return cached if rows is None else cached.select(rows)


def cached_views(store: FeatureStore, n: int) -> CachedViews:
    """The views of n items that a store holds in the same order."""
    if len(store) != n:
        raise InputError(f"The store holds {len(store)} items, but X has {n}; give the features of the same items.")
    return CachedViews(store, np.arange(n, dtype=np.int64))


def add_items(
    held: FittedCollection,
    x: NDArray[np.float32],
    labels: tuple[NDArray[np.int64], list[Any]],
    rows: NDArray[np.int64],
    ids: list[Any] | None = None,
    store: FeatureStore | None = None,
    random_state: int = 0,
) -> FittedCollection:
    """The collection with m new items: what is there stays as it is, and what no class explains is appended.

    Parameters
    ----------
    held : FittedCollection
        What is there.
    x : ndarray of float32, shape (M, D)
        Vectors.
    labels : tuple
        What people say of them: a code each, -1 without, and the classes that these are places in.
    rows : ndarray of int64, shape (m,)
        Which of them are new, as `ltgcd.discovery.new_rows.new_rows` tells.
    ids : list, optional
        Ids of all items with the new ones.
    store : FeatureStore, optional
        Cached activations of the M items, for a model whose last stage was trained.
    random_state : int
        Seed.
    """
    views = held.views(x, store, rows)
    if not len(rows):
        return held
    x, codes, classes = x[rows], labels[0][rows], labels[1]
    number = {label: code for code, label in enumerate(held.classes)}
    unheard = [label for code, label in enumerate(classes) if label not in number and (codes == code).any()]
    number |= {label: len(held.classes) + i for i, label in enumerate(unheard)}
    given = np.array([*(number.get(label, UNLABELLED) for label in classes), UNLABELLED], dtype=np.int64)[codes]
    sure, leaning = core(held.labels, ~held.unsure), held.labels
    if held.junk is not None:
        sure, leaning = (np.where(held.junk, UNLABELLED, each) for each in (sure, leaning))
    both = np.concatenate([held.x, x])
    done = extend(held.fitted, views, both, held.labelled_in_fit, sure, given, random_state, leaning)
    names = [*held.classes, *unheard]
    return replace(
        held,
        fitted=done.fitted,
        classes=with_novel_labels(names, held.n_old, done.fitted.k),
        known=np.append(held.known, np.arange(len(held.classes), done.fitted.k) < len(names)),
        x=both,
        given=np.concatenate([held.given, given]),
        labels=np.concatenate([held.labels, done.labels]),
        confidence=np.concatenate([held.confidence, done.confidence]),
        unsure=np.concatenate([held.unsure, done.unsure]),
        junk=None if held.junk is None else np.append(held.junk, np.zeros(len(given), dtype=np.bool_)),
        ids=ids,
        appended=held.appended + done.fitted.k - len(held.classes),
        source=None if held.source is None else np.append(held.source, _as_source(held.source, held.given, given)),
    )


def _as_source(source: NDArray[np.int64], classes: NDArray[np.int64], given: NDArray[np.int64]) -> NDArray[np.int64]:
    """Classes (M,) given to new items, with the numbers that the labels of a run have; -1 without.

    A class has the number that most items of it came with; one that none came with gets a number of its own.
    """
    found = np.full(len(given), UNLABELLED)
    for one in np.unique(given[given != UNLABELLED]):
        came_with = source[(classes == one) & (source != UNLABELLED)]
        found[given == one] = np.bincount(came_with).argmax() if len(came_with) else source.max(initial=-1) + 1 + one
    return found


def _shown(items: Items | Sequence[Any] | None, x: NDArray[np.float32]) -> Items:
    """What the page shows: texts (str), image files (Path), or nothing but the vectors."""
    if items is None:
        return Vectors(x)
    if isinstance(items, Items):
        return items
    if len(items) != len(x):
        raise InputError(f"There are {len(items)} items for {len(x)} vectors; give one for each.")
    if all(isinstance(one, str) for one in items):
        return Texts(text_array(items, "a text", OWNER).cast(pa.large_string()))
    if all(isinstance(one, Path) for one in items):
        return ImageFiles(Path(), text_array((str(one.resolve()) for one in items), "a file name", OWNER))
    raise InputError("items are texts (str) or image files (pathlib.Path), one for each vector.")
