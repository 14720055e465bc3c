"""Tasks with predictions for Label Studio, and the labelling interface in which they show."""

from __future__ import annotations

import base64
import json
import os
import urllib.parse
from importlib.metadata import version
from pathlib import Path
from typing import cast
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray

from ltgcd.data.collection import Collection
from ltgcd.data.items import ImageFiles
from ltgcd.export.files import CHUNK, image_ending
from ltgcd.export.job import Export

INTERFACE = "-interface.xml"


def write_label_studio(job: Export, path: Path) -> int:
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
