"""Run one cell: draw the split, have its features, train or estimate, and score against the truth."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.bench.results import read_records, turn
from ltgcd.bench.tables import READINGS, Cell, Setting
from ltgcd.class_number.estimate import REVISIONS, estimate_k
from ltgcd.class_number.peak_search import search_peaks
from ltgcd.class_number.search import labelled_accuracy
from ltgcd.common.errors import InputError
from ltgcd.data.collection import UNLABELLED, Collection, Source, imbalance_factor, positions
from ltgcd.data.datasets import class_order, get_dataset, load_pool
from ltgcd.data.datasets.base import Pool
from ltgcd.data.items import Vectors
from ltgcd.data.sources import read_source
from ltgcd.data.splits import SplitConfig, as_source, draw_split
from ltgcd.discovery.task import configure
from ltgcd.features.backbones import load_backbone
from ltgcd.features.cache import FeatureStore, open_features
from ltgcd.features.embed import embed
from ltgcd.graph.knn import knn_graph
from ltgcd.graph.whitening import normalise, principal_components, within_class_whitening
from ltgcd.run.directory import Run
from ltgcd.run.evaluate import evaluate_run
from ltgcd.run.train import Notify, rows_in, silent, train_run, vectors
from ltgcd.training.config import changed
from ltgcd.training.methods import METHODS

SELECTED = "selected.jsonl"  # λ of S with true labels, an epoch a line
GRAPH = 40  # neighbours that every setting of the ablations gets along with


class Prepared(NamedTuple):
    """A split with its features: the source, cached views where the last stage is trained, and the summary."""

    source: Source
    store: FeatureStore | None
    summary: dict[str, Any]


@dataclass
class Workshop:
    """Where features and runs lie, and the split and the pool that were asked for last.

    Attributes
    ----------
    work : path
        Folder for features and runs.
    data : path or None
        Folder of the datasets.
    settings : dict
        Backbones by name, for how they embed.
    notify : callable
        Told in a sentence what happens.
    """

    work: Path
    data: Path | None
    settings: dict[str, Setting]
    notify: Notify = silent
    _problem: tuple[tuple[Any, ...], Prepared] | None = field(default=None, init=False)
    _pool: tuple[tuple[Any, ...], Pool] | None = field(default=None, init=False)

    def run(self, cell: Cell) -> dict[str, Any]:
        """The figures of a cell, with the checksum of its split; what was begun goes on."""
        problem = self.prepared(cell)
        if cell.runs == "train":
            figures = self._train(cell, problem)
        elif cell.runs == "estimate":
            figures = _estimated(cell, problem)
        else:
            figures = _sizes(problem.summary)
        if settings := settings_of(cell):
            figures["settings"] = settings
        return {"split_checksum": problem.summary["checksum"], **figures}

    # ------------------------------------------------------------ data

    def prepared(self, cell: Cell) -> Prepared:
        """The split of a cell with its features; the last one is kept."""
        split = (cell.dataset, cell.split, cell.imbalance, cell.n_old, cell.n_new, cell.seed)
        deciding = (*split, cell.backbone, cell.image_size, cell.views)
        if self._problem is None or self._problem[0] != deciding:
            self._problem = None  # two at a time would be twice the memory
            # One bench makes the features of a dataset, the others wait for it.
            with turn(self.work, self._features(cell).name):
                self._problem = (deciding, self._made(cell))
        return self._problem[1]

    def _made(self, cell: Cell) -> Prepared:
        pool = self._pool_of(cell)
        source, summary = as_split(pool, cell)
        if cell.regime != "last-stage":
            return Prepared(source, None, summary)
        folder = self._features(cell)
        setting = self.settings[cell.backbone or ""]
        held = open_features(folder, verify=False).ids if (folder / "index.parquet").is_file() else pa.array([])
        if not held.equals(source.collection.ids):
            # The folder grows from split to split: only what no split before had is computed.
            backbone = load_backbone(cell.backbone or "", image_size=cell.image_size)
            self.notify(f"views of {len(source.collection):,} items of {cell.dataset}")
            embed(
                source, backbone, folder, views=cell.views or 0, engine=setting.engine, strict=True, notify=self.notify
            )
        store = open_features(folder, verify=False)
        x = vectors(read_source(folder))
        return Prepared(_with_vectors(source, x[rows_in(store, source.collection)]), store, summary)

    def _pool_of(self, cell: Cell) -> Pool:
        """The dataset's training part; for the frozen regime with the features of all of it as its items."""
        deciding = (cell.dataset, cell.backbone, cell.image_size, cell.regime)
        if self._pool is None or self._pool[0] != deciding:
            pool = load_pool(cell.dataset, self.data)
            if cell.regime == "frozen":
                pool = Pool(pool.ids, Vectors(self._frozen(cell, pool)), pool.y, pool.class_names)
            self._pool = (deciding, pool)
        return self._pool[1]

    def _frozen(self, cell: Cell, pool: Pool) -> NDArray[np.float32]:
        """Features (N, D) of a whole pool, in its order: every split of it takes rows of them."""
        folder = self._features(cell)
        if not (folder / "features.npz").is_file() or len(open_features(folder, verify=False)) != len(pool.ids):
            self.notify(f"embedding the {len(pool.ids):,} items of {cell.dataset}")
            nothing = np.full(len(pool.ids), UNLABELLED, dtype=np.int64)
            embed(
                Source(Collection(pool.ids, pool.items, nothing, ()), None),
                load_backbone(cell.backbone or "", image_size=cell.image_size),
                folder,
                engine=self.settings[cell.backbone or ""].engine,
                strict=True,
                notify=self.notify,
            )
        held = read_source(folder).collection
        cure = "remove that folder; it is made again"
        return np.asarray(vectors(Source(held, None))[positions(pool.ids, held.ids, folder, cure)], dtype=np.float32)

    def _features(self, cell: Cell) -> Path:
        parts = [cell.dataset, cell.backbone, cell.image_size, f"{cell.views}-views" if cell.views else None]
        return self.work / "features" / "-".join(str(part) for part in parts if part)

    # ------------------------------------------------------------ training

    def _train(self, cell: Cell, problem: Prepared) -> dict[str, Any]:
        run = Run(self.work / "runs" / cell.key)
        if run.begun and _config(run).get("settings", {}) != settings_of(cell):
            run.remove()  # of presets that have changed since, or of an earlier version
        truth, resumed = problem.source.truth, run.begun
        assert truth is not None

        def watch(epoch: int, sets: dict[str, NDArray[np.bool_]]) -> None:
            if sets:
                found = {name: imbalance_factor(np.bincount(truth.y_true[mask])) for name, mask in sets.items()}
                run.record_epoch({"epoch": epoch, **found}, SELECTED)

        config = configure(
            cell.method or "",
            preset=cell.preset or "default",  # type: ignore[arg-type]  # checked when the table was read
            regime=cell.regime or "frozen",  # type: ignore[arg-type]
            changes=cell.changes,
            k=len(truth.class_names),
            rehearsals=0,
            random_state=cell.seed,
            keeps_checkpoints=True,
        )
        done = train_run(problem.source, run.folder, config, store=problem.store, watch=watch, notify=self.notify)
        figures = scored(run)
        lines = run.epochs(SELECTED)
        if lines:
            figures["lambda"] |= {name: round(lines[-1][name], 2) for name in ("confident", "dense", "selected")}
            figures["lambda_by_epoch"] = [round(line["selected"], 2) for line in lines]
        epochs = run.epochs()
        if lines and (drawn := next((line for line in reversed(epochs) if "n_selected" in line), None)):
            # What the last epoch really drew from: items, λ by pseudo label and, for evaluation, by truth.
            figures["sets"] = {
                name: {
                    "items": drawn[f"n_{name}"],
                    "lambda_pseudo": drawn[f"lambda_{name}"],
                    "lambda_true": round(lines[-1][name], 2),
                }
                for name in ("confident", "dense", "selected")
            }
        if epochs:
            spent = [sum(line[name] for line in epochs) for name in ("seconds_selection", "seconds")]
            figures["selection_share"] = round(spent[0] / max(spent[1], 1e-9), 3)
        run.clear_checkpoints(main=True)  # the run is finished; its labels and model stay
        # A run that was stopped and went on knows only the minutes of its last part.
        return {**figures, "minutes": None if resumed else round(done.seconds / 60, 3)}


