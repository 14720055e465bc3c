"""The page of results for a reader: its summary, the claims, the web page, and that it is the same everywhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import ROOT, call_cli
from ltgcd.bench.found import Finished, anchor
from ltgcd.bench.html_page import as_html, inline, sort_value
from ltgcd.bench.page import Grid, Heading, Lines, Picture, Text, as_markdown, grid
from ltgcd.bench.paper_claims import line_of, overall
from ltgcd.bench.places import difference_noise, places
from ltgcd.bench.summary import best_of_each, class_numbers, methods_by_datasets, sign, summary
from ltgcd.bench.tables import Claim, cell_of, read_settings, read_tables
from ltgcd.bench.verdicts import Found, Judged, verdict

TABLES = ROOT / "benchmarks" / "tables"
ALL = {  # All of three data seeds on CIFAR-100-LT, frozen; New is half of it, Old ten more
    "kmeans": (30.0, 31.0, 32.0),
    "simgcd": (50.0, 51.0, 52.0),
    "ltgcd-paper": (50.5, 51.0, 52.5),
    "ltgcd": (60.0, 61.0, 62.5),
}


def finished(figures: dict[str, tuple[float, ...]] | None = None, table: str = "main") -> Finished:
    """Made-up records of a table on its first dataset."""
    tables, settings = read_tables(TABLES), read_settings(TABLES)
    records: dict[str, dict[str, Any]] = {}
    for name, values in (ALL if figures is None else figures).items():
        row = next(row for row in tables[table].rows if row.id == name)
        for seed, value in enumerate(values):
            cell = cell_of(tables[table], tables[table].columns[0], row, settings, None, "frozen", seed)
            scores = {"all": value, "old": value + 10, "new": value / 2}
            instance = {group: score + 1 for group, score in scores.items()}
            records[cell.key] = {"key": cell.key, "cell": cell.described(), "balanced_acc": scores, "acc": instance}
    return Finished(tables, settings, records)


# ---------------------------------------------------------------- the summary


def test_the_margin_is_that_of_rows_by_seeds() -> None:
    """Rows 0, 0, 3 and 0, 0, 0: residuals ±0.5, ±0.5, ±1 have squares 3, over (2 − 1)(3 − 1) = 2; twice that is 3."""
    table = read_tables(TABLES)["main"]
    empty = Found([], [], [])
    found = {(column.id, row.id): empty for column in table.columns for row in table.rows}
    column = table.columns[0].id
    for row, values in (("simgcd", (10.0, 20.0, 33.0)), ("ltgcd", (15.0, 25.0, 35.0))):
        found[column, row] = Found([[value] * 3 for value in values], [0, 1, 2], [])
    noise = difference_noise(table, found, 0)
    assert (noise.variance, noise.freedom) == (pytest.approx(3.0), 2)
    # Of two rows this is the variance of their paired differences, −5, −5, −2.
    assert noise.variance == pytest.approx(np.var([-5, -5, -2], ddof=1))
    found[column, "kmeans"] = Found([[1.0] * 3], [0], [])  # a row of one seed has no part in it
    assert difference_noise(table, found, 0) == noise


def test_the_summary_says_who_is_best_by_how_much_how_sure_and_what_the_paper_says() -> None:
    held = places(finished())
    (place,) = held
    shown = methods_by_datasets(held)
    assert shown.heads == ("method", "CIFAR-100-LT, frozen", "CIFAR-100-LT, the paper")
    rows = {row[0]: row[1:] for row in shown.rows}
    assert rows["**Ours (default)**"] == ("**61.2 ▲ / 30.6 ▲**", "–")
    assert rows["SimGCD"] == ("51.0 / 25.5", "70.4 / 32.1")
    assert rows["The paper's method"] == ("51.3 ≈ / 25.7 ≈", "72.1 / 33.7")  # bold is only what is ours
    assert rows["k-means"][0] == "31.0 ▼ / 15.5 ▼"
    assert rows["UNO+"] == ("–", "49.9 / 25.7")
    first = best_of_each(held).rows[0]
    assert first[:5] == ("CIFAR-100-LT, frozen", "All", "Ours (default) 61.2", "The paper's method 51.3", "+9.8")
    assert re.fullmatch(r"\*\*sure\*\*: noise ± \d\.\d, 3 seeds", first[5])
    assert first[6] == "The paper's method 72.1, +1.7 over SimGCD"
    assert place.noise[0].margin(3) < 9.8


def test_a_lead_within_noise_is_not_sure() -> None:
    held = places(finished({"simgcd": (50.0, 52.0, 54.0), "ltgcd": (53.0, 51.0, 56.0)}))
    assert best_of_each(held).rows[0][5].startswith("*not sure*: noise ± ")
    assert sign(1.0, 2.0) == "≈"
    assert sign(3.0, 2.0) == "▲"
    assert sign(-3.0, 2.0) == "▼"


def test_a_lead_is_that_of_two_means_over_the_same_seeds_and_one_seed_is_never_sure() -> None:
    """Over its own seeds k-means has 59.5, 6.5 above the default's 53; on the two that both have the default leads."""
    seeds = {"ltgcd": (60.0, 61.0, 38.0), "kmeans": (59.0, 60.0), "simgcd": (50.0, 51.5, 30.0)}
    (place,) = places(finished(seeds))
    first = best_of_each([place]).rows[0]
    assert first[2:5] == ("Ours (default) 60.5", "k-means 59.5", "+1.0")
    assert first[-1] == "3"  # methods
    (place,) = places(finished({**seeds, "kmeans": (10.0,)}))
    rows = {row[0]: row[1] for row in methods_by_datasets([place]).rows}
    assert rows["k-means"] == "10.0 / 5.0 (1)"  # far below, and still no direction
    alone = {"ltgcd": (60.0,), "simgcd": (20.0, 21.0), "ltgcd-paper": (10.0, 11.0)}
    first = best_of_each(places(finished(alone))).rows[0]
    assert first[2:6] == ("Ours (default) 60.0", "SimGCD 20.0", "+40.0", "*not sure*: one seed in common")
    single = {name: values[:1] for name, values in ALL.items()}
    assert {row[5] for row in best_of_each(places(finished(single))).rows} == {"*not sure*: one seed in common"}


