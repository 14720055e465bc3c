"""The first page of the results: which method is best on what, by how much, how sure, and what the paper says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ltgcd.bench.found import ByPlace, Finished, paper_figure
from ltgcd.bench.page import Block, Grid, Heading, Lines, Picture, Text, grid
from ltgcd.bench.tables import Column, Row, Table
from ltgcd.bench.verdicts import GROUPS, Found, Noise, by_seed, geometric_mean, relative_error

ACCURACIES = ("main", "ssb")  # the tables of methods by datasets
CLASS_NUMBERS = ("class_number", "class_number_ssb")
BASELINE, PAPER, OURS = "simgcd", "ltgcd-paper", "ltgcd"  # rows of the tables of accuracies
OUR_ESTIMATE = "peaks"
ABOVE, BELOW, NEITHER = "▲", "▼", "≈"


@dataclass(frozen=True)
class Place:
    """A dataset with its features, and the figures of every row on it.

    `features` names them, `noise` is that of a difference of two rows, for All, Old and New.
    """

    table: Table
    column: Column
    features: str
    found: dict[str, Found]
    noise: tuple[Noise, ...]

    @property
    def title(self) -> str:
        """Name of the dataset alone."""
        return self.column.title.partition(" (")[0]

    def rows(self) -> list[Row]:
        """The rows that were run."""
        return [row for row in self.table.rows if self.found[row.id].values]

    def mean(self, row: str, at: int) -> float:
        """Mean of All, Old or New over the seeds of a row."""
        return float(np.mean([value for values in self.found[row].values if (value := values[at]) is not None]))

    def best(self, at: int) -> list[Row]:
        """The rows that were run, the best first."""
        return sorted(self.rows(), key=lambda row: -self.mean(row.id, at))

    def lead(self, row: str, other: str, at: int) -> tuple[float, float, int] | None:
        """Mean lead of a row over another on the seeds of both, the margin of noise, and how many seeds."""
        ours, theirs = by_seed(self.found[row], at), by_seed(self.found[other], at)
        seeds = sorted(set(ours) & set(theirs))
        if not seeds:
            return None
        return float(np.mean([ours[s] - theirs[s] for s in seeds])), self.noise[at].margin(len(seeds)), len(seeds)


def places(finished: Finished) -> list[Place]:
    """Every dataset and every kind of features on which methods were compared."""
    made = []
    for table in (finished.tables[name] for name in ACCURACIES if name in finished.tables):
        shown = [(setting, regime) for setting, regime in finished.shown_settings(table) if setting and regime]
        found = {(s.name, r): finished.of(table, s.name, r) for s, r in shown}
        for column in table.columns:
            for setting, regime in shown:
                here = found[setting.name, regime]
                mine = {row.id: here[column.id, row.id] for row in table.rows}
                if mine.get(BASELINE, Found([], [], [])).values:
                    noise = tuple(difference_noise(table, here, at) for at in range(len(GROUPS)))
                    made.append(Place(table, column, finished.features(setting, regime), mine, noise))
    return made


def difference_noise(table: Table, found: ByPlace, at: int) -> Noise:
    """Variance of the difference of two rows on one data seed, pooled over a table.

    What a seed does to all rows of a dataset alike is taken out: twice the residual variance of rows by seeds, over the
    rows that have every seed.
    """
    squares, freedom = 0.0, 0
    for column in table.columns:
        mine = [by_seed(found[column.id, row.id], at) for row in table.rows]
        seeds = sorted(set().union(*mine))
        whole = np.array([[one[seed] for seed in seeds] for one in mine if one.keys() == set(seeds) and seeds])
        whole = np.unique(whole, axis=0)  # a run under two names tells nothing of noise
        if whole.ndim == 2 and min(whole.shape) > 1:
            rest = whole - whole.mean(axis=0) - whole.mean(axis=1, keepdims=True) + whole.mean()
            squares += float((rest**2).sum())
            freedom += (whole.shape[0] - 1) * (whole.shape[1] - 1)
    return Noise(2 * squares / freedom if freedom else 0.0, freedom)


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
            "The best row and the next one in each setting. A lead is **sure** if it is beyond noise, and *not sure* "
            "otherwise; the paper's best and its lead over the paper's second stand beside it (the paper gives no "
            "spread for most rows)."
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
    for at, name in ((0, "All"), (2, "New")):
        winners = [place.best(at)[0] for place in held]
        wins = {row.title: sum(other.title == row.title for other in winners) for row in winners}
        order = sorted(wins, key=lambda title: (-wins[title], title))
        parts = [f"**{title}** in {wins[title]}" for title in order]
        said.append(f"Best on {name} of {len(held)} settings (a dataset with its features): {', '.join(parts)}.")
    for row, words in ((OURS, "Our default"), (PAPER, "The paper's own method, as far as it can be read")):
        for at, name in ((0, "All"), (2, "New")):
            if line := _against_baseline(held, row, at):
                said.append(f"{words}, on {name}: {line}.")
    return said


def _against_baseline(held: list[Place], row: str, at: int) -> str:
    """In how many settings a row is above or below SimGCD beyond noise, and by how much."""
    leads = [(place, place.lead(row, BASELINE, at)) for place in held if row in place.found]
    known = [(place, lead) for place, lead in leads if lead is not None]
    if not known:
        return ""
    groups: dict[str, list[str]] = {"above": [], "below": [], "within noise of": []}
    for place, (difference, margin, n) in known:
        key = "above" if difference > margin else "below" if difference < -margin else "within noise of"
        words = f"{place.title}, {place.features} {difference:+.1f} ± {margin:.1f}" + (" (1 seed)" if n == 1 else "")
        groups[key].append(words)
    return "; ".join(f"{key} SimGCD in {len(g)} of {len(known)} ({'; '.join(g)})" for key, g in groups.items() if g)


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
        "noise (Student's 95 % interval on the same data seeds, each comparison by itself: of twenty, one may be wrong "
        'by chance). (1) is of one seed instead of three. Our methods are **bold**. "The paper" is All / New as '
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
        parts.append(f"{place.mean(row.id, at):.1f}" + (f" {sign(lead[0], lead[1])}" if lead else ""))
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
            first, second = place.best(at)[:2]
            lead = place.lead(first.id, second.id, at)
            assert lead is not None  # every row that was run has seed 0
            difference, margin, n = lead
            sure = "**sure**" if difference > margin else "*not sure*"
            known = f"{sure}: noise ± {margin:.1f}, {n} seed{'s' * (n > 1)}" if np.isfinite(margin) else "one seed"
            lines.append(
                [
                    f"{place.title}, {place.features}",
                    group.title(),
                    f"{first.title} {place.mean(first.id, at):.1f}",
                    f"{second.title} {place.mean(second.id, at):.1f}",
                    f"{difference:+.1f}",
                    known,
                    _paper_best(place, at),
                ]
            )
    heads = ["dataset, features", "of", "best", "next", "lead", "how sure", "the paper's best"]
    return grid(heads, lines, "Best on what, by how much, how sure")


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
