"""Labels of any form as names, names as codes: what every reader of a table needs."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata
from ltgcd.common.spreadsheet import is_export, unguarded
from ltgcd.data.collection import UNLABELLED
from ltgcd.data.parquet import check_columns
from ltgcd.data.regular_files import check_regular

CELL_BYTES = 1 << 24  # the longest row of a CSV
HEADER_BYTES = 1 << 16  # of the header line of one, at the most
SEPARATORS = ",;\t"  # of columns: the first that the header line has

GIVEN = "given"  # column of what ``ltgcd export`` writes: whether a label is a person's
WORKBOOKS = (".xlsx", ".xls", ".ods")  # a spreadsheet's own files

# What people and programs write where there is no label, in any case. None of these is the name of a class.
NO_LABEL = frozenset(
    {"na", "n/a", "n.a.", "n.a", "#n/a", "<na>", "nan", "nat", "not available", "not applicable"}
    | {"null", "(null)", "<null>", "#null!", r"\n", "nil", "none", "(none)", "<none>", "missing"}
    | {"?", "??", "???", "-", "--", "---", "–", "—", ".", "tbd", "t.b.d.", "tba", "todo"}
    | {"unlabelled", "unlabeled", "not labelled", "not labeled", "no label", "unassigned", "not assigned", "undefined"}
    | {"unsorted", "unclassified", "unidentified", "undetermined", "unspecified", "unknown", "unsure", "junk"}
)


def read_csv(path: Path) -> pa.Table:
    """Read a CSV with every column as text; an empty cell is null. What ``ltgcd export`` had to guard is as it was."""
    check_regular(path)
    check_no_workbook(path)
    blocks = pacsv.ReadOptions(block_size=CELL_BYTES)
    try:
        parse = pacsv.ParseOptions(newlines_in_values=True, delimiter=_separator(path))
        with pacsv.open_csv(path, blocks, parse) as opened:
            header = opened.schema.names
        check_columns(header, path)
        convert = pacsv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=True, null_values=[""]
        )
        return unguarded(pacsv.read_csv(path, blocks, parse, convert))
    except FileNotFoundError as error:
        raise InputError(f"{path} is not there; give a .csv file.") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if "straddling" in str(error):
            raise InputError(
                f"{path} has a row of more than {CELL_BYTES >> 20} MB; close the quote that was left open, or shorten "
                "the cell."
            ) from error
        if not _is_utf8(path):
            raise InputError(
                f"{path} is not UTF-8; in Excel choose 'CSV UTF-8' when you save it, or convert it."
            ) from error
        raise InputError(
            f"{path} can't be read as a CSV with a header line ({str(error).splitlines()[0]}); save it as UTF-8, "
            "comma-separated."
        ) from error


def check_no_workbook(path: Path) -> None:
    """Refuse a spreadsheet's own file, which is no table of text, and say what to save."""
    if path.suffix.lower() in WORKBOOKS:
        raise InputError(f"{path} is a spreadsheet's own file; save the sheet as CSV ('CSV UTF-8' in Excel).")


def _is_utf8(path: Path) -> bool:
    """Whether all of a file is UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with path.open("rb") as file:
            while block := file.read(CELL_BYTES):
                decoder.decode(block)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _separator(path: Path) -> str:
    """What stands between the columns of a CSV: spreadsheets write semicolons or tabs in some countries."""
    with path.open("rb") as file:
        head = file.read(HEADER_BYTES).decode(errors="replace")
    header = re.sub(r'"(?:[^"]|"")*"', "", head).partition("\n")[0]  # what is quoted separates nothing
    return next((mark for mark in SEPARATORS if mark in header), SEPARATORS[0])


def strings(
    column: pa.ChunkedArray | pa.Array, name: str, owner: Path | str, form: pa.DataType | None = None
) -> pa.StringArray:
    """A column as text (of the Arrow type `form`), or say in a sentence that it is none."""
    try:
        text = column.cast(form or pa.string())
        text = text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
        text.validate(full=True)  # parquet takes any bytes for text; nothing after this would say where they are
    except pa.ArrowException as error:
        raise InputError(
            f"{owner} has a column '{name}' of type {column.type} that can't be read as text; save it as UTF-8 text."
        ) from error
    return text


def text_array(values: Iterable[str], what: str, owner: Path | str) -> pa.StringArray:
    """Python's strings as Arrow's, or say in a sentence which one is no Unicode (a lone surrogate)."""
    listed = list(values)
    try:
        return pa.array(listed, pa.string())
    except UnicodeEncodeError as error:
        raise InputError(f"{owner} has {what} that is not UTF-8 ({error.object!r}); correct it.") from error


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds text, in any of Arrow's forms, or a dictionary of texts."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return any(of(kind) for of in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def label_names(column: pa.ChunkedArray | pa.Array, owner: Path | str) -> pa.StringArray:
    """Labels of any sensible type as names; null = unlabelled. Numbers and words must not be mixed."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()  # its dictionary may hold more than the labels do
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.string())
    if not is_text(array.type) and not pa.types.is_primitive(array.type):
        raise InputError(f"{owner} has labels of type {array.type}; use class names or integers.")
    if is_text(array.type):
        array = strings(array, "label", owner)
    elif pa.types.is_floating(array.type):
        array = array.cast(pa.float64())
    encoded = array.dictionary_encode()  # there are few classes, however many items there are
    return _distinct_names(encoded.dictionary, owner).take(encoded.indices)


