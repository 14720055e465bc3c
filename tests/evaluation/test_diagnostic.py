"""Where the errors are, against numbers worked out by hand and a loop over items."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ltgcd.evaluation.diagnostic import nearest_true_mean
from ltgcd.evaluation.metric import evaluate, oracle_scores
from ltgcd.graph.whitening import fit_whitening

pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=30)


def test_errors_by_hand() -> None:
    # Old 0 and 1, New 2 and 3; clusters 10 … 13 are theirs, 14 is a surplus one.
    true = np.array([0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3])
    said = np.array([10, 10, 11, 12, 11, 11, 12, 12, 10, 13, 13, 13, 13, 14])
    got = evaluate(true, said, 2)
    assert got.errors["old"] == {"right": 75.0, "in_old": 12.5, "in_new": 12.5, "in_none": 0.0}
    assert got.errors["new"] == {"right": 62.5, "in_old": 12.5, "in_new": 12.5, "in_none": 12.5}
    assert got.error_items == {
        "old": {"right": 4, "in_old": 1, "in_new": 1, "in_none": 0},
        "new": {"right": 5, "in_old": 1, "in_new": 1, "in_none": 1},
    }
    assert got.oracle is None
    assert got.as_dict()["errors"]["new"]["in_none"] == 12.5
    assert evaluate(true, said, 4).errors["new"] is None


@settings(max_examples=100, deadline=None)
@example([(0, 0), (1, 1), (1, 3), (2, 1), (2, 2)], 2, 2)  # two matchings that weighed the same once
@given(pairs=pairs, n_old=st.integers(0, 5), seed=st.integers(0, 9))
def test_errors_add_up_and_do_not_depend_on_numbers_of_clusters(
    pairs: list[tuple[int, int]], n_old: int, seed: int
) -> None:
    true, said = np.array([t for t, _ in pairs]), np.array([p for _, p in pairs])
    got = evaluate(true, said, n_old)
    for group, score, items in (
        ("old", got.balanced_acc.old, true < n_old),
        ("new", got.balanced_acc.new, true >= n_old),
    ):
        shares = got.errors[group]
        assert (shares is None) == (score is None)
        if shares is not None and score is not None:
            assert np.isclose(sum(shares.values()), 100)
            assert np.isclose(shares["right"], score)
        assert sum(got.error_items[group].values()) == items.sum()
    renumbered = np.random.RandomState(seed).permutation(7)[said]
    other = evaluate(true, renumbered, n_old)
    assert (other.errors, other.error_items) == (got.errors, got.error_items)


def test_the_nearest_true_mean_leaves_the_item_out() -> None:
    random = np.random.RandomState(0)
    true = np.repeat(np.arange(6), [20, 20, 20, 10, 2, 1])
    x = (random.randn(6, 12)[true] + 0.7 * random.randn(len(true), 12)).astype(np.float32)
    scored = np.ones(len(true), dtype=bool)
    scored[[*range(10), *range(20, 30)]] = False  # classes 0 and 1 have labelled items, class 2 is old without any
    got = nearest_true_mean(x, true, scored, 3)
    white = fit_whitening(x, np.where(scored, -1, true), 3).transform(x)
    for place, row in enumerate(np.flatnonzero(scored)):
        best, found = -1, -np.inf
        for c in range(6):
            members = np.flatnonzero((true == c) & (~scored if c < 2 else scored) & (np.arange(len(true)) != row))
            if len(members):
                mean = white[members].mean(axis=0)
                cosine = float(white[row] @ mean / np.linalg.norm(mean))
                if cosine > found:
                    best, found = c, cosine
        assert got[place] == best
    assert got[-1] != 5  # a class of one item can't be found without it
    scores = oracle_scores(x, true, scored, 3)
    recall = [100 * (got[true[scored] == c] == c).mean() for c in range(6)]
    assert np.isclose(scores["balanced_acc"].all, np.mean(recall))
    assert np.isclose(scores["balanced_acc"].new, np.mean(recall[3:]))
    assert np.isclose(scores["acc"].all, 100 * (got == true[scored]).mean())