def test_datasets_are_counted_once_with_all_their_features() -> None:
    tables, settings = read_tables(TABLES), read_settings(TABLES)
    records = dict(finished().records)
    for name, values in (("simgcd", (50.0, 51.0, 52.0)), ("ltgcd", (50.0, 52.0, 52.0)), ("kmeans", (9.0, 9.0, 9.5))):
        row = next(row for row in tables["main"].rows if row.id == name)
        for seed, value in enumerate(values):
            cell = cell_of(
                tables["main"], tables["main"].columns[0], row, settings, "efficientnet_lite2-192", None, seed
            )
            scores = dict.fromkeys(("all", "old", "new"), value)
            records[cell.key] = {"key": cell.key, "cell": cell.described(), "balanced_acc": scores, "acc": scores}
    said = next(block for block in summary(Finished(tables, settings, records)) if isinstance(block, Lines)).items
    assert said[0].startswith("Best on All, dataset by dataset (1; ")
    assert said[0].endswith("CIFAR-100-LT: **Ours (default)** (frozen, of 4), Ours (default) (frozen, 192 px, of 3).")
    assert re.search(
        r"Our default, on All: above SimGCD with some features and within noise with others on 1 of 1 datasets: "
        r"CIFAR-100-LT \(frozen \+10\.2 ± \d\.\d; frozen, 192 px \+0\.3 ± \d\.\d\)\.",
        said[2],
    )


def test_the_benchmark_of_fine_classes_is_by_instances_with_balanced_figures_beside_them() -> None:
    from ltgcd.bench.render import part

    held = finished({"simgcd": (50.0, 50.0), "ltgcd": (60.0, 60.0)}, "ssb")
    table = held.tables["ssb"]
    (shown,) = part(table, table.columns[0], held.of(table, None, "frozen"))
    assert shown.heads[1:7] == ("All", "Old", "New", "balanced All", "balanced Old", "balanced New")
    ours = next(row for row in shown.rows if row[0] == "Ours (default)")
    assert ours[1:7] == ("61.0 ± 0.0", "71.0 ± 0.0", "31.0 ± 0.0", "60.0 ± 0.0", "70.0 ± 0.0", "30.0 ± 0.0")
    assert places(held)[0].mean("ltgcd", 0) == 61.0


