"""FGVC-Aircraft 2013b: 6,667 (trainval) + 3,333 photos of 100 variants. Old: those of SSB (docs/methods.md §1.1).

Class ids follow the names sorted as strings, as in GCD; variants.txt itself is sorted without regard to case.
"""

from __future__ import annotations

from pathlib import Path

from ltgcd.data.datasets.base import Archive, Dataset, Part, Pool, fixed_classes
from ltgcd.data.datasets.layouts import (
    any_of,
    by_name,
    encode,
    folder_with,
    huggingface,
    listed_images,
    read_pairs,
    read_text,
)

# fmt: off
SSB_KNOWN = (
    0, 1, 2, 3, 4, 5, 10, 11, 14, 16, 17, 19, 21, 22, 23, 24, 27, 28, 29, 30, 33, 36, 37, 38, 39, 41, 43, 44, 45, 46,
    47, 48, 52, 53, 56, 57, 58, 63, 64, 65, 66, 67, 71, 73, 76, 77, 79, 92, 95, 99,
)
# fmt: on


def _original(folder: Path, part: Part) -> Pool | None:
    base = folder_with(folder, "variants.txt", "data", "fgvc-aircraft-2013b/data")
    if base is None:
        return None
    names = sorted(line.strip() for line in read_text(base / "variants.txt").splitlines() if line.strip())
    listing = base / f"images_variant_{'trainval' if part == 'train' else 'test'}.txt"
    variant_of = read_pairs(listing)
    y = encode(list(variant_of.values()), names, listing)
    return listed_images(base, [f"images/{image}.jpg" for image in variant_of], y, names, listing)


DATASET = Dataset(
    name="fgvc-aircraft",
    title="FGVC-Aircraft",
    kind="image",
    n_classes=100,
    n_old=50,
    old_classes=fixed_classes(SSB_KNOWN),
    licence="Non-commercial research only; photos belong to their authors at airliners.net.",
    origin="https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/",
    citation="Maji et al.: Fine-Grained Visual Classification of Aircraft, 2013; SSB: Vaze et al. 2022",
    how="Fetch fgvc-aircraft-2013b.tar.gz from https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/ and unpack it.",
    read=any_of(
        _original,
        huggingface(
            labels=("variant", "label"), splits={"train": ("train", "validation"), "test": ("test",)}, order=by_name
        ),
        expected="fgvc-aircraft-2013b/data/variants.txt",
    ),
    archives=(
        Archive(
            url="https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/archives/fgvc-aircraft-2013b.tar.gz",
            file="fgvc-aircraft-2013b.tar.gz",
            size=2_753_340_328,
            checksum="md5:d4acdd33327262359767eeaa97a4f732",
        ),
    ),
    preset="gcd",
    folders=("fgvc-aircraft-2013b", "aircraft"),
)
