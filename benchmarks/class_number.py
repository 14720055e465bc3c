"""How many classes? Every estimator on long-tailed problems with new classes removed and added; three seeds.

The labels of D^u are used for nothing but the last column. Features are embedded once into --features (minutes).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from ltgcd.backbones import load_backbone
from ltgcd.collection import Collection, Source
from ltgcd.datasets import get_dataset, load_pool
from ltgcd.datasets.base import class_order
from ltgcd.estimate_k import class_number, estimate_k
from ltgcd.features import embed
from ltgcd.sources import read_source
from ltgcd.splits import SplitConfig, draw_split

KEY = ("dataset", "n_old", "n_new", "imbalance", "method")
ROWS = [
    ("cifar100", 80, 20, 5.0),
    ("cifar100", 80, 20, 10.0),
    ("cifar100", 80, 20, 20.0),
    ("cifar100", 80, 0, 10.0),
    ("cifar100", 50, 50, 10.0),
    ("cifar100", 30, 70, 10.0),
    ("plankton", 60, 61, None),
    ("plankton", 60, 0, None),
    ("plankton", 60, 30, None),
    ("plankton", 30, 30, None),
    ("plankton", 30, 91, None),
    ("banking77", 38, 39, None),
    ("clinc150", 75, 75, None),
]


def features(name: str, root: Path) -> tuple[np.ndarray, np.ndarray]:
    """Features and official classes of a dataset's training pool, embedded once."""
    pool = load_pool(name)
    folder = root / name
    if not (folder / "features.npz").is_file():
        image = get_dataset(name).kind == "image"
        backbone = load_backbone("efficientnet_lite2", image_size=128) if image else load_backbone("minilm")
        blank = Collection(pool.ids, pool.items, np.full(len(pool.y), -1), ())
        embed(Source(blank, None), backbone, folder, engine="openvino" if image else "torch")
    x = read_source(folder).collection.items.x
    assert len(x) == len(pool.y)
    return x, pool.y