def estimates(ks: dict[tuple[str, str | None], tuple[float, ...]], table: str = "class_number") -> Finished:
    """Made-up estimates on CIFAR-100-LT: K by data seed, of a row with a backbone of backbones.toml."""
    tables, settings = read_tables(TABLES), read_settings(TABLES)
    records: dict[str, dict[str, Any]] = {}
    column = next(column for column in tables[table].columns if column.id in ("cifar100", "cifar100-5", "cub200"))
    for (name, backbone), values in ks.items():
        row = next(row for row in tables[table].rows if row.id == name)
        for seed, k in enumerate(values):
            cell = cell_of(tables[table], column, row, settings, backbone, None, seed)
            figures = {"k": k, "low": None, "high": None, "k_true": 100, "seconds": 10.0, "minutes": 0.2}
            records[cell.key] = {"key": cell.key, "cell": cell.described(), **figures}
    return Finished(tables, settings, records)


def test_class_numbers_of_larger_images_stand_in_the_summary_beside_the_others() -> None:
    ks = {("peaks", None): (98.0, 98.0), ("peaks", "efficientnet_lite2-192"): (101.0, 103.0)}
    ours = {row[0]: row[-1] for row in class_numbers(estimates(ks)).rows}
    assert ours == {"CIFAR-100-LT, frozen": "**98 (2 %)**", "CIFAR-100-LT, frozen, 192 px": "**102 (2 %)**"}
    ks = {(row, "efficientnet_lite2-192"): (100.0, 101.0, 102.0) for row in ("gcd-1", "literal")}
    alone = class_numbers(estimates(ks, "class_number_ssb"))
    assert [row[0] for row in alone.rows] == ["CUB-200, frozen, 192 px"]
    held = estimates({("gcd-1", b): (90.0, 95.0) for b in (None, "efficientnet_lite2-192")}, "lambda_k")
    assert len(class_numbers(held).rows) == 0  # tables of other things have no part in it


def test_a_claim_of_class_numbers_says_which_features_where_there_are_two() -> None:
    two = [("gcd", (90.0, 90.0)), ("literal", (100.0, 99.0))]
    sizes = (None, "efficientnet_lite2-192")
    for backbones in (sizes, sizes[:1]):
        held = estimates({(row, b): ks for row, ks in two for b in backbones})
        table = held.tables["class_number"]
        line = line_of(held, table, next(claim for claim in table.claims if "long-tailed" in claim.says))
        assert ("frozen: CIFAR-100-LT: " in line) == ("frozen, 192 px: CIFAR-100-LT: " in line) == (len(backbones) > 1)


def test_nothing_run_is_said() -> None:
    from ltgcd.bench.render import render

    text = as_markdown(render(finished({})))
    assert "No method was run yet" in text
    assert class_numbers(finished({})).rows == ()


# ---------------------------------------------------------------- claims


def judged(*outcomes: str, seeds: int = 3) -> list[Judged]:
    return [Judged("", outcome, outcome, "", seeds) for outcome in outcomes]


@pytest.mark.parametrize(
    ("parts", "word"),
    [
        (judged("so", "so"), "holds"),
        (judged("so", "noise"), "holds in part"),
        (judged("part"), "holds in part"),
        (judged("so", "reverse"), "mixed"),
        (judged("mixed"), "mixed"),
        (judged("reverse", "noise"), "does not hold"),
        (judged("noise"), "no difference beyond noise"),
        (judged("noise") + judged("reverse", seeds=1), "no difference beyond noise"),  # one seed decides nothing
        (judged("so", seeds=1), "one seed only"),
    ],
)
def test_one_word_for_a_claim(parts: list[Judged], word: str) -> None:
    assert overall(parts, testable=True) == word
    assert overall(parts, testable=False) == word
    assert overall([], testable=True) == "not run yet"
    assert overall([], testable=False) == "not testable here"


def test_a_claim_says_its_figures_its_seeds_what_is_missing_and_why() -> None:
    held = finished()
    table = held.tables["main"]
    line = line_of(held, table, table.claims[0])
    assert line.startswith("**no difference beyond noise**: their method is above SimGCD on All")
    assert "frozen: CIFAR-100-LT: no difference beyond noise (51.3 → 51.0; noise ± " in line
    assert "3 seeds)" in line
    assert "Not here: ImageNet-100-LT, Herbarium-19, plankton (not in the paper)." in line
    assert "*Why:* On frozen features" in line
    absent = next(claim for claim in held.tables["lambda"].claims if claim.over[:1] == ("imagenet100-5",))
    line = line_of(held, held.tables["lambda"], absent)
    assert line.startswith("**not testable here**")
    assert "Missing: `imagenet100/train/<synset>/*.JPEG and val/<synset>/*.JPEG`." in line


