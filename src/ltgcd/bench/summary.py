"""The first page of the results: which method is best on what, by how much, how sure, and what the paper says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ltgcd.bench.found import Finished, paper_figure
from ltgcd.bench.page import Block, Grid, Heading, Lines, Picture, Text, grid
from ltgcd.bench.places import BASELINE, Lead, Place, by_dataset, places
from ltgcd.bench.tables import Column, Row
from ltgcd.bench.verdicts import GROUPS, Found, geometric_mean, relative_error

CLASS_NUMBERS = ("class_number", "class_number_ssb")
PAPER, OURS = "ltgcd-paper", "ltgcd"  # rows of the tables of accuracies
OUR_ESTIMATE = "peaks"
ABOVE, BELOW, NEITHER = "▲", "▼", "≈"


def summary(finished: Finished, pictures: Sequence[Picture] = ()) -> list[Block]:
    """The summary as blocks; empty of tables where nothing was run."""
    held = places(finished)
    blocks: list[Block] = [Heading(2, "In short")]
    if not held:
        return [*blocks, Text("No method was run yet: `ltgcd bench main` begins.")]
    blocks += [Lines(tuple(_sentences(held))), *pictures, Heading(2, "Methods by datasets"), Text(_legend(held))]
    blocks += [methods_by_datasets(held), Heading(2, "Best on what, by how much, how sure")]
    blocks.append(
        Text(
            "On each dataset with each kind of features the best row and the one that comes nearest to it, out of as "
            "many methods as were run there (the last column). Two rows are compared on the data seeds that both have: "
            "both means are over these, and may differ from those above; a lead is rounded by itself. It is **sure** "
            "if it is beyond noise over two seeds or more, and *not sure* otherwise; the paper's best and its lead "
            "over the paper's second stand beside it (the paper gives no spread for most rows)."
        )
    )
    blocks.append(best_of_each(held))
    if (numbers := class_numbers(finished)).rows:
        words = (
            "Geometric mean of the estimates over the data seeds, and in brackets the mean of |K̂ − K| / K; then the "
            "paper's figure where it has one. k-means + Brent is the estimate of GCD (Vaze et al.); with one start "
            "instead of its authors' ten it takes a tenth of the time."
        )
        blocks += [Heading(2, "How many classes?"), Text(words), numbers]
    return blocks


# ---------------------------------------------------------------- sentences


def _sentences(held: list[Place]) -> list[str]:
    said = []
    datasets = by_dataset(held)
    for at, name in ((0, "All"), (2, "New")):
        words = "; ".join(_best_on(of_one, at) for of_one in datasets)
        how = (
            f"dataset by dataset ({len(datasets)}; in brackets on which features, and of how many methods that were "
            "run there; **bold** where the lead over the next one is beyond noise)"
        )
        said.append(f"Best on {name}, {how if not at else 'in the same way'}: {words}.")
    for row, words in ((OURS, "Our default"), (PAPER, "The paper's own method, as far as it can be read")):
        for at, name in ((0, "All"), (2, "New")):
            if line := _against_baseline(datasets, row, at):
                said.append(f"{words}, on {name}: {line}.")
    return said


def _best_on(of_one: list[Place], at: int) -> str:
    """Which rows are best on one dataset, each with the features on which it is and how many it competed with."""
    where: dict[str, list[str]] = {}
    for place in of_one:
        first, *others = place.best(at)
        lead = place.lead(first.id, others[0].id, at) if others else None
        name = f"**{first.title}**" if lead is not None and lead.outcome == "above" else first.title
        where.setdefault(name, []).append(f"{place.features}, of {len(others) + 1}")
    return f"{of_one[0].title}: " + ", ".join(f"{name} ({'; '.join(parts)})" for name, parts in where.items())


def _against_baseline(datasets: list[list[Place]], row: str, at: int) -> str:
    """On how many datasets a row is above or below SimGCD beyond noise, and by how much with which features."""
    groups: dict[str, list[str]] = {}
    for of_one in datasets:
        found = [(place, place.lead(row, BASELINE, at)) for place in of_one if row in place.found]
        leads = [(place, lead) for place, lead in found if lead is not None]
        if leads:
            shown = (f"{place.features} {_difference(lead)}" for place, lead in leads)
            groups.setdefault(_together([lead for _, lead in leads]), []).append(
                f"{of_one[0].title} ({'; '.join(shown)})"
            )
    known = sum(map(len, groups.values()))
    order = [key for key in TOGETHER.values() if key in groups]
    return "; ".join(f"{key} on {len(groups[key])} of {known} datasets: {', '.join(groups[key])}" for key in order)


TOGETHER = {
    "above": "above SimGCD",
    "above, noise": "above SimGCD with some features and within noise with others",
    "above, below": "above SimGCD with some features and below it with others",
    "noise": "within noise of SimGCD",
    "below, noise": "below SimGCD with some features and within noise with others",
    "below": "below SimGCD",
    "one seed": "compared with SimGCD in one seed only",
}


def _together(leads: list[Lead]) -> str:
    """What the leads with all kinds of features come to; what has one seed decides nothing where others have more."""
    outcomes = {lead.outcome for lead in leads if lead.seeds > 1}
    if not outcomes:
        return TOGETHER["one seed"]
    if {"above", "below"} <= outcomes:
        return TOGETHER["above, below"]
    return TOGETHER[", ".join(sorted(outcomes))]


def _difference(lead: Lead) -> str:
    return f"{lead.difference:+.1f}" + (" in one seed" if lead.seeds == 1 else f" ± {lead.margin:.1f}")


# ---------------------------------------------------------------- tables


def _legend(held: list[Place]) -> str:
    metric = {
        "balanced": "balanced ACC on the long-tailed sets, as in the paper",
        "instance": "instance ACC on the others, as in the paper",
    }
    used = [metric[name] for name in metric if any(place.table.metric == name for place in held)]
    return (
        f"All / New in percent at the true number of classes, mean over data seeds: {', '.join(used)}. Beside each "
        f"figure: {ABOVE} above SimGCD beyond noise, {BELOW} below it beyond noise, {NEITHER} no difference beyond "
        "noise (Student's 95 % interval on the data seeds that both have, each comparison by itself: of twenty, one "
        "may be wrong by chance). (1) is of one seed instead of three, which tells no direction. Our methods are "
        '**bold**. "The paper" is All / New as '
        "printed."
    )


def methods_by_datasets(held: list[Place]) -> Grid:
    """One row a method, one column a dataset with its features, the paper's figures beside them."""
    rows = list({row.id: row for place in held for row in place.table.rows}.values())
    heads, columns = ["method"], []
    for number, place in enumerate(held):
        heads.append(f"{place.title}, {place.features}")
        columns.append([_cell(place, row) for row in rows])
        last = number + 1 == len(held) or held[number + 1].column != place.column
        if last and any(place.column.id in row.paper for row in place.table.rows):
            heads.append(f"{place.title}, the paper")
            columns.append([_paper_cell(place, row) for row in rows])
    lines = []
    for row, *cells in zip(rows, *columns, strict=True):
        ours = row.method in ("ltgcd", "ltgcd-crest") and row.id != PAPER
        # What the paper says is not ours, in whatever row it stands.
        shown = [
            f"**{text}**" if ours and text != "–" and not head.endswith("the paper") else text
            for head, text in zip(heads[1:], cells, strict=True)
        ]
        lines.append([f"**{row.title}**" if ours else row.title, *shown])
    return grid(heads, lines, "Methods by datasets")


