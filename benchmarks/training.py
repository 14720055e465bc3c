"""Quality of training: balanced All/Old/New on D^u with the true K, by method, regime, λ and data seed.

    ltgcd embed cifar100/train.parquet --image-size 128 --views 4 --engine openvino --out features/cifar100
    python benchmarks/training.py --features features --rows cifar100:10 --variants simgcd,ltgcd --regime last-stage

Finished cells are in results/training.jsonl and never run again; results/training.md is rendered from it. Truth is
used for scoring, and for λ(S) with true labels, only.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ltgcd.backbones import backbone_of
from ltgcd.collection import imbalance_factor
from ltgcd.datasets import get_dataset
from ltgcd.datasets.base import class_order
from ltgcd.evaluation import evaluate
from ltgcd.experiments import changed, preset
from ltgcd.feature_store import open_features
from ltgcd.fitting import Task, fit_model
from ltgcd.methods import CLUSTERINGS
from ltgcd.splits import SplitConfig, draw_split
from ltgcd.views import CachedViews

HERE = Path(__file__).parent
# name: method, preset, changes. The ablation takes one thing at a time out of `ltgcd`, or puts one into `simgcd`.
VARIANTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "kmeans": ("kmeans", "", {}),
    "semi-kmeans": ("semi-kmeans", "", {}),
    "simgcd": ("simgcd", "default", {}),
    "simgcd same start": ("simgcd", "default", {"start": "communities"}),
    "ltgcd": ("ltgcd", "default", {}),
    "ltgcd paper": ("ltgcd", "paper", {}),
    "ltgcd literal": ("ltgcd", "literal", {}),
    "without S_conf": ("ltgcd", "default", {"selection.sets": "dense"}),
    "without S_dens": ("ltgcd", "default", {"selection.sets": "confident"}),
    "without NMDS": ("ltgcd", "default", {"selection.suppress": False}),
    "affinity only": ("ltgcd", "default", {"selection.density": "affinity"}),
    "all of D^u": ("ltgcd", "default", {"selection.sets": "all"}),
    "no selection or prior": ("ltgcd", "default", {"warmup": 2.0}),
    "CReST quota": ("ltgcd", "default", {"selection.crest": "quota"}),
    "without neighbour loss": ("ltgcd", "default", {"neighbour_weight": 0.0}),
    "without adjustment": ("ltgcd", "default", {"adjustment": 0.0}),
    "without whitening": ("ltgcd", "default", {"whiten": False}),
    "simgcd without whitening": ("simgcd", "default", {"whiten": False}),
    "random start": ("ltgcd", "default", {"start": "random"}),
    "start from semi-kmeans": ("ltgcd", "default", {"start": "semi-kmeans"}),
    "without contrastive losses": ("ltgcd", "default", {"contrastive": False}),
}


def problem(name: str, imbalance: float | None, seed: int, root: Path, views: Path | None) -> tuple[Task, np.ndarray]:
    """A split of a whole dataset's features as a task, and the true classes."""
    with np.load(root / name / "features.npz", allow_pickle=False) as file:
        x, y, ids = file["x"], file["y"].astype(np.int64), pa.array(file["ids"])
    dataset = get_dataset(name)
    kind = "natural" if imbalance is None else "paper-counts"
    config = SplitConfig(kind, imbalance or 10.0, seed)
    split = draw_split(y, class_order(dataset, seed), dataset.n_old, config, dataset.heads.get(kind))
    labels = np.where(split.labelled, split.y_true, -1)
    task = Task(x[split.rows].astype(np.float32), labels, split.n_old, len(split.classes), seed)
    if views:
        store = open_features(views / name, verify=False)
        rows = pc.index_in(ids.take(pa.array(split.rows)), store.ids).to_numpy().astype(np.int64)
        task = task._replace(views=CachedViews(store, rows), tail=backbone_of(store.key).tail)
    return task, split.y_true


