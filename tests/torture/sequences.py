"""Sequences of commands, kills and damage against a small model of what must be true (hypothesis' state machine)."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from .commands import Done, Kill, run
from .damage import draw_damage
from .kills import SIGNALS
from .problems import RUN, STEPS, World
from .promise import LOST, Labels, broken, check_end, check_kept, check_same, check_untouched, labels_of, snapshot


def machine(world: World, problem: str, folder: Path) -> type[RuleBasedStateMachine]:
    """A state machine over copies of one problem's run."""
    features = ("--source", "base.npz") if world.start(problem)[0] == "train" else ()

    class Sequence(RuleBasedStateMachine):
        """The model: which updates were made in which order; it decides ids, labels and number of updates."""

        tried = 0

        def __init__(self) -> None:
            super().__init__()
            shutil.rmtree(folder, ignore_errors=True)
            world.copy(folder, problem)
            self.steps: tuple[str, ...] = ()
            self.exports = 0
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
            self.steps += (step,) if new else ()
            if bool(said["n_added"]) != new:
                broken(LOST, f"update {step} added {said['n_added']} items after {self.steps}")

        @precondition(lambda self: len(self.steps) < len(STEPS))
        @rule(number=st.sampled_from(SIGNALS), event=st.integers(1, 400), data=st.data())
        def killed_update(self, number: int, event: int, data: st.DataObject) -> None:
            step = data.draw(st.sampled_from([step for step in STEPS if step not in self.steps]))
            kill = Kill(number, event=event)
            self.command(*world.update(problem, step), kill=kill, allowed=(0, -9, -15, 143, 130, -2))
            if len(labels_of(folder / RUN)) == len(world.labels(problem, (*self.steps, step))):
                self.steps += (step,)  # it counts: the kill came after the labels were written

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
            if said["n"] != len(world.labels(problem, self.steps)):
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
            self.command(*world.start(problem), allowed=(0, 2) if self.steps else (0,))

        @rule(number=st.integers(0, 2**32 - 1), command=st.sampled_from(("report", "evaluate", "predict", "update")))
        def damage(self, number: int, command: str) -> None:
            """A damaged file; after a command the user restores the whole run from a backup."""
            shutil.copytree(folder / RUN, folder.parent / "backup")
            draw_damage(random.Random(number), folder / RUN)
            arguments = {
                "report": ("report", RUN, *features, "--json"),
                "evaluate": ("evaluate", RUN, "--json"),
                "predict": ("predict", RUN, "a.npz", "--out", "p.parquet", "--json"),
                "update": world.update(problem, self.steps[0] if self.steps else "a"),
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
            check_kept(world.labels(problem), now, "a sequence of commands")
            check_same(world.labels(problem, self.steps), now, f"a sequence with the updates {self.steps}")
            check_untouched(self.users, self.outside(), "a sequence of commands")

    return Sequence


def trial(random: random.Random, folder: Path, world: World, examples: int = 3, steps: int = 12) -> int:
    """A few sequences; returns the number of commands. Repeated, a failure is shrunk to a short sequence."""
    problem = f"vectors-{random.randrange(6)}"
    for reached in ((), ("a",), ("b",), ("a", "b"), ("b", "a")):
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
