"""Several processes that do the work of one: each runs its share of a batch through the tail, and the loss sees all.

The loss is computed on the outputs of all processes, so that it is the very loss of one process with the same batch;
what differs is the order in which floating point numbers are added. Start with ``torchrun --nproc-per-node 2 -m ltgcd
train …``, or on a Ray cluster with ``ltgcd train … --cluster auto --workers 2``, which starts them by Ray Train
(`ltgcd.common.engine.ray_together`).
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
from torch.distributed.nn.functional import all_gather

from ltgcd.common.errors import InputError, PeerGone
from ltgcd.common.processes import rank_and_size

T = TypeVar("T")
BROKEN = ("gloo", "nccl", "connection", "timed out", "timeout")  # of what torch.distributed says when a peer is gone
TIMEOUT = timedelta(minutes=10)  # how long the others wait for a process that does not answer


@dataclass(frozen=True)
class World:
    """One process, number `rank`, among `size`."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes files and talks."""
        return self.rank == 0

    def share(self, n: int) -> slice:
        """Part of n rows that is this process's."""
        return slice(self.rank * n // self.size, (self.rank + 1) * n // self.size)

    def gather_views(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows (2b, …) of two views in each process → (2B, …), all first views before all second ones; differentiable.

        Every process must hold the same number of rows.
        """
        if self.size == 1:
            return rows
        parts = [part.unflatten(0, (2, -1)) for part in all_gather(rows.contiguous())]  # type: ignore[no-untyped-call]
        return torch.cat(parts, dim=1).flatten(0, 1)

    def gather_rows(self, rows: torch.Tensor, n: int) -> torch.Tensor:
        """Shares of n rows → all n rows, in order; shares may differ by a row. No gradient."""
        if self.size == 1:
            return rows
        longest = -(-n // self.size)
        padded = torch.zeros(longest, *rows.shape[1:], dtype=rows.dtype, device=rows.device)
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(parts, padded)
        shares = [World(rank, self.size).share(n) for rank in range(self.size)]
        return torch.cat([part[: share.stop - share.start] for part, share in zip(parts, shares, strict=True)])

    def average_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Mean over the processes of every gradient, in one message."""
        if self.size == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        flat = torch.cat([g.reshape(-1) for g in gradients])
        dist.all_reduce(flat)
        flat /= self.size
        for gradient, part in zip(gradients, torch.split(flat, [g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def from_first(self, compute: Callable[[], T]) -> T:
        """What `compute` returns in the first process, in all of them; what it refuses there, all refuse."""
        if self.size == 1:
            return compute()
        box: list[object] = [None, None]
        if self.first:
            try:
                box[0] = compute()
            except InputError as error:
                box[1] = str(error)
        dist.broadcast_object_list(box, src=0)
        if box[1] is not None:
            raise InputError(str(box[1]))
        return box[0]  # type: ignore[return-value]

    @contextmanager
    def alive(self, folder: Path | None) -> Iterator[None]:
        """Turn the death of another process into a sentence; what was finished in `folder` is kept."""
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not _of_connection(error):
                raise
            kept = f"; the epochs that were finished are kept in {folder}" if folder else ""
            raise PeerGone(
                f"Another process of this run died or does not answer{kept}. Start the same command again to go on."
            ) from error


def _of_connection(error: RuntimeError) -> bool:
    """Whether a connection broke or timed out: gloo says so in words alone."""
    return isinstance(error, dist.DistError) or any(word in str(error).lower() for word in BROKEN)


def join_world() -> World:
    """Join the processes that ``torchrun`` or Ray Train started, or be the only one. Ray Train has joined them."""
    _, size = rank_and_size()
    if size == 1:
        return World()
    if not dist.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
            # Outputs of a step are gathered on the GPUs, features of all items on the CPU: each needs its own backend.
            dist.init_process_group("cpu:gloo,cuda:nccl", timeout=TIMEOUT)
        else:
            dist.init_process_group("gloo", timeout=TIMEOUT)
        atexit.register(_leave)
    if dist.get_world_size() != size:
        raise RuntimeError(f"{size} processes were asked for, but {dist.get_world_size()} joined.")
    return World(dist.get_rank(), size)


def _leave() -> None:
    """Let go of the other processes at the end: gloo's threads must be joined, or the interpreter dies at exit."""
    if dist.is_initialized():
        dist.destroy_process_group()
