"""What commands say to people: in lines that fit the terminal, in plain words, with the next command to type."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import typer

from conftest import Npz, call_cli, fails, image_bytes
from ltgcd.cli import GROUPS, app, run
from ltgcd.cli.common import say, status
from ltgcd.cli.discovery import say_found
from ltgcd.cli.refine import show_difference
from ltgcd.cli.review import unapplied
from ltgcd.run.directory import Run


def photos(folder: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / f"{number}.png").write_bytes(image_bytes(number))
    return folder


# ---------------------------------------------------------------- lines


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_a_sentence_fits_the_terminal(columns: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    sentence = " ".join(f"word-{n}" for n in range(60))
    say(sentence, "    ")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= int(columns) and " ".join(line.strip() for line in lines) == sentence
    assert not lines[0].startswith(" ") and all(line.startswith("    ") for line in lines[1:])


def test_it_is_80_columns_where_nobody_knows_and_words_stay_whole(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    path = "/a/very/long/path" * 8
    status(f"{'all of it ' * 20}is in {path}, to be copied")
    lines = capsys.readouterr().err.splitlines()
    assert any(path in line for line in lines) and all(len(line) <= 80 for line in lines if path not in line)
    assert lines[0].startswith("· all of it")


def test_a_refusal_is_wrapped_and_whole_for_programs(npz: Npz, monkeypatch: pytest.MonkeyPatch) -> None:
    from conftest import WIDE

    monkeypatch.setitem(WIDE, "COLUMNS", "80")
    done = call_cli("inspect", npz(y=np.full(40, -1)), "--json")
    lines = done.err.splitlines()
    assert len(lines) > 1 and " ".join(lines) == f"Error: {done.json['error']}"
    assert "at least two classes" in done.json["error"]


@pytest.mark.parametrize("command", sorted(name for names in GROUPS.values() for name in names))
def test_help_fits_80_columns(command: str) -> None:
    told = call_cli(command, "--help").out
    examples = told.partition("Examples:")[2].partition("\n\n")[0]  # lines to copy stay whole
    wide = [line for line in told.splitlines() if len(line) > 80 and line not in examples.splitlines()]
    assert wide == []
    assert typer.main.get_command(app).commands[command].help  # type: ignore[attr-defined]


# ---------------------------------------------------------------- before a run


def test_inspect_says_what_to_type_next(image_folder: Path, tmp_path: Path) -> None:
    assert call_cli("inspect", image_folder).out.endswith(f"Next: ltgcd discover {image_folder} --out run\n")
    table = tmp_path / "my tickets.csv"
    table.write_text("body,topic\n" + "\n".join(f"text {n},{'ab'[n % 2] if n < 8 else ''}" for n in range(20)))
    said = call_cli("inspect", table, "--text-column", "body", "--label-column", "topic").out
    options = "--text-column body --label-column topic --out run"
    assert said.endswith(f"Next: ltgcd discover '{table}' {options}\n")


def test_one_class_is_not_enough(npz: Npz, tmp_path: Path) -> None:
    source = npz(y=np.where(np.arange(40) < 12, 0, -1))
    said = call_cli("inspect", source).out
    assert "Not ready: one class is labelled, two are the least." in said and "Next" not in said
    assert call_cli("inspect", source, "--json").json["ready"] is False
    found = call_cli("discover", source, "--out", tmp_path / "run")
    assert "12 labelled in 1 class\n" in found.err
    assert "one labelled class can't show how unlike two classes are" in found.err
    assert "Careful with that number: " in found.out and "no interval" in found.out


def test_inspect_names_the_classes_with_few_labels(npz: Npz) -> None:
    """Ten are comfortable, as the README says; the fewest first."""
    y = np.concatenate([np.repeat([0, 1, 2], [12, 3, 5]), np.full(20, -1)])
    x = np.random.RandomState(0).randn(40, 6).astype(np.float32)
    said = call_cli("inspect", npz(x=x, y=y, y_true=None, class_names=np.array(["ant", "bee", "cat"]))).out
    assert "2 classes have fewer than 10 labelled items, which is little to learn from: bee (3), cat (5)." in said
    assert "fewer than" not in call_cli("inspect", npz(x=x, y=np.repeat([0, 1, -1], [10, 10, 20]), y_true=None)).out


def test_a_folder_whose_rest_has_another_name(tmp_path: Path) -> None:
    folder = photos(tmp_path / "am", "ant", "bee", "to_sort")
    assert fails("discover", folder, "--out", tmp_path / "run") == (
        f"Every sub-folder of {folder} was read as a class (ant, bee, to_sort); put the unsorted images into "
        f"{folder}/unlabelled/."
    )
    labels = tmp_path / "labels.csv"
    labels.write_text("id,label\nant/0.png,a\nbee/1.png,b\nto_sort/2.png,b\n")
    assert "Every item is labelled" in fails("inspect", folder, "--labels", labels)


def test_a_run_is_no_source(npz: Npz, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert call_cli("train", npz(), "--k", 3, "--epochs", 1, "--out", folder, "--json").code == 0
    assert fails("inspect", folder) == f"{folder} is a run, not a source; use 'ltgcd check {folder}'."


# ---------------------------------------------------------------- after it


FOUND: dict[str, Any] = {
    "k": 26,
    "low": 20,
    "high": 31,
    "n_old": 22,
    "n_named": 0,
    "caution": None,
    "n_labelled": 100,
    "known": 160,
    "novel": 30,
    "unsure": 10,
    "categories": [{"name": "novel-001", "items": 1}],
    "only_unsure": 3,
    "calibration_error": 0.04,
    "calibration_chance": None,
    "assignments": "run/assignments.parquet",
    "report": "run/report.html",
    "run": "run",
}


def test_the_estimate_says_where_more_would_show(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    say_found(FOUND)
    said = capsys.readouterr().out
    assert "About 26 classes in all (90 % interval 20 to 31), 22 of them yours. There may be more: the odd ones" in said
    assert "60 are in your classes and 30 in 1 novel category (3 more hold only unsure items); 10 are unsure" in said
    assert "novel-001, 1 item; the page lists first the classes most worth checking." in said
    assert said.endswith("Look at it: run/report.html\nCorrect it: ltgcd review run\n")


def test_classes_that_people_made_are_not_those_of_their_labels(capsys: Any) -> None:
    say_found({**FOUND, "n_named": 2})
    assert "26 classes in all: 22 of your labels and 2 that you named or accepted." in capsys.readouterr().out


def test_a_reviewed_run_counts_what_was_named_and_embeds_nothing(npz: Npz, tmp_path: Path) -> None:
    source, folder = npz(), tmp_path / "run"
    assert call_cli("discover", source, "--k", 3, "--out", folder, "--json").json["n_named"] == 0
    corrections = tmp_path / "corrections.csv"
    corrections.write_text("category,name\nnovel-001,barnacle\n")
    said = call_cli("relabel", folder, corrections)
    assert f"Next: ltgcd refine {folder}\n" in said.out, said.err
    again = call_cli("discover", source, "--k", 3, "--out", folder)
    assert "3 classes in all: 2 of your labels and 1 that you named or accepted." in again.out
    assert "embedding" not in again.err and "of disk" not in again.err


def test_assignments_that_another_tool_rewrote_are_a_sentence(npz: Npz, tmp_path: Path) -> None:
    words = ("train", npz(), "--k", 3, "--epochs", 1, "--out", tmp_path / "run")
    assert call_cli(*words).code == 0
    path = tmp_path / "run" / "assignments.parquet"
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    assert fails(*words).startswith(str(path))


def test_a_file_that_nobody_edited_needs_no_refine(npz: Npz, tmp_path: Path) -> None:
    folder, labels = tmp_path / "run", tmp_path / "labels.csv"
    assert call_cli("train", npz(), "--k", 3, "--epochs", 1, "--out", folder, "--json").code == 0
    assert call_cli("export", folder, "--format", "csv", "--out", labels).code == 0
    said = call_cli("relabel", folder, labels).out
    assert "none that changes anything" in said and "Next" not in said
    labels.write_text(
        "id,label\n"
        + "".join(f"{name},NA\n" for name in pq.read_table(folder / "assignments.parquet")["id"].to_pylist()[:3])
    )
    said = call_cli("relabel", folder, labels).out
    assert "3 'NA' were read as unlabelled" in said and "3 items with an empty label: as before" in said


def test_changes_that_were_not_applied_are_told_apart(tmp_path: Path) -> None:
    held = Run(tmp_path / "run")
    assert unapplied(0, held) == ""
    said = unapplied(1, held)
    assert "1 change is not applied yet" in said and f"'ltgcd refine {held}'" in said
    assert "export" in said and f"{held.files.assignments} has not" in said


def test_what_a_refine_changes_is_a_line_a_class(capsys: Any) -> None:
    rows = [{"name": f"c{n}", "before": 0, "after": n} for n in range(1, 11)]
    items = {"changed": 3, "kept": 0, "surer": 4, "less_sure": 1}
    show_difference({**items, "appeared": rows[:1], "vanished": [], "grown": rows, "shrunk": []})
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "4 unsure items become sure, and 1 sure ones unsure."
    assert lines[2:5] == ["Appeared:", "  c1: 0 → 1", "Grown:"]
    assert lines[5] == "  c10: 0 → 10" and lines[-1] == "  and 2 more"


def test_the_demo_says_its_scores_in_words(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    scores = {"balanced_acc": {"all": 88.0, "old": 92.4, "new": 81.0}, "acc": None, "seconds": 1.0, "k_true": 10}
    said = SimpleNamespace(show=None)
    monkeypatch.setattr(run, "report", lambda _work, show, _as_json: setattr(said, "show", show))
    run.demo()
    said.show({**FOUND, **scores})  # type: ignore[misc]
    assert "Right: 92 % of the known digits, 81 % of the novel ones." in capsys.readouterr().out
