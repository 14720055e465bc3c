"""What a run keeps of its items, so that more can be added and the page drawn again without the source.

Features as an ``.npz`` source; for images and texts a table of where they are, or what they say, with a digest of the
content of each. Neither tells a label. They may hold more items than the run, where an update was killed, so they are
joined by id. Paths are relative to the run's folder; the folder is noted, so that a run that was moved finds them too.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.checksums import write_table
from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata, with_metadata
from ltgcd.data.collection import UNLABELLED, Collection, Source, positions
from ltgcd.data.content_ids import content_digests
from ltgcd.data.images import image_ending
from ltgcd.data.items import (
    ImageBytes,
    ImageFiles,
    Items,
    Kind,
    ParquetImages,
    RawImages,
    Texts,
    Vectors,
    items_from_addresses,
    relative_path,
)
from ltgcd.data.parquet import image_column, parquet_file, read_parquet, read_table
from ltgcd.data.regular_files import is_regular
from ltgcd.data.sources import read_source
from ltgcd.data.write_source import write_embeddings, write_manifest

NOWHERE = "\0"  # the path of an image that is not in a source: no file can have it


def _nothing(_sentence: str) -> None:
    """What is to be said of a source was said when it was read first."""


# ---------------------------------------------------------------- features


class Features(NamedTuple):
    """Ids and features (N, D) of the items of a run."""

    ids: pa.StringArray
    x: NDArray[np.floating]

    def of(self, ids: pa.StringArray, owner: object) -> NDArray[np.float32]:
        """Rows of some ids of a run."""
        rows = positions(ids, self.ids, f"the features of {owner}", "start the run again in a new folder")
        same = len(rows) == len(self.x) and bool((rows == np.arange(len(rows))).all())
        return np.asarray(self.x if same else self.x[rows], dtype=np.float32)


def read_features(path: Path) -> Features | None:
    """Features of a run's items, if it keeps them."""
    if path.is_dir():
        raise InputError(f"{path} is a folder, where a run keeps a file; move it away.")
    if not path.is_file():
        return None
    source = read_source(path, notify=_nothing)
    assert isinstance(source.collection.items, Vectors)
    return Features(source.collection.ids, source.collection.items.x)


def write_features(path: Path, ids: pa.StringArray, x: NDArray[np.floating]) -> None:
    """Write the features of all items."""
    write_embeddings(path, x, ids, np.full(len(ids), UNLABELLED, dtype=np.int64), (), None)


# ---------------------------------------------------------------- images and texts


def write_items(path: Path, collection: Collection, images: Path) -> None:
    """Write where images are, or what texts say; images that are only in memory go to the parquet file `images`."""
    _write(path, _manifest(path, _on_disk(collection, images)))


def read_kind(path: Path) -> Kind:
    """What a table of items is one of; without one, the run is of embeddings."""
    if not path.is_file():
        return "vector"
    return "text" if "text" in parquet_file(path).schema_arrow.names else "image"


def add_items(path: Path, ids: pa.StringArray, new: Collection, copies: Path) -> None:
    """Add images or texts to those of some ids; images that must be copied go to the folder `copies`."""
    held = read_table(path)
    held = held.filter(pc.is_in(held.column("id"), ids))
    if not isinstance(new.items, Texts):
        paths = _paths(path, held)
        held = held.set_column(held.column_names.index("path"), "path", paths)
        new = _in_form_of(items_from_addresses(path.parent, paths), new, copies)
    added = _manifest(path, new)
    _write(path, pa.concat_tables([part.replace_schema_metadata(None) for part in (held, added)]))


def read_items(path: Path) -> Collection | None:
    """The images or texts of a run, without labels; None without a table of them, or if they can't be found at all.

    An image file that is gone is still an item: its content is empty.
    """
    if not path.is_file():
        return None
    table = read_table(path)
    ids = table.column("id").combine_chunks()
    unlabelled = np.full(len(ids), UNLABELLED, dtype=np.int64)
    if "text" in table.column_names:
        return Collection(ids, Texts(table.column("text").combine_chunks()), unlabelled, ())
    try:
        items = items_from_addresses(path.parent, _paths(path, table))
    except InputError:  # a table of images that was moved: the run is whole without it
        return None
    if isinstance(items, ImageFiles) and len(gone_images(items)) == len(items):
        return None
    return Collection(ids, items, unlabelled, ())


