"""Whether a claim holds beyond noise: two rows are compared on the same data seeds, and a difference has a margin.

A claim says that figures fall from row to row (or that a lead grows from dataset to dataset). Every step is the mean of
the differences between two rows on the same data seeds. Its margin is the half width of Student's 95 % interval; the
variance of a difference is pooled over all steps of a table that are of the same measure, because three seeds alone
tell little of it. A step within its margin is no difference beyond noise. Imbalances, numbers of classes and seconds
are compared by their ratio, that is by the difference of their logarithms: their spread grows with them. So their mean
is the geometric one, wherever the page shows it.
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
        ours, *theirs = ([by_seed(found[column, row], at) for column in claim.over] for row in claim.gap)
        leads = [_logarithms(one) for one in ours] if _by_ratio(claim, table) else ours
        for other in theirs:
            leads = [{seed: a[seed] - b[seed] for seed in a if seed in b} for a, b in zip(leads, other, strict=True)]
        return [("", leads[::-1])]  # a lead that grows falls when it is read backwards
    falling = [[by_seed(found[column.id, row], at) for row in claim.falling] for column in table.columns]
    if _by_ratio(claim, table):
        falling = [[_logarithms(one) for one in chain] for chain in falling]
    return [(column.title, chain) for column, chain in zip(table.columns, falling, strict=True)]


def noise_of(claim: Claim, table: Table, found: dict[tuple[str, str], Found]) -> Noise:
    """Pooled variance of the paired differences in all claims of a table with the measure of this one.

    Rows that are equal to the last digit in every seed are the same run under two names and tell nothing of noise.
    """
    alike = [other for other in table.claims if (_kind(other, table), other.gap) == (_kind(claim, table), claim.gap)]
    return pooled([step for other in alike for _, chain in chains(other, table, found) for step in _steps(chain)])


def _kind(claim: Claim, table: Table) -> tuple[str, ...]:
    """What the figures of a claim are: those of accuracies and of imbalances in one table are not of one spread."""
    return claim.measure, *sorted({row.shows for row in table.rows if row.id in (*claim.falling, *claim.gap)})


def _by_ratio(claim: Claim, table: Table) -> bool:
    """Whether the figures of a claim are compared by their ratio: a lead of one row over another is a difference."""
    measure, *shows = _kind(claim, table)
    return len(claim.gap) < 2 and measure != "error" and not {"accuracy", "sizes"} & set(shows)


def _logarithms(one: BySeed) -> BySeed:
    return {seed: float(np.log(value)) for seed, value in one.items()}


def _steps(chain: Chain) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    """Differences on the same seeds from each figure of a chain to the next; empty where no seed has all of them."""
    seeds = sorted(set.intersection(*(set(one) for one in chain)))
    return [np.array([a[seed] - b[seed] for seed in seeds]) for a, b in pairwise(chain)] if seeds else []


# ---------------------------------------------------------------- judgements


class Judged(NamedTuple):
    """What a claim comes to on one dataset.

    Attributes
    ----------
    title : str
        The dataset; empty where the claim itself names its datasets.
    outcome : {"so", "reverse", "noise", "part", "mixed", "one so", "one not"}
        Beyond noise as claimed; the reverse; neither; of several steps some as claimed, and others within noise or the
        reverse; and in one seed without a spread.
    words : str
        The outcome in words.
    evidence : str
        Figures, margin and number of seeds.
    seeds : int
        How many seeds have all figures.
    """

    title: str
    outcome: str
    words: str
    evidence: str
    seeds: int


def judged(claim: Claim, table: Table, found: dict[tuple[str, str], Found]) -> list[Judged]:
    """What a claim comes to on each dataset that has its figures; empty where none has."""
    noise, parts = noise_of(claim, table, found), []
    for title, chain in chains(claim, table, found):
        steps = _steps(chain)
        if not steps:
            continue
        n = len(steps[0])
        seeds = sorted(set.intersection(*(set(one) for one in chain)))
        means = [float(np.mean([one[seed] for seed in seeds])) for one in chain]
        margin = noise.margin(n)
        outcome, words = _outcome(claim, [float(step.mean()) for step in steps], margin)
        certain = f"noise ± {margin:.1f}" if np.isfinite(margin) else "no spread is known"
        if _by_ratio(claim, table):
            means = [float(np.exp(mean)) for mean in means]
            certain = f"noise × {np.exp(margin):.2f}" if np.isfinite(margin) else certain
        shown = " → ".join(f"{mean:.1f}" for mean in (means[::-1] if claim.gap else means))
        parts.append(Judged(title, outcome, words, f"{shown}; {certain}, {n} seed{'s' * (n > 1)}", n))
    return parts


def verdict(claim: Claim, table: Table, found: dict[tuple[str, str], Found]) -> str:
    """A sentence on whether a claim holds beyond noise, with the figures, the margin and the seeds."""
    parts = [
        f"{one.title + ': ' if one.title else ''}{one.words} ({one.evidence})" for one in judged(claim, table, found)
    ]
    by = "The paper" if claim.by == "paper" else "Ours"
    return f"{by}: {claim.says}{compared(claim, table)}. " + ("; ".join(parts) + "." if parts else "Not run yet.")


def compared(claim: Claim, table: Table) -> str:
    """The rows that a claim puts in an order, in brackets."""
    rows = {row.id: row.title for row in table.rows}
    between = " = " if claim.equal else " > "
    return "" if claim.gap else f" [{between.join(rows[row] for row in claim.falling)}]"


def _outcome(claim: Claim, steps: Sequence[float], margin: float) -> tuple[str, str]:
    """What the steps of a chain come to: a key and its words."""
    up, down = sum(step > margin for step in steps), sum(step < -margin for step in steps)
    if not np.isfinite(margin):
        right = not claim.equal and all(step > 0 for step in steps)
        return ("one so", "so, in one seed") if right else ("one not", "not so, in one seed")
    if claim.equal:
        return ("reverse", "**they differ**") if up or down else ("so", "no difference beyond noise, as claimed")
    if up == len(steps):
        return "so", "reproduced" if claim.by == "paper" else "yes"
    if not up:
        return ("reverse", "**the reverse**") if down else ("noise", "no difference beyond noise")
    others = f", {down} the reverse)" if down else ", the others within noise)"
    return "mixed" if down else "part", f"in part ({up} of {len(steps)} steps{others}"


def pooled(differences: Sequence[np.ndarray[Any, np.dtype[np.float64]]]) -> Noise:
    """Variance of paired differences, pooled over several pairs of rows; a line of differences is of one pair."""
    spread = [one for one in differences if len(one) > 1 and one.any()]
    freedom = sum(len(one) - 1 for one in spread)
    squares = sum(float(((one - one.mean()) ** 2).sum()) for one in spread)
    return Noise(squares / freedom if freedom else 0.0, freedom)


# ---------------------------------------------------------------- figures


def geometric_mean(values: Sequence[float]) -> float:
    """The mean of what is compared by its ratio: imbalances, numbers of classes, seconds."""
    return float(np.exp(np.mean(np.log(values))))


def relative_error(k: float | None, true: float | None) -> float:
    """|K̂ − K| / K."""
    assert k is not None and true is not None
    return abs(k / true - 1)


def _as_errors(one: Found) -> Found:
    """|K̂ − K| / K in percent instead of K̂ with its interval."""
    return one._replace(values=[[100 * relative_error(k, true)] for k, _, _, true in one.values])


def by_seed(one: Found, at: int) -> BySeed:
    """One figure of a row by data seed."""
    return {
        seed: float(value)
        for seed, values in zip(one.seeds, one.values, strict=True)
        if (value := values[at] if at < len(values) else values[0]) is not None
    }
