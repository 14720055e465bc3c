"""Methods that only cluster frozen features (docs/methods.md §4): k-means, and GCD's semi-supervised k-means alone."""

from __future__ import annotations

from ltgcd.graph import kmeans, semi_kmeans
from ltgcd.training.method import Method

KMEANS = Method("kmeans", "k-means of the unlabelled features, no labels inside", trained=False, cluster=kmeans.fit)
SEMI_KMEANS = Method(
    "semi-kmeans",
    "semi-supervised k-means on whitened features; labelled items stay in their classes",
    trained=False,
    cluster=semi_kmeans.fit,
)
