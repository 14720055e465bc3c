"""Ids of rows that come from Python: the index of a DataFrame, where somebody set one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.common.warn import warn
from ltgcd.data.labels import text_array
from ltgcd.data.python_labels import KINDS

ROWS = "rows"  # the kind of ids that are the numbers of the rows


def ids_of_index(X: object) -> list[Any] | None:
    """The index of a DataFrame as ids, as they are; None for a table without one, or one that only counts its rows.

    Rows that are counted from 0 have no id of their own: another table has the same numbers for other rows.
    """
    index = getattr(X, "index", None)
    if index is None or callable(index):
        return None
    if type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1):
        return None
    ids = list(index)
    if len({str(one) for one in ids}) < len(ids):
        warn("The index of X is not unique, so it says nothing about which row is which; rows are numbered instead.")
        return None
    return ids


def as_text(ids: Sequence[Any]) -> pa.StringArray:
    """Ids of any kind as a file has them."""
    return text_array((str(one) for one in ids), "an id", "The collection")


def kind_of_ids(ids: Sequence[Any] | None) -> str:
    """What `ids_from_text` needs to read them again as they are; where nothing does, they come back as text."""
    if ids is None:
        return ROWS
    own = [one.item() if isinstance(one, np.generic) else one for one in ids]
    text, kinds = [str(one) for one in own], [type(one) for one in own]
    for kind in ("str", *KINDS):
        read = ids_from_text(text, kind)
        if read == own and [type(one) for one in read] == kinds:
            return kind
    return "str"


def ids_from_text(ids: list[str], kind: str) -> list[Any]:
    """Ids as they were before they were written; what a command has added since may be text."""
    read, found = KINDS["int" if kind == ROWS else kind], list[Any]()
    for text in ids:
        try:
            own = read(text)
        except ValueError:
            own = text
        found.append(own if str(own) == text else text)
    return found


def as_frame(**columns: Sequence[Any] | NDArray[Any]) -> Any:  # noqa: ANN401 - pandas is optional
    """Columns as a DataFrame, or without pandas as a pyarrow Table."""
    try:
        import pandas  # noqa: PLC0415 - optional
    except ImportError:
        return pa.table({name: _as_column(column) for name, column in columns.items()})
    return pandas.DataFrame(columns)


def _as_column(values: Sequence[Any] | NDArray[Any]) -> pa.Array:
    """Values of any kind for a table of Arrow's: as text where it has no kind for all of them."""
    listed = [value.item() if isinstance(value, np.generic) else value for value in values]
    try:
        return pa.array(listed)
    except (pa.ArrowException, TypeError):
        return as_text(listed)
