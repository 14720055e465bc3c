"""The paper's ablations of its class-number estimate (k, k_s, λ_NMDS, density form), as printed and corrected.

    python benchmarks/class_number_ablations.py --features features > benchmarks/results/class_number_ablations.md

A finished cell is never run again; the tables are made of all that is finished. The labels of D^u are not used.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from class_number import features, problem

from ltgcd.k_search import labelled_accuracy
from ltgcd.neighbours import knn_graph
from ltgcd.peak_clustering import LITERAL, MAX_PEAKS, PeakConfig, search_peaks
from ltgcd.whitening import normalise, principal_components, within_class_whitening

SETS = {"CIFAR-100-LT λ=10, 80+20": ("cifar100", 80, 20, 10.0), "plankton 60+61": ("plankton", 60, 61, None)}
READINGS = {"literal": LITERAL, "corrected": PeakConfig()}
SWEEPS = {
    "k": (5, 10, 15, 20),
    "k_s": (10, 20, 30, 40),
    "lam": (0.2, 0.4, 0.6, 0.8),
    "connectivity": ("affinity", "bootstrap"),
}
TITLES = {"k": "k", "k_s": "k_s", "lam": "λ_NMDS", "connectivity": "density form"}
# K̂ of the paper on ImageNet-100-LT (100 classes) and Herbarium-19 (683); for k and the density form it gives only ACC.
PAPER = {
    "k_s": {10: (146, 761), 20: (135, 620), 30: (79, 586), 40: (65, 511)},
    "lam": {0.2: (167, 743), 0.4: (153, 617), 0.6: (113, 594), 0.8: (85, 523)},
}
FORMS = {"affinity": "affinity alone", "bootstrap": "e_ij · a_ij"}
KEY = ("set", "seed", "reading", "k", "k_s", "lam", "connectivity")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--features", type=Path, default=Path("features"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--render", action="store_true", help="only print the tables of what is finished")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "class_number_ablations.jsonl")
    options = parser.parse_args()
    done = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.is_file() else []
    finished = {tuple(r[key] for key in KEY) for r in done}
    for seed in range(0 if options.render else options.seeds):
        for title, (name, n_old, n_new, imbalance) in SETS.items():
            wanted = [(title, seed, reading, config) for reading in READINGS for config in configs(reading)]
            wanted = [w for w in wanted if cell(*w) not in finished]
            if not wanted:
                continue
            x, y, _ = problem(name, *features(name, options.features), n_old, n_new, imbalance, seed)
            for reading in dict.fromkeys(w[2] for w in wanted):
                unit = normalise(x)
                if reading == "corrected":
                    unit = within_class_whitening(principal_components(x), y, n_old)
                graph = knn_graph(unit, max(*SWEEPS["k"], *SWEEPS["k_s"]))
                for *_, config in (w for w in wanted if w[2] == reading):
                    k, _, clusters, peaks = search_peaks(unit, y, n_old, graph, config)
                    record = {
                        **dict(zip(KEY, cell(title, seed, reading, config), strict=True)),
                        "k_hat": k, "n_peaks": len(peaks), "k_true": n_old + n_new, "n_old": n_old,
                        "labelled_acc": round(labelled_accuracy(clusters, y, balanced=True), 2),
                    }  # fmt: skip
                    done.append(record)
                    with options.out.open("a") as file:
                        file.write(json.dumps(record) + "\n")
    render(done)


def configs(reading: str) -> list[PeakConfig]:
    """The reading itself and every change of one of its settings, each once."""
    base = READINGS[reading]
    return list(dict.fromkeys(replace(base, **{name: v}) for name, values in SWEEPS.items() for v in values))


def cell(title: str, seed: int, reading: str, config: PeakConfig) -> tuple:
    return (title, seed, reading, config.k, config.k_s, config.lam, config.connectivity)


def render(records: list[dict]) -> None:
    """A table for each setting: K̂ (of each seed), peaks and balanced labelled ACC, beside the paper's K̂."""
    found: dict[tuple, list[dict]] = {}
    for r in records:
        found.setdefault((r["set"], r["reading"], r["k"], r["k_s"], r["lam"], r["connectivity"]), []).append(r)
    columns = [(title, reading) for title in SETS for reading in READINGS]
    for name, values in SWEEPS.items():
        print(f"\n## {TITLES[name]}\n")
        heads = [f"{title}, {reading}" for title, reading in columns]
        paper = ["paper: ImageNet-100-LT (100)", "paper: Herb-19 (683)"] if name in PAPER else []
        print("| " + " | ".join([TITLES[name], *heads, *paper]) + " |")
        print("|---" * (1 + len(heads) + len(paper)) + "|")
        tops: dict[tuple[str, str], list[float]] = {column: [] for column in columns}
        peaks: dict[tuple[str, str], list[float]] = {column: [] for column in columns}
        for value in values:
            line = [FORMS.get(value, str(value))]
            for title, reading in columns:
                c = replace(READINGS[reading], **{name: value})
                got = found.get((title, reading, c.k, c.k_s, c.lam, c.connectivity), [])
                if not got:
                    line.append("not run")
                    continue
                tops[title, reading].append(float(np.mean([r["k_hat"] for r in got])))
                peaks[title, reading].append(float(np.mean([r["n_peaks"] for r in got])))
                acc = np.mean([r["labelled_acc"] for r in got])
                more = "≥ " if max(r["n_peaks"] for r in got) == MAX_PEAKS else ""  # the densest of more are searched
                line.append(
                    f"{tops[title, reading][-1]:.0f} ({', '.join(str(r['k_hat']) for r in got)}); "
                    f"{more}{peaks[title, reading][-1]:.0f} peaks; ACC {acc:.1f}"
                )
            line += [str(v) for v in PAPER[name][value]] if name in PAPER else []
            print("| " + " | ".join(line) + " |")
        print()
        for title, reading in columns:
            print(f"- {title}, {reading}: {verdict(name, tops[title, reading], peaks[title, reading])}")


def verdict(name: str, ks: list[float], peaks: list[float]) -> str:
    """Whether the paper's direction is there: k, k_s and λ_NMDS up, peaks and K̂ down."""
    if len(ks) < len(SWEEPS[name]):
        return "not finished."
    if name == "connectivity":
        change = f"peaks {peaks[0]:.0f} → {peaks[1]:.0f}, K̂ {ks[0]:.0f} → {ks[1]:.0f}"
        return f"with e_ij instead of the affinity alone {change}; the paper gives no K̂ for it."
    words = []
    for what, values in (("peaks", peaks), ("K̂", ks)):
        steps = np.diff(values)
        if abs(values[-1] - values[0]) < 0.05 * values[0]:
            how = "hardly move: the direction is not reproduced"
        elif (steps <= 0).all():
            how = "fall at every step, as in the paper"
        elif (steps >= 0).all():
            how = "**rise: the reverse of the paper**"
        else:
            how = "go up and down: the direction is not reproduced"
        words.append(f"{what} {how} ({', '.join(f'{v:.0f}' for v in values)})")
    return "; ".join(words) + "."


if __name__ == "__main__":
    main()
