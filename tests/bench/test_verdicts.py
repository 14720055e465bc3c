"""Whether a claim holds beyond noise: margins worked out by hand, and what does not change a verdict."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltgcd.bench.claims import Claim, check_claim
from ltgcd.bench.render import part
from ltgcd.bench.tables import Column, Row, Shows, Table, read_tables
from ltgcd.bench.verdicts import Found, Noise, verdict
from ltgcd.common.errors import InputError

TABLES = Path(__file__).parents[2] / "benchmarks" / "tables"
ROWS = ("high", "middle", "low")


def found(*values: float) -> Found:
    return Found([[value, value, value] for value in values], list(range(len(values))), [])


def table_of(*claims: Claim, shows: Shows = "accuracy") -> Table:
    rows = tuple(Row(name, name, shows, "ltgcd", "default", {}, {}, True) for name in ROWS)
    return Table("made-up", "Made up", "–", "train", (Column("set", "Set", "cifar100", {}),), rows, claims)


def said(claim: Claim, *figures: tuple[float, ...], table: Table | None = None) -> str:
    table = table or table_of(claim)
    column = table.columns[0].id
    return verdict(claim, table, {(column, row): found(*one) for row, one in zip(ROWS, figures, strict=False)})


FALLS = Claim("it falls", falling=ROWS[:2])


def test_the_margin_is_students() -> None:
    """Variance 3 with four degrees of freedom, three seeds: 2.776 · √(3 / 3)."""
    assert Noise(3.0, 4).margin(3) == pytest.approx(2.776, abs=1e-3)
    assert Noise(0.0, 0).margin(3) == np.inf


def test_a_difference_is_judged_by_its_spread_over_seeds() -> None:
    """Differences 9, 10, 11 have variance 1: a margin of 4.303 / √3 = 2.5. Those of 0, 10, 20 have one of 24.8."""
    assert "reproduced (60.0 → 50.0; noise ± 2.5, 3 seeds)" in said(FALLS, (59, 60, 61), (50, 50, 50))
    assert "no difference beyond noise (60.0 → 50.0; noise ± 24.8, 3 seeds)" in said(FALLS, (50, 60, 70), (50, 50, 50))
    assert "**the reverse** (50.0 → 60.0; noise ± 2.5, 3 seeds)" in said(FALLS, (50, 50, 50), (59, 60, 61))


def test_seeds_are_paired_so_what_moves_both_rows_is_no_noise() -> None:
    assert "reproduced" in said(FALLS, (21, 41, 61.5), (20, 40, 60))


def test_a_small_steady_difference_beside_noisy_ones_is_noise() -> None:
    """33.7 → 33.5 in both seeds, where other rows differ by ± 2: no verdict may rest on two lucky seeds."""
    other = Claim("the other", falling=("middle", "low"))
    table = table_of(FALLS, other)
    assert "no difference beyond noise" in said(FALLS, (33.7, 33.7), (33.5, 33.5), (30, 34), table=table)


def test_equal_runs_tell_nothing_of_noise() -> None:
    same = Claim("the same", falling=("middle", "low"))
    alone = said(FALLS, (59, 60, 61), (50, 50, 50), (50, 50, 50))
    assert alone == said(FALLS, (59, 60, 61), (50, 50, 50), (50, 50, 50), table=table_of(FALLS, same))
    assert "no difference beyond noise" in said(
        same, (59, 60, 61), (50, 50, 50), (50, 50, 50), table=table_of(FALLS, same)
    )


def test_a_chain_may_hold_in_part() -> None:
    chain = Claim("it falls twice", falling=ROWS)
    assert "in part (1 of 2 steps, the others within noise)" in said(
        chain, (60, 61, 62), (60, 61.5, 61.5), (40, 41, 42.5)
    )
    assert "in part (1 of 2 steps, 1 the reverse)" in said(chain, (50, 51, 52), (60, 61, 62.5), (40, 41, 42))


def test_imbalances_are_compared_by_their_ratio() -> None:
    """Ratios 2, 2.2, 2.42 differ by a factor of 1.1 from seed to seed: a margin of exp(4.303 · log 1.1 / √3) = 1.27."""
    table = table_of(FALLS, shows="lambda_selected")
    figures = (200.0, 22.0, 2.42), (100.0, 10.0, 1.0)
    assert "reproduced (22.0 → 10.0; noise × 1.27, 3 seeds)" in said(FALLS, *figures, table=table)


def test_an_imbalance_is_the_same_number_in_its_table_and_in_its_verdict() -> None:
    """200, 22 and 2.42 have the geometric mean 22 and the arithmetic one 74.8; their logarithms spread by 1.80."""
    table = table_of(FALLS, shows="lambda_selected")
    column = table.columns[0]
    figures = {"high": (200.0, 22.0, 2.42), "middle": (100.0, 10.0, 1.0), "low": ()}
    mine = {(column.id, row): Found([[v] for v in one], list(range(len(one))), []) for row, one in figures.items()}
    (shown,) = part(table, column, mine)
    assert [row[1] for row in shown.rows] == ["22.0 ×/÷ 6.06", "10.0 ×/÷ 6.55", "not run"]
    assert "(22.0 → 10.0;" in verdict(FALLS, table, mine)
    epochs = table_of(FALLS, shows="lambda_epochs")
    first = Found([[4.0, 1.0], [9.0, 1.0]], [0, 1], [])
    (shown,) = part(epochs, column, {(column.id, row): first for row in ROWS})
    assert shown.rows[0][1] == "6.0, 1.0"


def test_what_an_epoch_drew_from_stands_beside_its_row() -> None:
    """Means over the seeds that recorded it, by hand; a row that recorded nothing has none."""
    table = table_of(FALLS)
    column = table.columns[0]
    drawn = [
        {
            "confident": {"items": 100, "lambda_pseudo": 9.0, "lambda_true": 9.0},
            "dense": {"items": dense, "lambda_pseudo": 2.0, "lambda_true": 2.0},
            "selected": {"items": dense, "lambda_pseudo": 2.0, "lambda_true": true},
        }
        for dense, true in ((10, 3.0), (30, 4.0))
    ]
    mine = {"high": found(60, 61)._replace(sets=drawn), "middle": found(50), "low": found()}
    (shown,) = part(table, column, {(column.id, row): one for row, one in mine.items()})
    high, middle, _ = shown.rows
    assert high[4:6] == ("100, 20, 20", "2.0, 3.5")
    assert middle[4:6] == ("–", "–")


ABOVE = Claim("it is the best", above=ROWS)


@pytest.mark.parametrize(
    ("middle", "low", "words"),
    [
        ((50, 50, 50), (40, 40, 40), "reproduced (60.0; lead over middle +10.0, low +20.0; noise ± 1.6, 3 seeds)"),
        ((50, 50, 50), (60, 61, 62), "in part (1 of 2; 1 within noise) (60.0; lead over middle +10.0, low -1.0; noise"),
        ((50, 50, 50), (70, 70, 70), "in part (1 of 2; 1 the reverse) (60.0; lead over middle +10.0, low -10.0; noise"),
        ((70, 70, 70), (70, 71, 72), "**the reverse** (60.0; lead over middle -10.0, low -11.0; noise"),
        ((50, 50, 50), (), "in part (1 of 2; 1 not in several seeds) (60.0; lead over middle +10.0; noise"),
        ((50, 50, 50), (10,), "in part (1 of 2; 1 not in several seeds) (60.0; lead over middle +10.0, low +49.0 (1 "),
    ],
)
def test_a_row_above_each_of_its_rivals(middle: tuple[int, ...], low: tuple[int, ...], words: str) -> None:
    """Differences 9, 10, 11 and 19, 20, 21 have variance 1 with four degrees of freedom: 2.776 / √3 = 1.6."""
    assert words in said(ABOVE, (59, 60, 61), middle, low)


def test_a_row_that_is_below_none_of_its_rivals() -> None:
    claim = Claim("it is not beaten", above=ROWS, at_least=True)
    assert "[high ≥ middle, low]. Set: reproduced" in said(claim, (59, 60, 61), (50, 50, 50), (60, 61, 61.5))
    assert "in part (1 of 2; 1 the reverse)" in said(claim, (59, 60, 61), (50, 50, 50), (70, 70, 70))
    assert "**the reverse**" in said(claim, (59, 60, 61), (80, 80, 80), (70, 70, 70))


def test_noisy_rivals_have_no_say_in_a_claim_of_two_rows() -> None:
    """Differences 9, 10, 11 alone; with 59, 20, -19 beside them (1 + 1521) / 2 = 761: 2.776 · √(761 / 3) = 44.2."""
    table = table_of(FALLS, ABOVE)
    figures = (59, 60, 61), (50, 50, 50), (0, 40, 80)
    assert "(60.0 → 50.0; noise ± 2.5, 3 seeds)" in said(FALLS, *figures, table=table)
    assert "in part (0" not in (text := said(ABOVE, *figures, table=table))
    assert "no difference beyond noise (60.0; lead over middle +10.0, low +20.0; noise ± 44.2, 3 seeds)" in text


def test_a_claim_about_some_datasets_leaves_the_others_out() -> None:
    columns = tuple(Column(name, name.title(), "cifar100", {}) for name in ("long", "flat"))
    claim = Claim("it falls", falling=ROWS[:2], over=("long",))
    table = Table("made-up", "Made up", "–", "train", columns, table_of().rows, (claim,))
    figures = {("long", "high"): found(59, 60, 61), ("long", "middle"): found(50, 50, 50)}
    figures |= {("flat", "high"): found(1, 50, 99), ("flat", "middle"): found(80, 40, 80)}
    text = verdict(claim, table, {**{(c.id, row): found() for c in columns for row in ROWS}, **figures})
    assert text == "The paper: it falls [high > middle]. Long: reproduced (60.0 → 50.0; noise ± 2.5, 3 seeds)."


def test_estimates_around_the_true_number_of_classes() -> None:
    claim = Claim("too many, then too few", falling=("high", "low"), around=True, measure="k")
    table = table_of(claim, shows="k")
    column = table.columns[0].id
    of = {"high": (140, 150, 145), "middle": (), "low": (80, 79, 84)}
    figures = {
        (column, row): Found([[k, None, None, 100] for k in ks], [*range(len(ks))], []) for row, ks in of.items()
    }
    text = verdict(claim, table, figures)
    assert "[high > the true K > low]. Set: reproduced (144.9 → 100.0 → 81.0; noise × " in text
    figures[column, "low"] = figures[column, "high"]
    assert "in part (1 of 2 steps, 1 the reverse)" in verdict(claim, table, figures)


def test_a_claim_of_how_many_times_as_fast() -> None:
    """300, 330 and 270 seconds against 10, 10 and 10 are 29.9 times as much, and 10 a step of 30."""
    for factor, words in ((30.0, "no difference beyond noise"), (10.0, "reproduced"), (100.0, "**the reverse**")):
        claim = Claim("it is faster", falling=ROWS[:2], measure="seconds", factor=factor)
        table = table_of(claim, shows="seconds")
        text = said(claim, (300, 330, 270), (10, 10, 10), table=table)
        assert f"[high > {factor:g} × middle]. Set: {words} (299.0 → 10.0; noise × 1.28, 3 seeds)" in text


def test_rows_that_are_equal_in_every_seed_do_not_differ() -> None:
    assert "Set: no difference at all (60.0 → 60.0; no spread is known, 3 seeds)" in said(
        FALLS, (59, 60, 61), (59, 60, 61)
    )


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"above": ROWS[:1]}, "names a row and its rivals"),
        ({"falling": ROWS, "above": ROWS}, "exactly one of"),
        ({"gap": ROWS[:1]}, "exactly one of"),
        ({"falling": ROWS, "at_least": True}, "goes with it alone"),
        ({"falling": ROWS, "around": True, "measure": "k"}, "two 'falling' rows"),
        ({"falling": ROWS[:2], "factor": 2.0}, "a number above 0"),
        ({"above": ROWS, "over": ("nowhere",)}, "names the datasets"),
    ],
)
def test_a_claim_that_can_t_be_judged_is_refused(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        check_claim(Claim("it is so", **wrong), "made-up", dict.fromkeys(ROWS, "accuracy"), ["set"])


def test_one_seed_is_said_so() -> None:
    assert "so, in one seed (60.0 → 50.0; no spread is known, 1 seed)" in said(FALLS, (60,), (50,))
    assert "not so, in one seed" in said(FALLS, (50,), (60,))
    assert "Not run yet" in said(FALLS, (), ())


def test_a_growing_lead() -> None:
    table = read_tables(TABLES)["lambda"]
    claim = next(claim for claim in table.claims if claim.gap)
    lead = {"cifar100-5": (1.0, 1.2, 0.8), "cifar100-10": (4.0, 4.0, 4.1), "cifar100-20": (8.0, 8.3, 8.1)}
    ours, other = claim.gap
    figures = {(column.id, row.id): found() for column in table.columns for row in table.rows}
    figures |= {(c, ours): found(*(50 + g for g in gaps)) for c, gaps in lead.items()}
    figures |= {(c, other): found(50.0, 50.0, 50.0) for c in lead}
    assert re.search(r"reproduced \(1\.0 → 4\.0 → 8\.1; noise ± 0\.\d, 3 seeds\)", verdict(claim, table, figures))
    figures["cifar100-10", ours] = found(49.0, 49.1, 49.2)
    assert "in part" in verdict(claim, table, figures)


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=2, max_size=6),
    st.floats(-50, 50),
)
def test_neither_the_order_of_the_seeds_nor_a_shift_of_all_figures_changes_a_verdict(
    pairs: list[tuple[float, float]], shift: float
) -> None:
    high, low = zip(*pairs, strict=True)
    word = re.compile(r"\. [^:]*: (.*?) \(")
    plain = word.findall(said(FALLS, high, low))
    assert plain == word.findall(said(FALLS, high[::-1], low[::-1]))
    moved = said(FALLS, tuple(h + shift for h in high), tuple(v + shift for v in low))
    if abs(np.mean(high) - np.mean(low)) > 1e-6 and np.std(np.subtract(high, low)) > 1e-6:
        assert plain == word.findall(moved)
