"""The run directory: what was run, on what, and every item's label, so that others can rely on its form.

``config.toml``, ``split.parquet`` (id, label, y_true), ``metrics.jsonl``, ``k_estimate.json`` and
``assignments.parquet`` (id, label, name, status, confidence).
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w
from numpy.typing import NDArray

from ltgcd.collection import Collection, Source, Truth, check_unique
from ltgcd.errors import InputError
from ltgcd.items import parquet_file
from ltgcd.labels import label_names
from ltgcd.sources import encode_labels, labels_table
from ltgcd.storage import atomic_path, checksum_rows, read_metadata, with_metadata

ASSIGNMENT_COLUMNS = ("id", "label", "name", "status", "confidence")


class RunLabels(NamedTuple):
    """What a run was given: ids, labels and, for evaluation, the truth."""

    ids: pa.StringArray
    y: NDArray[np.int64]
    class_names: tuple[str, ...]
    truth: Truth | None


def open_run(folder: Path, config: dict[str, Any], source: Source) -> Path:
    """Make a run directory, or go on with it if it holds the very same run.

    `config` is what decides the result (no paths, no times); the split's checksum is added to it.
    """
    table = labels_table(source, {})
    checksum = checksum_rows(table.column("id").combine_chunks(), table.column("label").combine_chunks())
    decisive = {**config, "labels_checksum": checksum}
    path = folder / "config.toml"
    if path.is_file():
        if read_config(folder).get("run") != decisive:
            raise InputError(f"{folder} holds another run; give a new folder with --out, or remove this one.")
        return folder
    check_free(folder)
    with atomic_path(folder / "split.parquet") as temporary:
        pq.write_table(table, temporary)
    # The configuration is written last: a folder with one is a run.
    with atomic_path(path) as temporary:
        temporary.write_text(tomli_w.dumps({"run": decisive, "versions": versions()}), encoding="utf-8")
    return folder


def check_free(folder: Path) -> None:
    """Refuse a folder that holds something else (a file that a killed run left half-way does not count)."""
    if folder.is_file():
        raise InputError(f"{folder} is a file; give a folder with --out.")
    leftovers = {"split.parquet"}
    if folder.is_dir() and any(p.name not in leftovers and not p.name.endswith(".tmp") for p in folder.iterdir()):
        raise InputError(f"{folder} is not empty and holds no run of ltgcd; give a new folder with --out.")


def read_config(folder: Path) -> dict[str, Any]:
    """The run's configuration."""
    path = folder / "config.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{folder} is not a run directory (no config.toml); give the --out of a run.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is damaged; restore it or start the run again in a new folder.") from error


def read_run_labels(folder: Path) -> RunLabels:
    """Ids, labels and truth of a run, from its ``split.parquet``."""
    path = folder / "split.parquet"
    if not path.is_file():
        raise InputError(f"{folder} has no split.parquet, so it can't be evaluated; give the --out of a run.")
    table = parquet_file(path).read()
    ids = table.column("id").combine_chunks()
    truth = label_names(table.column("y_true"), path) if "y_true" in table.column_names else None
    known, y, coded = encode_labels(
        ids, label_names(table.column("label"), path), truth, read_metadata(table.schema).get("class_names")
    )
    return RunLabels(ids, y, tuple(known), coded)


def class_name(label: int, class_names: tuple[str, ...]) -> str:
    """Name of a class: its own if it is known, else ``novel-001`` and so on."""
    return class_names[label] if label < len(class_names) else f"novel-{label - len(class_names) + 1:03d}"


def write_assignments(
    folder: Path, collection: Collection, labels: NDArray[np.int64], confidence: NDArray[np.float32], k: int
) -> Path:
    """Write a label, a name, a status and a confidence for every item; `k` counts empty classes too."""
    names = [class_name(label, collection.class_names) for label in range(int(labels.max()) + 1)]
    table = pa.table(
        {
            "id": collection.ids,
            "label": pa.array(labels, pa.int64()),
            "name": pa.array(names, pa.string()).take(pa.array(labels)),
            "status": pa.array(np.where(labels < collection.n_old, "known", "novel")),
            "confidence": pa.array(confidence, pa.float32()),
        }
    )
    table = with_metadata(table, {"k": k})
    path = folder / "assignments.parquet"
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary)
    return path


def read_assignments(folder: Path) -> pa.Table:
    """The assignments of a run."""
    path = folder / "assignments.parquet"
    if not path.is_file():
        raise InputError(f"{folder} has no assignments.parquet yet; finish the run first.")
    table = parquet_file(path).read()
    if missing := set(ASSIGNMENT_COLUMNS) - set(table.column_names):
        raise InputError(f"{path} lacks the columns {sorted(missing)}; make the run again.")
    check_unique(table.column("id").combine_chunks(), path)
    return table


def append_metrics(folder: Path, record: dict[str, Any]) -> None:
    """Append a line to ``metrics.jsonl``."""
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def versions() -> dict[str, str]:
    """Versions of what decides the figures."""
    packages = ("ltgcd", "numpy", "scipy", "scikit-learn", "torch", "faiss-cpu")
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in packages}}
