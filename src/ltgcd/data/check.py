"""Look at a source before a long run: is it whole, and is there something to discover in it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from ltgcd.common.errors import InputError
from ltgcd.common.progress import progress
from ltgcd.data.collection import Collection, imbalance_factor
from ltgcd.data.images import decode
from ltgcd.data.sources import read_source

CHUNK = 32  # images in memory at a time


def inspect_source(path: Path, labels: Path | None = None) -> dict[str, Any]:
    """Read a source, decode its images, and count; bad input is an `InputError`."""
    collection, truth = read_source(path, labels)
    collection.require_partial_labels(path)
    if collection.items.kind == "image":
        broken = broken_images(collection)
        if broken:
            row, reason = broken[0]
            raise InputError(
                f"{len(broken)} of {len(collection)} images in {path} can't be decoded (the first is "
                f"'{collection.ids[row]}': {reason.partition(';')[0]}); replace or remove them."
            )
    counts = np.bincount(collection.y[collection.labelled], minlength=collection.n_old).astype(np.int64)
    return {
        "n": len(collection),
        "kind": collection.items.kind,
        "n_labelled": int(counts.sum()),
        "n_unlabelled": len(collection) - int(counts.sum()),
        "n_old": collection.n_old,
        "lambda_labelled": imbalance_factor(counts),
        "counts": dict(zip(collection.class_names, counts.tolist(), strict=True)),
        "has_truth": truth is not None,
    }


def broken_images(collection: Collection) -> list[tuple[int, str]]:
    """Rows whose image can't be decoded, with a sentence each. Memory stays bounded."""

    def check(row: int, blob: bytes) -> tuple[int, str] | None:
        try:
            decode(blob).load()
        except InputError as error:
            return row, str(error)
        return None

    order = collection.items.reading_order()
    broken: list[tuple[int, str]] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool, progress("decoding images", len(order)) as advance:
        for start in range(0, len(order), CHUNK):
            rows = order[start : start + CHUNK]
            blobs = collection.items.take(rows)
            broken += [found for found in pool.map(check, rows.tolist(), blobs) if found]
            advance(len(rows))
    return sorted(broken)
