"""What ``ltgcd export`` wrote, given back as a source: what may be taken for more than it is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ltgcd.common.spreadsheet import is_export
from ltgcd.data.labels import GIVEN, guesses_sentence, read_csv
from ltgcd.data.regular_files import is_regular

INDEX = "index.csv"  # of folders: the table of what is where, in its column `path`
TEXT_LENGTH = 200  # characters of a text that a table of labels shows


def guessed_folders_note(folder: Path, paths: pa.StringArray, names: pa.StringArray) -> str | None:
    """A sentence on the images of an exported folder that are where a model put them; None where there are none.

    `paths` (N,) are those of its images, `names` (N,) the classes that they are read as, null where unlabelled.
    """
    if not is_regular(folder / INDEX):
        return None
    index = read_csv(folder / INDEX)
    columns = index.column_names
    if not is_export(columns) or not {GIVEN, "path"} <= set(columns):
        return None
    guessed = index.filter(pc.invert(pc.equal(pc.utf8_lower(index.column(GIVEN)), "true"))).column("path")
    labelled = paths.filter(pc.is_valid(names))
    return guesses_sentence(pc.sum(pc.is_in(labelled, guessed.combine_chunks())).as_py() or 0, folder)


def cut_texts_note(table: pa.Table, owner: Path | str) -> str | None:
    """A sentence on the texts of an exported table, of which it has but the beginning; None for any other table."""
    if not is_export(table.column_names) or "text" not in table.column_names:
        return None
    longest = pc.max(pc.utf8_length(table.column("text").cast(pa.large_string()))).as_py() or 0
    if longest < TEXT_LENGTH:
        return None
    return (
        f"{owner} was written by 'ltgcd export' and has the first {TEXT_LENGTH} characters of each text; give the "
        "texts themselves, and this file with --labels."
    )
