"""The class number on problems whose labels are all given: what the default is chosen on.

    python benchmarks/class_number_dev.py --work ltgcd-bench --data ../shared/data --also hwu64.npz atis.npz

Of the sets that have tables only the labelled items of their splits take part: some of their classes stay known (half
of their items keep the label), the others are to be found. No item of D^u takes part, so designs may be chosen by
these figures. (A labelled item of one seed may be unlabelled in another.) Sets that are there for choosing only, `.npz`
files with `x` and `y_true`, take part as a whole.

Everything before the final rule is computed once for each problem. The rules are then compared on the same draws, by
the mean |log K̂/K| of every set, and with each set left out: which rule would the others have chosen, and what does it
cost on that one?
"""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np

from ltgcd.bench.cells import Workshop
from ltgcd.bench.tables import cell_of, read_settings, read_tables
from ltgcd.class_number import interval
from ltgcd.class_number.class_mass import class_numbers, expected_number, mass_table, mean_log_size
from ltgcd.class_number.estimate import TAILS
from ltgcd.class_number.evidence import NEIGHBOURS, recoded, sibling_folds, with_siblings
from ltgcd.class_number.interval import beliefs, bootstrap, geometric_mean, measured_error, quantiles, redraw, widened
from ltgcd.class_number.known_share import known_share
from ltgcd.data.collection import UNLABELLED
from ltgcd.data.order import content_order
from ltgcd.graph.knn import knn_graph
from ltgcd.graph.whitening import principal_components, without_long_rows
from ltgcd.run.train import vectors

TABLES = Path(__file__).parent / "tables"
COLUMNS = {  # of the grid: the split whose labelled items make the problems
    "cifar100": "cifar100-80+20-10",
    "plankton": "plankton-60+61",
    "banking77": "banking77",
    "clinc150": "clinc150",
}
# Profile of the class sizes ("natural", λ, or "zipf"), share of the classes that stay known, share of the others that
# are there to be found.
KINDS = [("natural", share, 1.0) for share in (0.12, 0.25, 0.35, 0.5, 0.8)] + [("natural", 0.5, 0.0)]
FEW = {"atis", "ohsumed"}  # sets of so few classes that an eighth of them are none
MORE = {
    "cifar100": [("1", 0.5, 1.0), ("50", 0.5, 1.0), ("zipf", 0.5, 1.0)],
    "plankton": [("natural", 0.5, 0.5), ("5", 0.5, 1.0)],
    "banking77": [("10", 0.5, 1.0), ("zipf", 0.5, 1.0)],
    "clinc150": [("10", 0.5, 1.0), ("zipf", 0.5, 1.0)],
    "cub200": [("5", 0.5, 1.0), ("10", 0.5, 1.0)],
    "stanford-cars": [("5", 0.5, 1.0), ("10", 0.5, 1.0)],
    "hwu64": [("50", 0.5, 1.0), ("zipf", 0.5, 1.0), ("zipf", 0.25, 1.0)],
    "ohsumed": [("zipf", 0.5, 1.0)],
}
LEAST_ITEMS = 4  # of a class in a made-up profile
Rule = Callable[[np.ndarray, int], float]  # a number from draws of it and the number of known classes


def expecting(times: float, factor: float) -> Rule:
    """The geometric mean under a belief: so many times the known classes, give or take a factor."""

    def number(draws: np.ndarray, n_old: int) -> float:
        with patch.multiple(interval, PER_KNOWN=times, GIVE_OR_TAKE=factor):
            return geometric_mean(draws, beliefs(draws, n_old))

    return number


RULES: dict[str, Rule] = {
    "geometric mean": lambda draws, _n: geometric_mean(draws),
    "median": lambda draws, _n: float(np.median(draws)),
    "mean": lambda draws, _n: float(draws.mean()),
    "least relative error": lambda draws, _n: _weighted_median(draws, 1 / draws),
    **{f"{t:g} times the known, give or take {f:g}": expecting(t, f) for t in (2.0, 3.0) for f in (1.5, 2.0, 2.5, 3.5)},
}


