"""What a trained method is given: features, labels, how many classes, and cached views of images."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ltgcd.features.views import CachedViews
from ltgcd.graph.feature_graph import FeatureGraph


class Problem(NamedTuple):
    """A problem for a trained method.

    Attributes
    ----------
    x : ndarray of float32, shape (N, D)
        Features of the test view, before any training.
    y : ndarray of int64, shape (N,)
        Labels, -1 for unlabelled.
    n_old, k : int
        Number of known classes and of all classes.
    random_state : int
        Seed.
    views : CachedViews or None
        Cached activations and views of the same items, for the last-stage regime.
    tail : torch.nn.Module or None
        The last stage that they go into, with the pretrained weights.
    start : ndarray of int64, shape (N,), or None
        Class that each unlabelled item is in when it begins, where people have looked at an earlier answer: a known
        one, or one of the categories n_old … n_old + S − 1 that are there; -1 for an item that is free. Further classes
        are looked for.
    components : FeatureGraph or None
        `ltgcd.graph.feature_graph.components_of` x, where somebody has them already: fits that differ in their labels
        share them.
    """

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    n_old: int
    k: int
    random_state: int = 0
    views: CachedViews | None = None
    tail: nn.Module | None = None
    start: NDArray[np.int64] | None = None
    components: FeatureGraph | None = None
