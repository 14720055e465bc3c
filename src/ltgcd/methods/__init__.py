"""Every method of the paper: one file each, an explicit dict, no decorators."""

from __future__ import annotations

from ltgcd.methods import kmeans

METHODS = {"kmeans": kmeans.fit}
