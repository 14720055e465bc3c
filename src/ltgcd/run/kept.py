"""What a run keeps of its items, so that more can be added and the page drawn again without the source.

``items.npz`` (x, ids: features), ``items.parquet`` (for images and texts:
where they are, or what they say) and ``map.npz`` (places on the page's map). None of them tells a label: those are in
``split.parquet``. They may hold more items than the run, where an update was killed, so they are joined by id.
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
from ltgcd.data.npz import read_npz, write_npz
from ltgcd.data.parquet import image_column, parquet_file, read_parquet
from ltgcd.data.sources import read_source, write_embeddings, write_manifest
from ltgcd.export.files import image_ending

FEATURES, ITEMS, MAP = "items.npz", "items.parquet", "map.npz"


# ---------------------------------------------------------------- features


class Features(NamedTuple):
    """Ids and features (N, D) of the items of a run."""

    ids: pa.StringArray
    x: NDArray[np.floating]

    def of(self, ids: pa.StringArray, run: Path) -> NDArray[np.float32]:
        """Rows of some ids."""
        rows = positions(ids, self.ids, f"the features of {run}", "start the run again in a new folder")
        return np.asarray(self.x[rows], dtype=np.float32)


def kept_features(run: Path) -> Features | None:
    """Features of a run's items, if it keeps them."""
    if not (run / FEATURES).is_file():
        return None
    source = read_source(run / FEATURES)
    assert isinstance(source.collection.items, Vectors)
    return Features(source.collection.ids, source.collection.items.x)


def keep_features(run: Path, ids: pa.StringArray, x: NDArray[np.floating]) -> None:
    """Write the features of all items."""
    write_embeddings(run / FEATURES, x, ids, np.full(len(ids), UNLABELLED, dtype=np.int64), (), None)


# ---------------------------------------------------------------- images and texts


def keep_items(run: Path, collection: Collection) -> None:
    """Write where the images of a run are, or what its texts say."""
    write_table(run / ITEMS, _manifest(run, _on_disk(collection, run / "images.parquet")))


def kept_kind(run: Path) -> Kind:
    """What the run is one of: images, texts or embeddings."""
    if not (run / ITEMS).is_file():
        return "vector"
    return "text" if "text" in parquet_file(run / ITEMS).schema_arrow.names else "image"


def add_items(run: Path, ids: pa.StringArray, new: Collection, part: Path) -> None:
    """Add images or texts to those of the run's `ids`; `part` is a folder for images that must be copied."""
    held = read_parquet(run / ITEMS)
    held = held.filter(pc.is_in(held.column("id"), ids))
    if not isinstance(new.items, Texts):
        paths = held.column("path").combine_chunks()
        new = _in_form_of(items_from_addresses(run, paths), new, part)
    write_table(run / ITEMS, pa.concat_tables([held, _manifest(run, new)]))


def kept_items(run: Path) -> Collection | None:
    """The images or texts of a run, without labels; None for a run of embeddings, or if they can't be found."""
    try:
        return read_source(run / ITEMS).collection
    except InputError:  # files that were moved: the run is whole without them
        return None


def _manifest(run: Path, collection: Collection) -> pa.Table:
    """Columns ``id`` and ``text`` or ``path``, as seen from the run."""
    path = run / "items-new.parquet"
    write_manifest(path, Source(collection, None), {})
    table = read_parquet(path)
    path.unlink()
    what = "text" if "text" in table.column_names else "path"
    form = pa.large_string() if what == "text" else pa.string()
    return pa.table({"id": table.column("id"), what: table.column(what).cast(form)})


def write_table(path: Path, table: pa.Table) -> None:
    """Write a parquet file that is whole or not there."""
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary)


def _on_disk(collection: Collection, path: Path, column: str = "image") -> Collection:
    """The same images; those that are only in memory are written to a parquet file."""
    if not isinstance(collection.items, ImageBytes | RawImages):
        return collection
    write_manifest(path, Source(collection, None), {})
    if column != "image":
        table = read_parquet(path)
        write_table(path, table.rename_columns([column if name == "image" else name for name in table.column_names]))
    return Collection(collection.ids, read_source(path).collection.items, collection.y, collection.class_names)


def _in_form_of(held: ImageFiles | ParquetImages, new: Collection, part: Path) -> Collection:
    """New images as files or as rows of parquet files, whichever the run has: a manifest holds one of the two."""
    items = new.items
    if isinstance(held, ImageFiles) and not isinstance(items, ImageFiles):
        names = []
        (part / "images").mkdir(parents=True, exist_ok=True)
        for row in items.reading_order().tolist():
            blob = items.take(np.array([row], dtype=np.int64))[0]
            assert isinstance(blob, bytes)
            names.append((row, f"{row:06d}{image_ending(blob)}"))
            (part / "images" / names[-1][1]).write_bytes(blob)
        files = ImageFiles(part / "images", pa.array([name for _, name in sorted(names)], pa.string()))
        return Collection(new.ids, files, new.y, new.class_names)
    if isinstance(held, ParquetImages):
        column = image_column(held.files[0])
        if not isinstance(items, ParquetImages) or items.column != column:
            blobs = pa.array(items.take(np.arange(len(items), dtype=np.int64)), pa.binary())
            copied = Collection(new.ids, ImageBytes(blobs), new.y, new.class_names)
            return _on_disk(copied, part / "images.parquet", column)
    return new


# ---------------------------------------------------------------- the map


def keep_map(run: Path, ids: pa.StringArray, places: NDArray[np.floating], laid_out: int) -> None:
    """Write the places (N, 2) of the items on the map, of which t-SNE laid out some."""
    arrays = {"ids": np.array(ids.to_pylist()), "places": np.asarray(places, dtype=np.float32)}
    write_npz(run / MAP, {**arrays, "laid_out": np.array(laid_out)})


def kept_map(run: Path) -> tuple[pa.StringArray, NDArray[np.float32], int] | None:
    """Ids, places and the number that t-SNE laid out, if the run keeps a map that is whole."""
    if not (run / MAP).is_file():
        return None
    try:
        arrays = read_npz(run / MAP)
        return pa.array(arrays["ids"].tolist(), pa.string()), arrays["places"], int(arrays["laid_out"])
    except (InputError, KeyError):
        return None
