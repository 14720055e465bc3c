"""Sequences of commands, kills and damage against a small model of what must be true (hypothesis' state machine)."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from .commands import Done, Kill, run
from .damage import draw_damage
from .kills import SIGNALS
from .problems import REFINE, RELABEL, RUN, STEPS, UNDO, UNREFINE, World
from .promise import LOST, Labels, broken, check_end, check_kept, check_same, check_untouched, labels_of, snapshot


def machine(world: World, problem: str, folder: Path) -> type[RuleBasedStateMachine]:
    """A state machine over copies of one problem's run."""
    features = ("--source", "base.npz") if world.start(problem)[0] == "train" else ()

    class Sequence(RuleBasedStateMachine):
        """The model: which updates were made in which order, the labels now, and those that can come back.

        Without a word of people's, the updates decide ids, labels and number of updates. What people say changes the
        items that they name, can be taken back action by action until the next fit or update, and a fit can be taken
        back with all that was said since.
        """

        tried = 0

        def __init__(self) -> None:
            super().__init__()
            shutil.rmtree(folder, ignore_errors=True)
            world.copy(folder, problem)
            self.steps: tuple[str, ...] = ()
            self.exports = 0
            self.labels: Labels = labels_of(folder / RUN)
            self.said: list[Labels] = []  # labels before each action that can be taken back
            self.fits: list[tuple[Labels, list[Labels]]] = []  # labels before each fit that can, and what could be then
            self.reviewed = False
            self.users = self.outside()

        def outside(self) -> dict[str, str]:
            return snapshot(folder, (folder / RUN, folder / "p.parquet"))

        def command(self, *arguments: str, kill: Kill | None = None, allowed: tuple[int, ...] = (0,)) -> Done:
            Sequence.tried += 1
            return check_end(run(*arguments, cwd=folder, kill=kill), allowed=allowed)

        @rule(step=st.sampled_from(STEPS))
        def update(self, step: str) -> None:
            said = self.command(*world.update(problem, step)).json
            new = step not in self.steps
            if bool(said["n_added"]) != new:
                broken(LOST, f"update {step} added {said['n_added']} items after {self.steps}")
            if new:
                self.added(step)

        def added(self, step: str) -> None:
            """New items are there, and all that was there is as it was; from now on nothing can be taken back."""
            now = labels_of(folder / RUN)
            check_kept(self.labels, now, f"update {step}")
            if len(now) - len(self.labels) != len(world.labels(problem, (step,))) - len(world.labels(problem)):
                broken(LOST, f"update {step} made {len(now)} items of {len(self.labels)}")
            self.steps += (step,)
            self.labels, self.said, self.fits = now, [], []

        @precondition(lambda self: len(self.steps) < len(STEPS))
        @rule(number=st.sampled_from(SIGNALS), event=st.integers(1, 400), data=st.data())
        def killed_update(self, number: int, event: int, data: st.DataObject) -> None:
            step = data.draw(st.sampled_from([step for step in STEPS if step not in self.steps]))
            kill = Kill(number, event=event)
            self.command(*world.update(problem, step), kill=kill, allowed=(0, -9, -15, 143, 130, -2))
            if len(labels_of(folder / RUN)) > len(self.labels):
                self.added(step)  # it counts: the kill came after the labels were written

        @rule(file=st.sampled_from(RELABEL))
        def relabel(self, file: str) -> None:
            done = self.command(*world.step(problem, file)).json
            self.relabelled(file, done)

        def relabelled(self, file: str, said: dict[str, Any]) -> None:
            now = labels_of(folder / RUN)
            self.check_said(file, now)
            if said["events"]:
                self.said.append(self.labels)
            self.labels, self.reviewed = now, self.reviewed or bool(said["events"])
            if said["can_undo"] != len(self.said):
                broken(LOST, f"relabel {file}: {said['can_undo']} actions can be taken back, not {len(self.said)}")

        def check_said(self, file: str, now: Labels) -> None:
            """The items that a file names are what it says, all others in their class, which it may have renamed."""
            named = {"r": {"item-001": "heap", "item-030": "heap", "item-050": "junk"}, "s": {"item-003": "heap"}}[file]
            for item, label in named.items():
                if label not in now[item][1:]:
                    broken(LOST, f"relabel {file}: {item} is {now[item]}, not {label}")
            others = {item for item in now if item not in named}
            if other := [i for i in others if now[i][0] != self.labels[i][0]]:
                broken(LOST, f"relabel {file}: {other[0]} was not named: {self.labels[other[0]]} -> {now[other[0]]}")

        @rule(file=st.sampled_from(RELABEL), number=st.sampled_from(SIGNALS), event=st.integers(1, 60))
        def killed_relabel(self, file: str, number: int, event: int) -> None:
            self.command(*world.step(problem, file), kill=Kill(number, event=event), allowed=(0, -9, -15, 143, 130, -2))
            before, seen = self.labels, len(self.said)
            done = self.command(*world.step(problem, file)).json  # said again, it is no other thing
            self.reviewed, self.labels = True, labels_of(folder / RUN)
            self.said += [before, self.labels][: done["can_undo"] - seen]
            self.relabelled(file, {**done, "events": 0})

        @rule()
        def undo(self) -> None:
            if not self.said:
                self.command(*world.step(problem, UNDO), allowed=(2,))
                return
            self.command(*world.step(problem, UNDO))
            check_same(self.said[-1], labels_of(folder / RUN), "relabel --undo")
            self.labels = self.said.pop()

        @rule()
        def refine(self) -> None:
            self.command(*world.step(problem, REFINE))
            now = labels_of(folder / RUN)
            if set(now) != set(self.labels):
                broken(LOST, "refine changed which items there are")
            if junk := [i for i in now if (now[i][2] == "junk") != (self.labels[i][2] == "junk")]:
                broken(LOST, f"refine: {junk[0]} was {self.labels[junk[0]]} and is {now[junk[0]]}")
            self.fits.append((self.labels, self.said))
            self.labels, self.said, self.reviewed = now, [], True

        @rule()
        def unrefine(self) -> None:
            if not self.fits:
                self.command(*world.step(problem, UNREFINE), allowed=(2,))
                return
            self.command(*world.step(problem, UNREFINE))
            labels, said = self.fits.pop()
            check_same(labels, labels_of(folder / RUN), "refine --undo")
            self.labels, self.said = labels, said

        @rule(step=st.sampled_from(STEPS))
        def predict(self, step: str) -> None:
            said = self.command("predict", RUN, f"{step}.npz", "--out", "p.parquet", "--json").json
            if said["n"] != len(labels_of(folder, "p.parquet")):
                broken(LOST, f"predict says {said['n']} items and wrote others")
            (folder / "p.parquet").unlink()

        @rule(form=st.sampled_from(("csv", "parquet")))
        def export(self, form: str) -> None:
            self.exports += 1
            out = f"labels-{self.exports}.{form}"
            said = self.command("export", RUN, "--format", form, "--out", out, "--json").json
            if said["n"] != len(self.labels):
                broken(LOST, f"export wrote {said['n']} items")
            self.users = self.outside()

        @rule()
        def report(self) -> None:
            self.command("report", RUN, *features, "--json")

        @rule()
        def evaluate(self) -> None:
            self.command("evaluate", RUN, "--json")

        @rule()
        def begin_again(self) -> None:
            """The command that made the run finds it made, or says that it was updated; no label changes."""
            self.command(*world.start(problem), allowed=(0, 2) if self.steps or self.reviewed else (0,))

        @rule(
            number=st.integers(0, 2**32 - 1),
            command=st.sampled_from(("report", "evaluate", "predict", "update", "relabel")),
        )
        def damage(self, number: int, command: str) -> None:
            """A damaged file; after a command the user restores the whole run from a backup."""
            shutil.copytree(folder / RUN, folder.parent / "backup")
            draw_damage(random.Random(number), folder / RUN, lambda: [world.made(problem) / RUN])
            arguments = {
                "report": ("report", RUN, *features, "--json"),
                "evaluate": ("evaluate", RUN, "--json"),
                "predict": ("predict", RUN, "a.npz", "--out", "p.parquet", "--json"),
                "update": world.update(problem, self.steps[0] if self.steps else "a"),
                "relabel": world.step(problem, "s"),
            }[command]
            try:
                self.command(*arguments, allowed=(0, 2))
            finally:
                shutil.rmtree(folder / RUN)
                (folder.parent / "backup").rename(folder / RUN)
                (folder / "p.parquet").unlink(missing_ok=True)

        @invariant()
        def labels_are_those_of_the_updates(self) -> None:
            now: Labels = labels_of(folder / RUN)
            check_same(self.labels, now, "a sequence of commands")
            if not self.reviewed:
                check_same(world.labels(problem, self.steps), now, f"a sequence with the updates {self.steps}")
            check_untouched(self.users, self.outside(), "a sequence of commands")

    return Sequence


def trial(random: random.Random, folder: Path, world: World, examples: int = 3, steps: int = 12) -> int:
    """A few sequences; returns the number of commands. Repeated, a failure is shrunk to a short sequence."""
    problem = f"vectors-{random.randrange(6)}"
    for reached in ((), ("a",), ("b",), ("a", "b"), ("b", "a")):  # else the first sequence is timed with them
        world.made(problem, reached)
    kind = machine(world, problem, folder)
    limits = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        print_blob=False,
        phases=(Phase.generate, Phase.shrink) if world.patient else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    seed(random.randrange(2**32))(kind)
    try:
        run_state_machine_as_test(kind, settings=limits)
    except Exception as error:
        error.args = (f"{error}\n" + "\n".join(getattr(error, "__notes__", [])),)
        if hasattr(error, "what"):
            error.what += "\n" + "\n".join(getattr(error, "__notes__", []))
        raise
    return kind.tried
