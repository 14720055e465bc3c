"""What the page tells about each category: size, confidence, coherence, neighbours, examples, place in the queue.

Everything here is arrays in, arrays out; nothing knows about HTML. Unsure items lean towards a category but are never
members of one: sizes, centres and means are those of the sure items. Only a category that has none is described, not
counted, by what leans towards it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from ltgcd.common.errors import InputError
from ltgcd.data.collection import UNLABELLED, Collection, positions
from ltgcd.graph.whitening import class_means, normalise
from ltgcd.run.directory import class_name, core

STATUSES = ("known", "novel", "unsure")
KNOWN, NOVEL, UNSURE = range(3)
EXAMPLES = 4  # of each kind a category: centre, edge, least sure, and unsure items that lean towards it
NEAREST = 3  # known classes beside a category
ROWS = 4096  # rows of a block
COMMON = 0.04  # share of the texts, all in other categories, that makes a word too general for a name
LEAST_COHERENCE = 0.05  # what a category without any coherence still counts in the queue


@dataclass(frozen=True, eq=False)
class Assigned:
    """The items of a collection that got a label, in the collection's order.

    Attributes
    ----------
    rows : ndarray of int64, shape (M,)
        Rows of the collection.
    category : ndarray of int64, shape (M,)
        Position of the item's category in `labels`; for an unsure item the one that it leans towards.
    status : ndarray of int64, shape (M,)
        0 known, 1 novel, 2 unsure.
    confidence : ndarray of float32, shape (M,)
        In [0, 1].
    labels : ndarray of int64, shape (C,)
        The labels that occur, ascending.
    names : tuple of str
        Names of these categories.
    kinds : ndarray of int64, shape (C,)
        0 for a known class, 1 for a novel category.
    """

    rows: NDArray[np.int64]
    category: NDArray[np.int64]
    status: NDArray[np.int64]
    confidence: NDArray[np.float32]
    labels: NDArray[np.int64]
    names: tuple[str, ...]
    kinds: NDArray[np.int64]

    @property
    def members(self) -> NDArray[np.int64]:
        """Category of each sure item, -1 for an unsure one, shape (M,)."""
        return np.where(self.status == UNSURE, UNLABELLED, self.category).astype(np.int64)

    @property
    def core(self) -> NDArray[np.int64]:
        """Category of each item that says what its category is like, -1 for the others."""
        return core(self.category, self.status != UNSURE)


def align(collection: Collection, assignments: pa.Table) -> Assigned:
    """Bring assignments (id, label, name, status, confidence) into the order of the collection's items."""
    ids = assignments.column("id").combine_chunks()
    rows = positions(ids, collection.ids, "the source", "give the source that the run was made from")
    order = np.argsort(rows, kind="stable")
    status = pc.index_in(assignments.column("status").combine_chunks().cast(pa.string()), pa.array(STATUSES))
    if status.null_count:
        raise InputError("Assignments have a status that is not known, novel or unsure; make the run again.")
    codes = np.asarray(status.to_numpy(zero_copy_only=False), dtype=np.int64)[order]
    label = np.asarray(assignments.column("label").to_numpy(), dtype=np.int64)[order]
    confidence = np.asarray(assignments.column("confidence").to_numpy(), dtype=np.float32)[order]
    labels, category = np.unique(label, return_inverse=True)
    kinds = (labels >= collection.n_old).astype(np.int64)
    names = [class_name(int(value), collection.class_names) for value in labels]
    # The name of a category is that of any sure member; an unsure item's own may be that of the bin.
    sure = np.flatnonzero(codes != UNSURE)
    first, at = np.unique(category[sure], return_index=True)
    kinds[first] = codes[sure[at]]
    given = assignments.column("name").take(pa.array(order[sure[at]])).to_pylist()
    for where, name in zip(first.tolist(), given, strict=True):
        names[where] = name or names[where]
    return Assigned(
        rows[order],
        category.astype(np.int64),
        codes,
        np.clip(np.nan_to_num(confidence), 0.0, 1.0),
        labels,
        tuple(names),
        kinds,
    )


def directions(features: NDArray[np.floating]) -> NDArray[np.float32]:
    """Features (M, D) seen from their mean, at unit length: embeddings often share a large part that says nothing."""
    x = np.asarray(features, dtype=np.float32)
    return normalise(x - x.mean(axis=0, dtype=np.float64).astype(np.float32))


