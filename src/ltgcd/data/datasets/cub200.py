"""CUB-200-2011: 5,994 + 5,794 photos of 200 species of birds. Old: the known classes of SSB (docs/methods.md §1.1)."""

from __future__ import annotations

from pathlib import Path

from ltgcd.common.errors import InputError
from ltgcd.data.datasets.base import Archive, Dataset, Part, Pool, fixed_classes
from ltgcd.data.datasets.layouts import any_of, encode, folder_with, huggingface, listed_images, read_pairs

# fmt: off
SSB_KNOWN = (
    150, 70, 34, 178, 199, 131, 129, 147, 134, 11, 26, 93, 95, 121, 123, 99, 149, 167, 18, 31, 69, 198, 116, 158, 126,
    17, 5, 179, 111, 163, 184, 81, 174, 42, 53, 89, 77, 55, 23, 48, 43, 44, 56, 28, 193, 143, 0, 176, 84, 15, 38, 154,
    141, 190, 172, 124, 189, 19, 80, 157, 12, 9, 79, 30, 94, 67, 197, 97, 168, 137, 119, 76, 98, 88, 40, 106, 171, 87,
    166, 186, 27, 51, 144, 135, 161, 64, 177, 7, 146, 61, 50, 162, 133, 82, 39, 74, 72, 91, 196, 136,
)
# fmt: on


def _original(folder: Path, part: Part) -> Pool | None:
    """Four lists tied by the image's number; the pool keeps the order of images.txt."""
    base = folder_with(folder, "images.txt", "CUB_200_2011")
    if base is None:
        return None
    paths, names = read_pairs(base / "images.txt"), read_pairs(base / "classes.txt")
    tables = {}
    for listing in ("image_class_labels.txt", "train_test_split.txt"):
        tables[listing] = read_pairs(base / listing)
        if tables[listing].keys() != paths.keys():
            raise InputError(f"{base / listing} does not name the same images as images.txt; unpack both again.")
    label, in_train = tables.values()
    chosen = [image for image in paths if (in_train[image] == "1") == (part == "train")]
    y = encode([label[image] for image in chosen], list(names), base / "image_class_labels.txt")
    return listed_images(
        base, [f"images/{paths[image]}" for image in chosen], y, list(names.values()), base / "images.txt"
    )


DATASET = Dataset(
    name="cub200",
    title="CUB-200-2011",
    kind="image",
    n_classes=200,
    n_old=100,
    old_classes=fixed_classes(SSB_KNOWN),
    licence="Photos belong to their owners on Flickr; non-commercial research and education only.",
    origin="https://www.vision.caltech.edu/datasets/cub_200_2011/",
    citation="Wah et al.: The Caltech-UCSD Birds-200-2011 Dataset, 2011; known classes: Vaze et al. (SSB), ICLR 2022",
    how="Fetch CUB_200_2011.tgz from https://data.caltech.edu/records/65de6-vp158 and unpack it there.",
    read=any_of(_original, huggingface(), expected="CUB_200_2011/images.txt"),
    archives=(
        Archive(
            url="https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz?download=1",
            file="CUB_200_2011.tgz",
            size=1_150_585_339,
            checksum="md5:97eceeb196236b17998738112f37df78",
        ),
    ),
    preset="gcd",
    folders=("CUB_200_2011", "cub"),
)
