"""What an update has changed, as people are told: categories that came and grew, and what is worth a sentence."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ltgcd.common.files import read_metadata
from ltgcd.run.directory import Run
from ltgcd.run.reviewed import BY_REFINE


def difference(before: pa.Table, after: pa.Table, there: tuple[int, ...]) -> dict[str, Any]:
    """Categories that were not `there` before, and those that grew or stayed as they are, by their sure items."""
    sizes = [_sizes(before), _sizes(after)]
    rows: list[dict[str, Any]] = [
        {"label": label, "name": name, "before": sizes[0].get((label, name), 0), "after": n}
        for (label, name), n in sorted(sizes[1].items())
    ]
    added = [row for row in rows if row["label"] not in there]
    grown = [row for row in rows if row["label"] in there and row["after"] > row["before"]]
    return {
        "added": len(added),
        "grown": len(grown),
        "unchanged": len(rows) - len(added) - len(grown),
        "categories_added": added,
        "categories_grown": grown,
    }


def _sizes(table: pa.Table) -> dict[tuple[int, str], int]:
    sure = table.filter(pc.is_in(table.column("status"), pa.array(["known", "novel"])))
    counted = sure.group_by(["label", "name"]).aggregate([([], "count_all")]).to_pylist()
    return {(row["label"], row["name"]): row["count_all"] for row in counted}


def label_sentences(n: int, run: Run) -> list[str]:
    """That n labels are of items that were there already, and what uses them."""
    if not n:
        return []
    labels = "1 label is of an item that was" if n == 1 else f"{n:,} labels are of items that were"
    return [
        f"{labels} there already: kept in the run for its next fit, with no effect on what it says now; 'ltgcd refine "
        f"{run}' uses them."
    ]


def final_sentences(before: pa.Table, after: pa.Table) -> list[str]:
    """What an update ends: a refine that was taken before it."""
    was_refined = read_metadata(before.schema).get("by") == BY_REFINE and len(after) > len(before)
    told = "The refine before this update is final now: 'ltgcd refine --undo' does not go behind the new items."
    return [told] if was_refined else []
