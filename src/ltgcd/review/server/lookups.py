"""What the page asks about a review without changing it: rows of a class, proposals, neighbours, search, an audit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata
from ltgcd.data.collection import UNLABELLED
from ltgcd.data.items import Texts
from ltgcd.discovery.classes import JUNK, STATUSES, UNSURE
from ltgcd.graph.class_shapes import own_cosines, within_cosine
from ltgcd.review.server.described import Described
from ltgcd.review.server.material import Material
from ltgcd.review.state import Event, Review
from ltgcd.review.suggest import (
    Order,
    audit_order,
    audit_ranks,
    grow,
    in_order,
    merge_proposals,
    neighbours,
    odd_ones,
    split_proposal,
    wilson,
)

PARTS = ("sure", "unsure", "far", "all")
FOUND = 1000  # rows of a search
LONG_TEXT = 20_000  # characters of a text that are sent
ENOUGH = 3  # confirmed items from which they alone say what a class is like
MOST_PARTS = 9  # each has a key of one digit
USUAL_PARTS = 6
ALIKE = 5  # classes beside a part that it may be of
PART_ITEMS = 8  # of a part on average, in a class that has too few for the usual number
LEANING = (
    0.5  # most that an unsure item's class is worth: it is more likely wrong than right, also where a person said so
)
NEWEST_FIRST = ("novel", "unsure", "known", "junk")  # what an update brought, by what is worth a look
AUDITED = 20  # items of a class that are drawn by default


def check_class(described: Described, code: int) -> int:
    """A class that is there, or a sentence."""
    if code not in described.names:
        raise InputError(f"There is no class {code}; it may have been merged or taken back.")
    return code


def rows_of_class(described: Described, code: int, part: str = "all", order: Order = "doubtful") -> NDArray[np.int64]:
    """Rows of a class: its sure items, those of them that look different, the unsure ones that lean to it, or all.

    A class that is gone has none: a page asks for it that has not heard yet what another command did.
    """
    if part not in PARTS or order not in ("doubtful", "centre"):
        raise InputError("Rows have a part (sure, unsure, far or all) and an order (doubtful or centre).")
    now = described.now
    if code not in described.names and 0 <= code < described.review.next_code:
        return np.empty(0, dtype=np.int64)
    of_class = now.code == check_class(described, code)
    chosen = {"sure": now.sure, "far": described.is_far, "unsure": now.status == 2, "all": now.status != 3}[part]
    rows = np.flatnonzero(of_class & chosen).astype(np.int64)
    cosine = own_cosines(described.z, rows, now.code[rows], now.members[rows] == code, described.shapes)
    settled = now.given[rows] | described.labelled[rows]
    return in_order(order, rows, described.doubt(rows), cosine, settled)


def odd_rows(described: Described) -> NDArray[np.int64]:
    """Rows that are unlike every class and unlike each other, without those that something was said of meanwhile.

    Odd is what lies farther from every class than half of the labelled items lie from theirs. On five problems that
    shows 33 of the 39 classes that have no category (240 items without a limit 34; the farthest twentieth, as in
    `contamination`, 4), and of a small collection with 274 open items 43 instead of 240, with 3 of its 3.
    They are found once for a fit, so that the page stays as it is while a person works through it.
    """
    now = described.now
    is_open = ~(described.labelled | now.given | (now.status == JUNK))
    if described.odd is None:
        described.odd = odd_ones(described.z, described.shapes, is_open, limit=described.half)
    return np.asarray(described.odd[is_open[described.odd]])


def rows_of_status(described: Described, status: str) -> NDArray[np.int64]:
    """Rows of a status: unsure ones the least doubtful first, others as they stand."""
    if status not in STATUSES:
        raise InputError(f"There is no status '{status}'; choose one of {', '.join(STATUSES)}.")
    rows = np.flatnonzero(described.now.status == STATUSES.index(status)).astype(np.int64)
    return rows[np.argsort(-described.now.confidence[rows], kind="stable")] if status == "unsure" else rows


def added_rows(described: Described) -> NDArray[np.int64]:
    """Rows that the last update added, what is new first: novel categories, unsure items, known classes, junk.

    Each class stands together, its least sure items first.
    """
    now, n = described.now, added_by_update(described.review.base)
    rows = np.arange(len(now.code) - n, len(now.code), dtype=np.int64)
    turn = np.array([STATUSES.index(status) for status in NEWEST_FIRST]).argsort()[now.status[rows]]
    return np.asarray(rows[np.lexsort((now.confidence[rows], now.code[rows], turn))])


def added_by_update(table: pa.Table) -> int:
    """How many items the last update added to these labels: they are the last ones."""
    return int(read_metadata(table.schema).get("added", 0))


def described_rows(described: Described, material: Material, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Id, text, class, status and confidence of some rows."""
    now, texts = described.now, material.texts(rows)
    found = []
    for at, (row, item_id) in enumerate(zip(rows.tolist(), material.ids.take(rows).to_pylist(), strict=True)):
        one = {
            "row": row,
            "id": item_id,
            "code": int(now.code[row]),
            "status": STATUSES[int(now.status[row])],
            "confidence": round(float(now.confidence[row]), 4),
            "given": bool(now.given[row]),
        }
        found.append(one if texts is None else {**one, "text": texts[at][:LONG_TEXT]})
    return found