def _config(run: Run) -> dict[str, Any]:
    """Configuration of a run; empty for one that this version can't read."""
    try:
        return run.config()
    except InputError:
        return {}


def settings_of(cell: Cell) -> dict[str, Any]:
    """What decides a cell's figures besides its fields, in this version.

    Every setting of a trained cell, as the presets have them; the revision of an estimator, where it has one.
    """
    if cell.runs == "estimate" and cell.method in REVISIONS:
        return {"revision": REVISIONS[cell.method]}
    method = METHODS[cell.method or ""] if cell.runs == "train" else None
    if method is None or not method.trained:
        return {}
    base = method.preset(cell.regime, cell.preset)  # type: ignore[arg-type]  # checked when the table was read
    return changed(base, cell.changes).settings()


def current_records(folder: Path) -> dict[str, dict[str, Any]]:
    """The finished cells of a folder, without those that were run with other settings than the presets have by now.

    Cells with fields that this version does not know were written by a later one: they are none of its tables'.
    """
    fields = {f.name for f in dataclasses.fields(Cell)}
    return {
        key: record
        for key, record in read_records(folder).items()
        if fields.issuperset(record["cell"]) and record.get("settings", {}) == settings_of(Cell(**record["cell"]))
    }


# ---------------------------------------------------------------- splits


