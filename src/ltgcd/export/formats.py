"""Labels out of a run, in the forms that other tools read. Unsure items stay a bin of their own in every one of them.

``csv`` and ``parquet`` are the assignments as they are. ``folders``, ``fiftyone`` and ``coco`` are directories with the
images in them, by link where the source has files; ``label-studio`` is a file of tasks with predictions. Nothing that
exists is ever overwritten, and what is cut short leaves nothing behind.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast
from xml.sax.saxutils import quoteattr

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.data.collection import Collection, positions
from ltgcd.data.items import ImageFiles
from ltgcd.data.sources import read_source
from ltgcd.export.files import CHUNK, FilePlacer, image_ending, image_size, safe_name, unique_name
from ltgcd.run.directory import ASSIGNMENT_COLUMNS, read_assignments, read_config

STATUSES = ("known", "novel", "unsure")
UNSURE = "unsure"
INTERFACE = "-interface.xml"


@dataclass(frozen=True, eq=False)
class Export:
    """What is to be written.

    Attributes
    ----------
    table : pyarrow.Table
        ``id, label, name, status, confidence`` of the chosen items.
    collection : Collection or None
        The same items in the same order, where a source was given.
    copy : bool
        Copy files instead of linking to them.
    notes : list of str
        Sentences for the user, filled while writing.
    beside : dict
        Contents of further files by the end of their name, which begins as that of the output.
    """

    table: pa.Table
    collection: Collection | None
    copy: bool
    notes: list[str] = field(default_factory=list)
    beside: dict[str, str] = field(default_factory=dict)

    def keys(self) -> list[tuple[str, str]]:
        """(name, status) of each item's category; the bin of unsure items is a category, whatever they lean towards."""
        status = self.table.column("status")
        name = pc.fill_null(self.table.column("name"), "unnamed")
        return list(
            zip(pc.if_else(pc.equal(status, UNSURE), UNSURE, name).to_pylist(), status.to_pylist(), strict=True)
        )

    def class_names(self) -> dict[tuple[str, str], str]:
        """A name of its own for each category, by label, the bin of unsure items last.

        Only a class that is itself called "unsure", or as another one, gets a number.
        """
        first: dict[tuple[str, str], tuple[bool, int]] = {}
        for key, label in zip(self.keys(), self.table.column("label").to_pylist(), strict=True):
            first.setdefault(key, (key[1] == UNSURE, label))
        taken = {UNSURE: 1}
        ordered = sorted(first, key=lambda key: first[key])
        return {key: UNSURE if key[1] == UNSURE else unique_name(key[0], taken) for key in ordered}

    def need(self, *kinds: str) -> Collection:
        """The items themselves; says what is missing."""
        if self.collection is None:
            raise InputError("This format needs the items; give them with --source (the source of the run).")
        if self.collection.items.kind not in kinds:
            raise InputError(
                f"This format needs {' or '.join(f'{kind}s' for kind in kinds)}, but the source holds "
                f"{self.collection.items.kind}s; give the source of the run with --source, or use csv or parquet."
            )
        return self.collection

    def placer(self, *kinds: str) -> FilePlacer:
        """What puts the items into folders."""
        return FilePlacer(self.need(*kinds).items, self.table.column("id").to_pylist(), copy=self.copy)


def export_run(
    run: Path,
    form: str,
    out: Path,
    *,
    source: Path | None = None,
    statuses: tuple[str, ...] = STATUSES,
    copy: bool = False,
) -> dict[str, Any]:
    """Write the labels of a finished run to `out`, which must not exist.

    Parameters
    ----------
    run : path
        Run directory.
    form : str
        A key of `FORMATS`.
    out : path
        A file (csv, parquet, label-studio) or a folder (folders, fiftyone, coco).
    source : path, optional
        The source of the run, for all formats but csv and parquet.
    statuses : tuple of str
        Which items: some of known, novel and unsure.
    copy : bool
        Copy image files instead of linking to them.

    Returns
    -------
    dict
        ``format, n, path`` and ``notes``.
    """
    if form not in FORMATS:
        raise InputError(f"There is no format '{form}'; choose {', '.join(FORMATS)}.")
    if wrong := set(statuses) - set(STATUSES):
        raise InputError(f"There is no status '{min(wrong)}'; choose known, novel or unsure.")
    if not run.is_dir():
        raise InputError(f"{run} is not a run directory; give the --out of a run.")
    read_config(run)
    table = read_assignments(run).select(ASSIGNMENT_COLUMNS)
    _check_free(out)
    if form == "label-studio":
        _check_free(_beside(out, INTERFACE))
    table = table.filter(pc.is_in(table.column("status"), pa.array(statuses)))
    collection = None if source is None else _items_of(table, source)
    job = Export(table.combine_chunks(), collection, copy)
    with _all_or_nothing(out) as temporary:
        n = FORMATS[form](job, temporary)
    for ending, content in job.beside.items():
        with _beside(out, ending).open("x", encoding="utf-8") as file:
            file.write(content)
    return {"format": form, "n": n, "path": str(out), "notes": job.notes}


