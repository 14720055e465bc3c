"""What ``ltgcd relabel`` does: a person's corrections as events that are kept, and the labels that follow at once.

Nothing here needs a model, so nothing heavy is imported: it is done in the time that Python takes to start.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from ltgcd.common.errors import InputError
from ltgcd.review.corrections import Edits, edits_of, read_corrections
from ltgcd.review.log import StaleError
from ltgcd.run.directory import Run
from ltgcd.run.reviewed import BY_REFINE, RunReview

ATTEMPTS = 5  # at saying something about a run of which others say something at the same time


def relabel_run(run: Run, corrections: Path | pa.Table, author: str = "") -> dict[str, Any]:
    """Apply a file or table of corrections to a finished run, and keep them as one action that can be taken back.

    Returns
    -------
    dict
        ``events``, how many items and classes were ``renamed, merged, created, moved, confirmed, cleared, junk``,
        ``new_classes`` by name, ``refused``: every row that can't be applied, with the reason, ``stayed``: items with
        an empty label that nobody had said anything about, and ``no_label``: words such as "NA" that stood in place of
        an empty label, with their numbers of rows.
    """
    table = read_corrections(corrections) if isinstance(corrections, Path) else corrections
    held, edits = _kept_corrections(run, table, author)
    told = {name: getattr(edits, name) for name in ("refused", "new_classes", "stayed", "no_label")}
    return {"events": len(edits.events), **edits.counts, **told, **standing(run, held)}


def _kept_corrections(run: Run, table: pa.Table, author: str) -> tuple[RunReview, Edits]:
    """Keep corrections as one action; where somebody was faster, they are about what the run says then."""
    for attempt in range(ATTEMPTS):
        held = RunReview.open(run)
        edits = edits_of(table, held.review)
        try:
            if edits.events:
                held.act(edits.events, author, applies=True)
        except StaleError:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            break
    return held, edits


def undo_relabel(run: Run, n: int = 1) -> dict[str, Any]:
    """Take back the last `n` actions about a run, whether a file or the page brought them."""
    held = RunReview.open(run)
    if not held.can_undo:
        by = run.written_note().get("by")
        hint = " since it was refined; 'ltgcd refine RUN --undo' brings back what was before" if by == BY_REFINE else ""
        raise InputError(f"There is nothing to take back in {run}{hint}.")
    undone = held.undo(n, applies=True)
    return {"undone": undone, **standing(run, held)}


def standing(run: Run, held: RunReview) -> dict[str, Any]:
    """What a command prints of a reviewed run: classes, items by status, confirmed ones."""
    review = held.review
    status = review.status
    return {
        "k": len(review.class_names()),
        **{name: int((status == name).sum()) for name in ("known", "novel", "unsure")},
        "junk_items": int(review.junk.sum()),
        "given": int(review.given.sum()),
        "can_undo": held.can_undo,
        "assignments": str(run.files.assignments),
        "run": str(run),
    }
