"""What was done in a review, as sentences, the last first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ltgcd.discovery.classes import Classes
from ltgcd.output.report.sentences import plural
from ltgcd.review.log import Kept, Step
from ltgcd.review.state import Event
from ltgcd.run.reviewed import BY_REFINE, RunReview

SHOWN = 60  # characters of a name
TOLD = 3  # edits of an action
ENDED_BY = {BY_REFINE: "Refined: another fit was taken", "update": "Items were added (ltgcd update)"}
ELSEWHERE = {
    BY_REFINE: "The run was fitted again elsewhere (ltgcd refine)",
    "update": "Items were added elsewhere (ltgcd update)",
}


def history(held: RunReview, limit: int) -> list[dict[str, Any]]:
    """The last actions, each with a sentence, whether it counts, and how many items it named.

    What was said before the last refine or update is ``past``: it is in the labels, and no undo goes there. Between the
    two stands what ended it, with ``by``.
    """
    found = _lines(held.steps(), held.review.classes)
    for before in held.earlier():
        if len(found) >= limit:
            break
        ended = {"action": None, "time": before.ended, "author": "", "active": True, "n": 0, "past": True}
        found.append({**ended, "by": before.ended_by, "sentence": ENDED_BY.get(before.ended_by, before.ended_by)})
        found += [{**line, "past": True} for line in _lines(before.steps, before.classes)]
    return found[:limit]


def _lines(steps: Sequence[Step], classes: Classes) -> list[dict[str, Any]]:
    """Some actions as the page lists them, the last first."""
    return [
        {
            "action": step.action,
            "time": step.events[0].time,
            "author": step.events[0].author,
            "sentence": sentence,
            "active": step.active,
            "n": sum(_rows(kept.event) for kept in step.events),
        }
        for step, sentence in [*sentences_of(steps, classes)][::-1]
    ]


def sentences_of(steps: Sequence[Step], classes: Classes) -> Iterator[tuple[Step, str]]:
    """Every action with its sentence, in order; classes have the names that they had at the time."""
    names = _Names(classes)
    for step in steps:
        names.begin(active=step.active)
        sentences: list[str] = []
        for kept in step.events:
            if len(sentences) < TOLD:
                sentences.append(_sentence(kept.event, names))
            names.learn(kept.event)
        rest = len(step.events) - len(sentences)
        yield step, "; ".join(sentences) + (f"; and {rest:,} more" if rest else "")


def news(held: RunReview, version: int, base: int, n: int) -> str:
    """One sentence on what was done since a page has seen an event, a base and n items; empty if nothing was."""
    if len(held.review) != n:
        return f"{ELSEWHERE['update']}. You see the newest state."
    if held.base != base:
        what = ELSEWHERE.get(held.made_by, "The run was changed elsewhere")
        return f"{what if held.base > base else 'A refine was taken back elsewhere'}. You see the newest state."
    if held.version == version:
        return ""
    lines = sentences_of(held.steps(), held.review.classes)
    fresh = [sentence for step, sentence in lines if step.active and step.events[-1].seq > version]
    if not fresh:
        return "Something was taken back, or done again, elsewhere. You see the newest state."
    rest = f", and {len(fresh) - 1:,} more" if len(fresh) > 1 else ""
    return f"Changed elsewhere, by a command or in another tab: {fresh[-1]}{rest}. You see the newest state."


class _Names:
    """What classes were called, action by action; a name that was taken back counts for what was taken back with it."""

    def __init__(self, classes: Classes) -> None:
        self._classes = classes
        self._held: dict[int, str] = dict(zip(classes.codes, classes.names, strict=True))
        self._now, self._is_active = self._held, True

    def begin(self, *, active: bool) -> None:
        if active != self._is_active:
            self._now = self._held if active else dict(self._held)
        self._is_active = active

    def learn(self, event: Event) -> None:
        if event["op"] in ("create", "rename"):
            self._now[event["code"]] = event["name"]

    def of(self, code: int) -> str:
        name = self._now.get(code) or self._classes.name_of(code)
        return name if len(name) <= SHOWN else name[: SHOWN // 2 - 1] + "…" + name[-SHOWN // 2 :]


def event_lines(kept: Sequence[Kept]) -> list[dict[str, Any]]:
    """Every event of a log as plain JSON, undo and redo included, from the first to the last."""
    return [
        {"seq": one.seq, "action": one.action, "base": one.base, "time": one.time, "author": one.author, **one.event}
        for one in kept
    ]


def _sentence(event: Event, names: _Names) -> str:
    op, items = event["op"], plural(_rows(event), "item", "items")

    def name(key: str) -> str:
        return names.of(event[key]) if key in event else ""

    sentences = {
        "assign": f"{items} confirmed as {name('code')}",
        "clear": f"What was said of {items} taken back",
        "junk": f"{items} taken out" + (f" ({event['why']})" if event.get("why") else ""),
        "reject": f"{items} not {name('code')}",
        "create": f"{event.get('name')} made",
        "rename": f"{name('code')} called {event.get('name')}",
        "merge": f"{name('code')} merged into {name('into')}",
        "split": f"{name('code')} split: {items} in {plural(len(event.get('parts', ())), 'category', 'categories')}",
        "distinct": f"{name('code')} and {name('other')} kept apart",
    }
    return sentences.get(op, str(op))


def _rows(event: Event) -> int:
    return len(event.get("rows", ())) + sum(len(part) for part in event.get("parts", ()))
