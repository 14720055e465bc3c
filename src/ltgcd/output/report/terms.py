"""Words that tell one category of texts from the others, to start a name from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

COMMON = 0.04  # share of the texts, all in other categories, that makes a word too general for a name


class Vocabulary:
    """The words of some texts, counted once: terms of any part of them follow without reading the others again."""

    def __init__(self, texts: list[str]) -> None:
        self.n = len(texts)
        vectorizer = CountVectorizer(ngram_range=(1, 2), binary=True, dtype=np.float32)
        try:
            self._holds = vectorizer.fit_transform(texts)
        except ValueError:  # no words at all: only punctuation or single letters
            self.n = 0
            return
        self._words, self._place = vectorizer.get_feature_names_out(), vectorizer.vocabulary_
        self._overall = np.asarray(self._holds.sum(axis=0)).ravel()

    def terms(self, rows: NDArray[np.int64], k: int = 5) -> list[str]:
        """At most `k` terms that tell the texts of some rows from the rest: TF-IDF with the rest as the corpus.

        The score of a term is the share of the category's texts that hold it, times log((1 + R) / (1 + r)), where r of
        the R other texts hold it. A term that says no more than one already taken is left out.
        """
        if not self.n or not len(rows):
            return []
        size, overall = len(rows), self._overall
        columns, counts = np.unique(self._holds[rows].indices, return_counts=True)
        often = counts >= min(2, size / 2)  # what one text of many says is no name for all
        columns, counts = columns[often], counts[often]
        elsewhere = overall[columns] - counts
        score = counts / size * np.log((1 + self.n - size) / (1 + elsewhere))
        ranked = [str(word) for word in self._words[columns[np.lexsort((columns, -score))[: 8 * k]]]]
        held = dict(zip(columns.tolist(), counts.tolist(), strict=True))
        parts = {word: self._place[word] for term in ranked for word in term.split()}
        # Everyday words of any language are those that many texts of other categories hold, if there are enough.
        general_from = COMMON * self.n if self.n >= 50 else np.inf
        general = {word for word, at in parts.items() if overall[at] - held.get(at, 0) > general_from}
        return _distinct_terms(ranked, k, general) or _distinct_terms(ranked, k, set())


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
