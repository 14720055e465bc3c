"""Small honest problems, and runs of them that nothing disturbed: what a trial starts from and is compared with."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from .commands import file_events, run
from .promise import Labels, labels_of

PROBLEMS = 6  # numbers of the problems of embeddings
PHOTOS = "photos"  # the problem of images; slower, so drawn rarely
STORED = "stored"  # the same images, embedded before: folders of features are its sources
RUN = "run"  # name of the run directory in every folder
STEPS = ("a", "b")  # sources of new items, for updates
# What people do with a run: files of corrections, the last one taken back, another fit, that taken back.
RELABEL, UNDO, REFINE, UNREFINE = ("r", "s"), "undo", "refine", "unrefine"


def reviewed(problem: str) -> str:
    """The problem that stands for this one where people said something of it: fewer runs to make."""
    return problem if problem in (PHOTOS, STORED) else f"vectors-{int(problem.split('-')[1]) % 2}"


class World:
    """Folders with a problem's files and a run that was brought so far, made once and copied for each trial."""

    def __init__(self, folder: Path, patient: bool = False) -> None:
        self.folder, self.patient = folder, patient  # patient: a failure may be looked into, however long it takes
        self._events: dict[tuple[str, ...], int] = {}

    def draw(self, random: random.Random) -> str:
        """Name of a problem."""
        chance = random.random()
        return PHOTOS if chance < 0.03 else STORED if chance < 0.15 else f"vectors-{random.randrange(PROBLEMS)}"

    def start(self, problem: str) -> tuple[str, ...]:
        """Arguments of the command that makes the run of a problem."""
        if problem == PHOTOS:
            return ("discover", "base", "--k", "3", "--image-size", "32", "--out", RUN, "--json")
        if problem == STORED:
            return ("discover", "base.features", "--k", "3", "--out", RUN, "--json")
        number = int(problem.split("-")[1])
        k = str(4 + number % 2)
        if number % 3 == 0:
            return ("train", "base.npz", "--k", k, "--epochs", "2", "--rehearsals", "1", "--out", RUN, "--json")
        return ("discover", "base.npz", "--k", k, "--out", RUN, "--json")

    def source(self, problem: str, step: str) -> str:
        """Name of the source of new items."""
        return {PHOTOS: step, STORED: f"{step}.features"}.get(problem, f"{step}.npz")

    def update(self, problem: str, step: str) -> tuple[str, ...]:
        """Arguments of the command that adds the items of `step`."""
        new = (self.source(problem, step),)
        # A run of `train` keeps no features, so it is told where they are.
        base = ("--source", "base.npz") if self.start(problem)[0] == "train" else ()
        return ("update", RUN, *new, *base, "--json")

    def step(self, problem: str, step: str) -> tuple[str, ...]:
        """Arguments of a command that changes the labels of a run."""
        base = ("--source", "base.npz") if self.start(problem)[0] == "train" else ()
        if step in STEPS:
            return self.update(problem, step)
        return {
            UNDO: ("relabel", RUN, "--undo", "--json"),
            REFINE: ("refine", RUN, *base, "--json"),
            UNREFINE: ("refine", RUN, "--undo", "--json"),
        }.get(step, ("relabel", RUN, f"{step}.csv", "--json"))

    def made(self, problem: str, steps: Iterable[str] = (), begun: bool = True) -> Path:
        """A folder with the sources of a problem and its run after some steps; not to be written to."""
        steps = tuple(steps)
        folder = self.folder / "-".join([problem, *(["run", *steps] if begun else [])])
        if folder.exists():
            return folder
        making = folder.with_name(f"{folder.name}.{os.getpid()}.making")  # another worker may be making it, too
        shutil.rmtree(making, ignore_errors=True)  # of a trial that failed here
        if not begun:
            making.mkdir(parents=True)
            _write_sources(making, problem)
        else:
            shutil.copytree(
                self.made(problem, steps[:-1], begun=bool(steps)), making, symlinks=True, ignore_dangling_symlinks=True
            )
            arguments = self.step(problem, steps[-1]) if steps else self.start(problem)
            done = run(*arguments, cwd=making)
            assert done.code == 0, f"an honest problem fails: {done}"
        try:
            making.rename(folder)
        except OSError:
            shutil.rmtree(making)
        return folder

    def copy(self, into: Path, problem: str, steps: Iterable[str] = (), begun: bool = True) -> None:
        """Put a copy of what `made` gives into a trial's folder, with files of the user's beside it."""
        shutil.copytree(self.made(problem, steps, begun), into, dirs_exist_ok=True, symlinks=True)
        (into / "thesis.txt").write_text("The user's own work.")

    def labels(self, problem: str, steps: Iterable[str] = ()) -> Labels:
        """Labels of an undisturbed run after some updates."""
        return labels_of(self.made(problem, steps) / RUN)

    def events(self, key: tuple[str, ...], folder: Path) -> int:
        """How many file events a command has; `folder` is a copy that the command may be run in."""
        if key not in self._events:
            self._events[key] = file_events(*key[1:], cwd=folder)
        return self._events[key]


