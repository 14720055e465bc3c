"""Commands for practitioners: discover the categories of a collection, label new items, add new items."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ltgcd.cli.common import (
    Cluster,
    Engine,
    FitOn,
    IdColumn,
    Json,
    LabelColumn,
    Labels,
    LabelsFrom,
    MaxMemory,
    OwnBackbone,
    Seed,
    SourcePath,
    TextColumn,
    Workers,
    print_left_out,
    print_scores,
    report,
    say,
    say_where,
    status,
)
from ltgcd.cli.run import class_number

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A finished run of a trained method.")]


def discover(
    source: SourcePath,
    out: Annotated[Path, typer.Option("--out", help="Run directory.")] = Path("ltgcd-run"),
    labels: Labels = None,
    labels_from: LabelsFrom = "collection",
    k: Annotated[str, typer.Option("--k", help="Number of classes, or 'auto' to estimate it.")] = "auto",
    backbone: Annotated[
        str | None,
        typer.Option(
            "--backbone",
            help="Default: efficientnet_lite2 for images, minilm for texts; efficientnet_lite0+efficientnet_lite2 for "
            "the features of both.",
        ),
    ] = None,
    weights: Annotated[Path | None, typer.Option("--weights", help="Backbone weights, if not the usual ones.")] = None,
    views: Annotated[
        int, typer.Option("--views", min=0, help="With 2 or more views an image, the last stage is trained (minutes).")
    ] = 0,
    quality: Annotated[
        str | None,
        typer.Option(
            "--quality",
            show_default="standard",
            help="How closely images are looked at: quick (128 px, half the time), standard (192 px), best (two "
            "networks at 260 px, three times the time).",
        ),
    ] = None,
    image_size: Annotated[
        int | None,
        typer.Option("--image-size", min=32, help="Side of an image, in pixels, if not that of the quality."),
    ] = None,
    engine: Engine = "auto",
    workers: Workers = None,
    cluster: Cluster = None,
    max_memory: MaxMemory = None,
    fit_on: FitOn = None,
    seed: Seed = 0,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    id_column: IdColumn = None,
    as_json: Json = False,
) -> None:
    """Find the categories in a partly labelled collection: embed, estimate, train, assign, report, in one go.

    Stop it at any time; the same command goes on where it stopped. Every item ends as known, novel or unsure.

    \b
    Examples:
      ltgcd discover photos/
      ltgcd discover tickets.csv --labels labels.csv --out runs/tickets
      ltgcd discover tickets.csv --text-column body --label-column topic
      ltgcd discover photos/ --quality quick
      ltgcd discover photos/ --views 4 --out runs/photos --json
      ltgcd discover ten-million.npz --fit-on 1000000 --max-memory 32G
    """

    def work() -> dict[str, Any]:
        from ltgcd.common.outputs import check_folder
        from ltgcd.data.sources import Columns, read_source

        check_folder(out, (source, labels))
        read = read_source(source, labels, columns=Columns(text_column, label_column, id_column), notify=status)
        held = read.collection
        held.require_partial_labels(source)
        classes = "1 class" if held.n_old == 1 else f"{held.n_old:,} classes"
        status(f"{len(held):,} {held.items.kind}s, {int(held.labelled.sum()):,} labelled in {classes}")
        if held.n_old == 1:
            status(
                "one labelled class can't show how unlike two classes are: their number will be a guess without an "
                "interval, and what is new may be taken for your class; label a few items of a second one"
            )
        from ltgcd.features.cache import opened  # seconds, in which what was understood can be read
        from ltgcd.run.discover import Embedding, discover_source

        return discover_source(
            read,
            out,
            k=class_number(k),
            embedding=Embedding(backbone, image_size, views, weights, engine, workers, quality, cluster),
            labels_from=labels_from,
            fit_on=fit_on,
            random_state=seed,
            store=opened(source),
            max_memory=max_memory,
            notify=status,
        )

    report(work, say_found, as_json)


def say_found(result: dict[str, Any]) -> None:
    """What was found, in the order in which it matters, and what to do next."""
    from ltgcd.output.report.sentences import MAY_BE_MORE, calibration_sentence, plural

    if result["n_named"]:
        yours = f"{result['n_old']} of your labels and {result['n_named']} that you named or accepted"
        say(f"{result['k']} classes in all: {yours}.")
    elif result["low"] is None:
        about = "" if result["caution"] is None else "About "
        say(f"{about}{plural(result['k'], 'class', 'classes')} in all, {result['n_old']} of them yours.")
    else:
        interval = f"90 % interval {result['low']} to {result['high']}"
        say(f"About {result['k']} classes in all ({interval}), {result['n_old']} of them yours. {MAY_BE_MORE}")
    if result["caution"] is not None:
        say(f"Careful with that number: {result['caution']}.")
    new, placed = result["categories"], result["known"] - result["n_labelled"]
    more = result["only_unsure"]
    behind = f" ({more} more hold only unsure items)" if more else ""
    say(
        f"Of the {placed + result['novel'] + result['unsure']:,} items without a label {placed:,} are in your classes "
        f"and {result['novel']:,} in {plural(len(new), 'novel category', 'novel categories')}{behind}; "
        f"{result['unsure']:,} are unsure: more likely wrong than right."
    )
    if new:
        say(
            f"The largest of what looks new is {new[0]['name']}, {plural(new[0]['items'], 'item', 'items')}; the page "
            "lists first the classes most worth checking."
        )
    say(calibration_sentence(result["calibration_error"], result["calibration_chance"]))
    print_scores(result, {"balanced_acc": "balanced ACC (%)", "acc": "instance ACC (%)"})
    print(f"Every item's label is in {result['assignments']}")
    say_where(result)


def predict(
    run: RunFolder,
    source: SourcePath,
    out: Annotated[
        Path | None, typer.Option("--out", help="Parquet file for the labels (default: in the run).")
    ] = None,
    weights: Annotated[Path | None, typer.Option("--weights", help="Backbone weights, if not the usual ones.")] = None,
    backbone: OwnBackbone = None,
    cluster: Cluster = None,
    max_memory: MaxMemory = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    id_column: IdColumn = None,
    as_json: Json = False,
) -> None:
    """Label new items with the model of a run: vectors as in training, or images or texts, embedded on the way.

    \b
    Examples:
      ltgcd predict runs/plankton new-photos/
      ltgcd predict runs/first new.npz --out new-labels.parquet --json
    """

    def work() -> dict[str, Any]:
        from ltgcd.data.sources import Columns, read_source
        from ltgcd.features.backbones import trust_backbone
        from ltgcd.features.cache import opened
        from ltgcd.run.directory import Run
        from ltgcd.run.predict import predict_source

        trust_backbone(backbone)
        held = Run.open(run)
        path = out or held.predictions
        return predict_source(
            held,
            read_source(source, columns=Columns(text_column, label_column, id_column), notify=status),
            path,
            store=opened(source),
            weights=weights,
            read_from=(source, weights),
            cluster=cluster,
            max_memory=max_memory,
            notify=status,
        )

    def show(result: dict[str, Any]) -> None:
        shares = ", ".join(f"{result[name]} {name}" for name in ("known", "novel", "unsure"))
        say(f"{result['n']} items: {shares}. Their labels are in {result['path']}.")
        print_left_out(result["skipped"])

    report(work, show, as_json)


def update(
    run: RunFolder,
    new: Annotated[Path, typer.Argument(metavar="NEW", help="New items: images, texts or embeddings, as in the run.")],
    labels: Labels = None,
    source: Annotated[
        Path | None,
        typer.Option("--source", help="Embeddings that the run was made from; a run of 'discover' keeps them itself."),
    ] = None,
    weights: Annotated[Path | None, typer.Option("--weights", help="Backbone weights, if not the usual ones.")] = None,
    backbone: OwnBackbone = None,
    max_memory: MaxMemory = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    id_column: IdColumn = None,
    as_json: Json = False,
) -> None:
    """Add new items to a finished run. Old items keep their ids and labels; new categories come after the old ones.

    Items that the run has already, with the same content, are left as they are; other content under an id that the run
    has is added under a new id. Stop it at any time; the same command goes on.

    \b
    Examples:
      ltgcd update runs/plankton new-photos/
      ltgcd update runs/tickets november.csv --labels checked.csv
      ltgcd update runs/mine new.npz --json
    """

    def work() -> dict[str, Any]:
        from ltgcd.data.sources import Columns, read_source
        from ltgcd.features.backbones import trust_backbone
        from ltgcd.features.cache import opened
        from ltgcd.run.directory import Run
        from ltgcd.run.update import update_run

        trust_backbone(backbone)
        columns = Columns(text_column, label_column, id_column)
        held, read = Run.open(run), read_source(new, labels, columns=columns, notify=status)
        return update_run(
            held, read, base=source, store=opened(new), weights=weights, max_memory=max_memory, notify=status
        )

    def show(result: dict[str, Any]) -> None:
        counts = ", ".join(f"{result[name]:,} {name}" for name in ("known", "novel", "unsure"))
        added = f" ({counts})" if result["n_added"] else ""
        say(f"Items: {result['n_added']:,} added{added}, {result['n_present']:,} were there already.")
        for note in result["notes"]:
            say(note)
        print_left_out(result["skipped"])
        say(f"Categories: {result['added']} added, {result['grown']} grown, {result['unchanged']} unchanged.")
        for row in result["categories_added"]:
            print(f"  + {row['name']}: {row['after']:,} items")
        for row in result["categories_grown"]:
            print(f"    {row['name']}: {row['before']:,} → {row['after']:,}")
        say_where(result)

    report(work, show, as_json)
