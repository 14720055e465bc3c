"""The run directory: what was run, on what, and every item's label, so that others can rely on its form.

``config.toml``, ``split.parquet`` (id, label, y_true), ``metrics.jsonl``, ``k_estimate.json`` and
``assignments.parquet`` (id, label, name, status, confidence).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import tomli_w
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import atomic_path, checksum_rows, read_metadata, with_metadata
from ltgcd.data.collection import UNLABELLED, Collection, Source, Truth, check_unique
from ltgcd.data.items import Items, Vectors
from ltgcd.data.labels import strings
from ltgcd.data.parquet import parquet_file, read_parquet
from ltgcd.data.sources import encode_labels, labels_table, stored_labels

METRICS = "metrics.jsonl"
ASSIGNMENT_COLUMNS = ("id", "label", "name", "status", "confidence")


class RunLabels(NamedTuple):
    """What a run was given: ids, labels and, for evaluation, the truth."""

    ids: pa.StringArray
    y: NDArray[np.int64]
    class_names: tuple[str, ...]
    truth: Truth | None


def open_run(folder: Path, config: dict[str, Any], source: Source) -> Path:
    """Make a run directory, or go on with it if it holds the very same run.

    `config` is what decides the result (no paths, no times); checksums of the labels, the truth that it is scored
    against and the features are added to it, so that other features in the same folder are another run.
    """
    table = labels_table(source, {})
    checksum = checksum_rows(*(column.combine_chunks() for column in table.columns))
    decisive = {**config, "labels_checksum": checksum, "features_checksum": features_checksum(source.collection.items)}
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
    if folder.is_dir() and not all(
        p.name.endswith(".tmp") or _is_leftover(p) or (p / "features.json").is_file() for p in folder.iterdir()
    ):
        raise InputError(f"{folder} is not empty and holds no run of ltgcd; give a new folder with --out.")


def _is_leftover(path: Path) -> bool:
    """Whether a file is a run's ``split.parquet``, and not the work of ``ltgcd split``, which is never overwritten."""
    if path.name != "split.parquet":
        return False
    schema = parquet_file(path).schema_arrow
    return set(read_metadata(schema)) == {"class_names"} and set(schema.names) <= {"id", "label", "y_true"}


def features_checksum(items: Items) -> str:
    """SHA-256 of embeddings, as the float32 that every method works in; other items have none."""
    if not isinstance(items, Vectors):
        return ""
    digest = hashlib.sha256(str(items.x.shape).encode())
    for start in range(0, len(items), 4096):
        digest.update(items.take(np.arange(start, min(start + 4096, len(items)))).tobytes())
    return digest.hexdigest()


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
    table = read_parquet(path)
    labels = stored_labels(table, "label", path)
    if labels is None or "id" not in table.column_names:
        raise InputError(f"{path} lacks the column 'id' or 'label'; restore it or start the run again in a new folder.")
    ids = strings(table.column("id"), "id", path)
    truth = stored_labels(table, "y_true", path)
    known, y, coded = encode_labels(ids, labels, truth, read_metadata(table.schema).get("class_names"))
    return RunLabels(ids, y, tuple(known), coded)


def class_name(label: int, class_names: tuple[str, ...]) -> str:
    """Name of a class: its own if it is known, else ``novel-001`` and so on."""
    return class_names[label] if label < len(class_names) else f"novel-{label - len(class_names) + 1:03d}"


def core(labels: NDArray[np.int64], sure: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Label of each item that says what its category is like, -1 for the others, shape (N,).

    The sure items; of a category without any, those that lean towards it.
    """
    empty = np.setdiff1d(labels, labels[sure])
    return np.where(sure | np.isin(labels, empty), labels, UNLABELLED).astype(np.int64)


def assignments_table(
    ids: pa.StringArray,
    labels: NDArray[np.int64],
    confidence: NDArray[np.float32],
    class_names: tuple[str, ...],
    k: int,
    unsure: NDArray[np.bool_] | None = None,
    note: dict[str, Any] | None = None,
    named: dict[int, str] | None = None,
) -> pa.Table:
    """A label, a name, a status and a confidence for every item; `k` counts empty classes too.

    An unsure item's label is the class that it leans to. `note` is kept beside `k` in the table's metadata. `named` are
    classes that people named only when the others had their numbers: they are known, whatever their own number.
    """
    named = named or {}
    names = [named.get(label) or class_name(label, class_names) for label in range(int(labels.max(initial=0)) + 1)]
    status = np.where((labels < len(class_names)) | np.isin(labels, list(named)), "known", "novel")
    if unsure is not None:
        status = np.where(unsure, "unsure", status)
    table = pa.table(
        {
            "id": ids,
            "label": pa.array(labels, pa.int64()),
            "name": pa.array(names, pa.string()).take(pa.array(labels)),
            "status": pa.array(status),
            "confidence": pa.array(confidence, pa.float32()),
        }
    )
    return with_metadata(table, {"k": k, **(note or {})})


def write_assignments(
    folder: Path,
    collection: Collection,
    labels: NDArray[np.int64],
    confidence: NDArray[np.float32],
    k: int,
    unsure: NDArray[np.bool_] | None = None,
    note: dict[str, Any] | None = None,
) -> Path:
    """Write ``assignments.parquet``; see `assignments_table`."""
    table = assignments_table(collection.ids, labels, confidence, collection.class_names, k, unsure, note)
    path = folder / "assignments.parquet"
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary)
    return path


def read_assignments(folder: Path) -> pa.Table:
    """The assignments of a run."""
    path = folder / "assignments.parquet"
    if not path.is_file():
        raise InputError(f"{folder} has no assignments.parquet yet; finish the run first.")
    table = read_parquet(path)
    if missing := set(ASSIGNMENT_COLUMNS) - set(table.column_names):
        raise InputError(f"{path} lacks the columns {sorted(missing)}; make the run again.")
    label = table.column("label")
    if not pa.types.is_integer(label.type) or label.null_count or (pc.min(label).as_py() or 0) < 0:
        raise InputError(f"{path} has labels that are not class ids (0, 1, …) for every item; make the run again.")
    ids = strings(table.column("id"), "id", path)
    check_unique(ids, path)
    return table.set_column(table.column_names.index("id"), "id", ids)


def record_epoch(folder: Path, line: dict[str, Any], name: str = METRICS) -> None:
    """Add the line of an epoch to ``metrics.jsonl``; one of the same or a later epoch, trained again, gives way."""
    kept = [old for old in read_epochs(folder, name) if old["epoch"] < line["epoch"]]
    with atomic_path(folder / name) as temporary:
        temporary.write_text("".join(json.dumps(each) + "\n" for each in [*kept, line]), encoding="utf-8")


def read_epochs(folder: Path, name: str = METRICS) -> list[dict[str, Any]]:
    """The lines that `record_epoch` wrote; none if there is no such file."""
    path = folder / name
    held = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [json.loads(line) for line in held]


def draw_epoch(folder: Path, line: dict[str, Any]) -> None:
    """Add the numbers of an epoch's line to ``tensorboard/``, where TensorBoard is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        return
    # A writer for each epoch: nothing is held open, and an epoch that is trained again takes the place of the first.
    with SummaryWriter(str(folder / "tensorboard"), purge_step=line["epoch"]) as writer:
        for name, value in line.items():
            if isinstance(value, int | float) and name != "epoch":
                writer.add_scalar(name, value, line["epoch"])


def versions() -> dict[str, str]:
    """Versions of what decides the figures."""
    packages = ("ltgcd", "numpy", "scipy", "scikit-learn", "torch", "faiss-cpu")
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in packages}}
