"""Checkpoints of a run: whole or not there, checked before they are used, the one before kept as well."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from ltgcd.common.errors import InputError
from ltgcd.common.files import atomic_path

KEPT = 2  # epochs


def write_tensors(path: Path, tensors: dict[str, torch.Tensor], note: dict[str, float | int | str | None]) -> None:
    """Write tensors and a note, with a checksum of both."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(note)
    with atomic_path(path) as temporary:
        temporary.write_bytes(save(tensors, {"checksum": str(_checksum(tensors, text)), "note": text}))


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, float | int | str | None]]:
    """Read tensors and the note, or say in a sentence that the file is not there, or damaged in a single bit."""
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            metadata = file.metadata() or {}
    except FileNotFoundError as error:
        raise InputError(f"{path} is not there.") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{path} is damaged; train again in a new folder.") from error
    text = metadata.get("note", "")
    if metadata.get("checksum") != str(_checksum(tensors, text)):
        raise InputError(f"{path} is damaged; train again in a new folder.")
    return tensors, json.loads(text)


def save_checkpoint(folder: Path, epoch: int, model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Store weights and momentum after an epoch, and drop all checkpoints but this and the one before.

    Later ones can only be damaged: training would have gone on from them.
    """
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    for number, parameter in enumerate(_parameters(optimiser)):
        momentum = optimiser.state[parameter].get("momentum_buffer")
        if momentum is not None:
            tensors[f"momentum.{number}"] = momentum
    path = folder / f"epoch-{epoch:05d}.safetensors"
    write_tensors(path, tensors, {"epoch": epoch})
    found = _found(folder)
    kept = found[: found.index(path) + 1][-KEPT:]
    for other in found:
        if other not in kept:
            other.unlink(missing_ok=True)


def load_checkpoint(
    folder: Path, model: nn.Module, optimiser: torch.optim.Optimizer, notify: Callable[[str], None]
) -> int:
    """Load the newest whole checkpoint into model and optimiser; return its number of finished epochs, 0 if none."""
    found = _found(folder)
    for place, path in reversed(list(enumerate(found))):
        try:
            tensors, note = read_tensors(path)
        except InputError:
            notify(f"{path} is damaged; training goes on from {found[place - 1].name if place else 'the beginning'}")
            continue
        state = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
        try:
            model.load_state_dict(state)
        except RuntimeError as error:
            raise InputError(f"{path} is of another model; give a new folder with --out.") from error
        for number, parameter in enumerate(_parameters(optimiser)):
            if f"momentum.{number}" in tensors:
                optimiser.state[parameter]["momentum_buffer"] = tensors[f"momentum.{number}"].to(parameter.device)
        return int(note["epoch"] or 0)
    return 0


def save_best(folder: Path, epoch: int, model: nn.Module, score: float | None) -> None:
    """Keep the weights as the best so far if their score is higher than that of the ones kept; without one, always."""
    path = folder / "best.safetensors"
    if path.is_file() and score is not None:
        try:
            kept = read_tensors(path)[1]["score"]
        except InputError:
            kept = None
        if kept is not None and float(kept) >= score:
            return
    write_tensors(path, dict(model.state_dict()), {"epoch": epoch, "score": score})


def best_checkpoint(folder: Path, model: nn.Module) -> None:
    """Load the best weights into the model."""
    model.load_state_dict(read_tensors(folder / "best.safetensors")[0])


def _found(folder: Path) -> list[Path]:
    return sorted(folder.glob("epoch-*.safetensors"))


def _parameters(optimiser: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [parameter for group in optimiser.param_groups for parameter in group["params"]]


def _checksum(tensors: dict[str, torch.Tensor], note: str) -> int:
    """CRC-32 of all that is in a file: the note, and names, types, shapes and numbers of the tensors."""
    value = zlib.crc32(note.encode())
    for name, tensor in sorted(tensors.items()):
        value = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), value)
        value = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, value)
    return value
