"""How benchmarks lie on disk: a folder a class, listed files, Hugging Face parquet. No image is opened here.

A reader takes the dataset's folder and a part, and returns a pool, or None where its layout is not there. What is
there but damaged is said in one sentence (`InputError`).
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.data.datasets.base import Part, Pool
from ltgcd.data.images import is_image_name
from ltgcd.data.items import ImageFiles, Items, ParquetImages, Texts
from ltgcd.data.labels import class_label_columns, codes_of
from ltgcd.data.parquet import image_column, parquet_file

Reader = Callable[[Path, Part], Pool | None]
# Source ids in the official order of the classes; a class that is left out takes its items along.
Order = Callable[[Sequence[str], Path], list[int]]

SAME_NAMES: Mapping[Part, tuple[str, ...]] = {"train": ("train",), "test": ("test",)}


@dataclass(frozen=True)
class AnyLayout:
    """Reader that takes the first layout it finds; `expected` names the files of the original one."""

    readers: tuple[Reader, ...]
    expected: str

    def __call__(self, folder: Path, part: Part) -> Pool:
        """The pool of a part, or what was looked for."""
        for reader in self.readers:
            pool = reader(folder, part)
            if pool is not None:
                return pool
        raise InputError(
            f"{folder} does not hold the part '{part}', neither as {self.expected} nor as Hugging Face parquet; "
            "complete it or point to another folder."
        )


def any_of(*readers: Reader, expected: str) -> AnyLayout:
    """Reader that takes the first layout it finds; `expected` says in the error what it looked for."""
    return AnyLayout(readers, expected)


def folder_with(folder: Path, marker: str, *inner: str) -> Path | None:
    """First of `folder` and the folders `inner` below it that holds a file or folder named `marker`."""
    candidates = (folder, *(folder / name for name in inner))
    return next((candidate for candidate in candidates if (candidate / marker).exists()), None)


# ---------------------------------------------------------------- a folder a class


def class_folders(parts: Mapping[Part, str], *inner: str, classes: Sequence[str] | None = None) -> Reader:
    """Reader of ``<part>/<class>/<image>``; classes and images in the order of their names, as strings.

    Parameters
    ----------
    parts : mapping
        Name of the folder of each part.
    *inner : str
        Folders below the dataset's own in which the parts may lie.
    classes : sequence of str, optional
        The class folders that count, in official order; all by default.
    """

    def read(folder: Path, part: Part) -> Pool | None:
        base = folder_with(folder, parts[part], *inner) if part in parts else None
        if base is None:
            return None
        present = _names(base / parts[part], folders=True)
        names = present if classes is None else list(classes)
        if not set(names) & set(present):
            wanted = f"one for each of the {len(names)} classes ({names[0]}, …)" if names else "one for each class"
            raise InputError(f"{base / parts[part]} has no folders of classes; sort its images into folders, {wanted}.")
        found = set(present)
        files = [_names(base / parts[part] / name) if name in found else [] for name in names]
        paths = [f"{parts[part]}/{name}/{file}" for name, inside in zip(names, files, strict=True) for file in inside]
        y = np.repeat(np.arange(len(names)), [len(inside) for inside in files])
        ids = pa.array(paths, pa.string())
        return make_pool(ids, ImageFiles(base, ids), y, names, base / parts[part])

    return read


def _names(folder: Path, *, folders: bool = False) -> list[str]:
    """Sorted names of the images in a folder, or of the folders in it."""
    with os.scandir(folder) as entries:
        visible = [entry for entry in entries if not entry.name.startswith(".")]
    if folders:
        return sorted(entry.name for entry in visible if entry.is_dir())
    # By the name alone: asking the disk about each of millions of files would take minutes.
    return sorted(e.name for e in visible if is_image_name(e.name))


# ---------------------------------------------------------------- files that a list names


def listed_images(
    root: Path, paths: Sequence[str], y: NDArray[np.int64], class_names: Sequence[str], listing: Path
) -> Pool:
    """Pool of the images that `listing` names by their path below `root`; each must be there."""
    present: set[str] = set()
    for folder in {path.rpartition("/")[0] for path in paths}:
        if (root / folder).is_dir():
            # One listing a folder is far cheaper than one question a file.
            with os.scandir(root / folder) as entries:
                present.update(f"{folder}/{entry.name}" if folder else entry.name for entry in entries)
    missing = set(paths) - present
    if missing:
        raise InputError(
            f"{listing} lists {len(missing)} images that are not in {root} (for example '{min(missing)}'); "
            "unpack the dataset again."
        )
    ids = pa.array(paths, pa.string())
    return make_pool(ids, ImageFiles(root, ids), y, class_names, listing)


def read_pairs(path: Path) -> dict[str, str]:
    """Lines of ``key value``, in the order of the file; the value may hold spaces."""
    pairs = [line.split(maxsplit=1) for line in read_text(path).splitlines() if line.strip()]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise InputError(f"{path} should hold lines of 'key value', but is empty or cut off; unpack it again.")
    return {key: value.strip() for key, value in pairs}


def read_text(path: Path) -> str:
    """A text file of the dataset."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, "text") from error


