"""Seconds of the default on frozen features, embeddings to labels, and the share of its epochs that selects.

    python benchmarks/speed/frozen.py --work ltgcd-bench

CIFAR-100-LT λ = 10 and plankton, seed 0, with the neighbours of the density found once (the default) and in every
epoch (as printed), one after the other on the same machine.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from ltgcd.bench.cells import Workshop
from ltgcd.bench.tables import cell_of, read_settings, read_tables
from ltgcd.discovery.task import configure
from ltgcd.run.train import train_run

TABLES = Path(__file__).parents[1] / "tables"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("ltgcd-bench"))
    options = parser.parse_args()
    table, settings = read_tables(TABLES)["main"], read_settings(TABLES)
    workshop = Workshop(options.work, None, settings)
    for dataset in ("cifar100", "plankton"):
        column = next(c for c in table.columns if c.id == dataset)
        cell = cell_of(table, column, table.rows[0], settings, None, "frozen", 0)
        source = workshop.prepared(cell).source
        for graph in ("start", "epoch"):
            with tempfile.TemporaryDirectory() as folder:
                k = cell.n_old + cell.n_new
                config = configure(k=k, changes={"selection.graph": graph}, rehearsals=0)
                done = train_run(source, Path(folder) / "run", config)
                lines = done.run.epochs()
            whole, selecting = (sum(line[name] for line in lines) for name in ("seconds", "seconds_selection"))
            print(
                f"{dataset}, neighbours of {'the start' if graph == 'start' else 'every epoch'}: "
                f"{done.seconds:.0f} s, {len(lines)} epochs {whole:.1f} s, selection {selecting:.1f} s "
                f"({100 * selecting / whole:.0f} %)",
                flush=True,
            )


if __name__ == "__main__":
    main()
