"""Hostile manifests, tables of labels, and paths that are no source at all."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .hostile_arrays import NAMES, NO_LABELS, flipped_bits
from .hostile_images import BLOBS

# ---------------------------------------------------------------- manifests


def _rows(random: random.Random, n: int = 24) -> list[dict[str, Any]]:
    """Texts in three classes, with some strange cells."""
    rows = [
        {"id": f"t{i}", "text": f"text number {i} of {i % 3}", "label": f"c{i % 3}" if i % 2 else ""} for i in range(n)
    ]
    for _ in range(random.randint(0, 6)):
        row, column = random.choice(rows), random.choice(("id", "text", "label"))
        row[column] = random.choice(NAMES + NO_LABELS)
    return rows


def _csv(rows: list[dict[str, Any]], comma: str = ",") -> str:
    cells = [list(rows[0]), *[list(row.values()) for row in rows]]
    return "\n".join(comma.join('"' + str(c).replace('"', '""') + '"' for c in line) for line in cells) + "\n"


def _with_paths(random: random.Random, folder: Path) -> list[dict[str, Any]]:
    """Paths of a manifest: some are images, others anything but."""
    (folder / "pictures").mkdir(exist_ok=True)
    for i in range(6):
        (folder / "pictures" / f"{i}.png").write_bytes(BLOBS["honest.png"](random))
    os.mkfifo(folder / "pictures" / "pipe.png")
    odd = (
        "pictures/pipe.png",
        "/dev/zero",
        "/dev/stdin",
        "pictures",
        "",
        "not-there.png",
        "http://x/y.png",
        "../thesis.txt",
        "~/x.png",
    )
    paths = [f"pictures/{i}.png" for i in range(6)] + random.sample(odd, random.randint(0, 3))
    return [{"path": path, "label": ("a", "b", "")[i % 3]} for i, path in enumerate(paths)]


def write_csv(random: random.Random, folder: Path) -> tuple[Path, str, str]:
    """A hostile CSV manifest."""
    path = folder / "table.csv"
    rows = _with_paths(random, folder) if random.random() < 0.3 else _rows(random)
    text = _csv(rows)
    blobs: dict[str, Callable[[], bytes]] = {
        "as it is": lambda: text.encode("utf-8", "surrogatepass"),
        "BOM": lambda: b"\xef\xbb\xbf" + text.encode("utf-8", "replace"),
        "UTF-16": lambda: text.encode("utf-16", "replace"),
        "Latin-1": lambda: text.encode("latin-1", "replace") + b'"x","caf\xe9","c1"\n',
        "NUL bytes": lambda: text.encode("utf-8", "replace").replace(b"text", b"te\0xt"),
        "unclosed quote": lambda: text.encode("utf-8", "replace") + b'"never closed,1,2\n',
        "ragged": lambda: text.encode("utf-8", "replace") + b"1\n1,2,3,4,5,6\n",
        "header only": lambda: text.split("\n")[0].encode() + b"\n",
        "empty": lambda: b"",
        "newlines only": lambda: b"\n\n\n\r\n",
        "semicolons": lambda: _csv(rows, ";").encode("utf-8", "replace"),
        "CR only": lambda: text.replace("\n", "\r").encode("utf-8", "replace"),
        "header twice": lambda: b"id,id,text,text,label\n1,2,3,4,5\n",
        "upper-case header": lambda: text.replace("label", "LABEL", 1).encode("utf-8", "replace"),
        "a large cell": lambda: text.encode("utf-8", "replace") + b'"l","' + b"x" * 200_000 + b'",""\n',
        "binary": lambda: random.randbytes(400),
        "empty texts": lambda: (
            b"id,text,label\n" + b"".join(b"%d,,%s\n" % (i, b"a" if i % 2 else b"") for i in range(9))
        ),
    }
    what = random.choice(list(blobs))
    path.write_bytes(blobs[what]())
    return path, f"csv, {what}", "any"


def write_parquet(random: random.Random, folder: Path) -> tuple[Path, str, str]:
    """A hostile parquet manifest."""
    path, n = folder / "table.parquet", 12
    images = [BLOBS[random.choice(list(BLOBS))](random) for _ in range(n)]
    struct_ = pa.array([{"bytes": blob, "path": f"{i}.png"} for i, blob in enumerate(images)])
    labels = pa.array([0, 1, None] * 4, pa.int64())
    hugging = {
        "info": {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}, "image": {"_type": "Image"}}}
    }
    broken = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"\xe9\xe8")]
    )
    texts = pa.array([f"text {i}" for i in range(n)])
    tables: dict[str, Callable[[], pa.Table]] = {
        "images": lambda: pa.table({"image": struct_, "label": labels}),
        "Hugging Face": lambda: _noted(pa.table({"image": struct_, "label": labels}), json.dumps(hugging)),
        "Hugging Face without labels": lambda: _noted(pa.table({"image": struct_}), json.dumps(hugging)),
        "Hugging Face, label beyond its names": lambda: _noted(
            pa.table({"image": struct_, "label": pa.array([7] * n)}), json.dumps(hugging)
        ),
        "broken metadata": lambda: _noted(pa.table({"image": struct_, "label": labels}), '{"info": 3'),
        "strange metadata": lambda: _noted(
            pa.table({"image": struct_, "label": labels}), random.choice(("[]", "3", '{"info": []}', "null"))
        ),
        "null images": lambda: pa.table({"image": pa.array([None] * n, struct_.type), "label": labels}),
        "uint64 labels": lambda: pa.table({"text": texts, "label": pa.array([2**64 - 1, 1, None] * 4, pa.uint64())}),
        "lists as labels": lambda: pa.table({"text": texts, "label": pa.array([[1], [2], []] * 4)}),
        "dates as labels": lambda: pa.table({"text": texts, "label": pa.array([0, 1, None] * 4, pa.timestamp("s"))}),
        "dictionary labels": lambda: pa.table(
            {"text": texts, "label": pa.array(["a", "b", None] * 4).dictionary_encode()}
        ),
        "fractions as labels": lambda: pa.table({"text": texts, "label": pa.array([0.5, float("nan"), None] * 4)}),
        "not UTF-8": lambda: pa.table({"text": broken, "label": pa.array(["a", None])}),
        "ids not UTF-8": lambda: pa.table({"id": broken, "text": pa.array(["x", "y"]), "label": pa.array(["a", None])}),
        "columns twice": lambda: pa.Table.from_arrays([texts, texts, labels], names=["text", "text", "label"]),
        "no columns": lambda: pa.table({}),
        "no rows": lambda: pa.table({"text": texts, "label": labels}).slice(0, 0),
        "other columns": lambda: pa.table({"a": texts, "b": labels}),
        "numbers as text": lambda: pa.table({"text": labels, "label": labels}),
        "null type": lambda: pa.table({"text": pa.nulls(n), "label": pa.nulls(n)}),
        "x as lists": lambda: pa.table({"x": pa.array([[1.0, 2.0]] * n), "label": labels}),
        "strange cells": lambda: pa.Table.from_pylist([_utf8(row) for row in _rows(random)]),
        "ids null": lambda: pa.table({"id": pa.nulls(n, pa.string()), "text": texts, "label": labels}),
        "null bytes in names": lambda: pa.table({"text": texts, "label": pa.array(["a\0b", "a", None] * 4)}),
    }
    what = random.choice(list(tables))
    pq.write_table(tables[what](), path)
    if random.random() < 0.15:
        blob = path.read_bytes()
        path.write_bytes(flipped_bits(blob, random) if random.random() < 0.5 else blob[: random.randrange(len(blob))])
        what += ", damaged"
    return path, f"parquet, {what}", "any"


def _noted(table: pa.Table, text: str) -> pa.Table:
    return table.replace_schema_metadata({"huggingface": text})


def _utf8(row: dict[str, Any]) -> dict[str, str]:
    return {key: value.encode("utf-8", "replace").decode() for key, value in row.items()}


# ---------------------------------------------------------------- no source at all


NO_SOURCES = (
    *("", "not-there", "not-there.npz", "/dev/zero", "/dev/null", "fifo.npz", "fifo.csv", "fifo.parquet", "fifo"),
    *("folder.npz", "folder.csv", "loop.npz", "empty-folder", "notes.txt", "dangling.csv", "zero.npz", "~nobody/x.npz"),
    "x" * 300,
)


def write_nothing(random: random.Random, folder: Path) -> tuple[Path, str, str]:
    """Paths that hold no source: all must be refused."""
    kind = random.choice(NO_SOURCES)
    path = folder / kind
    if kind.startswith("fifo"):
        os.mkfifo(path)
    elif kind.startswith(("folder", "empty")):
        path.mkdir()
    elif kind.startswith("loop"):
        path.symlink_to(path.name)
    elif kind.startswith("dangling"):
        path.symlink_to("gone.csv")
    elif kind == "zero.npz":
        path.symlink_to("/dev/zero")
    elif kind == "notes.txt":
        path.write_text("notes")
    return Path(kind), f"no source: {kind[:30]!r}", "refuse"


# ---------------------------------------------------------------- labels


def write_labels(random: random.Random, folder: Path, ids: list[str]) -> tuple[Path, str]:
    """A hostile file for --labels, about some of the ids."""
    some = random.sample(ids, min(len(ids), 20))
    lines = [f"{name},{random.choice(('red', 'blue'))}" for name in some]
    contents: dict[str, Callable[[], str | bytes]] = {
        "honest": lambda: "id,label\n" + "\n".join(lines),
        "unknown ids": lambda: "id,label\nnobody,red\nnowhere,blue\n" + "\n".join(lines),
        "an id twice": lambda: "id,label\n" + "\n".join([*lines, f"{some[0]},green", f"{some[0]},pink"]),
        "no label column": lambda: "id,class\n" + "\n".join(lines),
        "no header": lambda: "\n".join(lines),
        "words for no label": lambda: "id,label\n" + "\n".join(f"{name},{random.choice(NO_LABELS)}" for name in some),
        "hostile names": lambda: ("id,label\n" + "\n".join(f'{name},"{random.choice(NAMES)}"' for name in some)).encode(
            "utf-8", "replace"
        ),
        "empty": lambda: "",
        "header only": lambda: "id,label\n",
        "binary": lambda: random.randbytes(300),
        "numbers": lambda: (
            "id,label\n" + "\n".join(f"{name},{random.choice(('1', '01', '1.0', '-1', '1e400'))}" for name in some)
        ),
    }
    documents: dict[str, Callable[[], Any]] = {
        "deep JSON": lambda: [],
        "a JSON list of numbers": lambda: [1, 2, 3],
        "JSON null": lambda: None,
        "JSON of another tool": lambda: {"samples": [{"filepath": 3, "ground_truth": []}]},
        "half Label Studio": lambda: [{"id": 1, "data": {"id": some[0]}, "annotations": [{"result": [{"value": {}}]}]}],
        "Label Studio without results": lambda: [{"data": {"id": name}, "annotations": None} for name in some],
        "half COCO": lambda: {
            "images": [{"id": 1}],
            "annotations": [{"image_id": 9, "category_id": 7}],
            "categories": [],
        },
        "COCO of wrong types": lambda: {"images": {}, "annotations": 3, "categories": "x"},
        "huge numbers": lambda: {
            "images": [{"id": 10**400, "file_name": some[0]}],
            "annotations": [],
            "categories": [],
        },
    }
    what = random.choice([*contents, *documents])
    if what in contents:
        path, content = folder / "labels.csv", contents[what]()
        path.write_bytes(content.encode("utf-8", "replace") if isinstance(content, str) else content)
        return path, f"labels: {what}"
    path = folder / "labels.json"
    path.write_text("[" * 100_000 if what == "deep JSON" else json.dumps(documents[what]()))
    return path, f"labels: {what}"
