"""BANKING77: 10,003 + 3,080 questions to a bank in 77 intents, naturally 187 … 35 each (train).

No protocol is published: Old is a random half of the classes (38), by the seed. Intents are numbered by name, since
copies disagree on the ids.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc

from ltgcd.common.errors import InputError
from ltgcd.data.datasets.base import Archive, Dataset, Part, Pool, random_order
from ltgcd.data.datasets.layouts import (
    any_of,
    by_name,
    encode,
    folder_with,
    huggingface,
    read_json,
    text_pool,
    unreadable,
)
from ltgcd.data.labels import read_csv

_RAW = (
    "https://raw.githubusercontent.com/PolyAI-LDN/task-specific-datasets/"
    "57ec275d8078af65b7731c2a98be812d844a6d6b/banking_data"
)


def _original(folder: Path, part: Part) -> Pool | None:
    base = folder_with(folder, f"{part}.csv", "banking_data")
    if base is None:
        return None
    path, categories = base / f"{part}.csv", base / "categories.json"
    table = read_csv(path)
    if not {"text", "category"} <= set(table.column_names):
        raise InputError(f"{path} needs the columns 'text' and 'category', but has {table.column_names}.")
    text, category = (table.column(name).combine_chunks() for name in ("text", "category"))
    names = read_json(categories) if categories.is_file() else pc.unique(category.drop_null()).to_pylist()
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise unreadable(categories, "a list of names")
    names = sorted(names)
    return text_pool(text, encode(category, names, path), names, part, path)


DATASET = Dataset(
    name="banking77",
    title="BANKING77",
    kind="text",
    n_classes=77,
    n_old=38,
    old_classes=random_order(77),
    licence="CC BY 4.0.",
    origin="https://github.com/PolyAI-LDN/task-specific-datasets",
    citation="Casanueva et al.: Efficient Intent Detection with Dual Sentence Encoders, 2020",
    how="Fetch train.csv, test.csv and categories.json from banking_data in "
    "https://github.com/PolyAI-LDN/task-specific-datasets.",
    read=any_of(_original, huggingface(kind="text", order=by_name), expected="train.csv and test.csv"),
    archives=(
        Archive(
            url=f"{_RAW}/categories.json",
            file="categories.json",
            size=2_036,
            checksum="sha256:53261da888122daf2d120d925458631d9619e15d82e56052e7a42e535ce32b63",
        ),
        Archive(
            url=f"{_RAW}/train.csv",
            file="train.csv",
            size=839_073,
            checksum="sha256:b06e26ac675513959a63135f11b94ea7786ed02da65db93a5650d8838cbc664b",
        ),
        Archive(
            url=f"{_RAW}/test.csv",
            file="test.csv",
            size=239_961,
            checksum="sha256:d12d6e3bc4c3103966ae786dc435913c0c563dfa328f5a3646d0e62cfeeb474d",
        ),
    ),
    folders=("banking_data",),
)
