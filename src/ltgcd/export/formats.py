"""Assignments in the forms that other tools read. Unsure items stay apart in every one of them.

``csv`` and ``parquet`` are the assignments as they are. ``folders``, ``fiftyone`` and ``coco`` are directories with the
images in them, by link where the source has files; ``label-studio`` is a file of tasks with predictions. Nothing that
exists is ever overwritten, and what is cut short leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from ltgcd.common.errors import InputError
from ltgcd.data.collection import Collection, positions
from ltgcd.discovery.assignments import ASSIGNMENT_COLUMNS
from ltgcd.export.files import image_size, safe_name, unique_name
from ltgcd.export.job import Export
from ltgcd.export.label_studio import INTERFACE, write_label_studio

STATUSES = ("known", "novel", "unsure")


def check_export(form: str, out: Path, statuses: tuple[str, ...] = STATUSES) -> None:
    """Refuse a format or a status that there is not, and an output that there is; before anything is read."""
    if form not in FORMATS:
        raise InputError(f"There is no format '{form}'; choose {', '.join(FORMATS)}.")
    if wrong := set(statuses) - set(STATUSES):
        raise InputError(f"There is no status '{min(wrong)}'; choose known, novel or unsure.")
    for path in [out, _beside(out, INTERFACE)] if form == "label-studio" else [out]:
        if os.path.lexists(path):
            raise InputError(f"{path} is there already, and nothing is overwritten; give another --out, or remove it.")


def export_items(
    assignments: pa.Table,
    collection: Collection | None,
    form: str,
    out: Path,
    *,
    statuses: tuple[str, ...] = STATUSES,
    copy: bool = False,
) -> dict[str, Any]:
    """Write assignments, and the items they are about, to `out`, which must not exist.

    Parameters
    ----------
    assignments : pyarrow.Table
        ``id, label, name, status, confidence``; more columns are left out.
    collection : Collection or None
        The items, in any order, for all formats but csv and parquet; every assigned item must be among them.
    form : str
        A key of `FORMATS`.
    out : path
        A file (csv, parquet, label-studio) or a folder (folders, fiftyone, coco).
    statuses : tuple of str
        Which items: some of known, novel and unsure.
    copy : bool
        Copy image files instead of linking to them.

    Returns
    -------
    dict
        ``format, n, path`` and ``notes``.
    """
    check_export(form, out, statuses)
    table = assignments.select(ASSIGNMENT_COLUMNS)
    table = table.filter(pc.is_in(table.column("status"), pa.array(statuses))).combine_chunks()
    job = Export(table, None if collection is None else _items_of(table, collection), copy)
    with _all_or_nothing(out) as temporary:
        n = FORMATS[form](job, temporary)
    for ending, content in job.beside.items():
        with _beside(out, ending).open("x", encoding="utf-8") as file:
            file.write(content)
    return {"format": form, "n": n, "path": str(out), "notes": job.notes}


def _beside(out: Path, ending: str) -> Path:
    return out.with_name(f"{out.stem}{ending}")


def _items_of(table: pa.Table, collection: Collection) -> Collection:
    """The items in the order of the assignments."""
    ids = table.column("id").combine_chunks()
    rows = positions(ids, collection.ids, "the source", "give the source that the assignments are about")
    # A collection has at least one item; an empty selection of statuses has none to write.
    return collection.select(rows) if len(rows) else collection


@contextmanager
def _all_or_nothing(out: Path) -> Iterator[Path]:
    """A temporary path beside `out` that takes its name at the end, if the block raised nothing."""
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        if os.path.lexists(out):
            raise InputError(f"{out} was made by someone else meanwhile; give another --out.")
        temporary.rename(out)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        else:
            temporary.unlink(missing_ok=True)


# ---------------------------------------------------------------- tables


def _write_csv(job: Export, path: Path) -> int:
    pacsv.write_csv(job.table, path)
    return len(job.table)


def _write_parquet(job: Export, path: Path) -> int:
    pq.write_table(job.table, path)
    return len(job.table)


# ---------------------------------------------------------------- folders of files


def _write_folders(job: Export, out: Path) -> int:
    """A folder for each category, as ImageFolder and ImageClassificationDirectoryTree read it; ``index.csv`` beside."""
    files = job.placer("image", "text")
    names, taken = {}, {"index.csv": 1}
    for key, name in job.class_names().items():
        names[key] = unique_name(safe_name(name), taken)
    keys = job.keys()
    out.mkdir()
    placed = list(files.put(lambda row: out / names[keys[row]]))
    rows = pa.array([row for row, _ in placed], pa.int64())
    where = pa.array([path.relative_to(out).as_posix() for _, path in placed], pa.string())
    pacsv.write_csv(job.table.take(rows).append_column("path", where), out / "index.csv")
    job.notes.extend(files.notes())
    return len(placed)


def _write_fiftyone(job: Export, out: Path) -> int:
    """``data/`` and ``labels.json`` of FiftyOneImageClassificationDataset: images are known by name without ending."""
    files = job.placer("image")
    names, keys = job.class_names(), job.keys()
    number = {key: at for at, key in enumerate(names)}
    (out / "data").mkdir(parents=True)
    score, original = job.table.column("confidence").to_pylist(), job.table.column("name").to_pylist()
    labels = {
        path.stem: {
            "label": number[keys[row]],
            "confidence": score[row],
            "attributes": {"id": files.ids[row], "status": keys[row][1], "name": original[row]},
        }
        for row, path in files.put(lambda _row: out / "data", unique_stems=True)
    }
    _write_json(out / "labels.json", {"classes": list(names.values()), "labels": labels})
    job.notes.extend(files.notes())
    return len(labels)


def _write_coco(job: Export, out: Path) -> int:
    """``data/`` and ``labels.json`` in COCO's form: one annotation an image, its box the whole image."""
    files = job.placer("image")
    names, keys = job.class_names(), job.keys()
    number = {key: at for at, key in enumerate(names, start=1)}
    score, original = job.table.column("confidence").to_pylist(), job.table.column("name").to_pylist()
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    (out / "data").mkdir(parents=True)
    for row, path in files.put(lambda _row: out / "data"):
        width, height = image_size(path)
        at = len(images) + 1
        images.append({"id": at, "file_name": path.name, "width": width, "height": height, "ltgcd_id": files.ids[row]})
        annotations.append(
            {
                "id": at,
                "image_id": at,
                "category_id": number[keys[row]],
                "bbox": [0, 0, width, height],
                "area": width * height,
                "iscrowd": 0,
                "segmentation": [],
                "score": score[row],
                "attributes": {"status": keys[row][1], "name": original[row]},
            }
        )
    categories = [{"id": number[key], "name": name, "supercategory": key[1]} for key, name in names.items()]
    info = {"description": "Categories found by ltgcd", "version": version("ltgcd")}
    content = {"info": info, "licenses": [], "categories": categories, "images": images, "annotations": annotations}
    _write_json(out / "labels.json", content)
    job.notes.extend(files.notes())
    return len(images)


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


FORMATS: dict[str, Callable[[Export, Path], int]] = {
    "csv": _write_csv,
    "parquet": _write_parquet,
    "folders": _write_folders,
    "label-studio": write_label_studio,
    "fiftyone": _write_fiftyone,
    "coco": _write_coco,
}
