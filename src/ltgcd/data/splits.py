"""Known and novel classes, the labelled part and long-tail profiles: the data protocol of docs/methods.md §1.

Every draw uses NumPy's legacy generator, whose stream is frozen, and permutes places in a pool: for the same items in
the same order (preset, λ, seed) gives the same split on every machine and with every NumPy. A source of a user's own is
drawn from in the order of its content, so that the order of its rows has no say. The named datasets are drawn from in
the order of their files, as GCD's code does: with the same rows in another order (a shuffled copy of CIFAR-100, say)
other items are drawn. The checksum of a split tells whether two are the same.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from ltgcd.common.checksums import bytes_are_as_written, write_table
from ltgcd.common.errors import InputError
from ltgcd.common.files import atomic_path, checksum_rows, locked, read_metadata
from ltgcd.common.outputs import check_folder, check_free
from ltgcd.data.collection import UNLABELLED, Collection, Source, Truth, imbalance_factor
from ltgcd.data.content_ids import content_digests
from ltgcd.data.datasets import get_dataset, is_dataset, load_pool
from ltgcd.data.datasets.base import Pool, class_order
from ltgcd.data.items import Vectors
from ltgcd.data.labels import names_of
from ltgcd.data.parquet import parquet_file
from ltgcd.data.sources import read_source
from ltgcd.data.write_source import labels_table, write_embeddings, write_manifest

Preset = Literal["paper-counts", "text-literal", "bacon", "gcd", "natural"]
LabelSampling = Literal["per-class", "instance"]
LONG_TAIL_PRESETS = ("paper-counts", "text-literal", "bacon")
# D^l has a profile of its own, on top of D^u's: a known class is as large in D^u as a novel one of its rank, and its
# labelled items were gathered beside the collection. In the other presets they are taken out of it.
LABELS_BESIDE = ("paper-counts",)


@dataclass(frozen=True)
class SplitConfig:
    """What decides a split, together with the dataset's files.

    Attributes
    ----------
    preset : str
        ``paper-counts``: two exponential profiles, over the Old classes for D^l and over all classes for D^u, with the
        totals of the paper's statistics table. ``text-literal``: one profile from the full class size, as the paper's
        text says. ``bacon``: one profile from 90 % of the class size (BaCon). ``gcd``: all items, labelled items drawn
        by instance (Vaze et al.). ``natural``: all items, labelled items drawn per class.
    imbalance : float
        λ = n_1 / n_C of the long-tail presets.
    seed : int
        Decides ranks and draws, and the Old classes where no protocol fixes them.
    n_old, n_new : int or None
        Numbers of Old and New classes, taken from the dataset's class order; None keeps the protocol's.
    label_sampling : str or None
        How labelled items are drawn from the Old classes; None takes the preset's own way.
    label_share : float
        Share of the Old items that is labelled (not used by ``paper-counts``).
    """

    preset: Preset = "paper-counts"
    imbalance: float = 10.0
    seed: int = 0
    n_old: int | None = None
    n_new: int | None = None
    label_sampling: LabelSampling | None = None
    label_share: float = 0.5


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of a pool, in a shuffled order that tells nothing about their classes.

    `y_true` counts through the class order (Old first); `labelled` marks D^l; `classes` holds the pool's class ids in
    that order.
    """

    rows: NDArray[np.int64]
    labelled: NDArray[np.bool_]
    y_true: NDArray[np.int64]
    classes: NDArray[np.int64]
    n_old: int

    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Items a class in D^l and in D^u, each of shape (number of classes,)."""
        k = len(self.classes)
        return (
            np.bincount(self.y_true[self.labelled], minlength=k).astype(np.int64),
            np.bincount(self.y_true[~self.labelled], minlength=k).astype(np.int64),
        )


# ---------------------------------------------------------------- profiles and draws


def exponential_profile(head: int, imbalance: float, n_classes: int) -> NDArray[np.int64]:
    """n_i = ⌊n_1 · λ^(−i/(C−1))⌋ for i = 0 … C−1 (docs/methods.md §1.5).

    The small term keeps a value that is whole in exact arithmetic from falling below it.
    """
    if imbalance < 1:
        raise InputError(f"The imbalance factor λ must be at least 1 (1 = balanced), not {imbalance:g}.")
    exponent = np.arange(n_classes) / max(n_classes - 1, 1)
    counts = np.floor(head * imbalance**-exponent + 1e-9).astype(np.int64)
    if n_classes and counts[-1] < 1:
        raise InputError(
            f"λ = {imbalance:g} leaves the smallest class without items (the largest has {head}); use a smaller λ."
        )
    return counts


def draw_instances(is_old: NDArray[np.bool_], share: float, seed: int) -> NDArray[np.bool_]:
    """Labelled items by instance (docs/methods.md §1.2): ``int(share · n)`` of the n Old items, uniformly."""
    old = np.flatnonzero(is_old)
    labelled = np.zeros(len(is_old), dtype=np.bool_)
    labelled[old[np.random.RandomState(seed).choice(len(old), size=int(share * len(old)), replace=False)]] = True
    return labelled


def draw_per_class(
    y: NDArray[np.int64], taken: NDArray[np.int64], random: np.random.RandomState
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A random order within each class: rows sorted by class, and the rank of each within its class.

    Rows of class c with rank below ``taken[c]`` are kept. One shuffle serves all classes.
    """
    shuffled = random.permutation(len(y))
    rows = shuffled[np.argsort(y[shuffled], kind="stable")].astype(np.int64)
    sizes = np.bincount(y, minlength=len(taken))
    rank = np.arange(len(y)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    keep = rank < taken[y[rows]]
    return rows[keep], rank[keep].astype(np.int64)


def labelled_share(n: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    """Labelled items of classes with n items: the ceiling of the share, but not all of a class of two or more."""
    return np.where(n >= 2, np.minimum(np.ceil(share * n - 1e-9), n - 1), n).astype(np.int64)


# ---------------------------------------------------------------- the split


def draw_split(
    y: NDArray[np.int64], order: list[int], n_old: int, config: SplitConfig, heads: tuple[int, int] | None = None
) -> Split:
    """Draw a split from the pool's official labels.

    Parameters
    ----------
    y : ndarray of int64, shape (N,)
        Official class ids of the pool, in its order; another order of the same items is another split.
    order : list of int
        Class ids, Old first.
    n_old : int
        How many of `order` are Old, unless the config says otherwise.
    config : SplitConfig
        Preset, λ, seed and class numbers.
    heads : (int, int), optional
        n_1 of D^l and of D^u for ``paper-counts``; by default 24 % and 56 % of the smallest class, as for CIFAR-100.
    """
    if not 1 <= config.imbalance < np.inf:
        raise InputError(f"The imbalance factor λ must be at least 1 (1 = balanced), not {config.imbalance:g}.")
    if not 0 <= config.seed < 2**32:
        raise InputError(f"The seed must lie between 0 and {2**32 - 1}, not at {config.seed}.")
    if not 0 < config.label_share < 1:
        raise InputError(f"The labelled share must lie between 0 and 1, not {config.label_share:g}.")
    classes, n_old = _choose_classes(order, n_old, config)
    position = np.full(max(int(y.max()), int(classes.max())) + 1, UNLABELLED, dtype=np.int64)
    position[classes] = np.arange(len(classes))
    pool_rows = np.flatnonzero(position[y] >= 0)
    target = position[y[pool_rows]]
    sizes = np.bincount(target, minlength=len(classes)).astype(np.int64)
    if (sizes == 0).any():
        raise InputError(f"Class {int(classes[sizes.argmin()])} has no items in this pool; check the dataset's files.")
    random = np.random.RandomState(config.seed)
    n_labelled, n_unlabelled = _wanted_counts(sizes, n_old, config, heads, random)
    if (n_labelled + n_unlabelled > sizes).any():
        short = int((n_labelled + n_unlabelled - sizes).argmax())
        raise InputError(
            f"Class {int(classes[short])} has {sizes[short]} items, but {n_labelled[short] + n_unlabelled[short]} are "
            f"needed by preset {config.preset} at λ = {config.imbalance:g}; use another preset."
        )
    rows, rank = draw_per_class(target, n_labelled + n_unlabelled, random)
    labelled = rank < n_labelled[target[rows]]
    if _sampling(config) == "instance":
        in_pool_order = np.sort(rows)
        labelled = draw_instances(target[in_pool_order] < n_old, config.label_share, config.seed)
        rows = in_pool_order
    shuffled = random.permutation(len(rows))
    rows, labelled = rows[shuffled], labelled[shuffled]
    return Split(pool_rows[rows].astype(np.int64), labelled, target[rows].astype(np.int64), classes, n_old)


def _sampling(config: SplitConfig) -> LabelSampling:
    if config.preset == "paper-counts":
        if config.label_sampling is not None:
            raise InputError("Preset paper-counts fixes the number of labelled items a class; drop the label sampling.")
        return "per-class"
    return config.label_sampling or ("instance" if config.preset == "gcd" else "per-class")


def _choose_classes(order: list[int], n_old: int, config: SplitConfig) -> tuple[NDArray[np.int64], int]:
    total = len(order)
    old = n_old if config.n_old is None else config.n_old
    if not 1 <= old <= total:
        raise InputError(f"{old} old classes were asked for, but there are {total} classes; ask for 1 to {total}.")
    new = total - old if config.n_new is None else config.n_new
    if not 0 <= new <= total - old:
        raise InputError(
            f"{new} new classes were asked for beside {old} old ones, but there are {total} classes; ask for 0 to "
            f"{total - old}."
        )
    return np.array(order[: old + new], dtype=np.int64), old


def _wanted_counts(
    sizes: NDArray[np.int64],
    n_old: int,
    config: SplitConfig,
    heads: tuple[int, int] | None,
    random: np.random.RandomState,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Items a class in D^l and D^u. The class of each rank is drawn first, and shared by both profiles."""
    k, smallest = len(sizes), int(sizes.min())
    is_old = np.arange(k) < n_old
    if config.preset == "paper-counts":
        ranked = random.permutation(k)
        head_l, head_u = heads or (int(0.24 * smallest), int(0.56 * smallest))
        n_labelled, n_unlabelled = np.zeros(k, dtype=np.int64), np.zeros(k, dtype=np.int64)
        n_labelled[ranked[is_old[ranked]]] = exponential_profile(head_l, config.imbalance, n_old)
        n_unlabelled[ranked] = exponential_profile(head_u, config.imbalance, k)
        return n_labelled, n_unlabelled
    total = sizes
    if config.preset in LONG_TAIL_PRESETS:
        head = smallest if config.preset == "text-literal" else int(0.9 * smallest + 1e-9)
        total = np.zeros(k, dtype=np.int64)
        total[random.permutation(k)] = exponential_profile(head, config.imbalance, k)
    n_labelled = np.where(is_old, labelled_share(total, config.label_share), 0)
    return n_labelled, total - n_labelled


# ---------------------------------------------------------------- the split as a source


def as_source(pool: Pool, split: Split, name: str, config: SplitConfig) -> tuple[Source, dict[str, Any]]:
    """The split as a collection and its truth, with the realised counts, λ of both parts and a checksum."""
    class_names = tuple(pool.class_names[c] for c in split.classes)
    ids = pool.ids.take(split.rows)
    y = np.where(split.labelled, split.y_true, UNLABELLED)
    collection = Collection(ids, pool.items.select(split.rows), y, class_names[: split.n_old])
    truth = Truth(ids, split.y_true, class_names, split.n_old)
    n_labelled, n_unlabelled = split.counts()
    part = pa.array(np.where(split.labelled, "labelled", "unlabelled"))
    summary = {
        "dataset": name,
        **asdict(config),
        "n_labelled": int(n_labelled.sum()),
        "n_unlabelled": int(n_unlabelled.sum()),
        "n_classes": len(class_names),
        "n_old": split.n_old,
        "n_new": len(class_names) - split.n_old,
        "lambda_labelled": imbalance_factor(n_labelled),
        "lambda_unlabelled": imbalance_factor(n_unlabelled),
        "label_sampling": _sampling(config),
        "counts": {
            name: [int(labelled), int(unlabelled)]
            for name, labelled, unlabelled in zip(class_names, n_labelled, n_unlabelled, strict=True)
        },
        "checksum": checksum_rows(ids, part, names_of(split.y_true, class_names)),
    }
    return Source(collection, truth), summary


def make_split(name: str, folder: Path, *, data: Path | None = None, **settings: Any) -> dict[str, Any]:  # noqa: ANN401
    """Split a dataset, or a fully labelled source of the user's, and write it.

    Parameters
    ----------
    name : str
        Name of a dataset (``-lt`` may follow it), or the path of a source.
    folder : path
        Where ``split.parquet`` goes, and ``labels.csv`` with the labelled items alone, for ``--labels`` on the source
        that was split; for embeddings also ``split.npz``, the source with the vectors.
    data : path, optional
        Folder of the datasets.
    **settings
        Fields of `SplitConfig`; None stands for the default.

    Returns
    -------
    dict
        The summary of `as_source`, and `path`: the source to go on with.
    """
    known = {key: value for key, value in settings.items() if value is not None}
    own = Path(name)
    # A folder of a dataset's name is most likely that dataset; "./name" says that it is not.
    is_own = bool(own.suffix) or (own.is_dir() and not is_dataset(name))
    check_folder(folder, (own,) if is_own else ())
    if is_own:
        pool, order, n_old, rows = _own_pool(own, known.get("seed", 0))
        config = _config({"preset": "natural", **known})
        split = draw_split(pool.y[rows], order, n_old, config)
        split = replace(split, rows=rows[split.rows])
    else:
        dataset = get_dataset(name)
        # "cifar100-lt" and "cub200-lt" ask for a long tail; a natural one needs none made.
        made = name.lower().endswith("-lt") and dataset.preset == "gcd" and not dataset.long_tailed
        config = _config({"preset": "paper-counts" if made else dataset.preset, **known})
        pool, order = load_pool(name, data), class_order(dataset, config.seed)
        split = draw_split(pool.y, order, dataset.n_old, config, dataset.heads.get(config.preset))
    source, summary = as_source(pool, split, own.name, config)
    collection, path = source.collection, folder / "split.parquet"
    labels, result = _labels_csv(collection), path
    _check_same_split(folder, summary["checksum"])  # before the lock, so that a folder which is refused stays as it is
    with locked(folder, "ltgcd split", leaves_lock=False):
        _check_same_split(folder, summary["checksum"])
        _check_unchanged(folder, labels)
        if isinstance(collection.items, Vectors):
            # The description comes first: if we are killed between the two, the same command may go on.
            write_table(path, labels_table(source, {"split": summary}))
            result, x = folder / "split.npz", collection.items.x
            write_embeddings(result, x, collection.ids, collection.y, collection.class_names, source.truth)
        else:
            write_manifest(path, source, {"split": summary})
        with atomic_path(folder / "labels.csv") as temporary:
            temporary.write_bytes(labels)
    return {**summary, "path": str(result)}


def _labels_csv(collection: Collection) -> bytes:
    labelled, stream = collection.labelled, pa.BufferOutputStream()
    names = names_of(collection.y[labelled], collection.class_names)
    pacsv.write_csv(pa.table({"id": collection.ids.filter(pa.array(labelled)), "label": names}), stream)
    return stream.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _check_unchanged(folder: Path, labels: bytes) -> None:
    """Refuse to write over what somebody has changed since: labels.csv is there to be added to."""
    table = folder / "labels.csv"
    changed = [path for path in (folder / "split.parquet", folder / "split.npz") if path.is_file()]
    changed = [path for path in changed if not bytes_are_as_written(path)]
    if os.path.lexists(table) and not (table.is_file() and table.read_bytes() == labels):
        changed.append(table)
    if changed:
        raise InputError(
            f"{changed[0]} is not as 'ltgcd split' writes it: somebody has changed it, and it is not overwritten; give "
            "a new folder with --out, or remove it."
        )


def _config(settings: dict[str, Any]) -> SplitConfig:
    for key, choices in (("preset", get_args(Preset)), ("label_sampling", get_args(LabelSampling))):
        if key in settings and settings[key] not in choices:
            raise InputError(f"There is no {key.replace('_', ' ')} '{settings[key]}'; choose {', '.join(choices)}.")
    return SplitConfig(**settings)


def _own_pool(path: Path, seed: int) -> tuple[Pool, list[int], int, NDArray[np.int64]]:
    """A user's source as a pool, its classes in the order of the seed, half their number, and its rows by content."""
    collection, truth = read_source(path)
    y = collection.y if truth is None else truth.y_true
    names = collection.class_names if truth is None else truth.class_names
    if (y == UNLABELLED).any():
        raise InputError(
            f"{path} has {(y == UNLABELLED).sum()} items of unknown class; a benchmark split needs every class."
        )
    order = np.random.RandomState(seed).permutation(len(names)).tolist()
    rows = _by_content(collection, y, names)
    return Pool(collection.ids, collection.items, y, names), order, len(names) // 2, rows


def _by_content(collection: Collection, y: NDArray[np.int64], names: tuple[str, ...]) -> NDArray[np.int64]:
    """Rows in the order of what their items are (images are read for it); copies by class, then by id."""
    columns = {"content": content_digests(collection.items), "class": names_of(y, names), "id": collection.ids}
    return np.asarray(pc.sort_indices(pa.table(columns), [(name, "ascending") for name in columns]), dtype=np.int64)


def _check_same_split(folder: Path, checksum: str) -> None:
    """Refuse to overwrite another split; the same one may be written again."""
    path = folder / "split.parquet"
    if not path.is_file():
        check_free(folder, "split")
        return
    # A run has a table of this name too, but no split is noted in it.
    if read_metadata(parquet_file(path).schema_arrow).get("split", {}).get("checksum") != checksum:
        raise InputError(f"{folder} holds another split or run; give a new folder with --out, or remove this one.")
