"""A direction that the paper states, or that we do: which rows of a table are said to be above which others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ltgcd.common.errors import InputError

MEASURES = ("all", "old", "new", "lambda", "k", "error", "seconds")
FORMS = "exactly one of 'falling', 'above', and 'gap' with 'over'"


@dataclass(frozen=True)
class Claim:
    """What is claimed, in words and as an order of rows.

    Attributes
    ----------
    says : str
        The claim in words.
    measure : str
        One of `MEASURES`.
    falling : tuple of str
        Rows whose figures fall in this order on each dataset; or, with `equal`, do not differ.
    above : tuple of str
        The first of these rows is above each of the others; with `at_least`, below none of them.
    gap : tuple of str
        The lead of the row ``gap[0]`` over the others (of one row: its figure) grows along the datasets `over`; or,
        with `equal`, stays the same.
    over : tuple of str
        The datasets that the claim is about; all of the table where none is named.
    by : str
        "paper", or "ours" where the paper does not say it.
    equal, at_least : bool
        See `falling`, `gap` and `above`.
    around : bool
        The true number of classes lies between the two rows of `falling`.
    factor : float
        How many times the first of two rows is the second one, at least.
    why : str
        The best explanation of what was found, in words without figures.
    """

    says: str
    measure: str = "all"
    falling: tuple[str, ...] = ()
    above: tuple[str, ...] = ()
    gap: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    by: str = "paper"
    equal: bool = False
    at_least: bool = False
    around: bool = False
    factor: float = 1.0
    why: str = ""

    @property
    def rows(self) -> tuple[str, ...]:
        """Every row that the claim names."""
        return (*self.falling, *self.above, *self.gap)


def check_claim(claim: Claim, name: str, shows: Mapping[str, str], datasets: list[str]) -> None:
    """Refuse a claim of the table `name` that can't be judged: `shows` is what each row shows."""
    for kind, wanted, known in (("row", claim.rows, [*shows]), ("dataset", claim.over, datasets)):
        if unknown := set(wanted) - set(known):
            raise InputError(f"A claim of {name} names the {kind}s {sorted(unknown)}, which it lacks.")
    if claim.measure not in MEASURES or claim.by not in ("paper", "ours"):
        raise InputError(f"A claim of {name} measures one of {', '.join(MEASURES)}, 'by' paper or ours.")
    if claim.measure == "error" and any(shows[row] != "k" for row in claim.rows):
        raise InputError(f"A claim of {name} measures the error of rows that show no class number.")
    if sum(map(bool, (claim.falling, claim.above, claim.gap))) != 1 or (claim.gap and not claim.over):
        raise InputError(f"A claim of {name} has {FORMS}.")
    if len(claim.above) == 1 or (claim.at_least and not claim.above) or (claim.equal and claim.above):
        raise InputError(f"'above' in a claim of {name} names a row and its rivals; 'at_least' goes with it alone.")
    if claim.around and (len(claim.falling) != 2 or claim.measure != "k" or {shows[r] for r in claim.falling} != {"k"}):
        raise InputError(f"'around' in a claim of {name} is of two 'falling' rows that show a class number.")
    if claim.factor <= 0 or (claim.factor != 1 and (len(claim.falling) != 2 or claim.measure != "seconds")):
        raise InputError(f"'factor' in a claim of {name} is a number above 0, of the seconds of two 'falling' rows.")
