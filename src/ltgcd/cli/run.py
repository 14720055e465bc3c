"""Commands that run a method, step by step: demo, estimate-k, train, evaluate."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ltgcd.cli.common import (
    Cluster,
    FitOn,
    Json,
    Labels,
    LabelsFrom,
    MaxMemory,
    OwnBackbone,
    Seed,
    VectorsPath,
    Workers,
    check_vectors_fit,
    print_scores,
    report,
    say,
    say_where,
    status,
)


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
        from ltgcd.data.digits import digits_source
        from ltgcd.run.directory import Run
        from ltgcd.run.discover import discover_source

        source = digits_source(seed=seed)
        result = discover_source(
            source,
            out,
            random_state=seed,
            title="Long-tailed digits",
            notify=status,
        )
        k_true = len(source.truth.class_names) if source.truth else None
        return {"method": "ltgcd", **result, "k_true": k_true, "k_estimate": Run(out).estimate()}

    def show(result: dict[str, Any]) -> None:
        right = result["balanced_acc"]
        say(
            f"Estimated number of classes: {result['k']}, 90 % interval {result['low']} to {result['high']} "
            f"({result['n_old']} known; in truth {result['k_true']})."
        )
        say(f"Right: {right['old']:.0f} % of the known digits, {right['new']:.0f} % of the novel ones.")
        print_scores(result, {"balanced_acc": "balanced ACC (%)", "acc": "instance ACC (%)"})
        print(f"Every item's label is in {result['assignments']} ({result['seconds']:.1f} s)")
        say_where(result)

    report(work, show, as_json)


def estimate_k(
    source: VectorsPath,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="peaks, peaks-merged, peaks-literal, kmeans-brent, kmeans-brent-1, kmeans-balanced, "
            "ward, leiden, finch, evoc or hdbscan.",
        ),
    ] = "peaks",
    labels: Labels = None,
    k_max: Annotated[int | None, typer.Option("--k-max", help="Largest number of classes to consider.")] = None,
    labels_from: LabelsFrom = "collection",
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the curve and the interval: .png or .svg.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            min=1,
            show_default="all of up to 2,000,000 items, samples of 500,000 of more",
            help="Estimate on samples of so many items, and widen the interval by what that leaves open.",
        ),
    ] = None,
    max_memory: MaxMemory = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Estimate the number of classes of a partly labelled source.

    \b
    Examples:
      ltgcd estimate-k embeddings.npz
      ltgcd estimate-k embeddings.npz --k-max 300 --plot k.png --json
    """

    def work() -> dict[str, Any]:
        from ltgcd.data.sources import read_source
        from ltgcd.discovery.memory import estimating
        from ltgcd.output.report.k_plot import k_plotter
        from ltgcd.run.train import estimate_source

        # What can't be drawn is refused before the work.
        draw = None if plot is None else k_plotter(plot, (source, labels))
        read = read_source(source, labels, notify=status)
        read.collection.require_partial_labels(source)
        check_vectors_fit(read, max_memory, estimating(sample))
        result = estimate_source(read, method, seed, k_max, labels_from, sample)
        if draw is None:
            return result
        draw(result)
        return {**result, "plot": str(plot)}

    def show(result: dict[str, Any]) -> None:
        interval = "" if result["low"] is None else f", 90 % interval {result['low']} to {result['high']}"
        say(f"Estimated number of classes: {result['k']}{interval} ({result['n_old']} known).")
        if "sampled" in result["evidence"]:
            say(f"It was {result['evidence']['sampled']}.")
        if "fallback" in result["evidence"]:
            say(f"Careful: {result['evidence']['fallback']}.")
        if "k_max_reached" in result["evidence"]:
            say("There may be more: the largest number to consider was reached; raise --k-max.")
        if "known_share" in result["evidence"]:
            share = result["evidence"]["known_share"]
            mute = result["evidence"].get("known_classes_that_show_nothing", 0)
            which = (
                f"the {result['n_old'] - mute} known classes that have two labelled items or more"
                if mute
                else "known classes"
            )
            say(f"About {share:.0%} of the unlabelled items belong to {which}.")
        if "missing_share" in result["evidence"]:
            share = result["evidence"]["missing_share"]
            say(f"About {share:.1%} of the items are of classes without a label, by how often classes were drawn.")
        say(f"Method: {result['method']}; {len(result['curve'])} values of K looked at; {result['seconds']:.1f} s.")
        if "plot" in result:
            say(f"The curve is in {result['plot']}.")

    report(work, show, as_json)


