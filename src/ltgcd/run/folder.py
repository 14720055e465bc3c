"""`RunFolder`: a run directory as a place: whether it is free, who writes to it, what the run was asked for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from ltgcd.common.checksums import CHECKSUM, write_table
from ltgcd.common.engine.rows import ours_in
from ltgcd.common.errors import InputError
from ltgcd.common.files import checksum_rows, is_temporary, locked, read_metadata
from ltgcd.common.outputs import check_folder, check_free
from ltgcd.data.collection import Source
from ltgcd.data.parquet import parquet_file
from ltgcd.data.write_source import labels_table
from ltgcd.features.cache import is_feature_folder
from ltgcd.run.contents import Contents
from ltgcd.run.files import DAMAGED, features_checksum, read_toml, versions, write_toml
from ltgcd.run.labels import RunLabels, read_run_labels
from ltgcd.run.paths import CHECKPOINTS, EMBEDDED, FITS, PROTOTYPES, SHARED, STATES, UPDATES, files_of

FORMAT = 2  # of the run directory; raised when older ones can no longer be read


class RunFolder:
    """A run directory; making the object touches no file.

    Attributes
    ----------
    folder : path
        Where it is.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.files = files_of(self.folder)
        self.report, self.predictions = self.files.report, self.files.predictions
        self.embedded, self.shared = self.folder / EMBEDDED, self.folder / SHARED
        self.contents = Contents(self.files.contents, self.listed_files)
        self._checkpoints, self._updates = self.folder / CHECKPOINTS, self.folder / UPDATES

    def __str__(self) -> str:
        return str(self.folder)

    # ------------------------------------------------------------ begin, or go on

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """A run that is there, or one sentence about why it is none."""
        run = cls(folder)
        if not run.folder.is_dir():
            what = "not a run directory" if run.folder.exists() else "not there"
            raise InputError(f"{folder} is {what}; give the --out of a run.")
        run.config()
        return run

    def check_free(self) -> None:
        """Refuse a folder that holds something else; what a killed run left half-way does not count."""
        check_folder(self.folder)
        if self.begun:
            return
        try:
            check_free(self.folder, "run of ltgcd", lambda path: self._is_leftover(path) or is_feature_folder(path))
        except InputError:
            if not self.begun:  # else another process has begun a run there just now
                raise

    def _is_leftover(self, path: Path) -> bool:
        """Whether a file is a run's own table of labels, and not the work of ``ltgcd split``."""
        if path.name != self.files.labels.name:
            return False
        schema = parquet_file(path).schema_arrow
        noted = set(read_metadata(schema)) - {CHECKSUM}
        return noted == {"class_names"} and set(schema.names) <= {"id", "label", "y_true"}

    @contextmanager
    def lock(self, what: str, *, sweeps: bool = True) -> Iterator[None]:
        """Keep every other process from writing to the run; a second one is told who does.

        Whoever has the lock first removes what killed processes left half written.
        """
        with locked(self.folder, what):
            if sweeps:
                self.check_writable()
            for path in self.leftovers() if sweeps else ():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            if sweeps and self.begun:
                self.contents.settle()
            yield

    def check_writable(self) -> None:
        """Refuse a run in which a folder has the name of a file, before the first file of several is written."""
        for path in self.folders_in_the_way():
            raise InputError(f"{path} is a folder, where a run keeps a file; move it away.")

    def folders_in_the_way(self) -> list[Path]:
        """Folders of somebody's that have the name of a file of the run, which could not be written then."""
        return [path for path in self.files if path.is_dir()]

    def listed_files(self) -> list[Path]:
        """What is told apart by `contents`, as far as it is there."""
        # A review grows by itself, and the assignments say how far; predictions are of other items.
        own = {self.files.contents, self.files.review, self.predictions}
        folders = [(self._updates, f"[0-9]*/{self.files.labels.name}"), (self._updates, f"[0-9]*/{PROTOTYPES}")]
        folders += [(self.folder / STATES, "[0-9]*.parquet"), (self.folder / FITS, "[0-9]*/*")]
        found = {*self.files, *self.folder.glob("*.jsonl"), *(p for at, form in folders for p in at.glob(form))}
        return sorted(path for path in found - own if path.is_file() and not is_temporary(path))

    def leftovers(self) -> list[Path]:
        """Temporary files and, of a finished run, the checkpoints of its rehearsals and what was shared."""
        # Not those below features: embed has a lock of its own, and sweeps.
        folders = (
            self.folder,
            self._checkpoints,
            *self._checkpoints.glob("rehearsal-*"),
            *self._updates.glob("[0-9]*"),
            self.folder / STATES,
            *(self.folder / FITS).glob("[0-9]*"),
        )
        found = [path for folder in folders if folder.is_dir() for path in folder.iterdir() if is_temporary(path)]
        done = [*self._checkpoints.glob("rehearsal-*"), *ours_in(self.shared)]
        return found + (done if self.finished else [])

    def begin(self, config: dict[str, Any], source: Source) -> None:
        """Make the run directory, or go on with it if it holds the very same run.

        `config` is what decides the result (no paths, no times). Checksums of the labels, the truth that it is scored
        against and the features are added to it, so that other features in the same folder are another run.
        """
        table = labels_table(source, {})
        checksum = checksum_rows(*(column.combine_chunks() for column in table.columns))
        features = features_checksum(source.collection.items)
        decisive = {**config, "labels_checksum": checksum, "features_checksum": features}
        if self.files.config.is_file():
            if self.config() != decisive:
                raise self._another_run()
            return
        self.check_free()
        write_table(self.files.labels, table)
        # The configuration is written last: a folder with one is a run.
        write_toml(self.files.config, {"format": FORMAT, "run": decisive, "versions": versions()})
        self.contents.list_anew()

    def check_same(self, config: dict[str, Any], ids: pa.StringArray) -> None:
        """Refuse a run of other settings, or of items that are not among `ids`, before anything is computed.

        `config` is what `begin` will be given, as far as it is known before there are features.
        """
        if not self.begun:
            return
        later = {"labels_checksum", "features_checksum", "features"}
        held = {key: value for key, value in self.config().items() if key not in later}
        asked = {key: value for key, value in config.items() if key not in later}
        if held != asked or not pc.all(pc.is_in(self.labels().ids, ids)).as_py():
            raise self._another_run()

    def _another_run(self) -> InputError:
        return InputError(f"{self} holds another run; give a new folder (--out), or remove this one.")

    @property
    def begun(self) -> bool:
        """Whether the folder holds a run, finished or not."""
        return self.files.config.is_file()

    @property
    def finished(self) -> bool:
        """Whether every item has its label."""
        return self.files.assignments.is_file()

    def remove(self) -> None:
        """Remove the whole directory."""
        shutil.rmtree(self.folder)

    # ------------------------------------------------------------ what was asked for

    def config(self) -> dict[str, Any]:
        """What decides the result of the run."""
        if not self.files.config.is_file():
            raise InputError(f"{self} is not a run directory (no {self.files.config.name}); give the --out of a run.")
        described = read_toml(self.contents.held(self.files.config))
        if described.get("format") != FORMAT:
            raise InputError(
                f"{self} was made by another version of ltgcd, whose runs this one can't read; run it again in a new "
                "folder."
            )
        if not isinstance(described.get("run"), dict):
            raise InputError(f"{self.files.config} {DAMAGED}.")
        config: dict[str, Any] = described["run"]
        return config

    @property
    def seed(self) -> int:
        """Seed of every random draw."""
        return int(self.config().get("random_state", 0))

    def labels(self) -> RunLabels:
        """Ids, labels and truth that the run was given, updates included."""
        if not self.files.labels.is_file():
            raise InputError(f"{self} has no {self.files.labels.name}, which says what was labelled; restore it.")
        return read_run_labels(self.contents.held(self.files.labels))
