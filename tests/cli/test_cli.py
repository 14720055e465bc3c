"""The commands as a user types them: formats at the border, exit codes, speed of --help, and the demo."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import typer

from conftest import WIDE, call_cli, cpu_of_children, run_cli
from ltgcd.__main__ import main as ltgcd_main
from ltgcd.cli import GROUPS, app
from ltgcd.cli.doctor import advice
from ltgcd.cli.refine import show_difference
from ltgcd.data.digits import digits_source
from ltgcd.data.write_source import write_source


def test_demo_runs_from_nothing(tmp_path: Path) -> None:
    """In this process; in one of its own it is run from the wheel (tests/test_wheel.py), and timed there."""
    done = call_cli("demo", "--out", tmp_path / "run", "--json")
    assert done.code == 0, done.err
    result = done.json
    assert {"method", "k", "acc", "balanced_acc", "seconds", "run", "k_estimate", "report"} <= set(result)
    assert 7 <= result["k"] <= 14  # ten digits
    assert result["k_estimate"]["k"] == result["k"]
    assert result["balanced_acc"]["all"] > 50
    run = tmp_path / "run"
    names = {path.name for path in run.iterdir()}
    assert {"config.toml", "split.parquet", "metrics.jsonl", "k_estimate.json", "assignments.parquet"} <= names
    table = pq.read_table(run / "assignments.parquet")
    assert table.column_names == ["id", "label", "name", "status", "confidence", "suggested"]
    assert set(table.column("status").to_pylist()) <= {"known", "novel", "unsure"}
    confidence = table.column("confidence").to_numpy()
    assert ((confidence > 0) & (confidence <= 1)).all()
    novel = {r["name"] for r in table.to_pylist() if r["status"] == "novel"}
    assert "novel-001" in novel
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == list(range(1, len(lines) + 1))
    assert {"loss_supervised", "n_selected", "lambda_selected", "held_out_balanced_acc", "seconds"} <= set(lines[-1])
    assert result["balanced_acc"]["old"] > 70
    assert Path(result["report"]).read_text().startswith("<!doctype html>")
    scored = call_cli("evaluate", run, "--json").json
    assert {"acc", "balanced_acc", "many_medium_few", "nmi", "ari", "k", "k_true"} <= set(scored)
    assert scored["balanced_acc"] == result["balanced_acc"]
    assert scored["k_true"] == 10
    human = call_cli("evaluate", run)
    assert human.code == 0
    assert "balanced ACC" in human.out
    assert "Of New classes, on average:" in human.out
    assert scored["errors"]["new"]["right"] == pytest.approx(scored["balanced_acc"]["new"])
    assert scored["oracle"]["balanced_acc"]["all"] > 70


def test_the_same_seed_gives_the_same_labels(tmp_path: Path) -> None:
    """In this process, which has trained before, and in one of its own."""
    source = write_source(tmp_path / "digits.npz", digits_source())
    tables = []
    for name, run in (("a", call_cli), ("b", run_cli)):
        options = ("--k", 10, "--seed", 3, "--epochs", 4, "--out", tmp_path / name, "--json")
        assert run("train", source, *options).code == 0
        tables.append(pq.read_table(tmp_path / name / "assignments.parquet"))
    assert tables[0].equals(tables[1])


def test_predictions_of_any_tool_can_be_scored(tmp_path: Path) -> None:
    source = digits_source()
    assert source.truth is not None
    truth = write_source(tmp_path / "digits.npz", source)
    names = [["one", "two", "three"][i % 3] for i in source.truth.y_true]
    lines = [f"{i},{n}" for i, n in zip(source.collection.ids.to_pylist(), names, strict=True)]
    predictions = tmp_path / "predictions.csv"
    predictions.write_text("\n".join(["id,label", *reversed(lines)]))
    scored = call_cli("evaluate", predictions, "--truth", truth, "--json")
    assert scored.code == 0, scored.err
    assert scored.json["n"] == int((~source.collection.labelled).sum())
    assert scored.json["k"] == 3
    own = tmp_path / "own.csv"
    own.write_text("label,y_true,y\n5,0,\n5,0,\n6,1,\n6,1,\n5,0,0\n")
    assert call_cli("evaluate", own, "--json").json["balanced_acc"] == {"all": 100.0, "old": 100.0, "new": 100.0}
    own.write_text("label,y_true\n5,0\n5,0\n6,1\n6,0\n")
    assert call_cli("evaluate", own, "--n-old", 1, "--json").json["acc"]["all"] == pytest.approx(75)


def test_split_prints_the_promised_keys(npz, tmp_path: Path) -> None:
    path = npz("f.npz", y=np.repeat([0, 1, 2], [20, 12, 8]), y_true=None)
    done = call_cli("split", path, "--preset", "text-literal", "--lambda", 2, "--out", tmp_path / "s", "--json")
    assert done.code == 0, done.err
    keys = "n_labelled n_unlabelled n_classes n_old lambda_labelled lambda_unlabelled checksum path"
    assert set(keys.split()) <= set(done.json)
    assert Path(done.json["path"]).is_file()
    told = call_cli("inspect", done.json["path"], "--json").json
    assert told["n_labelled"] == done.json["n_labelled"]
    few, many = min(told["counts"].values()), max(told["counts"].values())
    each = f"{many} each" if few == many else f"{few} to {many}"
    said = call_cli("inspect", done.json["path"]).out
    classes = f"{told['n_old']} classes of {each}" if told["n_old"] > 1 else "1 class"
    assert f"{told['n_labelled']} labelled in {classes}, " in said
    trained = call_cli("train", done.json["path"], "--k", "auto", "--out", tmp_path / "run", "--json").json
    assert {"method", "k", "acc", "balanced_acc", "seconds", "run"} <= set(trained)
    estimate = call_cli("estimate-k", done.json["path"], "--json").json
    assert {"method", "k", "low", "high", "n_old", "seconds", "curve"} <= set(estimate)
    assert all(len(point) == 2 for point in estimate["curve"])


def test_datasets_are_listed(tmp_path: Path) -> None:
    done = call_cli("datasets", "--data", tmp_path, "--json")
    assert done.code == 0, done.err
    rows = {row["name"]: row for row in done.json["datasets"]}
    assert len(rows) == 11
    assert not any(row["present"] for row in rows.values())
    assert all(row["get"] and row["licence"] for row in rows.values())
    lines = run_cli("datasets", "--data", tmp_path, COLUMNS="80").out.splitlines()
    assert max(map(len, lines)) <= 80
    # No column so narrow that a sentence gets a word a line.
    assert any("ltgcd datasets get cifar10" in line for line in lines)
    assert any("cub200" in line and "non-commercial research" in line for line in lines)


def test_without_truth_the_scores_are_null(npz, tmp_path: Path) -> None:
    done = call_cli("train", npz(y_true=None), "--k", 3, "--out", tmp_path / "run", "--json")
    assert done.code == 0, done.err
    assert done.json["acc"] is None
    assert done.json["balanced_acc"] is None
    assert call_cli("evaluate", tmp_path / "run").code == 2


def test_every_command_is_in_one_group_of_the_help() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(typer.main.get_command(app).commands)
    told = call_cli("--help").out
    assert all(f"\n{title}:\n" in told for title in GROUPS)
    assert max(map(len, told.splitlines())) <= 80


def test_doctor_tells_what_is_here_and_what_is_not(tmp_path: Path) -> None:
    done = call_cli("doctor", "--data", tmp_path, "--json")
    assert done.code == 0
    assert done.json["packages"]["torch"] == version("torch") and done.json["extras"]["review"] is True
    assert done.json["datasets"] == [] and done.json["free_bytes"] > 0
    poor = {**done.json, "packages": {"numpy": "2.0", "torch": None}, "on_path": None, "free_bytes": 10}
    missing, path, disk = advice(poor)
    assert "torch" in missing and "numpy" not in missing and "-m ltgcd" in path and "1 GiB" in disk
    assert advice({**poor, "packages": {"numpy": "2.0"}, "on_path": "/bin/ltgcd", "free_bytes": 2**40}) == []


@pytest.mark.parametrize("command", sorted(name for names in GROUPS.values() for name in names))
def test_help_has_examples(command: str) -> None:
    done = call_cli(command, "--help")
    assert done.code == 0
    assert f"ltgcd {command}" in done.out.split("Examples:")[1]


@pytest.mark.parametrize("code", ["import ltgcd", "from ltgcd.cli import app; app(['--help'], standalone_mode=False)"])
def test_start_is_instant(code: str) -> None:
    """Under half a second of CPU (best of five, on a shared machine), and without torch."""
    best = float("inf")
    for _ in range(5):
        before = cpu_of_children()
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=os.environ)
        best = min(best, cpu_of_children() - before)
        if best < 0.5:
            break
    assert best < 0.5
    check = f"import sys\n{code}\nassert not {{'torch', 'scipy', 'sklearn'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True, stdout=subprocess.DEVNULL)


def test_version() -> None:
    assert run_cli("--version").out.startswith("ltgcd 0.")


# ---------------------------------------------------------------- what the system does to a command


def test_stopped_by_sigterm_is_as_by_ctrl_c(tmp_path: Path) -> None:
    import signal

    source = write_source(tmp_path / "digits.npz", digits_source())
    process = subprocess.Popen(
        [sys.executable, "-m", "ltgcd", "discover", str(source), "--out", str(tmp_path / "run")],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    process.stderr.readline()  # a first line: it works now
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    # CPython remembers a Ctrl-C that has passed through `exec` (a dataclass being made, say), caught or not, and ends
    # by that signal; a shell sees 130 both ways.
    assert process.returncode in (130, -signal.SIGINT)
    assert "Stopped. What is finished is kept" in said and "Traceback" not in said
    assert not list((tmp_path / "run").rglob("*.tmp"))


def test_a_command_called_from_python_leaves_signals_as_they_are(npz) -> None:
    import signal

    from typer.testing import CliRunner

    before = signal.getsignal(signal.SIGTERM)
    assert CliRunner(env=WIDE).invoke(app, ["inspect", str(npz())]).exit_code == 0
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_result_that_nobody_can_read_is_a_sentence(npz, options: tuple[str, ...]) -> None:
    # With a buffer, as by default: what is left in it is tried again when Python ends, and must not fail there.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ltgcd", "inspect", str(npz()), *options],
            env=buffered,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "Error: The result can't be printed (No space left on device); all else is done.\n"


def test_an_empty_argument_is_not_the_current_folder(tmp_path: Path) -> None:
    done = run_cli("inspect", "", "--json", cwd=tmp_path)
    assert done.code == 2
    assert "An argument is empty" in done.json["error"]


def test_a_run_is_not_scored_against_another_truth(npz, tmp_path: Path) -> None:
    assert call_cli("train", npz(), "--k", 3, "--epochs", 1, "--out", tmp_path / "run").code == 0
    for option in (("--truth", npz()), ("--n-old", 2)):
        done = call_cli("evaluate", tmp_path / "run", *option, "--json")
        assert done.code == 2 and "leave out --truth" in done.json["error"]
    # Nor does `predict` write over anything that is not its own.
    run, source = tmp_path / "run", npz("new.npz")
    (tmp_path / "mine.parquet").write_bytes(source.read_bytes())
    for out, words in (
        (source, "is the source itself"),
        (tmp_path / "mine.parquet", "there already"),
        (run / "model.safetensors", "what is its own"),
        (run / "items.parquet", "what is its own"),
    ):
        before = out.read_bytes() if out.exists() else None
        done = call_cli("predict", run, source, "--out", out, "--json")
        assert done.code == 2 and words in done.json["error"], done.json
        assert before == (out.read_bytes() if out.exists() else None)
    for options in ((), ("--out", tmp_path / "new.parquet")):
        for _ in range(2):
            assert call_cli("predict", run, source, *options).code == 0


def test_what_a_terminal_would_obey_is_never_printed_raw(npz, tmp_path: Path) -> None:
    bad, run = "a\x1b]0;owned\x07\x9b31m\u202eb", tmp_path / "run"
    assert call_cli("discover", npz(), "--k", 3, "--out", run).code == 0
    (tmp_path / "said.csv").write_text(f'id,label\n"{bad}",x\n0,"{bad}"\n', encoding="utf-8")
    for command in (
        ("relabel", run, tmp_path / "said.csv"),
        ("relabel", run, tmp_path / f"{bad}.csv"),
        ("refine", run, "--dry-run"),
        ("refine", run, "--out", tmp_path / bad),
        ("check", tmp_path / bad),
        ("review", run, "--export-events", tmp_path / f"{bad}.jsonl"),
        ("export", run, "--format", "csv", "--out", tmp_path / f"{bad}.csv"),
        ("report", tmp_path / bad),
        ("inspect", tmp_path / f"{bad}.npz"),
    ):
        done = call_cli(*command)
        for text in (done.out, done.err):
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text), (command[0], text)


def test_nor_is_it_in_what_is_told_on_the_way(
    image_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is noticed about a source names files of it; what a refine changes names classes."""
    (image_folder / "cat" / "gone\x1b[31m.png").symlink_to("nowhere")
    said = call_cli("inspect", image_folder).err
    assert r"(for example 'cat/gone\x1b[31m.png')" in said and "\x1b" not in said
    row = {"name": "b\x1b[31m", "before": 3, "after": 5}
    items = {"changed": 2, "kept": 0, "surer": 0, "less_sure": 0}
    show_difference({**items, "appeared": [], "vanished": [], "grown": [row], "shrunk": []})
    assert "Grown:\n  b\\x1b[31m: 3 → 5\n" in capsys.readouterr().out


def test_ctrl_c_while_a_class_is_being_made_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python 3.11 wraps it; found by the standing trial, in an import."""

    def stopped() -> None:
        raise RuntimeError("Error calling __set_name__ on 'cached_property'") from KeyboardInterrupt()

    def broken() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("ltgcd.cli.main", stopped)
    with pytest.raises(SystemExit) as end:
        ltgcd_main()
    assert end.value.code == 130 and capsys.readouterr().err == "Stopped.\n"
    monkeypatch.setattr("ltgcd.cli.main", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        ltgcd_main()