def train(
    source: VectorsPath,
    out: Annotated[Path, typer.Option("--out", help="Run directory.")],
    method: Annotated[
        str,
        typer.Option("--method", help="@TRAINED@ (trained), @CLUSTERING@ (clustering only)."),
    ] = "ltgcd",
    k: Annotated[str, typer.Option("--k", help="Number of classes, or 'auto' to estimate it.")] = "auto",
    preset: Annotated[str, typer.Option("--preset", help="default, paper (corrected), or literal (as printed).")] = (
        "default"
    ),
    regime: Annotated[
        str, typer.Option("--regime", help="frozen (adapter on features), last-stage (cached views), or auto.")
    ] = "auto",
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="Epochs of training.")] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting, for instance selection.k=20; repeatable.")
    ] = None,
    rehearsals: Annotated[
        int,
        typer.Option(
            "--rehearsals",
            min=0,
            max=4,
            help="Extra trainings with known classes hidden, to learn how often a label is right and which items are "
            "unsure; 'discover' makes four.",
        ),
    ] = 0,
    labels: Labels = None,
    labels_from: LabelsFrom = "collection",
    weights: Annotated[
        Path | None, typer.Option("--weights", help="Backbone weights, if the features were made with others.")
    ] = None,
    backbone: OwnBackbone = None,
    max_memory: MaxMemory = None,
    fit_on: FitOn = None,
    workers: Workers = None,
    cluster: Cluster = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Run a method on a partly labelled source and leave a run directory; run it again to go on where it stopped.

    A folder of 'ltgcd embed --views 4' trains the last stage of the backbone; other embeddings train an adapter.

    \b
    Examples:
      ltgcd train embeddings.npz --out runs/first
      ltgcd train features/plankton --k 121 --epochs 30 --rehearsals 4 --out runs/plankton
      ltgcd train embeddings.npz --method simgcd --k 100 --seed 1 --out runs/simgcd --json
      ltgcd train embeddings.npz --preset literal --set selection.k_s=20 --k 100 --out runs/literal
      torchrun --nproc-per-node 2 -m ltgcd train features/plankton --k 121 --out runs/two-processes
      ltgcd train features/plankton --k 121 --out runs/on-ray --cluster auto --workers 4
    """

    def work() -> dict[str, Any]:
        from contextlib import nullcontext

        from ltgcd.common.engine.ray_cluster import check_cluster
        from ltgcd.common.engine.rows import on_cluster
        from ltgcd.common.errors import InputError
        from ltgcd.common.outputs import check_folder
        from ltgcd.data.sources import read_source
        from ltgcd.discovery.memory import discovering, processes_that_fit
        from ltgcd.discovery.task import configure
        from ltgcd.features.backbones import trust_backbone
        from ltgcd.features.cache import opened
        from ltgcd.run.directory import Run
        from ltgcd.run.discover import summary
        from ltgcd.run.train import regime_for, train_run, train_together, vectors
        from ltgcd.training.distributed import join_world

        if cluster is not None:
            check_cluster(cluster)
            if join_world().size > 1:
                raise InputError("The work is shared by torchrun or by --cluster, not by both; leave out one of them.")
        changes: dict[str, Any] = {} if epochs is None else {"schedule.epochs": epochs}
        for setting in change or []:
            name, equals, value = setting.partition("=")
            if not equals:
                raise InputError(f"--set takes NAME=VALUE, not '{setting}'.")
            changes[name.strip()] = value.strip()
        check_folder(out, (source, labels))
        trust_backbone(backbone)
        read, store = read_source(source, labels, notify=status), opened(source)
        read.collection.require_partial_labels(source)
        config = configure(
            method,
            preset=preset,  # type: ignore[arg-type]  # checked there
            regime=regime_for(regime, method, store),  # type: ignore[arg-type]
            changes=changes,
            k=class_number(k),
            rehearsals=rehearsals,
            labels_from=labels_from,
            fit_on=fit_on,
            random_state=seed,
            n_processes=join_world().size,
            keeps_checkpoints=True,
        )
        check_vectors_fit(read, max_memory, discovering(fit_on), config.k)
        n, dim = vectors(read).shape
        with on_cluster(cluster, Run(out).shared, status) if join_world().size == 1 else nullcontext():
            done = train_run(
                read,
                out,
                config,
                store=store,
                weights=weights,
                notify=status,
                processes=partial(processes_that_fit, n, dim, allowed=max_memory, most=workers),
                together=train_together(config, cluster, workers),
            )
        return {"method": method, "trained": config.experiment is not None, **summary(done, read.collection.n_old)}

    def show(result: dict[str, Any]) -> None:
        from ltgcd.output.report.sentences import calibration_sentence

        say(f"{result['method']}: {result['k']} classes ({result['n_old']} known), {result['seconds']:.1f} s.")
        if result["trained"]:
            say(calibration_sentence(result["calibration_error"], result["calibration_chance"]))
        print_scores(result, {"balanced_acc": "balanced ACC (%)", "acc": "instance ACC (%)"})
        print(f"Every item's label is in {result['assignments']}")

    report(work, show, as_json)


def class_number(k: str) -> int | None:
    """What --k asks for: a number, or None for auto."""
    from ltgcd.common.errors import InputError

    if k != "auto" and not (k.isascii() and k.isdigit()):
        raise InputError(f"--k takes 'auto' or a whole number, not '{k}'.")
    return None if k == "auto" else int(k)


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
    source: Annotated[
        Path | None,
        typer.Option("--source", help="Embeddings of the run's items, if it does not keep them (made by train)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Score a run or a file of predictions on the unlabelled items, and tell what kind of errors there are.

    Where the features are at hand (kept by the run, in --source, or --truth itself), it also tells what the nearest of
    the true class means would give on them: how much better prototypes could bring.

    A predictions file has the columns id and label, scored against --truth; or it carries its own truth in a column
    y_true, with the labels that were given in a column y (empty = unlabelled) or the number of old classes by --n-old.

    \b
    Examples:
      ltgcd evaluate runs/plankton
      ltgcd evaluate predictions.csv --truth splits/plankton/split.parquet
      ltgcd evaluate predictions.csv --n-old 80 --json
    """

    def work() -> dict[str, Any]:
        from ltgcd.common.errors import InputError
        from ltgcd.evaluation.predictions import evaluate_predictions
        from ltgcd.run.directory import Run
        from ltgcd.run.evaluate import evaluate_run

        if run.is_dir() and (truth is not None or n_old is not None):
            raise InputError(
                f"{run} is a run, which is scored against the y_true of its own source; leave out --truth and --n-old, "
                "or give them with a file of predictions."
            )
        if run.is_dir():
            return evaluate_run(Run.open(run), oracle=True, base=source, notify=status).as_dict()
        if source is not None:
            raise InputError("--source goes with a run; the embeddings of a file of predictions are given by --truth.")
        return evaluate_predictions(run, truth, n_old).as_dict()

    def show(result: dict[str, Any]) -> None:
        from ltgcd.output.report.sentences import plural

        rows = {
            "balanced_acc": "balanced ACC (%)",
            "acc": "instance ACC (%)",
            "balanced_matching": "balanced ACC, balanced matching (extra)",
            "acc_v1": "instance ACC, v1: two matchings (extra)",
        }
        oracle = result["oracle"] and result["oracle"]["balanced_acc"]
        print_scores(
            {**result, "oracle": oracle}, {**rows, "oracle": "balanced ACC of true class means, same features (bound)"}
        )
        thirds = result["many_medium_few"]
        flipped = {
            third: {group: thirds[group][third] for group in ("all", "old", "new")}
            for third in ("many", "medium", "few")
        }
        print_scores(flipped, {"many": "recall, many (%)", "medium": "recall, medium (%)", "few": "recall, few (%)"})
        for group, title in (("old", "Old"), ("new", "New")):
            shares, counts = result["errors"][group], result["error_items"][group]
            if shares is not None:
                parts = (("right", "right"), ("in_old", "in an Old class"), ("in_new", "in a New one"))
                told = [
                    f"{shares[name]:.1f} % {words} ({plural(counts[name], 'item', 'items')})" for name, words in parts
                ]
                if counts["in_none"]:
                    told.append(
                        f"{shares['in_none']:.1f} % in a category that is no real class ({counts['in_none']:,})"
                    )
                say(f"Of {title} classes, on average: {', '.join(told)}.")
        say(
            f"{result['n']} unlabelled items; K = {result['k']} ({result['k_used']} used), in truth "
            f"{result['k_true']}; NMI {result['nmi']:.3f}, ARI {result['ari']:.3f}."
        )

    report(work, show, as_json)
