"""The items of the page as columns: small typed arrays, ids, texts and pictures, each within its number of bytes."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.data.collection import Collection
from ltgcd.report.assigned import Assigned
from ltgcd.report.layout import tail_sample
from ltgcd.report.pictures import Pictures, picture_size, thumbnails

SHOWN = 50_000  # items on the map
PICTURE_BYTES = 6_000_000  # of the page, in base64
TEXT_BYTES = 4_000_000
ID_BYTES = 2_000_000
MORE_PICTURES = 1500  # of items that are no examples, for the map
LONG_TEXT, SHORT_TEXT, SHORTEST = 280, 140, 16  # characters of an example, of any item, and the least
TINY = 24  # pixels: pictures of this side or less are enlarged pixel by pixel


def item_columns(
    collection: Collection,
    assigned: Assigned,
    cards: list[dict[str, Any]],
    unsure: dict[str, Any] | None,
    places: NDArray[np.float32],
    pictures: Pictures | None,
) -> dict[str, Any]:
    """Columns of the items that the page knows; positions in the cards' examples are turned into theirs."""
    groups = [*([unsure["examples"]] if unsure else []), *(card["examples"] for card in cards)]
    wanted = _by_priority(groups)
    room = SHOWN if len(assigned.rows) <= SHOWN else max(SHOWN - len(wanted), 0)
    chosen = np.union1d(wanted, tail_sample(assigned.category, room))
    for examples_of in groups:
        for kind, rows in examples_of.items():
            examples_of[kind] = np.searchsorted(chosen, rows).tolist()
    rank = np.empty(len(assigned.labels), dtype=np.int64)
    rank[[card["code"] for card in cards]] = np.arange(len(cards))
    low, high = places.min(axis=0), places.max(axis=0)
    scale = 65535 / max(float((high - low).max()), 1e-9)
    plane = np.round((places[chosen] - (low + high) / 2) * scale + 32767.5).clip(0, 65535).astype("<u2")
    rows = assigned.rows[chosen]
    columns = {
        "x": _packed(plane[:, 0]),
        "y": _packed(plane[:, 1]),
        "category": _packed(rank[assigned.category[chosen]].astype("<u4")),
        "status": _packed(assigned.status[chosen].astype(np.uint8)),
        "confidence": _packed(np.round(assigned.confidence[chosen] * 255).astype(np.uint8)),
    }
    ids = _shortened(collection.ids.take(pa.array(rows)).to_pylist(), ID_BYTES, keep_end=True)
    data: dict[str, Any] = {
        "items": {"n": len(chosen), "ids": ids, **columns},
        "pictures": [],
        "picture": [],
        "tiny": False,
    }
    if collection.items.kind == "text":
        data["items"]["texts"] = _texts(collection, rows, np.isin(chosen, wanted))
    if pictures is not None:
        more = np.random.RandomState(0).permutation(np.setdiff1d(chosen, wanted))[:MORE_PICTURES]
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
