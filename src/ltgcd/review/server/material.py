"""What a run has to show of its items, read once: ids, pictures or texts, places on the map, whitened features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.data.collection import UNLABELLED, Collection
from ltgcd.data.items import Items, Kind, Texts
from ltgcd.discovery.classes import JUNK
from ltgcd.graph.class_shapes import class_shapes
from ltgcd.output.report.categories import vocabulary
from ltgcd.output.report.geometry import whitened_features
from ltgcd.output.report.layout import tail_sample
from ltgcd.output.report.pictures import Pictures, pictures_of_vectors
from ltgcd.output.report.tally import Now
from ltgcd.output.report.terms import Vocabulary
from ltgcd.review.suggest import fitted_temperature
from ltgcd.run.directory import Run
from ltgcd.run.report import features_of, shown_in_order
from ltgcd.run.suggested import source_labels

DRAWN = 150_000  # points on the map; of more items a sample that keeps the tail


@dataclass(frozen=True, eq=False)
class Material:
    """The items of a run, none of which an edit changes.

    Attributes
    ----------
    ids : pyarrow.StringArray
        Ids of the N items, in the order of the assignments.
    items : Items or None
        Their images or texts; None where there are only vectors, or the images are gone.
    kind : {"image", "text", "vector"}
        How they are shown.
    y : ndarray of int64, shape (N,)
        Labels of the source, -1 for none.
    z : ndarray of float32, shape (N, d)
        Whitened features of unit length.
    xy : ndarray of float32, shape (N, 2)
        Places on the map.
    drawn : ndarray of bool, shape (N,)
        Items that the map draws.
    temperature : float
        Of the softmax over cosines, see `ltgcd.review.suggest.fitted_temperature`.
    estimate : dict or None
        Of the number of classes.
    pictures : callable or None
        Pictures of some rows, where vectors are pixels.
    """

    ids: pa.StringArray
    items: Items | None
    kind: Kind
    y: NDArray[np.int64]
    z: NDArray[np.float32]
    xy: NDArray[np.float32]
    drawn: NDArray[np.bool_]
    temperature: float
    estimate: dict[str, Any] | None
    pictures: Pictures | None = None

    @cached_property
    def labelled(self) -> NDArray[np.bool_]:
        """Items that were labelled in the source, shape (N,)."""
        return np.asarray(self.y != UNLABELLED)

    @cached_property
    def n_labelled(self) -> int:
        """How many."""
        return int(self.labelled.sum())

    @property
    def with_texts(self) -> Collection | None:
        """The items where they are texts, for a table that shows them."""
        if not isinstance(self.items, Texts):
            return None
        return Collection(self.ids, self.items, np.full(len(self.ids), UNLABELLED, dtype=np.int64), ())

    def texts(self, rows: NDArray[np.int64]) -> list[str] | None:
        """Some of the texts; None where the items are none."""
        return [str(text) for text in self.items.take(rows)] if isinstance(self.items, Texts) else None

    def vocabulary(self, now: Now) -> tuple[Vocabulary, NDArray[np.int64]] | None:
        """Words of the texts, and the rows that were read; None where the items are no texts."""
        return vocabulary(self.items, now.code, now.status != JUNK) if isinstance(self.items, Texts) else None


def read_material(run: Run, table: pa.Table) -> Material:
    """Read what a finished run with these assignments has to show."""
    ids = table.column("id").combine_chunks()
    y = source_labels(run, ids)
    given = run.items()
    x = features_of(run, ids, None, given)
    items, _gone = shown_in_order(run, ids, given)
    pictures = pictures_of_vectors(x) if items is None else None
    z, known = whitened_features(x, y), int(y.max(initial=-1)) + 1
    code = np.asarray(table.column("label").to_numpy(), dtype=np.int64)
    drawn = np.zeros(len(ids), dtype=np.bool_)
    drawn[tail_sample(np.unique(code, return_inverse=True)[1].astype(np.int64), DRAWN, run.seed)] = True
    return Material(
        ids=ids,
        items=items,
        kind="image" if pictures is not None else "vector" if items is None else items.kind,
        y=y,
        z=z,
        xy=_places(run, ids, z),
        drawn=drawn,
        temperature=fitted_temperature(z, y, class_shapes(z, y, known), run.seed),
        estimate=run.estimate(),
        pictures=pictures,
    )


def _places(run: Run, ids: pa.StringArray, z: NDArray[np.float32]) -> NDArray[np.float32]:
    """Places on the map that the run keeps; a run whose page was never drawn shows its first two components."""
    kept = run.places()
    if kept is not None and kept[0].equals(ids):
        return np.asarray(kept[1].xy, dtype=np.float32)
    if kept is not None and not (at := pc.index_in(ids, kept[0])).null_count:
        return np.asarray(kept[1].xy[at.to_numpy()], dtype=np.float32)
    flat = np.zeros((len(z), 2), dtype=np.float32)
    flat[:, : min(2, z.shape[1])] = z[:, :2]
    return flat
