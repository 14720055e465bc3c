"""Look at a source before a long run: is it whole, is there something to discover in it, can its vectors tell."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.progress import progress
from ltgcd.data.collection import UNLABELLED, Collection, imbalance_factor
from ltgcd.data.images import decode
from ltgcd.data.items import Vectors
from ltgcd.data.order import row_keys
from ltgcd.data.sources import AS_THEY_ARE, Columns, Notify, read_source, warn

COMFORTABLE = 10  # labelled items of a class: of fewer, its width is a guess
FEWEST_CLASSES = 2  # that must be labelled: one shows nothing of how unlike two classes are
CHUNK = 32  # images in memory at a time
ROWS = 8192  # embeddings in double precision at a time
SHORTEST = 1e-19  # of a row: its square, in single precision, is still more than zero
LONGEST = 1000.0  # times the median length of a row
ROUNDING = 1e-6  # times the median length: rows that differ by less differ by single precision's rounding


def inspect_source(
    path: Path, labels: Path | None = None, notify: Notify = warn, columns: Columns = AS_THEY_ARE
) -> dict[str, Any]:
    """Read a source, decode its images, and count; bad input is an `InputError`, what is doubtful is in `notes`."""
    notes: list[str] = []
    collection, truth = read_source(path, labels, columns=columns, notify=notes.append)
    collection.require_partial_labels(path)
    if isinstance(collection.items, Vectors):
        notes += [f"{path}: {doubt}" for doubt in doubts_about(collection.items.x, collection.y)]
    for note in notes:
        notify(note)
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
        "ready": collection.n_old >= FEWEST_CLASSES,
        "lambda_labelled": imbalance_factor(counts),
        "counts": dict(zip(collection.class_names, counts.tolist(), strict=True)),
        "few": [collection.class_names[at] for at in np.argsort(counts, kind="stable") if counts[at] < COMFORTABLE],
        "has_truth": truth is not None,
        "notes": notes,
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


# ---------------------------------------------------------------- what vectors can tell


def doubts_about(x: NDArray[np.floating], y: NDArray[np.int64]) -> list[str]:
    """Say why an answer from these embeddings would be worth little; refuse those that no answer can come from.

    Methods centre the rows and look at their directions, so that one number a row, or several that all say the same,
    can tell two groups apart and no more.

    Parameters
    ----------
    x : ndarray, shape (N, D)
        Embeddings, finite.
    y : ndarray of int64, shape (N,)
        Labels, -1 for an unlabelled item.

    Returns
    -------
    list of str
        A sentence for each doubt; most often there is none.

    Raises
    ------
    InputError
        If all rows are zero or equal, or if the known classes alone are more than the rows can tell apart.
    """
    n, known = len(x), len(np.unique(y[y != UNLABELLED]))
    length = row_lengths(x)
    vanished, usual = length < SHORTEST, float(np.median(length))
    if vanished.all():
        raise InputError(
            f"All {n} embeddings are zero, or too small for single precision; scale them up, or compute them again."
        )
    usual = usual if usual >= SHORTEST else float(np.median(length[~vanished]))
    long = length > LONGEST * usual
    spread, off_line = _spread(x if not long.any() else x[~long])
    if spread <= ROUNDING * usual:
        raise InputError(f"All {n} embeddings are the same but for rounding; there is nothing to tell them apart by.")
    doubts = []
    if off_line <= ROUNDING * max(usual, spread):
        what = "one number an item (n_features = 1)" if x.shape[1] == 1 else "numbers that all say the same"
        sentence = f"Embeddings of {what} can tell two groups apart, and no more"
        if known >= 2:
            raise InputError(f"{sentence}, but {known} classes are known; give embeddings with more features.")
        doubts.append(f"{sentence}; give embeddings with more features.")
    keys = row_keys(np.asarray(x, dtype=np.float32))[:, 0]
    distinct, group = np.unique(keys, return_inverse=True)
    if len(distinct) <= known:
        raise InputError(f"Only {len(distinct)} of {n} embeddings differ, but {known} classes are known; check them.")
    if len(distinct) < n / 2:
        doubts.append(
            f"Only {len(distinct)} of {n} embeddings differ; what is found for copies is one answer, not many."
        )
    if vanished.any():
        doubts.append(
            f"{vanished.sum()} of {n} embeddings are zero (the first is row {int(vanished.argmax())}); what is found "
            "for them means nothing."
        )
    if long.any():
        times = length.max() / usual
        doubts.append(
            f"{long.sum()} of {n} embeddings are more than {LONGEST:,.0f} times as long as most (the longest, row "
            f"{int(length.argmax())}, {times:.0e} times); check how they were made."
        )
    contradicted = _contradicted(group, y)
    if contradicted:
        doubts.append(
            f"{contradicted} labelled items have the same embedding as an item with another label; one of the two is "
            "wrong."
        )
    return doubts


def row_lengths(x: NDArray[np.floating]) -> NDArray[np.float64]:
    """Length of each row (N,) in double precision, where no square of a single one overflows or vanishes."""
    return np.asarray(np.sqrt(np.einsum("nd,nd->n", x, x, dtype=np.float64)))


def _spread(x: NDArray[np.floating]) -> tuple[float, float]:
    """How far rows (N, D) are from their mean at most, and from the line through it and the farthest of them."""
    mean, starts = x.mean(axis=0, dtype=np.float64), range(0, len(x), ROWS)

    def centred(start: int) -> NDArray[np.float64]:
        return np.asarray(np.asarray(x[start : start + ROWS], dtype=np.float32) - mean)

    length = np.concatenate([row_lengths(centred(start)) for start in starts])
    far = int(length.argmax())
    if not length[far]:
        return 0.0, 0.0
    axis = centred(far)[0] / length[far]
    off_line = [row_lengths(rows - np.outer(rows @ axis, axis)).max() for rows in map(centred, starts)]
    return float(length[far]), float(max(off_line))


def _contradicted(group: NDArray[np.int64], y: NDArray[np.int64]) -> int:
    """Number of labelled items whose group (N,) of equal rows has more than one label."""
    labelled = y != UNLABELLED
    pairs = np.unique(np.stack([group[labelled], y[labelled]]), axis=1)
    labels_of = np.bincount(pairs[0], minlength=int(group.max()) + 1)
    return int((labels_of[group[labelled]] > 1).sum())
