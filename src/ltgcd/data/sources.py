"""Read and write sources: a folder of images, a CSV or parquet manifest, or an .npz of embeddings.

What is wrong with a source is said in one sentence (`InputError`) that names the file and the cure.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import atomic_path, read_metadata, with_metadata
from ltgcd.data.collection import Collection, Source, Truth, check_unique
from ltgcd.data.images import is_image_name
from ltgcd.data.items import ImageFiles, Items, ParquetImages, Texts, Vectors, items_from_addresses, relative_path
from ltgcd.data.labels import (
    class_label_columns,
    codes_of,
    integer_names,
    label_names,
    names_of,
    read_csv,
    sorted_names,
    strings,
)
from ltgcd.data.npz import read_npz, write_npz
from ltgcd.data.parquet import image_column, parquet_file, read_parquet

UNLABELLED_FOLDERS = frozenset({"unlabelled", "unlabeled"})
LABEL_COLUMNS = ("label", "fine_label")


def read_source(path: Path | str, labels: Path | str | None = None) -> Source:
    """Read a source of any kind.

    Parameters
    ----------
    path : path
        Folder of images (or one that ``ltgcd split`` or ``ltgcd embed`` wrote), ``.csv``, ``.parquet`` or ``.npz``.
    labels : path, optional
        CSV with columns ``id,label``. It replaces the source's own labels, which then count as truth: items that it
        does not name are unlabelled.

    Returns
    -------
    Source
        The collection, and the truth where the source tells it.
    """
    path = Path(path)
    if not os.path.exists(path):  # noqa: PTH110 - pathlib raises where a name is too long
        raise InputError(f"{path} is not there; give a folder of images, a .csv, a .parquet or an .npz file.")
    if path.is_dir():
        source = _read_directory(path)
    else:
        readers = {".csv": _read_csv, ".parquet": read_manifest, ".npz": _read_npz}
        reader = readers.get(path.suffix.lower())
        if reader is None:
            raise InputError(
                f"{path} is of an unknown kind; give a folder of images, a .csv, a .parquet or an .npz file."
            )
        source = reader(path)
    return source if labels is None else _relabel(source, Path(labels))


def write_source(path: Path | str, source: Source) -> Path:
    """Write a source so that `read_source` gives the same back: ``.npz`` for vectors, ``.parquet`` for all else."""
    path, collection = Path(path), source.collection
    if isinstance(collection.items, Vectors):
        if path.suffix != ".npz":
            raise InputError(f"{path} must end in .npz, the form for embeddings.")
        write_embeddings(path, collection.items.x, collection.ids, collection.y, collection.class_names, source.truth)
        return path
    if path.suffix != ".parquet":
        raise InputError(f"{path} must end in .parquet, the form for images and texts.")
    write_manifest(path, source, {})
    return path


def write_embeddings(
    path: Path,
    x: NDArray[np.floating],
    ids: pa.StringArray,
    y: NDArray[np.int64],
    class_names: tuple[str, ...],
    truth: Truth | None,
) -> None:
    """Write embeddings (N, D) and what is known of their items as an ``.npz`` source."""
    arrays: dict[str, NDArray[Any]] = {"x": x, "y": y, "n_old": np.array(len(class_names))}
    arrays["ids"] = np.array(ids.to_pylist())
    arrays["class_names"] = np.array(truth.class_names if truth else class_names, dtype=np.str_)
    if truth is not None:
        arrays["y_true"] = truth.y_true
    write_npz(path, arrays)


def write_manifest(path: Path, source: Source, metadata: dict[str, Any]) -> None:
    """Write images or texts as a parquet manifest; images on disk are pointed at, images in memory are copied."""
    collection, table = source.collection, labels_table(source, metadata)
    items = collection.items
    if isinstance(items, Texts):
        table = table.append_column("text", items.texts)
    elif isinstance(items, ImageFiles):
        prefix = relative_path(items.root, path.parent)
        joined = pc.binary_join_element_wise(prefix, items.paths, "/")
        absolute = pc.starts_with(items.paths, "/")
        table = table.append_column("path", pc.if_else(absolute, items.paths, joined))
    elif isinstance(items, ParquetImages):
        table = table.append_column("path", items.addresses(path.parent))
    with atomic_path(path) as temporary:
        if "path" in table.column_names or "text" in table.column_names:
            pq.write_table(table, temporary)
        else:
            _write_with_images(temporary, table, items)


def labels_table(source: Source, metadata: dict[str, Any]) -> pa.Table:
    """Columns ``id, label`` and, where it is known, ``y_true``, with the known classes in the metadata."""
    collection, truth = source
    table = pa.table({"id": collection.ids, "label": names_of(collection.y, collection.class_names)})
    if truth is not None:
        table = table.append_column("y_true", names_of(truth.y_true, truth.class_names))
    return with_metadata(table, {**metadata, "class_names": list(collection.class_names)})


def _write_with_images(path: Path, table: pa.Table, items: Items) -> None:
    schema = table.schema.append(pa.field("image", pa.struct({"bytes": pa.binary(), "path": pa.string()})))
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, len(table), 1000):
            part = table.slice(start, 1000)
            blobs = items.take(np.arange(start, start + len(part), dtype=np.int64))
            image = pa.StructArray.from_arrays(
                [pa.array(blobs, pa.binary()), part.column("id").combine_chunks()], ["bytes", "path"]
            )
            writer.write_table(part.append_column(schema.field("image"), image))


# ---------------------------------------------------------------- readers, one a kind of source


def _read_directory(folder: Path) -> Source:
    """What one of our own commands wrote there, else the images in it."""
    if (folder / "features.json").is_file():
        if not (folder / "features.npz").is_file():
            raise InputError(
                f"{folder} is not finished; run the same 'ltgcd embed' again, it goes on where it stopped."
            )
        return _read_npz(folder / "features.npz")
    for name, reader in (("split.npz", _read_npz), ("split.parquet", read_manifest)):
        if (folder / name).is_file():
            return reader(folder / name)
    return _read_folder(folder)


def _read_folder(folder: Path) -> Source:
    paths = _image_paths(folder)
    if not paths:
        raise InputError(f"{folder} holds no images; put images there, in sub-folders named after their classes.")
    try:
        ids = pa.array(paths, pa.string())
    except UnicodeEncodeError as error:
        raise InputError(f"{folder} holds a file whose name is not UTF-8 ({error.object!r}); rename it.") from error
    top = pc.struct_field(pc.extract_regex(ids, r"(?s)^(?P<top>[^/]+)/.*$"), "top")
    names = pc.if_else(pc.is_in(pc.utf8_lower(top), pa.array(sorted(UNLABELLED_FOLDERS))), None, top)
    return _assemble(ids, ImageFiles(folder, ids), names, None, folder)


def _image_paths(folder: Path) -> list[str]:
    """Images below a folder, in the order of their names. A link back to a folder above itself is not followed."""

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename} can't be listed ({error.strerror}); allow it or move it away.") from error

    paths: list[str] = []
    above: dict[str, frozenset[tuple[int, int]]] = {str(folder): frozenset()}
    for where, folders, files in os.walk(folder, followlinks=True, onerror=refuse):
        status = Path(where).stat()
        here = above.pop(where) | {(status.st_dev, status.st_ino)}
        folders[:] = sorted(name for name in folders if not name.startswith(".") and not _is_one_of(where, name, here))
        above.update((os.path.join(where, name), here) for name in folders)  # noqa: PTH118 - the key of os.walk
        base = Path(where).relative_to(folder).as_posix()
        prefix = "" if base == "." else f"{base}/"
        paths += [prefix + name for name in sorted(files) if is_image_name(name)]
    return paths


def _is_one_of(where: str, name: str, folders: frozenset[tuple[int, int]]) -> bool:
    status = Path(where, name).stat()
    return (status.st_dev, status.st_ino) in folders


def _read_csv(path: Path) -> Source:
    return _from_table(path, read_csv(path))


def read_manifest(path: Path, *, check_files: bool = True) -> Source:
    """Read a parquet manifest; without `check_files` image files that are not there are found out only when read."""
    schema = parquet_file(path).schema_arrow
    wanted = [c for c in ("id", "path", "text", "y_true", *LABEL_COLUMNS) if c in schema.names]
    class_label = class_label_columns(schema)
    label = next((name for name in LABEL_COLUMNS if name in schema.names), None)
    if label is None and len(class_label) == 1:
        label = next(iter(class_label))
        wanted.append(label)
    table = read_parquet(path, wanted)
    if label is not None and label in class_label:
        table = table.set_column(
            table.column_names.index(label), label, _decode(table.column(label), class_label[label], path)
        )
    if label is not None and label != "label":
        table = table.rename_columns(["label" if name == label else name for name in table.column_names])
    return _from_table(path, table, check_files=check_files)


def _read_npz(path: Path) -> Source:
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
    ids = strings(_plain(arrays.get("ids", np.arange(n))), "ids", path)
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
    return _assemble(ids, items, y, y_true, path, known=known)


def _plain(ids: NDArray[Any]) -> pa.Array:
    """Ids of any kind for Arrow: bytes as they are, all else as Python writes it."""
    return pa.array(ids.tolist(), pa.binary()) if ids.dtype.kind == "S" else pa.array([str(i) for i in ids])


def _from_table(path: Path, table: pa.Table, *, check_files: bool = True) -> Source:
    """Source from a manifest's columns; the images of a parquet file stay in it."""
    columns = set(table.column_names)
    if len(table) == 0:
        raise InputError(f"{path} has no rows; give at least one item.")
    items: Items
    default_ids = pa.array(np.arange(len(table))).cast(pa.string())
    if "path" in columns:
        paths = strings(table.column("path"), "path", path)
        if paths.null_count:
            raise InputError(f"{path} has {paths.null_count} rows without a path; fill in or remove them.")
        items = items_from_addresses(path.parent, paths)
        if check_files and isinstance(items, ImageFiles):
            _check_files(items, path)
        default_ids = paths
    elif "text" in columns:
        items = Texts(strings(table.column("text"), "text", path, pa.large_string()))  # more than 2 GB of them fit
    elif path.suffix.lower() == ".parquet":
        column = image_column(path)
        items = ParquetImages((path,), column, np.arange(len(table), dtype=np.int64))
        default_ids = _image_names(path, column, default_ids)
    else:
        raise InputError(
            f"{path} has neither a 'path' nor a 'text' column (its columns are {table.column_names}); name one so, and "
            "separate columns by commas."
        )
    ids = strings(table.column("id"), "id", path) if "id" in columns else default_ids
    labels = stored_labels(table, "label", path)
    if labels is None:
        labels = pa.nulls(len(table), pa.string())
    truth = stored_labels(table, "y_true", path)
    return _assemble(ids, items, labels, truth, path, known=read_metadata(table.schema).get("class_names"))


