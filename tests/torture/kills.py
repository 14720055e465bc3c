"""Kill a command at any moment, once or several times; then the same command gives what an undisturbed one gives."""

from __future__ import annotations

import os
import random
import shutil
import signal
from pathlib import Path

import pyarrow.parquet as pq

from .commands import SAVE, Kill, run
from .problems import PHOTOS, REFINE, RUN, STEPS, UNDO, UNREFINE, World, reviewed
from .promise import (
    LOST,
    OTHER,
    Labels,
    broken,
    check_end,
    check_kept,
    check_same,
    check_untouched,
    labels_of,
    snapshot,
)

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
ENDINGS = {signal.SIGKILL: (-9,), signal.SIGTERM: (130, 143, -15, -2), signal.SIGINT: (130, -2)}
LEFTOVERS = (".tmp", "-new.parquet")
COPY = "copy"  # of a run, by refine --out
SAVED = "saved"  # a run as Python saves it
THERE = "there"  # where a run lies that is given by a link
# Commands, how often each is drawn, and what the run has been through before: two for who can be told apart.
DRAWN: dict[str, tuple[float, tuple[tuple[str, ...], ...]]] = {
    "begin": (3, ((),)),
    "update": (6, ((), ("a",), ("r",))),
    "predict": (1, ((), ("a",))),
    "export": (1.5, ((), ("a",), ("r",))),
    "report": (1, ((), ("a",), ("r",))),
    "relabel": (3, ((), ("a",))),
    UNDO: (1.5, (("r",), ("r", "s"))),
    REFINE: (1.2, (("r",),)),
    UNREFINE: (0.8, (("r", REFINE),)),
    COPY: (0.8, (("r",),)),
    SAVE: (1, ((), ("a",))),
}
ONCE = (UNDO, REFINE, UNREFINE, COPY)  # done again, these would do more


def draw_kill(random: random.Random, events: int, seconds: float) -> Kill:
    """A kill within a command of so many file events that takes about so long; tiny delays are as likely as long."""
    number = random.choice(SIGNALS)
    if random.random() < 0.7:
        return Kill(number, event=random.randrange(1, events + 1))
    return Kill(number, seconds=seconds * 10 ** random.uniform(-3.5, 0.1))


def trial(random: random.Random, folder: Path, world: World) -> int:
    """One command, killed up to eight times; returns the number of kills."""
    problem = world.draw(random)
    names = ("update", "predict", "export", "report", "relabel") if problem == PHOTOS else tuple(DRAWN)
    command = random.choices(names, [1 if problem == PHOTOS else DRAWN[name][0] for name in names])[0]
    before = random.choice(DRAWN[command][1])
    if "r" in before:
        problem = reviewed(problem)
    if command == SAVE and world.start(problem)[0] == "train":
        command = "report"  # a run of `train` keeps no features, so Python can't save all of it
    step = "b" if before else random.choice(STEPS)
    world.copy(folder, problem, before, begun=command != "begin")
    if command != "begin" and random.random() < 0.1:
        (folder / RUN).rename(folder / THERE)
        (folder / RUN).symlink_to(THERE)
    arguments, made = _arguments(world, problem, command, step)
    own = tuple(folder / name for name in {RUN, THERE, made, "p.features"})
    users = snapshot(folder, own)
    old = world.labels(problem, before) if command != "begin" else {}
    # A reference is made before the kills, so that the time of a trial is the time of the kills.
    changes = {"update": (step,), "relabel": ("r",), UNDO: (UNDO,), REFINE: (REFINE,), UNREFINE: (UNREFINE,)}
    after_it = (*before, *changes.get(command, ()))
    wanted = world.labels(problem, after_it)
    effects = [_exported(world, problem, state) for state in (before, after_it)] if command in ONCE else []
    reference = _reference(world, problem, before, command, arguments, made, folder.parent)
    real = random.random() < 0.02
    kills, left_by_kills, is_done = 0, set[str](), False
    for _ in range(random.randint(1, 8)):
        kill = draw_kill(random, reference.events, 8.0 if real else reference.seconds)
        kill = Kill(kill.signal, seconds=kill.seconds or random.uniform(0, 8)) if real else kill
        done = run(*arguments, cwd=folder, kill=kill, real=real)
        check_end(done, allowed=(0, 2, *ENDINGS[signal.Signals(kill.signal)]))
        kills += done.killed
        story = f"{done.command} after {kill}"
        after = snapshot(folder, own)
        if kill.signal == signal.SIGKILL:  # nobody can clean up then; the same command, undisturbed, can
            left_by_kills |= {name for name in after if name not in users and ".tmp" in name}
        after = {name: what for name, what in after.items() if name not in left_by_kills}
        check_untouched(users, after, story)
        if command in ("begin", "update"):
            _check_half_way(folder / RUN, old, wanted, story)
        elif labels_of(folder / RUN) not in (old, wanted):
            broken(LOST, f"{story}: labels that are neither those before nor those after")
        is_done = not done.killed or (command in ONCE and _is_done(folder, command, effects, story))
        if is_done:
            break
    if is_done and command in ONCE:  # what was said counts, also if it was killed before all of it was written
        check_end(run("check", RUN, "--repair", "--json", cwd=folder), allowed=(0,))
    done = run(*(("report", RUN, *_features(world, problem)) if is_done and command in ONCE else arguments), cwd=folder)
    if not (command == "export" and done.code == 2 and "is there already" in done.err):  # the killed one had finished
        check_end(done, allowed=(0,))
    story = f"{done.command} again after a kill"
    check_untouched(users, snapshot(folder, own), story)
    check_same(wanted, labels_of(folder / RUN), story)
    _check_output(folder, reference.output, command, made, story)
    if left := sorted(str(path) for path in (folder / RUN).rglob("*") if path.name.endswith(LEFTOVERS)):
        broken(OTHER, f"{story} left temporary files: {[Path(name).name for name in left]}")
    check_end(run("report", RUN, *_features(world, problem), "--json", cwd=folder), allowed=(0,))
    return kills