def _cell(place: Place, row: Row) -> str:
    one = place.found.get(row.id)
    if one is None or not one.values:
        return "–"
    parts = []
    for at in (0, 2):
        lead = place.lead(row.id, BASELINE, at) if row.id != BASELINE else None
        known = lead is not None and lead.outcome != "one seed"
        shown = f" {sign(lead.difference, lead.margin)}" if lead is not None and known else ""
        parts.append(f"{place.mean(row.id, at):.1f}{shown}")
    most = max(len(other.seeds) for other in place.found.values())
    return " / ".join(parts) + (f" ({len(one.seeds)})" if len(one.seeds) < most else "")


def sign(difference: float, margin: float) -> str:
    """The direction of a difference: above, below, or neither beyond its margin."""
    return ABOVE if difference > margin else BELOW if difference < -margin else NEITHER


def _paper_cell(place: Place, row: Row) -> str:
    mine = next((own for own in place.table.rows if own.id == row.id), None)
    value = mine.paper.get(place.column.id) if mine else None
    return "–" if value is None else f"{value[0]:.1f} / {value[2]:.1f}"


def best_of_each(held: list[Place]) -> Grid:
    """For each setting and for All, Old and New: the best row, its lead over the next, and the paper's."""
    lines = []
    for place in held:
        for at, group in enumerate(GROUPS):
            first, *others = place.best(at)
            lead = place.lead(first.id, others[0].id, at) if others else None
            shown = [first.title, "–", "–", "alone"]
            if lead is not None:
                shown = [f"{first.title} {lead.first:.1f}", f"{others[0].title} {lead.second:.1f}"]
                shown += [f"{lead.difference:+.1f}", _how_sure(lead)]
            setting = f"{place.title}, {place.features}"
            lines.append([setting, group.title(), *shown, _paper_best(place, at), str(len(others) + 1)])
    heads = ["dataset, features", "of", "best", "next", "lead", "how sure", "the paper's best", "methods"]
    return grid(heads, lines, "Best on what, by how much, how sure")