def test_equal_rows_are_as_claimed_within_noise_and_not_beyond_it() -> None:
    table = read_tables(TABLES)["ssb"]
    claim = next(claim for claim in table.claims if claim.equal)
    empty = Found([], [], [])
    found = {(column.id, row.id): empty for column in table.columns for row in table.rows}
    found["cub200", "simgcd"] = Found([[50.0] * 6, [51.0] * 6, [52.0] * 6], [0, 1, 2], [])
    for values, words in (((50, 51.5, 52), "as claimed"), ((60, 61.5, 62), "**they differ**")):
        found["cub200", "ltgcd-paper"] = Found([[float(value)] * 6 for value in values], [0, 1, 2], [])
        assert words in verdict(claim, table, found)


def test_a_figure_that_grows_along_datasets() -> None:
    claim = Claim("it falls with λ", gap=("literal",), over=("cifar100-20", "cifar100-10", "cifar100-5"), measure="k")
    table = read_tables(TABLES)["lambda_k"]
    empty = Found([], [], [])
    found = {(column.id, row.id): empty for column in table.columns for row in table.rows}
    for name, k in (("cifar100-20", 65.0), ("cifar100-10", 78.0), ("cifar100-5", 87.0)):
        found[name, "literal"] = Found([[k + seed, None, None, 100.0] for seed in range(3)], [0, 1, 2], [])
    assert "(66.0 → 79.0 → 88.0" in verdict(claim, table, found)


def test_every_claim_of_the_paper_that_may_fail_has_an_explanation() -> None:
    for table in read_tables(TABLES).values():
        for claim in table.claims:
            if claim.by == "paper" and not claim.equal and not claim.gap:
                assert claim.why, (table.name, claim.says)


def test_what_the_text_says_of_its_tables_has_a_line() -> None:
    """The sentences of the paper that an earlier page left out or turned into others."""
    claims = {
        name: [claim for claim in table.claims if claim.by == "paper"] for name, table in read_tables(TABLES).items()
    }
    rivals = {"kmeans", "rankstats", "uno", "orca", "gcd", "simgcd"}
    for name, measures in (("main", {"all", "old", "new"}), ("ssb", {"all", "new"})):  # best in all cases; All and New
        best = [claim for claim in claims[name] if claim.above[:1] == ("ltgcd-paper",) and not claim.at_least]
        assert {claim.measure for claim in best if set(claim.above[1:]) == rivals} == measures
    (weak,) = [claim for claim in claims["main"] if claim.above[:1] == ("kmeans",)]
    assert (set(weak.above[1:]), weak.at_least, weak.measure) == ({"rankstats", "uno", "orca"}, True, "new")
    uniform, tailed = ([claim for claim in claims["class_number"] if claim.equal == equal] for equal in (True, False))
    assert [claim.over for claim in uniform] == [("cifar100-gcd", "imagenet100-gcd")]
    assert all("cifar100-gcd" not in claim.over and "cifar100" in claim.over for claim in tailed)
    assert any(claim.falling == ("gcd", "literal") and not claim.over for claim in claims["lambda_k"])
    assert not any(len(claim.gap) > 1 for claim in claims["lambda_k"])  # nothing is said of a lead that grows
    assert any(claim.equal for claim in claims["k"])  # "the sensitivity is not high"
    assert any(claim.factor == 30 for claim in claims["runtime"])


# ---------------------------------------------------------------- Markdown and HTML

BLOCKS = [
    Heading(1, "Title"),
    Text("A **bold** word, `a < b`, [a link](#there) and 2 * 3 * 4."),
    Heading(2, "What, by how much?"),
    Lines(("one & two", "*slanted*")),
    grid(["method", "All"], [["a", "54.8 ± 1.3"], ["**b**", "–"], ["c", "9.1"], ["d", "1,234"]], "A table"),
    Picture("figures/x.svg", "A figure"),
]


def test_a_page_as_markdown() -> None:
    assert as_markdown(BLOCKS) == (
        "# Title\n\nA **bold** word, `a < b`, [a link](#there) and 2 * 3 * 4.\n\n## What, by how much?\n\n- one & two\n"
        "- *slanted*\n\n| method | All |\n|---|---|\n| a | 54.8 ± 1.3 |\n| **b** | – |\n| c | 9.1 |\n| d | 1,234 |\n\n"
        "![A figure](figures/x.svg)\n"
    )


