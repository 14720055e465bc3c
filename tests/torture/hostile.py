"""Give hostile sources to commands: each is refused in a sentence or dealt with, and nothing of the user's changes."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from .commands import Done, run
from .hostile_arrays import NO_LABELS, write_npz
from .hostile_files import write_csv, write_labels, write_nothing, write_parquet
from .hostile_images import write_folder
from .problems import PHOTOS, RUN, World
from .promise import (
    LOST,
    OTHER,
    SILENT,
    Labels,
    broken,
    check_end,
    check_kept,
    check_same,
    check_untouched,
    labels_of,
    snapshot,
)

WRITERS = {write_npz: 10, write_csv: 4, write_parquet: 4, write_folder: 5, write_nothing: 2}
# What embedding leaves when what comes after it is refused: the same command, better told, needs it again.
KEPT_EMBEDDED = ("features", ".ltgcd.lock")
CAREFUL = ("careful", "warning", "no variance", "the same", "nothing to tell apart", "check how they were made")


def trial(random: random.Random, folder: Path, world: World) -> int:
    """One hostile source, given to one command."""
    write = random.choices(list(WRITERS), list(WRITERS.values()))[0]
    vectors = write is write_npz
    command = _command(random, vectors)
    problem = PHOTOS if command.startswith("photos") else f"vectors-{random.randrange(6)}"
    needs_run = command not in ("inspect", "begin", "photos begin", "estimate-k", "labels")
    world.copy(folder, problem, (), begun=needs_run)
    path, what, must = write(random, folder)
    source = str(path.relative_to(folder)) if path.is_absolute() and path.is_relative_to(folder) else str(path)
    if command == "labels":
        must = ""  # the source is an honest one, and the labels are what is hostile
    if path == Path():
        source = ""  # an empty argument; as a path it would be the folder itself, which may well be a source
    arguments, made = _arguments(random, world, folder, problem, command, source)
    own = tuple(folder / name for name in made)
    users = snapshot(folder, own)
    old = labels_of(folder / RUN) if needs_run else {}
    held = snapshot(folder / RUN) if needs_run else {}
    done = run(*arguments, cwd=folder)
    story = f"{done.command} [{what}]"
    check_end(done)
    check_untouched(users, snapshot(folder, own), story)
    if needs_run:
        check_kept(old, labels_of(folder / RUN), story)
        _check_run(folder / RUN, old, held, done, must, story)
    elif "--out" in arguments:
        _check_begun(folder / RUN, done, must, story)
    if must == "refuse" and done.code == 0 and command != "labels" and "labels" not in what:
        broken(OTHER, f"not refused: {story} -> {done.out[:300]}")
    if done.code == 0 and command == "begin" and random.random() < 0.15:
        again = [argument if argument != RUN else "again" for argument in arguments]
        check_end(run(*again, cwd=folder), allowed=(0,))
        check_same(labels_of(folder / RUN), labels_of(folder / "again"), f"{story} twice")
    return 1


def _command(random: random.Random, vectors: bool) -> str:
    if vectors:
        return random.choices(("inspect", "begin", "estimate-k", "predict", "update", "labels"), (4, 3, 0.3, 3, 3, 2))[
            0
        ]
    names = (
        "inspect",
        "begin",
        "predict",
        "update",
        "export",
        "report",
        "photos predict",
        "photos update",
        "photos begin",
    )
    return random.choices(names, (8, 1, 1, 1, 1.5, 1.5, 0.3, 0.3, 0.15))[0]


def _arguments(
    random: random.Random, world: World, folder: Path, problem: str, command: str, source: str
) -> tuple[list[str], set[str]]:
    """Arguments of the command, and the names of what it may write."""
    json = ["--json"] if random.random() < 0.8 else []
    if command == "labels":
        labels, _ = write_labels(random, folder, np.load(folder / "base.npz")["ids"].tolist())
        kind = random.choice(("inspect", "begin"))
        more = [] if kind == "inspect" else ["--k", "5", "--epochs", "1", "--out", RUN]
        verb = "inspect" if kind == "inspect" else "train"
        return [verb, "base.npz", "--labels", labels.name, *more, *json], {RUN}
    verb = command.rpartition(" ")[2]
    if verb == "begin":
        k = random.choice(("4", "4", "4", "2", "0", "61"))
        if command.startswith("photos"):
            return ["discover", source, "--k", "3", "--image-size", "32", "--out", RUN, *json], {RUN}
        if random.random() < 0.5 and source.endswith(".npz"):
            return ["discover", source, "--k", k, "--out", RUN, *json], {RUN, "again"}
        return ["train", source, "--k", k, "--epochs", "1", "--out", RUN, *json], {RUN, "again"}
    if verb == "predict":
        out = ["--out", "p.parquet"] if random.random() < 0.5 else []
        return ["predict", RUN, source, *out, *json], {RUN, "p.parquet", "p.features"}
    if verb == "update":
        base = world.update(problem, "a")[3:-1]
        return ["update", RUN, source, *base, *json], {RUN}
    if verb == "export":
        form = random.choice(("folders", "label-studio", "fiftyone", "coco", "csv"))
        return ["export", RUN, "--format", form, "--source", source, "--out", "exported", *json], {"exported", RUN}
    if verb == "report":
        return ["report", RUN, "--source", source, *json], {RUN}
    return [verb, source, *json], set()


def _check_run(run: Path, old: Labels, held: dict[str, str], done: Done, must: str, story: str) -> None:
    """A refused command changes no file of the run; an update adds what it says."""
    if done.code == 2:
        now = snapshot(run)
        core = {name for name in held if "/" not in name and not name.startswith(".")}
        if changed := sorted(name for name in core if now.get(name) != held[name]):
            broken(OTHER, f"{story} was refused but changed {changed}")
        return
    if done.arguments[0] != "update" or "--json" not in done.arguments:
        return
    added = set(labels_of(run)) - set(old)
    said = done.json
    if said["n_added"] != len(added):
        broken(LOST, f"{story} says {said['n_added']} items were added, but {len(added)} were")
    if said["n_added"] + said["n_present"] + said["n_skipped"] != said["n"]:
        broken(LOST, f"{story}: of {said['n']} items some are neither added, present nor left out: {done.out[:200]}")
    if must == "collide" and said["n_present"]:
        broken(LOST, f"{story}: {said['n_present']} new items count as present because an old one has their id")


def _check_begun(run: Path, done: Done, must: str, story: str) -> None:
    """A refused command leaves no run; a finished one has sense in it."""
    if done.code == 2:
        there = {path.name for path in run.iterdir()} if run.is_dir() else set()
        if left := sorted(there - set(KEPT_EMBEDDED)):
            broken(OTHER, f"{story} was refused but left {left} in the new folder")
        return
    labels = labels_of(run)
    if must == "unlabelled" and (wrong := {name for _, name, _ in labels.values()} & set(NO_LABELS)):
        broken(SILENT, f"{story}: {sorted(wrong)} became a class")
    said = (done.err + done.out).lower()
    if must == "warn" and not any(word in said for word in CAREFUL):
        broken(SILENT, f"{story}: worthless vectors got an answer without a word: {done.out[:300]}")
