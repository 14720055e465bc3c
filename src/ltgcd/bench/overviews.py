"""Tables over many datasets at once: statistics of the splits, and every estimator on every problem."""

from __future__ import annotations

import numpy as np

from ltgcd.bench.found import NOT_RUN, ByPlace, Finished, paper_figure
from ltgcd.bench.page import Grid, Text, grid
from ltgcd.bench.tables import Table
from ltgcd.bench.verdicts import relative_error


def statistics(finished: Finished, table: Table, found: ByPlace) -> Grid:
    """Items and classes of both parts of every split, beside the paper's."""
    rows = []
    for column in table.columns:
        row = table.rows[0]
        one = found[column.id, row.id]
        if not one.values:
            rows.append([column.title, finished.why_not(table, column), "", "", "", "", paper_figure(row, column)])
            continue
        first = [f"{v:,.0f}" for v in one.values[0][:4] if v is not None]
        rows.append([column.title, *first, f"{one.values[0][4]:.1f}", paper_figure(row, column)])
    heads = ["dataset", "labelled", "classes", "unlabelled", "classes", "λ", "the paper"]
    return grid(heads, rows, table.title)


def errors_by_problem(table: Table, found: ByPlace) -> list[Text | Grid]:
    """Every estimator on every problem in one table: mean error in percent, the least in bold."""
    most = max(len(one.seeds) for one in found.values())
    rows = []
    for column in table.columns:
        mine = [found[column.id, row.id] for row in table.rows]
        errors = [
            100 * float(np.mean([relative_error(k, t) for k, _, _, t in one.values])) if one.values else None
            for one in mine
        ]
        least = min((round(e) for e in errors if e is not None), default=None)
        line = [column.title]
        for one, error in zip(mine, errors, strict=True):
            shown = "–" if error is None else f"**{error:.0f}**" if round(error) == least else f"{error:.0f}"
            line.append(shown + (f" ({len(one.seeds)})" if 0 < len(one.seeds) < most else ""))
        rows.append(line)
    words = f"Mean |K̂ − K| / K in percent; (n) where it is of n seeds instead of {most}."
    return [Text(words), grid(["problem", *(row.title for row in table.rows)], rows, f"{table.title}: mean error")]


def estimators(table: Table, found: ByPlace) -> Grid:
    """One line an estimator: mean error over its problems, the worst one, coverage and width of the interval."""
    rows = []
    for row in table.rows:
        mine = [found[column.id, row.id].values for column in table.columns]
        mine = [values for values in mine if values]
        if not mine:
            rows.append([row.title, NOT_RUN, "–", "–", "–", "–", "–"])
            continue
        errors = [float(np.mean([relative_error(k, t) for k, _, _, t in values])) for values in mine]
        runs = [one for values in mine for one in values]
        spans = [(a, b, t) for _, a, b, t in runs if a is not None and b is not None and t is not None]
        covers = f"{100 * np.mean([a <= t <= b for a, b, t in spans]):.0f} %" if spans else "–"
        width = f"{np.mean([b - a for a, b, _ in spans]):.0f}" if spans else "–"
        counts = [row.title, str(len(mine)), str(len(runs))]
        rows.append([*counts, f"{100 * np.mean(errors):.1f} %", f"{100 * max(errors):.0f} %", covers, width])
    heads = ["estimator", "problems", "runs", "mean error", "worst problem", "interval covers", "mean width"]
    return grid(heads, rows, f"{table.title}: all problems together")
