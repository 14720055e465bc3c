"""How many minutes a cell will take, from the finished cells that are most like it; no guess where none is alike.

Nearest first: the same run with another data seed, or with other settings, on the same split; the same method on
another split, scaled by items times classes. A method that was never run with the last stage trained takes what others
took there and its own time on frozen features. What is known of k-means + Brent with one start counts ten times for the
one with ten. Minutes are those of the machines that made the records, beside their other work, without the first look
at the images.
"""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from ltgcd.bench.tables import Cell

SPLIT = ("dataset", "split", "imbalance", "n_old", "n_new")
TEN_STARTS = {"kmeans-brent": ("kmeans-brent-1", 10.0)}  # method: the one that does a part of it, and how often
LEAST = 0.005  # minutes: what was quicker is taken for this

Split = tuple[Any, ...]


class Past(NamedTuple):
    """A finished cell: its fields, and the minutes that it took."""

    cell: Mapping[str, Any]
    minutes: float

    @property
    def split(self) -> Split:
        """What its split is drawn by, but for the seed."""
        return _split(self.cell)


class Costs:
    """Minutes of cells that were not run, by those that were.

    Parameters
    ----------
    records : mapping
        The finished cells by key.
    """

    def __init__(self, records: Mapping[str, Mapping[str, Any]]) -> None:
        self._by_method: dict[tuple[Any, ...], list[Past]] = defaultdict(list)
        sizes: dict[Split, list[float]] = defaultdict(list)  # a seed may leave more or fewer items unlabelled
        for record in records.values():
            cell = record["cell"]
            if record.get("n") and record.get("k_true"):
                sizes[_split(cell)].append(float(record["n"]) * float(record["k_true"]))
            if record.get("minutes") is not None:
                place = cell["runs"], cell.get("backbone"), cell.get("regime"), cell.get("method")
                self._by_method[place].append(Past(cell, max(float(record["minutes"]), LEAST)))
        self._sizes = {split: median(found) for split, found in sizes.items()}

    def minutes(self, cell: Cell) -> float | None:
        """What a cell will take; None where nothing alike was ever run."""
        wanted = cell.described()
        place = cell.runs, cell.backbone, cell.regime
        own = self._by_method.get((*place, cell.method), [])
        part, times = TEN_STARTS.get(cell.method or "", ("", 0.0))
        parts = [past._replace(minutes=times * past.minutes) for past in self._by_method.get((*place, part), [])]
        for known in (own, parts):
            if found := self._here(wanted, known):
                return found
        for known in (own, parts):
            if found := self._elsewhere(wanted, known):
                return found
        if cell.regime != "last-stage":
            return None
        others = [past for key, held in self._by_method.items() if key[:3] == place for past in held]
        found = self._here(wanted, others) or self._elsewhere(wanted, others)
        frozen = self.minutes(dataclasses.replace(cell, regime="frozen", views=None))
        return None if found is None else found + (frozen or 0.0)

    @staticmethod
    def _here(wanted: Mapping[str, Any], known: list[Past]) -> float | None:
        """Minutes on the same split: of the same run if there is one, of other settings if not."""
        here = [past for past in known if past.split == _split(wanted)]
        for alike in (("preset", "changes", "image_size"), ("preset", "changes"), ("changes",), ()):
            if found := [past.minutes for past in here if _text(past.cell, alike) == _text(wanted, alike)]:
                return float(median(found))
        return None

    def _elsewhere(self, wanted: Mapping[str, Any], known: list[Past]) -> float | None:
        """Minutes on the split whose size is nearest, scaled to the size of this one."""
        scales = {split: scale for split in {past.split for past in known} if (scale := self._scale(split, wanted))}
        if not scales:
            return None
        nearest = min(scales, key=lambda split: (abs(np.log(scales[split])), repr(split)))
        minutes = self._here({**wanted, **dict(zip(SPLIT, nearest, strict=True))}, known)
        return None if minutes is None else minutes * scales[nearest]

    def _scale(self, split: Split, wanted: Mapping[str, Any]) -> float | None:
        """How many times as long as on another split: by items times classes, or by what was run on both."""
        ours, theirs = self._sizes.get(_split(wanted)), self._sizes.get(split)
        if ours is not None and theirs is not None:
            return ours / theirs
        ratios = []
        for place, held in self._by_method.items():
            both = [[past.minutes for past in held if past.split == one] for one in (_split(wanted), split)]
            if place[0] == wanted["runs"] and all(both):
                ratios.append(median(both[0]) / median(both[1]))
        return float(median(ratios)) if ratios else None


def _split(cell: Mapping[str, Any]) -> Split:
    return tuple(cell.get(name) for name in SPLIT)


def _text(cell: Mapping[str, Any], names: Iterable[str]) -> str:
    return json.dumps([cell.get(name) for name in names], sort_keys=True)


def together(cells: Iterable[Cell], minutes: Callable[[Cell], float | None]) -> tuple[float, int]:
    """Minutes of all cells of which they are known, and of how many they are not."""
    found = [minutes(cell) for cell in cells]
    return sum(one for one in found if one is not None), sum(one is None for one in found)


def in_words(minutes: float) -> str:
    """Minutes or hours, as rough as they are known."""
    if minutes < 1:
        return "under a minute"
    return f"about {minutes:.0f} min" if minutes < 100 else f"about {minutes / 60:.0f} h"
