"""A line for each claim of the paper: holds, does not hold, no difference beyond noise, or not testable here."""

from __future__ import annotations

from ltgcd.bench.claims import Claim
from ltgcd.bench.found import Finished, missing_files
from ltgcd.bench.page import Block, Heading, Lines, Text
from ltgcd.bench.tables import Column, Setting, Table
from ltgcd.bench.verdicts import Judged, compared, judged
from ltgcd.data.datasets import get_dataset

ORDER = (
    "holds",
    "holds in part",
    "mixed",
    "no difference beyond noise",
    "does not hold",
    "one seed only",
    "not run yet",
    "not testable here",
)


def paper_claims(finished: Finished) -> list[Block]:
    """The claims of the paper in the order of its tables, each with its verdict, the evidence and an explanation."""
    lines = [
        line_of(finished, table, claim)
        for table in finished.tables.values()
        for claim in table.claims
        if claim.by == "paper"
    ]
    if not lines:
        return []
    words = [line.partition("**")[2].partition("**")[0] for line in lines]
    counted = ", ".join(f"{word}: {words.count(word)}" for word in ORDER if word in words)
    return [
        Heading(2, "What the paper claims, and what we find"),
        Text(
            f"Of {len(lines)} claims, {counted}. A claim *holds* if it does beyond noise on every dataset and with all "
            "features that it was run with, and *holds in part* if it does on some and the others are within noise; "
            "it is *mixed* if it holds on some and the reverse is found on others. It *does not hold* if the reverse "
            "is found beyond noise and nothing for it. What has one seed only is shown, and decides nothing where "
            "other figures have more. Figures are in the order of the words in square brackets, or along the datasets "
            "that the claim names; of one method over several others there is its own figure, and its lead over each "
            "that was run."
        ),
        Lines(tuple(lines)),
    ]


def line_of(finished: Finished, table: Table, claim: Claim) -> str:
    """One claim: its verdict over all settings, then what each setting and dataset says, and why."""
    parts: list[Judged] = []
    said: list[str] = []
    for setting, regime in finished.shown_settings(table):
        found = finished.of(table, setting.name if setting else None, regime)
        mine = judged(claim, table, found)
        parts += mine
        if mine:
            shown = "; ".join(f"{one.title + ': ' if one.title else ''}{one.words} ({one.evidence})" for one in mine)
            said.append(_features(finished, table, setting, regime) + shown)
    columns = [column for column in table.columns if not claim.over or column.id in claim.over]
    away = list(dict.fromkeys(column.title for column in columns if not finished.has(column.name)))
    word = overall(parts, testable=len(away) < len(columns))
    text = f"**{word}**: {claim.says}{compared(claim, table)} ({table.paper}). " + (
        ". ".join(said) + "." if said else ""
    )
    if word == "not testable here":
        text += f"Missing: {_missing(columns)}."
    elif word == "not run yet":
        here = [column for column in columns if column.title not in away]
        text += f"{finished.command(table, here, [row for row in table.rows if row.id in claim.rows])} runs it."
    if away and word != "not testable here":
        text += f" Not here: {', '.join(away)}."
    return (text.rstrip() + (f" *Why:* {claim.why}" if claim.why else "")).replace("  ", " ")


def _features(finished: Finished, table: Table, setting: Setting | None, regime: str | None) -> str:
    """Which features figures are of, where there may be others: estimates of one backbone need no name."""
    if setting is None or regime is None or (table.runs != "train" and len(finished.shown_settings(table)) == 1):
        return ""
    return f"{finished.features(setting, regime)}: "


def overall(parts: list[Judged], *, testable: bool) -> str:
    """One word for all datasets and features together."""
    if not parts:
        return "not run yet" if testable else "not testable here"
    # What has one seed is shown, but decides nothing where something has more.
    several = [one for one in parts if one.seeds > 1]
    outcomes = {one.outcome for one in several}
    if not several:
        return "one seed only"
    if outcomes == {"so"}:
        return "holds"
    if outcomes & {"so", "part", "mixed"}:
        return "mixed" if outcomes & {"reverse", "mixed"} else "holds in part"
    return "does not hold" if "reverse" in outcomes else "no difference beyond noise"


def _missing(columns: list[Column]) -> str:
    names = dict.fromkeys(get_dataset(column.name).name for column in columns)
    return ", ".join(f"`{missing_files(get_dataset(name))}`" for name in names)
