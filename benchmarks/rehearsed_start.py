"""Which whitening, and which features for the communities, find hidden classes best? Asked of labelled items alone.

    python benchmarks/rehearsed_start.py --work ltgcd-bench --also hwu64.npz

Of every set only the labelled items of its split take part (of `--also`, `.npz` files with `x` and `y_true` that are
there for choosing, all; of HWU64 4,000 items drawn with seed 0): half of the classes are hidden, and half of the items
of each other class. Every variant of the start (whitening, communities, two rounds of semi-supervised k-means) answers
for the items without a label; with `--what trained` the whole frozen default does, for some variants, and with `--what
more-labels` it does so on other draws with a quarter of the classes and a fifth of the other items hidden: does a gain
outlast few labels? Old and New are the mean recalls of visible and of hidden classes, All that of all classes. Images
are looked at at 192 px, as `discover` does. What is finished is kept in ``rehearsed_start.jsonl`` of the work folder;
the tables are `results/rehearsed_start.md`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from start_variants import TRAINED, VARIANTS, Variant, prepared, start, trained

from ltgcd.bench.cells import Workshop
from ltgcd.bench.tables import cell_of, read_settings, read_tables
from ltgcd.common.tables import Table
from ltgcd.data.collection import UNLABELLED
from ltgcd.discovery.rehearsal import HELD_OUT, Hidden, judge
from ltgcd.run.train import vectors
from ltgcd.training.fit import hold_out
from ltgcd.training.novelty import probably_novel
from ltgcd.training.problem import Problem

TABLES = Path(__file__).parent / "tables"
RESULT = Path(__file__).parent / "results" / "rehearsed_start.md"
SETS = {
    "banking77": "class_number_grid",
    "clinc150": "class_number_grid",
    "cub200": "ssb",
    "stanford-cars": "ssb",
    "plankton": "main",
    "cifar100": "main",
}
PIXELS = 192
MEASURES = ("all", "old", "new")
KINDS = {
    "start": "The start alone, half of the classes and of the other items hidden",
    "trained": "The whole frozen default, half of the classes and of the other items hidden",
    "more-labels": "The whole frozen default, a quarter of the classes and a fifth of the other items hidden",
}
HEAD = """# Whitening and start, by rehearsals on labelled items