def test_inline_markdown_as_html() -> None:
    assert inline("`a < b` **x** *y* [z](#t) & 2 * 3") == (
        '<code>a &lt; b</code> <strong>x</strong> <em>y</em> <a href="#t">z</a> &amp; 2 * 3'
    )
    assert anchor("What, by how much? λ_S") == "what-by-how-much-λ_s"


@pytest.mark.parametrize(
    ("cell", "value"),
    [("54.8 ± 1.3", "54.8"), ("**54.8 ▲ / 3**", "54.8"), ("–", ""), ("not run", ""), ("1,234", "1234"),
     ("-1.8", "-1.8"), ("+0.3", "+0.3"), ("SimGCD", "simgcd"), ("", ""), ("–; the paper 78", "")],
)  # fmt: skip
def test_what_a_cell_is_sorted_by(cell: str, value: str) -> None:
    assert sort_value(cell) == value


def test_the_web_page_needs_nothing_but_itself() -> None:
    text = as_html(BLOCKS, {"figures/x.svg": b"<svg/>"})
    assert "data:image/svg+xml;base64,PHN2Zy8+" in text
    for address in re.findall(r'(?:src|href)="([^"]*)"', text):
        assert address.startswith(("data:", "#")), address
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text


def test_tables_are_sorted_by_the_keyboard_and_fit_a_phone(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no Chromium")
    wide = grid([f"column {n}" for n in range(12)], [[str(n)] * 12 for n in range(3)], "A wide table")
    path = tmp_path / "page.html"
    path.write_text(as_html([*BLOCKS, wide], {"figures/x.svg": b"<svg/>"}), encoding="utf-8")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 844})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        rows = "[...document.querySelector('table').tBodies[0].rows].map(row => row.cells[0].innerText)"
        head = page.locator("table").first.locator("thead button").nth(1)
        head.focus()
        orders = []
        for _ in range(3):
            page.keyboard.press("Enter")
            orders.append((page.evaluate(rows), page.locator("thead th").nth(1).get_attribute("aria-sort")))
        assert orders == [
            (["c", "a", "d", "b"], "ascending"),  # what was not run stays at the end
            (["d", "a", "c", "b"], "descending"),
            (["a", "b", "c", "d"], None),
        ]
        browser.close()
    assert not errors


# ---------------------------------------------------------------- the same everywhere


# The command twice in one process, which starts slowly.
BOTH_PAGES = """
import sys
from ltgcd.cli import main
options = sys.argv[1:]
for form in ("--render", "--html"):
    sys.argv = ["ltgcd", "bench", form, *options]
    try:
        main()
    except SystemExit as done:
        assert done.code == 0, done.code
"""


def test_the_pages_are_the_same_bytes_in_another_time_zone_and_locale(tmp_path: Path) -> None:
    """The committed records, rendered by the command here and in a process with other surroundings."""
    made = []
    strange = {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    strange |= {"LANG": "de_DE.ISO-8859-1", "PYTHONHASHSEED": "7"}
    for name in ("here", "there"):
        folder = tmp_path / name
        for part in ("results", "figures"):
            (folder / part).mkdir(parents=True)
        for file in (ROOT / "benchmarks" / "results").glob("*.jsonl"):
            shutil.copy(file, folder / "results")
        for file in (ROOT / "benchmarks" / "figures").glob("*.svg"):
            shutil.copy(file, folder / "figures")
        options = ["--tables", str(TABLES), "--results", str(folder / "results"), "--work", str(folder / "work")]
        if name == "here":
            for form in ("--render", "--html"):
                assert call_cli("bench", form, *options).code == 0
        else:
            command = [sys.executable, "-c", BOTH_PAGES, *options]
            subprocess.run(command, check=True, capture_output=True, env={**os.environ, **strange})
        made.append([(folder / page).read_bytes() for page in ("RESULTS.md", "RESULTS.html")])
    assert made[0] == made[1]
    assert made[0][0] == (ROOT / "benchmarks" / "RESULTS.md").read_bytes()


def test_every_table_of_the_page_is_as_wide_as_its_head() -> None:
    with pytest.raises(AssertionError):
        grid(["a", "b"], [["1"]], "short")
    assert isinstance(grid(["a"], [["1"]], "right"), Grid)
