"""Commands that run something: demo, estimate-k, train, evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ltgcd.cli.common import Json, Labels, Seed, SourcePath, print_scores, report, status


def demo(
    out: Annotated[Path, typer.Option("--out", help="Run directory.")] = Path("ltgcd-demo"),
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Run the whole pipeline on embedded data: long-tailed digits with four novel classes.

    \b
    Examples:
      ltgcd demo
      ltgcd demo --seed 1 --out /tmp/demo --json
    """

    def work() -> dict[str, Any]:
        from ltgcd.demo import digits_source
        from ltgcd.discovery import train as run
        from ltgcd.storage import read_json

        source = digits_source(seed=seed)
        result = run(source, out, random_state=seed, progress=status)
        truth = source.truth
        return {
            **result,
            "k_true": len(truth.class_names) if truth else None,
            "k_estimate": read_json(out / "k_estimate.json"),
            "report": None,
        }

    def show(result: dict[str, Any]) -> None:
        low, high = result["k_estimate"]["low"], result["k_estimate"]["high"]
        print(
            f"Estimated number of classes: {result['k']}, 90 % interval {low} to {high} ({result['n_old']} known; in "
            f"truth {result['k_true']})."
        )
        print_scores(result, {"balanced_acc": "balanced ACC (%)", "acc": "instance ACC (%)"})
        print(f"Every item's label is in {result['run']}/assignments.parquet ({result['seconds']:.1f} s).")

    report(work, show, as_json)


def estimate_k(
    source: SourcePath,
    method: Annotated[
        str,
        typer.Option(
            "--method", help="peaks, peaks-merged, peaks-literal, kmeans-brent, kmeans-balanced, ward or hdbscan."
        ),
    ] = "peaks",
    labels: Labels = None,
    k_max: Annotated[int | None, typer.Option("--k-max", help="Largest number of classes to consider.")] = None,
    labels_from: Annotated[
        str, typer.Option("--labels-from", help="Are the labelled items part of the collection, or from elsewhere?")
    ] = "collection",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Estimate the number of classes of a partly labelled source.

    \b
    Examples:
      ltgcd estimate-k embeddings.npz
      ltgcd estimate-k embeddings.npz --k-max 300 --json
    """

    def work() -> dict[str, Any]:
        from ltgcd.discovery import estimate_source
        from ltgcd.sources import read_source

        read = read_source(source, labels)
        read.collection.require_partial_labels(source)
        return estimate_source(read, method, seed, k_max, labels_from)

    def show(result: dict[str, Any]) -> None:
        interval = "" if result["low"] is None else f", 90 % interval {result['low']} to {result['high']}"
        print(f"Estimated number of classes: {result['k']}{interval} ({result['n_old']} known).")
        if "known_share" in result["evidence"]:
            share = result["evidence"]["known_share"]
            print(f"About {share:.0%} of the unlabelled items belong to known classes.")
        print(f"By {result['method']}, {len(result['curve'])} values looked at, in {result['seconds']:.1f} s.")

    report(work, show, as_json)


def train(
    source: SourcePath,
    out: Annotated[Path, typer.Option("--out", help="Run directory.")],
    method: Annotated[str, typer.Option("--method", help="kmeans.")] = "kmeans",
    k: Annotated[str, typer.Option("--k", help="Number of classes, or 'auto' to estimate it.")] = "auto",
    labels: Labels = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Run a method on a partly labelled source and leave a run directory.

    \b
    Examples:
      ltgcd train embeddings.npz --method kmeans --k auto --out runs/first
      ltgcd train embeddings.npz --k 100 --seed 1 --out runs/k100 --json
    """

    def work() -> dict[str, Any]:
        from ltgcd.discovery import train as run
        from ltgcd.errors import InputError
        from ltgcd.sources import read_source

        if k != "auto" and not (k.isascii() and k.isdigit()):
            raise InputError(f"--k takes 'auto' or a whole number, not '{k}'.")
        number = None if k == "auto" else int(k)
        read = read_source(source, labels)
        read.collection.require_partial_labels(source)
        return run(read, out, method=method, k=number, random_state=seed, progress=status)

    def show(result: dict[str, Any]) -> None:
        print(f"{result['method']}: {result['k']} classes ({result['n_old']} known), {result['seconds']:.1f} s.")
        print_scores(result, {"balanced_acc": "balanced ACC (%)", "acc": "instance ACC (%)"})
        print(f"Every item's label is in {result['run']}/assignments.parquet.")

    report(work, show, as_json)


def evaluate(
    run: Annotated[
        Path, typer.Argument(metavar="RUN|PREDICTIONS", help="Run directory, or predictions (.csv, .parquet).")
    ],
    truth: Annotated[
        Path | None, typer.Option("--truth", help="Source with y_true, joined by id (for a predictions file).")
    ] = None,
    n_old: Annotated[
        int | None, typer.Option("--n-old", help="Without --truth: integer y_true below this are old classes.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Score a run or a file of predictions on the unlabelled items.

    A predictions file has the columns id and label, scored against --truth; or it carries its own truth in a column
    y_true, with the labels that were given in a column y (empty = unlabelled) or the number of old classes by --n-old.

    \b
    Examples:
      ltgcd evaluate runs/plankton
      ltgcd evaluate predictions.csv --truth splits/plankton/split.parquet
      ltgcd evaluate predictions.csv --n-old 80 --json
    """

    def work() -> dict[str, Any]:
        from ltgcd.discovery import evaluate_run
        from ltgcd.predictions import evaluate_predictions

        result = evaluate_run(run) if run.is_dir() else evaluate_predictions(run, truth, n_old)
        return result.as_dict()

    def show(result: dict[str, Any]) -> None:
        rows = {
            "balanced_acc": "balanced ACC (%)",
            "acc": "instance ACC (%)",
            "balanced_matching": "balanced ACC, balanced matching (extra)",
            "acc_v1": "instance ACC, v1: two matchings (extra)",
        }
        print_scores(result, rows)
        thirds = result["many_medium_few"]
        flipped = {
            third: {group: thirds[group][third] for group in ("all", "old", "new")}
            for third in ("many", "medium", "few")
        }
        print_scores(flipped, {"many": "recall, many (%)", "medium": "recall, medium (%)", "few": "recall, few (%)"})
        print(
            f"{result['n']} unlabelled items; K = {result['k']} ({result['k_used']} used), in truth "
            f"{result['k_true']}; NMI {result['nmi']:.3f}, ARI {result['ari']:.3f}."
        )

    report(work, show, as_json)
