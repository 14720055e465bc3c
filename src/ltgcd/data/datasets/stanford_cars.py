"""Stanford Cars: 8,144 + 8,041 photos of 196 models of cars. Old: the known classes of SSB (docs/methods.md §1.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ltgcd.data.datasets.base import Dataset, Part, Pool, fixed_classes
from ltgcd.data.datasets.layouts import any_of, folder_with, huggingface, listed_images, unreadable

# fmt: off
SSB_KNOWN = (
    1, 11, 25, 38, 46, 50, 53, 75, 84, 100, 105, 117, 123, 129, 133, 134, 135, 136, 137, 138, 140, 144, 145, 146, 147,
    149, 150, 151, 153, 160, 161, 162, 163, 164, 167, 168, 169, 174, 175, 180, 185, 186, 187, 192, 193, 0, 81, 97, 104,
    122, 139, 141, 142, 143, 148, 152, 154, 155, 156, 157, 158, 159, 165, 166, 170, 171, 172, 173, 176, 177, 181, 184,
    188, 191, 194, 195, 2, 7, 9, 16, 20, 26, 28, 44, 54, 95, 98, 102, 127, 178, 182, 22, 41, 82, 93, 112, 125, 189,
)
# fmt: on


def _original(folder: Path, part: Part) -> Pool | None:
    """MATLAB lists in the devkit; the labels of the test part came later, in a file of their own."""
    base = folder_with(folder, "devkit", "stanford_cars", "cars")
    if base is None:
        return None
    file = "cars_train_annos.mat" if part == "train" else "cars_test_annos_withlabels.mat"
    annotations = (folder_with(base, file, "devkit") or base / "devkit") / file
    (names,) = _load_mat(base / "devkit" / "cars_meta.mat", "class_names")
    labels, files = _load_mat(annotations, "annotations", "class", "fname")
    # Kaggle's copy of the images lies one folder deeper than the original.
    images = f"cars_{part}/cars_{part}" if (base / f"cars_{part}" / f"cars_{part}").is_dir() else f"cars_{part}"
    y = np.array([int(label) - 1 for label in labels], dtype=np.int64)
    paths = [f"{images}/{name}" for name in files]
    return listed_images(base, paths, y, [str(name) for name in names], annotations)


def _load_mat(path: Path, variable: str, *fields: str) -> list[Any]:
    """A variable of a MATLAB file, or some fields of it, each as a list."""
    from scipy.io import loadmat  # noqa: PLC0415 - slow to import, and no other dataset needs it

    try:
        content = np.atleast_1d(loadmat(path, squeeze_me=True)[variable])
        return [list(content[field]) for field in fields] if fields else [list(content)]
    # A damaged file may raise nearly anything; whatever it is, the file is not what it should be.
    except Exception as error:
        raise unreadable(path, f"a MATLAB file with '{variable}'") from error


DATASET = Dataset(
    name="stanford-cars",
    title="Stanford Cars",
    kind="image",
    n_classes=196,
    n_old=98,
    old_classes=fixed_classes(SSB_KNOWN),
    licence="No explicit licence; photos belong to their owners, research use.",
    origin="https://ai.stanford.edu/~jkrause/cars/car_dataset.html (no longer there)",
    citation="Krause et al.: 3D Object Representations for Fine-Grained Categorization, 2013; SSB: Vaze et al. 2022",
    how="The original links are dead: take the images (cars_train, cars_test) from Kaggle, "
    "jessicali9530/stanford-cars-dataset, and the devkit and cars_test_annos_withlabels.mat as told in "
    "https://github.com/pytorch/vision/issues/7545, or parquet from tanganke/stanford_cars on Hugging Face.",
    read=any_of(_original, huggingface(), expected="devkit/cars_train_annos.mat with cars_train and cars_test"),
    preset="gcd",
    folders=("cars",),
)
