"""Assignments in the forms that other tools read. Unsure items and junk stay apart in all of them.

``csv`` and ``parquet`` are tables that can be given back as labels. ``folders``, ``fiftyone`` and ``coco`` are
directories with the images in them, by link where the source has files; ``label-studio`` is a file of tasks with
predictions. Nothing that exists is ever overwritten, and what is cut short leaves nothing that looks finished.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from ltgcd.common.errors import InputError
from ltgcd.common.outputs import check_output
from ltgcd.common.spreadsheet import guarded
from ltgcd.data.collection import Collection, positions
from ltgcd.data.images import image_size
from ltgcd.data.labels import GIVEN
from ltgcd.discovery.assignments import ASSIGNMENT_COLUMNS
from ltgcd.discovery.classes import SUGGESTED
from ltgcd.discovery.exported import BINS
from ltgcd.output.export.files import safe_name, unique_name
from ltgcd.output.export.job import Export
from ltgcd.output.export.label_studio import INTERFACE, write_label_studio
from ltgcd.output.export.publish import private_folder, publish

EXPORTED = (*ASSIGNMENT_COLUMNS, GIVEN, SUGGESTED)
STATUSES = ("known", "novel", *BINS)
UNLABELLED_FOLDERS = (*BINS, "unlabelled", "unlabeled")


def check_export(form: str, out: Path, statuses: tuple[str, ...] = STATUSES, source: Path | None = None) -> None:
    """Refuse what can't be exported so, before anything is read.

    Parameters
    ----------
    form : str
        A key of `FORMATS`.
    out : path
        What shall be made: there must be nothing of that name, and it must not lie in the source.
    statuses : tuple of str
        Which items: some of known, novel, unsure and junk.
    source : path, optional
        Where the items come from, if that is known.
    """
    if form not in FORMATS:
        raise InputError(f"There is no format '{form}'; choose {', '.join(FORMATS)}.")
    if wrong := set(statuses) - set(STATUSES):
        raise InputError(f"There is no status '{min(wrong)}'; choose known, novel, unsure or junk.")
    for path in [out, _beside(out, INTERFACE)] if form == "label-studio" else [out]:
        check_output(path, None, (source,))


def export_items(
    assignments: pa.Table,
    collection: Collection | None,
    form: str,
    out: Path,
    *,
    statuses: tuple[str, ...] = STATUSES,
    copy: bool = False,
    source: Path | None = None,
) -> dict[str, Any]:
    """Write assignments, and the items they are about, to `out`, which must not exist.

    Parameters
    ----------
    assignments : pyarrow.Table
        ``id, label, name, status, confidence`` and, where they are there, ``given`` and ``suggested``; more columns are
        left out.
    collection : Collection or None
        The items, in any order; every assigned item must be among them. For csv and parquet, which show the beginning
        of texts, they may be missing.
    form : str
        A key of `FORMATS`.
    out : path
        A file (csv, parquet, label-studio) or a folder (folders, fiftyone, coco).
    statuses : tuple of str
        Which items: some of known, novel, unsure and junk.
    copy : bool
        Copy image files instead of linking to them.
    source : path, optional
        Where the items come from; nothing is written into a folder that they come from.

    Returns
    -------
    dict
        ``format, n, path`` and ``notes``.
    """
    check_export(form, out, statuses, source)
    table = assignments.select([name for name in assignments.column_names if name in EXPORTED])
    table = table.filter(pc.is_in(table.column("status"), pa.array(statuses))).combine_chunks()
    job = Export(table, None if collection is None else _items_of(table, collection), copy)
    with private_folder(out) as folder:
        n = FORMATS[form](job, folder / "output")
        written = []
        for ending, content in job.beside.items():
            (folder / ending).write_text(content, encoding="utf-8")
            written.append((folder / ending, _beside(out, ending)))
        publish([*written, (folder / "output", out)])
    return {"format": form, "n": n, "path": str(out), "notes": [*job.notes, *job.name_notes()]}


def _beside(out: Path, ending: str) -> Path:
    return out.with_name(f"{out.stem}{ending}")


def _items_of(table: pa.Table, collection: Collection) -> Collection:
    """The items in the order of the assignments."""
    ids = table.column("id").combine_chunks()
    rows = positions(ids, collection.ids, "the source", "give the source that the assignments are about")
    # A collection has at least one item; an empty selection of statuses has none to write.
    return collection.select(rows) if len(rows) else collection


# ---------------------------------------------------------------- tables


def _write_csv(job: Export, path: Path) -> int:
    pacsv.write_csv(guarded(job.table_with_texts()), path)
    return len(job.ids)


def _write_parquet(job: Export, path: Path) -> int:
    pq.write_table(job.table_with_texts(), path, write_page_checksum=True)
    return len(job.ids)


# ---------------------------------------------------------------- folders of files


def _write_folders(job: Export, out: Path) -> int:
    """A folder for each category, as ImageFolder and ImageClassificationDirectoryTree read it; ``index.csv`` beside.

    For images, the index is itself a source: its column ``path`` says where each one is.
    """
    files = job.placer("image", "text")
    # Folders of these names are read as unlabelled, so no class gets one of them.
    folders, taken = {name: name for name in BINS}, dict.fromkeys(("index.csv", *UNLABELLED_FOLDERS), 1)
    for name in job.category_statuses:
        if name not in folders:
            folders[name] = unique_name(safe_name(name), taken)
    out.mkdir()
    placed = list(files.put(lambda row: out / folders[job.categories[row]]))
    rows = pa.array([row for row, _ in placed], pa.int64())
    where = pa.array([path.relative_to(out).as_posix() for _, path in placed], pa.string())
    column = "path" if files.items.kind == "image" else "file"  # a manifest's `path` is the path of an image
    pacsv.write_csv(guarded(job.table().take(rows).append_column(column, where)), out / "index.csv")
    if renamed := [name for name, folder in folders.items() if folder != name]:
        job.notes.append(
            f"{len(renamed)} of {len(folders)} folders can't have the name of their category (for example "
            f"'{folders[renamed[0]]}'); index.csv has the names."
        )
    job.notes.extend(files.notes())
    return len(placed)


def _write_fiftyone(job: Export, out: Path) -> int:
    """``data/`` and ``labels.json`` of FiftyOneImageClassificationDataset: images are known by name without ending."""
    files = job.placer("image")
    number = {name: at for at, name in enumerate(job.category_statuses)}
    (out / "data").mkdir(parents=True)
    labels = {
        path.stem: {
            "label": number[job.categories[row]],
            "confidence": job.confidence[row],
            "attributes": job.details(row),  # no attribute may be called `id`: FiftyOne has its own
        }
        for row, path in files.put(lambda _row: out / "data", unique_stems=True)
    }
    _write_json(out / "labels.json", {"classes": list(number), "labels": labels})
    job.notes.extend(files.notes())
    return len(labels)


def _write_coco(job: Export, out: Path) -> int:
    """``data/`` and ``labels.json`` in COCO's form: one annotation an image, its box and outline the whole image."""
    files = job.placer("image")
    number = {name: at for at, name in enumerate(job.category_statuses, start=1)}
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    (out / "data").mkdir(parents=True)
    for row, path in files.put(lambda _row: out / "data"):
        width, height = image_size(path)
        if not width or not height:  # no outline can be drawn around it
            files.leave_out(row, path)
            continue
        at = len(images) + 1
        images.append({"id": at, "file_name": path.name, "width": width, "height": height, "item_id": files.ids[row]})
        annotations.append(
            {
                "id": at,
                "image_id": at,
                "category_id": number[job.categories[row]],
                "bbox": [0, 0, width, height],
                "area": width * height,
                "iscrowd": 0,
                "segmentation": [[0, 0, width, 0, width, height, 0, height]],
                "score": job.confidence[row],
                "attributes": job.details(row),
            }
        )
    categories = [
        {"id": number[name], "name": name, "supercategory": status} for name, status in job.category_statuses.items()
    ]
    info = {"description": "Categories found by ltgcd", "version": version("ltgcd")}
    content = {"info": info, "licenses": [], "categories": categories, "images": images, "annotations": annotations}
    _write_json(out / "labels.json", content)
    job.notes.extend(files.notes())
    return len(images)


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


# A new format is a function above, a line here and its name in the help of `ltgcd export` (cli/output.py, which imports
# nothing of this to start quickly). docs/export.md describes it; data/tool_exports.py reads back what a tool wrote.
FORMATS: dict[str, Callable[[Export, Path], int]] = {
    "csv": _write_csv,
    "parquet": _write_parquet,
    "folders": _write_folders,
    "label-studio": write_label_studio,
    "fiftyone": _write_fiftyone,
    "coco": _write_coco,
}
