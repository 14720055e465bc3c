"""What is known of the content of items that are given beside those of a run: an id alone is no identity.

Images and texts have a digest of their content, which the folder of their features keeps, too; of embeddings, and of
items of which a run keeps nothing else, the vectors are the content.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ltgcd.data.collection import Collection
from ltgcd.data.content_ids import content_digests
from ltgcd.data.items import Vectors
from ltgcd.features.cache import contents_in
from ltgcd.run.directory import Run
from ltgcd.run.items import Features


class Digests(NamedTuple):
    """Digests of given items (N) and of a run's (M), of the same thing; null where the content is not known."""

    given: pa.StringArray
    held: pa.StringArray


def digests_beside(
    run: Run, ids: pa.StringArray, given: Collection, folder: Path | None = None, features: Features | None = None
) -> Digests | None:
    """Digests of given items and of the run's items `ids`; None where the run knows nothing that both have.

    Parameters
    ----------
    run : Run
        The run.
    ids : pyarrow.StringArray, length M
        Items of the run.
    given : Collection
        N items.
    folder : path, optional
        The folder of ``ltgcd embed`` that they were read from.
    features : Features, optional
        Of the run's items, where it does not keep them itself.
    """
    items, is_of_vectors = given.items, run.kind == "vector"
    if items.kind == run.kind and not is_of_vectors:
        held = run.digests(ids)
        return None if held is None else Digests(content_digests(items), held)
    if not isinstance(items, Vectors):
        return None
    if folder is not None and not is_of_vectors and (held := run.digests(ids)) is not None:
        return Digests(contents_in(folder, given.ids), held)
    features = run.features() if features is None else features
    if features is None:
        return None
    kept = content_digests(Vectors(features.x))
    return Digests(content_digests(items), kept.take(pc.index_in(ids, features.ids)))
