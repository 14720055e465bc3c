"""The class number on samples: one estimate from several, a wider interval, clusters of all items."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from problems import blobs, few_draws  # noqa: F401 - the fixture is used by all

from conftest import call_cli, fails
from ltgcd.class_number import sampled
from ltgcd.class_number.estimate import KEstimate, estimate_k
from ltgcd.class_number.sampled import combined, estimate_class_number, sample_size
from ltgcd.common.errors import InputError


def an_estimate(k: int, low: int | None, high: int | None) -> KEstimate:
    return KEstimate("peaks", k, low, high, (), np.empty(100, dtype=np.int64), 0.0)


def test_samples_together_by_hand() -> None:
    """Ten known classes and twice 20 novel ones, halves with 10: a doubling adds log 2, two doublings may add 2 log 2.

    The samples don't differ. A bound at half of the novel classes lies log 2 away, so that the new one lies
    √(1 + (2 · 1.645)²) · log 2 = 2.383 away: 20 / 10.84 = 1.8 novel classes, or 20 · 10.84 = 216.8.
    """
    found = combined([an_estimate(30, 20, 50)] * 2, [an_estimate(20, 15, 30)] * 2, 10, 4.0, 10_000)
    assert (found.k, found.low, found.high) == (30, 11, 227)
    sample = found.evidence["sample"]
    assert sample["change_by_doubling"] == pytest.approx(np.log(2), abs=1e-4)
    assert (sample["spread"], sample["items"]) == (0, 100)
    assert sample["error"] == pytest.approx(2 * np.log(2), abs=1e-4)


def test_samples_that_differ_widen_the_interval_and_halves_that_agree_do_not() -> None:
    same = combined([an_estimate(30, 25, 36)] * 2, [an_estimate(30, 20, 40)] * 2, 10, 8.0, 10_000)
    assert (same.k, same.low, same.high) == (30, 25, 36)
    differing = [an_estimate(25, 21, 30), an_estimate(36, 30, 43)]
    apart = combined(differing, differing, 10, 8.0, 99)
    assert apart.k == 30 and apart.low is not None and apart.high is not None
    assert apart.low < 24 and apart.high > 38
    alone = combined([an_estimate(30, None, None)], [an_estimate(30, None, None)], 10, 8.0, 99)
    assert (alone.low, alone.high) == (None, None)
    many = [an_estimate(90, 80, 99)]
    assert combined(many, many, 10, 2.0, 60).k == 60, "no more than there can be"


def test_collections_of_the_size_of_today_are_looked_at_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million items were measured whole; nothing that is smaller may get another answer."""
    assert sample_size(1_000_000, None) is None
    assert sample_size(sampled.WHOLE_ITEMS, None) is None
    assert sample_size(sampled.WHOLE_ITEMS + 1, None) == sampled.SAMPLE_ITEMS
    assert sample_size(1000, 1000) is None and sample_size(1000, 999) == 999
    x, y, _ = blobs(4, 3)
    whole, same = estimate_k(x, y), estimate_class_number(x, y)
    assert (whole.k, whole.low, whole.high, whole.evidence) == (same.k, same.low, same.high, same.evidence)
    monkeypatch.setattr(sampled, "WHOLE_ITEMS", len(y) - 1)
    monkeypatch.setattr(sampled, "SAMPLE_ITEMS", len(y) // 2)
    assert estimate_class_number(x, y).evidence["sample"]["items"] <= len(y) // 2


@pytest.fixture(scope="module")
def large() -> tuple[np.ndarray, np.ndarray, np.ndarray, KEstimate]:
    x, y, true = blobs(10, 8, size=240)
    return x, y, true, estimate_class_number(x, y, sample=1000)


def test_a_sample_counts_what_all_items_count(large: tuple[np.ndarray, np.ndarray, np.ndarray, KEstimate]) -> None:
    x, y, _, found = large
    assert len(x) > 3500
    assert found.low is not None and found.high is not None
    assert found.low <= 18 <= found.high
    assert abs(found.k - estimate_k(x, y).k) <= 3
    sample = found.evidence["sample"]
    assert len(sample["numbers"]) == len(sample["numbers_with_half"]) == sampled.SAMPLES
    assert 900 < sample["items"] <= 1000
    said = f"estimated on 3 samples of {sample['items']:,} of the {len(x):,} items"
    assert found.evidence["sampled"].startswith(said)
    assert (y[found.evidence["peaks"]] == -1).all(), "peaks are rows of the caller's"


def test_every_item_gets_a_cluster(large: tuple[np.ndarray, np.ndarray, np.ndarray, KEstimate]) -> None:
    _, y, true, found = large
    np.testing.assert_array_equal(found.labels[y >= 0], y[y >= 0])
    assert set(np.unique(found.labels)) <= set(range(found.k))
    old = (y == -1) & (true < 10)
    assert (found.labels[old] == true[old]).mean() > 0.8
    new = true >= 10
    pure = sum(np.bincount(true[new & (found.labels == code)]).max(initial=0) for code in range(10, found.k))
    assert pure / new.sum() > 0.7


def test_the_order_of_rows_and_the_numbers_of_classes_do_not_matter(
    large: tuple[np.ndarray, np.ndarray, np.ndarray, KEstimate],
) -> None:
    x, y, _, found = large
    random = np.random.RandomState(3)
    rows, classes = random.permutation(len(x)), np.append(random.permutation(10), -1)
    again = estimate_class_number(x[rows], classes[y[rows]], sample=1000)
    assert (again.k, again.low, again.high) == (found.k, found.low, found.high)
    assert again.evidence["sample"] == found.evidence["sample"]
    kept = found.labels[rows]
    np.testing.assert_array_equal(again.labels, np.where(kept < 10, classes[np.minimum(kept, 10)], kept))


def test_what_makes_no_sense_is_refused() -> None:
    x, y, _ = blobs(4, 3)
    with pytest.raises(InputError, match="20 items is too small for 4 known classes; take 32 items or more"):
        estimate_class_number(x, y, sample=20)
    with pytest.raises(InputError, match="Only 'peaks' estimates on samples, not 'ward'"):
        estimate_class_number(x, y, "ward", sample=100)


def test_the_command_says_it(tmp_path: Path) -> None:
    x, y, _ = blobs(6, 4, size=120)
    np.savez(tmp_path / "x.npz", x=x, y=y)
    done = call_cli("estimate-k", tmp_path / "x.npz", "--sample", 600)
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    assert f"of the {len(x):,} items, which gave" in said and "It was estimated on 3 samples of" in said
    assert "too small for 6 known classes" in fails("estimate-k", tmp_path / "x.npz", "--sample", 10)
