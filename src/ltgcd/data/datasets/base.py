"""What a benchmark dataset is: where it comes from, its official classes, and how its files become a pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.data.items import Items

Part = Literal["train", "test"]


@dataclass(frozen=True, eq=False)
class Pool:
    """A fully labelled part of a dataset, in its official order: what a split is drawn from.

    Attributes
    ----------
    ids : pyarrow.StringArray
        One unique id an item.
    items : Items
        Images or texts, not loaded.
    y : ndarray of int64, shape (N,)
        Official class id, 0-based, below ``len(class_names)``.
    class_names : tuple of str
        Official names in the order of the ids.
    """

    ids: pa.StringArray
    items: Items
    y: NDArray[np.int64]
    class_names: tuple[str, ...]


@dataclass(frozen=True)
class Archive:
    """A file that may be fetched without an account: its address, its size in bytes and its checksum."""

    url: str
    file: str
    size: int
    checksum: str  # "md5:…" or "sha256:…"


@dataclass(frozen=True)
class Dataset:
    """A benchmark. `read` takes the dataset's folder and a part, and returns a pool.

    Attributes
    ----------
    name, title : str
        Name on the command line and in prose.
    kind : {"image", "text"}
        What its items are.
    n_classes, n_old : int
        All classes, and those labelled in the standard protocol (docs/methods.md §1.1).
    old_classes : callable
        ``old_classes(seed)`` gives the Old classes in protocol order; where no protocol fixes them, all classes in the
        order of the seed, of which the first `n_old` are Old. New classes that it does not list follow ascending.
    licence, origin, citation : str
        A line each: what may be done with it, where it comes from, what to cite.
    archives : tuple of Archive
        What `ltgcd datasets get` fetches; empty where nothing may be fetched by a script.
    how : str
        A sentence that says how to get it by hand, where a script can't or may not.
    read : callable
        ``read(folder, part)`` returns the pool of a part, from the original layout or Hugging Face parquet.
    heads : dict
        Preset of a long-tail split to its largest class: (n_1 of D^l, n_1 of D^u). Empty where none is published.
    preset : str
        Preset of a split where none is asked for (`ltgcd.data.splits.SplitConfig`).
    long_tailed : bool
        Whether its classes have a long tail as they are, so that none is made where one is asked for.
    folders : tuple of str
        Names under which its folder is usually found, besides its own name.
    """

    name: str
    title: str
    kind: Literal["image", "text"]
    n_classes: int
    n_old: int
    old_classes: Callable[[int], list[int]]
    licence: str
    origin: str
    citation: str
    how: str
    read: Callable[[Path, Part], Pool]
    archives: tuple[Archive, ...] = ()
    heads: dict[str, tuple[int, int]] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    preset: str = "natural"
    long_tailed: bool = False

    @property
    def files(self) -> str:
        """The files of its original layout, relative to its folder."""
        return str(getattr(self.read, "expected", "*"))


def fixed_classes(classes: Sequence[int]) -> Callable[[int], list[int]]:
    """Old classes that a published protocol fixes, whatever the seed."""
    return lambda seed: list(classes)


def random_order(n_classes: int) -> Callable[[int], list[int]]:
    """All classes in a random order, for a dataset without a published protocol: the first `n_old` are Old."""
    return lambda seed: [int(c) for c in np.random.RandomState(seed).permutation(n_classes)]


def class_order(dataset: Dataset, seed: int) -> list[int]:
    """Old classes in protocol order, then the New ones: the position is the remapped label."""
    listed = dataset.old_classes(seed)
    return listed + sorted(set(range(dataset.n_classes)) - set(listed))
