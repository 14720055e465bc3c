"""What `benchmarks/speed/growth.py` takes for the beginning of a stage."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("psutil")
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "speed" / "growth.py"


def test_a_sentence_that_only_names_a_stage_begins_none() -> None:
    """At 62,500 items the rehearsals were taken to begin where it was foretold how long they will take."""
    spec = importlib.util.spec_from_file_location("growth", SCRIPT)
    assert spec is not None and spec.loader is not None
    growth = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(growth)
    lines = {
        "· the number of classes, training, rehearsals and the report will take about 5 min": None,
        "· estimating the number of classes": "class number",
        "· training with ltgcd, 308 classes": "training",
        "· training: 3 of 10, 1/s, 7 s left": None,
        "· rehearsals are on 66,012 of the 250,000 items, a share of every class": "rehearsals",
        "· 4 rehearsals, 2 at a time, each with other known classes hidden: how often is a label right?": "rehearsals",
        "· rehearsing: 7 of 40, 5.0 s each, 3 min left": None,
        "· drawing the report": "report",
    }
    for line, stage in lines.items():
        assert next((name for begins, name in growth.STAGES if begins.match(line)), None) == stage, line
