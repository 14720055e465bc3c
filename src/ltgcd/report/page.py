"""``report.html``: one file that a person would rather look at than read.

The page is a template with a style sheet, a script and one block of JSON. Nothing that comes from the data is ever
markup: the block has no ``<``, the script makes elements and sets their text, and a content policy with the hashes of
our own script and style keeps everything else from running or from reaching the network.
"""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.metadata
import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import atomic_path, read_metadata
from ltgcd.data.collection import Collection, Source, imbalance_factor
from ltgcd.report.categories import (
    NOVEL,
    STATUSES,
    Assigned,
    Geometry,
    align,
    directions,
    examples,
    geometry,
    nearest_known,
    queue_order,
    suggested_names,
    top_terms,
)
from ltgcd.report.columns import SHOWN, item_columns
from ltgcd.report.layout import SAMPLE, map_items, tail_sample
from ltgcd.report.pictures import Pictures, collection_pictures

UNSURE_EXAMPLES = 12
SCRIPTS = ("base.js", "charts.js", "map.js", "cards.js", "start.js")
POLICY = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; script-src {}; style-src {}"


def write_report(
    folder: Path,
    source: Source,
    features: NDArray[np.floating],
    assignments: pa.Table,
    *,
    k_estimate: dict[str, Any] | None,
    calibration_error: float | None,
    coordinates: NDArray[np.floating] | None = None,
    laid_out: int | None = None,
    pictures: Pictures | None = None,
    seed: int | None = None,
    title: str | None = None,
    progress: Callable[[str], None] = lambda _stage: None,
) -> Path:
    """Write the page of a run.

    Parameters
    ----------
    folder : path
        Where ``report.html`` goes.
    source : Source
        What the run was made from. Only the collection is looked at, never the truth.
    features : ndarray, shape (N, D)
        Test-view features of the collection's items, in its order.
    assignments : pyarrow.Table
        ``id, label, name, status, confidence``; items without an assignment are left out, and the page says so.
    k_estimate : dict, optional
        What ``k_estimate.json`` holds.
    calibration_error : float, optional
        Expected calibration error in rehearsals with labels hidden.
    coordinates : ndarray, shape (N, 2), optional
        Places on the map; by default t-SNE (`ltgcd.report.layout`).
    laid_out : int, optional
        How many of the coordinates t-SNE found, the others being put beside those; all by default.
    pictures : callable, optional
        Images of some rows of the collection, for vectors that have a picture; images of a source are found without it.
    seed : int, optional
        Seed of the run, for the header; also that of the map.
    title : str, optional
        Name of the run; by default that of its folder.
    progress : callable
        Told the name of each stage as it starts.
    """
    collection = source.collection
    if len(features) != len(collection):
        raise InputError(f"The report needs features for all {len(collection)} items, but got {len(features)} rows.")
    if coordinates is not None and np.shape(coordinates) != (len(collection), 2):
        raise InputError(f"Coordinates must have the shape ({len(collection)}, 2), not {np.shape(coordinates)}.")
    assigned = align(collection, assignments)
    if not len(assigned.rows):
        raise InputError("No item has an assignment, so there is nothing to report; finish the run first.")
    progress("looking at the categories")
    x = np.asarray(features)[assigned.rows]
    if not np.isfinite(x).all():
        raise InputError("The features hold NaN or infinite values; embed these items again.")
    z = directions(x)
    shape = geometry(z, assigned)
    shown = examples(assigned, shape.closeness)
    if coordinates is None:
        progress(f"drawing the map of {len(z):,} items")
        places = map_items(z, assigned.category, seed or 0)
    else:
        places = np.asarray(coordinates, dtype=np.float32)[assigned.rows]
    progress("writing the page")
    cards, unsure = _categories(collection, assigned, shape, shown)
    data = {
        "meta": {
            **_meta(collection, assigned, k_estimate, calibration_error, seed, title or folder.resolve().name),
            "appended": _appended(assignments, k_estimate),
        },
        "k": _k_curve(k_estimate),
        "categories": cards,
        "unsure": unsure,
        **item_columns(collection, assigned, cards, unsure, places, pictures or collection_pictures(collection)),
    }
    data["meta"]["laid_out"] = (laid_out or len(z)) if coordinates is not None else min(len(z), SAMPLE)
    path = folder / "report.html"
    with atomic_path(path) as temporary:
        temporary.write_text(render(data), encoding="utf-8")
    return path


def render(data: dict[str, Any]) -> str:
    """The page as text."""
    static = resources.files("ltgcd.report") / "static"
    style = (static / "page.css").read_text(encoding="utf-8")
    script = "\n".join((static / name).read_text(encoding="utf-8") for name in SCRIPTS)
    policy = POLICY.format(_hash(script), _hash(style))
    block = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        block = block.replace(character, f"\\u{ord(character):04x}")
    # Parts are put in one after the other from the left, so that no part is ever searched for the next one's mark.
    parts = {
        "POLICY": policy,
        "TITLE": html.escape(data["meta"]["title"]),
        "STYLE": style,
        "DATA": block,
        "SCRIPT": script,
    }
    page, rest = "", (static / "page.html").read_text(encoding="utf-8")
    for mark, part in parts.items():
        before, _, rest = rest.partition(f"@{mark}@")
        page += before + part
    return page + rest


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# ---------------------------------------------------------------- what the page holds


