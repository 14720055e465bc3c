"""CIFAR-10: 50,000 + 10,000 photos of 32×32 pixels in 10 balanced classes. Old: ids 0-4 (docs/methods.md §1.1)."""

from __future__ import annotations

from ltgcd.data.datasets.base import Archive, Dataset, fixed_classes
from ltgcd.data.datasets.cifar_batches import CifarFiles
from ltgcd.data.datasets.layouts import any_of, huggingface

_FILES = CifarFiles(
    python_folder="cifar-10-batches-py",
    binary_folder="cifar-10-batches-bin",
    files={"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)},
    label_key="labels",
    meta="batches.meta",
    names_key="label_names",
    label_bytes=1,
    names_file="batches.meta.txt",
)

DATASET = Dataset(
    name="cifar10",
    title="CIFAR-10",
    kind="image",
    n_classes=10,
    n_old=5,
    old_classes=fixed_classes(range(5)),
    licence="No explicit licence; cite the report.",
    origin="https://www.cs.toronto.edu/~kriz/cifar.html",
    citation="Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009",
    how="Fetch cifar-10-python.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html and unpack it there.",
    read=any_of(
        _FILES.read_python,
        _FILES.read_binary,
        huggingface(inner=("data", "plain_text")),
        expected="cifar-10-batches-py or cifar-10-batches-bin",
    ),
    archives=(
        Archive(
            url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            file="cifar-10-python.tar.gz",
            size=170_498_071,
            checksum="md5:c58f30108f718f92721af3b95e74349a",
        ),
    ),
    # Not published: CIFAR-100's heads times ten, as its classes are ten times as large.
    preset="paper-counts",
    heads={"paper-counts": (1200, 2800)},
    folders=("cifar-10-batches-py", "cifar-10-batches-bin", "cifar-10"),
)
