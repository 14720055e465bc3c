"""Labels for items that training never saw: CIFAR-100's test split against D^u, frozen regime, three data seeds.

ltgcd bench main --only cifar100 --only ltgcd
python benchmarks/new_items.py --work ltgcd-bench
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ltgcd.bench.cells import as_split
from ltgcd.bench.tables import cell_of, read_settings, read_tables
from ltgcd.data.collection import Collection, Source
from ltgcd.data.datasets import load_pool
from ltgcd.data.sources import read_source
from ltgcd.evaluation.metric import evaluate
from ltgcd.features.backbones import load_backbone
from ltgcd.features.embed import embed
from ltgcd.features.views import VectorViews
from ltgcd.run.directory import Run
from ltgcd.run.evaluate import evaluate_run
from ltgcd.run.predict import load_run_model
from ltgcd.run.train import vectors

TABLES = Path(__file__).parent / "tables"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("ltgcd-bench"))
    work = parser.parse_args().work
    table, settings = read_tables(TABLES)["main"], read_settings(TABLES)
    row = next(row for row in table.rows if row.id == "ltgcd")
    cells = [cell_of(table, table.columns[0], row, settings, None, "frozen", seed) for seed in range(3)]
    pool, test = load_pool("cifar100"), load_pool("cifar100", part="test")
    backbone, folder = settings[cells[0].backbone], work / "features" / "cifar100-test"
    embed(
        Source(Collection(test.ids, test.items, np.full(len(test.y), -1), ()), None),
        load_backbone(backbone.name, image_size=backbone.image_size),
        folder,
        engine=backbone.engine,
    )
    views = VectorViews(np.asarray(vectors(read_source(folder)), dtype=np.float32))
    for cell in cells:
        run = Run(work / "runs" / cell.key)
        truth = as_split(pool, cell)[0].truth
        code = np.array([truth.class_names.index(name) for name in test.class_names])
        predicted = load_run_model(run).fitted.predict(views).argmax(axis=1)
        scores = (evaluate_run(run), evaluate(code[test.y], predicted, truth.n_old))
        shown = [" / ".join(f"{v:.1f}" for v in each.balanced_acc) for each in scores]
        print(f"seed {cell.seed}: D^u {shown[0]}, test split {shown[1]} (balanced All / Old / New)", flush=True)


if __name__ == "__main__":
    main()
