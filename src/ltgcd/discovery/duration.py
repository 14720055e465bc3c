"""How long a discovery takes, roughly, told before it starts."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch

from ltgcd.class_number.sampled import SAMPLES, sample_size
from ltgcd.common.engine.shards import SAID_SECONDS, START_SECONDS, foretold, processes_that_pay
from ltgcd.common.engine.threads import torch_threads
from ltgcd.common.progress import time_left
from ltgcd.discovery.rehearsal import ITEMS
from ltgcd.discovery.task import DiscoveryConfig
from ltgcd.training.fit import fit_seconds, search_seconds

# Seconds on the machine on which a step of `pace` takes `STEP`; what was measured there is in `tests/discovery`.
START = 0.5
ESTIMATE = 0.4, 1.0e-4  # of the number of classes: everything, an item
ESTIMATE_SEARCH = 2.2e-9, 2.0e-7  # and its neighbours, see `search_seconds`
REHEARSAL = 0.85  # of a fit: fewer labels
LABELLING = 8e-5  # an item that had no part in the fit
SIDE_BY_SIDE = 1.3  # of a fit beside another one: they share caches, memory and what FAISS had for itself
MAP, LAID_OUT = 0.0018, 4000  # an item that t-SNE lays out, and how many at most
STEP, STEPS = 0.0025, 40  # seconds of a step, and steps: as a fit takes them


def pace() -> float:
    """How much longer a fit takes here and now than where it was measured: another machine, or others at work on it.

    Looked at for a moment: steps of gradient descent as a fit makes them, in one thread as it does.
    """
    with torch_threads(1), torch.enable_grad():
        x = torch.linspace(-1, 1, 512 * 256).reshape(512, 256)
        layer, head = (torch.linspace(-0.1, 0.1, rows * 256).reshape(rows, 256).requires_grad_() for rows in (256, 128))
        started = time.perf_counter()
        for _ in range(STEPS):
            loss = torch.logsumexp(torch.nn.functional.normalize(x + x @ layer.T) @ head.T, dim=1).mean()
            torch.autograd.grad(loss, [layer, head])
        return (time.perf_counter() - started) / (STEPS * STEP)


def discovery_seconds(n: int, config: DiscoveryConfig, processes: int = 1) -> float | None:
    """Seconds from n vectors to the report, where a step takes `STEP`; None if that was not measured.

    Measured is a trained method on frozen features, up to a million of them: how long the last stage of a backbone
    takes to train depends on the backbone. `processes` is how many rehearsals may run side by side.
    """
    if config.experiment is None or config.regime != "frozen":
        return None
    epochs = config.experiment.schedule.epochs
    estimate = _estimate_seconds(n, config.fit_on) if config.k is None else 0.0
    labelling = 0.0
    if config.fit_on is not None and config.fit_on < n:
        n, labelling = config.fit_on, LABELLING * n
    # A sample of a larger collection has more classes: about √N of them, where nobody knows better.
    one = REHEARSAL * fit_seconds(min(n, ITEMS), epochs) * math.sqrt(max(1.0, n / ITEMS))
    times = config.rehearsals
    beside = processes_that_pay(times, times * one, processes) if times else 1
    rehearsals = times * one if beside == 1 else START_SECONDS + -(-times // beside) * SIDE_BY_SIDE * one
    return START + estimate + fit_seconds(n, epochs) + labelling + rehearsals + MAP * min(n, LAID_OUT)


def _estimate_seconds(n: int, sample: int | None = None) -> float:
    """Seconds of the class number: of all items, or of samples and their halves where these are too many."""
    size = sample_size(n, sample)
    if size is not None:
        return SAMPLES * (_estimate_seconds(size) + _estimate_seconds(size // 2))
    start, item = ESTIMATE
    return start + item * n + search_seconds(n, *ESTIMATE_SEARCH)


@dataclass
class Forecast:
    """How long a discovery will take, said once: as soon as a first part of the embedding was timed, or without it.

    Attributes
    ----------
    after : float or None
        Seconds of everything that comes after the embedding, see `discovery_seconds`.
    config : DiscoveryConfig
        What is to be done.
    is_said : bool
        Whether it was said.
    """

    after: float | None
    config: DiscoveryConfig
    is_said: bool = False

    @property
    def _steps(self) -> str:
        """What comes after the embedding."""
        steps = [] if self.config.k is not None else ["the number of classes"]
        steps += ["training", *(["rehearsals"] if self.config.rehearsals else []), "the report"]
        return ", ".join(steps[:-1]) + " and " + steps[-1]

    def of_the_whole(self, left: int, seconds: float) -> str | None:
        """All of it, once it is known how many seconds the items take that are left to embed."""
        if not left:
            return self.of_the_rest()
        if self.after is None:
            return foretold(left, seconds)
        self.is_said = True
        if seconds + self.after < SAID_SECONDS:
            return None
        parts = f"{time_left(seconds)} to embed the remaining {left:,}, {time_left(self.after)} for {self._steps}"
        return f"all of it will take about {time_left(seconds + self.after)}: {parts}"

    def of_the_rest(self) -> str | None:
        """What comes after the embedding, where there is nothing to embed or nobody times it."""
        if self.is_said or self.after is None or self.after < SAID_SECONDS:
            return None
        self.is_said = True
        return f"{self._steps} will take about {time_left(self.after)}"
