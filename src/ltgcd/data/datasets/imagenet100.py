"""ImageNet-100 of GCD: 100 classes of ILSVRC-2012, drawn with NumPy's seed 0. Old: the first 50 (docs/methods.md §1.1).

Other papers (CMC and its followers) call another hundred of classes by the same name, so the classes are picked by
their synset, never by their place in a folder that may hold any hundred.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ltgcd.common.errors import InputError
from ltgcd.data.datasets.base import Dataset, Part, Pool, fixed_classes
from ltgcd.data.datasets.layouts import any_of, class_folders, huggingface

# Places of the classes among the 1,000 sorted synsets; the protocol's draw, from NumPy's frozen legacy stream.
ILSVRC_IDS: tuple[int, ...] = tuple(
    int(i) for i in np.sort(np.random.RandomState(0).choice(range(1000), 100, replace=False))
)
# fmt: off
SYNSETS: tuple[str, ...] = (
    "n01443537", "n01537544", "n01631663", "n01644373", "n01692333", "n01729977", "n01775062", "n01873310",
    "n01914609", "n02028035", "n02033041", "n02091635", "n02097047", "n02098105", "n02105855", "n02106030",
    "n02107142", "n02107683", "n02109525", "n02110341", "n02110627", "n02112350", "n02112706", "n02113186",
    "n02113799", "n02114548", "n02114855", "n02120079", "n02133161", "n02137549", "n02138441", "n02174001",
    "n02219486", "n02226429", "n02256656", "n02268443", "n02326432", "n02480855", "n02481823", "n02504458",
    "n02514041", "n02704792", "n02747177", "n02749479", "n02804610", "n02869837", "n02879718", "n02978881",
    "n02988304", "n03017168", "n03026506", "n03028079", "n03045698", "n03197337", "n03337140", "n03372029",
    "n03404251", "n03417042", "n03447447", "n03450230", "n03461385", "n03481172", "n03534580", "n03617480",
    "n03706229", "n03710637", "n03724870", "n03729826", "n03769881", "n03792972", "n03873416", "n03877845",
    "n03899768", "n03908714", "n03982430", "n03991062", "n03995372", "n04070727", "n04153751", "n04154565",
    "n04200800", "n04204238", "n04229816", "n04296562", "n04317175", "n04442312", "n04456115", "n04487081",
    "n04522168", "n04591157", "n04596742", "n06785654", "n07579787", "n07590611", "n07768694", "n09229709",
    "n10148035", "n12144580", "n13037406", "n13052670",
)
# fmt: on


def _order(names: Sequence[str], owner: Path) -> list[int]:
    if len(names) == 1000:
        return list(ILSVRC_IDS)
    if set(SYNSETS) <= set(names):
        return [names.index(synset) for synset in SYNSETS]
    raise InputError(
        f"{owner} has {len(names)} classes that can't be told to be the hundred of this benchmark (other lists bear "
        "the same name); give all 1,000 classes of ILSVRC-2012, or name the classes by their synsets."
    )


_PARQUET = huggingface(splits={"train": ("train",), "test": ("validation",)}, order=_order)


def _parquet(folder: Path, part: Part) -> Pool | None:
    """Parquet of ILSVRC names its classes in words; here they keep their synsets, as in the original layout."""
    pool = _PARQUET(folder, part)
    return None if pool is None else replace(pool, class_names=SYNSETS)


DATASET = Dataset(
    name="imagenet100",
    title="ImageNet-100",
    kind="image",
    n_classes=100,
    n_old=50,
    old_classes=fixed_classes(range(50)),
    licence="Terms of access of image-net.org: non-commercial research and education.",
    origin="https://www.image-net.org",
    citation="Deng et al.: ImageNet, CVPR 2009; the 100 classes: Vaze et al., CVPR 2022",
    how="Accept the terms at https://www.image-net.org/download.php (or of ILSVRC/imagenet-1k on Hugging Face), fetch "
    "ILSVRC-2012 and unpack it as train/<synset>/*.JPEG and val/<synset>/*.JPEG; the 100 synsets suffice.",
    read=any_of(
        class_folders({"train": "train", "test": "val"}, "ILSVRC/Data/CLS-LOC", "Data/CLS-LOC", classes=SYNSETS),
        _parquet,
        expected="train/<synset>/*.JPEG and val/<synset>/*.JPEG",
    ),
    preset="paper-counts",
    heads={"paper-counts": (300, 560)},
    folders=("imagenet-100", "imagenet", "imagenet-1k", "ILSVRC2012", "ILSVRC"),
)
