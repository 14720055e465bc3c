"""Commands about data: datasets, split, inspect, embed."""

from __future__ import annotations

import os
import shlex
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from ltgcd.cli.common import (
    Cluster,
    Data,
    Engine,
    IdColumn,
    Json,
    LabelColumn,
    Labels,
    Seed,
    SourcePath,
    TextColumn,
    Workers,
    report,
    say,
    status,
)

LISTED = 8  # classes with few labels that are named

datasets_app = typer.Typer(no_args_is_help=False, rich_markup_mode=None)


def split(
    name: Annotated[str, typer.Argument(help="Dataset (see 'ltgcd datasets'), or a fully labelled source of yours.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for split.parquet.")],
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset", help="paper-counts, text-literal, bacon (long tails made), gcd or natural (all items)."
        ),
    ] = None,
    imbalance: Annotated[float, typer.Option("--lambda", help="Imbalance factor λ of the long-tail presets.")] = 10.0,
    seed: Seed = 0,
    n_old: Annotated[int | None, typer.Option("--old", help="Number of old (labelled) classes.")] = None,
    n_new: Annotated[int | None, typer.Option("--new", help="Number of new classes.")] = None,
    sampling: Annotated[
        str | None, typer.Option("--label-sampling", help="Draw labelled items per-class or by instance.")
    ] = None,
    share: Annotated[float, typer.Option("--label-share", help="Share of the old items that is labelled.")] = 0.5,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Make a benchmark split: old and new classes, a labelled part, a long tail.

    \b
    Examples:
      ltgcd split cifar100 --preset paper-counts --lambda 10 --seed 0 --out splits/cifar100-lt
      ltgcd split plankton --preset natural --out splits/plankton
      ltgcd split my-embeddings.npz --preset natural --old 5 --out splits/mine
    """

    def work() -> dict[str, Any]:
        from ltgcd.data.splits import make_split

        return make_split(
            name,
            out,
            preset=preset,
            imbalance=imbalance,
            seed=seed,
            n_old=n_old,
            n_new=n_new,
            label_sampling=sampling,
            label_share=share,
            data=data,
        )

    def show(result: dict[str, Any]) -> None:
        say(
            f"{result['dataset']} ({result['preset']}, seed {result['seed']}): {result['n_labelled']} labelled and "
            f"{result['n_unlabelled']} unlabelled items, {result['n_old']} old and {result['n_new']} new classes, "
            f"λ = {result['lambda_labelled']:.1f} / {result['lambda_unlabelled']:.1f}."
        )
        print(f"{result['path']} (checksum {result['checksum'][:12]})")

    report(work, show, as_json)


def inspect(
    source: SourcePath,
    labels: Labels = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    id_column: IdColumn = None,
    as_json: Json = False,
) -> None:
    """Check a source before a long run: read all of it, decode every image, and say what it holds.

    \b
    Examples:
      ltgcd inspect photos/
      ltgcd inspect photos/ --labels labels.csv
      ltgcd inspect embeddings.npz --json
    """

    def work() -> dict[str, Any]:
        from ltgcd.common.errors import InputError
        from ltgcd.data.check import inspect_source
        from ltgcd.data.sources import Columns
        from ltgcd.run.directory import Run

        if os.path.isdir(source) and Run(source).begun:  # noqa: PTH112 - pathlib raises where a name is too long
            raise InputError(f"{source} is a run, not a source; use 'ltgcd check {source}'.")
        return inspect_source(source, labels, columns=Columns(text_column, label_column, id_column))

    def show(result: dict[str, Any]) -> None:
        from ltgcd.common.visible import visible
        from ltgcd.data.check import COMFORTABLE

        fewest, most = min(result["counts"].values()), max(result["counts"].values())
        each = f"{most:,} each" if fewest == most else f"{fewest:,} to {most:,}"
        classes = f"{result['n_old']:,} classes of {each}" if result["n_old"] > 1 else "1 class"
        truth = "; y_true is there to score against" if result["has_truth"] else ""
        ready = "Ready for discovery." if result["ready"] else "Not ready: one class is labelled, two are the least."
        say(
            f"{result['n']:,} {result['kind']}s: {result['n_labelled']:,} labelled in {classes}, "
            f"{result['n_unlabelled']:,} unlabelled{truth}. {ready}"
        )
        if few := result["few"]:
            told = ", ".join(f"{name} ({result['counts'][name]})" for name in few[:LISTED])
            rest = f" and {len(few) - LISTED} more" if len(few) > LISTED else ""
            many = "1 class has" if len(few) == 1 else f"{len(few):,} classes have"
            say(
                f"{many} fewer than {COMFORTABLE} labelled items, which is little to learn from: {visible(told)}{rest}."
            )
        if result["ready"]:
            named = {"--labels": labels, "--text-column": text_column, "--label-column": label_column}
            options = [(name, str(value)) for name, value in {**named, "--id-column": id_column}.items() if value]
            print(f"Next: ltgcd discover {shlex.join([str(source), *chain(*options), '--out', 'run'])}")

    report(work, show, as_json)


def embed(
    source: SourcePath,
    out: Annotated[Path, typer.Option("--out", help="Folder for the features; run again to go on or to add items.")],
    backbone: Annotated[
        str | None,
        typer.Option(
            "--backbone",
            help="Default: efficientnet_lite2 for images, minilm for texts; efficientnet_lite0+efficientnet_lite2 for "
            "the features of both, package.module:function for your own.",
        ),
    ] = None,
    views: Annotated[int, typer.Option("--views", help="Training views an image, beside the test view.")] = 0,
    image_size: Annotated[int | None, typer.Option("--image-size", help="Side of a view in pixels.")] = None,
    weights: Annotated[Path | None, typer.Option("--weights", help="Local weights: a folder or a file.")] = None,
    trained_blocks: Annotated[int, typer.Option("--trained-blocks", help="Last blocks left for training.")] = 1,
    engine: Engine = "auto",
    workers: Workers = None,
    cluster: Cluster = None,
    labels: Labels = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at a broken image instead of skipping it.")] = False,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    id_column: IdColumn = None,
    as_json: Json = False,
) -> None:
    """Compute the features of a source once, and keep them on disk. Interrupt it freely: it goes on where it stopped.

    \b
    Examples:
      ltgcd embed photos/ --out features/photos
      ltgcd embed splits/cifar100-lt --backbone efficientnet_lite2 --image-size 128 --views 4 --out features/cifar
      ltgcd embed tickets.csv --out features/tickets --json
    """

    def work() -> dict[str, Any]:
        from ltgcd.common.outputs import check_folder
        from ltgcd.data.items import Vectors
        from ltgcd.data.sources import Columns, read_source
        from ltgcd.features.backbones import check_backbone, default_backbone, load_backbone
        from ltgcd.features.embed import embed as run

        check_folder(out, (source, labels))
        columns = Columns(text_column, label_column, id_column)
        read = read_source(source, labels, columns=columns, notify=status)
        items = read.collection.items
        name = backbone or default_backbone(items.kind)
        check_backbone(name, items.kind, views)
        dim = items.x.shape[1] if isinstance(items, Vectors) and name == "embeddings" else None
        model = load_backbone(name, image_size=image_size, weights=weights, trained_blocks=trained_blocks, dim=dim)
        result = run(
            read,
            model,
            out,
            views=views,
            engine=engine,
            workers=workers,
            cluster=cluster,
            strict=strict,
            notify=status,
        )
        return {
            "n": result.n,
            "dim": result.dim,
            "skipped": len(result.skipped),
            "images_per_second": round(result.images_per_second, 1),
            "path": str(result.path),
            "embedded": result.embedded,
            "views": views,
            "engine": result.store.key["engine"],
            "disk_bytes": result.disk_bytes,
            "skipped_ids": [item_id for item_id, _ in result.skipped[:100]],
        }

    def show(result: dict[str, Any]) -> None:
        say(
            f"{result['n']} items with {result['dim']} features in {result['path']} ({result['embedded']} new, "
            f"{result['images_per_second']:.0f} a second, {result['disk_bytes'] / 1e6:,.0f} MB)."
        )
        if result["skipped"]:
            names = ", ".join(result["skipped_ids"][:5]) + (" …" if result["skipped"] > 5 else "")
            say(f"{result['skipped']} could not be read: {names}. The reasons are in {result['path']}/skipped.csv.")

    report(work, show, as_json)


@datasets_app.callback(invoke_without_command=True)
def datasets(context: typer.Context, data: Data = None, as_json: Json = False) -> None:
    """List the benchmark datasets and say which are on this machine.

    \b
    Examples:
      ltgcd datasets
      ltgcd datasets get cifar100
    """
    if context.invoked_subcommand is not None:
        return

    def work() -> dict[str, Any]:
        from ltgcd.data.datasets import DATASETS, data_root, locate

        root = data_root(data)
        rows = []
        for dataset in DATASETS.values():
            found = locate(dataset, root)
            rows.append(
                {
                    "name": dataset.name,
                    "title": dataset.title,
                    "kind": dataset.kind,
                    "n_classes": dataset.n_classes,
                    "n_old": dataset.n_old,
                    "licence": dataset.licence,
                    "present": found is not None,
                    "path": None if found is None else str(found),
                    "get": f"ltgcd datasets get {dataset.name}" if dataset.archives else dataset.how,
                }
            )
        return {"root": str(root), "datasets": rows}

    def show(result: dict[str, Any]) -> None:
        from rich.console import Console
        from rich.table import Table

        console, rows = Console(highlight=False), result["datasets"]
        table = Table("name", "what", "classes (old)", "here")
        for row in rows:
            here = "yes" if row["present"] else "no"
            table.add_row(row["name"], row["title"], f"{row['n_classes']} ({row['n_old']})", here)
        console.print(table)
        # Sentences of any length: in columns of a table each would get a word a line.
        for title, column, shown in (
            ("How to get those that are not here", "get", [row for row in rows if not row["present"]]),
            ("Licences", "licence", rows),
        ):
            if shown:
                console.print(f"\n{title}:")
                lines = Table.grid("name", "said", padding=(0, 2, 0, 2))
                for row in shown:
                    lines.add_row(row["name"], row[column])
                console.print(lines)
        print()
        say(f"Looked in {result['root']}; --data DIR or $LTGCD_DATA changes it.")

    report(work, show, as_json)


@datasets_app.command("get")
def datasets_get(
    name: Annotated[str, typer.Argument(help="Dataset.")], data: Data = None, as_json: Json = False
) -> None:
    """Fetch a dataset, with a progress bar, a checksum and resume; or say how to get it by hand.

    \b
    Examples:
      ltgcd datasets get cifar100
      ltgcd datasets get cub200 --data ~/data
    """

    def work() -> dict[str, Any]:
        from ltgcd.data.datasets import data_root
        from ltgcd.data.datasets.download import get

        return {"name": name, "path": str(get(name, data_root(data)))}

    report(work, lambda result: print(result["path"]), as_json)
