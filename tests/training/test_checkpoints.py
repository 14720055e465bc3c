"""Checkpoints: whole or refused, down to a single bit; the one before as a way out; momentum to the last bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from ltgcd.common.errors import InputError
from ltgcd.training.checkpoints import Checkpoints, read_tensors, write_tensors


def trained(steps: int, seed: int = 0) -> tuple[nn.Module, torch.optim.SGD]:
    """A small model after some steps of SGD with momentum; its batch norm has buffers, an integer among them."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2, bias=False))
    optimiser = torch.optim.SGD(
        [
            {"params": [p for p in model.parameters() if p.ndim > 1]},
            {"params": [p for p in model.parameters() if p.ndim < 2]},
        ],
        lr=0.1,
        momentum=0.9,
    )
    step(model, optimiser, steps)
    return model, optimiser


def step(model: nn.Module, optimiser: torch.optim.SGD, steps: int) -> None:
    for number in range(steps):
        x = torch.randn(5, 3, generator=torch.Generator().manual_seed(number))
        optimiser.zero_grad()
        model(x).square().sum().backward()
        optimiser.step()


def state(model: nn.Module, optimiser: torch.optim.SGD) -> list[torch.Tensor]:
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    return [*model.state_dict().values(), *(optimiser.state[p]["momentum_buffer"] for p in parameters)]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(x.dtype == y.dtype and torch.equal(x, y) for x, y in zip(a, b, strict=True))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def silent(message: str) -> None:
    raise AssertionError(message)


# ---------------------------------------------------------------- files


def test_tensors_of_every_kind_come_back(tmp_path: Path) -> None:
    tensors = {
        "a": torch.randn(2, 3),
        "scalar": torch.tensor(7),
        "empty": torch.empty(0, 4),
        "half": torch.randn(3).half(),
        "brain": torch.randn(3).bfloat16(),
        "flags": torch.tensor([True, False]),
        "turned": torch.randn(3, 2).T,
        "trained": torch.randn(2, requires_grad=True),
    }
    note = {"epoch": 3, "score": 0.1 + 0.2, "name": "Größe", "none": None}
    write_tensors(tmp_path / "deep" / "x.safetensors", tensors, note)
    got, again = read_tensors(tmp_path / "deep" / "x.safetensors")
    assert again == note
    assert set(got) == set(tensors)
    assert same([got[n] for n in sorted(got)], [tensors[n].detach() for n in sorted(tensors)])
    assert names(tmp_path / "deep") == ["x.safetensors"]  # nothing half-written left


def test_every_single_bit_counts(tmp_path: Path) -> None:
    """A flip anywhere, in a number, a shape, a type, a name, the epoch: refused, or else nothing is different."""
    path = tmp_path / "x.safetensors"
    tensors = {"a.weight": torch.randn(2, 2), "b": torch.tensor([[3], [4]])}
    write_tensors(path, tensors, {"epoch": 12})
    whole = path.read_bytes()
    for at in range(len(whole)):
        for bit in (0, 2, 3, 7):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :])
            try:
                got, note = read_tensors(path)
            except InputError as error:
                assert str(error) == f"{path} is damaged; train again in a new folder."
                continue
            assert note == {"epoch": 12}, (at, bit)
            assert set(got) == set(tensors), (at, bit)
            assert same([got["a.weight"], got["b"]], list(tensors.values())), (at, bit)


@pytest.mark.parametrize(("held", "said"), [(b"F32", b"I32"), (b"[2,3]", b"[3,2]"), (b"[2,3]", b"[6,1]")])
def test_the_same_bytes_read_as_other_numbers_are_refused(tmp_path: Path, held: bytes, said: bytes) -> None:
    path = tmp_path / "x.safetensors"
    write_tensors(path, {"a": torch.randn(2, 3)}, {})
    assert path.read_bytes().count(held) == 1
    path.write_bytes(path.read_bytes().replace(held, said))
    with pytest.raises(InputError, match="is damaged"):
        read_tensors(path)


def test_truncated_anywhere_empty_foreign_or_missing(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_tensors(path, {"a": torch.randn(2, 2)}, {})
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="is damaged"):
            read_tensors(path)
    path.write_bytes(b"\x80\x02}q\x00." * 50)
    with pytest.raises(InputError, match="is damaged"):
        read_tensors(path)
    path.unlink()
    with pytest.raises(InputError, match="is not there"):
        read_tensors(path)


def test_a_file_of_another_tool_has_no_checksum(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"a": torch.ones(2)}, tmp_path / "x.safetensors")
    with pytest.raises(InputError, match="is damaged"):
        read_tensors(tmp_path / "x.safetensors")


# ---------------------------------------------------------------- epochs


def test_resumed_training_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    model, optimiser = trained(3)
    Checkpoints(tmp_path).save(1, model, optimiser)
    step(model, optimiser, 4)
    other, fresh = trained(0, seed=9)
    assert Checkpoints(tmp_path).load(other, fresh, silent) == 1
    step(other, fresh, 4)
    assert same(state(model, optimiser), state(other, fresh))


def test_momentum_is_stored_by_place_and_only_once_there_is_some(tmp_path: Path) -> None:
    model, optimiser = trained(0)
    Checkpoints(tmp_path).save(1, model, optimiser)
    other, fresh = trained(0, seed=9)
    assert Checkpoints(tmp_path).load(other, fresh, silent) == 1
    assert not any("momentum_buffer" in fresh.state[p] for group in fresh.param_groups for p in group["params"])
    step(model, optimiser, 2)
    step(other, fresh, 2)
    assert same(state(model, optimiser), state(other, fresh))


