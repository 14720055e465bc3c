"""Labels as Python holds them (strings, numbers, anything hashable), and the codes 0, 1, … that methods work with."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import DataConversionWarning

from ltgcd.common.errors import InputError
from ltgcd.common.warn import warn
from ltgcd.data.collection import UNLABELLED
from ltgcd.data.labels import means_no_label, no_label_note, text_array

EXACT = 2**53  # beyond it a float stands for several whole numbers

# Kinds of labels that a file can hold as text, and how they are read again.
KINDS: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "str": str, "bool": lambda text: text == "True"}


def encode_labels_of_any_kind(
    y: ArrayLike | None, n: int, unlabelled: Hashable | None = UNLABELLED, classes: Sequence[Any] = ()
) -> tuple[NDArray[np.int64], list[Any]]:
    """Codes (n,) of labels, -1 for an unlabelled item, and the classes, ascending, that the codes are places in.

    Parameters
    ----------
    y : array-like, shape (n,)
        Labels of any hashable kind; None and NaN (also pandas' NA) are unlabelled, and so is text that says so, as in
        tables (`ltgcd.data.labels.NO_LABEL`), with a warning.
    n : int
        Number of items.
    unlabelled : hashable, optional
        What else stands for an unlabelled item: -1 by default, and then no number may be below it. Its text does, too.
    classes : sequence
        Labels that are known to be those of classes, whatever they look like.
    """
    values = _one_column(y, n)
    if values.dtype.kind in "iuf":
        return _numbers(values, unlabelled)
    objects = values.astype(object)
    for value in objects:
        if not isinstance(value, Hashable):
            raise InputError(f"Unknown label type: {type(value).__name__} can't be a label, for it is not hashable.")
    missing = [_is_missing(value) or (unlabelled is not None and value == unlabelled) for value in objects]
    held = [value for value, gone in zip(objects, missing, strict=True) if not gone]
    if any(isinstance(value, str) and not value.strip() for value in held):
        raise InputError("y holds empty strings; use None for unlabelled items, or say unlabelled=''.")
    # As in a table: words such as "NA", and "-1" where -1 stands for an unlabelled item.
    said = {value for value in held if isinstance(value, str)} - set(classes)
    said = {value for value in said if means_no_label(value) or (unlabelled is not None and value == str(unlabelled))}
    if said:
        warn(no_label_note({str(value): held.count(value) for value in said}, "y"))
        missing = [gone or value in said for gone, value in zip(missing, objects, strict=True)]
        held = [value for value in held if value not in said]
    truths = [value for value in held if isinstance(value, bool | np.bool_)]
    both = [value for value in held if truths and not isinstance(value, bool | np.bool_) and value in (0, 1)]
    if both:
        raise InputError(f"y holds {both[0]!r} beside {bool(both[0])}, which Python takes for the same; rename one.")
    found = _ascending(set(held))
    text_array((value for value in found if isinstance(value, str)), "a label", "y")  # as every file holds them
    number = {value: code for code, value in enumerate(found)}
    codes = [UNLABELLED if gone else number[value] for value, gone in zip(objects, missing, strict=True)]
    return np.array(codes, dtype=np.int64), found


def _one_column(y: ArrayLike | None, n: int) -> NDArray[Any]:
    if y is None:
        raise InputError("CategoryDiscovery requires y to be passed, but the target y is None.")
    values: NDArray[Any]
    if hasattr(y, "dtype") or hasattr(y, "__array__"):
        values = np.asarray(y)
    else:
        listed = [value.item() if isinstance(value, np.number) else value for value in y]  # type: ignore[union-attr]
        values = np.empty(len(listed), dtype=object)
        values[:] = listed
        values = np.asarray(listed) if _are_numbers(listed) else values
    if values.ndim == 2 and values.shape[1] == 1:
        warn("A column-vector y was passed when a 1d array was expected.", DataConversionWarning)
        values = values.ravel()
    if values.ndim != 1:
        raise InputError(f"y should be a 1d array, got an array of shape {values.shape} instead.")
    if len(values) != n:
        raise InputError(f"Found input variables with inconsistent numbers of samples: [{n}, {len(values)}]")
    return values


def _are_numbers(values: list[Any]) -> bool:
    """Whether all are plain numbers: of others NumPy would make strings, or tables of tuples.

    Nor may whole ones be large: NumPy would make floats of them, and so one class of two.
    """
    return bool(values) and all(
        abs(value) <= EXACT if isinstance(value, int) and not isinstance(value, bool) else isinstance(value, float)
        for value in values
    )


def _numbers(values: NDArray[Any], unlabelled: Hashable | None) -> tuple[NDArray[np.int64], list[Any]]:
    """Codes and classes of a numeric array, without a Python loop."""
    if values.dtype.kind == "f":
        if np.isinf(values).any():
            raise InputError("Input y contains infinity or a value too large for dtype('float64').")
        missing = np.isnan(values)
        held = values[~missing]
        if not np.array_equal(held, np.floor(held)):
            raise InputError("Unknown label type: continuous. Numbers that are labels are whole.")
        if len(held) and np.abs(held).max() > EXACT:
            raise InputError(
                f"y holds {np.abs(held).max():.0f} as a float, which may be several numbers; give integers."
            )
    else:
        missing = np.zeros(len(values), dtype=np.bool_)
    if unlabelled is not None:
        missing |= values == unlabelled
        least = values[~missing].min(initial=0)
        if unlabelled == UNLABELLED and least < UNLABELLED:
            raise InputError(f"y holds {least}; labels are 0 or more, and -1 for an unlabelled item.")
    classes, place = np.unique(values[~missing], return_inverse=True)
    codes = np.full(len(values), UNLABELLED, dtype=np.int64)
    codes[~missing] = place
    return codes, [int(value) for value in classes]


def _is_missing(value: Any) -> bool:  # noqa: ANN401 - a label of any kind
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _ascending(values: set[Any]) -> list[Any]:
    """Labels in an order that does not hang on hashing: by kind, then by value, or by what they look like."""
    try:
        return sorted(values, key=lambda value: (type(value).__name__, value))
    except TypeError:
        return sorted(values, key=lambda value: (type(value).__name__, repr(value)))


def with_novel_labels(classes: Sequence[Any], n_old: int, k: int) -> list[Any]:
    """The labels of `k` classes: those that have one, then numbers after the largest, or "novel-003" and so on.

    `n_old` of them were known in the fit; the first one behind these is novel-001. A name that is taken is left out.
    """
    named = list(classes)
    if named and all(isinstance(value, int | np.integer) and not isinstance(value, bool) for value in named):
        first = max(named) + 1
        return named + [first + i for i in range(k - len(named))]
    taken, number = set(named), len(named) - n_old
    while len(named) < k:
        number += 1
        name = f"novel-{number:03d}"
        if name not in taken:
            named.append(name)
    return named


def as_array(classes: Sequence[Any]) -> NDArray[Any]:
    """Labels as an array: of numbers or of strings where all are, else of objects."""
    kinds = {type(value) for value in classes}
    if kinds == {int}:  # left alone, NumPy makes floats of those beyond 2⁶³, and so one class of two
        for form in (np.int64, np.uint64):
            if np.iinfo(form).min <= min(classes) and max(classes) <= np.iinfo(form).max:
                return np.array(classes, dtype=form)
    if kinds in ({str}, {bool}):
        return np.array(classes)
    array = np.empty(len(classes), dtype=object)
    array[:] = list(classes)
    return array


def kind_of(classes: Sequence[Any]) -> str:
    """Name of the kind of labels, for a file; labels of mixed kinds are kept as text."""
    kinds = {type(value.item() if isinstance(value, np.generic) else value).__name__ for value in classes}
    return kinds.pop() if len(kinds) == 1 and kinds <= set(KINDS) else "str"


def check_can_be_kept(classes: Sequence[Any], what: str = "The class") -> None:
    """Refuse labels that a file of names could not tell apart, or not give back as they are."""
    seen: dict[str, Any] = {}
    for label in classes:
        text = str(label)
        if text in seen:
            raise InputError(
                f"The classes {seen[text]!r} and {label!r} are called the same in a file, which would make one of "
                "them; fit with labels of one kind."
            )
        seen[text] = label
        own = label.item() if isinstance(label, np.generic) else label
        if type(own).__name__ not in KINDS or KINDS[kind_of([own])](text) != own or not _is_unicode(text):
            raise InputError(
                f"{what} {label!r} is {type(own).__name__}, which a file can't give back as it is; fit with labels "
                "that are text (str) or whole numbers."
            )


def _is_unicode(text: str) -> bool:
    try:
        return bool(text.encode()) or not text
    except UnicodeEncodeError:  # a lone surrogate
        return False