def read_digests(path: Path, ids: pa.StringArray) -> pa.StringArray | None:
    """Digest of the content of some items, null where it is not known; None if the run keeps none."""
    table = read_table(path)
    if "digest" not in table.column_names:
        return None
    return table.column("digest").combine_chunks().take(pc.index_in(ids, table.column("id").combine_chunks()))


def gone_images(items: ImageFiles) -> list[int]:
    """Rows of the image files that are not there."""
    return [row for row, path in enumerate(items.paths.to_pylist()) if not is_regular(items.root / path)]


def in_order(ids: pa.StringArray, given: Collection, where: object) -> tuple[Items, int]:
    """The images or texts of some ids, and how many of them are gone: such an image has no content.

    A source that lacks half of the items or more is another one, and refused; so is one that lacks a text.
    """
    cure, items = "give the source that the run was made from", given.items
    at = pc.index_in(ids, given.ids)
    if items.kind != "image" or 2 * at.null_count >= len(ids):
        return items.select(positions(ids, given.ids, str(where), cure)), 0
    rows = pc.fill_null(at, 0).to_numpy().astype(np.int64)
    if not isinstance(items, ImageFiles):
        chosen: Items = items.select(rows)
        if at.null_count:
            lost = np.asarray(at.is_null())
            blobs = [b"" if is_lost else blob for is_lost, blob in zip(lost, items.take(rows), strict=True)]
            chosen = ImageBytes(pa.array(blobs, pa.binary()))
        return chosen, at.null_count
    files = ImageFiles(items.root, pc.if_else(at.is_valid(), items.paths.take(rows), NOWHERE))
    return files, len(gone_images(files))


def _manifest(path: Path, collection: Collection) -> pa.Table:
    """Columns ``id``, ``text`` or ``path`` (as seen from the folder of `path`) and ``digest``."""
    items, columns = collection.items, {"id": collection.ids}
    if isinstance(items, Texts):
        columns["text"] = items.texts.cast(pa.large_string())
    elif isinstance(items, ImageFiles):
        prefix = relative_path(items.root, path.parent)
        joined = pc.binary_join_element_wise(prefix, items.paths, "/")
        columns["path"] = pc.if_else(pc.starts_with(items.paths, "/"), items.paths, joined)
    else:
        assert isinstance(items, ParquetImages)
        columns["path"] = items.addresses(path.parent)
    return pa.table({**columns, "digest": content_digests(items)})


def _write(path: Path, table: pa.Table) -> None:
    write_table(path, with_metadata(table, {"folder": str(path.parent.resolve())}))


def _paths(path: Path, table: pa.Table) -> pa.StringArray:
    """Paths from the run's folder; of a run that was moved, those that are not there from where it was before."""
    paths, here = table.column("path").combine_chunks(), path.parent
    before = Path(read_metadata(table.schema).get("folder", here))
    if here.resolve() == before:
        return paths

    def found(name: str) -> str:
        file = name.rpartition("#")[0] if ".parquet#" in name else name
        was = os.path.normpath(before / file)  # its folder is gone, so that the system could not go up from there
        return name if is_regular(here / file) or not is_regular(was) else was + name[len(file) :]

    return pa.array([found(name) for name in paths.to_pylist()], pa.string())


def _on_disk(collection: Collection, path: Path, column: str = "image") -> Collection:
    """The same images; those that are only in memory are written to a parquet file."""
    if not isinstance(collection.items, ImageBytes | RawImages):
        return collection
    write_manifest(path, Source(collection, None), {})
    if column != "image":
        table = read_parquet(path)
        write_table(path, table.rename_columns([column if name == "image" else name for name in table.column_names]))
    return Collection(
        collection.ids, read_source(path, notify=_nothing).collection.items, collection.y, collection.class_names
    )


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