@dataclass(frozen=True)
class Solved:
    """A problem and all that the rules need."""

    name: str
    kind: tuple[str, float, float]
    seed: int
    k_true: int
    n_old: int
    n_shown: int
    draws: np.ndarray
    errors: np.ndarray
    expected: float
    share: float
    true_share: float

    def widened(self) -> np.ndarray:
        return np.maximum(widened(self.draws, self.errors, self.n_shown), self.n_old)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("ltgcd-bench"), help="work folder of `ltgcd bench`")
    parser.add_argument("--data", type=Path, help="folder of the datasets (default: $LTGCD_DATA)")
    parser.add_argument("--also", type=Path, nargs="*", default=[], help=".npz files for choosing, x and y_true")
    parser.add_argument("--sets", nargs="*", help="only these")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--backbone", help="of images, as in tables/backbones.toml (default: that of the tables)")
    parser.add_argument("--keep", type=Path, help="a file for the solved problems: what is in it is not solved again")
    options = parser.parse_args()
    solved: list[Solved] = pickle.loads(options.keep.read_bytes()) if options.keep and options.keep.is_file() else []
    done = {(one.name, one.kind, one.seed) for one in solved}
    for name, seed, x, y in collections(options):
        for kind in [*KINDS, *MORE.get(name, [])]:
            if (name, kind, seed) not in done and not (name in FEW and kind[1] in (0.12, 0.35)):
                solved.append(solve(name, kind, seed, x, y))
        if options.keep:
            options.keep.write_bytes(pickle.dumps(solved))
    show(solved)


def collections(options: argparse.Namespace) -> Iterator[tuple[str, int, np.ndarray, np.ndarray]]:
    """Name, seed, features and true classes of every collection that problems are made of."""
    table, settings = read_tables(TABLES)["class_number_grid"], read_settings(TABLES)
    columns = {column.id: column for column in table.columns}
    workshop = Workshop(options.work, options.data, settings)
    files = {path.stem: path for path in options.also}
    for name in options.sets or [*COLUMNS, *files]:
        for seed in range(options.seeds):
            if name in files:
                with np.load(files[name]) as file:
                    yield name, seed, file["x"], np.unique(file["y_true"], return_inverse=True)[1]
                continue
            cell = cell_of(table, columns[COLUMNS[name]], table.rows[0], settings, options.backbone, None, seed)
            source = workshop.prepared(cell).source
            labelled = source.collection.labelled
            yield name, seed, vectors(source)[labelled], source.collection.y[labelled]


