"""Read sources: a folder of images, a CSV or parquet manifest, or an .npz of embeddings.

What is wrong with a source is said in one sentence (`InputError`) that names the file and the cure.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.checksums import bytes_are_as_written
from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata
from ltgcd.common.outputs import FEATURES_MARK
from ltgcd.common.spreadsheet import EXPORT_COLUMNS, is_export
from ltgcd.common.warn import warn as warn  # noqa: PLC0414 - other rooms know it from here
from ltgcd.data.collection import Collection, Source, Truth, check_unique, without_empty_classes
from ltgcd.data.content_ids import content_ids
from ltgcd.data.exported import cut_texts_note, guessed_folders_note
from ltgcd.data.image_folder import find_images
from ltgcd.data.items import ImageFiles, Items, ParquetImages, Texts, Vectors, items_from_addresses
from ltgcd.data.labels import (
    GIVEN,
    check_no_workbook,
    class_label_columns,
    codes_of,
    integer_names,
    means_no_label,
    names_of,
    no_label_note,
    read_csv,
    sorted_names,
    strings,
    text_array,
    without_no_label,
)
from ltgcd.data.labels import stored_labels as stored_labels  # noqa: PLC0414 - other rooms know it from here
from ltgcd.data.labels_file import read_labels
from ltgcd.data.npz import read_npz
from ltgcd.data.parquet import image_column, parquet_file, read_parquet
from ltgcd.data.regular_files import check_regular, is_regular

# Sub-folders that are there to hold what has no label; of others that are called so, the user is told.
UNLABELLED_FOLDERS = frozenset({"unlabelled", "unlabeled", "unsure", "junk"})
LABEL_COLUMNS = ("label", "fine_label")
TABLES = (".csv", ".tsv", ".parquet")


Notify = Callable[[str], None]


class Columns(NamedTuple):
    """What the columns of a manifest are called where they are not called text, label and id."""

    text: str | None = None
    label: str | None = None
    id: str | None = None

    def named(self) -> dict[str, str]:
        """Our name for each column that somebody named."""
        return {theirs: ours for ours, theirs in self._asdict().items() if theirs is not None}


AS_THEY_ARE = Columns()


def read_source(
    path: Path | str, labels: Path | str | None = None, *, columns: Columns = AS_THEY_ARE, notify: Notify = warn
) -> Source:
    """Read a source of any kind.

    Parameters
    ----------
    path : path
        Folder of images (or one that ``ltgcd split`` or ``ltgcd embed`` wrote), ``.csv`` (or ``.tsv``), ``.parquet`` or
        ``.npz``.
    labels : path, optional
        CSV or parquet with columns ``id,label``, or the JSON that a labelling tool exported. It replaces the source's
        own labels, which then count as truth: items that it does not name are unlabelled.
    columns : Columns
        Other names of the columns of a table.
    notify : callable
        Told in a sentence what was left out, or read in another way than it is written. A warning by default.

    Returns
    -------
    Source
        The collection, and the truth where the source tells it.
    """
    path = Path(path)
    if not os.path.exists(path):  # noqa: PTH110 - pathlib raises where a name is too long
        raise InputError(f"{path} is not there; give a folder of images, a .csv, a .parquet or an .npz file.")
    check_regular(path)
    kind = path.suffix.lower()
    if columns.named() and (path.is_dir() or kind not in TABLES):
        raise InputError(
            f"{path} is no table, so it has no columns to name; leave them out, or give a .csv or .parquet."
        )
    if path.is_dir():
        source = _read_directory(path, notify)
    elif kind == ".parquet":
        source = read_manifest(path, notify, columns=columns)
    elif kind in TABLES:
        source = _read_csv(path, notify, columns)
    else:
        reader = {".npz": _read_npz}.get(kind)
        if reader is None:
            check_no_workbook(path)
            raise InputError(
                f"{path} is of an unknown kind; give a folder of images, a .csv, a .parquet or an .npz file."
            )
        source = reader(path, notify)
    if labels is not None:
        source = _relabel(source, Path(labels), notify)
    source, empty = without_empty_classes(source)
    if empty and source.collection.labelled.any():
        notify(empty_classes_note(empty, path))
    return source


def empty_classes_note(names: list[str], owner: Path | str) -> str:
    """A sentence on what `without_empty_classes` took away."""
    listed = ", ".join(f"'{name}'" for name in names[:5]) + (" …" if len(names) > 5 else "")
    return (
        f"{owner}: no item is labelled {listed}, so that {len(names)} of the listed classes are not known; a known "
        "class needs at least one example."
    )


# ---------------------------------------------------------------- readers, one a kind of source


def _read_directory(folder: Path, notify: Notify) -> Source:
    """What one of our own commands wrote there, else the images in it."""
    if is_regular(folder / FEATURES_MARK):
        if not is_regular(folder / "features.npz"):
            raise InputError(
                f"{folder} is not finished; run the same 'ltgcd embed' again, it goes on where it stopped."
            )
        return _read_npz(folder / "features.npz", notify)
    for name, reader in (("split.npz", _read_npz), ("split.parquet", read_manifest)):
        if is_regular(folder / name):
            return reader(folder / name, notify)
    return _read_folder(folder, notify)


def _read_folder(folder: Path, notify: Notify) -> Source:
    paths, notes = find_images(folder)
    if not paths:
        if notes:
            raise InputError(f"{folder} holds no image that can be read: {notes[0].removeprefix(f'{folder}: ')}")
        raise InputError(f"{folder} holds no images; put images there, in sub-folders named after their classes.")
    for note in notes:
        notify(note)
    try:
        ids = pa.array(paths, pa.string())
    except UnicodeEncodeError as error:
        raise InputError(f"{folder} holds a file whose name is not UTF-8 ({error.object!r}); rename it.") from error
    top = pc.struct_field(pc.extract_regex(ids, r"(?s)^(?P<top>[^/]+)/.*$"), "top")
    names, _ = without_no_label(top, words=UNLABELLED_FOLDERS)
    names, doubtful = without_no_label(names)
    if doubtful:
        notify(no_label_note(doubtful, f"{folder}, sub-folders"))
    if sentence := guessed_folders_note(folder, ids, names):
        notify(sentence)
    return _assemble(ids, ImageFiles(folder, ids), names, None, folder)


def _read_csv(path: Path, notify: Notify, columns: Columns) -> Source:
    table = renamed(read_csv(path), columns, path)
    return _from_table(path, table, stored_labels(table, "label", path, notify), notify)


def renamed(table: pa.Table, columns: Columns, owner: Path) -> pa.Table:
    """The table with its columns called as ours are; a column that has our name and is not meant is left out."""
    ours = columns.named()
    if not ours:
        return table  # which may have no column at all, but rows: images are read later
    missing = [name for name in ours if name not in table.column_names]
    if missing:
        raise InputError(f"{owner} has no column '{missing[0]}'; its columns are {table.column_names}.")
    unmeant = {*ours.values(), *({"path"} if columns.text else ())} - set(ours)  # who names texts means texts
    kept = table.select([name for name in table.column_names if name not in unmeant])
    kept = kept.rename_columns([ours.get(name, name) for name in kept.column_names])
    return kept.replace_schema_metadata(table.schema.metadata)  # which the known classes are in


def read_manifest(
    path: Path, notify: Notify = warn, *, check_files: bool = True, columns: Columns = AS_THEY_ARE
) -> Source:
    """Read a parquet manifest; without `check_files` image files that are not there are found out only when read."""
    schema = parquet_file(path).schema_arrow
    if absent := [name for name in columns.named() if name not in schema.names]:
        raise InputError(f"{path} has no column '{absent[0]}'; its columns are {schema.names}.")
    wanted = [c for c in ("id", "path", "text", "y_true", *LABEL_COLUMNS, *columns.named()) if c in schema.names]
    if is_export(schema.names):
        wanted += [name for name in (*EXPORT_COLUMNS, GIVEN) if name in schema.names and name not in wanted]
    class_label = class_label_columns(schema)
    label = columns.label or next((name for name in LABEL_COLUMNS if name in schema.names), None)
    if label is None and len(class_label) == 1:
        label = next(iter(class_label))
        wanted.append(label)
    table = renamed(read_parquet(path, wanted), columns._replace(label=label), path)
    codes = class_label.get(label or "")
    if codes is not None and pa.types.is_integer(table.schema.field("label").type):
        labels = _decode(table.column("label").combine_chunks(), codes, path)
        if listed := [name for name in sorted_names(labels) if means_no_label(name)]:
            notify(
                f"{path}: '{listed[0]}' is taken for a class, for its metadata lists it as one; give those items the "
                "label -1 if it means that they have none."
            )
    else:
        labels = stored_labels(table, "label", path, notify)
    return _from_table(path, table, labels, notify, check_files=check_files)


def _read_npz(path: Path, notify: Notify) -> Source:
    arrays = read_npz(path)
    if "x" not in arrays:
        raise InputError(f"{path} has no array 'x'; save the embeddings as x (N×D floats) and the labels as y.")
    x = arrays["x"]
    try:
        items = Vectors(x.astype(np.float32) if np.issubdtype(x.dtype, np.integer) else x)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    n = len(items)
    if n == 0:
        raise InputError(f"{path} has no rows; give at least one item.")
    for name in ("y", "ids", "y_true"):
        if name in arrays and arrays[name].shape != (n,):
            raise InputError(
                f"{path} has {n} rows in x but {name} of shape {arrays[name].shape}; they must be of equal length."
            )
    ids = strings(_plain(arrays["ids"], path), "ids", path) if "ids" in arrays else content_ids(items)
    listed = arrays.get("class_names", np.empty(0, np.str_))
    names = tuple(str(name) for name in listed) if listed.ndim == 1 else ()
    if listed.ndim != 1 or len(set(names)) < len(names):
        raise InputError(f"{path} needs class_names as a list with one name of its own for each class.")
    known = None
    if "n_old" in arrays:
        n_old = arrays["n_old"]
        if n_old.shape != () or n_old.dtype.kind not in "iu" or not 0 <= n_old <= max(len(names), n):
            raise InputError(f"{path} has n_old = {n_old}; give the number of known classes, or leave it out.")
        known = [names[i] if i < len(names) else str(i) for i in range(int(n_old))]
    y = integer_names(arrays["y"], names, path, "y") if "y" in arrays else pa.nulls(n, pa.string())
    y_true = integer_names(arrays["y_true"], names, path, "y_true") if "y_true" in arrays else None
    if names and bytes_are_as_written(path) is None:  # what we wrote lists no class that is none
        (y, dropped), (y_true, _) = without_no_label(y), without_no_label(y_true) if y_true is not None else (None, {})
        if dropped:
            notify(no_label_note(dropped, f"{path}, array 'y'"))
        known = None if known is None else [name for name in known if not means_no_label(name)]
    return _assemble(ids, items, y, y_true, path, known=known)


def _plain(ids: NDArray[Any], owner: Path) -> pa.Array:
    """Ids of any kind for Arrow: bytes as they are, all else as Python writes it."""
    return pa.array(ids.tolist(), pa.binary()) if ids.dtype.kind == "S" else text_array(map(str, ids), "an id", owner)


def _from_table(
    path: Path, table: pa.Table, labels: pa.StringArray | None, notify: Notify, *, check_files: bool = True
) -> Source:
    """Source from a manifest's columns and the labels in it; the images of a parquet file stay in it."""
    columns = set(table.column_names)
    if len(table) == 0:
        raise InputError(f"{path} has no rows; give at least one item.")
    items: Items
    names: pa.StringArray | None = None
    if "path" in columns:
        names = strings(table.column("path"), "path", path)
        if names.null_count:
            raise InputError(f"{path} has {names.null_count} rows without a path; fill in or remove them.")
        items = items_from_addresses(path.parent, names)
        if check_files and isinstance(items, ImageFiles):
            _check_files(items, path)
    elif "text" in columns:
        items = Texts(strings(table.column("text"), "text", path, pa.large_string()))  # more than 2 GB of them fit
        _check_texts(items, path, notify)
        if sentence := cut_texts_note(table, path):
            notify(sentence)
    elif path.suffix.lower() == ".parquet":
        column = image_column(path)
        items = ParquetImages((path,), column, np.arange(len(table), dtype=np.int64))
        names = None if "id" in columns else _image_names(path, column)
    else:
        cure = "say which with --text-column, --label-column and --id-column, or name one so"
        if len(table.column_names) == 1:
            cure = "separate columns by commas, semicolons or tabs, and name one so"
        raise InputError(
            f"{path} has neither a 'path' nor a 'text' column (its columns are {table.column_names}); {cure}."
        )
    if "id" in columns:
        names = strings(table.column("id"), "id", path)
    ids = names if names is not None else content_ids(items)
    if labels is None:
        labels = pa.nulls(len(table), pa.string())
    truth = stored_labels(table, "y_true", path, notify)
    return _assemble(ids, items, labels, truth, path, known=read_metadata(table.schema).get("class_names"))


