"""Labels of any form as names, names as codes: what every reader of a table needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from ltgcd.collection import UNLABELLED
from ltgcd.errors import InputError


def read_csv(path: Path) -> pa.Table:
    """Read a CSV with every column as text; an empty cell is null."""
    try:
        header = pacsv.open_csv(path, parse_options=pacsv.ParseOptions(newlines_in_values=True)).schema.names
        return pacsv.read_csv(
            path,
            parse_options=pacsv.ParseOptions(newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=True, null_values=[""]
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} can't be read as a CSV with a header line ({str(error).splitlines()[0]}); save it as UTF-8, "
            "comma-separated."
        ) from error


def label_names(column: pa.ChunkedArray | pa.Array, owner: Path | str) -> pa.StringArray:
    """Labels of any sensible type as names; null = unlabelled. Numbers and words must not be mixed."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.string())
    if pa.types.is_floating(array.type):
        array = pc.if_else(pc.is_nan(array), None, array)
        whole = pc.equal(array, pc.floor(array))
        if pc.any(pc.invert(whole)).as_py():
            raise InputError(f"{owner} has labels that are not whole numbers; use class names or integers.")
        array = array.cast(pa.int64())
    if pa.types.is_integer(array.type):
        if pc.min(array).as_py() is not None and pc.min(array).as_py() < UNLABELLED:
            raise InputError(f"{owner} has the label {pc.min(array).as_py()}; use -1 (or nothing) for unlabelled.")
        return pc.if_else(pc.equal(array, UNLABELLED), None, array.cast(pa.string()))
    if pa.types.is_boolean(array.type):
        return array.cast(pa.string())
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        raise InputError(f"{owner} has labels of type {array.type}; use class names or integers.")
    text = pc.utf8_trim_whitespace(array.cast(pa.string()))
    text = pc.if_else(pc.equal(text, ""), None, text)
    numeric = pc.match_substring_regex(text, r"^-?\d+(\.0*)?$")
    if not pc.any(numeric).as_py():
        return text
    if not pc.all(numeric).as_py():
        number = text.filter(pc.fill_null(numeric, False))[0]
        word = text.filter(pc.fill_null(pc.invert(numeric), False))[0]
        raise InputError(
            f"{owner} mixes label types: '{number}' is a number and '{word}' is a name; write all labels as names, "
            "or all as integers."
        )
    return label_names(pc.replace_substring_regex(text, r"\.0*$", "").cast(pa.int64()), owner)


def names_of(codes: NDArray[np.int64], class_names: tuple[str, ...]) -> pa.StringArray:
    """Names of some class codes; null for -1."""
    return pa.array(class_names, pa.string()).take(pa.array(codes, mask=codes == UNLABELLED))


def sorted_names(names: pa.StringArray) -> list[str]:
    """Distinct names in order; numbers by value."""
    distinct = [name for name in pc.unique(names).to_pylist() if name is not None]
    return sorted(distinct, key=int) if all(name.isdigit() for name in distinct) else sorted(distinct)


def codes_of(names: pa.StringArray, classes: list[str]) -> NDArray[np.int64]:
    """Positions of some names in `classes`; -1 for null and for names that are not there."""
    codes = pc.fill_null(pc.index_in(names, pa.array(classes, pa.string()), skip_nulls=True), UNLABELLED)
    return np.asarray(codes.to_numpy(zero_copy_only=False), dtype=np.int64)


def integer_names(values: NDArray[Any], names: tuple[str, ...], owner: Path, array: str) -> pa.StringArray:
    """Names of integer labels: by value where `names` reaches, else the number itself."""
    if values.dtype.kind not in "iuf":
        raise InputError(f"{owner} has {array} of type {values.dtype}; use integers, -1 for unlabelled.")
    text = label_names(pa.array(values), f"{owner} ({array})")
    if not names:
        return text
    by_value = pc.index_in(text, pa.array([str(i) for i in range(len(names))], pa.string()), skip_nulls=True)
    return pc.coalesce(pa.array(names, pa.string()).take(by_value), text)


def class_label_columns(schema: pa.Schema) -> dict[str, list[str]]:
    """Columns with class names in Hugging Face's metadata; none where it is absent or of another form."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {
            key: [str(n) for n in f["names"]] for key, f in features.items() if isinstance(f, dict) and "names" in f
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}
