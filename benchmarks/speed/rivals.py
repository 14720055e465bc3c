"""A quarter of a million vectors by ltgcd and by what people use: time, memory, number of classes, balanced accuracy.

    pip install --editable '.[bench]'
    python benchmarks/speed/rivals.py [--items 250000] [--classes 550] [--only EVoC …]

The vectors are those of ``growth.py``: 384 numbers, Zipf sizes, half of the classes known and half of their items
labelled. Every row is a process of its own that may use all cores and has seen a few hundred items before, so that
what compiles has compiled. The rivals take their authors' settings and no label; plain k-means alone is told a number.
ltgcd is `discover` with its estimated number, without and with its rehearsals. Items that a rival calls noise are one
cluster of their own. The most memory is that of a process, for ltgcd times the processes that it may have.

A row is written to benchmarks/results/speed-rivals.txt as soon as it is there; rows that were not asked for stay, if
they are of the same items.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from growth import Shape, problem

from ltgcd.common.engine.threads import available_cores

RESULT = Path(__file__).parents[1] / "results" / "speed-rivals.txt"
SOME = 400  # items of the first call


def ours(x: np.ndarray, y: np.ndarray, rehearsals: int = 0) -> np.ndarray:
    """`discover` with its own number of classes."""
    from ltgcd.discovery.discover import discover
    from ltgcd.discovery.task import Hooks, Task, configure

    hooks = Hooks(processes=lambda _k: available_cores())
    return discover(Task(x, y, int(y.max()) + 1), configure(rehearsals=rehearsals), hooks).labels


def evoc(x: np.ndarray, _y: np.ndarray) -> np.ndarray:
    """EVoC as its page shows it; of its layers the one that it takes itself."""
    from evoc import EVoC

    return EVoC(random_state=0).fit_predict(x)


def umap_hdbscan(x: np.ndarray, _y: np.ndarray) -> np.ndarray:
    """BERTopic's defaults: UMAP to five dimensions, then HDBSCAN with clusters of ten or more."""
    from sklearn.cluster import HDBSCAN
    from umap import UMAP

    z = UMAP(n_neighbors=15, n_components=5, min_dist=0.0, metric="cosine").fit_transform(x)
    return HDBSCAN(min_cluster_size=10).fit_predict(z)


def faiss_kmeans(x: np.ndarray, k: int) -> np.ndarray:
    """FAISS' k-means on unit rows."""
    import faiss

    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    model = faiss.Kmeans(x.shape[1], k, niter=25, seed=1, spherical=True, max_points_per_centroid=10**6)
    model.train(unit)
    return model.index.search(unit, 1)[1][:, 0]


