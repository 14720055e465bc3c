"""Classes that people made in a review since the last fit: a prototype for each, so that new items can be of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.features.views import VectorViews
from ltgcd.graph.whitening import class_means, normalise
from ltgcd.run.predict import RunModel
from ltgcd.training.model import extended, predict

if TYPE_CHECKING:
    from ltgcd.run.directory import Run


class Made(NamedTuple):
    """Prototypes (a, d), prior (a,) and sizes (a,) of some classes, see `ltgcd.training.model.extended`."""

    prototypes: NDArray[np.float32]
    prior: NDArray[np.float64]
    sizes: NDArray[np.int64]


def with_made_classes(
    run: Run, model: RunModel, codes: NDArray[np.int64], x: NDArray[np.float32]
) -> tuple[RunModel, Made]:
    """The model with a class for every code (N,) that items with features (N, D) have, and what was added to it."""
    missing = np.unique(codes[model.index_of(codes) < 0])
    dim = model.fitted.model.head.dim
    if not len(missing):
        nothing = Made(np.zeros((0, int(dim)), np.float32), np.zeros(0), np.zeros(0, np.int64))  # type: ignore[arg-type]
        return model, nothing
    if model.fitted.regime != "frozen":
        raise InputError(f"{run} has classes that its model has not learnt yet; run 'ltgcd refine {run}' first.")
    rows = np.flatnonzero(np.isin(codes, missing))
    of = np.searchsorted(missing, codes[rows])
    features, _ = predict(model.fitted.model, VectorViews(x[rows]), np.arange(len(rows)), torch.device("cpu"))
    means, sizes = class_means(normalise(features.numpy()), of, len(missing))
    made = Made(normalise(means), sizes / len(codes), sizes)
    fitted = extended(model.fitted, *made)
    return model._replace(fitted=fitted, codes=np.concatenate([model.codes, missing])), made