@dataclass(frozen=True, eq=False)
class Geometry:
    """How items lie to the categories' centres.

    Attributes
    ----------
    closeness : ndarray of float32, shape (M,)
        Cosine of each item to the centre of its category, the item itself left out of the centre.
    coherence : ndarray of float64, shape (C,)
        Mean simplified silhouette of the core items, in [-1, 1]; NaN for fewer than two, or without another category.
    similarity : ndarray of float32, shape (C, C)
        Cosines of the centres.
    """

    closeness: NDArray[np.float32]
    coherence: NDArray[np.float64]
    similarity: NDArray[np.float32]


def geometry(z: NDArray[np.float32], assigned: Assigned) -> Geometry:
    """Lay the items (M, D) against the centres of the categories.

    The silhouette of an item is s = (b − a) / max(a, b), with a and b its cosine distances to the centre of its own
    category and to the nearest other one.
    """
    members, n = assigned.core, len(assigned.labels)
    means, counts = class_means(z, members, n)
    sums, centres = means * counts[:, None], normalise(means)
    inside, own = members != UNLABELLED, assigned.category
    dot = np.einsum("nd,nd->n", z, sums[own])
    length = np.einsum("nd,nd->n", z, z)
    squared = np.einsum("cd,cd->c", sums, sums)[own]
    # A member is taken out of the sum that its own centre is made of: |S − z|² = |S|² − 2 z·S + |z|².
    rest = np.where(inside, squared - 2 * dot + length, squared)
    closeness = np.where(inside, dot - length, dot) / np.sqrt(np.maximum(rest, 1e-12))
    closeness = np.clip(closeness, -1, 1).astype(np.float32)
    other = np.full(len(z), -1.0, dtype=np.float32)
    filled = counts > 0
    for start in range(0, len(z), ROWS):
        cosines = z[start : start + ROWS] @ centres.T
        cosines[:, ~filled] = -1.0
        cosines[np.arange(len(cosines)), own[start : start + ROWS]] = -1.0
        other[start : start + ROWS] = cosines.max(axis=1)
    a, b = 1.0 - closeness, 1.0 - other
    silhouette = (b - a) / np.maximum(np.maximum(a, b), 1e-12)
    total = np.bincount(own[inside], weights=silhouette[inside], minlength=n)
    with np.errstate(invalid="ignore", divide="ignore"):
        coherence = np.where((counts > 1) & (filled.sum() > 1), total / counts, np.nan)
    return Geometry(closeness, coherence, centres @ centres.T)


def nearest_known(assigned: Assigned, similarity: NDArray[np.float32]) -> list[list[tuple[int, float]]]:
    """The `NEAREST` known classes of each category, itself excluded, with the cosine of the centres."""
    core = assigned.core
    sizes = np.bincount(core[core >= 0], minlength=len(assigned.labels))
    eligible = np.flatnonzero((assigned.kinds == KNOWN) & (sizes > 0))
    cosines = similarity[:, eligible].copy()
    cosines[eligible, np.arange(len(eligible))] = -2.0  # not itself
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :NEAREST]
    return [
        [(int(eligible[j]), round(float(row[j]), 3)) for j in columns if row[j] > -2.0] if size else []
        for row, columns, size in zip(cosines, best, sizes, strict=True)
    ]


def examples(assigned: Assigned, closeness: NDArray[np.float32]) -> list[dict[str, list[int]]]:
    """Items to show for each category, as positions in `assigned`, no item twice.

    ``centre``: nearest to the centre; ``doubtful``: least confident; ``edge``: farthest from the centre; ``leaning``:
    unsure items that lean towards the category. A category of up to 3 · `EXAMPLES` items is shown whole.
    """
    order = np.lexsort((-closeness, assigned.category, assigned.status == UNSURE))
    sure = order[assigned.status[order] != UNSURE]
    unsure = order[assigned.status[order] == UNSURE]
    bounds = np.arange(len(assigned.labels) + 1)
    at, at_unsure = np.searchsorted(assigned.category[sure], bounds), np.searchsorted(assigned.category[unsure], bounds)
    found = []
    for c in range(len(assigned.labels)):
        rows, leaning = sure[at[c] : at[c + 1]], unsure[at_unsure[c] : at_unsure[c + 1]]
        rest = rows[EXAMPLES:]
        doubtful = rest[np.argsort(assigned.confidence[rest], kind="stable")[:EXAMPLES]]
        edge = rest[~np.isin(rest, doubtful)][::-1][:EXAMPLES]
        leaning = leaning[np.argsort(-assigned.confidence[leaning], kind="stable")[:EXAMPLES]]
        found.append(
            {
                "centre": rows[:EXAMPLES].tolist(),
                "edge": edge.tolist(),
                "doubtful": doubtful.tolist(),
                "leaning": leaning.tolist(),
            }
        )
    return found


