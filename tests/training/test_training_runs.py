"""Training through runs and commands: kill and resume, several processes, prediction on new items, the last stage."""

from __future__ import annotations

import json
import random
import signal
import socket
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest
import torch
from tests.training.test_baselines import BASELINES, SMALL, problem_of
from tests.training.test_loop import SHORT, StopHere

from conftest import call_cli, train
from forks import Forked
from ltgcd import CategoryDiscovery
from ltgcd.common.errors import InputError
from ltgcd.data.collection import Source
from ltgcd.data.digits import digits_source
from ltgcd.data.sources import read_source
from ltgcd.data.write_source import write_source
from ltgcd.features.backbones import load_backbone
from ltgcd.features.cache import open_features
from ltgcd.features.embed import embed
from ltgcd.run.directory import Run
from ltgcd.run.predict import predict_source
from ltgcd.training.checkpoints import read_tensors


@pytest.fixture(scope="module")
def digits() -> Source:
    return digits_source()


def training(source: Path, run: Path, *options: str) -> list[str]:
    command = ["train", str(source), "--k", "10", "--out", str(run), "--json"]
    return [*command, "--epochs", "30", "--set", "schedule.batch_size=64", *options]


def call_training(source: Path, run: Path, *options: str) -> dict[str, Any]:
    """In this process: the start of another one takes longer than the training."""
    done = call_cli(*training(source, run, *options))
    assert done.code == 0, done.err
    return done.json


def start_training(source: Path, run: Path, *options: str, **environment: str) -> Forked:
    return Forked(*training(source, run, *options), **environment)


def epochs_done(run: Path) -> int:
    path = run / "metrics.jsonl"
    return len(path.read_text().splitlines()) if path.is_file() else 0


