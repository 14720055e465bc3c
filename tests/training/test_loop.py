"""The loop and what it promises: resume, kill, several processes, held-out items, prediction on new items."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from ltgcd.common.errors import InputError
from ltgcd.data.collection import Source
from ltgcd.data.digits import digits_source
from ltgcd.features.backbones.engines import half_precision
from ltgcd.features.views import VectorViews
from ltgcd.training.checkpoints import Checkpoints, read_tensors
from ltgcd.training.config import changed
from ltgcd.training.distributed import World
from ltgcd.training.fit import by_size, fit_model, hold_out
from ltgcd.training.loop import Batch, Plan, batches, fit
from ltgcd.training.methods import METHODS
from ltgcd.training.model import FittedModel, Model
from ltgcd.training.problem import Problem
from ltgcd.training.schedule import Schedule, cosine, make_optimiser

SHORT = {"schedule.epochs": 4, "schedule.batch_size": 64}


@pytest.fixture(scope="module")
def digits() -> Source:
    return digits_source()


def problem_of(source: Source, k: int = 10) -> Problem:
    collection = source.collection
    return Problem(collection.items.x.astype(np.float32), collection.y, collection.n_old, k)


# ---------------------------------------------------------------- one step, by hand


class Pull:
    """The smallest objective: draw every feature towards zero."""

    def plan(self, _done, _snapshot):
        return Plan(np.array([2, 3]), {"note": 1})

    def losses(self, features, _outputs, batch):
        assert isinstance(batch, Batch)
        return {"pull": (features**2).sum() / len(features)}


class Keep(nn.Module):
    def forward(self, features):
        return {"logits": features}


def test_a_step_is_sgd_with_momentum_and_a_cosine():
    y = np.array([0, 0, -1, -1])
    tail = nn.Linear(1, 1, bias=False)
    nn.init.ones_(tail.weight)
    lines = []
    views = VectorViews(np.ones((4, 1), np.float32), dropout=0.0)
    schedule = Schedule(epochs=2, batch_size=4, learning_rate=0.1, momentum=0.5, weight_decay=0.0)
    snapshot = fit(Model(tail, Keep()), Pull(), views, y, schedule, record=lines.append)
    # Two steps on loss w²: w ← w − lr v, v ← 0.5 v + 2 w; lr 0.1, then half way down the cosine.
    w, v = 1.0, 0.0
    for rate in (0.1, 0.1 * (1e-3 + (1 - 1e-3) * 0.5)):
        v = 0.5 * v + 2 * w
        w -= rate * v
    assert snapshot.features[0, 0] == pytest.approx(w, rel=1e-5)
    assert [line["epoch"] for line in lines] == [1, 2]
    assert lines[0]["loss_pull"] == pytest.approx(1.0)
    assert lines[0]["note"] == 1


def test_cosine_ends_at_a_thousandth():
    assert cosine(0.1, 0.0) == pytest.approx(0.1)
    assert cosine(0.1, 1.0) == pytest.approx(1e-4)


def test_one_dimensional_parameters_do_not_decay():
    optimiser = make_optimiser(nn.Linear(3, 2), Schedule(weight_decay=0.3))
    decay = {p.ndim: group["weight_decay"] for group in optimiser.param_groups for p in group["params"]}
    assert decay == {2: 0.3, 1: 0.0}


def test_a_batch_is_half_labelled_and_from_the_pool():
    views = VectorViews(np.arange(20, dtype=np.float32)[:, None], dropout=0.0)
    drawn = list(
        batches(views, np.arange(5), np.array([7, 9]), 30, Schedule(batch_size=8), np.random.RandomState(0), World())
    )
    rows = np.stack([r for r, _ in drawn])
    assert rows.shape == (30, 8)
    assert ((rows < 5).sum(axis=1) == 4).all()
    assert set(np.unique(rows)) == {0, 1, 2, 3, 4, 7, 9}
    # Both views belong to the rows, first views before second ones.
    assert all(torch.equal(pair[:, 0], torch.from_numpy(np.tile(r, 2)).float()) for r, pair in drawn)


def test_an_empty_pool_leaves_the_labelled_items():
    views = VectorViews(np.zeros((6, 1), np.float32))
    args = (Schedule(batch_size=4), np.random.RandomState(0), World())
    rows = [r for r, _ in batches(views, np.arange(2), np.array([], dtype=np.int64), 3, *args)]
    assert np.concatenate(rows).max() < 2


def test_short_floats_only_where_a_gpu_computes_with_them(monkeypatch):
    assert half_precision(torch.device("cpu")) is None
    for native, wanted in ((True, torch.bfloat16), (False, torch.float16)):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation, native=native: native)
        assert half_precision(torch.device("cuda")) is wanted


def test_processes_share_a_batch_without_overlap():
    views = VectorViews(np.random.RandomState(0).randn(20, 3).astype(np.float32), dropout=0.5)
    args = (views, np.arange(5), np.arange(5, 20), 3, Schedule(batch_size=8))
    whole = list(batches(*args, np.random.RandomState(1), World()))
    parts = [list(batches(*args, np.random.RandomState(1), World(rank, 2))) for rank in range(2)]
    for (rows, pair), (rows_a, a), (rows_b, b) in zip(whole, *parts, strict=True):
        assert np.array_equal(rows, rows_a)
        assert np.array_equal(rows, rows_b)
        first, second = zip(a.chunk(2), b.chunk(2), strict=True)
        assert torch.equal(pair, torch.cat([*first, *second]))


def test_divergence_and_odd_batches_are_a_sentence():
    problem = Problem(np.random.RandomState(0).randn(40, 8).astype(np.float32), np.repeat([0, 1, -1, -1], 10), 2, 4)
    wild = changed(METHODS["simgcd"].preset("frozen"), {**SHORT, "schedule.learning_rate": 1e30})
    with pytest.raises(InputError, match="diverged"):
        fit_model(problem, wild)
    with pytest.raises(InputError, match="multiple of 2"):
        fit_model(problem, changed(METHODS["simgcd"].preset("frozen"), {"schedule.batch_size": 63}))


# ---------------------------------------------------------------- held-out items, order of the classes


def test_hold_out_hides_a_share_of_each_class_and_keeps_three():
    y = np.concatenate([np.repeat([0, 1, 2], [20, 4, 2]), np.full(5, -1)])
    kept, held = hold_out(y, 0.5, 0)
    assert hold_out(y, 0.0, 0)[1] is None
    assert np.bincount(held[held >= 0], minlength=3).tolist() == [10, 1, 0]
    assert np.bincount(kept[kept >= 0], minlength=3).tolist() == [10, 3, 2]
    assert ((kept == y) ^ (held >= 0)).all()
    assert (held[held >= 0] == y[held >= 0]).all()


def test_novel_classes_are_numbered_by_size():
    assert by_size(np.array([0, 3, 1, 2, 3]), 2).tolist() == [0, 1, 4, 3, 2]


def test_the_best_epoch_by_held_out_items_is_kept(digits, tmp_path):
    experiment = changed(METHODS["ltgcd"].preset("frozen"), {**SHORT, "held_out": 0.3, "schedule.choose": "held-out"})
    lines = []
    fit_model(problem_of(digits), experiment, checkpoints=Checkpoints(tmp_path), record=lines.append)
    scores = [line["held_out_balanced_acc"] for line in lines]
    assert all(0 <= score <= 100 for score in scores)
    note = read_tensors(tmp_path / "best.safetensors")[1]
    assert note["score"] == max(scores)
    assert note["epoch"] == 1 + scores.index(max(scores))


# ---------------------------------------------------------------- resume


class StopHere(Exception):
    pass


# What the default of the last stage has and that of frozen features has not: it keeps things from epoch to epoch too.
NEIGHBOURS = {"neighbour_weight": 0.3, "selection.graph": "epoch"}


@pytest.mark.parametrize(("method", "changes"), [("simgcd", {}), ("ltgcd", {}), ("ltgcd", NEIGHBOURS)])
def test_a_run_that_was_stopped_goes_on_to_the_same_result(digits, tmp_path, method, changes):
    experiment = changed(METHODS[method].preset("frozen"), {**SHORT, **changes})
    whole = fit_model(problem_of(digits), experiment)

    def stop(line):
        if line["epoch"] == 3:
            raise StopHere

    with pytest.raises(StopHere):
        fit_model(problem_of(digits), experiment, checkpoints=Checkpoints(tmp_path), record=stop)
    lines = []
    resumed = fit_model(problem_of(digits), experiment, checkpoints=Checkpoints(tmp_path), record=lines.append)
    assert [line["epoch"] for line in lines] == [3, 4]
    assert all(("loss_neighbour" in line) == bool(changes) for line in lines)
    assert np.array_equal(np.asarray(whole.probabilities), np.asarray(resumed.probabilities))
    assert np.array_equal(whole.features, resumed.features)


def test_a_damaged_checkpoint_costs_one_epoch_and_says_so(digits, tmp_path):
    experiment = changed(METHODS["simgcd"].preset("frozen"), SHORT)
    whole = fit_model(problem_of(digits), experiment, checkpoints=Checkpoints(tmp_path))
    newest = sorted(tmp_path.glob("epoch-*"))[-1]
    content = bytearray(newest.read_bytes())
    content[-5] ^= 1
    newest.write_bytes(bytes(content))
    said, lines = [], []
    again = fit_model(
        problem_of(digits), experiment, checkpoints=Checkpoints(tmp_path), record=lines.append, notify=said.append
    )
    assert "epoch-00004" in said[0]
    assert "damaged" in said[0]
    assert [line["epoch"] for line in lines] == [4]
    assert np.array_equal(np.asarray(whole.probabilities), np.asarray(again.probabilities))


# ---------------------------------------------------------------- several processes


def test_only_a_lost_connection_is_the_death_of_another_process():
    world = World(0, 2)
    with pytest.raises(InputError, match="died or does not answer"), world.alive(None):
        raise RuntimeError("[../third_party/gloo/transport/tcp/pair.cc:534] Connection closed by peer")
    with pytest.raises(RuntimeError, match="out of memory"), world.alive(None):
        raise RuntimeError("CUDA out of memory")


# ---------------------------------------------------------------- quality, prediction


def test_a_model_from_its_state_says_the_same_bit_for_bit(digits):
    fitted = fit_model(problem_of(digits), changed(METHODS["ltgcd"].preset("frozen"), SHORT)).fitted
    loaded = FittedModel.from_state(*fitted.state(), tail=lambda: pytest.fail("no last stage was trained"))
    views = VectorViews(digits.collection.items.x.astype(np.float32))
    assert np.array_equal(fitted.predict(views), loaded.predict(views))