def _check_free(path: Path) -> None:
    if os.path.lexists(path):
        raise InputError(f"{path} is there already, and nothing is overwritten; give another --out, or remove it.")


def _beside(out: Path, ending: str) -> Path:
    return out.with_name(f"{out.stem}{ending}")


def _items_of(table: pa.Table, source: Path) -> Collection:
    """The rows of the source in the order of the assignments."""
    collection = read_source(source).collection
    ids = table.column("id").combine_chunks()
    rows = positions(ids, collection.ids, source, "give the source that the run was made from")
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


# ---------------------------------------------------------------- Label Studio


def _write_label_studio(job: Export, path: Path) -> int:
    """Tasks with predictions, a task a line of the list, written as they come: 50,000 images need not fit into memory.

    Files are named as local storage serves them; what has no file comes as a data URI, a text as itself.
    """
    collection = job.need("image", "text")
    kind = collection.items.kind
    names, keys, score = job.class_names(), job.keys(), job.table.column("confidence").to_pylist()
    ids, original = job.table.column("id").to_pylist(), job.table.column("name").to_pylist()
    model = f"ltgcd {version('ltgcd')}"
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        for start in range(0, len(ids), CHUNK):
            rows = np.arange(start, min(start + CHUNK, len(ids)), dtype=np.int64)
            for row, content in zip(rows.tolist(), _task_contents(collection, rows), strict=True):
                result = {
                    "id": f"r{row}",
                    "type": "choices",
                    "from_name": "category",
                    "to_name": kind,
                    "value": {"choices": [names[keys[row]]]},
                }
                data = {kind: content, "ltgcd_id": ids[row], "status": keys[row][1], "suggested": original[row]}
                task = {
                    "data": data,
                    "predictions": [{"model_version": model, "score": score[row], "result": [result]}],
                }
                file.write((",\n" if row else "\n") + json.dumps(task, ensure_ascii=False))
        file.write("\n]\n")
    job.beside[INTERFACE] = labelling_interface(kind, list(names.values()))
    job.notes.append(f"The labeling interface of the project is beside it, in …{INTERFACE}.")
    if isinstance(collection.items, ImageFiles):
        root = collection.items.root.resolve()
        job.notes.append(
            "Start Label Studio with LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
            f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={root.parent}, and add {root} as local storage."
        )
    return len(ids)


def labelling_interface(kind: str, names: list[str]) -> str:
    """Label Studio's configuration in which these tasks and predictions show."""
    shown = f'<{kind.capitalize()} name="{kind}" value="${kind}"/>'
    choices = "".join(f"<Choice value={quoteattr(name)}/>" for name in names)
    return f'<View>{shown}<Choices name="category" toName="{kind}" choice="single-radio">{choices}</Choices></View>'


def _task_contents(collection: Collection, rows: NDArray[np.int64]) -> list[str]:
    items = collection.items
    if items.kind == "text":
        return [str(text) for text in items.take(rows)]
    if not isinstance(items, ImageFiles):
        return [_data_uri(blob) for blob in cast("list[bytes]", items.take(rows))]
    root = items.root.resolve()
    contents = []
    for name in items.paths.take(rows).to_pylist():
        path = Path(os.path.normpath(root / name))
        if path.is_relative_to(root):
            contents.append("/data/local-files/?d=" + urllib.parse.quote(path.relative_to(root.parent).as_posix()))
        else:  # outside of what local storage would serve
            contents.append(_data_uri(path.read_bytes() if path.is_file() else b""))
    return contents


def _data_uri(blob: bytes) -> str:
    kind = {".jpg": "jpeg", ".tif": "tiff"}.get(ending := image_ending(blob), ending[1:])
    return f"data:image/{kind};base64,{base64.b64encode(blob).decode()}"


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


FORMATS: dict[str, Callable[[Export, Path], int]] = {
    "csv": _write_csv,
    "parquet": _write_parquet,
    "folders": _write_folders,
    "label-studio": _write_label_studio,
    "fiftyone": _write_fiftyone,
    "coco": _write_coco,
}
