"""A partly labelled collection, and the truth about it, which only evaluation may see."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.data.items import ImageFiles, Index, Items

UNLABELLED = -1


@dataclass(frozen=True, eq=False)
class Collection:
    """Items of which some are labelled. Holds nothing that is not known before discovery.

    Attributes
    ----------
    ids : pyarrow.StringArray
        One unique id an item.
    items : Items
        Image files, encoded images, texts or vectors.
    y : ndarray of int64, shape (N,)
        Position in `class_names`, or -1 for an unlabelled item.
    class_names : tuple of str
        Names of the known (Old) classes, Y_l of the paper. Never the names, nor the number, of the novel ones.
    """

    ids: pa.StringArray
    items: Items
    y: NDArray[np.int64]
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        n = len(self.ids)
        if not n == len(self.items) == len(self.y):
            raise InputError(
                f"A collection needs as many ids ({n}) and labels ({len(self.y)}) as items ({len(self.items)})."
            )
        if n == 0:
            raise InputError("The collection is empty; give at least one item.")
        check_unique(self.ids, "The collection")
        if len(self.y) and not UNLABELLED <= self.y.min() <= self.y.max() < len(self.class_names):
            raise InputError(
                f"Labels must lie between -1 (unlabelled) and {len(self.class_names) - 1}, "
                f"but range from {self.y.min()} to {self.y.max()}."
            )

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Mask of D^l, shape (N,)."""
        mask: NDArray[np.bool_] = self.y != UNLABELLED
        return mask

    @property
    def n_old(self) -> int:
        """Number of known classes |Y_l|."""
        return len(self.class_names)

    def select(self, index: Index) -> Collection:
        """Collection of some of the rows, the known classes unchanged."""
        return Collection(self.ids.take(index), self.items.select(index), self.y[index], self.class_names)

    def require_partial_labels(self, owner: str | Path = "the collection") -> None:
        """Refuse what category discovery can't work on: no labels at all, or nothing left to label."""
        if not self.labelled.any():
            raise InputError(
                f"No item is labelled in {owner}; label a few items of at least two classes (a sub-folder of images "
                "each, a column 'label' or one that --label-column names, or a labels CSV with the columns 'id,label')."
            )
        if self.labelled.all() and self._classes_are_folders(owner):
            names = ", ".join(self.class_names[:5]) + (", …" if self.n_old > 5 else "")
            raise InputError(
                f"Every sub-folder of {owner} was read as a class ({names}); put the unsorted images into "
                f"{Path(owner) / 'unlabelled'}/."
            )
        if self.labelled.all():
            raise InputError(
                f"Every item is labelled in {owner}, so there is nothing to discover; leave the label of new items "
                "empty (-1 in an .npz)."
            )

    def _classes_are_folders(self, owner: str | Path) -> bool:
        """Whether the classes are all sub-folders of a folder of images, and not what a file of labels says."""
        if not isinstance(self.items, ImageFiles) or self.items.root != Path(owner):
            return False
        return {name.partition("/")[0] for name in self.items.paths.to_pylist()} == set(self.class_names)


@dataclass(frozen=True, eq=False)
class Truth:
    """The true classes of a collection's items. Evaluation takes it; no method ever does.

    Attributes
    ----------
    ids : pyarrow.StringArray
        The ids of the collection, in its order.
    y_true : ndarray of int64, shape (N,)
        0 … n_old-1 are the known classes in the collection's order, larger ones are novel, -1 is not known.
    class_names : tuple of str
        Names of all classes, the known ones first.
    n_old : int
        Number of known classes.
    """

    ids: pa.StringArray
    y_true: NDArray[np.int64]
    class_names: tuple[str, ...]
    n_old: int

    def tells_any(self, mask: NDArray[np.bool_]) -> bool:
        """Whether the true class of at least one of the marked items is known."""
        return bool((self.y_true[mask] >= 0).any())

    def select(self, index: Index) -> Truth:
        """Truth of some of the rows."""
        return Truth(self.ids.take(index), self.y_true[index], self.class_names, self.n_old)