def test_two_are_kept(tmp_path: Path) -> None:
    model, optimiser = trained(1)
    (tmp_path / "notes.txt").write_text("mine")
    for epoch in (1, 2, 3, 9, 10, 11):
        Checkpoints(tmp_path).save(epoch, model, optimiser)
    assert names(tmp_path) == ["epoch-00010.safetensors", "epoch-00011.safetensors", "notes.txt"]
    assert Checkpoints(tmp_path).load(model, optimiser, silent) == 11


def test_nothing_to_load(tmp_path: Path) -> None:
    model, optimiser = trained(1)
    assert Checkpoints(tmp_path).load(model, optimiser, silent) == 0
    assert Checkpoints(tmp_path / "none").load(model, optimiser, silent) == 0


@pytest.mark.parametrize("harm", ["byte", "truncated", "empty"])
def test_a_damaged_one_falls_back_to_the_one_before_and_says_so(tmp_path: Path, harm: str) -> None:
    model, optimiser = trained(1)
    Checkpoints(tmp_path).save(4, model, optimiser)
    good = [t.clone() for t in state(model, optimiser)]
    step(model, optimiser, 1)
    Checkpoints(tmp_path).save(5, model, optimiser)
    damaged = tmp_path / "epoch-00005.safetensors"
    whole = damaged.read_bytes()
    damaged.write_bytes(
        {"byte": whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:], "truncated": whole[:-9], "empty": b""}[harm]
    )
    other, fresh = trained(0, seed=9)
    said: list[str] = []
    assert Checkpoints(tmp_path).load(other, fresh, said.append) == 4
    assert said == [f"{damaged} is damaged; training goes on from epoch-00004.safetensors"]
    assert same(state(other, fresh), good)


def test_all_damaged_starts_again_and_the_new_ones_are_not_thrown_away(tmp_path: Path) -> None:
    """Two damaged files of later epochs must not count as the two that are kept."""
    model, optimiser = trained(1)
    for epoch in (4, 5):
        Checkpoints(tmp_path).save(epoch, model, optimiser)
        (tmp_path / f"epoch-{epoch:05d}.safetensors").write_bytes(b"lost")
    said: list[str] = []
    assert Checkpoints(tmp_path).load(model, optimiser, said.append) == 0
    assert [line.rsplit(" from ")[1] for line in said] == ["epoch-00004.safetensors", "the beginning"]
    Checkpoints(tmp_path).save(1, model, optimiser)
    assert names(tmp_path) == ["epoch-00001.safetensors"]
    Checkpoints(tmp_path).save(2, model, optimiser)
    assert Checkpoints(tmp_path).load(model, optimiser, silent) == 2


def test_a_checkpoint_of_another_model(tmp_path: Path) -> None:
    model, optimiser = trained(1)
    Checkpoints(tmp_path).save(1, model, optimiser)
    other = nn.Linear(3, 4)
    with pytest.raises(InputError, match="is of another model; give a new folder with --out"):
        Checkpoints(tmp_path).load(other, torch.optim.SGD(other.parameters(), lr=0.1), silent)


# ---------------------------------------------------------------- best


def test_the_best_is_kept_the_first_of_equals(tmp_path: Path) -> None:
    model, _ = trained(0)
    weights = []
    for epoch, score in enumerate([40.0, 60.0, 60.0, 50.0], start=1):
        with torch.no_grad():
            next(model.parameters()).add_(1)
        weights.append([t.clone() for t in model.state_dict().values()])
        Checkpoints(tmp_path).save_best(epoch, model, score)
    noted = read_tensors(tmp_path / "best.safetensors")[1]
    assert (noted["epoch"], noted["score"]) == (2, 60.0)
    Checkpoints(tmp_path).load_best(model)
    assert same(list(model.state_dict().values()), weights[1])


def test_a_checkpoint_of_another_run_stage_or_epoch_is_not_taken(tmp_path: Path) -> None:
    model, optimiser = trained(0)
    here, there = Checkpoints(tmp_path / "main", "a"), Checkpoints(tmp_path / "other", "b")
    for one in (here, there):
        one.save(1, model, optimiser)
        one.save(2, model, optimiser)
    newest, before = (here.folder / f"epoch-0000{n}.safetensors" for n in (2, 1))
    for foreign in (there.folder / newest.name, before):
        newest.write_bytes(foreign.read_bytes())
        with pytest.raises(InputError, match="another run, stage or epoch"):
            here.read(newest)
        told: list[str] = []
        assert here.load(model, optimiser, told.append) == 1, "training goes on from the one before"
        assert len(told) == 1
    assert Checkpoints(tmp_path / "main", "b").load(model, optimiser, told.append) == 0


def test_without_a_score_the_last_counts_and_damage_is_replaced(tmp_path: Path) -> None:
    model, _ = trained(0)
    for epoch in (1, 2):
        Checkpoints(tmp_path).save_best(epoch, model, None)
    assert read_tensors(tmp_path / "best.safetensors")[1]["epoch"] == 2
    Checkpoints(tmp_path).save_best(3, model, 10.0)  # any score is better than none
    assert read_tensors(tmp_path / "best.safetensors")[1]["epoch"] == 3
    (tmp_path / "best.safetensors").write_bytes(b"lost")
    with pytest.raises(InputError, match="is damaged; train again"):
        Checkpoints(tmp_path).load_best(model)
    Checkpoints(tmp_path).save_best(4, model, 5.0)
    Checkpoints(tmp_path).load_best(model)
