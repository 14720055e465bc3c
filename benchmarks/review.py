"""What is an action of a reviewer worth? One who knows the truth reviews discoveries and pays for every key.

    python benchmarks/review.py --work ltgcd-bench [--only banking77:0 …] [--actions 300] [--hidden]

Three ways beside ours (`ltgcd.bench.reviewer`): single items at random, the least sure single items, both with the same
refits; categories in the order of their size without parts or refits. Features, discoveries and finished
simulations are kept in the work folder; remove ``review.jsonl`` there when the code has changed.

With ``--hidden`` a set is its labelled items alone, of which half of the classes and half of the other labels are
hidden: what is chosen there has seen no label of D^u. Data seed 20 is none that is reported, and the given seed decides
what is hidden. These sets are smaller: 80 actions there are as many for an item as 300 are in the whole.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from ltgcd.bench.cells import Workshop
from ltgcd.bench.review_desk import Desk, Material
from ltgcd.bench.review_scores import Truth, label_single_items, scores
from ltgcd.bench.reviewer import Oracle
from ltgcd.bench.tables import cell_of, read_settings, read_tables
from ltgcd.data.collection import UNLABELLED, Collection, Source, positions
from ltgcd.data.collection import Truth as SourceTruth
from ltgcd.discovery.task import configure
from ltgcd.review.state import Review
from ltgcd.run.directory import Run
from ltgcd.run.predict import load_run_model
from ltgcd.run.reviewed import RunReview
from ltgcd.run.train import train_run, vectors

HERE = Path(__file__).parent
SETS = {"banking77": "class_number_grid", "plankton": "main", "cifar100": "main", "clinc150": "class_number_grid"}
SETS |= {"cub200": "ssb"}
TITLES = {"banking77": "BANKING77", "plankton": "plankton", "cifar100": "CIFAR-100-LT λ = 10", "clinc150": "CLINC150"}
TITLES |= {"cub200": "CUB-200"}
CHOOSING = 20  # data seed of what is chosen on
REPORTED = [f"{name}:{seed}" for seed in range(3) for name in ("banking77", "plankton", "cifar100")]
STEPS = (0, 25, 40, 50, 80, 100, 150, 200, 300, 500)
REFITS = (100, 200, 300, 400, 500)
REFITS_HIDDEN = (40, 80)
WAYS = {
    "review": "the review loop",
    "random": "single items at random",
    "least-sure": "the least sure single items",
    "size": "categories by size, no parts, no refit",
}
COLOURS = {"review": "#d55e00", "random": "#8a96a3", "least-sure": "#2b6ca3", "size": "#4f9d69"}
DASHES = {"review": "-", "random": (0, (1, 1)), "least-sure": (0, (4, 2)), "size": (0, (4, 1, 1, 1))}


# ---------------------------------------------------------------- one simulation


def begun(workshop: Workshop, name: str, seed: int, rehearsals: int, hidden: bool) -> tuple[Review, Material, Truth]:
    """A discovery to be reviewed, what it was made from, and the truth; one that is there is not made again."""
    table = read_tables(HERE / "tables")[SETS[name]]
    column = next(c for c in table.columns if c.name == name)
    cell = cell_of(table, column, table.rows[0], workshop.settings, None, "frozen", CHOOSING if hidden else seed)
    source = workshop.prepared(cell).source
    config = configure(rehearsals=rehearsals, random_state=seed)
    run = Run(workshop.work / "runs" / f"review-{name}-{seed}{'-hidden' if hidden else ''}")
    if hidden:
        source, k = with_hidden_classes(source.collection, seed)
        config = dataclasses.replace(config, k=k)
    train_run(source, run.folder, config, notify=workshop.notify)
    review = RunReview.open(run).review
    ids, held, truth = review.base.column("id").combine_chunks(), source.collection, source.truth
    at = positions(ids, held.ids, run.folder, "remove it")
    x = np.asarray(vectors(source)[at], dtype=np.float32)
    material = Material(x, held.y[at], held.n_old, config, load_run_model(run).calibrations)
    return review, material, Truth(truth.y_true[positions(ids, truth.ids, run.folder, "remove it")], truth.class_names)


def with_hidden_classes(collection: Collection, seed: int) -> tuple[Source, int]:
    """The labelled items alone, with half of the classes and half of the other labels hidden; and the classes."""
    random, rows = np.random.RandomState(100 + seed), np.flatnonzero(collection.y != UNLABELLED)
    classes, y = np.unique(collection.y[rows], return_inverse=True)
    order = np.argsort(random.permutation(len(classes)))
    y, n_old = order[y], len(classes) // 2
    names = tuple(np.array(collection.class_names)[classes][np.argsort(order)].tolist())
    shown = np.where((y < n_old) & (random.rand(len(y)) < 0.5), y, UNLABELLED)
    some = collection.select(rows)
    held = Collection(some.ids, some.items, shown, names[:n_old])
    return Source(held, SourceTruth(some.ids, y, names, n_old)), len(classes)


def simulated(
    review: Review, material: Material, truth: Truth, way: str, actions: int, refitted: tuple[int, ...] = REFITS
) -> dict[str, Any]:
    """The figures at every step of a way to spend some actions, and what they were spent on."""
    steps = [step for step in STEPS if step <= actions]
    refits = [step for step in refitted if step <= actions]
    found: dict[int, dict[str, float]] = {}
    labelled = material.source >= 0

    def watch(now: Review, spent: int, cost: int) -> None:
        for step in steps:
            if spent <= step < spent + cost and step not in found:
                found[step] = {k: round(v, 2) for k, v in scores(now, truth, labelled, material.n_old).items()}
                print(f"  {way} {step}: {found[step]}", flush=True)

    desk = Desk(material, review, actions, watch)
    if way in ("review", "size"):
        Oracle(desk, truth, refits if way == "review" else (), tools=way == "review").review()
    else:
        label_single_items(desk, truth, refits, way, material.config.random_state)
    watch(desk.review, desk.spent, actions + 1)
    for step in steps:  # it had nothing left to do
        found.setdefault(step, found[max(found)])
    return {"steps": {str(step): found[step] for step in steps}, "spent_on": desk.done}


# ---------------------------------------------------------------- table and figure


def table_of(lines: list[dict[str, Any]]) -> str:
    """Means over the seeds of every set and way, and what the actions gained."""
    told = []
    for name in dict.fromkeys(line["dataset"] for line in lines):
        mine = [line for line in lines if line["dataset"] == name]
        seeds = sorted({line["seed"] for line in mine})
        told += ["", f"{TITLES[name]}, seeds {', '.join(map(str, seeds))}"]
        head = "actions  balanced  (New)  instance  by name  classes found  settled  precision  settled an action"
        gains: dict[tuple[str, int], dict[int, float]] = {}
        for way, title in WAYS.items():
            rows = [line for line in mine if line["way"] == way]
            if not rows:
                told += [f"  {title}: not run"]
                continue
            told += [f"  {title} ({len(rows)} of {len(seeds)} seeds)", f"    {head}"]
            for step in STEPS:
                at = [row["steps"][str(step)] for row in rows if str(step) in row["steps"]]
                if not at:
                    continue
                m = {key: float(np.mean([one[key] for one in at])) for key in at[0]}
                rate = f"{m['settled'] / step:17.1f}" if step else " " * 17
                told.append(
                    f"    {step:7d}  {m['balanced']:8.1f}  {m['new']:5.1f}  {m['instance']:8.1f}  {m['named']:7.1f}  "
                    f"{m['found']:13.0f}  {m['settled']:7.0f}  {m['precision']:9.1f}  {rate}"
                )
            gains |= {
                (way, row["seed"]): {
                    int(s): v["balanced"] - row["steps"]["0"]["balanced"] for s, v in row["steps"].items()
                }
                for row in rows
            }
        for step in (80, 300, 500):
            both = [
                s for s in seeds if all(step in gains.get((way, s), {}) for way in ("review", "random", "least-sure"))
            ]
            if both:
                mean = {
                    way: float(np.mean([gains[way, s][step] for s in both])) for way in WAYS if (way, both[0]) in gains
                }
                parts = ", ".join(f"{WAYS[way]} {gain:+.1f}" for way, gain in mean.items())
                told.append(f"  balanced accuracy gained by {step} actions (seeds {both}): {parts}")
    return "\n".join(told)


def draw(lines: list[dict[str, Any]], out: Path) -> None:
    """Balanced accuracy against actions, a panel a set; thin lines are seeds."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "ltgcd"
    names = [name for name in TITLES if any(line["dataset"] == name for line in lines)]
    figure, panels = plt.subplots(1, len(names), figsize=(4.2 * len(names), 3.4), squeeze=False)
    for axes, name in zip(panels[0], names, strict=True):
        for way, title in WAYS.items():
            rows = [line for line in lines if line["dataset"] == name and line["way"] == way]
            if not rows:
                continue
            curves = [{int(s): v["balanced"] for s, v in row["steps"].items()} for row in rows]
            steps = sorted(set.intersection(*(set(curve) for curve in curves)))
            for curve in curves:
                axes.plot(steps, [curve[s] for s in steps], color=COLOURS[way], lw=0.6, alpha=0.45)
            mean = [float(np.mean([curve[s] for curve in curves])) for s in steps]
            axes.plot(steps, mean, color=COLOURS[way], ls=DASHES[way], lw=2, marker="o", ms=3, label=title)
        axes.set_title(TITLES[name], loc="left", fontsize=10, fontweight="bold")
        axes.set_xlabel("actions (keys and clicks)", fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e6eaee", lw=0.8)
        axes.tick_params(labelsize=8)
    panels[0][0].set_ylabel("balanced accuracy, whole collection (%)", fontsize=9)
    panels[0][0].legend(fontsize=7.5, frameon=False, loc="best")
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("ltgcd-bench"))
    parser.add_argument("--only", nargs="*", default=REPORTED, help="sets and seeds, like plankton:0")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=WAYS)
    parser.add_argument("--actions", type=int, default=500)
    parser.add_argument("--rehearsals", type=int, default=4, help="of the discovery that is reviewed")
    parser.add_argument("--hidden", action="store_true", help="on labelled items alone, to choose")
    parser.add_argument("--draw", action="store_true", help="write the table and the figure of what was simulated")
    options = parser.parse_args()
    kept = options.work / ("review-hidden.jsonl" if options.hidden else "review.jsonl")
    options.work.mkdir(parents=True, exist_ok=True)
    workshop = Workshop(options.work, None, read_settings(HERE / "tables"), lambda said: print(said, flush=True))
    for one in [] if options.draw else options.only:
        name, seed = one.split(":")
        lines = [json.loads(line) for line in kept.read_text().splitlines()] if kept.is_file() else []
        done = {(line["dataset"], line["seed"], line["way"]) for line in lines if line["actions"] >= options.actions}
        ways = [way for way in options.ways if (name, int(seed), way) not in done]
        start = begun(workshop, name, int(seed), options.rehearsals, options.hidden) if ways else None
        for way in ways:
            assert start is not None
            began = time.perf_counter()
            found = simulated(*start, way, options.actions, REFITS_HIDDEN if options.hidden else REFITS)
            about = {"dataset": name, "seed": int(seed), "way": way, "actions": options.actions}
            with kept.open("a") as file:
                file.write(
                    json.dumps({**about, "minutes": round((time.perf_counter() - began) / 60, 2), **found}) + "\n"
                )
    last = {}
    for line in kept.read_text().splitlines() if kept.is_file() else []:
        held = json.loads(line)
        if options.hidden or f"{held['dataset']}:{held['seed']}" in REPORTED:
            last[held["dataset"], held["seed"], held["way"]] = held
    told = table_of(list(last.values())).strip()
    wanted = [] if options.hidden else REPORTED
    missing = [one for one in wanted if not any(f"{name}:{seed}" == one for name, seed, _ in last)]
    told += f"\n\nnot run yet: {', '.join(missing)}" if missing else ""
    print(told)
    if options.draw:
        (HERE / "results" / "review.txt").write_text(told + "\n")
        draw(list(last.values()), HERE.parent / "docs" / "review-curves.svg")


if __name__ == "__main__":
    main()