def _is_done(folder: Path, command: str, effects: list[list[str]], story: str) -> bool:
    """Whether a command that was killed had its effect, which is all or nothing."""
    if command == COPY:
        return (folder / COPY).exists()
    now = _lines(folder, "effect.csv")
    (folder / "effect.csv").unlink()
    if now not in effects:
        broken(LOST, f"{story}: the labels that count are neither those before nor those after")
    return now == effects[1]


_effects: dict[tuple[str, ...], list[str]] = {}


def _exported(world: World, problem: str, state: tuple[str, ...]) -> list[str]:
    """Labels of an undisturbed run as ``export`` tells them."""
    key = (problem, *state)
    if key not in _effects:
        at = world.folder / f"exported-{os.getpid()}"
        world.copy(at, problem, state)
        _effects[key] = _lines(at, "effect.csv")
        shutil.rmtree(at)
    return _effects[key]


def _lines(folder: Path, name: str) -> list[str]:
    check_end(run("export", RUN, "--format", "csv", "--out", name, "--json", cwd=folder), allowed=(0,))
    return (folder / name).read_text().splitlines()


class _Reference:
    """What an undisturbed command leaves, how long it takes and how many file events it has."""

    def __init__(self, events: int, seconds: float, output: object) -> None:
        self.events, self.seconds, self.output = events, seconds, output


_kept: dict[tuple[str, ...], _Reference] = {}


def _reference(
    world: World, problem: str, before: tuple[str, ...], command: str, arguments: tuple[str, ...], made: str, at: Path
) -> _Reference:
    key = (problem, *before, "then", *arguments)
    if key not in _kept:
        for name in ("counted", "timed"):
            world.copy(at / name, problem, before, begun=command != "begin")
        events = world.events((key[0], *arguments), at / "counted")
        done = check_end(run(*arguments, cwd=at / "timed"), allowed=(0,))
        _kept[key] = _Reference(events, done.seconds, _output(at / "timed", command, made))
    return _kept[key]


def _arguments(world: World, problem: str, command: str, step: str) -> tuple[tuple[str, ...], str]:
    """Arguments of the command, and what it makes beside the run."""
    if command == "begin":
        return world.start(problem), RUN
    if command == "update":
        return world.update(problem, step), RUN
    if command == "predict":
        return (
            "predict",
            RUN,
            world.source(problem, step),
            "--out",
            "p.parquet",
            "--json",
        ), "p.parquet"
    if command == "export":
        return ("export", RUN, "--format", "csv", "--out", "labels.csv", "--json"), "labels.csv"
    if command == COPY:
        return (*world.step(problem, REFINE), "--out", COPY), COPY
    if command == SAVE:
        return (SAVE, RUN, SAVED), SAVED
    if command in ("relabel", *ONCE):
        return world.step(problem, "r" if command == "relabel" else command), RUN
    return ("report", RUN, *_features(world, problem), "--json"), RUN


def _features(world: World, problem: str) -> tuple[str, ...]:
    return ("--source", "base.npz") if world.start(problem)[0] == "train" else ()


def _output(folder: Path, command: str, made: str) -> object:
    if command == "predict":
        return labels_of(folder, made)
    if command in (COPY, SAVE):
        return labels_of(folder / made)
    return (folder / made).read_text() if command == "export" else None


def _check_output(folder: Path, wanted: object, command: str, made: str, story: str) -> None:
    if command in ("predict", "export", COPY, SAVE) and _output(folder, command, made) != wanted:
        broken(LOST, f"{story}: {made} is not what an undisturbed command writes")


def _check_half_way(run: Path, old: Labels, wanted: Labels, story: str) -> None:
    """Right after a kill a run has all of the old items, and of the new ones all or none."""
    if not (run / "assignments.parquet").exists():
        if old:
            broken(LOST, f"{story}: assignments.parquet is gone")
        return
    try:
        now = labels_of(run)
    except (OSError, pq.lib.ArrowInvalid) as error:
        broken(LOST, f"{story}: assignments.parquet can't be read ({error})")
    check_kept(old, now, story)
    if set(now) not in (set(old), set(wanted)):
        broken(LOST, f"{story}: {len(now)} items, neither the {len(old)} before nor the {len(wanted)} after")