def run(variant: str, regime: str, task: Task, true: np.ndarray, overrides: dict[str, Any]) -> dict[str, Any]:
    """One cell: figures, minutes and, for what selects, λ(S) of each epoch with true labels."""
    method, name, changes = VARIANTS[variant]
    started, lines, pools = time.perf_counter(), [], []
    if method in CLUSTERINGS:
        labels = CLUSTERINGS[method](task.x, task.y, task.n_old, task.k, task.random_state).labels
    else:
        experiment = changed(preset(method, regime, name), {**changes, **overrides})
        if regime == "frozen":
            task = task._replace(views=None, tail=None)
        result = fit_model(
            task, experiment, record=lines.append, watch=lambda _epoch, sets: pools.append(sets.get("selected"))
        )
        labels = result.probabilities.argmax(axis=1)
    free = task.y < 0
    scores = evaluate(true[free], labels[free], task.n_old, k=task.k)
    last = {k: v for k, v in (lines[-1] if lines else {}).items() if k.startswith(("n_", "lambda", "density"))}
    selecting = [pool for line, pool in zip(lines, pools, strict=True) if "n_selected" in line]
    return {
        "balanced": [round(v, 2) for v in scores.balanced_acc],
        "instance": [round(v, 2) for v in scores.acc],
        "minutes": round((time.perf_counter() - started) / 60, 2),
        "epochs": len(lines),
        **last,
        "lambda_true": [round(imbalance_factor(np.bincount(true[pool])), 1) for pool in selecting],
        "seconds_epoch": round(float(np.mean([line["seconds"] for line in lines])), 2) if lines else None,
        "seconds_selection": round(float(np.mean([line["seconds_selection"] for line in lines])), 2) if lines else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, default=Path("features"))
    parser.add_argument(
        "--views", type=Path, help="where the cached views are, if they are of a part of the items only"
    )
    parser.add_argument("--rows", default="cifar100:10,plankton", help="dataset[:λ], comma-separated")
    parser.add_argument("--variants", default="semi-kmeans,simgcd,ltgcd")
    parser.add_argument("--regime", default="frozen", choices=["frozen", "last-stage"])
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--set", action="append", default=[], help="NAME=VALUE for every trained cell")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "training.jsonl")
    parser.add_argument("--render", action="store_true", help="only write the table")
    options = parser.parse_args()
    views = (options.views or options.features) if options.regime == "last-stage" else None
    overrides = dict(change.split("=", 1) for change in options.set)
    done = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.is_file() else []
    for row in [] if options.render else options.rows.split(","):
        name, _, imbalance = row.partition(":")
        for seed in map(int, options.seeds.split(",")):
            task = true = None
            for variant in options.variants.split(","):
                key = {
                    "dataset": name, "imbalance": float(imbalance) if imbalance else None, "seed": seed,
                    "regime": options.regime, "variant": variant, "set": overrides,
                }  # fmt: skip
                if any(all(cell[part] == value for part, value in key.items()) for cell in done):
                    continue
                task, true = problem(name, key["imbalance"], seed, options.features, views)
                cell = {**key, **run(variant, options.regime, task, true, overrides)}
                done.append(cell)
                with options.out.open("a") as file:
                    file.write(json.dumps(cell) + "\n")
                print(row, seed, options.regime, variant, cell["balanced"], f"{cell['minutes']} min", flush=True)
    options.out.with_suffix(".md").write_text(render(done), encoding="utf-8")


def render(cells: list[dict[str, Any]]) -> str:
    """The tables: one for each dataset, λ, regime and set of overrides."""
    text = ["# Training: balanced All / Old / New on D^u, true K\n"]
    text.append(
        "EfficientNet-Lite2 at 128 px, mean ± standard deviation over data seeds; rendered from training.jsonl by "
        "`python benchmarks/training.py --render`. λ(S): imbalance factor of the last epoch's S with true labels "
        "(evaluation only).\n"
    )
    groups: dict[str, list[dict[str, Any]]] = {}
    for cell in cells:
        lam = f" λ = {cell['imbalance']:g}" if cell["imbalance"] else ""
        extra = "".join(f", {k} = {v}" for k, v in cell["set"].items())
        groups.setdefault(f"{cell['dataset']}{lam}, {cell['regime']}{extra}", []).append(cell)
    for title in sorted(groups):
        text.append(f"\n## {title}\n")
        text.append("| variant | seeds | All | Old | New | instance All | λ(S) true | minutes |\n" + "|---" * 8 + "|")
        for variant in VARIANTS:
            own = [cell for cell in groups[title] if cell["variant"] == variant]
            if not own:
                continue
            scores = np.array([cell["balanced"] for cell in own])
            parts = [f"{m:.1f} ± {s:.1f}" for m, s in zip(scores.mean(axis=0), scores.std(axis=0), strict=True)]
            seeds = ", ".join(str(cell["seed"]) for cell in sorted(own, key=lambda cell: cell["seed"]))
            instance = np.mean([cell["instance"][0] for cell in own])
            lam = [cell["lambda_true"][-1] for cell in own if cell["lambda_true"]]
            shown = f"{np.mean(lam):.1f}" if lam else "–"
            minutes = np.mean([cell["minutes"] for cell in own])
            text.append(f"| {variant} | {seeds} | {' | '.join(parts)} | {instance:.1f} | {shown} | {minutes:.1f} |")
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    main()
