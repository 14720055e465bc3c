"""The training loop that all methods share: epochs, re-selection, checkpoints, resume (docs/methods.md §3, §6.4).

What a method adds is a head, and an object with its losses and a plan for each epoch (`Objective`); the loop is the
same for all. An epoch depends on nothing but the weights, the momentum and the seed: its random numbers start afresh,
and what a method keeps from epoch to epoch (the selection) is computed from the weights when it begins. So a checkpoint
is small, and a run that was killed goes on to the same labels.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.progress import progress
from ltgcd.common.tables import Table
from ltgcd.data.collection import UNLABELLED
from ltgcd.features.backbones.engines import half_precision
from ltgcd.features.views import Views
from ltgcd.training.checkpoints import Checkpoints
from ltgcd.training.distributed import World
from ltgcd.training.model import Model, features_of, head_outputs, precision, predict
from ltgcd.training.schedule import Schedule, check_schedule, cosine, make_optimiser

# Items that an epoch draws at most. They are drawn with replacement, so that an epoch is no more than the time between
# two selections. Steps are what wears the tail away: on 250,000 made-up items in 550 Zipf classes the prototypes begin
# right (All 100), and ten epochs leave 98.4 of it with 32,768 items each, and 72.3 with 131,072.
EPOCH_ITEMS = 2**15


class Batch(NamedTuple):
    """Items of a step: rows (B,) in the collection, labels (B,), -1 for unlabelled, and the share of training done."""

    rows: torch.Tensor
    y: torch.Tensor
    progress: float


class Snapshot(NamedTuple):
    """Test view of all items: features h (N, D), and outputs of the head by name (N, …), to be asked for in blocks."""

    features: NDArray[np.float32]
    outputs: Mapping[str, Table]


class Plan(NamedTuple):
    """What an epoch draws its unlabelled items from, what its line in the record says of it, and the parts of the pool.

    `sets` names masks (N,) over all items, for whoever watches: S_conf, S_dens and S.
    """

    pool: NDArray[np.int64]
    record: dict[str, Any]
    sets: dict[str, NDArray[np.bool_]] = {}  # noqa: RUF012 - never written to


Watch = Callable[[int, dict[str, NDArray[np.bool_]]], None]


def unwatched(_epoch: int, _sets: dict[str, NDArray[np.bool_]]) -> None:
    """Look at nothing."""


class Objective(Protocol):
    """What a method adds to the loop: the losses that are minimised, and a plan for each epoch."""

    def plan(self, done: float, snapshot: Callable[[], Snapshot]) -> Plan:
        """Begin an epoch, at this share of the training; `snapshot` costs a pass over all items."""
        ...

    def losses(self, features: torch.Tensor, outputs: dict[str, torch.Tensor], batch: Batch) -> dict[str, torch.Tensor]:
        """Weighted terms of the loss on both views (2B rows); their sum is minimised."""
        ...


# ---------------------------------------------------------------- the loop


def fit(
    model: Model,
    objective: Objective,
    views: Views,
    y: NDArray[np.int64],
    schedule: Schedule,
    *,
    random_state: int = 0,
    checkpoints: Checkpoints | None = None,
    held_out: NDArray[np.int64] | None = None,
    record: Callable[[dict[str, Any]], None] = lambda _line: None,
    watch: Watch = unwatched,
    notify: Callable[[str], None] = lambda _message: None,
    world: World | None = None,
) -> Snapshot:
    """Train `model` in place and return what it says about all items.

    Parameters
    ----------
    model : Model
        Tail and head.
    objective : Objective
        Losses and plans.
    views : Views
        The N items.
    y : ndarray of int64, shape (N,)
        Labels, -1 for unlabelled.
    schedule : Schedule
        Optimisation.
    random_state : int
        Seed of everything that is drawn here.
    checkpoints : Checkpoints, optional
        What finished epochs leave behind; an epoch that is finished there is not trained again.
    held_out : ndarray of int64, shape (N,), optional
        True labels of labelled items that `y` hides (-1 elsewhere): scored after every epoch.
    record : callable
        Gets a dict for each epoch, from the first process only.
    watch : callable
        Told, when an epoch begins, what it draws its unlabelled items from: `Plan.sets`.
    notify : callable
        Told in a sentence what happens.
    world : World, optional
        The other processes.
    """
    world = world or World()
    check_schedule(schedule, world.size, can_choose=checkpoints is not None and held_out is not None)
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    model.to(device)
    optimiser = make_optimiser(model, schedule)
    # Small gradients vanish in float16 unless they are scaled; elsewhere the scaler does nothing.
    scaler = torch.amp.GradScaler(device.type, enabled=half_precision(device) is torch.float16)
    labelled = np.flatnonzero(y != UNLABELLED)
    steps = max(1, min(len(y), EPOCH_ITEMS) // schedule.batch_size)
    start = checkpoints.load(model, optimiser, notify) if checkpoints else 0

    def take_snapshot() -> Snapshot:
        return snapshot(model, views, world, device)

    with progress("training", (schedule.epochs - start) * steps) as advance:
        for epoch in range(start, schedule.epochs):
            began = time.perf_counter()
            model.eval()
            plan = objective.plan(epoch / schedule.epochs, take_snapshot)
            planned = time.perf_counter()
            watch(epoch + 1, plan.sets)
            model.train()
            random = np.random.RandomState([random_state, epoch])
            totals: dict[str, float] = {}
            for step, (rows, pair) in enumerate(batches(views, labelled, plan.pool, steps, schedule, random, world)):
                done = (epoch + step / steps) / schedule.epochs
                for group in optimiser.param_groups:
                    group["lr"] = cosine(schedule.learning_rate, done)
                features, outputs = _forward(model, pair.to(device), world)
                batch = Batch(torch.from_numpy(rows).to(device), torch.from_numpy(y[rows]).to(device), done)
                losses = objective.losses(features, outputs, batch)
                loss = torch.stack(list(losses.values())).sum()
                _descend(loss, model, optimiser, scaler, world)
                for name, value in losses.items():
                    totals[name] = totals.get(name, 0.0) + float(value.detach())
                advance(1)
            if not math.isfinite(sum(totals.values())):
                raise InputError(
                    f"Training diverged in epoch {epoch + 1} (the loss is not a number); lower the learning rate."
                )
            line: dict[str, Any] = {
                "epoch": epoch + 1,
                **{f"loss_{name}": round(value / steps, 6) for name, value in totals.items()},
                **plan.record,
                "held_out_balanced_acc": None,
                "seconds": round(time.perf_counter() - began, 3),
                "seconds_selection": round(planned - began, 3),
            }
            model.eval()
            if held_out is not None:
                line["held_out_balanced_acc"] = held_out_accuracy(model, views, held_out, device)
            if world.first:
                # The checkpoint comes last: killed before it, the epoch is trained again, and says the same.
                record(line)
                if checkpoints and schedule.choose == "held-out":
                    checkpoints.save_best(epoch + 1, model, line["held_out_balanced_acc"])
                if checkpoints:
                    checkpoints.save(epoch + 1, model, optimiser)
    if checkpoints and schedule.choose == "held-out":
        checkpoints.load_best(model)
    model.eval()
    return take_snapshot()


def batches(
    views: Views,
    labelled: NDArray[np.int64],
    pool: NDArray[np.int64],
    steps: int,
    schedule: Schedule,
    random: np.random.RandomState,
    world: World,
) -> Iterator[tuple[NDArray[np.int64], torch.Tensor]]:
    """Rows of each step and this process's pairs of views, read one step ahead.

    Half of the rows are drawn from D^l and half from the pool, with replacement: SimGCD's weighted sampler, with the
    halves exact instead of in expectation.
    """
    half = schedule.batch_size // 2
    mine = world.share(schedule.batch_size)
    if not len(pool):
        pool = labelled  # a selection may be empty; the labelled items then train alone

    def read() -> tuple[NDArray[np.int64], torch.Tensor]:
        drawn = [labelled[random.randint(len(labelled), size=half)], pool[random.randint(len(pool), size=half)]]
        # Interleaved, so that every process gets both kinds.
        rows = np.stack(drawn, axis=1).ravel()
        return rows, views.pair(rows, mine, random)

    with ThreadPoolExecutor(1) as reader:
        ahead = reader.submit(read)
        for step in range(steps):
            current = ahead.result()
            if step + 1 < steps:
                ahead = reader.submit(read)
            yield current


def _descend(
    loss: torch.Tensor, model: Model, optimiser: torch.optim.Optimizer, scaler: torch.amp.GradScaler, world: World
) -> None:
    """A step of the optimiser, by the mean of the gradients of all processes."""
    optimiser.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
    world.average_gradients(model.parameters())
    scaler.step(optimiser)
    scaler.update()


def _forward(model: Model, pair: torch.Tensor, world: World) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Features and outputs of the whole batch (2B rows): this process computes its share, and gets the others'."""
    with precision(pair.device):
        features, outputs = model(pair)
    return world.gather_views(features.float()), {n: world.gather_views(o.float()) for n, o in outputs.items()}


def snapshot(model: Model, views: Views, world: World, device: torch.device) -> Snapshot:
    """Features of every item in its test view; the processes share the work, but for the outputs of the head."""
    n = len(views)
    mine = world.share(n)
    features = features_of(model, views, np.arange(mine.start, mine.stop), device)
    gathered: NDArray[np.float32] = world.gather_rows(features, n).numpy()
    return Snapshot(gathered, head_outputs(model.head, gathered, device))


def held_out_accuracy(model: Model, views: Views, held_out: NDArray[np.int64], device: torch.device) -> float | None:
    """Mean over classes of the share of held-out labelled items that get their own class, in percent; no matching."""
    rows = np.flatnonzero(held_out != UNLABELLED)
    _, outputs = predict(model, views, rows, device)
    if "logits" not in outputs or not len(rows):
        return None
    right = outputs["logits"].argmax(dim=1).numpy() == held_out[rows]
    sizes = np.bincount(held_out[rows])
    recall = np.bincount(held_out[rows], weights=right)[sizes > 0] / sizes[sizes > 0]
    return round(100 * float(recall.mean()), 3)
