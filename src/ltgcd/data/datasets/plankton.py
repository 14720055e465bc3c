"""Plankton (National Data Science Bowl 2015): 30,336 grey images of 121 classes, naturally 1,979 … 9 each.

No protocol is published: Old is a random half of the classes (60), by the seed. Kaggle's test images have no labels,
so there is no test part.
"""

from __future__ import annotations

from pathlib import Path

from ltgcd.common.errors import InputError
from ltgcd.data.datasets.base import Dataset, Part, Pool, random_order
from ltgcd.data.datasets.layouts import any_of, by_name, class_folders, huggingface

_TRAIN = any_of(
    class_folders({"train": "train"}),
    huggingface(splits={"train": ("train",)}, order=by_name),
    expected="train/<class>/*.jpg",
)


def _read(folder: Path, part: Part) -> Pool:
    if part == "test":
        raise InputError(f"Plankton in {folder} has no labelled test part; use the part 'train'.")
    return _TRAIN(folder, part)


DATASET = Dataset(
    name="plankton",
    title="Plankton (NDSB 2015)",
    kind="image",
    n_classes=121,
    n_old=60,
    old_classes=random_order(121),
    licence="Rules of the Kaggle competition must be accepted; research use.",
    origin="https://www.kaggle.com/competitions/datasciencebowl",
    citation="Cowen et al.: PlanktonSet 1.0, NOAA NCEI 2015, doi:10.7289/V5D21VJD",
    how="Log in to Kaggle, accept the rules of https://www.kaggle.com/competitions/datasciencebowl/data, fetch "
    "train.zip and unpack it as train/<class>/*.jpg.",
    read=_read,
    folders=("datasciencebowl", "ndsb"),
    long_tailed=True,
)
