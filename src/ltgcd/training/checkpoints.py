"""Checkpoints of a training run: whole or not there, checked before they are used, the one before kept as well."""

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
BEST = "best.safetensors"


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


class Checkpoints:
    """The checkpoints of one training run: weights and momentum after an epoch, and the best weights so far.

    Parameters
    ----------
    folder : path
        Where they are kept; it belongs to this run alone, and need not be there yet.
    owner : str
        Which run that is: a checkpoint of another one, or of another stage or epoch of the same, is not taken for this.
    """

    def __init__(self, folder: Path, owner: str = "") -> None:
        self.folder, self.owner = folder, owner

    def read(self, path: Path) -> tuple[dict[str, torch.Tensor], dict[str, float | int | str | None]]:
        """Read a checkpoint, or say in a sentence that it is damaged, or not the one that was written there."""
        tensors, note = read_tensors(path)
        if note.get("place", self._place(path)) != self._place(path):
            raise InputError(f"{path} is of another run, stage or epoch; train again in a new folder.")
        return tensors, note

    def _place(self, path: Path) -> str:
        return f"{self.folder.name}/{path.name} {self.owner}"

    def save(self, epoch: int, model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        """Keep weights and momentum after an epoch, and drop all checkpoints but this and the one before.

        Later ones can only be damaged: training would have gone on from them.
        """
        tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
        for number, parameter in enumerate(_parameters(optimiser)):
            momentum = optimiser.state[parameter].get("momentum_buffer")
            if momentum is not None:
                tensors[f"momentum.{number}"] = momentum
        path = self.folder / f"epoch-{epoch:05d}.safetensors"
        write_tensors(path, tensors, {"epoch": epoch, "place": self._place(path)})
        epochs = self._epochs()
        kept = epochs[: epochs.index(path) + 1][-KEPT:]
        for other in epochs:
            if other not in kept:
                other.unlink(missing_ok=True)

    def load(self, model: nn.Module, optimiser: torch.optim.Optimizer, notify: Callable[[str], None]) -> int:
        """Load the newest whole checkpoint into model and optimiser; return its number of finished epochs, 0 if none.

        A damaged one is told, and the one before is taken.
        """
        epochs = self._epochs()
        for place, path in reversed(list(enumerate(epochs))):
            try:
                tensors, note = self.read(path)
            except InputError:
                before = epochs[place - 1].name if place else "the beginning"
                notify(f"{path} is damaged; training goes on from {before}")
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

    def save_best(self, epoch: int, model: nn.Module, score: float | None) -> None:
        """Keep the weights as the best so far if their score is higher than that of the ones kept.

        Without a score they are kept always.
        """
        path = self.folder / BEST
        if path.is_file() and score is not None:
            try:
                best = self.read(path)[1]["score"]
            except InputError:
                best = None
            if best is not None and float(best) >= score:
                return
        write_tensors(path, dict(model.state_dict()), {"epoch": epoch, "score": score, "place": self._place(path)})

    def load_best(self, model: nn.Module) -> None:
        """Load the best weights into the model."""
        model.load_state_dict(self.read(self.folder / BEST)[0])

    def _epochs(self) -> list[Path]:
        return sorted(self.folder.glob("epoch-*.safetensors"))


def _parameters(optimiser: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [parameter for group in optimiser.param_groups for parameter in group["params"]]


def _checksum(tensors: dict[str, torch.Tensor], note: str) -> int:
    """CRC-32 of all that is in a file: the note, and names, types, shapes and numbers of the tensors."""
    value = zlib.crc32(note.encode())
    for name, tensor in sorted(tensors.items()):
        value = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), value)
        value = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, value)
    return value
