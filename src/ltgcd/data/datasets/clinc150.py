"""CLINC150, imbalanced: 10,525 + 4,500 requests to an assistant in 150 intents of 25, 50, 75 or 100 (train).

No protocol is published: Old is a random half of the classes (75), by the seed. Intents are numbered by name, since
copies disagree on the ids; what is out of scope ("oos") is left out, as it is no class.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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

_OUT_OF_SCOPE = "oos"
_FILE = "data_imbalanced.json"


def _original(folder: Path, part: Part) -> Pool | None:
    base = folder_with(folder, _FILE, "data")
    if base is None:
        return None
    content = read_json(base / _FILE)
    try:
        names = sorted({str(intent) for _, intent in content["train"]} - {_OUT_OF_SCOPE})
        rows = [(str(text), str(intent)) for text, intent in content[part] if intent != _OUT_OF_SCOPE]
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(base / _FILE, "lists of [text, intent]") from error
    y = encode([intent for _, intent in rows], names, base / _FILE)
    return text_pool([text for text, _ in rows], y, names, part, base / _FILE)


def _in_scope(names: Sequence[str], owner: Path) -> list[int]:
    return [code for code in by_name(names, owner) if names[code] != _OUT_OF_SCOPE]


DATASET = Dataset(
    name="clinc150",
    title="CLINC150 (imbalanced)",
    kind="text",
    n_classes=150,
    n_old=75,
    old_classes=random_order(150),
    licence="CC BY 3.0.",
    origin="https://github.com/clinc/oos-eval",
    citation="Larson et al.: An Evaluation Dataset for Intent Classification and Out-of-Scope Prediction, EMNLP 2019",
    how="Fetch data/data_imbalanced.json from https://github.com/clinc/oos-eval.",
    read=any_of(
        _original,
        huggingface(kind="text", labels=("label", "intent"), inner=("data", "imbalanced"), order=_in_scope),
        expected=_FILE,
    ),
    archives=(
        Archive(
            url="https://raw.githubusercontent.com/clinc/oos-eval/48a0e1cff8f43dd4d0836ecb4ed5df08733e3d2e/data/"
            + _FILE,
            file=_FILE,
            size=2_016_773,
            checksum="sha256:4886730b20c51eece26aa392ecae2717bfe9908680419e96255351c6148eb4cc",
        ),
    ),
    folders=("clinc150_imbalanced", "clinc_oos", "oos-eval"),
)
