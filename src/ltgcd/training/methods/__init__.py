"""Every method of the paper: one file each, an explicit dict, no decorators."""

from __future__ import annotations

from ltgcd.graph import kmeans, semi_kmeans

# Methods that only cluster frozen features; the trained ones are in `ltgcd.training.config`.
CLUSTERINGS = {"kmeans": kmeans.fit, "semi-kmeans": semi_kmeans.fit}
