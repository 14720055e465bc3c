"""Words that tell one category of texts from the others, to start a name from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from ltgcd.data.collection import UNLABELLED

COMMON = 0.04  # share of the texts, all in other categories, that makes a word too general for a name


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
    covered = set(general)
    for term in ranked:
        if not set(term.split()) <= covered:
            taken.append(term)
            covered |= set(term.split())
        if len(taken) == k:
            break
    return taken
