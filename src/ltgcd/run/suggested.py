"""The column of proposed names in the assignments of a run: what a novel category might be called."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.common.files import read_metadata
from ltgcd.data.collection import UNLABELLED, Collection, positions
from ltgcd.data.items import Items, Vectors
from ltgcd.discovery.classes import SUGGESTED, classes_of, with_suggested
from ltgcd.run.directory import Run


def with_suggestions(
    table: pa.Table, collection: Collection, x: NDArray[np.floating], y: NDArray[np.int64]
) -> pa.Table:
    """Assignments of a collection with features x (N, D), with a proposed name for every novel category.

    `y` (N,) are all labels of the source, -1 for none: likeness is measured by them, see
    `ltgcd.output.report.geometry.whitened_features`.
    """
    from ltgcd.output.report.categories import suggested_names  # noqa: PLC0415 - scikit-learn takes a second to import

    classes = classes_of(read_metadata(table.schema), collection.class_names)
    return with_suggested(table, classes, suggested_names(collection, x, table, y))


def with_suggestions_of_run(
    run: Run, table: pa.Table, x: NDArray[np.floating], y: NDArray[np.int64] | None = None
) -> pa.Table:
    """The same of a run that keeps its items; the rows of x are in the order of `table`.

    `y` are the labels where those of an update are not with the run's own yet.
    """
    ids, given = table.column("id").combine_chunks(), run.items() if run.kind == "text" else None
    shown: Items = Vectors(x)
    if given is not None:
        shown = given.items.select(positions(ids, given.ids, f"the texts of {run}", "restore them"))
    names = run.labels().class_names[: read_metadata(table.schema).get("n_old")]
    unlabelled = np.full(len(ids), UNLABELLED)  # classes that the fit did not know have no place among these names
    y = source_labels(run, ids) if y is None else y
    return with_suggestions(table, Collection(ids, shown, unlabelled, names), x, y)


def source_labels(run: Run, ids: pa.StringArray) -> NDArray[np.int64]:
    """Labels (N,) that these items came with, as places in ``run.labels().class_names``; -1 for none."""
    labels = run.labels()
    return labels.y[positions(ids, labels.ids, f"the labels of {run}", "restore them")]


def shown_collection(run: Run, table: pa.Table, x: NDArray[np.floating], items: Items | None = None) -> Collection:
    """The items of assignments with the labels that they came with, as a page shows them."""
    ids, labels = table.column("id").combine_chunks(), run.labels()
    n_old = int(read_metadata(table.schema).get("n_old", len(labels.class_names)))
    # A class that was named after training has its number behind the novel ones; the page asks who is labelled only.
    y = np.minimum(source_labels(run, ids), n_old - 1)
    return Collection(ids, items or Vectors(x), y, labels.class_names[:n_old])


def suggestions_agree(table: pa.Table, class_names: tuple[str, ...]) -> bool:
    """Whether the column of proposed names is what the note beside it says; also where there is neither."""
    note = read_metadata(table.schema)
    if SUGGESTED not in note:
        return SUGGESTED not in table.column_names
    if SUGGESTED not in table.column_names:
        return False
    made = with_suggested(table, classes_of(note, class_names), note[SUGGESTED])
    return bool(made.column(SUGGESTED).equals(table.column(SUGGESTED)))