def read_json(path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    """A JSON file of the dataset."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise unreadable(path, "JSON") from error


def unreadable(path: Path, form: str) -> InputError:
    """The error for a file that is missing or damaged."""
    trouble = "is damaged or of another form" if path.exists() else "is not there"
    return InputError(f"{path} can't be read as {form}: it {trouble}; fetch or unpack it again.")


# ---------------------------------------------------------------- Hugging Face parquet


def huggingface(
    *,
    kind: Literal["image", "text"] = "image",
    labels: tuple[str, ...] = ("label",),
    splits: Mapping[Part, tuple[str, ...]] = SAME_NAMES,
    inner: tuple[str, ...] = ("data",),
    order: Order | None = None,
) -> Reader:
    """Reader of parquet files, whole or in shards, with images or texts, integer labels and class names.

    Parameters
    ----------
    kind : {"image", "text"}
        What the rows hold.
    labels : tuple of str
        Names the label column may have.
    splits : mapping
        The files' splits that together make a part.
    inner : tuple of str
        Folders below the dataset's own in which the files may lie.
    order : callable, optional
        The classes that count and their official order, where the file's own may differ.
    """

    def read(folder: Path, part: Part) -> Pool | None:
        shards = {split: _shards(folder, split, inner) for split in splits.get(part, ())}
        if not any(shards.values()):
            return None
        for split, found in shards.items():
            if not found:
                raise InputError(f"{folder} has no {split}.parquet, which belongs to the part '{part}'; add it.")
        files = tuple(file for found in shards.values() for file in found)
        label, names = _class_label(files[0], labels)
        columns = [label, "text"] if kind == "text" else [label]
        tables = {split: pa.concat_tables([_columns(f, columns) for f in found]) for split, found in shards.items()}
        table = pa.concat_tables(tables.values())
        ids = pa.concat_arrays([numbered(split, len(rows)) for split, rows in tables.items()])
        codes = np.asarray(table.column(label).fill_null(-1).to_numpy(), dtype=np.int64)
        if len(codes) and not 0 <= codes.min() <= codes.max() < len(names):
            raise InputError(
                f"{files[0].parent} has labels from {codes.min()} to {codes.max()} for the part '{part}', but class "
                f"names for 0 to {len(names) - 1}; fetch the files again."
            )
        chosen = list(range(len(names))) if order is None else order(names, files[0])
        position = np.full(len(names), -1, dtype=np.int64)
        position[chosen] = np.arange(len(chosen))
        rows = np.flatnonzero(position[codes] >= 0).astype(np.int64)
        items: Items
        if kind == "text":
            items = Texts(table.column("text").combine_chunks().cast(pa.string()).take(rows))
        else:
            items = ParquetImages(files, image_column(files[0]), rows)
        return make_pool(ids.take(rows), items, position[codes[rows]], [names[c] for c in chosen], files[0])

    return read


def by_name(names: Sequence[str], owner: Path) -> list[int]:
    """Order of the classes by name: where files disagree on the ids, the names settle them."""
    return sorted(range(len(names)), key=names.__getitem__)


def _shards(folder: Path, split: str, inner: tuple[str, ...]) -> tuple[Path, ...]:
    """Parquet files of a split: ``train.parquet``, or all shards like ``train-00000-of-00005.parquet``."""
    for base in (folder, *(folder / name for name in inner)):
        if (base / f"{split}.parquet").is_file():
            return (base / f"{split}.parquet",)
        found = tuple(sorted(base.glob(f"{split}-[0-9]*-of-[0-9]*.parquet")))
        if found:
            total = found[-1].stem.rpartition("-")[2]
            expected = [f"{split}-{i:0{len(total)}}-of-{total}.parquet" for i in range(int(total))]
            missing = sorted(set(expected) - {file.name for file in found})
            if missing:
                raise InputError(
                    f"{base} lacks {len(missing)} of {int(total)} shards of '{split}' (for example {missing[0]}); "
                    "fetch them."
                )
            return tuple(base / name for name in expected)
    return ()


def _class_label(path: Path, candidates: tuple[str, ...]) -> tuple[str, list[str]]:
    """The label column of a parquet file and its class names, from the metadata key ``huggingface``."""
    schema = parquet_file(path).schema_arrow
    column = next((name for name in candidates if name in schema.names), None)
    if column is None:
        raise InputError(f"{path} has no column {' or '.join(map(repr, candidates))}; its columns are {schema.names}.")
    if not pa.types.is_integer(schema.field(column).type):
        raise InputError(f"{path} has labels of type {schema.field(column).type} in '{column}'; they must be integers.")
    names = class_label_columns(schema).get(column)
    if names is None:
        raise InputError(
            f"{path} has no class names for '{column}' in its metadata (key 'huggingface'); save it with the "
            "'datasets' library, with a ClassLabel feature."
        )
    return column, names


def _columns(path: Path, columns: list[str]) -> pa.Table:
    try:
        return parquet_file(path).read(columns=columns).select(columns).replace_schema_metadata(None)
    except (pa.ArrowException, KeyError, OSError) as error:
        raise InputError(
            f"{path} can't be read to its end or lacks one of the columns {columns}; fetch it again."
        ) from error


# ---------------------------------------------------------------- what all layouts share


def make_pool(
    ids: pa.StringArray, items: Items, y: NDArray[np.integer], class_names: Sequence[str], owner: Path
) -> Pool:
    """Pool, after a look at its labels. A name that two classes share gets the class id behind it."""
    if len(y) == 0:
        raise InputError(f"{owner} holds no items; unpack or fetch the dataset again.")
    if not 0 <= y.min() <= y.max() < len(class_names):
        raise InputError(
            f"{owner} has class ids from {y.min()} to {y.max()}, but there are {len(class_names)} class names; "
            "fetch the dataset again."
        )
    uses = Counter(class_names)
    names = (name if uses[name] == 1 else f"{name} ({code})" for code, name in enumerate(class_names))
    return Pool(ids, items, y.astype(np.int64), tuple(names))


def text_pool(
    texts: Sequence[str] | pa.Array, y: NDArray[np.int64], names: Sequence[str], part: Part, owner: Path
) -> Pool:
    """Pool of texts, numbered in the order of the file."""
    return make_pool(numbered(part, len(y)), Texts(pa.array(texts, pa.string())), y, names, owner)


def numbered(prefix: str, n: int) -> pa.StringArray:
    """Ids ``prefix/0``, ``prefix/1``, …, for items without a name of their own."""
    return pc.binary_join_element_wise(prefix, pa.array(np.arange(n)).cast(pa.string()), "/")


def encode(values: Sequence[str | None] | pa.Array, classes: Sequence[str], owner: Path) -> NDArray[np.int64]:
    """Class ids of some names; each must be one of `classes`."""
    array = pa.array(values, pa.string())
    codes = codes_of(array, list(classes))
    if (codes < 0).any():
        raise InputError(
            f"{owner} has {(codes < 0).sum()} items of no known class (for example '{array[int(codes.argmin())]}', "
            f"which is not among the {len(classes)} classes); fetch it again."
        )
    return codes
