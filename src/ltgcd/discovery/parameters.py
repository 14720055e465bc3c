"""The parameters of `CategoryDiscovery` as the pipeline takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ltgcd.common.errors import InputError
from ltgcd.discovery.task import DiscoveryConfig, configure
from ltgcd.features.cache import FeatureStore
from ltgcd.training.methods import get_method


def configured(parameters: dict[str, Any], n_old: int, n: int, store: FeatureStore | None) -> DiscoveryConfig:
    """What is to be run on `n` items of `n_old` known classes; what can't be is refused in a sentence."""
    get_method(parameters["method"], trained=True)
    changes, k, seed = dict(parameters["settings"] or {}), parameters["n_classes"], parameters["random_state"]
    if not all(isinstance(path, str) for path in changes):
        raise InputError("settings are given by their names: {'selection.k': 20}.")
    if parameters["epochs"] is not None:
        changes["schedule.epochs"] = parameters["epochs"]
    whole = isinstance(k, int | np.integer) and not isinstance(k, bool)
    if k != "auto" and not (whole and n_old <= int(k) <= n):
        raise InputError(
            f"n_classes is 'auto' or a whole number from {n_old} (the known classes) to {n} (the items), not {k!r}."
        )
    if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise InputError(
            f"random_state is a whole number from 0 to {2**32 - 1}, not {seed!r}: the same seed gives the same labels."
        )
    return configure(
        parameters["method"],
        preset=parameters["preset"],
        regime="frozen" if store is None or store.n_views == 0 else "last-stage",
        changes=changes,
        k=None if k == "auto" else int(k),
        rehearsals=parameters["rehearsals"],
        labels_from=parameters["labels_from"],
        fit_on=parameters["fit_on"],
        random_state=int(seed),
    )
