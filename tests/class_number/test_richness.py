"""Labels drawn at random over items: by hand, by simulation with long tails, and by the command."""

from __future__ import annotations

import json

import numpy as np
import pytest
from problems import blobs, few_draws  # noqa: F401 - the fixture is used by all
from typer.testing import CliRunner

from conftest import WIDE
from ltgcd.class_number.estimate import estimate_k
from ltgcd.class_number.richness import missing_share, richness, unseen_classes
from ltgcd.cli import app


def test_unseen_classes_by_hand() -> None:
    # f = 4, 2, 0, 1: Chao1 4·3 / (2·3) = 2, and nothing on top of it.
    counts = np.array([1, 1, 1, 1, 2, 2, 4, 9])
    assert unseen_classes(counts) == pytest.approx(2)
    # f = 6, 1, 2, 2: 6·5/(2·2) = 7.5, and 2/(4·2) · (6 − 1·2/(2·2)) = 1.375.
    assert unseen_classes(np.array([1] * 6 + [2] + [3] * 2 + [4] * 2)) == pytest.approx(8.875)
    assert unseen_classes(np.array([5, 7, 0, 0])) == 0
    assert missing_share(counts) == pytest.approx(4 / 21)
    assert missing_share(np.zeros(0, dtype=np.int64)) == 0


@pytest.mark.parametrize("ratio", [1.0, 50.0])
def test_it_finds_the_classes_that_no_label_has_met(ratio: float) -> None:
    """100 classes, balanced or of 400 to 8 items; a share of the items is labelled at random."""
    sizes = np.round(400 * ratio ** (-np.arange(100) / 99)).astype(int)
    share = 0.006 if ratio == 1 else 0.05
    random = np.random.default_rng(0)
    logs, covered, seen = [], [], []
    for seed in range(40):
        counts = random.multivariate_hypergeometric(sizes, int(share * sizes.sum()))
        number, low, high = richness(counts, 0.9, seed)
        assert low <= number <= high
        logs.append(np.log(number / 100))
        covered.append(np.floor(low) <= 100 <= np.ceil(high))
        seen.append((counts > 0).sum())
    assert np.mean(seen) < 93  # what is known is not all
    assert abs(np.mean(logs)) < 0.05
    assert np.mean(np.abs(logs)) < 0.1
    assert np.mean(covered) >= 0.75


def test_the_numbers_of_the_classes_do_not_matter() -> None:
    counts = np.array([1, 0, 3, 1, 2, 8, 1, 0, 4, 2])
    assert richness(counts, 0.9, 0) == richness(np.random.RandomState(0).permutation(counts), 0.9, 0)


def test_all_classes_met_often_are_all_there_are() -> None:
    assert richness(np.array([20, 30, 50]), 0.9, 0) == (3, 3, 3)


def test_labels_of_random_items() -> None:
    """Large classes are known and small ones are not: the mean of the known ones would count too few."""
    random = np.random.RandomState(0)
    sizes = np.round(300 * 60 ** (-np.arange(40) / 39)).astype(int)
    true = np.repeat(np.arange(40), sizes)
    x = (random.randn(40, 16)[true] + 0.4 * random.randn(len(true), 16)).astype(np.float32)
    drawn = random.rand(len(true)) < 0.04
    classes = np.unique(true[drawn])
    y = np.where(drawn, np.searchsorted(classes, true), -1)
    got = estimate_k(x, y, labels_from="random-items")
    assert len(classes) < 33
    assert abs(got.k - 40) <= 6
    assert got.low is not None and got.high is not None
    assert got.low <= 40 <= got.high
    assert got.evidence["missing_share"] == pytest.approx((~np.isin(true, classes)).mean(), abs=0.05)
    np.testing.assert_array_equal(got.labels[drawn], y[drawn])
    assert got.labels.max() < got.k
    assert estimate_k(x, y, labels_from="random-items", k_max=len(classes)).k == len(classes)


def test_the_command_takes_it(tmp_path) -> None:
    x, y, _ = blobs(6, 2)
    np.savez(tmp_path / "some.npz", x=x, y=y)
    done = CliRunner(env=WIDE).invoke(
        app, ["estimate-k", str(tmp_path / "some.npz"), "--labels-from", "random-items", "--json"]
    )
    assert done.exit_code == 0
    assert json.loads(done.stdout)["evidence"]["labels_from"] == "random-items"
    said = CliRunner(env=WIDE).invoke(app, ["estimate-k", str(tmp_path / "some.npz"), "--labels-from", "random-items"])
    assert "of classes without a label" in said.stdout
    refused = CliRunner(env=WIDE).invoke(app, ["estimate-k", str(tmp_path / "some.npz"), "--labels-from", "nowhere"])
    assert refused.exit_code == 2
    assert "collection, elsewhere or random-items" in refused.output