def neighbours_of(described: Described, row: int, n: int) -> dict[str, Any]:
    """The items most like an item, and their cosines."""
    rows, cosines = neighbours(described.z, row, n)
    return {"rows": rows.tolist(), "cosines": [round(float(cosine), 4) for cosine in cosines]}


def merges(described: Described, code: int | None, limit: int = 100) -> list[dict[str, Any]]:
    """Pairs of classes that may be one, best first; of one class the pairs that it is in."""
    k = len(described.sizes)
    has_labels = described.labelled_items > 0
    sizes = np.where(np.isin(np.arange(k), described.shown), described.shapes.counts, 0)
    every = merge_proposals(
        described.similarity, sizes, has_labels, set(described.review.distinct), limit if code is None else k * k
    )
    found = []
    for one in every:
        pair = (one.code, one.into)
        if code is not None and code not in pair:
            continue
        first, second = pair if code is None or code == pair[0] else pair[::-1]
        closer = "neither has a closer class" if one.mutual else "one of them has a closer class"
        why = f"Alike: {one.similarity:.2f} of 1; {closer}."
        found.append({"code": first, "other": second, "similarity": round(one.similarity, 3), "why": why})
    return found[:limit]


def split_of(described: Described, code: int, parts: int | None = None) -> dict[str, Any]:
    """A class in parts, the first of which keeps it; as many as are worth a look, where nobody says how many.

    Few parts seldom tell two classes apart: of the second classes in mixed categories two parts had 5 of 29 as a part
    of their own, five parts 24 (BANKING77; CLINC150 14 and 28 of 33). What belongs together is taken together.
    """
    if parts is not None and not 2 <= parts <= MOST_PARTS:
        raise InputError(f"A class is split into 2 to {MOST_PARTS} parts.")
    rows = np.sort(rows_of_class(described, code, "all"))
    if parts is None:
        parts = int(np.clip(len(rows) // PART_ITEMS, 2, USUAL_PARTS))
    examples = described.now.examples[rows] == code
    found, separation = split_proposal(described.z, rows, parts, examples, described.labelled[rows])
    settled = described.now.given | described.labelled
    return {
        "parts": [part.tolist() for part in found],
        "open": [part[~settled[part]].tolist() for part in found],
        "alike": [alike(described, part, code) for part in found],
        "separation": round(separation, 3),
    }


def alike(described: Described, rows: NDArray[np.int64], but: int) -> list[int]:
    """Classes that some rows are most like, by their mean, the best first; the one that they are in left out."""
    centre = described.z[rows].mean(axis=0)
    codes = np.array([code for code in described.shown if code != but and described.shapes.counts[code]], np.int64)
    if not len(codes):
        return []
    scale = np.sqrt(within_cosine(described.shapes)[codes]) * described.shapes.counts[codes]
    closeness = described.shapes.sums[codes] @ centre / scale
    return [int(code) for code in codes[np.argsort(-closeness, kind="stable")[:ALIKE]]]


def grown(described: Described, material: Material, code: int, page: int, limit: int) -> dict[str, Any]:
    """A page of items that may belong to a class, the chance of each, and how many are left, those on it included."""
    now, shapes = described.now, described.shapes
    check_class(described, code)
    if described.example_shapes.counts[code] >= ENOUGH:  # what people said shows best what the class is like
        sums, counts = shapes.sums.copy(), shapes.counts.copy()
        sums[code], counts[code] = described.example_shapes.sums[code], described.example_shapes.counts[code]
        shapes = dataclasses.replace(shapes, sums=sums, counts=counts)
    is_open = ~(now.sure & (now.code == code)) & ~now.given & ~described.labelled
    for rows, other in described.review.rejected:
        if described.review.target(other) == code:
            is_open[rows] = False
    confidence = np.where(now.status == UNSURE, np.minimum(now.confidence, LEANING), now.confidence)
    found = grow(described.z, code, now.code, confidence, is_open, shapes, material.temperature)
    here = slice(page * limit, (page + 1) * limit)
    chance = found.chance[here]
    return {
        "rows": found.rows[here].tolist(),
        "precision": round(float(chance.mean()), 3) if len(chance) else None,
        "chances": [round(float(one), 3) for one in chance],
        "left": max(0, int(is_open.sum()) - page * limit),
    }


def search(described: Described, material: Material, q: str) -> dict[str, Any]:
    """Items whose id or text holds some words, and classes whose name does; upper and lower case are the same."""
    q = q.strip()
    if not q:
        return {"rows": [], "classes": []}
    hits = pc.match_substring(material.ids, q, ignore_case=True)
    if isinstance(material.items, Texts):
        texts = material.items.texts
        texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        hits = pc.or_(hits, pc.fill_null(pc.match_substring(texts, q, ignore_case=True), False))
    rows = np.flatnonzero(np.asarray(hits.to_numpy(zero_copy_only=False), dtype=np.bool_))
    named = [code for code in described.shown if q.casefold() in described.names[code].casefold()]
    return {"rows": rows[:FOUND].tolist(), "classes": named}


# ---------------------------------------------------------------- audit


def machine_codes(review: Review, events: Iterable[Event]) -> NDArray[np.int64]:
    """Class (N,) that the machine has for each item: the fit's own, with all merges and splits, but no single item's.

    Items that people had given before that fit have none (-1).
    """
    code = np.asarray(review.base.column("label").to_numpy(), dtype=np.int64).copy()
    if "given" in review.base.column_names:
        code[np.asarray(pc.fill_null(review.base.column("given"), False), dtype=np.bool_)] = UNLABELLED
    for event in events:
        if event["op"] == "split":
            for part, new in zip(event["parts"], event["codes"], strict=True):
                rows = np.asarray(part, dtype=np.int64)
                code[rows] = np.where(code[rows] >= 0, new, UNLABELLED)
    return np.where(code >= 0, review.resolve(code), UNLABELLED)


def audit(described: Described, machine: NDArray[np.int64], seed: int, code: int, n: int) -> dict[str, Any]:
    """The next `n` items to check of a class, in an order of chance, and what those checked before them have told.

    Only what comes before the first unchecked item counts: so it is a random sample, however items got their classes.
    """
    check_class(described, code)
    is_drawn = (machine == code) & ~described.labelled & _was_sure(described)
    rows = audit_order(machine, is_drawn, seed)
    checked, right = _checked(described, machine)
    done = int(np.argmin(np.append(checked[rows], False)))
    return {"rows": rows[~checked[rows]][:n].tolist(), **_precision(done, int(right[rows[:done]].sum()))}


def audit_of_all(described: Described, machine: NDArray[np.int64], seed: int) -> dict[str, Any]:
    """What the samples of all classes have told so far."""
    checked, right = _checked(described, machine)
    if not checked.any():
        return _precision(0, 0)
    rank = audit_ranks(len(machine), seed)
    drawn = (machine >= 0) & ~described.labelled & _was_sure(described)
    open_rows = np.flatnonzero(drawn & ~checked)
    first = np.full(len(described.sizes), len(machine), dtype=np.int64)  # rank of the first unchecked one of each class
    np.minimum.at(first, machine[open_rows], rank[open_rows])
    rows = np.flatnonzero(drawn & checked)
    done = rows[rank[rows] < first[machine[rows]]]
    return _precision(len(done), int(right[done].sum()))


def _checked(described: Described, machine: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which items (N,) a person has judged, and which of these the machine had right."""
    now = described.now
    right = now.given & now.sure & (now.code == machine)
    checked = now.given.copy()
    for rows, code in described.review.rejected:
        rows = rows[machine[rows] == described.review.target(code)]  # noqa: PLW2901
        checked[rows] = True
    return checked, right


def _was_sure(described: Described) -> NDArray[np.bool_]:
    """Items that the fit was sure of, whatever people have said since."""
    status = described.review.base.column("status")
    return np.asarray(pc.not_equal(status, "unsure"), dtype=np.bool_)


def _precision(checked: int, right: int) -> dict[str, Any]:
    low, high = wilson(right, checked)
    return {"checked": checked, "right": right, "low": round(low, 3), "high": round(high, 3)}