def _how_sure(lead: Lead) -> str:
    if lead.outcome == "one seed":
        return "*not sure*: one seed in common"
    if not np.isfinite(lead.margin):
        return "*not sure*: no spread is known"
    sure = "**sure**" if lead.outcome == "above" else "*not sure*"
    return f"{sure}: noise ± {lead.margin:.1f}, {lead.seeds} seeds"


def _paper_best(place: Place, at: int) -> str:
    there = [row for row in place.table.rows if place.column.id in row.paper]
    if len(there) < 2:
        return "– (not in the paper)"
    first, second = sorted(there, key=lambda row: -row.paper[place.column.id][at])[:2]
    top, lead = first.paper[place.column.id][at], second.paper[place.column.id][at]
    return f"{first.title} {top:.1f}, {top - lead:+.1f} over {second.title}"


def class_numbers(finished: Finished) -> Grid:
    """One row a dataset with its features, one column an estimator: mean estimate, its error, the paper's figure."""
    tables = [finished.tables[name] for name in CLASS_NUMBERS if name in finished.tables]
    rows = list({row.id: row for table in tables for row in table.rows}.values())
    lines = []
    for table in tables:
        own = {row.id: row for row in table.rows}
        shown = [(setting, regime) for setting, regime in finished.shown_settings(table) if setting and regime]
        found = {setting.name: finished.of(table, setting.name, regime) for setting, regime in shown}
        for column in table.columns:
            for setting, regime in shown:
                ones = [found[setting.name].get((column.id, row.id), Found([], [], [])) for row in rows]
                if not any(one.values for one in ones):
                    continue
                true = next(one.values[0][3] for one in ones if one.values)
                line = [f"{column.title.partition(' (')[0]}, {finished.features(setting, regime)}", f"{true:.0f}"]
                line += [_estimate(own.get(row.id, row), column, one) for row, one in zip(rows, ones, strict=True)]
                lines.append(line)
    titles = [f"**{row.title}**" if row.id == OUR_ESTIMATE else row.title for row in rows]
    return grid(["dataset, features", "true K", *titles], lines, "Number of classes by estimator")


def _estimate(row: Row, column: Column, one: Found) -> str:
    said = paper_figure(row, column)
    paper = "" if said == "–" else f"; the paper {said}"
    if not one.values:
        return f"–{paper}"
    error = 100 * float(np.mean([relative_error(k, true) for k, _, _, true in one.values]))
    mean = geometric_mean([k for k, *_ in one.values if k is not None])
    shown = f"{mean:.0f} ({error:.0f} %)" + (f", {len(one.seeds)} seed" if len(one.seeds) == 1 else "")
    return (f"**{shown}**" if row.id == OUR_ESTIMATE else shown) + paper
