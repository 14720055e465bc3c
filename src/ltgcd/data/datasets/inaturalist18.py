"""iNaturalist-18: 437,513 + 24,426 photos of 8,142 species with a long tail. Old: ids 0-4070 (docs/methods.md §1.5)."""

from __future__ import annotations

from pathlib import Path

from ltgcd.data.datasets.base import Archive, Dataset, Part, Pool, fixed_classes
from ltgcd.data.datasets.layouts import any_of, encode, folder_with, huggingface, listed_images, read_json, unreadable

_BUCKET = "https://ml-inat-competition-datasets.s3.amazonaws.com/2018"


def _original(folder: Path, part: Part) -> Pool | None:
    """COCO-like lists: images, their annotations and the categories; the pool keeps the order of the images."""
    file = "train2018.json" if part == "train" else "val2018.json"
    base = folder_with(folder, file)
    if base is None:
        return None
    content = read_json(base / file)
    try:
        category_of = {a["image_id"]: str(a["category_id"]) for a in content["annotations"]}
        labels = [category_of[image["id"]] for image in content["images"]]
        paths = [str(image["file_name"]) for image in content["images"]]
        names = {int(c["id"]): str(c["name"]) for c in content["categories"]}
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(base / file, "a list of images, annotations and categories") from error
    categories = sorted(names)
    y = encode(labels, [str(category) for category in categories], base / file)
    return listed_images(base, paths, y, [names[category] for category in categories], base / file)


DATASET = Dataset(
    name="inaturalist18",
    title="iNaturalist-18",
    kind="image",
    n_classes=8142,
    n_old=4071,
    old_classes=fixed_classes(range(4071)),
    licence="Non-commercial research and education only; photos keep their observers' licences.",
    origin="https://github.com/visipedia/inat_comp/tree/master/2018",
    citation="Van Horn et al.: The iNaturalist Species Classification and Detection Dataset, CVPR 2018",
    how="Fetch train_val2018.tar.gz (128 GB), train2018.json.tar.gz and val2018.json.tar.gz as told in "
    "https://github.com/visipedia/inat_comp/tree/master/2018 and unpack all three into one folder.",
    read=any_of(
        _original,
        huggingface(splits={"train": ("train",), "test": ("validation",)}),
        expected="train2018.json and val2018.json with train_val2018",
    ),
    # The small lists first: a mistake about the folder shows before 128 GB are fetched.
    archives=(
        Archive(
            url=f"{_BUCKET}/train2018.json.tar.gz",
            file="train2018.json.tar.gz",
            size=20_951_917,
            checksum="md5:bfa29d89d629cbf04d826a720c0a68b0",
        ),
        Archive(
            url=f"{_BUCKET}/val2018.json.tar.gz",
            file="val2018.json.tar.gz",
            size=1_276_686,
            checksum="md5:f2ed8bfe3e9901cdefceb4e53cd3775d",
        ),
        Archive(
            url=f"{_BUCKET}/train_val2018.tar.gz",
            file="train_val2018.tar.gz",
            size=127_945_569_561,
            checksum="md5:b1c6952ce38f31868cc50ea72d066cc3",
        ),
    ),
    folders=("inat2018", "inaturalist2018", "iNaturalist18"),
    long_tailed=True,
)
