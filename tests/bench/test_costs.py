"""How long a cell will take, by the finished cells that are most like it: figures worked out by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from conftest import ROOT, call_cli
from ltgcd.bench.costs import Costs, in_words, together
from ltgcd.bench.found import Finished
from ltgcd.bench.page import as_markdown
from ltgcd.bench.render import render
from ltgcd.bench.results import append_record
from ltgcd.bench.tables import Cell, cell_of, read_settings, read_tables

TABLES = ROOT / "benchmarks" / "tables"
LONG = Cell("train", "cifar100", "paper-counts", 0, 10.0, 80, 20, "lite2", 128, "frozen", None, "uno", "default")
CARS = dataclasses.replace(LONG, dataset="stanford-cars", split="gcd", imbalance=None, n_old=98, n_new=98)
ESTIMATE = dataclasses.replace(LONG, runs="estimate", method="kmeans-brent-1", preset=None)


def costs(*past: tuple[Cell, float | None, dict[str, Any]]) -> Costs:
    return Costs({cell.key: {"cell": cell.described(), "minutes": minutes, **more} for cell, minutes, more in past})


def of(cell: Cell, **changes: Any) -> Cell:
    return dataclasses.replace(cell, **changes)


LARGE, SMALL = {"n": 10_000, "k_true": 100}, {"n": 5_000, "k_true": 50}


def test_the_same_run_with_another_seed_counts_first() -> None:
    held = costs(
        (LONG, 8.0, LARGE),
        (of(LONG, seed=1), 10.0, LARGE),
        (of(LONG, seed=2, changes={"schedule.epochs": 30}), 90.0, LARGE),
        (of(LONG, seed=3, method="simgcd"), 500.0, LARGE),
        (of(LONG, seed=4), None, LARGE),  # it was stopped and went on: nobody knows how long it took
    )
    assert held.minutes(of(LONG, seed=9)) == 9.0
    assert held.minutes(of(LONG, seed=9, image_size=192)) == 9.0  # frozen features are of one size
    assert held.minutes(of(LONG, seed=9, changes={"dropout": 0.5})) == 10.0  # the median of all of this method


def test_another_split_is_scaled_by_items_times_classes() -> None:
    held = costs((LONG, 8.0, LARGE), (of(CARS, method="simgcd"), 0.1, SMALL))
    assert held.minutes(CARS) == pytest.approx(2.0)
    assert held.minutes(of(CARS, method="orca")) is None  # not the mean of anything


def test_the_order_of_the_records_says_nothing() -> None:
    past = [(of(LONG, seed=seed), 8.0 + seed, {"n": 10_000 + 1000 * seed, "k_true": 100}) for seed in range(3)]
    past.append((of(CARS, method="simgcd"), 0.1, SMALL))
    assert costs(*past).minutes(CARS) == costs(*past[::-1]).minutes(CARS)


def test_of_a_split_that_nobody_measured_what_was_run_on_both_says_how_large_it_is() -> None:
    flat = of(ESTIMATE, split="gcd", imbalance=None)
    known = (of(ESTIMATE, method="ward"), 2.0, {}), (of(flat, method="ward"), 6.0, {})
    assert costs((ESTIMATE, 3.0, {}), *known).minutes(flat) == pytest.approx(9.0)
    assert costs((ESTIMATE, 3.0, {})).minutes(flat) is None


def test_ten_starts_take_ten_times_as_long_as_one() -> None:
    ten = of(ESTIMATE, method="kmeans-brent")
    assert costs((ESTIMATE, 3.0, {})).minutes(ten) == pytest.approx(30.0)
    assert costs((ESTIMATE, 3.0, {}), (of(ten, seed=1), 25.0, {})).minutes(ten) == 25.0
    # One start on the same split is nearer than ten on another.
    elsewhere = of(ten, dataset="banking77", split="natural", imbalance=None)
    assert costs((ESTIMATE, 3.0, {}), (elsewhere, 500.0, {})).minutes(ten) == pytest.approx(30.0)
    assert costs((ten, 25.0, {})).minutes(ESTIMATE) is None


def test_a_method_that_was_never_trained_so_takes_what_others_took_and_its_own_time() -> None:
    trained = of(LONG, regime="last-stage", views=4)
    held = costs((LONG, 8.0, LARGE), *((of(trained, method=m), t, {}) for m, t in (("simgcd", 6.0), ("ltgcd", 9.0))))
    assert held.minutes(trained) == pytest.approx(7.5 + 8.0)
    assert held.minutes(of(trained, backbone="dino_vitb16")) is None


def test_what_is_not_known_is_counted() -> None:
    held = costs((LONG, 8.0, LARGE))
    assert together([LONG, of(LONG, seed=1), of(LONG, method="orca")], held.minutes) == (16.0, 1)
    words = ["under a minute", "about 9 min", "about 99 min", "about 7 h"]
    assert [in_words(minutes) for minutes in (0.4, 8.6, 99.0, 400.0)] == words


def test_the_page_and_the_dry_run_say_how_long_what_was_not_run_will_take(tmp_path: Any) -> None:
    tables, settings = read_tables(TABLES), read_settings(TABLES)
    table = tables["class_number"]
    column = next(column for column in table.columns if column.id == "cifar100")
    row = next(row for row in table.rows if row.id == "gcd-1")
    cell = cell_of(table, column, row, settings, None, None, 0)
    figures = {"k": 90, "low": None, "high": None, "k_true": 100, "seconds": 180.0, "minutes": 3.0}
    record = append_record(tmp_path / "results", cell, figures)
    text = as_markdown(render(Finished(tables, settings, {record["key"]: record})))
    assert "| k-means + Brent (GCD) | not run (about 30 min) | – | – | – | 78 |" in text
    assert (
        "`ltgcd bench class_number --only cifar100 --only gcd,literal` (about 90 min; 3 of its 6 cells are like "
        in text
    )
    options = ["--tables", TABLES, "--results", tmp_path / "results", "--data", tmp_path / "nowhere", "--json"]
    nothing = call_cli("bench", "class_number", "--dry-run", *map(str, options))
    assert (nothing.json["todo"], nothing.json["minutes_left"], nothing.json["unknown"]) == (0, 0.0, 0)