def as_split(pool: Pool, cell: Cell) -> tuple[Source, dict[str, Any]]:
    """The split of a cell as a source with its truth, and its summary."""
    dataset = get_dataset(cell.dataset)
    config = SplitConfig(
        cell.split,  # type: ignore[arg-type]  # checked by draw_split
        10.0 if cell.imbalance is None else float(cell.imbalance),
        cell.seed,
        cell.n_old,
        cell.n_new,
    )
    order = class_order(dataset, cell.seed)
    split = draw_split(pool.y, order, dataset.n_old, config, dataset.heads.get(cell.split))
    return as_source(pool, split, cell.dataset, config)


def _with_vectors(source: Source, x: NDArray[np.float32]) -> Source:
    held = source.collection
    return Source(Collection(held.ids, Vectors(x), held.y, held.class_names), source.truth)


def _sizes(summary: dict[str, Any]) -> dict[str, Any]:
    names = ("n_labelled", "n_unlabelled", "n_old", "n_classes", "lambda_labelled", "lambda_unlabelled")
    # The classes stand Old first; a class keeps that as its third number: [labelled, unlabelled, 1 if Old].
    told = [[*both, int(place < summary["n_old"])] for place, both in enumerate(summary["counts"].values())]
    counts = sorted(told, key=lambda one: -one[1])
    return {"sizes": {name: summary[name] for name in names}, "counts": counts}


# ---------------------------------------------------------------- figures


def scored(run: Run) -> dict[str, Any]:
    """Every figure of a finished run: accuracies, K, λ of D^u, and how old and new are taken for one another."""
    evaluation = evaluate_run(run).as_dict()
    labels, table = run.labels(), run.assignments()
    truth = labels.truth
    assert truth is not None
    at = positions(labels.ids, table.column("id").combine_chunks(), run.folder, "make the run again")
    free = labels.y == UNLABELLED
    said = table.column("label").to_numpy()[at][free] < truth.n_old
    old = truth.y_true[free] < truth.n_old
    names = ("acc", "balanced_acc", "many_medium_few")
    return {
        **{name: _rounded(evaluation[name]) for name in names},
        **{name: round(evaluation[name], 4) for name in ("nmi", "ari")},
        "k": evaluation["k"],
        "k_true": evaluation["k_true"],
        "k_used": evaluation["k_used"],
        "n": evaluation["n"],
        "lambda": {"unlabelled": round(imbalance_factor(np.bincount(truth.y_true[free])), 2)},
        "confusion": {
            "old": {"as_old": int((old & said).sum()), "as_new": int((old & ~said).sum())},
            "new": {"as_old": int((~old & said).sum()), "as_new": int((~old & ~said).sum())},
        },
        "errors": {group: shares and _rounded(shares) for group, shares in evaluation["errors"].items()},
    }


def _rounded(scores: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _rounded(value) if isinstance(value, dict) else None if value is None else round(value, 2)
        for name, value in scores.items()
    }


def _estimated(cell: Cell, problem: Prepared) -> dict[str, Any]:
    """K̂ with its interval and time; with changed settings, of the paper's search alone."""
    collection, truth = problem.source.collection, problem.source.truth
    assert truth is not None
    x, y, n_old = vectors(problem.source), collection.y, collection.n_old
    share = float((truth.y_true[y == UNLABELLED] < n_old).mean())
    known = {"k_true": len(truth.class_names), "n_old": n_old, "true_known_share": round(share, 4)}
    if cell.changes:
        started = time.perf_counter()
        config = changed(READINGS[cell.method or ""], cell.changes)
        unit = normalise(x)
        if cell.method == "peaks-merged":
            unit = within_class_whitening(principal_components(x), y, n_old)
        graph = knn_graph(unit, max(GRAPH, config.k, config.k_s))
        k, _, clusters, peaks = search_peaks(unit, y, n_old, graph, config)
        acc = round(labelled_accuracy(clusters, y, balanced=True), 2)
        seconds = time.perf_counter() - started
        took = {"seconds": round(seconds, 2), "minutes": round(seconds / 60, 3)}
        return {**known, "k": int(k), "n_peaks": len(peaks), "labelled_acc": acc, **took}
    origin = cell.labels_from or "collection"
    got = estimate_k(x, y, cell.method or "", n_old=n_old, labels_from=origin, random_state=cell.seed)
    evidence = got.evidence
    return {
        **known,
        "k": got.k,
        "low": got.low,
        "high": got.high,
        "known_share": evidence.get("known_share"),
        "n_peaks": len(evidence["peaks"]) if "peaks" in evidence else None,
        "curve": [[int(k), round(float(score), 4)] for k, score in got.curve],
        "seconds": round(got.seconds, 2),
        "minutes": round(got.seconds / 60, 3),
    }
