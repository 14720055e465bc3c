"""What a run keeps of its items, so that more can be added and the page drawn again without the source.

Features as an ``.npz`` source; for images and texts a parquet manifest of where they are, or what they say. Neither
tells a label. They may hold more items than the run, where an update was killed, so they are joined by id.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import atomic_path
from ltgcd.data.collection import UNLABELLED, Collection, Source, positions
from ltgcd.data.images import image_ending
from ltgcd.data.items import (
    ImageBytes,
    ImageFiles,
    Kind,
    ParquetImages,
    RawImages,
    Texts,
    Vectors,
    items_from_addresses,
)
from ltgcd.data.parquet import image_column, parquet_file, read_parquet
from ltgcd.data.sources import read_source, write_embeddings, write_manifest

# ---------------------------------------------------------------- features


class Features(NamedTuple):
    """Ids and features (N, D) of the items of a run."""

    ids: pa.StringArray
    x: NDArray[np.floating]

    def of(self, ids: pa.StringArray, owner: object) -> NDArray[np.float32]:
        """Rows of some ids of a run."""
        rows = positions(ids, self.ids, f"the features of {owner}", "start the run again in a new folder")
        return np.asarray(self.x[rows], dtype=np.float32)


def read_features(path: Path) -> Features | None:
    """Features of a run's items, if it keeps them."""
    if not path.is_file():
        return None
    source = read_source(path)
    assert isinstance(source.collection.items, Vectors)
    return Features(source.collection.ids, source.collection.items.x)


def write_features(path: Path, ids: pa.StringArray, x: NDArray[np.floating]) -> None:
    """Write the features of all items."""
    write_embeddings(path, x, ids, np.full(len(ids), UNLABELLED, dtype=np.int64), (), None)


# ---------------------------------------------------------------- images and texts


def write_items(path: Path, collection: Collection, images: Path) -> None:
    """Write where images are, or what texts say; images that are only in memory go to the parquet file `images`."""
    _write_table(path, _manifest(path, _on_disk(collection, images)))


def read_kind(path: Path) -> Kind:
    """What a manifest is one of; without one, the run is of embeddings."""
    if not path.is_file():
        return "vector"
    return "text" if "text" in parquet_file(path).schema_arrow.names else "image"


def add_items(path: Path, ids: pa.StringArray, new: Collection, copies: Path) -> None:
    """Add images or texts to those of some ids; images that must be copied go to the folder `copies`."""
    held = read_parquet(path)
    held = held.filter(pc.is_in(held.column("id"), ids))
    if not isinstance(new.items, Texts):
        paths = held.column("path").combine_chunks()
        new = _in_form_of(items_from_addresses(path.parent, paths), new, copies)
    _write_table(path, pa.concat_tables([held, _manifest(path, new)]))


def read_items(path: Path) -> Collection | None:
    """The images or texts of a manifest, without labels; None without one, or if they can't be found."""
    try:
        return read_source(path).collection
    except InputError:  # files that were moved: the run is whole without them
        return None


def _manifest(path: Path, collection: Collection) -> pa.Table:
    """Columns ``id`` and ``text`` or ``path``, as seen from the folder of `path`."""
    temporary = path.with_name(f"{path.stem}-new{path.suffix}")
    write_manifest(temporary, Source(collection, None), {})
    table = read_parquet(temporary)
    temporary.unlink()
    what = "text" if "text" in table.column_names else "path"
    form = pa.large_string() if what == "text" else pa.string()
    return pa.table({"id": table.column("id"), what: table.column(what).cast(form)})


def _write_table(path: Path, table: pa.Table) -> None:
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary)


def _on_disk(collection: Collection, path: Path, column: str = "image") -> Collection:
    """The same images; those that are only in memory are written to a parquet file."""
    if not isinstance(collection.items, ImageBytes | RawImages):
        return collection
    write_manifest(path, Source(collection, None), {})
    if column != "image":
        table = read_parquet(path)
        _write_table(path, table.rename_columns([column if name == "image" else name for name in table.column_names]))
    return Collection(collection.ids, read_source(path).collection.items, collection.y, collection.class_names)


def _in_form_of(held: ImageFiles | ParquetImages, new: Collection, copies: Path) -> Collection:
    """New images as files or as rows of parquet files, whichever the run has: a manifest holds one of the two."""
    items = new.items
    if isinstance(held, ImageFiles) and not isinstance(items, ImageFiles):
        names = []
        copies.mkdir(parents=True, exist_ok=True)
        for row in items.reading_order().tolist():
            blob = items.take(np.array([row], dtype=np.int64))[0]
            assert isinstance(blob, bytes)
            names.append((row, f"{row:06d}{image_ending(blob)}"))
            (copies / names[-1][1]).write_bytes(blob)
        files = ImageFiles(copies, pa.array([name for _, name in sorted(names)], pa.string()))
        return Collection(new.ids, files, new.y, new.class_names)
    if isinstance(held, ParquetImages):
        column = image_column(held.files[0])
        if not isinstance(items, ParquetImages) or items.column != column:
            blobs = pa.array(items.take(np.arange(len(items), dtype=np.int64)), pa.binary())
            copied = Collection(new.ids, ImageBytes(blobs), new.y, new.class_names)
            return _on_disk(copied, copies.with_suffix(".parquet"), column)
    return new