def wait_for(condition, process: Forked, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def test_kill_at_a_random_moment_and_resume_to_identical_labels(digits, tmp_path):
    source = write_source(tmp_path / "digits.npz", digits)
    killed = start_training(source, tmp_path / "killed")
    wait_for(lambda: epochs_done(tmp_path / "killed") >= 2, killed)
    time.sleep(random.random() / 5)  # on an idle machine all epochs are done in a second
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not (tmp_path / "killed" / "assignments.parquet").exists()
    results = [call_training(source, tmp_path / name) for name in ("whole", "killed")]
    assert results[0]["balanced_acc"] == results[1]["balanced_acc"]
    tables = [pq.read_table(tmp_path / name / "assignments.parquet") for name in ("whole", "killed")]
    assert tables[0].equals(tables[1])
    lines = [(tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in ("whole", "killed")]
    assert [[json.loads(line)["epoch"] for line in part] for part in lines] == [list(range(1, 31))] * 2


def test_a_density_that_is_not_the_plain_one_is_told_once(digits, tmp_path):
    """Prototypes that hardly move stay where they fell: no temperature makes sense of them."""
    changes = {**SHORT, "schedule.learning_rate": 1e-6}

    def stop(epoch, _sets):
        if epoch == 4:
            raise StopHere

    said = []
    with pytest.raises(StopHere):
        train(digits, tmp_path / "run", k=10, preset="paper", changes=changes, watch=stop, notify=said.append)
    told = [sentence for sentence in said if "density" in sentence]
    assert len(told) == 1
    assert told[0].startswith("epoch 3: the density uses the mean cosine alone, without the classifier: labelled")
    said.clear()
    train(digits, tmp_path / "run", k=10, preset="paper", changes=changes, notify=said.append)
    assert not any("density" in sentence for sentence in said), "a run that goes on says it once all the same"
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line.get("density") for line in lines] == [None, None, "affinity", "affinity"]
    assert told[0].endswith(lines[2]["density_why"])


def test_a_plain_density_is_no_news(digits, tmp_path):
    said = []
    train(digits, tmp_path / "run", k=10, changes=SHORT, notify=said.append)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert (lines[3]["density"], lines[3]["density_why"]) == ("classifier", "")
    assert not any("density" in sentence for sentence in said)


def start_two(source: Path, run: Path, *options: str) -> list[Forked]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    return [start_training(source, run, *options, RANK=str(rank), LOCAL_RANK=str(rank), **shared) for rank in range(2)]


def test_two_processes_do_the_work_of_one(digits, tmp_path):
    source = write_source(tmp_path / "digits.npz", digits)
    two = start_two(source, tmp_path / "two", "--epochs", "5")
    outputs = [process.communicate(timeout=120) for process in two]
    assert [process.returncode for process in two] == [0, 0], outputs
    call_training(source, tmp_path / "one", "--epochs", "5")
    tables = [pq.read_table(tmp_path / name / "assignments.parquet") for name in ("one", "two")]
    labels = [table.column("label").to_numpy() for table in tables]
    # Not the same bits: floating point sums are taken in another order. The first epoch's losses agree closely.
    first = [json.loads((tmp_path / n / "metrics.jsonl").read_text().splitlines()[0]) for n in ("one", "two")]
    assert first[0]["loss_distillation"] == pytest.approx(first[1]["loss_distillation"], rel=1e-4)
    assert (labels[0] == labels[1]).mean() > 0.97


def test_a_dead_process_ends_the_run_with_a_sentence_and_a_checkpoint(digits, tmp_path):
    source = write_source(tmp_path / "digits.npz", digits)
    run = tmp_path / "run"
    first, second = start_two(source, run, "--epochs", "2000")
    wait_for(lambda: epochs_done(run) >= 3, first)
    second.send_signal(signal.SIGKILL)
    out, err = first.communicate(timeout=120)
    second.communicate()
    assert first.returncode == 2, err
    assert "Another process of this run died" in json.loads(out)["error"]
    assert "Traceback" not in err
    # The checkpoint is whole: one process goes on with it.
    done = epochs_done(run)
    begun = []

    def stop(epoch, _sets):
        begun.append(epoch)
        if epoch > done + 1:
            raise StopHere

    with pytest.raises(StopHere):
        train(read_source(source), run, k=10, changes={"schedule.epochs": 2000, "schedule.batch_size": 64}, watch=stop)
    assert begun[0] in (done, done + 1)  # the last line may be of an epoch whose checkpoint was not kept any more


def test_what_the_first_process_refuses_the_others_refuse(digits, tmp_path):
    """Outside the epochs too: here the folder holds another run."""
    source = write_source(tmp_path / "digits.npz", digits)
    train(digits, tmp_path / "run", k=10, method="kmeans")
    outputs = [process.communicate(timeout=120) for process in start_two(source, tmp_path / "run")]
    assert "another run" in json.loads(outputs[0][0])["error"]
    for _, said in outputs:
        assert "holds another run" in " ".join(said.split())  # the sentence is wrapped, and where depends on the path
        assert "Traceback" not in said


def test_digits_are_learnt_and_known_ones_well(digits, tmp_path):
    result = train(digits, tmp_path / "run", k=10)
    assert result["balanced_acc"]["old"] > 75
    assert result["balanced_acc"]["new"] > 50


def test_prediction_repeats_what_training_said(digits, tmp_path):
    """Without smoothing, which is for the collection's own items alone."""
    result = train(digits, tmp_path / "run", k=10, changes={**SHORT, "smoothing": 0})
    assert result["k"] == 10
    written = predict_source(Run(tmp_path / "run"), digits, tmp_path / "new.parquet")
    assert written["n"] == len(digits.collection)
    assert written["known"] + written["novel"] + written["unsure"] == written["n"]
    new = pq.read_table(tmp_path / "new.parquet")
    old = pq.read_table(tmp_path / "run" / "assignments.parquet")
    unlabelled = ~digits.collection.labelled
    assert np.array_equal(new.column("label").to_numpy()[unlabelled], old.column("label").to_numpy()[unlabelled])
    assert new.schema.names == old.schema.names


def test_new_vectors_of_another_length_are_refused(digits, tmp_path, npz):
    train(digits, tmp_path / "run", k=10, changes=SHORT)
    with pytest.raises(InputError, match="trained on 64"):
        predict_source(Run(tmp_path / "run"), read_source(npz()), tmp_path / "new.parquet")


def test_curves_go_to_tensorboard_where_it_is_installed(digits, tmp_path, monkeypatch):
    drawn = []

    class Writer:
        def __init__(self, folder, purge_step):
            assert folder == str(tmp_path / "run" / "tensorboard")
            self.step = purge_step

        def __enter__(self):
            return self

        def __exit__(self, *_error):
            pass

        def add_scalar(self, name, value, step):
            assert step == self.step
            drawn.append((name, step, value))

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", types.SimpleNamespace(SummaryWriter=Writer))
    train(digits, tmp_path / "run", k=10, changes=SHORT)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert ("loss_supervised", 3, lines[2]["loss_supervised"]) in drawn
    assert {step for _, step, _ in drawn} == {1, 2, 3, 4}
    assert not any(name in ("epoch", "density", "held_out_balanced_acc") for name, _, _ in drawn)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Noisy pictures of four colours, two of them labelled, embedded with three views."""
    folder = tmp_path_factory.mktemp("pictures")
    shades = np.random.RandomState(0).randint(0, 256, (4, 3))
    draw = np.random.RandomState(1)
    from PIL import Image

    for number in range(48):
        name = ("red", "blue", "unlabelled", "unlabelled")[number % 4] if number % 8 < 4 else "unlabelled"
        pixels = np.clip(shades[number % 4] + draw.normal(0, 60, (40, 40, 3)), 0, 255).astype(np.uint8)
        path = folder / "photos" / name / f"{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    source = read_source(folder / "photos")
    embed(source, load_backbone("efficientnet_lite0", image_size=32), folder / "features", views=3)
    return folder


def test_the_last_stage_learns_from_cached_views_and_predicts_pictures(pictures, tmp_path):
    store = open_features(pictures / "features")
    source = read_source(pictures / "features")
    changes = {"schedule.epochs": 2, "schedule.batch_size": 16}
    result = train(source, tmp_path / "run", k=4, changes=changes, store=store)
    assert result["k"] == 4
    config = (tmp_path / "run" / "config.toml").read_text()
    assert 'regime = "last-stage"' in config
    tail = load_backbone("efficientnet_lite0", image_size=32).tail.state_dict()
    trained, _ = read_tensors(tmp_path / "run" / "model.safetensors")
    moved = [name for name, value in tail.items() if not torch.equal(trained[f"tail.0.{name}"], value)]
    assert moved, "the last stage was not trained"
    assert not any("running" in name for name in moved), "its statistics are fixed"
    # New pictures are embedded on the way; the same pictures get the same labels.
    photos = read_source(pictures / "photos")
    again = predict_source(Run(tmp_path / "run"), photos, tmp_path / "new.parquet")
    assert again["n"] == 48
    new = pq.read_table(tmp_path / "new.parquet")
    old = pq.read_table(tmp_path / "run" / "assignments.parquet")
    by_id = dict(zip(new.column("id").to_pylist(), new.column("label").to_pylist(), strict=True))
    free = [i for i, y in zip(source.collection.ids.to_pylist(), source.collection.y, strict=True) if y < 0]
    labels = dict(zip(old.column("id").to_pylist(), old.column("label").to_pylist(), strict=True))
    assert [by_id[i] for i in free] == [labels[i] for i in free]


FEW = {"schedule.epochs": 4, "schedule.batch_size": 16, "schedule.learning_rate": 0.003}  # at 0.1 the features collapse


def test_the_last_stage_goes_on_where_it_was_stopped(pictures, tmp_path):
    """With its own default: contrastive losses, neighbours, and a graph that each epoch makes of the weights."""
    store, source = open_features(pictures / "features"), read_source(pictures / "features")
    train(source, tmp_path / "whole", k=4, changes=FEW, store=store)

    def stop(epoch, _sets):
        if epoch == 4:
            raise StopHere

    with pytest.raises(StopHere):
        train(source, tmp_path / "stopped", k=4, changes=FEW, store=store, watch=stop)
    assert epochs_done(tmp_path / "stopped") == 3
    begun = []
    train(source, tmp_path / "stopped", k=4, changes=FEW, store=store, watch=lambda epoch, _: begun.append(epoch))
    assert begun == [4]
    tables = [pq.read_table(tmp_path / name / "assignments.parquet") for name in ("whole", "stopped")]
    assert tables[0].equals(tables[1])
    whole, resumed = (read_tensors(tmp_path / name / "model.safetensors")[0] for name in ("whole", "stopped"))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole | resumed)
    last = json.loads((tmp_path / "stopped" / "metrics.jsonl").read_text().splitlines()[-1])
    assert {"loss_neighbour", "loss_self_con", "loss_prior"} <= set(last)


EPOCHS = 5  # of two processes: enough to kill one of them in between
RATE = f"schedule.learning_rate={FEW['schedule.learning_rate']}"
TWO = ("--k", "4", "--epochs", str(EPOCHS), "--set", "schedule.batch_size=16", "--set", RATE, "--regime", "last-stage")


@pytest.fixture(scope="module")
def two_of_torchrun(pictures, tmp_path_factory) -> Path:
    """A run that two processes have trained."""
    run = tmp_path_factory.mktemp("torchrun") / "run"
    two = start_two(pictures / "features", run, *TWO)
    outputs = [process.communicate(timeout=240) for process in two]
    assert [process.returncode for process in two] == [0, 0], outputs
    return run


def test_two_processes_train_the_last_stage_like_one(pictures, two_of_torchrun, tmp_path):
    store, source = open_features(pictures / "features"), read_source(pictures / "features")
    train(source, tmp_path / "one", k=4, changes={**FEW, "schedule.epochs": EPOCHS}, store=store)
    runs = (tmp_path / "one", two_of_torchrun)
    lines = [[json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()] for run in runs]
    # Not the same bits: floating point sums are taken in another order.
    for one, other in zip(*(part[:2] for part in lines), strict=True):
        losses = [name for name in one if name.startswith("loss_")]
        assert "loss_neighbour" in losses
        assert [one[name] for name in losses] == pytest.approx([other[name] for name in losses], rel=1e-3, abs=1e-4)
    confidences = [pq.read_table(run / "assignments.parquet").column("confidence").to_numpy() for run in runs]
    np.testing.assert_allclose(*confidences, atol=1e-2)


def test_two_of_a_cluster_of_which_one_dies_train_the_last_stage_like_two_of_torchrun(
    pictures, two_of_torchrun, tmp_path
):
    """The same loop and world: both begin again at the last epoch; weights to the last bit, and nothing left behind."""
    pytest.importorskip("ray")
    ray = start_training(pictures / "features", tmp_path / "ray", *TWO, "--cluster", "ray", "--workers", "2")
    wait_for(lambda: epochs_done(tmp_path / "ray") >= 1, ray, 240)  # a busy machine takes minutes to start them
    started = psutil.Process(ray.pid).children(recursive=True)
    trained_by = [process for process in started if "RayTrainWorker" in " ".join(process.cmdline())]
    assert len(trained_by) == 2
    trained_by[0].kill()
    assert epochs_done(tmp_path / "ray") < EPOCHS
    out, err = ray.communicate(timeout=240)
    assert ray.returncode == 0, err
    assert "2 processes of the cluster train together" in err
    assert err.count("training with ltgcd") == 2, err
    assert json.loads(out)["k"] == 4
    tables = [pq.read_table(run / "assignments.parquet") for run in (two_of_torchrun, tmp_path / "ray")]
    assert tables[1].equals(tables[0])
    first, second = (read_tensors(run / "model.safetensors")[0] for run in (two_of_torchrun, tmp_path / "ray"))
    assert all(torch.equal(first[name], second[name]) for name in first | second)
    assert epochs_done(tmp_path / "ray") == EPOCHS
    assert not (tmp_path / "ray" / "shared").exists()


def test_without_views_the_last_stage_is_refused(digits, tmp_path):
    with pytest.raises(InputError, match="--views 4"):
        train(digits, tmp_path / "run", k=10, regime="last-stage")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", BASELINES)
def test_the_estimator_takes_every_method(digits, method):
    problem = problem_of(digits, every=3)
    x, y = problem.x, problem.y
    settings = {**SMALL[method], "schedule.batch_size": 64}
    model = CategoryDiscovery(n_classes=10, method=method, epochs=1, settings=settings).fit(x, y)
    assert np.array_equal(model.predict(x)[y < 0], model.labels_[y < 0])
    assert np.array_equal(model.labels_[y >= 0], y[y >= 0])


def test_a_run_directory_of_a_baseline_predicts(digits, tmp_path):
    source = write_source(tmp_path / "digits.npz", digits)
    changes = {"schedule.epochs": 1, "schedule.batch_size": 64, **SMALL["uno"]}
    result = train(read_source(source), tmp_path / "run", method="uno", k=10, changes=changes)
    assert set(result["balanced_acc"]) == {"all", "old", "new"}
    predict_source(Run(tmp_path / "run"), digits, tmp_path / "new.parquet")
    new, old = pq.read_table(tmp_path / "new.parquet"), pq.read_table(tmp_path / "run" / "assignments.parquet")
    free = ~digits.collection.labelled
    assert np.array_equal(new.column("label").to_numpy()[free], old.column("label").to_numpy()[free])


@pytest.mark.parametrize("method", BASELINES)
def test_the_last_stage_is_trained_and_predicts(pictures, tmp_path, method):
    source, store = read_source(pictures / "features"), open_features(pictures / "features")
    changes = {"schedule.epochs": 1, "schedule.batch_size": 16, **SMALL[method]}
    result = train(source, tmp_path / "run", method=method, k=4, changes=changes, store=store)
    assert result["k"] == 4
    trained, _ = read_tensors(tmp_path / "run" / "model.safetensors")
    tail = load_backbone("efficientnet_lite0", image_size=32).tail.state_dict()
    assert any(not torch.equal(trained[f"tail.0.{name}"], value) for name, value in tail.items())
    predict_source(Run(tmp_path / "run"), source, tmp_path / "new.parquet", store=store)
    new, old = pq.read_table(tmp_path / "new.parquet"), pq.read_table(tmp_path / "run" / "assignments.parquet")
    free = source.collection.y < 0
    assert np.array_equal(new.column("label").to_numpy()[free], old.column("label").to_numpy()[free])
