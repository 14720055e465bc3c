"""What the finished cells say of a row of a table, and what keeps the others from being run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ltgcd.bench.costs import Costs, in_words, together
from ltgcd.bench.tables import Column, Row, Setting, Table, cell_of
from ltgcd.bench.verdicts import GROUPS, Found
from ltgcd.data.datasets import Dataset, get_dataset
from ltgcd.training.methods import method_names

Records = dict[str, dict[str, Any]]
ByPlace = dict[tuple[str, str], Found]  # (column, row)
NOT_RUN = "not run"
REGIMES = {"frozen": "frozen", "last-stage": "last stage"}
HOW = "How to get what was not run"
SEEDS = 3  # that `ltgcd bench` runs where no number is asked for


@dataclass(frozen=True)
class Finished:
    """The tables, how backbones are run, and the finished cells of every seed.

    Attributes
    ----------
    tables, settings, records : dict
        By name and by key, as `ltgcd.bench.tables` and `ltgcd.bench.results` read them.
    """

    tables: dict[str, Table]
    settings: dict[str, Setting]
    records: Records
    _looked_up: dict[tuple[str | None, ...], Found] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def seeds(self) -> int:
        """Seeds 0, 1, … that any cell was run with."""
        return 1 + max((record["cell"]["seed"] for record in self.records.values()), default=0)

    def of(self, table: Table, backbone: str | None, regime: str | None) -> ByPlace:
        """The figures of a table in one setting, by column and row."""
        return {
            (column.id, row.id): self.at(table, column, row, backbone, regime)
            for column in table.columns
            for row in table.rows
        }

    def at(self, table: Table, column: Column, row: Row, backbone: str | None, regime: str | None) -> Found:
        """The figures of one row in one column; a page asks for the same ones again and again."""
        place = (table.name, column.id, row.id, backbone, regime)
        if place not in self._looked_up:
            self._looked_up[place] = self._at(table, column, row, backbone, regime)
        return self._looked_up[place]

    def _at(self, table: Table, column: Column, row: Row, backbone: str | None, regime: str | None) -> Found:
        values, which, minutes, sets = [], [], [], []
        for seed in range(self.seeds):
            record = self.records.get(cell_of(table, column, row, self.settings, backbone, regime, seed).key)
            if record is not None and (shown := _shown(table, row, record)) is not None:
                values.append(shown)
                which.append(seed)
                if record.get("minutes") is not None:
                    minutes.append(float(record["minutes"]))
                if "sets" in record:
                    sets.append(record["sets"])
        return Found(values, which, minutes, sets)

    def shown_settings(self, table: Table) -> list[tuple[Setting | None, str | None]]:
        """Every setting of a table that has a finished cell of its own; the default one where there is none."""
        if table.runs == "split":
            return [(None, None)]
        first = next(iter(self.settings.values()))
        clusterings = method_names(lambda method: not method.trained)
        shown: list[tuple[Setting | None, str | None]] = []
        for setting in (one for one in self.settings.values() if not one.tables or table.name in one.tables):
            for regime in setting.regimes if table.runs == "train" else setting.regimes[:1]:
                own = any(
                    row.method not in clusterings and self.at(table, column, row, setting.name, regime).values
                    for column in table.columns
                    if column.backbone is None
                    for row in table.rows
                )
                if own:
                    shown.append((setting, regime))
        return shown or [(first, first.regimes[0])]

    def features(self, setting: Setting, regime: str) -> str:
        """Which features figures are of, in words: the default backbone needs no name, but another size of it."""
        first = next(iter(self.settings))
        if setting.backbone == first:
            return f"{REGIMES[regime]}, {setting.image_size} px"
        return REGIMES[regime] if setting.name == first else f"{setting.title}, {REGIMES[regime]}"

    # ------------------------------------------------------------ what is missing

    def has(self, dataset: str) -> bool:
        """Whether the machine that made the records had a dataset; the machine that renders them may be another."""
        return any(record["cell"]["dataset"] == get_dataset(dataset).name for record in self.records.values())

    @cached_property
    def costs(self) -> Costs:
        """How long what was not run will take."""
        return Costs(self.records)

    def not_run(self, table: Table, column: Column, row: Row, setting: Setting | None, regime: str | None) -> str:
        """What stands in a row without figures: that it was not run, and how long a seed of it will take."""
        cell = cell_of(table, column, row, self.settings, setting.name if setting else None, regime, 0)
        minutes = self.costs.minutes(cell)
        return NOT_RUN if minutes is None else f"{NOT_RUN} ({in_words(minutes)})"

    def command(
        self,
        table: Table,
        columns: Sequence[Column],
        rows: Sequence[Row],
        setting: Setting | None = None,
        regime: str | None = None,
    ) -> str:
        """The command that runs some rows of some columns, and how long it will take."""
        first, backbone = next(iter(self.settings.values())), setting.name if setting else None
        words = [f"ltgcd bench {table.name}"]
        for chosen, of_all in ((columns, table.columns), (rows, table.rows)):
            if len(chosen) < len(of_all):
                words.append(f"--only {','.join(one.id for one in chosen)}")
        if setting is not None and setting != first:
            words.append(f"--backbone {setting.name}")
        if setting is not None and regime is not None and table.runs == "train" and regime != setting.regimes[0]:
            words.append(f"--regime {regime}")
        cells = {
            cell.key: cell
            for column in columns
            for row in rows
            for seed in range(SEEDS)
            if self.has(column.name)
            for cell in [cell_of(table, column, row, self.settings, backbone, regime, seed)]
            if cell.key not in self.records
        }
        minutes, unknown = together(cells.values(), self.costs.minutes)
        told = [in_words(minutes)] if minutes else []
        told += [f"{unknown} of its {len(cells)} cells are like nothing that was run"] if unknown and minutes else []
        return f"`{' '.join(words)}`" + (f" ({'; '.join(told)})" if told else "")

    def why_not(self, table: Table, column: Column, setting: Setting | None = None, regime: str | None = None) -> str:
        """Why a column has no figures: its data were never here, or nobody asked for it yet."""
        if self.has(column.name):
            return f"{NOT_RUN} yet: {self.command(table, [column], table.rows, setting, regime)}."
        return f"{NOT_RUN}: `{missing_files(get_dataset(column.name))}` is not here ([how to get it](#{anchor(HOW)}))."

    def absent(self) -> list[str]:
        """A line for each dataset that no cell was ever run on: its files, and how to get them."""
        columns = [column for table in self.tables.values() for column in table.columns]
        names = dict.fromkeys(get_dataset(column.name).name for column in columns)
        text = []
        for dataset in (get_dataset(name) for name in names if not self.has(name)):
            how = f"`ltgcd datasets get {dataset.name}`." if dataset.archives else dataset.how
            text.append(f"{dataset.title}: missing is `{missing_files(dataset)}` in the folder of the datasets. {how}")
        return text


def missing_files(dataset: Dataset) -> str:
    """The files that make a dataset, below the folder of all datasets."""
    return f"{dataset.name}/{dataset.files}"


def anchor(heading: str) -> str:
    """The fragment of a heading's address, as GitHub makes it."""
    kept = "".join(c for c in heading.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def _shown(table: Table, row: Row, record: dict[str, Any]) -> list[float | None] | None:
    """What a row shows of a record; None where the record has nothing of it."""
    if row.shows == "accuracy":
        metrics = ["balanced_acc"] if table.metric == "balanced" else ["acc", "balanced_acc"]
        shown = [record[metric][group] for metric in metrics if metric in record for group in GROUPS]
        return shown if len(shown) == len(metrics) * len(GROUPS) else None
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


def paper_figure(row: Row, column: Column) -> str:
    """The paper's figure or figures of a row in a column; a dash where it has none."""
    value = row.paper.get(column.id)
    if value is None:
        return "–"
    return " / ".join(f"{v:g}" for v in value) if isinstance(value, Sequence) else f"{value:,g}"
