"""A sample that stands for a collection."""

from __future__ import annotations

import numpy as np

from ltgcd.data.samples import stratified_sample


def test_a_sample_keeps_every_class_and_stands_for_all() -> None:
    """1,000, 100 and 5 items, of which 260 may be taken: 0.231 of each (231 + 24 + 5), but twenty at least, or all."""
    strata = np.repeat([0, 1, 2], [1000, 100, 5])
    sample = stratified_sample(strata, 260, 0, 20)
    taken = np.bincount(strata[sample.rows])
    assert taken.tolist() == [231, 24, 5]
    assert (np.diff(sample.rows) > 0).all()
    np.testing.assert_allclose(np.bincount(strata[sample.rows], weights=sample.counts), [1000, 100, 5])
    assert not np.array_equal(sample.rows, stratified_sample(strata, 260, 1, 20).rows)


def test_as_few_as_two_of_a_class() -> None:
    """Where what is counted are masses, 20 of a small class would weigh too much."""
    strata = np.repeat([0, 1, 2], [1000, 100, 5])
    taken = np.bincount(strata[stratified_sample(strata, 110, 0, 2).rows])
    assert taken.tolist() == [98, 10, 2]