`python benchmarks/rehearsed_start.py`, balanced All / Old / New in percent. The first row of a table has figures, each
other row differences to it on the same problems. One of many variants must be ahead by more than its error.
"""


# ---------------------------------------------------------------- problems


def problems(options: argparse.Namespace) -> Iterator[tuple[str, int, Problem, Hidden]]:
    """Name, seed, a problem made of labelled items, and what was hidden of it."""
    tables, settings = read_tables(TABLES), read_settings(TABLES)
    settings = {name: dataclasses.replace(s, image_size=s.image_size and PIXELS) for name, s in settings.items()}
    workshop = Workshop(options.work, None, settings, print)
    files = {path.stem: path for path in options.also}
    for name in options.sets or [*SETS, *files]:
        for seed in range(options.seeds):
            if name in files:
                with np.load(files[name]) as file:
                    x, y = file["x"], np.unique(file["y_true"], return_inverse=True)[1]
            else:
                table = tables[SETS[name]]
                column = next(c for c in table.columns if c.name == name)
                source = workshop.prepared(cell_of(table, column, table.rows[0], settings, None, "frozen", seed)).source
                held = source.collection.labelled
                x, y = vectors(source)[held], source.collection.y[held]
            hide = quarter_hidden if options.what == "more-labels" else half_hidden
            yield (name, seed, *hide(np.asarray(x, dtype=np.float32), y, seed))


def half_hidden(x: NDArray[np.float32], true: NDArray[np.int64], seed: int) -> tuple[Problem, Hidden]:
    """Hide half of the classes, and half of the items of the others."""
    classes = np.random.RandomState(seed).permutation(np.unique(true))
    return _with_visible(x, true, classes[: len(classes) // 2], 0.5, seed)


def quarter_hidden(x: NDArray[np.float32], true: NDArray[np.int64], seed: int) -> tuple[Problem, Hidden]:
    """Hide a quarter of the classes, and a fifth of the items of the others; other draws than for a half."""
    classes = np.random.RandomState(seed + 10).permutation(np.unique(true))
    return _with_visible(x, true, classes[len(classes) // 4 :], HELD_OUT, seed + 10)


def _with_visible(
    x: NDArray[np.float32], true: NDArray[np.int64], classes: NDArray[np.int64], held_out: float, seed: int
) -> tuple[Problem, Hidden]:
    visible = np.sort(classes)
    y = np.where(np.isin(true, visible), np.searchsorted(visible, true), UNLABELLED)
    y, _ = hold_out(y, held_out, seed)
    k = len(np.unique(true))
    return Problem(x, y, len(visible), k, seed), Hidden(true, visible, np.flatnonzero(y == UNLABELLED))


def scores(p: Table, hidden: Hidden) -> dict[str, float]:
    """Mean recall, in percent, over all, the visible and the hidden classes."""
    said = judge(hidden.asked, p, np.ones(p.shape[1], dtype=np.int64), hidden.y[hidden.asked], hidden.visible)
    classes, at = np.unique(said.classes, return_inverse=True)
    recall = 100 * np.bincount(at, weights=said.right) / np.bincount(at)
    old = np.isin(classes, hidden.visible)
    values = {"all": recall, "old": recall[old], "new": recall[~old]}
    return {part: round(float(v.mean()), 2) for part, v in values.items()}


# ---------------------------------------------------------------- the study


def run(options: argparse.Namespace, kept: Path) -> None:
    """Every variant on every problem; what is kept is not done again."""
    lines = [json.loads(line) for line in kept.read_text().splitlines()] if kept.is_file() else []
    done = {(line["dataset"], line["seed"], line["variant"], line["kind"]) for line in lines}
    chosen = VARIANTS if options.what == "start" else TRAINED
    for name, seed, problem, hidden in problems(options):
        missing = [v for v in chosen if (name, seed, v.name, options.what) not in done]
        novel = probably_novel(problem.x, problem.y, problem.random_state) if missing else None
        for variant in missing:
            now = problem._replace(x=prepared(variant, problem.x))
            p: Table
            if options.what == "start":
                p = np.eye(problem.k, dtype=np.float32)[start(variant, now, novel)]
            else:
                p = trained(variant, now, novel)
            line = {"dataset": name, "seed": seed, "variant": variant.name, "kind": options.what}
            with kept.open("a") as file:
                file.write(json.dumps({**line, **scores(p, hidden)}) + "\n")


def table(lines: list[dict[str, Any]]) -> str:
    """Differences to the first variant on the same problems, a row a variant, for the start and the trained default."""
    by = {(r["kind"], r["variant"], r["dataset"], r["seed"]): np.array([r[m] for m in MEASURES]) for r in lines}
    first, text = Variant().name, ""
    for kind, title in KINDS.items():
        keys = [key for key in by if key[0] == kind and (kind, first, *key[2:]) in by]
        sets = list(dict.fromkeys(key[2] for key in keys))
        if not sets:
            continue
        names = list(dict.fromkeys(key[1] for key in keys))
        base = np.array([np.mean([by[k] for k in keys if k[1:3] == (first, name)], axis=0) for name in sets])
        text += f"\n## {title}\n\n| variant | problems | mean of the sets | standard error over problems "
        text += f"| least mean with a set left out | {' | '.join(sets)} |\n" + "|---" * (5 + len(sets)) + "|\n"
        text += f"| {first} | | {_shown(base.mean(axis=0), '')} | | | {' | '.join(_shown(r, '') for r in base)} |\n"
        for variant in names:
            gains = {
                name: [by[k] - by[kind, first, *k[2:]] for k in keys if k[1:3] == (variant, name)] for name in sets
            }
            means = np.array([np.mean(g, axis=0) for g in gains.values() if g])
            every = np.concatenate([np.array(g) for g in gains.values() if g])
            if variant == first or len(means) < 2:
                continue
            error = every.std(axis=0, ddof=1) / np.sqrt(len(every))
            least = ((means.sum(axis=0) - means) / (len(means) - 1)).min(axis=0)
            cells = [_shown(np.mean(g, axis=0), "+") if g else "not run" for g in gains.values()]
            told = (_shown(means.mean(axis=0), "+"), _shown(error, ""), _shown(least, "+"))
            text += f"| {variant} | {len(every)} | {' | '.join((*told, *cells))} |\n"
    return text


def _shown(values: NDArray[np.float64], sign: str) -> str:
    return " / ".join(f"{v:{sign}.1f}" for v in values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("ltgcd-bench"))
    parser.add_argument("--also", type=Path, nargs="*", default=[], help=".npz files for choosing, x and y_true")
    parser.add_argument("--sets", nargs="*", help="only these")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--what", choices=KINDS, default="start", help="the start alone, or the whole default")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    kept = options.work / "rehearsed_start.jsonl"
    run(options, kept)
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    RESULT.write_text(HEAD + table(lines))


if __name__ == "__main__":
    main()
