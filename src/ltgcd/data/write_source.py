"""Write sources so that `ltgcd.data.sources` reads the same: manifests of images and texts, archives of embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.checksums import parquet_writer, seal_bytes, write_table
from ltgcd.common.errors import InputError
from ltgcd.common.files import atomic_path, with_metadata
from ltgcd.common.outputs import check_output
from ltgcd.data.collection import Source, Truth
from ltgcd.data.items import ImageFiles, Items, ParquetImages, Texts, Vectors, relative_path
from ltgcd.data.labels import names_of
from ltgcd.data.npz import write_npz


def write_source(path: Path | str, source: Source) -> Path:
    """Write a source so that `read_source` gives the same back: ``.npz`` for vectors, ``.parquet`` for all else.

    Nothing that is there is replaced: people label in sources.
    """
    path, collection = Path(path), source.collection
    check_output(path)
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
    if "path" in table.column_names or "text" in table.column_names:
        write_table(path, table)
        return
    with atomic_path(path) as temporary:
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
    with parquet_writer(path, schema) as writer:
        for start in range(0, len(table), 1000):
            part = table.slice(start, 1000)
            blobs = items.take(np.arange(start, start + len(part), dtype=np.int64))
            image = pa.StructArray.from_arrays(
                [pa.array(blobs, pa.binary()), part.column("id").combine_chunks()], ["bytes", "path"]
            )
            writer.write_table(part.append_column(schema.field("image"), image))
    seal_bytes(path)
