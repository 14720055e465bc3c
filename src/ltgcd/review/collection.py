"""Corrections of a fitted collection in memory: `CategoryDiscovery.refine`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch import nn

from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata
from ltgcd.data.collection import UNLABELLED
from ltgcd.discovery.classes import classes_of
from ltgcd.discovery.fitted_collection import FittedCollection
from ltgcd.discovery.task import DiscoveryConfig
from ltgcd.features.views import CachedViews
from ltgcd.review.corrections import COLUMNS, edits_of, read_corrections
from ltgcd.review.refine import Refined, constraints, refine
from ltgcd.review.state import begin, replay


class Corrected(NamedTuple):
    """A collection after the next fit, what changed, and the rows of the corrections that could not be applied."""

    held: FittedCollection
    difference: dict[str, Any]
    refused: list[dict[str, Any]]


def corrections_table(given: Any) -> pa.Table:  # noqa: ANN401 - a path, a dict, or a table of any library
    """Corrections as a table of texts: from a file, from ``{id: label}``, or from a table or DataFrame.

    A label of None takes back what was said about an item; "junk" takes the item out.
    """
    if isinstance(given, str | Path):
        return read_corrections(Path(given))
    if isinstance(given, Mapping):
        columns: dict[str, list[Any]] = {"id": list(given), "label": list(given.values())}
    elif isinstance(given, pa.Table):
        columns = given.to_pydict()
    elif hasattr(given, "columns") and hasattr(given, "__getitem__"):
        columns = {str(name): list(given[name]) for name in given.columns}
    else:
        raise InputError(
            "Corrections are a file, a dict {id: label}, or a table with id and label, or category and name."
        )
    if not ({"id", "label"} <= set(columns) or {"category", "name"} <= set(columns)):
        raise InputError(f"Corrections have 'id' and 'label', or 'category' and 'name', not {sorted(columns)}.")
    text = {name: [_text(cell) for cell in columns[name]] for name in COLUMNS if name in columns}
    return pa.table({name: pa.array(cells, pa.string()) for name, cells in text.items()})


def _text(cell: Any) -> str | None:  # noqa: ANN401
    """A cell as text; None and NaN are empty."""
    return None if cell is None or cell != cell else str(cell)  # noqa: PLR0124 - NaN is what differs from itself


def correct(
    held: FittedCollection,
    corrections: pa.Table,
    config: DiscoveryConfig,
    views: CachedViews | None = None,
    tail: nn.Module | None = None,
) -> Corrected:
    """Fit a collection again with corrections as constraints.

    Parameters
    ----------
    held : FittedCollection
        What is there.
    corrections : pyarrow.Table
        Columns ``id, label`` and/or ``category, name``; see `ltgcd.review.corrections`.
    config : DiscoveryConfig
        Of the fit; nothing is rehearsed again.
    views, tail : CachedViews and torch.nn.Module, optional
        Where the last stage of a backbone is trained.
    """
    review = begin(held.table(), ())
    edits = edits_of(corrections, review)
    after = replay(review, edits.events)
    config = dataclasses.replace(config, rehearsals=0)
    done = refine(after, held.given, held.x, config, held.calibrations, None, views, tail)
    return Corrected(_collection(held, done, constraints(after, held.given).y), done.difference, edits.refused)


def _collection(held: FittedCollection, done: Refined, y: NDArray[np.int64]) -> FittedCollection:
    """The collection after a fit, with classes numbered as its model has them; `y` are the labels it was given (n,)."""
    found, table = done.found, done.table
    assert found.fitted is not None
    classes = classes_of(read_metadata(table.schema), ())
    junk = np.asarray(table.column("status").to_numpy(zero_copy_only=False) == "junk", dtype=np.bool_)
    index = np.zeros(classes.next_code, dtype=np.int64)  # junk whose class is gone is of the first one
    index[done.codes] = np.arange(len(done.codes))
    given = np.full(len(held.x), UNLABELLED, dtype=np.int64)
    given[~junk] = y
    learnt = found.calibration
    return dataclasses.replace(
        held,
        fitted=found.fitted,
        classes=_labels(held, classes.spelled().to_pylist(), done.codes),
        known=classes.is_known(done.codes),
        given=given,
        labels=index[np.asarray(table.column("label").to_numpy(), dtype=np.int64)],
        confidence=np.asarray(table.column("confidence").to_numpy(), dtype=np.float32),
        unsure=np.asarray(table.column("status").to_numpy(zero_copy_only=False) == "unsure", dtype=np.bool_),
        estimate=found.estimate,
        calibration_off=(learnt.error, learnt.chance) if learnt else (None, None),
        junk=junk if junk.any() else None,
        next_number=classes.next_number,
        calibrations=found.calibrations,
        appended=0,
        source=None,
    )


def _labels(held: FittedCollection, spelled: list[str], codes: NDArray[np.int64]) -> list[Any]:
    """The label of each class (K,): the user's own where it kept its name, else the name."""
    own = held.classes
    return [own[code] if code < len(own) and str(own[code]) == spelled[code] else spelled[code] for code in codes]