def _meta(
    collection: Collection,
    assigned: Assigned,
    k_estimate: dict[str, Any] | None,
    calibration_error: float | None,
    seed: int | None,
    title: str,
) -> dict[str, Any]:
    sizes = np.bincount(assigned.members[assigned.members >= 0], minlength=len(assigned.labels)).astype(np.int64)
    counts = np.bincount(assigned.status, minlength=len(STATUSES))
    estimate = k_estimate or {}
    return {
        "title": title,
        "n": len(assigned.rows),
        "left_out": len(collection) - len(assigned.rows),
        "labelled": int(collection.labelled[assigned.rows].sum()),
        "kind": collection.items.kind,
        "n_old": collection.n_old,
        "n_novel": int(((assigned.kinds == NOVEL) & (sizes > 0)).sum()),
        "n_doubtful": int(((assigned.kinds == NOVEL) & (sizes == 0)).sum()),  # categories of unsure items alone
        "status": {name: int(count) for name, count in zip(STATUSES, counts, strict=True)},
        "imbalance": round(imbalance_factor(sizes), 1),
        "k": _number(estimate.get("k")),
        "low": _number(estimate.get("low")),
        "high": _number(estimate.get("high")),
        "k_note": (estimate.get("evidence") or {}).get("fallback"),
        "calibration_error": _number(calibration_error),
        "seed": seed,
        "version": importlib.metadata.version("ltgcd"),
    }


def _appended(assignments: pa.Table, k_estimate: dict[str, Any] | None) -> int:
    """Classes that updates have added to those that were estimated."""
    told, first = read_metadata(assignments.schema), (k_estimate or {}).get("k")
    return max(0, int(told["k"]) - int(first)) if told.get("updates") and "k" in told and first is not None else 0


def _k_curve(k_estimate: dict[str, Any] | None) -> dict[str, Any] | None:
    if not k_estimate or _number(k_estimate.get("k")) is None:
        return None
    points = [[_number(k), _number(score)] for k, score in k_estimate.get("curve") or []]
    evidence = k_estimate.get("evidence") or {}
    return {
        "method": str(k_estimate.get("method", "")),
        "score": "log-likelihood" if "known_share" in evidence else "accuracy on labelled items, %",
        "curve": [point for point in points if None not in point],
        "n_old": _number(k_estimate.get("n_old")),
        "known_share": _number(evidence.get("known_share")),
    }


def _number(value: Any) -> float | int | None:  # noqa: ANN401 - whatever a JSON file holds
    """A finite number as JSON can say it, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
        return None
    return value if isinstance(value, int) else float(value)


def _categories(
    collection: Collection, assigned: Assigned, shape: Geometry, shown: list[dict[str, list[int]]]
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """A card for each category in the order of the queue, and one for the bin of unsure items."""
    n, members = len(assigned.labels), assigned.members
    inside = members >= 0
    sizes = np.bincount(members[inside], minlength=n).astype(np.int64)
    leaning = np.bincount(assigned.category[~inside], minlength=n).astype(np.int64)
    total = np.bincount(members[inside], weights=assigned.confidence[inside], minlength=n)
    of_unsure = np.bincount(assigned.category[~inside], weights=assigned.confidence[~inside], minlength=n)
    confidence = np.where(sizes > 0, total / np.maximum(sizes, 1), of_unsure / np.maximum(leaning, 1))
    labelled = np.bincount(assigned.category[collection.labelled[assigned.rows]], minlength=n)
    nearest = nearest_known(assigned, shape.similarity)
    terms = _terms(collection, assigned)
    suggested = suggested_names(terms, nearest, assigned.names)
    order = queue_order(assigned.kinds, sizes, leaning, confidence, shape.coherence)
    rank = np.empty(n, dtype=np.int64)
    rank[order] = np.arange(n)
    cards = [
        {
            "name": assigned.names[c],
            "status": STATUSES[assigned.kinds[c]],
            "size": int(sizes[c]),
            "leaning": int(leaning[c]),
            "labelled": int(labelled[c]),
            "confidence": round(float(confidence[c]), 3),
            "coherence": None if np.isnan(shape.coherence[c]) else round(float(shape.coherence[c]), 3),
            "suggested": suggested[c] if assigned.kinds[c] == NOVEL else "",
            "terms": terms[c] if terms else [],
            "nearest": [[int(rank[other]), cosine] for other, cosine in nearest[c]],
            "examples": shown[c],
            "code": int(c),
        }
        for c in order.tolist()
    ]
    if inside.all():
        return cards, None
    bin_rows = np.flatnonzero(~inside)
    ranked = bin_rows[np.argsort(assigned.confidence[bin_rows], kind="stable")]
    towards = np.argsort(-leaning, kind="stable")[:8]
    unsure = {
        "size": len(bin_rows),
        "confidence": round(float(assigned.confidence[bin_rows].mean()), 3),
        "examples": {
            "doubtful": ranked[:UNSURE_EXAMPLES].tolist(),
            "centre": ranked[UNSURE_EXAMPLES:][::-1][:UNSURE_EXAMPLES].tolist(),
        },
        "towards": [[int(rank[c]), int(leaning[c])] for c in towards.tolist() if leaning[c]],
        "after": int(((assigned.kinds == NOVEL) & (sizes >= 2)).sum()),
    }
    return cards, unsure


def _terms(collection: Collection, assigned: Assigned) -> list[list[str]] | None:
    if collection.items.kind != "text":
        return None
    rows = tail_sample(assigned.category, SHOWN)
    texts = [str(text) for text in collection.items.take(assigned.rows[rows])]
    return top_terms(texts, assigned.core[rows], len(assigned.labels))