def _write_sources(folder: Path, problem: str) -> None:
    names = [f"item-{i:03d}" for i in (1, 3, 30, 50)]
    if problem in (PHOTOS, STORED):
        names = [f"unlabelled/base-{name}.png" for name in ("red-1", "green-3", "blue-0", "blue-1")]
    # The first names a class that is not there, moves and takes out; the second renames, and says it of one item again.
    (folder / "r.csv").write_text(f"id,label\n{names[0]},heap\n{names[2]},heap\n{names[3]},junk\n")
    (folder / "s.csv").write_text(f"id,label,category,name\n{names[1]},heap,,\n,,novel-001,large\n")
    if problem in (PHOTOS, STORED):
        _write_photos(folder)
        for part in ("base", *STEPS) if problem == STORED else ():
            done = run("embed", part, "--image-size", "32", "--out", f"{part}.features", "--json", cwd=folder)
            assert done.code == 0, f"honest images are not embedded: {done}"
        return
    number = int(problem.split("-")[1])
    random = np.random.RandomState(number)
    n, d, k = random.randint(60, 121), random.randint(8, 17), 4 + number % 2
    middles = random.randn(k + 1, d) * 4
    sizes = np.maximum(n * 0.6 ** np.arange(k) / (0.6 ** np.arange(k)).sum(), 6).astype(int)
    true = np.repeat(np.arange(k), sizes)
    given = np.where((true < 2) & (np.arange(len(true)) % 2 == 0), true, -1)
    _write_npz(folder / "base.npz", random, middles, true, given, "item")
    for step in STEPS:
        # Some of each class and some of a class that the run has not seen.
        true = np.repeat(np.arange(k + 1), [*[3] * k, 8])
        _write_npz(folder / f"{step}.npz", random, middles, true, np.full(len(true), -1), f"new-{step}")


def _write_npz(
    path: Path, random: np.random.RandomState, middles: np.ndarray, true: np.ndarray, given: np.ndarray, name: str
) -> None:
    x = (middles[true] + random.randn(len(true), middles.shape[1])).astype(np.float32)
    ids = np.array([f"{name}-{i:03d}" for i in range(len(true))])
    np.savez(path, x=x, y=given, y_true=true, ids=ids)


def _write_photos(folder: Path) -> None:
    random = np.random.RandomState(0)
    colours = {"red": (200, 30, 30), "green": (30, 180, 40), "blue": (20, 40, 210)}
    for part, n in (("base", 12), ("a", 4), ("b", 4)):
        for colour, rgb in colours.items():
            for i in range(n):
                labelled = part == "base" and colour != "blue" and i % 2 == 0
                path = folder / part / (colour if labelled else "unlabelled") / f"{part}-{colour}-{i}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                pixels = np.clip(np.array(rgb) + random.randint(-25, 25, (24, 24, 3)), 0, 255)
                Image.fromarray(pixels.astype(np.uint8)).save(path)
