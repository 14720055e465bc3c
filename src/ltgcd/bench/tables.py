"""A table of the paper as a TOML file: which rows, which datasets, what the paper says, and the cells that it needs.

A cell is one run on one split; two tables that need the same run share it. ``backbones.toml`` beside the tables says
how each backbone is run, so that a table is the same on a laptop and on a GPU machine.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from ltgcd.bench.claims import Claim, check_claim
from ltgcd.class_number.estimate import ESTIMATORS
from ltgcd.class_number.peak_search import LITERAL, PeakConfig
from ltgcd.common.errors import InputError
from ltgcd.data.datasets import get_dataset
from ltgcd.data.splits import LABELS_BESIDE
from ltgcd.training.config import Regime, changed
from ltgcd.training.methods import METHODS

Runs = Literal["train", "estimate", "split"]
# What a row shows: All/Old/New; λ with true labels of D^u and of the parts of S; K̂; its seconds; the sizes of a split.
Shows = Literal[
    "accuracy",
    "lambda_unlabelled",
    "lambda_confident",
    "lambda_dense",
    "lambda_selected",
    "lambda_epochs",
    "k",
    "seconds",
    "sizes",
]
BACKBONES = "backbones.toml"
READINGS = {"peaks-literal": LITERAL, "peaks-merged": PeakConfig()}  # the estimates whose settings can be changed
DEFAULT_ESTIMATE = "peaks"  # the one that asks where the labels come from
SPLIT_KEYS = ("preset", "imbalance", "n_old", "n_new")


@dataclass(frozen=True)
class Cell:
    """One run, and what decides its figures besides the code; None where a field has no meaning.

    The engine that embeds is not among it: engines differ by rounding.

    Attributes
    ----------
    runs : {"train", "estimate", "split"}
        Train a method with the true K and score it; estimate K; only draw the split.
    dataset, split, imbalance, n_old, n_new, seed
        The split (`ltgcd.data.splits.SplitConfig`); `seed` is that of the method too.
    backbone, image_size, regime, views
        Features. `views` are those of the last-stage regime.
    method, preset : str
        What is run.
    changes : dict
        Settings by path (`ltgcd.training.config.changed`); of a `PeakConfig` for an estimate.
    labels_from : str
        "elsewhere" where the default estimate is told that the labels were gathered beside the collection.
    """

    runs: Runs
    dataset: str
    split: str
    seed: int
    imbalance: float | None = None
    n_old: int | None = None
    n_new: int | None = None
    backbone: str | None = None
    image_size: int | None = None
    regime: str | None = None
    views: int | None = None
    method: str | None = None
    preset: str | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    labels_from: str | None = None

    def described(self) -> dict[str, Any]:
        """The fields that have a meaning here, for JSON."""
        values = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if value not in (None, {})}

    @property
    def key(self) -> str:
        """Twelve hex digits that name the cell: equal for equal fields, whatever their order."""
        return hashlib.sha256(json.dumps(self.described(), sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Column:
    """A dataset of a table: its id there, its title, the split, and a backbone of its own where it is of texts."""

    id: str
    title: str
    name: str
    split: dict[str, Any]
    backbone: str | None = None


@dataclass(frozen=True)
class Row:
    """A row: what is run, what of it is shown, and the paper's figures by column id.

    `told` is whether the default estimate is told what a user knows: that labels were gathered beside the collection.
    """

    id: str
    title: str
    shows: Shows
    method: str | None
    preset: str
    changes: dict[str, Any]
    paper: dict[str, Any]
    told: bool


@dataclass(frozen=True)
class Table:
    """A table: rows by columns. `compare` asks for the order of the rows beside the paper's, `place` is its own.

    `metric` is what All, Old and New are; with "instance" the balanced ones stand beside them.
    """

    name: str
    title: str
    paper: str
    runs: Runs
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    note: str = ""
    compare: bool = False
    place: int = 99
    metric: Literal["balanced", "instance"] = "balanced"


@dataclass(frozen=True)
class Setting:
    """How a backbone is run: `regimes` (the first is the default), views, and settings that go with it.

    `changes` apply to every trained method, ``methods[name]`` to one. `backbone` is that of another setting, run again
    in another way (larger images); by default `name` is its name, too. `tables` are those that show it; by default all
    do in which it has a finished cell.
    """

    name: str
    title: str
    regimes: tuple[str, ...]
    image_size: int | None = None
    backbone: str = ""
    tables: tuple[str, ...] = ()
    views: int = 4
    engine: str = "torch"
    changes: dict[str, Any] = field(default_factory=dict)
    methods: dict[str, dict[str, Any]] = field(default_factory=dict)


# ---------------------------------------------------------------- reading


def read_settings(folder: Path) -> dict[str, Setting]:
    """The backbones of ``backbones.toml``; the first one is the default."""
    held = _toml(folder / BACKBONES)
    settings: dict[str, Setting] = {}
    for name, value in held.items():
        where = f"[{name}] of {BACKBONES}"
        settings[name] = _made(Setting, _over({"name": name}, value), where)
        if settings[name].backbone not in ("", *held):
            raise InputError(f"'backbone' of {where} is another one of {BACKBONES}, not '{settings[name].backbone}'.")
        if not settings[name].regimes or set(settings[name].regimes) - set(get_args(Regime)):
            raise InputError(f"'regimes' of {where} are some of {', '.join(get_args(Regime))}.")
    if not settings:
        raise InputError(f"{folder / BACKBONES} names no backbone.")
    return settings


def read_tables(folder: Path) -> dict[str, Table]:
    """Every table of a folder by name, in the order of their places."""
    if not folder.is_dir():
        raise InputError(
            f"There are no tables in {folder}; run this in a checkout of ltgcd, or give their folder with --tables."
        )
    tables = [_table(path) for path in sorted(folder.glob("*.toml")) if path.name != BACKBONES]
    return {table.name: table for table in sorted(tables, key=lambda table: table.place)}


def _table(path: Path) -> Table:
    held = _toml(path)
    shows = held.pop("shows", "accuracy")
    if shows not in get_args(Shows):
        raise InputError(f"'shows' of {path.name} is one of {', '.join(get_args(Shows))}, not '{shows}'.")
    columns = tuple(_made(Column, value, f"a dataset of {path.name}") for value in held.pop("datasets", []))
    defaults = {"method": None, "preset": "default", "changes": {}, "paper": {}, "shows": shows, "told": True}
    rows = tuple(_made(Row, _over(defaults, value), f"a row of {path.name}") for value in held.pop("rows", []))
    claims = tuple(_made(Claim, value, f"a claim of {path.name}") for value in held.pop("claims", []))
    parts = {"name": path.stem, "columns": columns, "rows": rows, "claims": claims}
    table: Table = _made(Table, {**held, **parts}, path.name)
    _check(table)
    return table


def _over(defaults: dict[str, Any], value: Any) -> Any:  # noqa: ANN401 - what a person wrote
    return {**defaults, **value} if isinstance(value, dict) else value


def _check(table: Table) -> None:
    """Refuse what could only fail after hours: unknown datasets, methods, settings, or names in claims."""
    if table.runs not in get_args(Runs):
        raise InputError(f"'runs' of {table.name} is one of {', '.join(get_args(Runs))}, not '{table.runs}'.")
    if table.metric not in ("balanced", "instance"):
        raise InputError(f"'metric' of {table.name} is balanced or instance, not '{table.metric}'.")
    ids = {"row": [row.id for row in table.rows], "dataset": [column.id for column in table.columns]}
    for kind, names in ids.items():
        if len(set(names)) != len(names) or not names:
            raise InputError(f"Every {kind} of table {table.name} needs an id of its own, and there must be one.")
    for column in table.columns:
        get_dataset(column.name)
        if not all(isinstance(column.split.get(key, 1), int) for key in ("n_old", "n_new")):
            raise InputError(f"'n_old' and 'n_new' of '{column.id}' in {table.name} are whole numbers.")
        if unknown := set(column.split) - set(SPLIT_KEYS):
            raise InputError(
                f"The split of '{column.id}' in {table.name} has {sorted(unknown)}; it takes {SPLIT_KEYS}."
            )
    for row in table.rows:
        if unknown := set(row.paper) - set(ids["dataset"]):
            raise InputError(f"Row '{row.id}' of {table.name} names the datasets {sorted(unknown)}, which it lacks.")
        _check_method(table, row)
    for claim in table.claims:
        check_claim(claim, table.name, {row.id: row.shows for row in table.rows}, ids["dataset"])


def _check_method(table: Table, row: Row) -> None:
    if table.runs == "split":
        return
    known: tuple[str, ...] = tuple(METHODS if table.runs == "train" else ESTIMATORS)
    if row.method not in known:
        raise InputError(
            f"Row '{row.id}' of {table.name} has the method '{row.method}', not one of {', '.join(known)}."
        )
    if table.runs == "train" and METHODS[row.method].trained:
        changed(METHODS[row.method].preset("frozen", row.preset), row.changes)  # type: ignore[arg-type]  # checked there
    elif row.changes:
        if row.method not in READINGS:
            raise InputError(f"'{row.method}' (row '{row.id}' of {table.name}) has no settings to change.")
        changed(READINGS[row.method], row.changes)


def _made(kind: Any, value: Any, where: str) -> Any:  # noqa: ANN401 - one of the dataclasses above
    """A dataclass from a TOML table, or a sentence about a key that is unknown or missing."""
    if not isinstance(value, dict):
        raise InputError(f"{where} must be a table of keys and values, not {value!r}.")
    fields = {f.name: f for f in dataclasses.fields(kind)}
    if unknown := sorted(set(value) - set(fields)):
        raise InputError(f"{where} has the unknown key '{unknown[0]}'; its keys are {', '.join(fields)}.")
    needed = [n for n, f in fields.items() if f.default is f.default_factory is dataclasses.MISSING]
    if missing := [name for name in needed if name not in value]:
        raise InputError(f"{where} lacks the key '{missing[0]}'.")
    return kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in value.items()})


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path} is not there; run this in a checkout of ltgcd, or give --tables.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML ({error}); mend it.") from error


# ---------------------------------------------------------------- cells


def cells_of(
    table: Table, settings: dict[str, Setting], backbone: str | None, regime: str | None, seeds: int
) -> Iterator[tuple[Column, Row, Cell]]:
    """Every cell of a table: datasets by seeds by rows, so that the features of a split are read once."""
    for column in table.columns:
        for seed in range(seeds):
            for row in table.rows:
                yield column, row, cell_of(table, column, row, settings, backbone, regime, seed)


def cell_of(
    table: Table,
    column: Column,
    row: Row,
    settings: dict[str, Setting],
    backbone: str | None,
    regime: str | None,
    seed: int,
) -> Cell:
    """The cell of a row and a column."""
    dataset = get_dataset(column.name)
    # What the dataset decides is written out, so that a run has one key in whatever table it stands.
    asked = {"preset": dataset.preset, "n_old": dataset.n_old, **column.split}
    base = Cell(
        table.runs,
        dataset.name,
        asked["preset"],
        seed,
        imbalance=asked.get("imbalance"),
        n_old=asked["n_old"],
        n_new=asked.get("n_new", dataset.n_classes - asked["n_old"]),
    )
    if table.runs == "split":
        return base
    setting = setting_of(settings, column.backbone or backbone)
    base = dataclasses.replace(
        base, backbone=setting.backbone or setting.name, image_size=setting.image_size, method=row.method
    )
    if table.runs == "estimate":
        plain = READINGS.get(row.method or "")
        changes = {name: value for name, value in row.changes.items() if getattr(plain, name) != value}
        beside = row.method == DEFAULT_ESTIMATE and row.told and base.split in LABELS_BESIDE
        return dataclasses.replace(base, regime="frozen", changes=changes, labels_from="elsewhere" if beside else None)
    chosen = regime_of(setting, regime)
    method = row.method or ""
    if not METHODS[method].trained:  # they cluster the frozen features, whatever the others train
        return dataclasses.replace(base, regime="frozen")
    of_method = setting.methods.get(f"{method}:{row.preset}", setting.methods.get(method, {}))
    # A backbone's own schedule comes last: a row that is longer than the others here is as long as they are there.
    changes = {**of_method, **row.changes, **setting.changes}
    views = setting.views if chosen == "last-stage" else None
    return dataclasses.replace(base, regime=chosen, views=views, preset=row.preset, changes=changes)


def setting_of(settings: dict[str, Setting], backbone: str | None) -> Setting:
    """The setting of a backbone; without a name the first one."""
    name = backbone or next(iter(settings))
    if name not in settings:
        raise InputError(f"{BACKBONES} has no backbone '{name}'; choose one of {', '.join(settings)}.")
    return settings[name]


def regime_of(setting: Setting, regime: str | None) -> Regime:
    """The regime that is asked for, or the first of the backbone's."""
    name = regime or setting.regimes[0]
    if name not in setting.regimes:
        raise InputError(f"{setting.title} is run {' or '.join(setting.regimes)}, not {name}.")
    return name  # type: ignore[return-value]  # backbones.toml holds regimes only
