"""The metric, against numbers worked out by hand and brute force; each pitfall of docs/methods.md §2 has a test."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.common.errors import InputError
from ltgcd.data.collection import Truth
from ltgcd.evaluation.metric import evaluate, evaluate_assignments, many_medium_few
from ltgcd.graph.matching import confusion, match


def brute_force(y_true: list[int], y_pred: list[int], weight) -> list[dict[int, int]]:
    """Every one-to-one map from classes to clusters that maximises Σ weight(class, cluster), by trying them all."""
    classes, clusters = sorted(set(y_true)), sorted(set(y_pred))
    # Dummy clusters -1, -2, … stand for "no cluster", so that there may be fewer clusters than classes.
    targets = clusters + [-1 - i for i in range(max(0, len(classes) - len(clusters)))]
    options = [dict(zip(classes, chosen, strict=True)) for chosen in itertools.permutations(targets, len(classes))]
    values = [sum(weight(c, p) for c, p in option.items()) for option in options]
    best = max(values)
    return [option for option, value in zip(options, values, strict=True) if value > best - 1e-9]


def count(y_true: list[int], y_pred: list[int], c: int, p: int) -> int:
    return sum(1 for t, q in zip(y_true, y_pred, strict=True) if t == c and q == p)


pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=25)


@settings(max_examples=150, deadline=None)
@given(pairs=pairs, n_old=st.integers(0, 5))
def test_against_brute_force(pairs: list[tuple[int, int]], n_old: int) -> None:
    y_true, y_pred = [t for t, _ in pairs], [p for _, p in pairs]
    size = {c: y_true.count(c) for c in set(y_true)}
    optima = brute_force(y_true, y_pred, lambda c, p: count(y_true, y_pred, c, p))

    def scores(option: dict[int, int]) -> tuple[float, ...]:
        hits = {c: count(y_true, y_pred, c, p) for c, p in option.items()}
        old, new = [c for c in size if c < n_old], [c for c in size if c >= n_old]
        out = []
        for group in (list(size), old, new):
            out.append(100 * sum(hits[c] for c in group) / sum(size[c] for c in group) if group else None)
            out.append(100 * sum(hits[c] / size[c] for c in group) / len(group) if group else None)
        return tuple(out)

    got = evaluate(np.array(y_true), np.array(y_pred), n_old)
    figures = (
        got.acc.all, got.balanced_acc.all, got.acc.old, got.balanced_acc.old, got.acc.new, got.balanced_acc.new,
    )  # fmt: skip
    candidates = [scores(option) for option in optima]
    # One single optimal matching must explain all six figures, and it is one with the best balanced All.
    assert any(
        all(a == pytest.approx(b) if a is not None else b is None for a, b in zip(c, figures, strict=True))
        for c in candidates
    )
    assert got.balanced_acc.all == pytest.approx(max(c[1] for c in candidates))
    balanced = brute_force(y_true, y_pred, lambda c, p: count(y_true, y_pred, c, p) / size[c])
    assert got.balanced_matching.all == pytest.approx(max(scores(option)[1] for option in balanced))


@settings(max_examples=200, deadline=None)
@given(pairs=pairs, n_old=st.integers(0, 5))
def test_ties_by_brute_force(pairs: list[tuple[int, int]], n_old: int) -> None:
    """Most items, then mean recall, then recall of Old, then items of Old: exact fractions over all matchings."""
    y_true, y_pred = [t for t, _ in pairs], [p for _, p in pairs]
    size = {c: y_true.count(c) for c in set(y_true)}
    optima = brute_force(y_true, y_pred, lambda c, p: count(y_true, y_pred, c, p))

    def goals(option: dict[int, int]) -> tuple[Fraction, Fraction, int]:
        hits = {c: count(y_true, y_pred, c, p) for c, p in option.items()}
        recall = {c: Fraction(hits[c], size[c]) for c in hits}
        old = [c for c in hits if c < n_old]
        return sum(recall.values(), Fraction(0)), sum((recall[c] for c in old), Fraction(0)), sum(hits[c] for c in old)

    total, old_total, old_hits = max(goals(option) for option in optima)
    got = evaluate(np.array(y_true), np.array(y_pred), n_old)
    assert got.balanced_acc.all == pytest.approx(100 * float(total) / len(size), abs=1e-9)
    if got.acc.old is not None:
        old = [c for c in size if c < n_old]
        assert got.balanced_acc.old == pytest.approx(100 * float(old_total) / len(old), abs=1e-9)
        assert got.acc.old == pytest.approx(100 * old_hits / sum(size[c] for c in old), abs=1e-9)


@settings(max_examples=200, deadline=None)
@given(pairs=pairs, seed=st.integers(0, 1000), n_old=st.integers(0, 5))
def test_the_order_of_items_and_the_numbers_of_clusters_do_not_matter(
    pairs: list[tuple[int, int]], seed: int, n_old: int
) -> None:
    y_true, y_pred = np.array([t for t, _ in pairs]), np.array([p for _, p in pairs])
    random = np.random.RandomState(seed)
    order, names = random.permutation(len(pairs)), random.permutation(100)[:6]
    a, b = evaluate(y_true, y_pred, n_old), evaluate(y_true[order], names[y_pred[order]], n_old)
    for name in ("acc", "balanced_acc", "many_medium_few", "balanced_matching", "acc_v1"):
        assert getattr(a, name) == getattr(b, name)
    assert a.nmi == pytest.approx(b.nmi)
    assert a.ari == pytest.approx(b.ari)


@settings(max_examples=200, deadline=None)
@given(pairs=pairs, seed=st.integers(0, 1000), n_old=st.integers(0, 5))
def test_the_numbers_of_classes_do_not_matter_within_old_and_new(
    pairs: list[tuple[int, int]], seed: int, n_old: int
) -> None:
    y_true, y_pred = np.array([t for t, _ in pairs]), np.array([p for _, p in pairs])
    random = np.random.RandomState(seed)
    number = np.concatenate([random.permutation(n_old), n_old + random.permutation(9)])
    a, b = evaluate(y_true, y_pred, n_old), evaluate(number[y_true], y_pred, n_old)
    for name in ("acc", "balanced_acc", "balanced_matching", "acc_v1"):
        for one, other in zip(getattr(a, name), getattr(b, name), strict=True):
            assert one == other if one is None else one == pytest.approx(other, abs=1e-9)


def test_old_and_new_do_not_hang_on_the_numbers_of_clusters() -> None:
    """Two matchings with the same items and mean recall: the one with more of Old, whatever the clusters are called."""
    y = np.array([1, 3, 0, 0, 2])
    for clusters in ([2, 2, 0, 1, 2], [0, 0, 1, 2, 0]):
        got = evaluate(y, np.array(clusters), n_old=2)
        assert got.balanced_acc == (37.5, 75.0, 0.0)
        assert got.acc == (40.0, pytest.approx(200 / 3), 0.0)


def test_every_matching_of_a_table_of_ones_is_as_good() -> None:
    """40 classes of one item in each of 30 clusters: all pairs are tight, and Old classes come first."""
    w = np.ones((40, 30), dtype=np.int64)
    is_old = np.arange(40) % 2 == 0
    matched = match(w, is_old=is_old)
    assert matched.sum() == 30
    assert matched[is_old].sum() == 20
    np.testing.assert_array_equal(match(w[:, ::-1], is_old=is_old), matched)


def test_golden_numbers() -> None:
    """Class 0: 6 items, 5 in cluster b; class 1: 3 items, 2 in a; class 2 (new): 2 items, 1 in c and 1 in b."""
    y_true = np.array([0] * 6 + [1] * 3 + [2] * 2)
    y_pred = np.array([1, 1, 1, 1, 1, 0, 0, 0, 1, 2, 1])
    got = evaluate(y_true, y_pred, n_old=2)
    assert got.acc.all == pytest.approx(100 * 8 / 11)
    assert got.acc.old == pytest.approx(100 * 7 / 9)
    assert got.acc.new == pytest.approx(50)
    assert got.balanced_acc.all == pytest.approx(100 * (5 / 6 + 2 / 3 + 1 / 2) / 3)
    assert got.balanced_acc.old == pytest.approx(100 * (5 / 6 + 2 / 3) / 2)
    assert got.balanced_acc.new == pytest.approx(50)
    assert (got.k, got.k_true, got.k_used, got.n) == (3, 3, 3, 11)
    assert got.many_medium_few["all"] == pytest.approx({"many": 100 * 5 / 6, "medium": 100 * 2 / 3, "few": 50})


def test_more_clusters_than_classes_are_errors() -> None:
    """Pitfall 1: a class cut in two loses the smaller half."""
    got = evaluate(np.array([0] * 10 + [1] * 10), np.array([0] * 6 + [2] * 4 + [1] * 10), n_old=1)
    assert got.acc.all == pytest.approx(80)
    assert got.balanced_acc.old == pytest.approx(60)
    assert (got.k, got.k_true) == (3, 2)


def test_fewer_clusters_than_classes_leave_a_class_with_zero() -> None:
    """Pitfall 1: the class without a cluster counts with recall 0; it is not dropped."""
    got = evaluate(np.array([0] * 8 + [1] * 2), np.zeros(10, dtype=int), n_old=1)
    assert got.acc.all == pytest.approx(80)
    assert got.balanced_acc == (50.0, 100.0, 0.0)


def test_empty_clusters_and_absent_classes_do_not_count() -> None:
    """K = 50 heads of which two are used; class 1 of three has no unlabelled item."""
    got = evaluate(np.array([0, 0, 2, 2]), np.array([49, 49, 7, 7]), n_old=2, k=50, k_true=3)
    assert got.acc == (100.0, 100.0, 100.0)
    assert (got.k, got.k_used, got.k_true) == (50, 2, 3)


def test_masks_come_from_the_true_class_not_from_the_prediction() -> None:
    """Pitfall 2: an Old item that is predicted as a novel cluster lowers Old, not New."""
    got = evaluate(np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 0, 1, 1, 1]), n_old=1)
    assert got.acc.old == pytest.approx(75)
    assert got.acc.new == pytest.approx(100)


def test_one_matching_is_not_two() -> None:
    """v1 lets one cluster serve an Old and a New class; v2 does not."""
    got = evaluate(np.array([0] * 4 + [1] * 3), np.zeros(7, dtype=int), n_old=1)
    assert got.acc == (pytest.approx(100 * 4 / 7), 100.0, 0.0)
    assert got.acc_v1 == (100.0, 100.0, 100.0)


def test_the_matching_never_sees_labelled_items() -> None:
    """Pitfall 3: with the labelled items the cluster would go to class 0; on D^u alone it belongs to class 1."""
    ids = pa.array([str(i) for i in range(10)])
    truth = Truth(ids, np.array([0] * 6 + [0] + [1] * 3), ("a", "b"), 1)
    labelled = pa.array([str(i) for i in range(6)])
    order = np.random.RandomState(0).permutation(10)
    got = evaluate_assignments(truth, labelled, ids.take(order), np.zeros(10, dtype=np.int64))
    assert got.n == 4
    assert got.acc.all == pytest.approx(75)
    assert got.acc.new == pytest.approx(100)
    assert got.k_true == 2


def test_heads_do_not_decide_the_balanced_matching() -> None:
    """Pitfall 4: by instances cluster x goes to the head; by recall it goes to the tail class that fills it."""
    y_true = np.array([0] * 100 + [1] * 5)
    y_pred = np.array([0] * 40 + [1] * 60 + [1] * 5)  # the tail sits in the cluster with most of the head
    got = evaluate(y_true, y_pred, n_old=1)
    assert got.balanced_acc.all == pytest.approx(30)  # head 60 %, tail unmatched (cluster 0 holds none of it)
    assert got.balanced_matching.all == pytest.approx(70)  # head 40 %, tail 100 %


def test_ties_do_not_hang_on_the_numbering() -> None:
    """Two matchings have 3 items each; the one with the better mean recall is taken, however clusters are called."""
    w = np.array([[2, 1], [2, 1]])
    for flipped in (w, w[:, ::-1]):
        assert match(flipped).sum() == 3
    small = np.array([[3, 3], [1, 1]])  # class 1 has 2 items
    assert match(small).tolist() == match(small[:, ::-1]).tolist() == [3, 1]


def test_many_medium_few_cells_have_classes_of_their_own() -> None:
    sizes = np.array([90, 60, 30, 9, 6, 3])
    matched = np.array([90, 30, 0, 9, 3, 0])
    is_old = np.array([True] * 3 + [False] * 3)
    table = many_medium_few(matched, sizes, is_old, sizes)
    assert table["old"] == {"many": 100.0, "medium": 50.0, "few": 0.0}
    assert table["new"] == {"many": 100.0, "medium": 50.0, "few": 0.0}
    assert table["all"] == {"many": 75.0, "medium": 50.0, "few": 25.0}
    only_old = many_medium_few(matched[:1], sizes[:1], is_old[:1], sizes[:1])
    assert only_old["new"] == {"many": None, "medium": None, "few": None}


def test_confusion_counts() -> None:
    w = confusion(np.array([5, 5, 9]), np.array([3, 1, 1]))
    assert w.tolist() == [[1, 1], [1, 0]]


@pytest.mark.parametrize(
    ("y_true", "y_pred", "words"),
    [
        ([0, 1], [0], "2 true labels but 1 predictions"),
        ([], [], "no unlabelled item"),
        ([0.5, 1], [0, 1], "integers"),
        ([0, -1], [0, 1], "y_true holds -1"),
        ([0, 1], [0, -1], "y_pred holds -1"),
    ],
)
def test_bad_input(y_true: list[float], y_pred: list[int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        evaluate(np.array(y_true, dtype=None if y_true else int), np.array(y_pred, dtype=int), 1)


@pytest.mark.parametrize("n_old", [-1, 1.5, True, None, "2"])
def test_a_number_of_old_classes_that_is_none(n_old: object) -> None:
    with pytest.raises(InputError, match="whole number from 0"):
        evaluate(np.array([0, 1]), np.array([0, 1]), n_old)  # type: ignore[arg-type]
    assert evaluate(np.array([0, 1]), np.array([0, 1]), np.int64(1)).acc.old == 100.0  # type: ignore[arg-type]


def test_a_missing_prediction_is_named() -> None:
    truth = Truth(pa.array(["a", "b"]), np.array([0, 1]), ("x", "y"), 1)
    with pytest.raises(InputError, match="'b'"):
        evaluate_assignments(truth, pa.array([], pa.string()), pa.array(["a"]), np.array([0]))


def test_inaturalist_size_in_time_and_memory() -> None:
    """8,142 classes × 307,000 items in under 20 s and 2 GiB, in a process of its own so that memory is its own."""
    code = """
        import numpy as np, resource, time
        from ltgcd.evaluation.metric import evaluate
        random = np.random.RandomState(0)
        share = (np.arange(8142) + 1.0) ** -0.8
        y_true = random.choice(8142, 307_000, p=share / share.sum())
        y_true[:8142] = np.arange(8142)
        y_pred = np.where(random.rand(len(y_true)) < 0.4, y_true, random.choice(8142, len(y_true)))
        started = time.process_time()
        got = evaluate(y_true, random.permutation(8142)[y_pred], 4071)
        print(time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, got.acc.all)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    seconds, kib, acc = map(float, done.stdout.split())
    assert seconds < 20
    assert kib < 2 * 1024**2
    assert 38 < acc < 50
