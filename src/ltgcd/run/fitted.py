"""`FittedRun`: what training leaves in a run directory: estimate, curves, checkpoints, model and labels."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ltgcd.common.checksums import checked_object, unchecked_object, write_table
from ltgcd.common.errors import InputError
from ltgcd.common.files import read_json, read_metadata, write_json
from ltgcd.data.collection import check_unique
from ltgcd.data.labels import strings
from ltgcd.data.parquet import check_table, parquet_file, read_parquet
from ltgcd.discovery.assignments import ASSIGNMENT_COLUMNS
from ltgcd.run.files import DAMAGED, read_lines, read_toml, write_lines, write_toml
from ltgcd.run.folder import RunFolder
from ltgcd.run.paths import FITS, METRICS, TENSORBOARD, RunFiles, files_of

if TYPE_CHECKING:
    import torch

    from ltgcd.training.checkpoints import Checkpoints


class FittedRun(RunFolder):
    """A run directory with what was fitted to its items; `Run` adds what came later."""

    # ------------------------------------------------------------ the number of classes

    def estimate(self) -> dict[str, Any] | None:
        """The estimate of the number of classes, if it was asked for."""
        path = self.model_files.estimate
        if not path.is_file():
            return None  # a refined run with a number of classes that was given
        estimate = read_json(self.contents.held(path))
        if not isinstance(estimate, dict) or not isinstance(estimate.get("k"), int):
            raise InputError(f"{path} {DAMAGED}.")
        return unchecked_object(estimate, path)

    def write_estimate(self, estimate: dict[str, Any], fit: int = 0) -> None:
        """Keep the estimate."""
        files = self.files_of_fit(fit) if fit else self.files
        with self.contents.writing(files.estimate):
            write_json(files.estimate, checked_object(estimate))

    # ------------------------------------------------------------ training

    def checkpoints(self, stage: str) -> Checkpoints:
        """Checkpoints of a stage: "main", or "rehearsal-1" and so on."""
        from ltgcd.training.checkpoints import Checkpoints  # noqa: PLC0415 - torch, as below

        owner = hashlib.sha256(json.dumps(self.config(), sort_keys=True).encode()).hexdigest()[:16]
        return Checkpoints(self._checkpoints if stage == "main" else self._checkpoints / stage, owner)

    def clear_checkpoints(self, *, main: bool = False) -> None:
        """Remove the checkpoints of the rehearsals, whose lesson is in the model; with `main` all of them."""
        for folder in [self._checkpoints] if main else self._checkpoints.glob("rehearsal-*"):
            shutil.rmtree(folder, ignore_errors=True)

    def checkpoint_files(self) -> Iterator[tuple[Checkpoints, Path]]:
        """The checkpoints of all stages, each with those of its stage."""
        for path in sorted(self._checkpoints.rglob("*.safetensors")):
            yield self.checkpoints("main" if path.parent == self._checkpoints else path.parent.name), path

    def record_epoch(self, line: dict[str, Any], name: str = METRICS) -> None:
        """Add the line of an epoch; one of the same or a later epoch, trained again, gives way."""
        kept = [old for old in self.epochs(name) if old["epoch"] < line["epoch"]]
        with self.contents.writing(self.folder / name):
            write_lines(self.folder / name, [*kept, line])

    def epochs(self, name: str = METRICS) -> list[dict[str, Any]]:
        """The lines that `record_epoch` wrote; none if there is no such file."""
        lines = read_lines(self.contents.held(self.folder / name))
        if not all(isinstance(line.get("epoch"), int) for line in lines):
            raise InputError(f"{self.folder / name} {DAMAGED}.")
        return lines

    def draw_epoch(self, line: dict[str, Any]) -> None:
        """Add the numbers of an epoch's line to TensorBoard's files, where it is installed."""
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - optional, and slow to import
        except ImportError:
            return
        # A writer for each epoch: nothing is held open, and an epoch trained again takes the place of the first.
        with SummaryWriter(str(self.folder / TENSORBOARD), purge_step=line["epoch"]) as writer:
            for name, value in line.items():
                if isinstance(value, int | float) and name != "epoch":
                    writer.add_scalar(name, value, line["epoch"])

    # ------------------------------------------------------------ the model

    @property
    def model_files(self) -> RunFiles:
        """Where the classifier and the estimate are that count: the first ones, or those of the last refine."""
        fit = int(self.written_note().get("fit", 0))
        return self.files_of_fit(fit) if fit else self.files

    def files_of_fit(self, number: int) -> RunFiles:
        """Where the classifier and the estimate of a refine are."""
        return files_of(self.folder / FITS / f"{number:03d}")

    def write_model(self, tensors: dict[str, torch.Tensor], description: dict[str, Any], fit: int = 0) -> None:
        """Keep a classifier; its description comes last, so that a model with one is whole."""
        from ltgcd.training.checkpoints import write_tensors  # noqa: PLC0415 - torch, as below

        files = self.files_of_fit(fit) if fit else self.files
        with self.contents.writing(files.tensors, files.model):
            write_tensors(files.tensors, tensors, {})
            write_toml(files.model, description)

    def read_model(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Tensors and description of the classifier."""
        from ltgcd.training.checkpoints import read_tensors  # noqa: PLC0415 - torch, as below

        files = self.model_files
        if not files.model.is_file():
            raise InputError(f"{self} holds no trained model; give the --out of a finished run of a trained method.")
        description = read_toml(self.contents.held(files.model))
        return read_tensors(self.contents.held(files.tensors))[0], description

    def fits(self) -> list[int]:
        """Numbers of all refits, those included that were killed or taken back."""
        return sorted(int(path.name) for path in (self.folder / FITS).glob("[0-9]*"))

    # ------------------------------------------------------------ every item's label

    def written_assignments(self) -> pa.Table:
        """The assignments as the file holds them."""
        path = self.files.assignments
        if not path.is_file():
            if self.contents.is_missing(path):
                raise InputError(f"{path} is missing; restore it ('ltgcd check {self}' tells what can be rebuilt).")
            raise InputError(f"{self} has no {path.name} yet; finish the run first.")
        table = read_parquet(path)
        if missing := set(ASSIGNMENT_COLUMNS) - set(table.column_names):
            raise InputError(f"{path} lacks the columns {sorted(missing)}; make the run again.")
        label = table.column("label")
        if not pa.types.is_integer(label.type) or label.null_count or (pc.min(label).as_py() or 0) < 0:
            raise InputError(f"{path} has labels that are not class ids (0, 1, …) for every item; make the run again.")
        ids = strings(table.column("id"), "id", path)
        check_unique(ids, path)
        check_table(table, path)
        self.contents.held(path)
        return table.set_column(table.column_names.index("id"), "id", ids)

    def write_assignments(self, table: pa.Table) -> None:
        """Keep the labels of all items: from now on the run is finished."""
        with self.contents.writing(self.files.assignments):
            write_table(self.files.assignments, table)

    def written_note(self) -> dict[str, Any]:
        """What is noted beside the assignments, as the file holds it; empty before they are there."""
        if not self.finished:
            return {}
        return self.note_of(self.files.assignments)

    def note_of(self, path: Path) -> dict[str, Any]:
        """What is noted beside a table of the run, which is not read itself."""
        # As the table itself is read: Arrow keeps a second copy of the note, which no checksum covers.
        noted = parquet_file(self.contents.held(path)).metadata.metadata
        return read_metadata(pa.schema([], metadata=noted))