def problem(
    name: str, x: np.ndarray, y: np.ndarray, n_old: int, n_new: int, imbalance: float | None, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels (-1 = unlabelled) and true classes of a row at a seed."""
    dataset = get_dataset(name)
    preset = "natural" if imbalance is None else "paper-counts"
    config = SplitConfig(preset, imbalance or 10.0, seed, n_old, n_new)
    split = draw_split(y, class_order(dataset, seed), dataset.n_old, config, dataset.heads.get(preset))
    return x[split.rows], np.where(split.labelled, split.y_true, -1), split.y_true


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=Path, default=Path("features"))
    parser.add_argument("--methods", default="peaks,peaks-merged,peaks-literal")
    parser.add_argument("--datasets", default="cifar100,plankton,banking77,clinc150")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--render", action="store_true", help="only print the tables of what is finished")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "class_number.jsonl")
    options = parser.parse_args()
    done = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.is_file() else []
    keys = {tuple(r[key] for key in (*KEY, "seed")) for r in done}
    loaded: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for method in [] if options.render else options.methods.split(","):
        for name, n_old, n_new, imbalance in ROWS:
            for seed in range(options.seeds if name in options.datasets.split(",") else 0):
                if (name, n_old, n_new, imbalance, method, seed) in keys:
                    continue  # a finished cell is never run again
                if name not in loaded:
                    loaded = {name: features(name, options.features)}
                x, y, true = problem(name, *loaded[name], n_old, n_new, imbalance, seed)
                got = estimate_k(x, y, method, random_state=seed)
                share = float((true[y < 0] < n_old).mean())
                record = {
                    "dataset": name, "n_old": n_old, "n_new": n_new, "imbalance": imbalance, "method": method,
                    "seed": seed, "k": got.k, "low": got.low, "high": got.high, "seconds": round(got.seconds, 2),
                    "known_share": got.evidence.get("known_share"), "true_known_share": round(share, 4),
                    "n_labelled": int((y >= 0).sum()), "n_unlabelled": int((y < 0).sum()),
                }  # fmt: skip
                done.append(record)
                with options.out.open("a") as file:
                    file.write(json.dumps(record) + "\n")
    render(done)


def overview(records: list[dict], methods: list[str]) -> None:
    """One line a method: mean over its rows, and the error of the default on the very same cells."""
    print("| method | cells of 39 | rows of 13 | mean abs. error | worst row | the default's on the same cells |")
    print("|---|---|---|---|---|---|")
    off = {cell_of(r): 100 * abs(r["k"] / (r["n_old"] + r["n_new"]) - 1) for r in records}
    for method in methods:
        mine = [r for r in records if r["method"] == method]
        rows: dict[tuple, list[float]] = {}
        default: dict[tuple, list[float]] = {}
        for r in mine:
            row = cell_of(r)[:4]
            rows.setdefault(row, []).append(off[cell_of(r)])
            default.setdefault(row, []).append(off.get(cell_of({**r, "method": "peaks"}), np.nan))
        error, other = ([float(np.mean(v)) for v in table.values()] for table in (rows, default))
        print(
            f"| {method} | {len(mine)} | {len(rows)} | {np.mean(error):.1f} % | {np.max(error):.0f} % | "
            f"{np.mean(other):.1f} % |"
        )


def cell_of(r: dict) -> tuple:
    return tuple(r[key] for key in (*KEY, "seed"))


def render(records: list[dict]) -> None:
    """The table: K̂ of each seed, mean |error| in percent, coverage of the interval, error of the known share."""
    methods = list(dict.fromkeys(r["method"] for r in records))
    overview(records, methods)
    for method in methods:
        print(f"\n## {method}")
        print("| problem | K | K̂ by seed | mean abs. error | interval covers | mean width | known share: est. (true) |")
        print("|---|---|---|---|---|---|---|")
        errors, covered = [], []
        for name, n_old, n_new, imbalance in ROWS:
            wanted = (name, n_old, n_new, imbalance, method)
            cell = [r for r in records if tuple(r[key] for key in KEY) == wanted]
            if not cell:
                continue
            k = n_old + n_new
            off = [100 * abs(r["k"] - k) / k for r in cell]
            errors.append(np.mean(off))
            spans = [r for r in cell if r["low"] is not None]
            inside = [r["low"] <= k <= r["high"] for r in spans]
            covered += inside
            width = f"{np.mean([r['high'] - r['low'] for r in spans]):.0f}" if spans else "–"
            title = f"{name} {n_old}+{n_new}" + (f" λ={imbalance:g}" if imbalance else "")
            shares = ", ".join(
                f"{r['known_share']:.2f} ({r['true_known_share']:.2f})" for r in cell if r["known_share"] is not None
            )
            covers = f"{sum(inside)}/{len(inside)}" if spans else "–"
            ks = ", ".join(str(r["k"]) for r in cell)
            print(f"| {title} | {k} | {ks} | {np.mean(off):.0f} % | {covers} | {width} | {shares or '–'} |")
        summary = f"mean over the rows {np.mean(errors):.1f} %, worst row {np.max(errors):.0f} %"
        if covered:
            summary += f", the interval covers in {100 * np.mean(covered):.0f} % of runs"
        print(f"\n{method}: {summary}.")
        if method == "peaks":
            other = [
                100 * abs(class_number(r["known_share"], r["n_labelled"], r["n_unlabelled"], r["n_old"], "elsewhere")
                          - r["n_old"] - r["n_new"]) / (r["n_old"] + r["n_new"])
                for r in records if r["method"] == method and r["dataset"] == "cifar100"
            ]  # fmt: skip
            own = [
                100 * abs(r["k"] - r["n_old"] - r["n_new"]) / (r["n_old"] + r["n_new"])
                for r in records if r["method"] == method and r["dataset"] == "cifar100"
            ]  # fmt: skip
            print(
                f"CIFAR-100-LT's labelled and unlabelled parts have profiles of their own; told so "
                f"(labels_from='elsewhere') its rows are off by {np.mean(other):.1f} % instead of {np.mean(own):.1f} %."
            )


if __name__ == "__main__":
    main()
