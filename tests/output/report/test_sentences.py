"""What the page and the commands say: one word for one thing, one count for one run, numbers a person can use."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import ltgcd.output.export.formats
from ltgcd.output.report import sentences
from ltgcd.output.report.sentences import (
    SINCE_REFINED,
    Counts,
    calibration_sentence,
    count_categories,
    counts_sentence,
    estimate_sentence,
    expected_right,
    right_of_hundred,
)

ROOMS = (Path(sentences.__file__).parent, Path(ltgcd.output.export.formats.__file__).parent)


def assigned(*rows: tuple[int, str]) -> pa.Table:
    return pa.table({"label": pa.array([r[0] for r in rows], pa.int64()), "status": [r[1] for r in rows]})


def test_a_novel_category_counts_if_it_has_a_sure_item() -> None:
    rows = [(0, "known"), (1, "unsure"), (3, "novel"), (3, "unsure"), (4, "unsure"), (5, "known"), (6, "novel")]
    counts = count_categories(assigned(*rows), 3)
    # Class 2 has no item; 4 has an unsure item alone; 5 was named by people after training.
    assert counts == Counts(known=4, known_empty=1, novel=2, only_unsure=1)
    assert counts_sentence(counts) == (
        "2 novel categories beside 4 known classes. 1 further category has only unsure items and is not counted. "
        "1 known class has no item."
    )
    assert counts_sentence(Counts(1, 0, 1, 0)) == "1 novel category beside 1 known class."
    assert counts_sentence(Counts(2, 0, 0, 2)) == (
        "No novel category beside 2 known classes. 2 categories have only unsure items and are not counted."
    )


def test_after_a_refine_nobody_vouches_for_confidences() -> None:
    """What was rehearsed before it is about items of which the easy ones are confirmed since."""
    told = [calibration_sentence(0.05, 0.02, True), expected_right(0.05, True), calibration_sentence(None, None, True)]
    assert told == [SINCE_REFINED] * 3
    assert "80" not in SINCE_REFINED and "fewer" in SINCE_REFINED


def test_the_estimate_is_said_to_be_one() -> None:
    estimate = {"k": 16, "low": 12, "high": 20}
    assert estimate_sentence(estimate) == (
        "Estimated beforehand: about 16 classes in all, known and novel (90 % interval 12 to 20). There may be more: "
        "the odd ones (key O in 'ltgcd review') show classes that have no category yet."
    )
    assert "items that came later have added 3" in estimate_sentence(estimate, 3)
    assert estimate_sentence({"k": 1, "low": None, "high": None}).count("interval") == 0
    assert estimate_sentence(None) == estimate_sentence({"k": float("nan")}) == ""
    assert "about 1,200 classes" in estimate_sentence({"k": np.int64(1200), "low": 1000, "high": 2000})


def test_confidences_in_numbers_a_person_can_use() -> None:
    said = calibration_sentence(0.076, 0.051)
    assert said.startswith(
        "In rehearsals with some of your classes hidden, 72 to 88 of 100 items marked 80 % were right"
    )
    assert "if the collection holds more of what is new than was found, fewer are" in said  # the condition of it
    assert "too high or too low by 8 in 100 on average" in said
    assert "off by 5" in said
    assert "chance" not in calibration_sentence(0.076, 0.01)  # too little to explain it
    assert "no further off than chance explains" in calibration_sentence(0.02, 0.03)
    assert "79 to 81 of 100 items" in calibration_sentence(0.0)  # no rehearsal shows that nothing is off
    assert "45 to 100 of 100 items" in calibration_sentence(0.35)
    assert "often too high" in calibration_sentence(None)
    assert calibration_sentence(float("nan")) == calibration_sentence(None)
    assert right_of_hundred(None) is None


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_these_rooms_know_no_run_directory(room: Path) -> None:
    files = [path for path in room.rglob("*") if path.suffix in {".py", ".js", ".html", ".css"}]
    assert files
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert "ltgcd.run" not in text, path
        for name in ("assignments.parquet", "report.html", "k_estimate.json", "config.toml", "split.parquet"):
            assert name not in text, (path, name)


def test_novel_is_never_called_new() -> None:
    """In what the page shows: its template, and the texts in its scripts."""
    static = ROOMS[0] / "static"
    shown = re.sub(r"<[^>]*>", " ", (static / "page.html").read_text())
    for script in static.glob("*.js"):
        code = re.sub(r"//.*|/\*.*?\*/", "", script.read_text())
        shown += " ".join(re.findall(r'"[^"]*"|`[^`]*`', code))
    assert not re.search(r"\bNew\b|\bnew\b(?! [A-Z])", shown)  # a constructor has a capital
    assert "bin of" not in shown
