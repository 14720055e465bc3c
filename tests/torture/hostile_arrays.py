"""Hostile .npz sources: broken files, arrays of wrong shapes and types, absurd numbers, ids and labels from hell."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, Any]
# Words that people write where they have no label; none of them is a class.
NO_LABELS = ("NA", "N/A", "null", "None", "nan", "NaN", "unlabelled", "unlabeled", "unsure", "unsorted", "")
NAMES = (
    '=HYPERLINK("http://x","y")',
    "+1+1",
    "@SUM(A1)",
    "-2+3|cmd",
    "\x1b[31mred\x1b[0m",
    "\x07bell",
    "a\nb",
    "a\rb",
    "a\tb",
    "nul\x00l",
    "עברית",
    "\u202egnp.exe",
    "é",
    "e\u0301",
    "\ud800",
    "x\udc80y",
    "😀" * 30,
    "../../etc/passwd",
    "/etc/passwd",
    "C:\\con",
    " ",
    " a ",
    "novel-001",
    "unsure",
    "<script>alert(1)</script>",
    "a,b;c",
    '"',
    "'",
    "x" * 5000,
    "\ufeffbom",
    "\u2028line",
    "True",
    "1.0",
    "1e5",
    "-1",
)


def honest(random: random.Random, n: int = 60, d: int = 8) -> Arrays:
    """Four clusters, two of them half labelled."""
    state = np.random.RandomState(random.randrange(2**32))
    true = np.sort(state.randint(0, 4, n))
    x = (state.randn(4, d)[true] * 4 + state.randn(n, d)).astype(np.float32)
    y = np.where((true < 2) & (np.arange(n) % 2 == 0), true, -1)
    return {"x": x, "y": y, "y_true": true, "ids": np.array([f"h{i:03d}" for i in range(n)])}


def _cell(value: float) -> Callable[[Arrays, random.Random], None]:
    def change(a: Arrays, random: random.Random) -> None:
        a["x"] = a["x"].astype(np.float64 if abs(value) > 1e38 else np.float32)
        a["x"][random.randrange(len(a["x"])), random.randrange(a["x"].shape[1])] = value

    return change


def _x(make: Callable[[Any], Any]) -> Callable[[Arrays, random.Random], None]:
    return lambda a, random: a.update(x=make(a["x"]))


def _y(make: Callable[[Any], Any]) -> Callable[[Arrays, random.Random], None]:
    return lambda a, random: a.update(y=make(a["y"]))


def _ids(make: Callable[[Any], Any]) -> Callable[[Arrays, random.Random], None]:
    return lambda a, random: a.update(ids=make(a["ids"]))


def _without(*names: str) -> Callable[[Arrays, random.Random], None]:
    return lambda a, random: [a.pop(name) for name in names] and None


def _named_labels(a: Arrays, random: random.Random) -> None:
    names = random.sample(NAMES, 2)
    a["y"] = np.array([names[value] if value >= 0 else "" for value in a["y"].tolist()])


def _no_labels(a: Arrays, random: random.Random) -> None:
    missing = random.choice(NO_LABELS)
    a["y"] = np.array([f"class {value}" if value >= 0 else missing for value in a["y"].tolist()])


def _strange_ids(a: Arrays, random: random.Random) -> None:
    ids = a["ids"].astype(object)
    for name in random.sample(NAMES, random.randint(1, 6)):
        ids[random.randrange(len(ids))] = name
    a["ids"] = np.array(ids.tolist())


def _objects(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


WORTHLESS: dict[str, Callable[[Arrays, random.Random], None]] = {
    "constant x": _x(np.ones_like),
    "zero x": _x(np.zeros_like),
    "underflow x": _x(lambda x: x * np.float32(1e-44)),
    "one column": _x(lambda x: x[:, :1]),
    "one row times a million": lambda a, random: a["x"].__setitem__(3, a["x"][3] * 1e6),
}
REFUSED: dict[str, Callable[[Arrays, random.Random], None]] = {
    "NaN cell": _cell(np.nan),
    "inf cell": _cell(np.inf),
    "minus inf cell": _cell(-np.inf),
    "too large for float32": _cell(1e300),
    "all NaN": _x(lambda x: x * np.nan),
    "one dimension": _x(lambda x: x[:, 0]),
    "three dimensions": _x(lambda x: x[:, None]),
    "no columns": _x(lambda x: x[:, :0]),
    "complex x": _x(lambda x: x.astype(complex)),
    "x of text": _x(lambda x: x.astype(str)),
    "x of objects": _x(lambda x: x.astype(object)),
    "no rows": lambda a, random: a.update({key: value[:0] for key, value in a.items()}),
    "short y": _y(lambda y: y[:-3]),
    "y of two columns": _y(lambda y: np.stack([y, y], 1)),
    "fractions as y": _y(lambda y: y + 0.5),
    "ids twice": _ids(lambda ids: np.concatenate([ids[:1], ids[:-1]])),
    "short ids": _ids(lambda ids: ids[:-1]),
    "no x": _without("x"),
}
CHANGES: dict[str, Callable[[Arrays, random.Random], None]] = {
    **WORTHLESS,
    **REFUSED,
    "large cell": _cell(3e38),
    "tiny cell": _cell(1e-45),
    "norms of all sizes": _x(lambda x: x * np.logspace(-18, 18, len(x), dtype=np.float32)[:, None]),
    "float16": _x(lambda x: x.astype(np.float16)),
    "big endian": _x(lambda x: x.astype(">f4")),
    "integers": _x(lambda x: x.astype(np.int8)),
    "booleans": _x(lambda x: x > 0),
    "fortran order": _x(np.asfortranarray),
    "many columns": _x(lambda x: np.tile(x, (1, 300))),
    "one item": lambda a, random: a.update({key: value[:1] for key, value in a.items()}),
    "three items": lambda a, random: a.update({key: value[::25] for key, value in a.items()}),
    "all rows the same but one": _x(lambda x: np.concatenate([x[:1], np.repeat(x[1:2], len(x) - 1, 0)])),
    "every row twice": _x(lambda x: np.repeat(x[::2], 2, 0)[: len(x)]),
    "uint64 y": _y(lambda y: np.where(y < 0, 2**64 - 1, y).astype(np.uint64)),
    "labels of 2**63-1": _y(lambda y: np.where(y == 1, 2**63 - 1, y)),
    "labels far apart": _y(lambda y: np.where(y == 1, 10**12, y)),
    "y below -1": _y(lambda y: np.where(y < 0, -7, y)),
    "y with NaN": _y(lambda y: np.where(y < 0, np.nan, y)),
    "y of booleans": _y(lambda y: y >= 0),
    "y of objects": _y(lambda y: _objects([None if v < 0 else f"c{v}" for v in y.tolist()])),
    "y of bytes": _y(lambda y: np.array([b"" if v < 0 else b"\xff%d" % v for v in y.tolist()])),
    "y of dates": _y(lambda y: y.astype("datetime64[D]")),
    "nothing labelled": _y(lambda y: np.full_like(y, -1)),
    "all labelled": lambda a, random: a.update(y=a["y_true"]),
    "one class": _y(lambda y: np.where(y == 0, 0, -1)),
    "one example a class": _y(
        lambda y: np.where(np.isin(np.arange(len(y)), [0, len(y) - 1]), [0] * (len(y) - 1) + [1], -1)
    ),
    "hostile class names": _named_labels,
    "words for no label": _no_labels,
    "class_names too many": lambda a, random: a.update(class_names=np.array([f"c{i}" for i in range(9)])),
    "class_names too few": lambda a, random: a.update(class_names=np.array(["c0"])),
    "class_names twice": lambda a, random: a.update(class_names=np.array(["c", "c", "d"])),
    "hostile ids": _strange_ids,
    "numbers as ids": _ids(lambda ids: np.arange(len(ids)) * 3),
    "fractions as ids": _ids(lambda ids: np.arange(len(ids)) / 3),
    "ids of objects": _ids(lambda ids: ids.astype(object)),
    "empty ids": _ids(lambda ids: np.full(len(ids), "")),
    "ids in two columns": _ids(lambda ids: np.stack([ids, ids], 1)),
    "no ids": _without("ids"),
    "no y": _without("y"),
    "short y_true": lambda a, random: a.update(y_true=a["y_true"][:-4]),
    "y_true against y": lambda a, random: a.update(y_true=1 - a["y_true"]),
    "y_true of text": lambda a, random: a.update(y_true=a["y_true"].astype(str)),
    "a scalar": lambda a, random: a.update({random.choice(list(a)): np.array(3)}),
    "more arrays": lambda a, random: a.update(more=np.zeros((3, 3)), x2=np.ones(2)),
}
# Ids of the honest problems with other content: never "already there".
COLLISIONS = ("ids of the run", "no ids")


def _whole(arrays: Arrays) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def _claims(shape: str) -> bytes:
    """An array whose header claims more than there is."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode("latin1") + b"\0" * 64