def stored_labels(table: pa.Table, name: str, owner: Path) -> pa.StringArray | None:
    """Labels in a table, if it has them. What we wrote comes back as it is: "007", "1" beside "cat", spaces and all."""
    if name not in table.column_names:
        return None
    column = table.column(name)
    if "class_names" in read_metadata(table.schema) and pa.types.is_string(column.type):
        return strings(column, name, owner)
    return label_names(column, owner)


def _assemble(
    ids: pa.StringArray,
    items: Items,
    labels: pa.StringArray,
    truth: pa.StringArray | None,
    owner: Path,
    *,
    known: list[str] | None = None,
) -> Source:
    check_unique(ids, owner)
    known, y, coded = encode_labels(ids, labels, truth, known)
    return Source(Collection(ids, items, y, tuple(known)), coded)


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


def _relabel(source: Source, labels_path: Path) -> Source:
    """Take the labels from a CSV; the source's own labels (or its truth) become the truth."""
    collection, truth = source
    table = read_csv(labels_path)
    if not {"id", "label"} <= set(table.column_names):
        raise InputError(f"{labels_path} needs the columns 'id' and 'label', but has {table.column_names}.")
    ids = table.column("id").combine_chunks()
    check_unique(ids, labels_path)
    position = pc.index_in(ids, collection.ids)
    if position.null_count:
        missing = ids.filter(pc.is_null(position))
        raise InputError(
            f"{labels_path} labels {len(missing)} ids that are not in the source (for example '{missing[0]}'); "
            "remove these rows or correct the ids."
        )
    own = truth
    if own is None and collection.labelled.any():
        own = Truth(collection.ids, collection.y, collection.class_names, collection.n_old)
    names = np.full(len(collection), None, dtype=object)
    names[position.to_numpy()] = label_names(table.column("label"), labels_path).to_pylist()
    true_names = None if own is None else names_of(own.y_true, own.class_names)
    return _assemble(collection.ids, collection.items, pa.array(names, pa.string()), true_names, labels_path)


