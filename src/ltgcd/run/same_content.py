"""What is known of the content of items that are given beside those of a run: an id alone is no identity.

Images and texts have a digest of their content, which the folder of their features keeps, too; of embeddings, and of
items of which a run keeps nothing else, the vectors are the content.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.data.collection import Collection
from ltgcd.data.content_ids import content_digests
from ltgcd.data.identity import EMPTY
from ltgcd.data.items import Vectors
from ltgcd.data.sources import read_source
from ltgcd.features.cache import contents_in, is_feature_folder
from ltgcd.run.directory import Run
from ltgcd.run.files import features_checksum
from ltgcd.run.items import Features
from ltgcd.run.train import silent, vectors


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


def _are_vectors_of(run: Run, given: Features) -> bool:
    """Whether these are the very vectors that a run was made from."""
    own = Vectors(given.of(run.labels().ids, run))
    return features_checksum(own) == run.config().get("features_checksum")


def features_of_run(run: Run, before: pa.Table, base: Path | None) -> NDArray[np.float32]:
    """Features (N, D) of the run's items, in the order of its assignments."""
    kept = run.features()
    if kept is None and base is not None:
        source = read_source(base, notify=silent)
        kept = Features(source.collection.ids, vectors(source))
        if not _are_vectors_of(run, kept):
            raise InputError(f"{base} holds other vectors than {run} was made from; give the embeddings of the run.")
    if kept is None:
        raise InputError(
            f"{run} keeps no features of its items; give the embeddings that it was made from with --source."
        )
    return kept.of(before.column("id").combine_chunks(), run)


def check_same_items(
    run: Run, ids: pa.StringArray, given: Collection, where: Path, embedded: Path | None = None
) -> str | None:
    """Refuse a source that has other items under the ids of a run's: a table that was sorted or numbered again.

    Gives a sentence about a few that have changed since, or where nothing tells; None where all are as they were.

    Parameters
    ----------
    run : Run
        The run.
    ids : pyarrow.StringArray
        The items of the run that are asked for.
    given : Collection
        What the source holds.
    where : path
        The source.
    embedded : path, optional
        A folder of ``ltgcd embed`` with the features of the run's items.
    """
    known = digests_beside(run, ids, given, where if is_feature_folder(where) else None)
    if known is None and isinstance(given.items, Vectors):
        if pc.is_in(run.labels().ids, given.ids).to_numpy(zero_copy_only=False).all():
            if not _are_vectors_of(run, Features(given.ids, given.items.x)):
                raise _other_items(run, where, "they are not the vectors that it was made from")
            return None
    elif known is None and embedded is not None and is_feature_folder(embedded):
        known = Digests(content_digests(given.items), contents_in(embedded, ids))
    if known is None:
        return f"{run} keeps nothing that tells what its items are: {where} is joined to it by ids alone."
    now = known.given.take(pc.index_in(ids, given.ids))
    can_tell = pc.and_(
        pc.and_(pc.is_valid(now), pc.is_valid(known.held)), pc.fill_null(pc.not_equal(now, EMPTY), False)
    )
    differs = pc.and_(can_tell, pc.fill_null(pc.not_equal(now, known.held), False))
    n, of = pc.sum(differs).as_py(), pc.sum(can_tell).as_py()
    if not n:
        return None
    example = ids.filter(differs)[0].as_py()
    # What is now that of one item was that of another: they have changed places. Else somebody has worked on them.
    if 2 * n >= of or pc.any(pc.is_in(now.filter(differs), known.held.filter(differs))).as_py():
        raise _other_items(run, where, f"{n} of {of} are others, for example '{example}'")
    return (
        f"{n} of {of} {given.items.kind}s in {where} have changed since {run} was made (for example '{example}'); they "
        "are taken as they are now."
    )


def _other_items(run: Run, where: Path, how: str) -> InputError:
    return InputError(
        f"{where} has other items than {run} under the same ids ({how}); give the source that the run was made from, "
        "with the ids that it had."
    )