def queue_order(
    kinds: NDArray[np.int64],
    sizes: NDArray[np.int64],
    unsure: NDArray[np.int64],
    confidence: NDArray[np.float64],
    coherence: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Categories by what is worth looking at first, shape (C,).

    Novel ones of two items or more come first, by log2(1 + size) · coherence; then novel singletons and those with
    unsure items alone, by confidence; then known classes, by the number of unsure items that lean towards them and, if
    equal, the least confident first. The page puts the bin of unsure items after the first of the three.
    """
    tier = np.where(kinds == KNOWN, 2, np.where(sizes >= 2, 0, 1))
    score = np.log2(1.0 + sizes) * np.maximum(np.nan_to_num(coherence, nan=1.0), LEAST_COHERENCE)
    merit = np.select([tier == 0, tier == 1], [score, np.nan_to_num(confidence)], unsure.astype(np.float64))
    return np.lexsort((np.nan_to_num(confidence), -merit, tier)).astype(np.int64)


def top_terms(texts: list[str], members: NDArray[np.int64], n: int, k: int = 5) -> list[list[str]]:
    """Words and pairs of words that tell each of `n` categories from the rest: TF-IDF with the rest as the corpus.

    The score of a term is the share of the category's texts that hold it, times log((1 + R) / (1 + r)), where r of the
    R other texts hold it. A term that says no more than one already taken is left out.
    """
    if not texts:
        return [[] for _ in range(n)]
    try:
        vectorizer = CountVectorizer(ngram_range=(1, 2), binary=True, dtype=np.float32)
        holds = vectorizer.fit_transform(texts)
    except ValueError:  # no words at all: only punctuation or single letters
        return [[] for _ in range(n)]
    words = vectorizer.get_feature_names_out()
    inside = np.flatnonzero(members != UNLABELLED)
    member = sparse.csr_matrix(
        (np.ones(len(inside), np.float32), (members[inside], inside)), shape=(n, len(texts)), dtype=np.float32
    )
    within, overall = (member @ holds).tocsr(), np.asarray(holds.sum(axis=0)).ravel()
    sizes = np.asarray(member.sum(axis=1)).ravel()
    # Everyday words of any language are those that many texts of other categories hold, if there are enough to tell.
    general_from = COMMON * len(texts) if len(texts) >= 50 else np.inf
    terms = []
    for c in range(n):
        columns = within.indices[within.indptr[c] : within.indptr[c + 1]]
        counts = within.data[within.indptr[c] : within.indptr[c + 1]]
        often = counts >= min(2, sizes[c] / 2)  # what one text of many says is no name for all
        columns, counts = columns[often], counts[often]
        elsewhere = overall[columns] - counts
        score = counts / max(sizes[c], 1) * np.log((1 + len(texts) - sizes[c]) / (1 + elsewhere))
        ranked = [str(word) for word in words[columns[np.lexsort((columns, -score))[: 8 * k]]]]
        held = dict(zip(columns.tolist(), counts.tolist(), strict=True))
        parts = {word: vectorizer.vocabulary_[word] for term in ranked for word in term.split()}
        general = {word for word, at in parts.items() if overall[at] - held.get(at, 0) > general_from}
        terms.append(_distinct_terms(ranked, k, general) or _distinct_terms(ranked, k, set()))
    return terms


def _distinct_terms(ranked: list[str], k: int, general: set[str]) -> list[str]:
    """The first `k` terms that each bring a word of their own, other than a general one."""
    taken: list[str] = []
    told = set(general)
    for term in ranked:
        if not set(term.split()) <= told:
            taken.append(term)
            told |= set(term.split())
        if len(taken) == k:
            break
    return taken


def suggested_names(
    terms: list[list[str]] | None, nearest: list[list[tuple[int, float]]], names: tuple[str, ...]
) -> list[str]:
    """A name to start from: the top terms where there are texts, else the nearest known classes."""
    suggested = []
    for c, near in enumerate(nearest):
        if terms is not None and terms[c]:
            suggested.append(" · ".join(terms[c][:3]))
        elif near:
            suggested.append("near " + ", ".join(names[other] for other, _ in near[:2]))
        else:
            suggested.append("")
    return suggested
