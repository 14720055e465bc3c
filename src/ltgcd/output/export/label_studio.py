"""Tasks with predictions for Label Studio, and the labelling interface in which they show."""

from __future__ import annotations

import base64
import json
import os
import re
import urllib.parse
from importlib.metadata import version
from pathlib import Path
from typing import cast
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray

from ltgcd.data.collection import Collection
from ltgcd.data.images import image_ending
from ltgcd.data.items import ImageFiles
from ltgcd.output.export.files import CHUNK
from ltgcd.output.export.job import Export

INTERFACE = "-interface.xml"


def write_label_studio(job: Export, path: Path) -> int:
    """Tasks with predictions, a task a line of the list, written as they come: 50,000 images need not fit into memory.

    Files are named as local storage serves them; what has no file comes as a data URI, a text as itself.
    """
    collection = job.need("image", "text")
    kind = collection.items.kind
    choices = shown_names(list(job.category_statuses))
    # Label Studio gives a task's data back as it was, so a name that had to be changed is told there.
    changed = {shown: name for name, shown in choices.items() if shown != name}
    model = f"ltgcd {version('ltgcd')}"
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        for start in range(0, len(job.ids), CHUNK):
            rows = np.arange(start, min(start + CHUNK, len(job.ids)), dtype=np.int64)
            for row, content in zip(rows.tolist(), _task_contents(collection, rows), strict=True):
                result = {
                    "id": f"r{row}",
                    "type": "choices",
                    "from_name": "category",
                    "to_name": kind,
                    "value": {"choices": [choices[job.categories[row]]]},
                }
                task = {
                    "data": {kind: content, **job.details(row), **({"class_names": changed} if changed else {})},
                    "predictions": [{"model_version": model, "score": job.confidence[row], "result": [result]}],
                }
                file.write((",\n" if row else "\n") + json.dumps(task, ensure_ascii=False))
        file.write("\n]\n")
    job.beside[INTERFACE] = labelling_interface(kind, list(choices.values()))
    job.notes.append(f"The labeling interface of the project is beside it, in …{INTERFACE}.")
    if isinstance(collection.items, ImageFiles):
        root = collection.items.root.resolve()
        job.notes.append(
            "Start Label Studio with LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
            f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={root.parent}, and add {root} as local storage."
        )
    return len(job.ids)


def shown_names(names: list[str]) -> dict[str, str]:
    """Each name as Label Studio's interface can show it, no two alike.

    XML has no control characters, a choice is one line, and ``$word`` would be looked up in the task's data.
    """
    taken = {name for name in names if _shown(name) == name}
    shown = {}
    for name in names:
        new = base = _shown(name)
        number = 2
        while new != name and new in taken:
            new, number = f"{base}-{number}", number + 1
        taken.add(new)
        shown[name] = new
    return shown


def _shown(name: str) -> str:
    """Control characters as pictures of themselves (␀ ␊ ␡), other characters that XML lacks as �."""
    name = re.sub(r"[\x00-\x1f]", lambda found: chr(0x2400 + ord(found[0])), name).replace("\x7f", "␡")
    return re.sub(r"\$(?=\w)", "＄", re.sub(r"[\x80-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", name)).strip() or "_"


def labelling_interface(kind: str, names: list[str]) -> str:
    """Label Studio's configuration in which these tasks and predictions show."""
    shown = f'<{kind.capitalize()} name="{kind}" value="${kind}"/>'
    choices = "".join(f"<Choice value={quoteattr(name)}/>" for name in names)
    return f'<View>{shown}<Choices name="category" toName="{kind}" choice="single-radio">{choices}</Choices></View>'


def _task_contents(collection: Collection, rows: NDArray[np.int64]) -> list[str]:
    items = collection.items
    if items.kind == "text":
        # PostgreSQL, which Label Studio may run on, takes no NUL in a text.
        return [str(text).replace("\0", "␀") for text in items.take(rows)]
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
