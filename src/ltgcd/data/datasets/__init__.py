"""The benchmarks by name, where they lie on this machine, and how one becomes a pool."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import numpy as np

from ltgcd.common.errors import InputError
from ltgcd.data.datasets import (
    banking77,
    cifar10,
    cifar100,
    clinc150,
    cub200,
    fgvc_aircraft,
    herbarium19,
    imagenet100,
    inaturalist18,
    plankton,
    stanford_cars,
)
from ltgcd.data.datasets.base import Archive, Dataset, Part, Pool, class_order

__all__ = [
    "DATASETS",
    "Archive",
    "Dataset",
    "Part",
    "Pool",
    "class_order",
    "data_root",
    "folder_names",
    "get_dataset",
    "is_dataset",
    "is_packed",
    "load_pool",
    "locate",
]

_MODULES = (
    cifar10,
    cifar100,
    imagenet100,
    cub200,
    stanford_cars,
    fgvc_aircraft,
    herbarium19,
    inaturalist18,
    plankton,
    clinc150,
    banking77,
)
DATASETS: dict[str, Dataset] = {module.DATASET.name: module.DATASET for module in _MODULES}


def get_dataset(name: str) -> Dataset:
    """Dataset of a name. The name's long-tailed form (``cifar100-lt``) is the same dataset: the preset makes the tail.

    Raises
    ------
    InputError
        With the names there are, if this is none of them.
    """
    plain = _plain(name)
    if plain in DATASETS:
        return DATASETS[plain]
    close = difflib.get_close_matches(plain, DATASETS, n=1)
    hint = f" (did you mean '{close[0]}'?)" if close else ""
    raise InputError(f"There is no dataset '{name}'{hint}; choose one of {', '.join(DATASETS)}.")


def is_dataset(name: str) -> bool:
    """Whether `get_dataset` knows the name."""
    return _plain(name) in DATASETS


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").removesuffix("-lt")


def data_root(explicit: Path | str | None = None) -> Path:
    """Folder in which the datasets lie, each in its own.

    In this order: `explicit`, the environment's ``LTGCD_DATA``, ``../shared/data`` if it is there, the user's cache.
    """
    chosen = explicit or os.environ.get("LTGCD_DATA")
    if chosen:
        return Path(chosen).expanduser()
    shared = Path("../shared/data")
    if shared.is_dir():
        return shared
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "ltgcd" / "datasets"


def folder_names(dataset: Dataset) -> tuple[str, ...]:
    """Names under which a dataset's folder is looked for, the first being where a download goes."""
    return tuple(dict.fromkeys((dataset.name, dataset.name.replace("-", "_"), *dataset.folders)))


def locate(dataset: Dataset, root: Path) -> Path | None:
    """Folder of a dataset below `root`, or None. Remains of an unfinished download do not count."""
    for name in folder_names(dataset):
        folder = root / name
        if folder.is_dir() and any(_is_content(entry.name) for entry in folder.iterdir()):
            return folder
    return None


def load_pool(name: str, root: Path | str | None = None, part: Part = "train") -> Pool:
    """Read a part of a dataset from disk.

    Parameters
    ----------
    name : str
        Name of the dataset, with or without ``-lt``.
    root : path, optional
        Folder of all datasets; see `data_root`.
    part : {"train", "test"}
        Official part.

    Raises
    ------
    InputError
        If it is not there (with how to get it), is damaged, or has not all of its classes.
    """
    dataset, where = get_dataset(name), data_root(root)
    folder = locate(dataset, where)
    if folder is None:
        cure = f"run 'ltgcd datasets get {dataset.name}'." if dataset.archives else f"get it by hand: {dataset.how}"
        raise InputError(
            f"{dataset.title} is not in {where} (looked for the folders {', '.join(folder_names(dataset))}); set "
            f"LTGCD_DATA to the folder that holds it, or {cure}"
        )
    pool = dataset.read(folder, part)
    if len(pool.class_names) != dataset.n_classes:
        raise InputError(
            f"{folder} has {len(pool.class_names)} classes, but {dataset.title} has {dataset.n_classes}; it is "
            "incomplete or another dataset."
        )
    empty = np.flatnonzero(np.bincount(pool.y, minlength=dataset.n_classes) == 0)
    if part == "train" and len(empty):
        raise InputError(
            f"{folder} has no items of {len(empty)} of the {dataset.n_classes} classes of {dataset.title} (for "
            f"example '{pool.class_names[empty[0]]}'); it is incomplete or another selection of classes."
        )
    return pool


def is_packed(file: str) -> bool:
    """Whether a file has to be unpacked before it is of use."""
    return file.endswith((".tar", ".tar.gz", ".tgz", ".zip"))


def _is_content(name: str) -> bool:
    return not (name.startswith(".") or name.endswith(".part") or is_packed(name))
