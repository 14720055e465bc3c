"""One visible loop: epochs, re-selection, checkpoints, resume, in one process or several (METHODS §3, §6.4).

What a method adds is an object with a head, its losses and a plan for each epoch (`Method`); the loop is the same for
all. An epoch depends on nothing but the weights, the momentum and the seed: its random numbers start afresh, and what a
method keeps from epoch to epoch (the selection) is computed from the weights when it begins. So a checkpoint is small,
and a run that was killed goes on to the same labels.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ltgcd.common.errors import InputError
from ltgcd.common.progress import progress
from ltgcd.common.settings import check_fields
from ltgcd.data.collection import UNLABELLED
from ltgcd.features.backbones.engines import half_precision
from ltgcd.features.views import Views
from ltgcd.training.checkpoints import best_checkpoint, load_checkpoint, save_best, save_checkpoint
from ltgcd.training.distributed import World

TEST_BATCH = 256
CPU_ROWS = 128


@dataclass(frozen=True)
class Schedule:
    """Optimisation, the same for every method unless its paper says otherwise.

    Attributes
    ----------
    epochs : int
        An epoch draws as many items as there are, half of them labelled.
    batch_size : int
        Items; each in two views.
    learning_rate : float
        At the start; falls to a thousandth of it along a cosine.
    momentum, weight_decay : float
        Of SGD; biases and other one-dimensional parameters do not decay.
    choose : {"last", "held-out"}
        Which epoch's weights are kept: the last, or the best by balanced accuracy on held-out labelled items. Never
        by anything about D^u.
    """

    epochs: int = 200
    batch_size: int = 128
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-5
    choose: Literal["last", "held-out"] = "last"

    def __post_init__(self) -> None:
        check_fields(
            self,
            "the schedule",
            epochs=(1, 1_000_000),
            batch_size=(2, 1_000_000),
            learning_rate=(0, math.inf),
            momentum=(0, 1),
            weight_decay=(0, math.inf),
        )


class Batch(NamedTuple):
    """Items of a step: rows (B,) in the collection, labels (B,), -1 for unlabelled, and the share of training done."""

    rows: torch.Tensor
    y: torch.Tensor
    progress: float


class Snapshot(NamedTuple):
    """Test view of all items: features h (N, D) and outputs of the head by name (N, …)."""

    features: NDArray[np.float32]
    outputs: dict[str, NDArray[np.float32]]


class Plan(NamedTuple):
    """What an epoch draws its unlabelled items from, what is worth a line about it, and the parts of the pool.

    `sets` names masks (N,) over all items, for whoever watches: S_conf, S_dens and S.
    """

    pool: NDArray[np.int64]
    record: dict[str, Any]
    sets: dict[str, NDArray[np.bool_]] = {}  # noqa: RUF012 - never written to


Watch = Callable[[int, dict[str, NDArray[np.bool_]]], None]


def unwatched(_epoch: int, _sets: dict[str, NDArray[np.bool_]]) -> None:
    """Look at nothing."""


class Method(Protocol):
    """What a method adds to the loop."""

    def plan(self, done: float, snapshot: Callable[[], Snapshot]) -> Plan:
        """Begin an epoch, at this share of the training; `snapshot` costs a pass over all items."""
        ...

    def losses(self, features: torch.Tensor, outputs: dict[str, torch.Tensor], batch: Batch) -> dict[str, torch.Tensor]:
        """Weighted terms of the loss on both views (2B rows); their sum is minimised."""
        ...


class Model(nn.Module):
    """Tail and head: cached activations in, features and the head's outputs out."""

    def __init__(self, tail: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.tail, self.head = tail, head

    def forward(self, activations: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Map (R, *shape) to features (R, D) and outputs of the head."""
        if activations.ndim > 2 and activations.device.type == "cpu":
            # Maps of more rows than this fall out of the cache, and a tail of convolutions takes twice as long.
            # Without a gradient nothing is kept, and twice as many fit.
            n = CPU_ROWS if torch.is_grad_enabled() else TEST_BATCH
            features = torch.cat([self.tail(rows) for rows in torch.split(activations, n)])
        else:
            features = self.tail(activations)
        return features, self.head(features)


# ---------------------------------------------------------------- the loop


def check_schedule(schedule: Schedule, n_processes: int, *, can_choose: bool) -> None:
    """Refuse a schedule that can't be kept.

    Parameters
    ----------
    schedule : Schedule
        Optimisation.
    n_processes : int
        How many share a batch.
    can_choose : bool
        Whether labelled items are held out and checkpoints are kept.
    """
    if schedule.batch_size % (2 * n_processes):
        shared = f" and shared by {n_processes} processes" if n_processes > 1 else ""
        raise InputError(
            f"A batch of {schedule.batch_size} can't be halved{shared}; choose a multiple of {2 * n_processes}."
        )
    if schedule.choose == "held-out" and not can_choose:
        raise InputError(
            "The best epoch can only be chosen where labelled items are held out (held_out=0.1, for instance) and "
            "checkpoints are kept."
        )


def fit(
    model: Model,
    method: Method,
    views: Views,
    y: NDArray[np.int64],
    schedule: Schedule,
    *,
    random_state: int = 0,
    folder: Path | None = None,
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
    method : Method
        Losses and plans.
    views : Views
        The N items.
    y : ndarray of int64, shape (N,)
        Labels, -1 for unlabelled.
    schedule : Schedule
        Optimisation.
    random_state : int
        Seed of everything that is drawn here.
    folder : path, optional
        Where checkpoints go; an epoch that is finished there is not trained again.
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
    check_schedule(schedule, world.size, can_choose=folder is not None and held_out is not None)
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    model.to(device)
    optimiser = make_optimiser(model, schedule)
    # Small gradients vanish in float16 unless they are scaled; elsewhere the scaler does nothing.
    scaler = torch.amp.GradScaler(device.type, enabled=half_precision(device) is torch.float16)
    labelled = np.flatnonzero(y != UNLABELLED)
    steps = max(1, len(y) // schedule.batch_size)
    start = load_checkpoint(folder, model, optimiser, notify) if folder else 0

    def take_snapshot() -> Snapshot:
        return snapshot(model, views, world, device)

    with progress("training", (schedule.epochs - start) * steps) as advance:
        for epoch in range(start, schedule.epochs):
            began = time.perf_counter()
            model.eval()
            plan = method.plan(epoch / schedule.epochs, take_snapshot)
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
                losses = method.losses(features, outputs, batch)
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
                if folder and schedule.choose == "held-out":
                    save_best(folder, epoch + 1, model, line["held_out_balanced_acc"])
                if folder:
                    save_checkpoint(folder, epoch + 1, model, optimiser)
    if folder and schedule.choose == "held-out":
        best_checkpoint(folder, model)
    model.eval()
    return take_snapshot()


def make_optimiser(model: nn.Module, schedule: Schedule) -> torch.optim.SGD:
    """SGD over what is trained; one-dimensional parameters do not decay."""
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": schedule.weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.SGD(groups, lr=schedule.learning_rate, momentum=schedule.momentum)


def cosine(first: float, done: float) -> float:
    """Learning rate at a share of the training: from `first` along a cosine to a thousandth of it."""
    return first * (1e-3 + (1 - 1e-3) * 0.5 * (1 + math.cos(math.pi * done)))


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
    with _precision(pair.device):
        features, outputs = model(pair)
    return world.gather_views(features.float()), {n: world.gather_views(o.float()) for n, o in outputs.items()}


def _precision(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    half = half_precision(device)
    return contextlib.nullcontext() if half is None else torch.autocast(device.type, dtype=half)


def snapshot(model: Model, views: Views, world: World, device: torch.device) -> Snapshot:
    """Features and outputs of every item in its test view; the processes share the work."""
    n = len(views)
    mine = world.share(n)
    features, outputs = predict(model, views, np.arange(mine.start, mine.stop), device)
    return Snapshot(
        world.gather_rows(features, n).numpy(),
        {name: world.gather_rows(output, n).numpy() for name, output in outputs.items()},
    )


def predict(
    model: Model, views: Views, rows: NDArray[np.int64], device: torch.device
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Features and outputs of some items in their test view, on the CPU, without a gradient."""
    parts: list[tuple[torch.Tensor, dict[str, torch.Tensor]]] = []
    with torch.no_grad(), _precision(device):
        for start in range(0, max(len(rows), 1), TEST_BATCH):
            features, outputs = model(views.test(rows[start : start + TEST_BATCH]).to(device))
            parts.append((features.float().cpu(), {name: o.float().cpu() for name, o in outputs.items()}))
    names = parts[0][1]
    return torch.cat([f for f, _ in parts]), {name: torch.cat([o[name] for _, o in parts]) for name in names}


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
