"""Whether a claim holds beyond noise: two rows are compared on the same data seeds, and a difference has a margin.

A claim says that figures fall from row to row (or that a lead grows from dataset to dataset). Every step is the mean of
the differences between two rows on the same data seeds. Its margin is the half width of Student's 95 % interval; the
variance of a difference is pooled over all steps of a table that are of the same measure, because three seeds alone
tell little of it. A step within its margin is no difference beyond noise. Imbalances, numbers of classes and seconds
are compared by their ratio, that is by the difference of their logarithms: their spread grows with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from ltgcd.bench.tables import Claim, Table

GROUPS = ("all", "old", "new")
LEVEL = 0.95


class Found(NamedTuple):
    """The figures of a row in a column: a line for each finished seed, a column for each figure.

    And the minutes that it took, and the sets that the last epoch drew from, where they were recorded.
    """

    values: list[list[float | None]]
    seeds: list[int]
    minutes: list[float]
    sets: Sequence[dict[str, Any]] = ()


class Noise(NamedTuple):
    """Variance of the difference of two rows on one data seed, and the degrees of freedom that it was pooled over."""

    variance: float
    freedom: int

    def margin(self, n_seeds: int) -> float:
        """Half width of the interval of a mean over this many seeds; infinite where no spread was seen."""
        if not self.freedom:
            return float("inf")
        return float(student.ppf((1 + LEVEL) / 2, self.freedom) * np.sqrt(self.variance / n_seeds))


BySeed = dict[int, float]
Chain = list[BySeed]  # the figures of the rows of a claim (or the leads along datasets) by data seed


# ---------------------------------------------------------------- chains of figures, and how noisy they are


def chains(claim: Claim, table: Table, found: dict[tuple[str, str], Found]) -> list[tuple[str, Chain]]:
    """The figures that a claim compares, in its order, a chain a dataset: each is said to be above the next.

    Logarithms of figures that are compared by their ratio.
    """
    at = GROUPS.index(claim.measure) if claim.measure in GROUPS else 0
    if claim.measure == "error":
        found = {place: _as_errors(one) for place, one in found.items()}
    if claim.gap:
        ours, theirs = ([_by_seed(found[column, row], at) for column in claim.over] for row in claim.gap)
        leads = [{seed: a[seed] - b[seed] for seed in a if seed in b} for a, b in zip(ours, theirs, strict=True)]
        return [("", leads[::-1])]  # a lead that grows falls when it is read backwards
    falling = [[_by_seed(found[column.id, row], at) for row in claim.falling] for column in table.columns]
    if _by_ratio(claim, table):
        falling = [[{seed: float(np.log(v)) for seed, v in one.items()} for one in chain] for chain in falling]
    return [(column.title, chain) for column, chain in zip(table.columns, falling, strict=True)]


def noise_of(claim: Claim, table: Table, found: dict[tuple[str, str], Found]) -> Noise:
    """Pooled variance of the paired differences in all claims of a table with the measure of this one.

    Rows that are equal to the last digit in every seed are the same run under two names and tell nothing of noise.
    """
    squares, freedom = 0.0, 0
    for other in table.claims:
        if (_kind(other, table), other.gap) != (_kind(claim, table), claim.gap):
            continue
        for _, chain in chains(other, table, found):
            for differences in _steps(chain):
                if any(differences):
                    squares += float(((differences - np.mean(differences)) ** 2).sum())
                    freedom += len(differences) - 1
    return Noise(squares / freedom if freedom else 0.0, freedom)


def _kind(claim: Claim, table: Table) -> tuple[str, ...]:
    """What the figures of a claim are: those of accuracies and of imbalances in one table are not of one spread."""
    return claim.measure, *sorted({row.shows for row in table.rows if row.id in (*claim.falling, *claim.gap)})


def _by_ratio(claim: Claim, table: Table) -> bool:
    """Whether the rows of a claim show numbers that are compared by their ratio."""
    measure, *shows = _kind(claim, table)
    return not claim.gap and measure != "error" and not {"accuracy", "sizes"} & set(shows)


def _steps(chain: Chain) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    """Differences on the same seeds from each figure of a chain to the next; empty where no seed has all of them."""
    seeds = sorted(set.intersection(*(set(one) for one in chain)))
    return [np.array([a[seed] - b[seed] for seed in seeds]) for a, b in pairwise(chain)] if seeds else []


# ---------------------------------------------------------------- the sentence


def verdict(claim: Claim, table: Table, found: dict[tuple[str, str], Found]) -> str:
    """A sentence on whether a claim holds beyond noise, with the figures, the margin and the seeds."""
    noise, parts = noise_of(claim, table, found), []
    for title, chain in chains(claim, table, found):
        steps = _steps(chain)
        if not steps:
            continue
        n = len(steps[0])
        seeds = sorted(set.intersection(*(set(one) for one in chain)))
        means = [float(np.mean([one[seed] for seed in seeds])) for one in chain]
        margin = noise.margin(n)
        said = _word(claim, [float(step.mean()) for step in steps], margin)
        certain = f"noise ± {margin:.1f}" if np.isfinite(margin) else "no spread is known"
        if _by_ratio(claim, table):
            means = [float(np.exp(mean)) for mean in means]
            certain = f"noise × {np.exp(margin):.2f}" if np.isfinite(margin) else certain
        shown = " → ".join(f"{mean:.1f}" for mean in (means[::-1] if claim.gap else means))
        parts.append(f"{title + ': ' if title else ''}{said} ({shown}; {certain}, {n} seed{'s' * (n > 1)})")
    rows = {row.id: row.title for row in table.rows}
    words = "" if claim.gap else f" [{' > '.join(rows[row] for row in claim.falling)}]"
    by = "The paper" if claim.by == "paper" else "Ours"
    return f"- {by}: {claim.says}{words}. " + ("; ".join(parts) + "." if parts else "Not run yet.")


def _word(claim: Claim, steps: Sequence[float], margin: float) -> str:
    """What the steps of a chain come to."""
    up, down = sum(step > margin for step in steps), sum(step < -margin for step in steps)
    if not np.isfinite(margin):
        return "so, in one seed" if all(step > 0 for step in steps) else "not so, in one seed"
    if up == len(steps):
        return "reproduced" if claim.by == "paper" else "yes"
    if down and not up:
        return "**the reverse**"
    if not up:
        return "no difference beyond noise"
    return f"in part ({up} of {len(steps)} steps" + (f", {down} the reverse)" if down else ", the others within noise)")


# ---------------------------------------------------------------- figures


def relative_error(k: float | None, true: float | None) -> float:
    """|K̂ − K| / K."""
    assert k is not None and true is not None
    return abs(k / true - 1)


def _as_errors(one: Found) -> Found:
    """|K̂ − K| / K in percent instead of K̂ with its interval."""
    return one._replace(values=[[100 * relative_error(k, true)] for k, _, _, true in one.values])


def _by_seed(one: Found, at: int) -> BySeed:
    return {
        seed: float(value)
        for seed, values in zip(one.seeds, one.values, strict=True)
        if (value := values[at] if at < len(values) else values[0]) is not None
    }
