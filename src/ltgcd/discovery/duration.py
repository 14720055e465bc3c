"""How long a discovery takes, roughly, told before it starts."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ltgcd.common.engine.shards import SAID_SECONDS, foretold
from ltgcd.common.engine.threads import available_cores
from ltgcd.common.progress import time_left
from ltgcd.discovery.rehearsal import ITEMS
from ltgcd.discovery.task import DiscoveryConfig
from ltgcd.training.fit import fit_seconds

# CPU-seconds of one thread, measured as those of a fit (`ltgcd.training.fit.fit_seconds`). In all, without the map, the
# six took 7, 17, 38, 20, 59 and 207 s, and by the figures below 8, 21, 45, 16, 57 and 191. Others who want the same
# cores are counted by `busyness`; two threads that wait for each other lose more than that: 4,000 texts in all took
# 5 min on two cores while the load rose from 6 to 9, and a little over 2 had been said.
START = 0.5
ESTIMATE = 0.0003  # an item: the number of classes
REHEARSAL = 0.85  # of a fit: fewer labels
MAP, LAID_OUT = 0.0018, 4000  # an item that t-SNE lays out, and how many at most
MOST = 100_000  # items: above the 30,336 measured it is extrapolated; beyond, neighbours are searched in another way


def busyness() -> float:
    """How much longer everything takes for others want the cores, too: 1 where the machine was idle for a minute."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return 1 + load / available_cores()


def discovery_seconds(n: int, config: DiscoveryConfig) -> float | None:
    """Seconds that n vectors take on an idle machine, from the number of classes to the report; None if not measured.

    Measured is a trained method on frozen features: how long the last stage of a backbone takes to train depends on
    the backbone.
    """
    if config.experiment is None or config.regime != "frozen" or n > MOST:
        return None
    epochs = config.experiment.schedule.epochs
    estimate = ESTIMATE * n if config.k is None else 0.0
    rehearsals = config.rehearsals * REHEARSAL * fit_seconds(min(n, ITEMS), epochs)
    return START + estimate + fit_seconds(n, epochs) + rehearsals + MAP * min(n, LAID_OUT)


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
        parts = f"{time_left(seconds)} to embed the {left:,} others, {time_left(self.after)} for {self._steps}"
        return f"all of it will take about {time_left(seconds + self.after)}: {parts}"

    def of_the_rest(self) -> str | None:
        """What comes after the embedding, where there is nothing to embed or nobody times it."""
        if self.is_said or self.after is None or self.after < SAID_SECONDS:
            return None
        self.is_said = True
        return f"{self._steps} will take about {time_left(self.after)}"