def _check_texts(items: Texts, owner: Path, notify: Notify) -> None:
    empty = pc.sum(pc.equal(pc.utf8_trim_whitespace(pc.fill_null(items.texts, "")), "")).as_py()
    if empty == len(items):
        raise InputError(f"All {empty} texts in {owner} are empty; give texts to tell apart.")
    if empty:
        notify(f"{owner}: {empty} of {len(items)} texts are empty; what is found for them means nothing.")


def _assemble(
    ids: pa.StringArray,
    items: Items,
    labels: pa.StringArray,
    truth: pa.StringArray | None,
    owner: Path,
    *,
    known: list[str] | None = None,
) -> Source:
    known, y, coded = encode_labels(ids, labels, truth, known)
    try:
        return Source(Collection(ids, items, y, tuple(known)), coded)
    except InputError:
        check_unique(ids, owner)  # if that is what is wrong, the sentence names the file
        raise


def encode_labels(
    ids: pa.StringArray, labels: pa.StringArray, truth: pa.StringArray | None, known: list[str] | None
) -> tuple[list[str], NDArray[np.int64], Truth | None]:
    """Turn names into codes: the known classes first, in the stored order or sorted; then the novel ones."""
    found = sorted_names(labels)
    known = found if known is None else known + sorted(set(found) - set(known))
    y = codes_of(labels, known)
    if truth is None:
        return known, y, None
    names = known + [name for name in sorted_names(truth) if name not in set(known)]
    return known, y, Truth(ids, codes_of(truth, names), tuple(names), len(known))