def solve(name: str, kind: tuple[str, float, float], seed: int, x: np.ndarray, y: np.ndarray) -> Solved:
    """Draw a problem, and compute what the estimator computes up to its final rule."""
    profile, share, found = kind
    random = np.random.RandomState(1000 + seed)
    rows = subsample(y, profile, random)
    x, y = x[rows].astype(np.float32), y[rows]
    classes = random.permutation(np.unique(y))
    n_old = max(2, round(share * len(classes)))
    n_all = n_old + round(found * (len(classes) - n_old))
    code = np.full(int(y.max()) + 1, UNLABELLED)
    code[classes[:n_all]] = np.arange(n_all)
    x, true = x[code[y] >= 0], code[y][code[y] >= 0]
    given = np.full(len(true), UNLABELLED)
    for c in range(n_old):
        members = random.permutation(np.flatnonzero(true == c))
        given[members[: max(1, round(0.5 * len(members) + 1e-9))]] = c
    order = content_order(x, given, n_old)
    z = principal_components(without_long_rows(x[order.rows]))
    y, true = order.labels(given), true[order.rows]
    shown = with_siblings(y, sibling_folds(z, y, seed))
    y, graph = recoded(y, shown), knn_graph(z, NEIGHBOURS)
    known = y != UNLABELLED
    split = known_share(z, y, graph, seed)
    log_size = mean_log_size(z, graph, max(2, len(shown) // 2))
    table = mass_table(split, y[known], log_size[known], log_size[~known])
    draws, _ = bootstrap(table, redraw(table, seed), len(shown), inside=True)
    expected = expected_number(table, class_numbers(table, len(shown), inside=True)[0])
    errors = measured_error(z, y, graph, log_size, seed)
    truth = float(np.isin(true[~known], np.unique(true[known])).mean())
    return Solved(name, kind, seed, n_all, n_old, len(shown), draws, errors, expected, split.share, truth)


def subsample(y: np.ndarray, profile: str, random: np.random.RandomState) -> np.ndarray:
    """Rows, such that the classes, in random order, have the sizes of a profile as far as they have as many items."""
    if profile == "natural":
        return np.arange(len(y))
    sizes = np.bincount(y)
    present = np.flatnonzero(sizes)
    place = np.arange(len(present))
    if profile == "zipf":
        wanted = sizes.max() * (1.0 + place) ** -1.5
    elif profile == "1":
        wanted = np.full(len(present), float(sizes[present].min()))
    else:
        wanted = sizes.max() * float(profile) ** (-place / max(len(present) - 1, 1))
    wanted = np.maximum(np.round(wanted), LEAST_ITEMS).astype(int)
    parts = [
        random.permutation(np.flatnonzero(y == c))[:n] for c, n in zip(random.permutation(present), wanted, strict=True)
    ]
    return np.sort(np.concatenate(parts))


def show(solved: list[Solved]) -> None:
    novel = [one for one in solved if one.k_true > one.n_old]
    none = [one for one in solved if one.k_true == one.n_old]
    names = sorted({one.name for one in novel})
    print("| set | problems | abs. log K̂/K | bias | worst | covers | mean width | known share: bias | abs. error |")
    print("|---" * 9 + "|")
    for name in [*names, "mean over sets"]:
        rows = [
            figures([one for one in novel if one.name == each]) for each in (names if name not in names else [name])
        ]
        n, *mean = np.mean(rows, axis=0)
        worst = max(row[3] for row in rows)
        print(
            f"| {name} | {n * len(rows):.0f} | {mean[0]:.3f} | {mean[1]:+.3f} | {worst:.2f} | {100 * mean[3]:.0f} % | "
            f"{mean[4]:.0f} | {mean[5]:+.3f} | {mean[6]:.3f} |"
        )
    exact = sum(round(landed(one)) == one.n_old for one in none)
    print(f"\nWhere nothing is novel the number is exact in {exact} of {len(none)}.\n")
    by_share = {
        share: [one for one in novel if one.kind[1] == share] for share in sorted({one.kind[1] for one in novel})
    }
    print("| rule | " + " | ".join(f"{share:.0%} known" for share in by_share) + " | mean | bias |")
    print("|---" * (len(by_share) + 3) + "|")
    for rule, number in RULES.items():
        costs = [_mean_over_sets(number, problems) for problems in by_share.values()]
        bias = np.mean([np.log(number(one.widened(), one.n_old) / one.k_true) for one in novel])
        print(f"| {rule} | " + " | ".join(f"{c:.3f}" for c in costs) + f" | {np.mean(costs):.3f} | {bias:+.3f} |")
    print()
    cost = {
        rule: np.array([_mean_log(number, [one for one in novel if one.name == name]) for name in names])
        for rule, number in RULES.items()
    }
    print("| rule | " + " | ".join(names) + " | mean |")
    print("|---" * (len(names) + 2) + "|")
    for rule, costs in cost.items():
        print(f"| {rule} | " + " | ".join(f"{c:.3f}" for c in costs) + f" | {costs.mean():.3f} |")
    for i, name in enumerate(names):
        rest = np.arange(len(names)) != i
        best = min(cost, key=lambda rule: float(cost[rule][rest].mean()))
        print(f"without {name} the others choose: {best}, {cost[best][i]:.3f} there")


def figures(problems: list[Solved]) -> list[float]:
    """Number, mean |log K̂/K|, its mean, the worst, coverage, width; bias and error of the share of known items."""
    draws = [one.widened() for one in problems]
    logs = np.log([landed(one) / one.k_true for one in problems])
    ends = np.array([quantiles(d, beliefs(d, one.n_old), TAILS) for d, one in zip(draws, problems, strict=True)])
    low, high, true = np.floor(ends[:, 0]), np.ceil(ends[:, 1]), np.array([one.k_true for one in problems])
    off = np.array([one.share - one.true_share for one in problems])
    covers, width = ((low <= true) & (true <= high)).mean(), (high - low).mean()
    error = np.abs(logs)
    return [len(problems), error.mean(), logs.mean(), error.max(), covers, width, off.mean(), np.abs(off).mean()]


def _mean_over_sets(rule: Rule, problems: list[Solved]) -> float:
    return float(np.mean([_mean_log(rule, [p for p in problems if p.name == n]) for n in {p.name for p in problems}]))


def landed(one: Solved) -> float:
    """The number as `ltgcd estimate-k` says it, before it is rounded."""
    draws = one.widened()
    return geometric_mean(draws, beliefs(draws, one.n_old))


def _mean_log(rule: Rule, problems: list[Solved]) -> float:
    return float(np.mean([abs(np.log(rule(one.widened(), one.n_old) / one.k_true)) for one in problems]))


def _weighted_median(draws: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(draws)
    total = np.cumsum(weights[order])
    return float(draws[order][np.searchsorted(total, total[-1] / 2)])


if __name__ == "__main__":
    main()
