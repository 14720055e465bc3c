"""Which items of a source a run has already: an item is its id and its content.

Cameras number their pictures from the start again, and tables without ids count their rows. So the same id with other
content is another item: it gets an id of its own, and nothing is skipped. Arrays in, arrays out; no files.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

EMPTY = "cae66941d9efbd404e4d88758ea67670"  # the digest of an empty file: an image that can't be read


class Comparison(NamedTuple):
    """The items of a source beside those of a run.

    Attributes
    ----------
    ids : pyarrow.StringArray, length N
        The id of each item of the source in the run: of one that is there already, the one it has there.
    is_new : ndarray of bool, shape (N,)
        Whether the run does not have it yet.
    renamed : list of (str, str)
        New items whose id the run has for other content: the id in the source, and the one they get.
    copies : list of (str, str)
        New items with the content of an item of the run that is called otherwise: both ids.
    """

    ids: pa.StringArray
    is_new: NDArray[np.bool_]
    renamed: list[tuple[str, str]]
    copies: list[tuple[str, str]]

    def sentences(self, holder: str = "the run") -> list[str]:
        """What a person should know of it; `holder` is what has the other items."""
        found = []
        if self.renamed:
            old, new = self.renamed[0]
            found.append(
                f"{_items(self.renamed, 'has', 'have')} an id that {holder} has for other content; added under a new "
                f"one (for example '{old}' as '{new}')."
            )
        if self.copies:
            new, held = self.copies[0]
            found.append(
                f"{_items(self.copies, 'has', 'have')} the same content as items that {holder} has under other ids "
                f"(for example '{new}' and '{held}'); added all the same."
            )
        return found


def _items(pairs: list[tuple[str, str]], has: str, have: str) -> str:
    return f"1 new item {has}" if len(pairs) == 1 else f"{len(pairs):,} new items {have}"


def compare_items(
    ids: pa.StringArray, digests: pa.StringArray | None, held: pa.StringArray, held_digests: pa.StringArray | None
) -> Comparison:
    """Tell the items of a source that a run has from those that it has not.

    Parameters
    ----------
    ids, digests : pyarrow.StringArray, length N
        Ids and content digests of the source; without digests an id alone decides.
    held, held_digests : pyarrow.StringArray, length M
        Those of the run; null where the content is not known.
    """
    at = pc.index_in(ids, held)
    if digests is None or held_digests is None:
        return Comparison(ids, np.asarray(at.is_null()), [], [])
    before = held_digests.take(at)
    # What can't be read now, or was not kept, can't be told apart: then the id alone decides.
    same = pc.or_kleene(pc.equal(before, digests), pc.or_(pc.is_null(before), pc.equal(digests, EMPTY)))
    is_there = np.asarray(pc.and_(pc.is_valid(at), pc.fill_null(same, False)))
    digest_of = dict(zip(held.to_pylist(), held_digests.to_pylist(), strict=True)) if not is_there.all() else {}
    taken = {*digest_of, *ids.to_pylist()} if digest_of else set()
    called = {digest: name for name, digest in reversed(digest_of.items()) if digest not in (None, EMPTY)}
    names: list[str] = ids.to_pylist()
    renamed: list[tuple[str, str]] = []
    copies: list[tuple[str, str]] = []
    for row in np.flatnonzero(~is_there).tolist():
        name, digest = names[row], digests[row].as_py()
        if name in digest_of:
            numbered = (numbered_id(name, n) for n in itertools.count(2))
            new = next(one for one in numbered if one not in taken or digest_of.get(one) == digest)
            names[row], is_there[row] = new, new in digest_of
            if not is_there[row]:
                taken.add(new)
                renamed.append((name, new))
        if not is_there[row] and digest in called:
            copies.append((names[row], called[digest]))
    return Comparison(pa.array(names, pa.string()), ~is_there, renamed, copies)


def numbered_id(item_id: str, number: int) -> str:
    """An id with a number, where a file manager would put it: "cat/IMG_1 (2).jpg"."""
    folder, slash, last = item_id.rpartition("/")
    stem, dot, ending = last.rpartition(".")
    if not stem or len(ending) > 5:
        stem, dot, ending = last, "", ""
    return f"{folder}{slash}{stem} ({number}){dot}{ending}"
