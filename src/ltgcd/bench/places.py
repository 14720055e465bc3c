"""A dataset with its features, and who is ahead of whom there, on the data seeds that both have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ltgcd.bench.found import ByPlace, Finished
from ltgcd.bench.tables import Column, Row, Table
from ltgcd.bench.verdicts import GROUPS, Found, Noise, by_seed

ACCURACIES = ("main", "ssb")  # the tables of methods by datasets
BASELINE = "simgcd"

Outcome = Literal["above", "below", "noise", "one seed"]


class Lead(NamedTuple):
    """How far a row is ahead of another, on the data seeds that both have.

    `first` and `second` are the means of the two over those seeds, `margin` is that of noise.
    """

    first: float
    second: float
    difference: float
    margin: float
    seeds: int

    @property
    def outcome(self) -> Outcome:
        """Beyond noise above or below, or neither; one seed decides nothing."""
        if self.seeds == 1:
            return "one seed"
        return "above" if self.difference > self.margin else "below" if self.difference < -self.margin else "noise"


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
        """The rows that were run: the best one, the one that comes nearest to it, and the others.

        The best is the one whose least lead over another row is the greatest: where all rows have the same seeds, the
        one with the highest mean. Means over different seeds are not compared.
        """
        rows = self.rows()

        def least(row: Row) -> float:
            leads = [lead.difference for other in rows if other != row and (lead := self.lead(row.id, other.id, at))]
            return min(leads, default=float("-inf"))

        first = max(rows, key=lambda row: (least(row), len(self.found[row.id].seeds)))
        leads = {row.id: self.lead(first.id, row.id, at) for row in rows}

        def behind(row: Row) -> float:
            lead = leads[row.id]
            return float("inf") if lead is None else lead.difference

        return [first, *sorted((row for row in rows if row != first), key=behind)]

    def lead(self, row: str, other: str, at: int) -> Lead | None:
        """How far a row is ahead of another; None where they have no seed in common."""
        ours, theirs = by_seed(self.found[row], at), by_seed(self.found[other], at)
        seeds = sorted(set(ours) & set(theirs))
        if not seeds:
            return None
        first, second = (float(np.mean([one[seed] for seed in seeds])) for one in (ours, theirs))
        return Lead(first, second, first - second, self.noise[at].margin(len(seeds)), len(seeds))


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


def by_dataset(held: list[Place]) -> list[list[Place]]:
    """The places of each dataset: features of the same split are not datasets of their own."""
    names = dict.fromkeys((place.table.name, place.column.id) for place in held)
    return [[place for place in held if (place.table.name, place.column.id) == name] for name in names]


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