def kmeans_louvain(x: np.ndarray, _y: np.ndarray) -> np.ndarray:
    """FAISS' k-means into 4√N small clusters, and Louvain communities of their ten nearest neighbours."""
    import faiss
    from scipy import sparse
    from sknetwork.clustering import Louvain

    small = faiss_kmeans(x, min(int(4 * np.sqrt(len(x))), len(x) // 10))
    sizes = np.bincount(small)
    means = np.stack([np.bincount(small, weights=column) for column in x.T], axis=1)[sizes > 0]
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    n = len(means)
    index = faiss.IndexFlatIP(means.shape[1])
    index.add(means.astype(np.float32))
    near = index.search(means.astype(np.float32), min(11, n))[1][:, 1:]
    edges = sparse.csr_matrix((np.ones(near.size), (np.repeat(np.arange(n), near.shape[1]), near.ravel())), (n, n))
    found = Louvain(random_state=0).fit_predict(edges.maximum(edges.T))
    return found[(np.cumsum(sizes > 0) - 1)[small]]


Labels = Callable[[np.ndarray, np.ndarray], np.ndarray]


def rows(k: int) -> dict[str, Labels]:
    """What is compared."""
    return {
        "ltgcd": ours,
        "ltgcd with rehearsals": lambda x, y: ours(x, y, 4),
        "EVoC": evoc,
        "UMAP + HDBSCAN": umap_hdbscan,
        "k-means (FAISS), true K": lambda x, _y: faiss_kmeans(x, min(k, len(x) // 4)),
        "k-means (FAISS) + Louvain": kmeans_louvain,
    }


def measured(name: str, path: Path, k: int, answer: Connection) -> None:
    """In a process of its own: labels of a row, seconds, CPU-seconds and the most memory."""
    warnings.simplefilter("ignore")
    with np.load(path) as held:
        x, y = held["x"], held["y"]
    if name in ("EVoC", "UMAP + HDBSCAN"):
        rows(k)[name](x[:SOME], y[:SOME])

    def cpu() -> float:
        return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))

    started, before = time.perf_counter(), cpu()
    labels = rows(k)[name](x, y)
    seconds, cpu_seconds = time.perf_counter() - started, cpu() - before
    held, others = (
        1024 * resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    others *= available_cores()  # of those that rehearse side by side the largest is known
    answer.send((labels, seconds, cpu_seconds, held + others))


def scored(labels: np.ndarray, y: np.ndarray, true: np.ndarray) -> dict[str, Any]:
    """Balanced accuracy of the unlabelled items, number of classes and share of noise."""
    from ltgcd.evaluation.metric import evaluate

    free, n_old = y < 0, int(y.max()) + 1
    ordered = np.where(true % 2 == 0, true // 2, n_old + true // 2)  # known classes first, as `problem` labels them
    found = evaluate(ordered[free], np.where(labels < 0, labels.max() + 1, labels)[free], n_old).balanced_acc
    return {
        **{key: round(float(value or 0), 1) for key, value in zip(("all", "old", "new"), found, strict=True)},
        "k": len(np.unique(labels[labels >= 0])),
        "noise": round(float((labels[free] < 0).mean()), 3),
    }


def head(items: int, classes: int) -> list[str]:
    """What stands above the rows: the command and the names of the columns."""
    return [
        f"$ python benchmarks/speed/rivals.py --items {items} --classes {classes}",
        "",
        "| | seconds | CPU-seconds | most memory | K | noise | balanced All / Old / New |",
        "|---|---|---|---|---|---|---|",
    ]


def kept_rows(above: list[str]) -> dict[str, str]:
    """Rows of an earlier run of the same command, by their names."""
    lines = RESULT.read_text().splitlines() if RESULT.is_file() else []
    return {line.split("|")[1].strip(): line for line in lines[len(above) :]} if lines[: len(above)] == above else {}


def row_of(name: str, path: Path, k: int, y: np.ndarray, true: np.ndarray) -> str:
    """Measure one row."""
    mine, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=measured, args=(name, path, k, theirs))
    process.start()
    theirs.close()
    try:
        labels, seconds, cpu_seconds, memory = mine.recv()
    except EOFError:
        return f"| {name} | did not end | | | | | |"
    process.join()
    s = scored(labels, y, true)
    print(json.dumps({"row": name, "seconds": seconds, **s}), flush=True)
    return (
        f"| {name} | {seconds:.0f} | {cpu_seconds:.0f} | {memory / 2**30:.1f} GiB | {s['k']} | "
        f"{100 * s['noise']:.0f} % | {s['all']} / {s['old']} / {s['new']} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=250_000)
    parser.add_argument("--classes", type=int, default=550)
    parser.add_argument("--only", nargs="*", default=None)
    options = parser.parse_args()
    above = head(options.items, options.classes)
    found = kept_rows(above)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "made-up.npz"
        problem(path, Shape(options.items, 384, options.classes))
        with np.load(path) as held:
            y, true = held["y"], held["y_true"]
        for name in options.only or rows(options.classes):
            found[name] = row_of(name, path, options.classes, y, true)
            RESULT.write_text("\n".join([*above, *found.values()]) + "\n")
    print(RESULT.read_text(), end="")


if __name__ == "__main__":
    main()