def _members(**files: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/") + ".npy", content)
    return out.getvalue()


def flipped_bits(blob: bytes, random: random.Random, most: int = 20) -> bytes:
    """Some bytes with a few bits turned over."""
    changed = bytearray(blob)
    for _ in range(random.randint(1, most)):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


FILES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "empty file": lambda blob, random: b"",
    "no zip": lambda blob, random: random.randbytes(500),
    "truncated": lambda blob, random: blob[: random.randrange(len(blob))],
    "flipped bits": flipped_bits,
    "text": lambda blob, random: b"x,y\n1,2\n",
    "empty zip": lambda blob, random: _members(),
    "claims 10**13 rows": lambda blob, random: _members(x=_claims("(10000000000000, 8)")),
    "claims a negative shape": lambda blob, random: _members(x=_claims("(-3, 8)")),
    "claims code": lambda blob, random: _members(x=_claims("__import__('os').system('touch owned')")),
    "members in folders": lambda blob, random: _members(**{"..__x": _claims("(2, 2)")}),
    "junk behind": lambda blob, random: blob + b"junk" * 100,
    "a bare array": lambda blob, random: _claims("(4, 4)"),
}


def write_npz(random: random.Random, folder: Path) -> tuple[Path, str, str]:
    """A hostile .npz: path, what is hostile, and what must happen: refuse, warn, add, or anything polite."""
    path, arrays = folder / "hostile.npz", honest(random)
    if random.random() < 0.15:
        what = random.choice(list(FILES))
        path.write_bytes(FILES[what](_whole(arrays), random))
        return path, what, "any"
    if random.random() < 0.08:
        arrays["ids"] = np.array([f"item-{i:03d}" for i in range(len(arrays["ids"]))])
        path.write_bytes(_whole(arrays))
        return path, "ids of the run with other content", "collide"
    what = random.choice(list(CHANGES))
    CHANGES[what](arrays, random)
    must = "refuse" if what in REFUSED else "warn" if what in WORTHLESS else "any"
    must = "unlabelled" if what == "words for no label" else must
    if must == "any" and random.random() < 0.3:
        second = random.choice(list(CHANGES))
        try:
            CHANGES[second](arrays, random)
            what, must = f"{what} and {second}", "any"
        except Exception:  # the two don't go together
            must = "any"
    path.write_bytes(_whole(arrays))
    return path, what, must