class Source(NamedTuple):
    """What a source holds: the collection for the methods and, if it is there, the truth for evaluation."""

    collection: Collection
    truth: Truth | None

    def with_ids(self, ids: pa.StringArray) -> Source:
        """The same items under other ids, in the same order."""
        held, truth = self.collection, self.truth
        return Source(
            Collection(ids, held.items, held.y, held.class_names),
            None if truth is None else Truth(ids, truth.y_true, truth.class_names, truth.n_old),
        )


def without_empty_classes(source: Source) -> tuple[Source, list[str]]:
    """The same items without the known classes that no item is labelled with, and the names of these.

    A class without an example can't be known, whatever a list of names says: nothing could ever be assigned to it but
    by mistake. In the truth it is a novel one.
    """
    collection, truth = source
    has_items = np.bincount(collection.y[collection.labelled], minlength=collection.n_old) > 0
    if has_items.all():
        return source, []
    kept, empty = np.flatnonzero(has_items), np.flatnonzero(~has_items)
    number = np.full(collection.n_old + 1, UNLABELLED, dtype=np.int64)  # the last one is for -1
    number[kept] = np.arange(len(kept))
    names = tuple(collection.class_names[old] for old in kept)
    lean = Collection(collection.ids, collection.items, number[collection.y], names)
    if truth is not None:
        order = [*kept.tolist(), *empty.tolist(), *range(truth.n_old, len(truth.class_names))]
        place = np.append(np.argsort(order), UNLABELLED).astype(np.int64)
        named = tuple(truth.class_names[old] for old in order)
        truth = Truth(truth.ids, place[truth.y_true], named, len(kept))
    return Source(lean, truth), [collection.class_names[old] for old in empty]


def check_unique(ids: pa.StringArray, owner: str | Path) -> None:
    """Refuse duplicate ids, naming one of them."""
    if ids.null_count:
        raise InputError(f"{owner} has {ids.null_count} items without an id; give each item one.")
    if _surely_unique(ids) or pc.count_distinct(ids).as_py() == len(ids):
        return
    counts = pc.value_counts(ids)
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    example = twice.field("values")[0].as_py()
    raise InputError(
        f"{owner} has duplicate ids ({len(twice)} of them, for example '{example}'); make every id unique."
    )


def _surely_unique(ids: pa.StringArray) -> bool:
    """Whether even the hashes of the ids differ. Sorting numbers takes seconds where counting strings takes minutes."""
    values = chain.from_iterable(ids.slice(start, 65536).to_pylist() for start in range(0, len(ids), 65536))
    hashes = np.sort(np.fromiter(map(hash, values), np.int64, len(ids)))
    return bool((hashes[1:] != hashes[:-1]).all())


def positions(ids: pa.StringArray, among: pa.StringArray, where: str | Path, cure: str) -> NDArray[np.int64]:
    """Position of each id in `among`; if one is missing, a sentence that names it, `where` it is not, and a `cure`."""
    if ids.equals(among):  # as a run writes its own files: nothing has to be looked up
        return np.arange(len(ids), dtype=np.int64)
    at = pc.index_in(ids, among)
    if at.null_count:
        example = ids.filter(pc.is_null(at))[0].as_py()
        raise InputError(f"{at.null_count} items are not in {where} (for example '{example}'); {cure}.")
    return np.asarray(at.to_numpy(zero_copy_only=False), dtype=np.int64)


def seed_after(seed: int, steps: int) -> int:
    """Another seed, some steps on; behind the largest that NumPy takes it begins again at 0."""
    return (seed + steps) % 2**32


def imbalance_factor(counts: NDArray[np.int64]) -> float:
    """λ = n_max / n_min over the classes that occur; 1 where none does."""
    present = counts[counts > 0]
    return float(present.max() / present.min()) if len(present) else 1.0