def _distinct_names(array: pa.Array, owner: Path | str) -> pa.StringArray:
    if pa.types.is_floating(array.type):
        array = pc.if_else(pc.is_nan(array), None, array)
        # Beyond 2^53 a float stands for several whole numbers, so that classes would be merged without a word.
        whole = pc.and_(pc.equal(array, pc.floor(array)), pc.less_equal(pc.abs(array), 2.0**53))
        if pc.any(pc.invert(whole)).as_py():
            raise InputError(f"{owner} has labels that are not whole numbers; use class names or integers.")
        array = array.cast(pa.int64())
    if pa.types.is_integer(array.type) or pa.types.is_boolean(array.type):
        text = array.cast(pa.string())
        return text if pa.types.is_boolean(array.type) else _numbers(text, owner)
    if not is_text(array.type):
        raise InputError(f"{owner} has labels of type {array.type}; use class names or integers.")
    text = pc.utf8_trim_whitespace(array)
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
    return _numbers(pc.replace_substring_regex(text, r"\.0*$", ""), owner)


def _numbers(text: pa.StringArray, owner: Path | str) -> pa.StringArray:
    """Whole numbers as names: -1 is unlabelled. As text, for a class may be called by a number of any length.

    Leading zeros stay: a folder called 007 and the label 007 are one class.
    """
    text = pc.if_else(pc.match_substring_regex(text, r"^-0*1$"), None, text)
    negative = text.filter(pc.fill_null(pc.starts_with(text, "-"), False))
    if len(negative):
        raise InputError(f"{owner} has the label {negative[0]}; use -1 (or nothing) for unlabelled.")
    return text


def means_no_label(name: str, words: Collection[str] = NO_LABEL) -> bool:
    """Whether a name says that there is no label."""
    return not name.strip() or name.strip().casefold() in words


def without_no_label(
    names: pa.StringArray, classes: Collection[str] = (), words: Collection[str] = NO_LABEL
) -> tuple[pa.StringArray, dict[str, int]]:
    """Names with null where a word says that there is no label, and how often each such word stood there.

    Parameters
    ----------
    names : pyarrow.StringArray
        Labels as they were written; empty ones are null, too, and not counted.
    classes : collection of str
        Names that are known to be those of classes, whatever they look like.
    words : collection of str
        What says that there is no label, in lower case.
    """
    encoded = names.dictionary_encode()
    written = [name or "" for name in encoded.dictionary.to_pylist()]
    means_none = [name not in classes and means_no_label(name, words) for name in written]
    if not any(means_none):
        return names, {}
    counts = np.bincount(encoded.indices.drop_null().to_numpy(), minlength=len(written))
    found = {name: int(n) for name, n, none in zip(written, counts, means_none, strict=True) if none and name.strip()}
    kept = pc.if_else(pa.array(means_none), None, encoded.dictionary)
    return kept.take(encoded.indices), found


def no_label_note(counts: dict[str, int], where: Path | str) -> str:
    """A sentence on what `without_no_label` has found."""
    listed = " and ".join(f"{n} '{word}'" for word, n in sorted(counts.items(), key=lambda one: (-one[1], one[0])))
    return (
        f"{where}: {listed} were read as unlabelled; a class of that name needs a longer one, for example "
        f"'class {max(counts, key=lambda word: counts[word])}'."
    )


