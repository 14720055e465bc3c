"""The real datasets, where this machine has them."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conftest import ROOT
from ltgcd.data.datasets import DATASETS, data_root, load_pool, locate


@pytest.fixture
def root(monkeypatch) -> Path:
    monkeypatch.chdir(ROOT)  # ../shared/data is seen from the checkout
    return data_root().resolve()


@pytest.mark.parametrize(
    ("name", "part", "rows", "largest", "smallest"),
    [
        ("cifar100", "train", 50_000, 500, 500),
        ("cifar100", "test", 10_000, 100, 100),
        ("plankton", "train", 30_336, 1979, 9),
        ("clinc150", "train", 10_525, 100, 25),
        ("banking77", "train", 10_003, 187, 35),
        ("banking77", "test", 3_080, 40, 40),
    ],
)
def test_counts(root, name, part, rows, largest, smallest):
    dataset = DATASETS[name]
    if locate(dataset, root) is None:
        pytest.skip(f"{dataset.title} is not in {root}; set LTGCD_DATA to test it")
    pool = load_pool(name, root, part)
    counts = np.bincount(pool.y, minlength=dataset.n_classes)
    assert (len(pool.y), counts.max(), counts.min()) == (rows, largest, smallest)
    assert len(set(pool.class_names)) == dataset.n_classes
    assert len(set(pool.ids.to_pylist())) == rows
    first, last = pool.items.take(np.array([0, rows - 1]))
    if dataset.kind == "image":
        assert Image.open(io.BytesIO(first)).size == Image.open(io.BytesIO(last)).size
    else:
        assert first
        assert last


def test_official_names(root):
    expected = {
        "cifar100": {0: "apple", 79: "spider", 99: "worm"},
        "plankton": {0: "acantharia_protist", 120: "unknown_unclassified"},
        "clinc150": {0: "accept_reservations", 149: "yes"},
        "banking77": {0: "Refund_not_showing_up", 76: "wrong_exchange_rate_for_cash_withdrawal"},
    }
    present = [name for name in expected if locate(DATASETS[name], root) is not None]
    if not present:
        pytest.skip(f"none of {', '.join(expected)} is in {root}; set LTGCD_DATA to test them")
    for name in present:
        names = load_pool(name, root).class_names
        assert {code: names[code] for code in expected[name]} == expected[name]
