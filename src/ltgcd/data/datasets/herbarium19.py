"""Herbarium-19 (FGVC6): about 34,200 + 2,700 herbarium sheets of 683 species, a natural long tail.

Class ids follow the folders' names sorted as strings ("0", "1", "10", …), as torchvision's ImageFolder has them; the
Old classes are a draw over those ids (docs/methods.md §1.1).
"""

from __future__ import annotations

import numpy as np

from ltgcd.data.datasets.base import Dataset, fixed_classes
from ltgcd.data.datasets.layouts import any_of, by_name, class_folders, huggingface

OLD = tuple(int(c) for c in np.random.RandomState(0).choice(range(683), 341, replace=False))

DATASET = Dataset(
    name="herbarium19",
    title="Herbarium-19",
    kind="image",
    n_classes=683,
    n_old=341,
    old_classes=fixed_classes(OLD),
    licence="Rules of the Kaggle competition must be accepted; research use.",
    origin="https://www.kaggle.com/competitions/herbarium-2019-fgvc6",
    citation="Tan et al.: The Herbarium Challenge 2019 Dataset, arXiv 1906.05372",
    how="The public bucket answers AccessDenied: log in to Kaggle, accept the rules of "
    "https://www.kaggle.com/competitions/herbarium-2019-fgvc6/data, fetch small-train and small-validation and unpack "
    "them as small-train/<class>/*.jpg and small-validation/<class>/*.jpg.",
    read=any_of(
        class_folders({"train": "small-train", "test": "small-validation"}),
        huggingface(splits={"train": ("train",), "test": ("validation",)}, order=by_name),
        expected="small-train/<class>/*.jpg and small-validation/<class>/*.jpg",
    ),
    preset="gcd",
    folders=("herbarium_19", "herbarium-2019-fgvc6"),
    long_tailed=True,
)
