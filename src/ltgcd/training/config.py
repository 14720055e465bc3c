"""What a training run is made of, as one frozen configuration, and changes to its fields by their paths.

A configuration is kept by a run and read from a benchmark's TOML; ``--set selection.k=20`` changes
a field by its path. The presets of a method are in its own file (`ltgcd.training.methods`).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from ltgcd.common.errors import InputError
from ltgcd.common.settings import check_fields
from ltgcd.graph.communities import Start
from ltgcd.training.schedule import Schedule

Regime = Literal["frozen", "last-stage"]
Preset = Literal["default", "paper", "literal"]
C = TypeVar("C")


@dataclass(frozen=True)
class Experiment:
    """A trained method with everything that decides its result besides data, K and seed.

    Attributes
    ----------
    name : str
        Of the method, a key of `ltgcd.training.methods.METHODS`. It is no setting: another method has other settings.
    schedule : Schedule
        Optimisation.
    method : frozen dataclass
        Losses and selection; of the type `Method.config`.
    start : {"random", "semi-kmeans", "communities"}
        Where the prototypes begin, for the methods that have one for each class.
    whiten : bool
        Whether features go through within-class whitening before the prototypes: frozen ones before the adapter, those
        of a trained last stage behind it.
    dropout : float
        Of the views of frozen features.
    adjustment : float
        Strength of the logit adjustment at the end; 0 is none.
    smoothing : int
        Rounds of averaging with neighbours at the end.
    held_out : float
        Share of the labelled items of each class that is treated as unlabelled and scored after every epoch.
    """

    name: str = field(metadata={"fixed": True})
    schedule: Schedule
    method: Any
    start: Start = "random"
    whiten: bool = True
    dropout: float = 0.3
    adjustment: float = 0.0
    smoothing: int = 0
    held_out: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self, dropout=(0, 0.99), adjustment=(0, 10), smoothing=(0, 1000), held_out=(0, 0.9))

    def settings(self) -> dict[str, Any]:
        """Every setting by group, as a run and the records of the benchmark hold them."""
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "name"}


def cpu_schedule(regime: Regime, learning_rate: float = 0.1, weight_decay: float = 5e-5) -> Schedule:
    """The schedule that every preset has, to compare like with like; 200 epochs in batches of 128 are the paper's."""
    epochs = 10 if regime == "frozen" else 6
    return Schedule(epochs, batch_size=256, learning_rate=learning_rate, weight_decay=weight_decay)


# ---------------------------------------------------------------- changes by path


def changed(config: C, changes: dict[str, Any]) -> C:
    """Copy of a configuration with fields changed by their paths (``{"schedule.epochs": 20}``), types checked.

    Values may be strings, as they come from a command line. A field of `method` may be named without that prefix where
    no other field has its name: ``selection.k`` is ``method.selection.k``.
    """
    for path, value in changes.items():
        config = _with(config, path.split("."), value, path)
    return config


def _with(config: C, path: list[str], value: Any, whole: str) -> C:  # noqa: ANN401 - as typed by the user
    assert dataclasses.is_dataclass(config)
    names = [f.name for f in dataclasses.fields(config) if not f.metadata.get("fixed")]
    head, rest = path[0], path[1:]
    if head not in names:
        for name in ("method", "base"):
            if name in names and _has(getattr(config, name), head):
                return _with(config, [name, *path], value, whole)
        raise InputError(f"There is no setting '{whole}'; '{head}' is not one of {', '.join(names)}.")
    current = getattr(config, head)
    if rest:
        if not dataclasses.is_dataclass(current):
            raise InputError(f"There is no setting '{whole}'; '{head}' has no parts.")
        new = _with(current, rest, value, whole)
    elif dataclasses.is_dataclass(current):
        raise InputError(f"'{whole}' is a group of settings; name one of its fields.")
    else:
        new = _converted(value, get_type_hints(type(config))[head], whole)
    return dataclasses.replace(config, **{head: new})  # type: ignore[type-var]


def _has(config: Any, name: str) -> bool:  # noqa: ANN401 - any configuration
    fields = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    return name in fields or ("base" in fields and _has(fields["base"], name))


def _converted(value: Any, kind: Any, whole: str) -> Any:  # noqa: ANN401 - one of a few simple types
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        if value not in choices:
            raise InputError(f"'{whole}' is one of {', '.join(choices)}, not '{value}'.")
        return value
    if kind is bool:
        words = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
        if str(value).lower() not in words:
            raise InputError(f"'{whole}' is true or false, not '{value}'.")
        return words[str(value).lower()]
    try:
        converted = kind(value)
    except (TypeError, ValueError, OverflowError) as error:
        wanted = "number" if kind is float else "whole number"
        raise InputError(f"'{whole}' takes a {wanted}, not '{value}'.") from error
    if kind is int and str(value) != str(converted):
        raise InputError(f"'{whole}' takes a whole number, not '{value}'.")
    return converted