def stored_labels(
    table: pa.Table, name: str, owner: Path, notify: Callable[[str], None] = lambda _sentence: None
) -> pa.StringArray | None:
    """Labels in a column of a table, if it has it; null = unlabelled.

    What we wrote comes back as it is: "007", "1" beside "cat", spaces and all. That is so for a table with our
    metadata, and for one that ``ltgcd export`` wrote, even if another tool has saved it again. In all other tables
    labels are trimmed, and numbers beside words are refused. Words such as "NA" or "unsure" are no labels anywhere,
    unless our metadata lists them as classes; `notify` is told of them.
    """
    if name not in table.column_names:
        return None
    column = table.column(name)
    if not is_text(column.type):
        return label_names(column, owner)
    classes = read_metadata(table.schema).get("class_names")
    names = strings(column, name, owner)
    if classes is not None and name != "label":
        return names  # the truth that we wrote: what a novel class is called is not in the metadata
    names, dropped = without_no_label(names, classes or ())
    if dropped:
        notify(no_label_note(dropped, f"{owner}, column '{name}'"))
    if name == "label" and (sentence := guesses_sentence(_guesses(table, names), owner)):
        notify(sentence)
    return names if classes is not None or is_export(table.column_names) else label_names(names, owner)


def guesses_sentence(n: int, owner: Path | str) -> str | None:
    """A sentence on n labels that no person gave; None without any."""
    if not n:
        return None
    which = "1 of these labels was" if n == 1 else f"{n:,} of these labels were"
    return (
        f"{owner}: {which} given by a model and confirmed by nobody, and count as yours here; to correct the run that "
        "they are of, use 'ltgcd relabel', then 'ltgcd refine'."
    )


def _guesses(table: pa.Table, names: pa.StringArray) -> int:
    """How many labels (N,) of a table that ``ltgcd export`` wrote are, by its own account, no person's."""
    if not is_export(table.column_names) or GIVEN not in table.column_names:
        return 0
    is_given = pc.equal(pc.utf8_lower(table.column(GIVEN).cast(pa.string())), "true")
    return pc.sum(pc.and_(pc.is_valid(names), pc.invert(pc.fill_null(is_given, True)))).as_py() or 0


def names_of(codes: NDArray[np.int64], class_names: tuple[str, ...]) -> pa.StringArray:
    """Names of some class codes; null for -1."""
    return pa.array(class_names, pa.string()).take(pa.array(codes, mask=codes == UNLABELLED))


def sorted_names(names: pa.StringArray) -> list[str]:
    """Distinct names in order; numbers by value."""
    distinct = [name for name in pc.unique(names).to_pylist() if name is not None]
    if not all(is_number(name) for name in distinct):
        return sorted(distinct)
    return sorted(distinct, key=lambda name: (len(name.lstrip("0")), name.lstrip("0"), name))


def is_number(name: str) -> bool:
    """Whether a class is called by a whole number (Python takes "²" for a digit, but not for a number)."""
    return name.isascii() and name.isdigit()


def codes_of(names: pa.StringArray, classes: list[str]) -> NDArray[np.int64]:
    """Positions of some names in `classes`; -1 for null and for names that are not there."""
    codes = pc.fill_null(pc.index_in(names, pa.array(classes, pa.string()), skip_nulls=True), UNLABELLED)
    return np.asarray(codes.to_numpy(zero_copy_only=False), dtype=np.int64)


def integer_names(values: NDArray[Any], names: tuple[str, ...], owner: Path, array: str) -> pa.StringArray:
    """Names of integer labels: by value where `names` reaches, else the number itself."""
    if values.dtype.kind not in "iuf":
        raise InputError(f"{owner} has {array} of type {values.dtype}; use integers, -1 for unlabelled.")
    # Arrow knows neither the other byte order nor all widths of floats.
    native = np.float64 if values.dtype.kind == "f" else values.dtype.newbyteorder("=")
    encoded = pa.array(values.astype(native, copy=False)).dictionary_encode()  # few classes, maybe millions of items
    text = label_names(encoded.dictionary, f"{owner} ({array})")
    if names:
        by_value = pc.index_in(text, pa.array([str(i) for i in range(len(names))], pa.string()), skip_nulls=True)
        beyond = text.filter(pc.and_(pc.is_null(by_value), pc.is_valid(text)))
        listed = text_array(names, "a class name", owner)
        clash = beyond.filter(pc.is_in(beyond, listed))
        if len(clash):
            raise InputError(
                f"{owner} has a class {clash[0]} without a name in {array}, but gives that name to another class; "
                "name every class in class_names."
            )
        text = pc.coalesce(listed.take(by_value), text)
    return text.take(encoded.indices)


def class_label_columns(schema: pa.Schema) -> dict[str, list[str]]:
    """Columns with class names in Hugging Face's metadata; none where it is absent or of another form.

    Columns that the metadata tells of, but that someone has taken out of the table, don't count.
    """
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {
            key: [str(n) for n in f["names"]]
            for key, f in features.items()
            if isinstance(f, dict) and "names" in f and key in schema.names
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}
