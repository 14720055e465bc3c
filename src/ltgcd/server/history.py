"""What was done in a review, as sentences, the last first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ltgcd.report.sentences import plural
from ltgcd.review.log import Kept, Step
from ltgcd.review.state import Event, Review

SHOWN = 60  # characters of a name


def history(steps: Sequence[Step], review: Review, limit: int) -> list[dict[str, Any]]:
    """The last actions, each with a sentence, whether it counts, and how many items it named."""
    names = _all_names(steps, review)
    found = []
    for step in steps[::-1][:limit]:
        events = [kept.event for kept in step.events]
        found.append(
            {
                "action": step.action,
                "time": step.events[0].time,
                "author": step.events[0].author,
                "sentence": sentence(events, names),
                "active": step.active,
                "n": sum(_rows(event) for event in events),
            }
        )
    return found


def event_lines(kept: Sequence[Kept]) -> list[dict[str, Any]]:
    """Every event of a log as plain JSON, undo and redo included, from the first to the last."""
    return [
        {"seq": one.seq, "action": one.action, "base": one.base, "time": one.time, "author": one.author, **one.event}
        for one in kept
    ]


def sentence(events: Sequence[Event], names: dict[int, str]) -> str:
    """What an action did, in a line."""
    told = [_told(event, names) for event in events[:3]]
    rest = len(events) - len(told)
    return "; ".join(told) + (f"; and {rest:,} more" if rest else "")


def _told(event: Event, names: dict[int, str]) -> str:
    op, items = event["op"], plural(_rows(event), "item", "items")

    def name(key: str) -> str:
        spelled = names.get(event.get(key, -1), f"class {event.get(key)}")
        return spelled if len(spelled) <= SHOWN else spelled[: SHOWN - 1] + "…"

    told = {
        "assign": f"{items} confirmed as {name('code')}",
        "clear": f"What was said of {items} taken back",
        "junk": f"{items} taken out" + (f" ({event['why']})" if event.get("why") else ""),
        "reject": f"{items} not {name('code')}",
        "create": f"{event.get('name')} made",
        "rename": f"Class {event.get('code')} called {event.get('name')}",
        "merge": f"{name('code')} merged into {name('into')}",
        "split": f"{name('code')} split: {items} in {plural(len(event.get('parts', ())), 'category', 'categories')}",
        "distinct": f"{name('code')} and {name('other')} kept apart",
    }
    return told.get(op, str(op))


def _rows(event: Event) -> int:
    return len(event.get("rows", ())) + sum(len(part) for part in event.get("parts", ()))


def _all_names(steps: Sequence[Step], review: Review) -> dict[int, str]:
    """Names by code, also of classes that were merged away or taken back."""
    names = dict(zip(review.classes.codes, review.classes.names, strict=True))
    for step in steps:
        for kept in step.events:
            for code in kept.event.get("codes", ()):
                names[code] = review.classes.name_of(code)
            if kept.event["op"] == "create" or (kept.event["op"] == "rename" and step.active):
                names[kept.event["code"]] = kept.event["name"]
    return names | review.class_names()
