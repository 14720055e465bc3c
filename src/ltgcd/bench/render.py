"""From finished cells to ``RESULTS.md``: our figures beside the paper's, and whether its directions are there.

The page is a function of the tables and the records alone: the same lines give the same bytes on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ltgcd.bench.tables import Column, Row, Setting, Table, cell_of
from ltgcd.bench.verdicts import GROUPS, Found, relative_error, verdict
from ltgcd.data.datasets import get_dataset
from ltgcd.training.methods import method_names

Records = dict[str, dict[str, Any]]
NOT_RUN = "not run"


def render(tables: Sequence[Table], settings: dict[str, Setting], records: Records, figures: Sequence[str] = ()) -> str:
    """The whole page, in Markdown, of every seed that was run; `figures` are files that are shown at its end."""
    seeds = 1 + max((record["cell"]["seed"] for record in records.values()), default=0)
    text = [
        "# Results\n",
        "Rendered by `ltgcd bench --render` from `results/*.jsonl`: a line is a cell with the checksum of its split, "
        "versions, machine, minutes and figures. **These are not the paper's features**: each heading says which "
        "backbone and which regime. Mean ± standard deviation over data seeds (a seed draws the split and starts the "
        "method). "
        f"All / Old / New is balanced ACC in percent at the true K. '{NOT_RUN}' says how to get what is missing.\n",
        "A mark ✓ means that a row has the same place among the methods as in the paper, by All.\n",
        "**When a claim holds.** Rows are compared on the same data seeds. A mean difference counts if it is beyond "
        "Student's 95 % interval, with the variance of such differences pooled over the claims of a table; otherwise "
        "there is *no difference beyond noise*. Where every row has one seed only, no spread is known.\n",
    ]
    for table in tables:
        text.append(f"\n## {table.title}\n\n`ltgcd bench {table.name}` · the paper: {table.paper}\n")
        if table.note:
            text.append(f"{table.note}\n")
        for setting, regime in _settings_of(table, settings, records, seeds):
            text += _block(table, settings, setting, regime, records, seeds)
    text += ["\n## How to get what was not run\n", *_absent(tables, records)]
    text += [f"\n![{name.rpartition('/')[2].rpartition('.')[0]}]({name})" for name in figures]
    return "\n".join(text) + "\n"


def _settings_of(
    table: Table, settings: dict[str, Setting], records: Records, seeds: int
) -> list[tuple[Setting | None, str | None]]:
    """The default setting, and every other one that has a finished cell of its own."""
    if table.runs == "split":
        return [(None, None)]
    first = next(iter(settings.values()))
    clusterings = method_names(lambda method: not method.trained)
    shown: list[tuple[Setting | None, str | None]] = []
    for setting in settings.values():
        for regime in setting.regimes if table.runs == "train" else setting.regimes[:1]:
            own = any(
                row.method not in clusterings
                and _found(table, column, row, settings, setting.name, regime, records, seeds).values
                for column in table.columns
                if column.backbone is None
                for row in table.rows
            )
            if own or (setting is first and regime == setting.regimes[0]):
                shown.append((setting, regime))
    return shown


def _block(
    table: Table,
    settings: dict[str, Setting],
    setting: Setting | None,
    regime: str | None,
    records: Records,
    seeds: int,
) -> list[str]:
    """A table in one setting: a part for each dataset, then the claims."""
    backbone = setting.name if setting else None
    text = []
    if setting:
        words = f", {regime}" if table.runs == "train" else ", frozen features"
        text.append(f"\n### {table.title}: {setting.title}{words}\n")
    found = {
        (column.id, row.id): _found(table, column, row, settings, backbone, regime, records, seeds)
        for column in table.columns
        for row in table.rows
    }
    if table.runs == "split":
        return text + _statistics(table, found, records)
    for column in table.columns:
        mine = {row.id: found[column.id, row.id] for row in table.rows}
        own = column.backbone and column.backbone != backbone
        title = f"**{column.title}**" + (f" ({settings[column.backbone or ''].title})" if own else "")
        if any(one.values for one in mine.values()):
            text += ["", title, "", *_part(table, column, mine)]
        else:
            said = "; ".join(f"{row.title} {_paper(row, column)}" for row in table.rows if column.id in row.paper)
            text.append(f"\n{title}: {_why_not(table, column, records)}" + (f" The paper: {said}." if said else ""))
    if table.name == "class_number_grid":
        text += ["", *_grid(table, found), "", *_summary(table, found)]
    claims = [verdict(claim, table, found) for claim in table.claims]
    return text + ([""] if claims else []) + claims


def _found(
    table: Table,
    column: Column,
    row: Row,
    settings: dict[str, Setting],
    backbone: str | None,
    regime: str | None,
    records: Records,
    seeds: int,
) -> Found:
    values, which, minutes, sets = [], [], [], []
    for seed in range(seeds):
        record = records.get(cell_of(table, column, row, settings, backbone, regime, seed).key)
        if record is not None and (shown := _shown(row, record)) is not None:
            values.append(shown)
            which.append(seed)
            if record.get("minutes") is not None:
                minutes.append(float(record["minutes"]))
            if "sets" in record:
                sets.append(record["sets"])
    return Found(values, which, minutes, sets)


def _shown(row: Row, record: dict[str, Any]) -> list[float | None] | None:
    """What a row shows of a record; None where the record has nothing of it."""
    if row.shows == "accuracy":
        return [record["balanced_acc"][group] for group in GROUPS]
    if row.shows == "k":
        return [record["k"], record.get("low"), record.get("high"), record["k_true"]]
    if row.shows == "seconds":
        return [record["seconds"]] if "seconds" in record else None
    if row.shows == "sizes":
        names = ("n_labelled", "n_old", "n_unlabelled", "n_classes", "lambda_unlabelled")
        return [record["sizes"][name] for name in names]
    if row.shows == "lambda_epochs":
        return record.get("lambda_by_epoch")
    value = record["lambda"].get(row.shows.removeprefix("lambda_"))
    return None if value is None else [value]


# ---------------------------------------------------------------- one dataset


def _part(table: Table, column: Column, found: dict[str, Found]) -> list[str]:
    """The rows of one dataset, in one table for each kind of figure."""
    text: list[str] = []
    for shows in dict.fromkeys(_kind(row) for row in table.rows):
        rows = [row for row in table.rows if _kind(row) == shows]
        paper = any(column.id in row.paper for row in rows)
        heads = {"accuracy": ["All", "Old", "New"], "k": ["K̂ by seed", "mean error", "interval covers"]}
        heads |= {"seconds": ["seconds"], "lambda_epochs": ["λ after each epoch that selects, mean over seeds"]}
        measured = heads.get(shows, ["λ"])
        places = _places(rows, column, found) if table.compare and paper else {}
        extra = ["minutes"] if shows == "accuracy" else []
        recorded = shows == "accuracy" and any(found[row.id].sets for row in rows)
        drawn = ["items in S_conf, S_dens, S", "λ(S) by pseudo label, by truth"] if recorded else []
        columns = [
            "",
            *measured,
            *drawn,
            "seeds",
            *extra,
            *(["the paper"] if paper else []),
            *(["order"] if places else []),
        ]
        text += [*([""] if text else []), "| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
        for row in rows:
            one = found[row.id]
            line = [row.title, *_figures(row, one, len(measured))]
            line += [*(_drawn(one) if drawn else []), ", ".join(map(str, one.seeds)) or "–"]
            if extra:
                line.append(f"{np.mean(one.minutes):.1f}" if one.minutes else "–")
            if paper:
                line.append(_paper(row, column))
            if places:
                line.append(places.get(row.id, "–"))
            text.append("| " + " | ".join(line) + " |")
    return text


def _kind(row: Row) -> str:
    """What a table of rows has in its columns: the λ of all sets stand in one."""
    return "lambda" if row.shows.startswith("lambda_") and row.shows != "lambda_epochs" else row.shows


def _figures(row: Row, one: Found, width: int) -> list[str]:
    if not one.values:
        return [NOT_RUN] + ["–"] * (width - 1)
    if row.shows == "k":
        ks, lows, highs, true = zip(*one.values, strict=True)
        errors = [relative_error(k, t) for k, t in zip(ks, true, strict=True)]
        spans = [(a, b, t) for a, b, t in zip(lows, highs, true, strict=True) if a is not None and b is not None]
        inside = sum(a <= t <= b for a, b, t in spans)
        said = ", ".join(f"{k:.0f}" for k in ks)
        return [
            f"{said} (true {true[0]:.0f})",
            f"{100 * np.mean(errors):.0f} %",
            f"{inside} of {len(spans)}" if spans else "–",
        ]
    if row.shows == "lambda_epochs":
        return [", ".join(f"{np.mean(epoch):.1f}" for epoch in zip(*one.values, strict=False))]
    return [_spread([v for v in values if v is not None]) for values in zip(*one.values, strict=True)]


def _drawn(one: Found) -> list[str]:
    """What the last epoch drew from, mean over the seeds that recorded it: sizes of the sets, and λ of S."""
    if not one.sets:
        return ["–", "–"]
    items = [np.mean([sets[name]["items"] for sets in one.sets]) for name in ("confident", "dense", "selected")]
    imbalance = [np.mean([sets["selected"][name] for sets in one.sets]) for name in ("lambda_pseudo", "lambda_true")]
    return [", ".join(f"{n:,.0f}" for n in items), ", ".join(f"{value:.1f}" for value in imbalance)]


def _spread(values: list[float]) -> str:
    if not values:
        return "–"
    mean = f"{np.mean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values):.1f}"


def _paper(row: Row, column: Column) -> str:
    value = row.paper.get(column.id)
    if value is None:
        return "–"
    return " / ".join(f"{v:g}" for v in value) if isinstance(value, list | tuple) else f"{value:,g}"


def _places(rows: list[Row], column: Column, found: dict[str, Found]) -> dict[str, str]:
    """Place of each row that the paper has too, here and there, by All; ✓ where it is the same."""
    both = [row for row in rows if column.id in row.paper and found[row.id].values]
    here = sorted(both, key=lambda row: -_mean(found[row.id], 0))
    there = sorted(both, key=lambda row: -row.paper[column.id][0])
    return {
        row.id: f"{here.index(row) + 1} of {len(both)}, the paper {there.index(row) + 1}"
        + (" ✓" if here.index(row) == there.index(row) else "")
        for row in both
    }


def _mean(one: Found, at: int) -> float:
    return float(np.mean([values[at] for values in one.values]))


def _why_not(table: Table, column: Column, records: Records) -> str:
    """Why a column has no figures: its data were never here, or nobody asked for it yet."""
    if _is_here(column.name, records):
        return f"{NOT_RUN} yet: `ltgcd bench {table.name} --only {column.id}`."
    return f"{NOT_RUN}: [how to get it](#how-to-get-what-was-not-run)."


def _is_here(dataset: str, records: Records) -> bool:
    """Whether the machine that made the records had a dataset; the machine that renders them may be another."""
    return any(record["cell"]["dataset"] == get_dataset(dataset).name for record in records.values())


def _absent(tables: Sequence[Table], records: Records) -> list[str]:
    names = dict.fromkeys(get_dataset(column.name).name for table in tables for column in table.columns)
    text = []
    for dataset in (get_dataset(name) for name in names if not _is_here(name, records)):
        how = f"`ltgcd datasets get {dataset.name}`." if dataset.archives else dataset.how
        text.append(f"- {dataset.title}: {how}")
    return text


def _statistics(table: Table, found: dict[tuple[str, str], Found], records: Records) -> list[str]:
    text = ["| dataset | labelled | classes | unlabelled | classes | λ | the paper |", "|---" * 7 + "|"]
    for column in table.columns:
        row = table.rows[0]
        one = found[column.id, row.id]
        if not one.values:
            text.append(f"| {column.title} | {_why_not(table, column, records)} | | | | | {_paper(row, column)} |")
            continue
        first = [f"{v:,.0f}" for v in one.values[0][:4] if v is not None]
        text.append(f"| {column.title} | {' | '.join(first)} | {one.values[0][4]:.1f} | {_paper(row, column)} |")
    return text


def _grid(table: Table, found: dict[tuple[str, str], Found]) -> list[str]:
    """Every estimator on every problem in one table: mean error in percent, the least in bold."""
    titles = [row.title for row in table.rows]
    most = max(len(one.seeds) for one in found.values())
    text = [
        f"Mean |K̂ − K| / K in percent; (n) where it is of n seeds instead of {most}.",
        "",
        "| problem | " + " | ".join(titles) + " |",
        "|---" * (len(titles) + 1) + "|",
    ]
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
        text.append("| " + " | ".join(line) + " |")
    return text


def _summary(table: Table, found: dict[tuple[str, str], Found]) -> list[str]:
    """One line an estimator: mean error over its problems, the worst one, coverage and width of the interval."""
    text = [
        "| estimator | problems | runs | mean error | worst problem | interval covers | mean width |",
        "|---" * 7 + "|",
    ]
    for row in table.rows:
        mine = [found[column.id, row.id].values for column in table.columns]
        mine = [values for values in mine if values]
        if not mine:
            text.append(f"| {row.title} | {NOT_RUN} | – | – | – | – | – |")
            continue
        errors = [float(np.mean([relative_error(k, t) for k, _, _, t in values])) for values in mine]
        runs = [one for values in mine for one in values]
        spans = [(a, b, t) for _, a, b, t in runs if a is not None and b is not None and t is not None]
        covers = f"{100 * np.mean([a <= t <= b for a, b, t in spans]):.0f} %" if spans else "–"
        width = f"{np.mean([b - a for a, b, _ in spans]):.0f}" if spans else "–"
        text.append(
            f"| {row.title} | {len(mine)} | {len(runs)} | {100 * np.mean(errors):.1f} % | "
            f"{100 * max(errors):.0f} % | {covers} | {width} |"
        )
    return text
