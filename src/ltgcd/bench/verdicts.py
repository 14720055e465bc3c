"""Whether a claim holds beyond noise: two rows are compared on the same data seeds, and a difference has a margin.

A claim says that figures fall from row to row, that one row is above each of several others, or that a lead grows from
dataset to dataset. Every step is the mean of the differences between two rows on the same data seeds. Its margin is the
half width of Student's 95 % interval; the variance of a difference is pooled over all steps of a table that are of the
same measure, because three seeds alone tell little of it. A step within its margin is no difference beyond noise.
Imbalances, numbers of classes and seconds are compared by their ratio, that is by the difference of their logarithms:
their spread grows with them. So their mean is the geometric one, wherever the page shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from ltgcd.bench.claims import Claim
from ltgcd.bench.tables import Column, Table

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
Differences = np.ndarray[Any, np.dtype[np.float64]]  # of two rows, one a data seed
TRUE_K = "the true K"


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
    chosen = [column for column in table.columns if not claim.over or column.id in claim.over]
    made = [[by_seed(found[column.id, row], at) for row in (*claim.falling, *claim.above)] for column in chosen]
    if claim.around:
        made = [
            [first, _true_k(found, column, claim), last] for column, (first, last) in zip(chosen, made, strict=True)
        ]
    if _by_ratio(claim, table):
        made = [[_logarithms(one) for one in chain] for chain in made]
    return [(column.title, chain) for column, chain in zip(chosen, made, strict=True)]


def _true_k(found: dict[tuple[str, str], Found], column: Column, claim: Claim) -> BySeed:
    return {seed: k for row in claim.falling for seed, k in by_seed(found[column.id, row], 3).items()}


def noise_of(claim: Claim, table: Table, found: dict[tuple[str, str], Found]) -> Noise:
    """Pooled variance of the paired differences in all claims of a table with the measure of this one.

    Rows that are equal to the last digit in every seed are the same run under two names and tell nothing of noise. What
    separates a row from many rivals, which may be noisier, has a say in claims about rivals alone.
    """
    kind = _kind(claim, table), claim.gap
    alike = [other for other in table.claims if (_kind(other, table), other.gap) == kind]
    alike = [other for other in alike if claim.above or not other.above]
    pairs: dict[tuple[Any, ...], Differences] = {}  # a pair of rows counts once, in however many claims it stands
    for other in alike:
        names = (*other.falling[:1], TRUE_K, *other.falling[1:]) if other.around else other.rows
        for title, chain in chains(other, table, found):
            if other.above:
                steps = {names[at]: _paired(chain[0], one) for at, one in enumerate(chain) if at}
                pairs |= {(title, *sorted((names[0], name))): step for name, step in steps.items()}
            else:
                named = pairwise(names) if not other.gap else pairwise(other.over)
                pairs |= {
                    (title, *sorted(two)): step
                    for two, step in zip(named, _steps(chain), strict=False)
                    if len(step) > len(pairs.get((title, *sorted(two)), ()))
                }
    return pooled([step for step in pairs.values() if len(step)])


def _kind(claim: Claim, table: Table) -> tuple[str, ...]:
    """What the figures of a claim are: those of accuracies and of imbalances in one table are not of one spread."""
    shows = {row.shows for row in table.rows if row.id in claim.rows}
    return claim.measure, *sorted({"lambda" if name.startswith("lambda_") else name for name in shows})


def _by_ratio(claim: Claim, table: Table) -> bool:
    """Whether the figures of a claim are compared by their ratio: a lead of one row over another is a difference."""
    measure, *shows = _kind(claim, table)
    return len(claim.gap) < 2 and measure != "error" and not {"accuracy", "sizes"} & set(shows)


def _logarithms(one: BySeed) -> BySeed:
    return {seed: float(np.log(value)) for seed, value in one.items()}


def _paired(first: BySeed, other: BySeed) -> Differences:
    """Differences of two rows on the seeds that both have."""
    return np.array([first[seed] - other[seed] for seed in sorted(set(first) & set(other))])


def _steps(chain: Chain) -> list[Differences]:
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
        judge = _over_rivals if claim.above else _along
        one = judge(claim, table, title, chain, noise)
        if one is not None:
            parts.append(one)
    return parts


def _along(claim: Claim, table: Table, title: str, chain: Chain, noise: Noise) -> Judged | None:
    """What a claim of falling figures or of a growing lead comes to."""
    steps = _steps(chain)
    if not steps:
        return None
    n = len(steps[0])
    seeds = sorted(set.intersection(*(set(one) for one in chain)))
    means = [float(np.mean([one[seed] for seed in seeds])) for one in chain]
    margin = noise.margin(n)
    outcome, words = _outcome(claim, [float(step.mean()) - np.log(claim.factor) for step in steps], margin)
    if _by_ratio(claim, table):
        means = [float(np.exp(mean)) for mean in means]
    shown = " → ".join(f"{mean:.1f}" for mean in (means[::-1] if claim.gap else means))
    return Judged(title, outcome, words, f"{shown}; {_certain(claim, table, margin)}, {_seeds(n)}", n)


def _over_rivals(claim: Claim, table: Table, title: str, chain: Chain, noise: Noise) -> Judged | None:
    """What a claim that a row is above each of its rivals comes to; with `at_least`, that it is below none."""
    names = {row.id: row.title for row in table.rows}
    steps = {names[row]: _paired(chain[0], other) for row, other in zip(claim.above[1:], chain[1:], strict=True)}
    leads = {name: (float(step.mean()), len(step)) for name, step in steps.items() if len(step)}
    if not leads:
        return None
    n = max(count for _, count in leads.values())
    margin, ratio = noise.margin(n), _by_ratio(claim, table)
    shown = []
    for name, (lead, k) in leads.items():
        ahead = f"× {np.exp(lead):.2f}" if ratio else f"{round(lead, 1) + 0.0:+.1f}"  # never -0.0
        shown.append(f"{name} {ahead}" + (f" ({_seeds(k)})" if k < n else ""))
    # What has one seed is shown and decides nothing where other rivals have more.
    decide = [(lead, noise.margin(k)) for lead, k in leads.values() if k > 1 or n == 1]
    up, down = sum(lead > edge for lead, edge in decide), sum(lead < -edge for lead, edge in decide)
    spread = n > 1 and bool(np.isfinite(margin))
    outcome, words = _against(claim, len(steps), [lead for lead, _ in decide], (up, down), spread=spread)
    own = float(np.mean([*chain[0].values()]))
    told = f"{np.exp(own) if ratio else own:.1f}; lead over {', '.join(shown)}"
    return Judged(title, outcome, words, f"{told}; {_certain(claim, table, margin)}, {_seeds(n)}", n)


def _against(
    claim: Claim, rivals: int, leads: list[float], beyond: tuple[int, int], *, spread: bool
) -> tuple[str, str]:
    """A key and its words for the leads over so many rivals, of which `beyond` are above and below beyond noise."""
    up, down = beyond
    good = len(leads) - down if claim.at_least else up
    if not spread:
        right = len(leads) == rivals and all(lead > 0 for lead in leads)
        return ("one so", "so, in one seed") if right else ("one not", "not so, in one seed")
    if good == rivals:
        return "so", "reproduced" if claim.by == "paper" else "yes"
    if not good:
        return ("reverse", "**the reverse**") if down else ("noise", "no difference beyond noise")
    more = [f"{down} the reverse"] if down else []
    more += [f"{within} within noise"] if (within := len(leads) - up - down) and not claim.at_least else []
    more += [f"{missing} not in several seeds"] if (missing := rivals - len(leads)) else []
    return "mixed" if down else "part", f"in part ({good} of {rivals}; {', '.join(more)})"


def _certain(claim: Claim, table: Table, margin: float) -> str:
    if not np.isfinite(margin):
        return "no spread is known"
    return f"noise × {np.exp(margin):.2f}" if _by_ratio(claim, table) else f"noise ± {margin:.1f}"


def _seeds(n: int) -> str:
    return f"{n} seed{'s' * (n > 1)}"


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
    if claim.above:
        first, *others = (rows[row] for row in claim.above)
        return f" [{first} {'≥' if claim.at_least else '>'} {', '.join(others)}]"
    names = [rows[row] for row in claim.falling]
    if claim.around:
        names.insert(1, TRUE_K)
    between = " = " if claim.equal else f" > {claim.factor:g} × " if claim.factor != 1 else " > "
    return "" if claim.gap else f" [{between.join(names)}]"


def _outcome(claim: Claim, steps: Sequence[float], margin: float) -> tuple[str, str]:
    """What the steps of a chain come to: a key and its words."""
    up, down = sum(step > margin for step in steps), sum(step < -margin for step in steps)
    if not np.isfinite(margin) and not any(steps):
        return ("so" if claim.equal else "noise"), "no difference at all"
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


def pooled(differences: Sequence[Differences]) -> Noise:
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
