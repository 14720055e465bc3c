"""The items of the page as columns: small typed arrays, ids, texts and pictures, each within its number of bytes."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.data.collection import Collection
from ltgcd.output.report.assigned import Assigned
from ltgcd.output.report.layout import tail_sample
from ltgcd.output.report.pictures import Pictures, picture_size, thumbnails

SHOWN = 50_000  # items on the map
PICTURE_BYTES = 6_000_000  # of the page, in base64
TEXT_BYTES = 4_000_000
ID_BYTES = 2_000_000
MORE_PICTURES = 4000  # of items that are no examples, while there is room
LONG_TEXT, SHORT_TEXT, SHORTEST = 280, 140, 16  # characters of an example, of any item, and the least
GIVEN, LABELLED, FAR = 1, 2, 8  # flags of an item, as the server of a review sends them; FAR is the file's alone
TINY = 24  # pixels: pictures of this side or less are enlarged pixel by pixel


def item_columns(
    collection: Collection,
    assigned: Assigned,
    groups: list[dict[str, list[int]]],
    closeness: NDArray[np.float32],
    is_far: NDArray[np.bool_],
    places: NDArray[np.float32],
    pictures: Pictures | None,
) -> dict[str, Any]:
    """Columns of the items that the page knows.

    Parameters
    ----------
    collection : Collection
        Where ids, texts and pictures come from.
    assigned : Assigned
        The M items that have an assignment.
    groups : list of dict
        Positions of items that are shown whatever is left out, see `ltgcd.output.report.cards.make_cards`.
    closeness : ndarray of float32, shape (M,)
        Cosine of each item to the centre of its category.
    is_far : ndarray of bool, shape (M,)
        Items that look different from those that people gave their class.
    places : ndarray of float32, shape (M, 2)
        On the map.
    pictures : callable or None
        Images of some rows of the collection.
    """
    wanted = _by_priority(groups)
    room = SHOWN if len(assigned.rows) <= SHOWN else max(SHOWN - len(wanted), 0)
    chosen = np.union1d(wanted, tail_sample(assigned.category, room))
    low, high = places.min(axis=0), places.max(axis=0)
    scale = 65535 / max(float((high - low).max()), 1e-9)
    plane = np.round((places[chosen] - (low + high) / 2) * scale + 32767.5).clip(0, 65535).astype("<u2")
    rows = assigned.rows[chosen]
    flags = assigned.given[chosen] * GIVEN + collection.labelled[rows] * LABELLED + is_far[chosen] * FAR
    columns = {
        "x": _packed(plane[:, 0]),
        "y": _packed(plane[:, 1]),
        "code": _packed(assigned.labels[assigned.category[chosen]].astype("<i4")),
        "status": _packed(assigned.status[chosen].astype(np.uint8)),
        "confidence": _packed(np.round(assigned.confidence[chosen] * 255).astype(np.uint8)),
        "closeness": _packed(np.round(127.5 * (1 + closeness[chosen])).clip(0, 255).astype(np.uint8)),
        "flags": _packed(flags.astype(np.uint8)),
    }
    data: dict[str, Any] = {
        "items": {"n": len(chosen), **_ids(collection.ids.take(pa.array(rows)).to_pylist()), **columns},
        "pictures": [],
        "picture": [],
        "tiny": False,
    }
    if collection.items.kind == "text":
        data["items"]["texts"] = _texts(collection, rows, np.isin(chosen, wanted))
    if pictures is not None:
        others = np.setdiff1d(chosen, wanted)
        more = others[_in_turns(assigned.category[others])][:MORE_PICTURES]
        found = thumbnails(
            pictures,
            assigned.rows[wanted],
            assigned.rows[more],
            PICTURE_BYTES,
            collection.items.reading_order(),
        )
        at = np.searchsorted(rows, np.fromiter(found, dtype=np.int64, count=len(found)))
        data["picture"], data["pictures"] = at.tolist(), list(found.values())
        data["tiny"] = bool(found) and max(picture_size(next(iter(found.values())))) <= TINY
    return data


def _ids(ids: list[str]) -> dict[str, Any]:
    """The ids without what all begin with; shortened where they are too long, and then no corrections can name them."""
    first, last = min(ids), max(ids)  # what these two begin with, all begin with
    same = next((at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), 0)
    prefix = first[:same]
    short = _shortened([one[len(prefix) :] for one in ids], ID_BYTES, keep_end=True)
    return {"prefix": prefix, "ids": short, "whole": all(a.endswith(b) for a, b in zip(ids, short, strict=True))}


def _in_turns(category: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions of items, one of each category at a time, in a random order within each."""
    shuffled = np.random.RandomState(0).permutation(len(category))
    order = shuffled[np.argsort(category[shuffled], kind="stable")]
    sizes = np.bincount(category) if len(category) else np.zeros(0, dtype=np.int64)
    rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order[np.argsort(rank, kind="stable")]


def _by_priority(groups: list[dict[str, list[int]]]) -> NDArray[np.int64]:
    """All examples, one of each kind a card at a time, so that a full page still has something of every category."""
    lists = [
        rows for kind in ("centre", "doubtful", "edge", "leaning") for group in groups if (rows := group.get(kind))
    ]
    longest = max((len(rows) for rows in lists), default=0)
    turns = [rows[turn] for turn in range(longest) for rows in lists if turn < len(rows)]
    return np.array(list(dict.fromkeys(turns)), dtype=np.int64)


def _texts(collection: Collection, rows: NDArray[np.int64], is_example: NDArray[np.bool_]) -> list[str]:
    texts = [" ".join(str(text).split()) for text in collection.items.take(rows)]
    short = _shortened([text[:SHORT_TEXT] + ("…" if len(text) > SHORT_TEXT else "") for text in texts], TEXT_BYTES)
    long = [text if len(text) <= LONG_TEXT else text[: LONG_TEXT - 1] + "…" for text in texts]
    return [whole if chosen else part for whole, part, chosen in zip(long, short, is_example.tolist(), strict=True)]


def _shortened(texts: list[str], budget: int, *, keep_end: bool = False) -> list[str]:
    """Texts cut, all to the same length, so that together they keep a budget of bytes."""
    limit = max(SHORTEST, budget // max(len(texts), 1) - 6)
    if sum(len(text.encode()) for text in texts) <= budget:
        return texts
    if keep_end:
        return [text if len(text) <= limit else "…" + text[1 - limit :] for text in texts]
    return [text if len(text) <= limit else text[: limit - 1] + "…" for text in texts]


def _packed(column: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(column).tobytes()).decode()