def _relabel(source: Source, labels_path: Path, notify: Notify) -> Source:
    """Take the labels from a file; the source's own labels (or its truth) become the truth."""
    collection, truth = source
    labels = read_labels(labels_path, collection.ids, notify)
    own = truth
    if own is None and collection.labelled.any():
        own = Truth(collection.ids, collection.y, collection.class_names, collection.n_old)
    true_names = None if own is None else names_of(own.y_true, own.class_names)
    return _assemble(collection.ids, collection.items, labels, true_names, labels_path)


def _decode(values: pa.Array, names: list[str], owner: Path) -> pa.StringArray:
    """Names of Hugging Face's class numbers; below 0 is unlabelled. A name in their list is a class, even "unknown"."""
    largest = pc.max(values).as_py()
    if largest is not None and largest >= len(names):
        raise InputError(f"{owner} has the label {largest}, but only {len(names)} class names.")
    codes = values.cast(pa.int64())
    return text_array(names, "a class name", owner).take(pc.if_else(pc.less(codes, 0), None, codes))


def _image_names(path: Path, column: str) -> pa.StringArray | None:
    """The file names beside the images as ids, where each image has one of its own."""
    kind = parquet_file(path).schema_arrow.field(column).type
    if not pa.types.is_struct(kind) or kind.get_field_index("path") < 0:
        return None
    names = read_parquet(path, [f"{column}.path"]).column(column).combine_chunks().field("path")
    unique = names.null_count == 0 and pc.count_distinct(names).as_py() == len(names)
    return strings(names, f"{column}.path", path) if unique else None


def _check_files(items: ImageFiles, owner: Path) -> None:
    missing = [path for path in items.paths.to_pylist() if not is_regular(items.root / path)]
    if missing:
        raise InputError(
            f"{owner} names {len(missing)} files that are not there (for example '{missing[0]}'); paths are taken "
            "from the folder of the manifest."
        )
