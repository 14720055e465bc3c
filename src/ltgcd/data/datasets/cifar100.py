"""CIFAR-100: 50,000 + 10,000 photos of 32×32 pixels in 100 balanced classes. Old: ids 0-79 (docs/methods.md §1.1)."""

from __future__ import annotations

from ltgcd.data.datasets.base import Archive, Dataset, fixed_classes
from ltgcd.data.datasets.cifar_batches import CifarFiles
from ltgcd.data.datasets.layouts import any_of, huggingface

_FILES = CifarFiles(
    python_folder="cifar-100-python",
    binary_folder="cifar-100-binary",
    files={"train": ("train",), "test": ("test",)},
    label_key="fine_labels",
    meta="meta",
    names_key="fine_label_names",
    label_bytes=2,
    names_file="fine_label_names.txt",
)

DATASET = Dataset(
    name="cifar100",
    title="CIFAR-100",
    kind="image",
    n_classes=100,
    n_old=80,
    old_classes=fixed_classes(range(80)),
    licence="No explicit licence; cite the report.",
    origin="https://www.cs.toronto.edu/~kriz/cifar.html",
    citation="Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009",
    how="Fetch cifar-100-python.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html and unpack it there.",
    read=any_of(
        _FILES.read_python,
        _FILES.read_binary,
        huggingface(labels=("fine_label", "label"), inner=("data", "cifar100")),
        expected="cifar-100-python or cifar-100-binary",
    ),
    archives=(
        Archive(
            url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
            file="cifar-100-python.tar.gz",
            size=169_001_437,
            checksum="md5:eb9058c3a382ffc7106e4002c42a8d85",
        ),
    ),
    preset="paper-counts",
    heads={"paper-counts": (120, 280)},
    folders=("cifar-100-python", "cifar-100-binary", "cifar-100"),
)
