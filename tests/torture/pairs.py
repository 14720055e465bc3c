"""Two commands at once on one run: each has its effect, or says who holds the run; nothing is lost."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

from .commands import Done, Running, run
from .problems import REFINE, RUN, STORED, UNDO, World
from .promise import LOST, OTHER, broken, check_end, check_kept, check_untouched, labels_of, names_holder, snapshot

PAIRS = (
    ("update a", "update b"),
    ("update a", "update b"),
    ("update a", "update a"),
    ("update a", "predict b"),
    ("update a", "report"),
    ("begin", "begin"),
    ("begin", "begin"),
    ("export", "update a"),
    ("export", "export"),
    ("predict a", "predict b"),
    ("report", "report"),
    ("begin", "update a"),
    ("report", "export"),
)
# The same with what people say; these begin with a run about which something was said.
REVIEW_PAIRS = (
    ("s", "a"),
    ("s", "a"),
    ("s", "s"),
    ("s", "undo"),
    ("s", "export"),
    ("s", "report"),
    ("s", "refine"),
    ("refine", "refine"),
    ("refine", "a"),
    ("undo", "undo"),
    ("undo", "predict a"),
)
# A fit that was made meanwhile of what counts no longer is let go; what there was to take back has been taken back.
OVERTAKEN = ("was changed while it was fitted", "nothing to take back", "said about this run meanwhile")
OUTPUTS = ("p.parquet", "labels.csv")


def trial(random: random.Random, folder: Path, world: World) -> int:
    """One pair of commands, started together or shortly after each other."""
    if random.random() < 0.3:
        return _review_trial(random, folder, world)
    problem = STORED if random.random() < 0.12 else f"vectors-{random.randrange(6)}"
    pair = list(random.choice(PAIRS))
    random.shuffle(pair)
    begun = pair != ["begin", "begin"]
    world.copy(folder, problem, (), begun=begun)
    old = world.labels(problem) if begun else {}
    own = (folder / RUN, *(folder / name for name in OUTPUTS))
    users = snapshot(folder, own)
    arguments = [_arguments(world, problem, command) for command in pair]
    first = Running(*arguments[0], cwd=folder)
    time.sleep(random.choice((0, 0, random.uniform(0, 0.05), random.uniform(0, 0.5))))
    second = Running(*arguments[1], cwd=folder)
    ended = dict(enumerate((first.wait(), second.wait())))
    story = " & ".join(f"{done.command} -> {done.code}" for done in ended.values())
    for at, done in ended.items():
        check_end(done)
        # The other one was first to make the file.
        taken = pair[at] == "export" and any(
            said in done.err for said in ("is there already", "someone else meanwhile")
        )
        early = pair[at] != "begin" and "begin" in pair  # a run that is not finished yet is refused as such
        updated = pair[at] == "begin" and "updated" in done.err  # the other one was first, and it is finished for good
        if done.code == 2 and not (names_holder(done) or taken or early or updated):
            broken(OTHER, f"{story}: refused, but not because somebody holds the run: {done}")
    if all(done.code == 2 for done in ended.values()):
        broken(OTHER, f"{story}: both were refused: {ended[1]}")
    check_untouched(users, snapshot(folder, own), story)
    now = labels_of(folder / RUN)
    check_kept(old, now, story)
    _check_effects(world, problem, pair, ended, folder, story)
    _check_goes_on(world, problem, pair, folder, story)
    return 1


def _review_trial(random: random.Random, folder: Path, world: World) -> int:
    """One pair of commands, one of which takes what people say."""
    problem, pair = f"vectors-{random.randrange(2)}", list(random.choice(REVIEW_PAIRS))
    random.shuffle(pair)
    world.copy(folder, problem, ("r",))
    own = (folder / RUN, *(folder / name for name in OUTPUTS))
    users = snapshot(folder, own)
    steps = ("a", "s", UNDO, REFINE)
    arguments = [world.step(problem, one) if one in steps else _arguments(world, problem, one) for one in pair]
    first = Running(*arguments[0], cwd=folder)
    time.sleep(random.choice((0, 0, random.uniform(0, 0.05), random.uniform(0, 0.5))))
    second = Running(*arguments[1], cwd=folder)
    ended = (first.wait(), second.wait())
    story = " & ".join(f"{done.command} -> {done.code}" for done in ended)
    for done in ended:
        check_end(done)
        if done.code == 2 and not (names_holder(done) or any(said in done.err for said in OVERTAKEN)):
            broken(OTHER, f"{story}: refused, but not because somebody holds the run: {done}")
    if all(done.code == 2 for done in ended):
        broken(OTHER, f"{story}: both were refused: {ended[1]}")
    check_untouched(users, snapshot(folder, own), story)
    worked = [one for one, done in zip(pair, ended, strict=True) if done.code == 0 and one in steps]
    # What could not be taken back after the other one is refused, so only orders that there can be are asked for.
    orders = {tuple(worked), tuple(reversed(worked))} - {("a", UNDO), (REFINE, UNDO), (UNDO, UNDO)}
    possible = [world.labels(problem, ("r", *order)) for order in orders]
    check_end(run("check", RUN, "--repair", "--json", cwd=folder), allowed=(0,))
    now = labels_of(folder / RUN)
    if now not in possible:
        broken(LOST, f"{story}: the labels are those of neither order")
    done = check_end(run(*world.step(problem, "b"), cwd=folder), allowed=(0,))
    check_kept(now, labels_of(folder / RUN), f"after {story}: {done.command}")
    return 1


def _arguments(world: World, problem: str, command: str) -> tuple[str, ...]:
    base = ("--source", "base.npz") if world.start(problem)[0] == "train" else ()
    verb, _, step = command.partition(" ")
    return {
        "begin": world.start(problem),
        "update": world.update(problem, step or "a"),
        "predict": ("predict", RUN, world.source(problem, step), "--out", "p.parquet", "--json"),
        "report": ("report", RUN, *base, "--json"),
        "export": ("export", RUN, "--format", "csv", "--out", "labels.csv", "--json"),
    }[verb]


def _check_effects(
    world: World, problem: str, pair: list[str], ended: dict[int, Done], folder: Path, story: str
) -> None:
    """What ended with 0 is there, and is what an undisturbed command gives before or after the other one."""
    worked = [command for at, command in enumerate(pair) if ended[at].code == 0]
    added = tuple(dict.fromkeys(command[-1] for command in worked if command.startswith("update")))
    orders = {added, added[::-1]}
    now = labels_of(folder / RUN)
    possible = [world.labels(problem, order) for order in orders]
    if now not in possible:
        sizes = [len(labels) for labels in possible]
        broken(LOST, f"{story}: {len(now)} items; undisturbed, one after the other gives {sizes} or other labels")
    states = [(), *[order[:n] for order in orders for n in range(1, len(order) + 1)]]
    if "export" in worked:
        lines = (folder / "labels.csv").read_text().splitlines()
        if len(lines) - 1 not in {len(world.labels(problem, state)) for state in states}:
            broken(LOST, f"{story}: labels.csv has {len(lines) - 1} rows, neither all before nor all after")
    for command in worked:
        if command.startswith("predict") and pair.count(command) + sum(c[:4] == "pred" for c in pair) < 3:
            found = labels_of(folder, "p.parquet")
            if found not in [_predicted(world, problem, command, state, folder.parent) for state in states]:
                broken(LOST, f"{story}: p.parquet is neither what the run says before nor after")


_predictions: dict[tuple[object, ...], object] = {}


def _predicted(world: World, problem: str, command: str, state: tuple[str, ...], at: Path) -> object:
    key = (problem, command, state)
    if key not in _predictions:
        world.copy(at / "alone", problem, state)
        check_end(run(*_arguments(world, problem, command), cwd=at / "alone"), allowed=(0,))
        _predictions[key] = labels_of(at / "alone", "p.parquet")
        shutil.rmtree(at / "alone")
    return _predictions[key]


def _check_goes_on(world: World, problem: str, pair: list[str], folder: Path, story: str) -> None:
    """After the pair, updates go through and give what they give to an undisturbed run."""
    for step in ("a", "b"):
        done = run(*world.update(problem, step), cwd=folder)
        if done.code:
            broken(LOST, f"after {story}: {done}")
    now = labels_of(folder / RUN)
    if now not in [world.labels(problem, order) for order in (("a", "b"), ("b", "a"))]:
        broken(LOST, f"after {story}, then update a, update b: the labels are not those of an undisturbed run")
