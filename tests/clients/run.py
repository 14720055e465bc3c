"""Exports of generated data in the real tools, and back: ``make test-clients``.

Each tool lives in an environment of its own below ``.venv-clients``, which the Makefile makes. A line says what each
one loaded, and what came back from its own export after a person changed two labels.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from conftest import image_bytes  # noqa: E402
from ltgcd.data.collection import Collection  # noqa: E402
from ltgcd.data.items import Texts  # noqa: E402
from ltgcd.data.sources import read_source  # noqa: E402
from ltgcd.data.tool_exports import read_tool_labels  # noqa: E402
from ltgcd.discovery.assignments import assignments_table  # noqa: E402
from ltgcd.output.export.formats import export_items  # noqa: E402

# Names that have broken something before: a formula, a control character, markup, a variable, the bin of unsure items.
CLASSES = ("cat", "=1+1", "bell\x07", '<b class="x">&', "$image", "unsure", "ünïcödé 😀")
CHANGES = {"one/0.png": "cat", "two/1.png": "cat"}
CLIENTS = {
    "fiftyone": ("with_fiftyone.py", ("fiftyone.json", "back/samples.json", "coco.json")),
    "label-studio": (
        "with_label_studio.py",
        [f"label-studio-{name}{ending}.json" for name in ("tasks", "texts") for ending in ("", "-min")],
    ),
}


def make_exports(folder: Path) -> dict[str, str | None]:
    """Write every export, and what the tools shall find in them; give what shall come back."""
    for number in range(60):
        path = folder / "photos" / ("one", "two", "three 100%")[number % 3] / f"{number // 3}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image_bytes(number))
    photos = read_source(folder / "photos").collection
    n = len(photos)
    codes, unsure = np.arange(n) % (len(CLASSES) + 2), np.arange(n) % 5 == 0
    table = assignments_table(photos.ids, codes, np.full(n, 0.5, np.float32), CLASSES, len(CLASSES) + 2, unsure)
    texts = Collection(photos.ids, Texts(pa.array([f"text {i}\x00\x1b" for i in range(n)])), np.full(n, -1), ())
    for form, items, out in (
        ("fiftyone", photos, "fiftyone"),
        ("coco", photos, "coco"),
        ("folders", photos, "folders"),
        ("label-studio", photos, "tasks.json"),
        ("label-studio", texts, "texts.json"),
        ("parquet", None, "table.parquet"),
    ):
        export_items(table, items, form, folder / out, source=folder / "photos")
    rows = pq.read_table(folder / "table.parquet").to_pylist()
    labels: dict[str, str | None] = {row["id"]: row["label"] for row in rows}
    (folder / "expected.json").write_text(json.dumps({item: label or "unsure" for item, label in labels.items()}))
    (folder / "changes.json").write_text(json.dumps(CHANGES))
    return {**labels, **CHANGES}


def main(wanted: list[str]) -> int:
    """Run the clients, all or those named; 0 if all could."""
    failed = 0
    for client in wanted or CLIENTS:
        script, exports = CLIENTS[client]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            expected = make_exports(folder)
            environment = {
                **os.environ,
                "HOME": name,
                "FIFTYONE_DATABASE_DIR": str(folder / "database"),
                "FIFTYONE_DO_NOT_TRACK": "true",
                "FIFTYONE_DATABASE_VALIDATION": "false",
                "FIFTYONE_LOGGING_LEVEL": "ERROR",
            }
            python = ROOT / ".venv-clients" / client / "bin" / "python"
            command = [str(python), "-W", "ignore", str(Path(__file__).with_name(script)), name]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            print(done.stdout, end="", flush=True)
            if done.returncode:
                print(f"{client}: FAILED\n{done.stderr[-3000:]}")
                failed += 1
                continue
            for export in exports:
                tool, table, notes = read_tool_labels(folder / export)
                back = dict(zip(*table.to_pydict().values(), strict=True))
                wrong = {item: back.get(item) for item in expected if back.get(item) != expected[item]}
                failed += bool(wrong or notes or back.keys() != expected.keys())
                changed = sum(back.get(item) == label for item, label in CHANGES.items())
                state = (
                    f"FAILED {wrong} {notes}" if wrong or notes else f"{changed} of {len(CHANGES)} changes among them"
                )
                print(f"  back from {tool}'s {export}: {len(back)} labels, {state}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
