"""From finished cells to the page of results: a summary, the paper's claims, then every table with the paper's figures.

The page is a function of the tables and the records alone: the same lines give the same bytes on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ltgcd.bench.found import HOW, NOT_RUN, ByPlace, Finished, paper_figure
from ltgcd.bench.overviews import errors_by_problem, estimators, statistics
from ltgcd.bench.page import Block, Grid, Heading, Lines, Picture, Text, grid
from ltgcd.bench.paper_claims import paper_claims
from ltgcd.bench.summary import summary
from ltgcd.bench.tables import Column, Row, Setting, Table
from ltgcd.bench.verdicts import Found, geometric_mean, relative_error, verdict

# What each figure shows, for whoever can't see it; the first stands in the summary, the others follow it.
FIGURES = {
    "summary": "All and New of every method on every dataset, beside the paper's figures",
    "long-tail": "Class sizes of the long-tailed sets, and what SimGCD and our default recall of each third",
    "frequency": "Recall of the many, medium and few classes by method",
    "confusion": "Share of the old items taken for new, and of the new ones taken for old, by method",
    "k-curves": "Curves of our estimate of the number of classes, with the true number",
    "density-selection": "A map of items with the density peaks that are selected",
}


def render(finished: Finished, figures: Sequence[str] = ()) -> list[Block]:
    """The whole page; `figures` are the files of figures, relative to it."""
    by_name = {name.rpartition("/")[2].removesuffix(".svg"): name for name in figures}
    pictures = [Picture(by_name[name], words) for name, words in FIGURES.items() if name in by_name]
    pictures += [Picture(file, name) for name, file in by_name.items() if name not in FIGURES]
    blocks: list[Block] = [
        Heading(1, "Results"),
        Text(
            "How well methods find the categories that nobody labelled, when a few classes are huge and many are tiny: "
            "the methods and tables of *Generalized Category Discovery under the Long-Tailed Distribution* (Zhao & "
            'Han, WACV 2025, "the paper"), run again under one protocol, and the default of this library. **Our '
            "figures are not on the paper's features**: the paper trains the last block of DINO ViT-B/16 on a GPU for "
            "200 epochs, here EfficientNet-Lite2 is frozen, or its last stage is trained for a few epochs on a CPU; at "
            "128 px where nothing else is said. So compare directions and orders with the paper, not levels."
        ),
    ]
    blocks += summary(finished, pictures[:1] if "summary" in by_name else [])
    blocks += paper_claims(finished)
    if others := pictures[1:] if "summary" in by_name else pictures:
        blocks += [Heading(2, "Figures"), *others]
    blocks += [Heading(2, "How to read the tables"), *_reading()]
    for table in finished.tables.values():
        blocks.append(Heading(2, table.title))
        blocks.append(Text(f"`ltgcd bench {table.name}` · the paper: {table.paper}"))
        blocks += [Text(part) for part in table.note.strip().split("\n\n") if part]
        for setting, regime in finished.shown_settings(table):
            blocks += _block(finished, table, setting, regime)
    missing = finished.absent()
    if missing:
        blocks += [Heading(2, HOW), Lines(tuple(missing))]
    return blocks


def _reading() -> list[Block]:
    return [
        Text(
            "Rendered by `ltgcd bench --render` (and `--html`) from `results/*.jsonl`: a line is a cell with the "
            "checksum of its split, versions, machine, minutes and figures. Mean ± standard deviation over data seeds "
            "(a seed draws the split and starts the method). All / Old / New is ACC in percent at the true number of "
            "classes K, over all classes, those with labels and those without; balanced ACC (the mean over classes) "
            "where nothing else is said. λ, numbers of classes and seconds are compared by their ratio: their mean is "
            "the geometric one, here and in the verdicts, and their spread over seeds a factor (20 ×/÷ 1.5 is from "
            f"20 / 1.5 to 20 · 1.5). '{NOT_RUN}' says how long one seed of it will take on such a machine, by the "
            "finished cells that are most like it (same method, scaled by items times classes; without the features, "
            "which are made once). A mark ✓ means that a row has the same place among the methods as in the paper, by "
            "All."
        ),
        Text(
            "**When a claim holds.** Rows are compared on the same data seeds. A mean difference counts if it is "
            "beyond Student's 95 % interval, with the variance of such differences pooled over the claims of a table; "
            "otherwise there is *no difference beyond noise*. Where every row has one seed only, no spread is known."
        ),
    ]


def _block(finished: Finished, table: Table, setting: Setting | None, regime: str | None) -> list[Block]:
    """A table in one setting: a part for each dataset, then the claims."""
    backbone = setting.name if setting else None
    blocks: list[Block] = []
    if setting:
        words = f", {regime}" if table.runs == "train" else ", frozen features"
        blocks.append(Heading(3, f"{table.title}: {setting.title}{words}"))
    found = finished.of(table, backbone, regime)
    if table.runs == "split":
        return [*blocks, statistics(finished, table, found)]
    for column in table.columns:
        own = column.backbone and column.backbone != backbone
        title = f"**{column.title}**" + (f" ({finished.settings[column.backbone or ''].title})" if own else "")
        if any(found[column.id, row.id].values for row in table.rows):
            missing = {row.id: finished.not_run(table, column, row, setting, regime) for row in table.rows}
            blocks += [Text(title), *part(table, column, found, missing)]
        else:
            rows = [row for row in table.rows if column.id in row.paper]
            said = "; ".join(f"{row.title} {paper_figure(row, column)}" for row in rows)
            blocks.append(
                Text(
                    f"{title}: {finished.why_not(table, column, setting, regime)}"
                    + (f" The paper: {said}." if said else "")
                )
            )
    if table.name == "class_number_grid":
        blocks += [*errors_by_problem(table, found), estimators(table, found)]
    claims = tuple(verdict(claim, table, found) for claim in table.claims)
    return [*blocks, *([Lines(claims)] if claims else [])]


# ---------------------------------------------------------------- one dataset


def part(table: Table, column: Column, found: ByPlace, missing: Mapping[str, str] | None = None) -> list[Grid]:
    """The rows of one dataset, in one table for each kind of figure; `missing` is what those without figures say."""
    kinds = dict.fromkeys(_kind(row) for row in table.rows)
    return [_rows(table, column, found, shows, missing or {}) for shows in kinds]


def _rows(table: Table, column: Column, found: ByPlace, shows: str, missing: Mapping[str, str]) -> Grid:
    mine = {row.id: found[column.id, row.id] for row in table.rows}
    rows = [row for row in table.rows if _kind(row) == shows]
    paper = any(column.id in row.paper for row in rows)
    accuracy = ["All", "Old", "New"]
    if table.metric == "instance":
        accuracy += [f"balanced {name}" for name in accuracy]
    heads = {"accuracy": accuracy, "k": ["K̂ by seed", "mean error", "interval covers"]}
    heads |= {"seconds": ["seconds"], "lambda_epochs": ["λ after each epoch that selects, mean over seeds"]}
    measured = heads.get(shows, ["λ"])
    places = _places(rows, column, mine) if table.compare and paper else {}
    extra = ["minutes"] if shows == "accuracy" else []
    recorded = shows == "accuracy" and any(mine[row.id].sets for row in rows)
    drawn = ["items in S_conf, S_dens, S", "λ(S) by pseudo label, by truth"] if recorded else []
    lines = []
    for row in rows:
        one = mine[row.id]
        figures = [missing.get(row.id, NOT_RUN)] + ["–"] * (len(measured) - 1)
        line = [row.title, *(_figures(row, one) if one.values else figures)]
        line += [*(_drawn(one) if drawn else []), ", ".join(map(str, one.seeds)) or "–"]
        if extra:
            line.append(f"{np.mean(one.minutes):.1f}" if one.minutes else "–")
        if paper:
            line.append(paper_figure(row, column))
        if places:
            line.append(places.get(row.id, "–"))
        lines.append(line)
    names = [*measured, *drawn, "seeds", *extra, *(["the paper"] if paper else []), *(["order"] if places else [])]
    return grid(["", *names], lines, f"{table.title}: {column.title}")


def _kind(row: Row) -> str:
    """What a table of rows has in its columns: the λ of all sets stand in one."""
    return "lambda" if row.shows.startswith("lambda_") and row.shows != "lambda_epochs" else row.shows


def _figures(row: Row, one: Found) -> list[str]:
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
        epochs = zip(*one.values, strict=False)
        return [", ".join(f"{geometric_mean([v for v in epoch if v is not None]):.1f}" for epoch in epochs)]
    columns = [[v for v in values if v is not None] for values in zip(*one.values, strict=True)]
    return [_spread(values) if row.shows == "accuracy" else _factor(values) for values in columns]


def _drawn(one: Found) -> list[str]:
    """What the last epoch drew from, mean over the seeds that recorded it: sizes of the sets, and λ of S."""
    if not one.sets:
        return ["–", "–"]
    items = [np.mean([sets[name]["items"] for sets in one.sets]) for name in ("confident", "dense", "selected")]
    kinds = ("lambda_pseudo", "lambda_true")
    imbalance = [geometric_mean([sets["selected"][name] for sets in one.sets]) for name in kinds]
    return [", ".join(f"{n:,.0f}" for n in items), ", ".join(f"{value:.1f}" for value in imbalance)]


def _spread(values: list[float]) -> str:
    if not values:
        return "–"
    mean = f"{np.mean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values):.1f}"


def _factor(values: list[float]) -> str:
    """The mean of figures that are compared by their ratio, and their spread as a factor."""
    if not values:
        return "–"
    mean = f"{geometric_mean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ×/÷ {np.exp(np.std(np.log(values))):.2f}"


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