def _decode(column: pa.ChunkedArray, names: list[str], owner: Path) -> pa.Array:
    values = column.combine_chunks()
    if not pa.types.is_integer(values.type):
        return values
    if (pc.max(values).as_py() or 0) >= len(names):
        raise InputError(f"{owner} has the label {pc.max(values).as_py()}, but only {len(names)} class names.")
    return pa.array(names, pa.string()).take(pc.if_else(pc.less(values, 0), None, values))


def _image_names(path: Path, column: str, fallback: pa.StringArray) -> pa.StringArray:
    """The file names beside the images as ids, where each image has one of its own."""
    kind = parquet_file(path).schema_arrow.field(column).type
    if not pa.types.is_struct(kind) or kind.get_field_index("path") < 0:
        return fallback
    names = read_parquet(path, [f"{column}.path"]).column(column).combine_chunks().field("path")
    unique = names.null_count == 0 and pc.count_distinct(names).as_py() == len(names)
    return strings(names, f"{column}.path", path) if unique else fallback


def _check_files(items: ImageFiles, owner: Path) -> None:
    # os.path, for pathlib raises where a name is too long.
    missing = [path for path in items.paths.to_pylist() if not os.path.isfile(items.root / path)]  # noqa: PTH113
    if missing:
        raise InputError(
            f"{owner} names {len(missing)} files that are not there (for example '{missing[0]}'); paths are taken "
            "from the folder of the manifest."
        )
