"""`Run`: a run directory. No other code knows its lock or its versions; the names of its files are in `run.paths`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.checksums import CHECKSUM, checked_object, unchecked_object, write_table
from ltgcd.common.errors import InputError
from ltgcd.common.files import (
    LOCK,
    checksum_rows,
    is_temporary,
    locked,
    read_json,
    read_metadata,
    write_json,
)
from ltgcd.common.outputs import is_sealed, output_path
from ltgcd.data.collection import Collection, Source, check_unique
from ltgcd.data.items import Kind
from ltgcd.data.labels import strings
from ltgcd.data.npz import read_npz, write_npz
from ltgcd.data.parquet import check_table, parquet_file, read_parquet, read_table
from ltgcd.data.sources import labels_table
from ltgcd.discovery.assignments import ASSIGNMENT_COLUMNS
from ltgcd.features.cache import is_feature_folder, sealed_in
from ltgcd.run.files import (
    DAMAGED,
    features_checksum,
    read_lines,
    read_toml,
    versions,
    write_lines,
    write_toml,
)
from ltgcd.run.items import (
    Features,
    add_items,
    read_digests,
    read_features,
    read_items,
    read_kind,
    write_features,
    write_items,
)
from ltgcd.run.labels import RunLabels, later_labels, read_run_labels, with_later_labels, with_updates
from ltgcd.run.paths import (
    CHECKPOINTS,
    EMBEDDED,
    FITS,
    METRICS,
    PROTOTYPES,
    STATES,
    TENSORBOARD,
    UPDATES,
    RunFiles,
    files_of,
)
from ltgcd.run.reviewed import with_review

if TYPE_CHECKING:
    import torch

    from ltgcd.report.layout import Places
    from ltgcd.training.checkpoints import Checkpoints

FORMAT = 2  # of the run directory; raised when older ones can no longer be read
PAGE = "report"  # what the page is sealed as, see `ltgcd.common.outputs`


class Run:
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
        self.embedded = self.folder / EMBEDDED
        self._checkpoints, self._updates = self.folder / CHECKPOINTS, self.folder / UPDATES

    def __str__(self) -> str:
        return str(self.folder)

    # ------------------------------------------------------------ begin, or go on

    @classmethod
    def open(cls, folder: Path | str) -> Run:
        """A run that is there, or one sentence about why it is none."""
        run = cls(folder)
        if not run.folder.is_dir():
            raise InputError(f"{folder} is not a run directory; give the --out of a run.")
        run.config()
        return run

    def check_free(self) -> None:
        """Refuse a folder that holds something else; what a killed run left half-way does not count."""
        folder = self.folder
        if folder.is_file():
            raise InputError(f"{folder} is a file; give a folder with --out.")
        if not folder.is_dir() or self.files.config.is_file():
            return
        is_own = all(
            path.name == LOCK or is_temporary(path) or self._is_leftover(path) or is_feature_folder(path)
            for path in folder.iterdir()
        )
        if not is_own and not self.files.config.is_file():  # else another process has begun a run there just now
            raise InputError(f"{folder} is not empty and holds no run of ltgcd; give a new folder with --out.")

    def check_not_updated(self) -> None:
        """Refuse to write a run again that has got more items since."""
        if self.finished and self.class_count() and self.updates:
            raise InputError(
                f"{self} has been updated {self.updates} times since it was finished; add to it with 'ltgcd update', "
                "draw its page with 'ltgcd report', or start again in a new folder with --out."
            )

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
            for path in self.folders_in_the_way() if sweeps else ():  # what is found last may be written last
                raise InputError(f"{path} is a folder, where a run keeps a file; move it away.")
            for path in self.leftovers() if sweeps else ():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            yield

    def folders_in_the_way(self) -> list[Path]:
        """Folders of somebody's that have the name of a file of the run, which could not be written then."""
        return [path for path in self.files if path.is_dir()]

    def leftovers(self) -> list[Path]:
        """Temporary files and, of a finished run, the checkpoints of its rehearsals."""
        # Not those below features: embed has a lock of its own, and sweeps.
        folders = (
            self.folder,
            self._checkpoints,
            *self._checkpoints.glob("rehearsal-*"),
            *self._updates.glob("[0-9]*"),
        )
        found = [path for folder in folders if folder.is_dir() for path in folder.iterdir() if is_temporary(path)]
        return found + (list(self._checkpoints.glob("rehearsal-*")) if self.finished else [])

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
        described = read_toml(self.files.config)
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
        return read_run_labels(self.files.labels)

    # ------------------------------------------------------------ the number of classes

    def estimate(self) -> dict[str, Any] | None:
        """The estimate of the number of classes, if it was asked for."""
        path = self.model_files.estimate
        if not path.is_file():
            return None  # a refined run with a number of classes that was given
        estimate = read_json(path)
        if not isinstance(estimate, dict) or not isinstance(estimate.get("k"), int):
            raise InputError(f"{path} {DAMAGED}.")
        return unchecked_object(estimate, path)

    def write_estimate(self, estimate: dict[str, Any], fit: int = 0) -> None:
        """Keep the estimate."""
        files = self.files_of_fit(fit) if fit else self.files
        write_json(files.estimate, checked_object(estimate))

    # ------------------------------------------------------------ training

    def checkpoints(self, stage: str) -> Checkpoints:
        """Checkpoints of a stage: "main", or "rehearsal-1" and so on."""
        from ltgcd.training.checkpoints import Checkpoints  # noqa: PLC0415 - torch, as below

        return Checkpoints(self._checkpoints if stage == "main" else self._checkpoints / stage)

    def clear_checkpoints(self, *, main: bool = False) -> None:
        """Remove the checkpoints of the rehearsals, whose lesson is in the model; with `main` all of them."""
        for folder in [self._checkpoints] if main else self._checkpoints.glob("rehearsal-*"):
            shutil.rmtree(folder, ignore_errors=True)

    def record_epoch(self, line: dict[str, Any], name: str = METRICS) -> None:
        """Add the line of an epoch; one of the same or a later epoch, trained again, gives way."""
        kept = [old for old in self.epochs(name) if old["epoch"] < line["epoch"]]
        write_lines(self.folder / name, [*kept, line])

    def epochs(self, name: str = METRICS) -> list[dict[str, Any]]:
        """The lines that `record_epoch` wrote; none if there is no such file."""
        lines = read_lines(self.folder / name)
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
        write_tensors(files.tensors, tensors, {})
        write_toml(files.model, description)

    def read_model(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Tensors and description of the classifier."""
        from ltgcd.training.checkpoints import read_tensors  # noqa: PLC0415 - torch, as below

        files = self.model_files
        if not files.model.is_file():
            raise InputError(f"{self} holds no trained model; give the --out of a finished run of a trained method.")
        description = read_toml(files.model)
        return read_tensors(files.tensors)[0], description

    # ------------------------------------------------------------ every item's label

    def assignments(self) -> pa.Table:
        """Label, name, status and confidence of every item; `read_metadata` of its schema tells k and more.

        With everything that people have said about them, also what no command has written there yet.
        """
        return with_review(self, self.written_assignments())

    def written_assignments(self) -> pa.Table:
        """The assignments as the file holds them."""
        path = self.files.assignments
        if not path.is_file():
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
        return table.set_column(table.column_names.index("id"), "id", ids)

    def write_assignments(self, table: pa.Table) -> None:
        """Keep the labels of all items: from now on the run is finished."""
        write_table(self.files.assignments, table)

    def written_note(self) -> dict[str, Any]:
        """What is noted beside the assignments, as the file holds it; empty before they are there."""
        return read_metadata(parquet_file(self.files.assignments).schema_arrow) if self.finished else {}

    def assignments_note(self) -> dict[str, Any]:
        """What is noted beside the assignments: k, updates, names that people gave; empty before they are there."""
        return read_metadata(self.assignments().schema) if self.finished else {}

    def class_count(self) -> int:
        """Number of classes, empty ones included; a sentence where another tool rewrote the assignments."""
        k = self.assignments_note().get("k")
        if not isinstance(k, int):
            raise InputError(
                f"{self.files.assignments} was rewritten by another tool and no longer says how many classes and "
                "updates the run has; restore it, or start the run again in a new folder."
            )
        return k

    # ------------------------------------------------------------ what is kept of the items

    def features(self) -> Features | None:
        """Features of the run's items, if it keeps them."""
        return read_features(self.files.features)

    def write_features(self, ids: pa.StringArray, x: NDArray[np.floating]) -> None:
        """Keep the features (N, D) of all items."""
        write_features(self.files.features, ids, x)

    @property
    def kind(self) -> Kind:
        """What the run is one of: images, texts or embeddings."""
        return read_kind(self.files.items)

    def items(self) -> Collection | None:
        """The images or texts of the run, without labels; None for embeddings, or if they can't be found."""
        return read_items(self.files.items)

    def digests(self, ids: pa.StringArray) -> pa.StringArray | None:
        """Digests of the content of some of the run's images or texts; None for embeddings, or if it keeps none."""
        return read_digests(self.files.items, ids) if self.files.items.is_file() else None

    def write_items(self, collection: Collection) -> None:
        """Keep where the images of the run are, or what its texts say."""
        write_items(self.files.items, collection, self.files.images)

    def add_items(self, ids: pa.StringArray, new: Collection, number: int) -> None:
        """Add the images or texts of an update to those of the run's `ids`."""
        add_items(self.files.items, ids, new, self._update(number) / "images")

    def places(self) -> tuple[pa.StringArray, Places] | None:
        """Ids and places on the map, if the run keeps a map that is whole."""
        from ltgcd.report.layout import Places  # noqa: PLC0415 - scikit-learn takes a second to import

        if not self.files.map.is_file():
            return None
        try:
            arrays = read_npz(self.files.map)
            places = Places(arrays["places"], int(arrays["laid_out"]))
            return pa.array(arrays["ids"].tolist(), pa.string()), places
        except (InputError, KeyError, TypeError):
            return None

    def write_places(self, ids: pa.StringArray, places: Places) -> None:
        """Keep where each item stands on the map."""
        arrays = {"ids": np.array(ids.to_pylist()), "places": np.asarray(places.xy, dtype=np.float32)}
        write_npz(self.files.map, {**arrays, "laid_out": np.array(places.laid_out)})

    # ------------------------------------------------------------ the page

    def write_report(self, html: str) -> None:
        """Write the page."""
        with output_path(self.report, PAGE, is_own=True) as temporary:
            temporary.write_text(html, encoding="utf-8")

    @property
    def report_is_current(self) -> bool:
        """Whether the page is whole, and was drawn after the labels were written."""
        is_whole = is_sealed(self.report, PAGE)
        return is_whole and self.report.stat().st_mtime >= self.files.assignments.stat().st_mtime

    # ------------------------------------------------------------ updates

    def _update(self, number: int) -> Path:
        return self._updates / f"{number:03d}"

    @property
    def has_updates(self) -> bool:
        """Whether an update has been made, or begun."""
        return any(self._updates.glob("[0-9]*"))

    def abandoned_updates(self) -> list[Path]:
        """What updates left that were killed before they counted; the same command would go on with it."""
        counted = {self._update(number) for number in range(1, self.updates + 1)}
        return sorted(set(self._updates.glob("[0-9]*")) - counted)

    def checkpoint_files(self) -> list[Path]:
        """The checkpoints of all stages."""
        return sorted(self._checkpoints.rglob("*.safetensors"))

    def feature_folders(self) -> list[Path]:
        """What the backbone made of the run's items, of those that it began with and of those of each update."""
        folders = [self.embedded, *(self.update_features(number) for number in range(1, self.updates + 1))]
        return [folder for folder in folders if is_feature_folder(folder)]

    def sealed_files(self) -> list[Path]:
        """What carries a checksum of all its bytes, or can be compared with what was written, as far as it is there."""
        # An event in the log of a review has a digest of its own.
        files = [path for path in self.files if path.suffix not in (".safetensors", ".html", ".db")]
        files += [*self._updates.glob("[0-9]*/*.parquet"), *map(self.state_file, self.states())]
        files += [path for fit in self.fits() for path in self.files_of_fit(fit) if path.suffix in (".toml", ".json")]
        embedded = (self.embedded, *self._updates.glob(f"[0-9]*/{EMBEDDED}"))
        files += [path for folder in embedded for path in sealed_in(folder)]
        return [path for path in files if path.is_file()]

    def update_features(self, number: int) -> Path:
        """Folder for what the backbone makes of the new images or texts of an update."""
        return self._update(number) / EMBEDDED

    def write_update(self, number: int, labels: pa.Table, appended: dict[str, NDArray[Any]]) -> None:
        """Keep what is an update's own: labels that came with it, and prototypes of the classes it appends.

        It counts only when the assignments say so; what an update that was killed here left behind gives way.
        """
        import torch  # noqa: PLC0415 - it takes longer to import than most commands take

        from ltgcd.training.checkpoints import write_tensors  # noqa: PLC0415

        path = self._prototypes(number)
        if appended:
            write_tensors(path, {name: torch.from_numpy(array) for name, array in appended.items()}, {})
        else:
            path.unlink(missing_ok=True)
        write_table(self._update(number) / self.files.labels.name, labels)

    def read_update(self, number: int) -> dict[str, NDArray[Any]] | None:
        """Prototypes, prior and sizes of the classes that an update appended, or None."""
        from ltgcd.training.checkpoints import read_tensors  # noqa: PLC0415 - torch, as above

        path = self._prototypes(number)
        if not path.is_file():
            return None
        tensors, _ = read_tensors(path)
        return {name: tensor.numpy() for name, tensor in tensors.items()}

    def _prototypes(self, number: int) -> Path:
        return self._update(number) / PROTOTYPES

    def settle_labels(self) -> None:
        """Bring the table of labels up to the assignments: the labels of an update are added after it counts."""
        held = read_table(self.files.labels)
        missing, number, parts = len(self.assignments()) - len(held), self.updates, list[pa.Table]()
        if missing <= 0:
            return
        # From the last update on: what is settled already need not be read again, and may be damaged.
        while missing > 0 and number > 0:
            part = read_table(self._update(number) / self.files.labels.name)
            is_new = pc.invert(pc.is_in(part.column("id"), held.column("id").cast(pa.string()).combine_chunks()))
            missing, number, parts = missing - (pc.sum(is_new).as_py() or 0), number - 1, [part, *parts]
        write_table(self.files.labels, with_updates(held, parts))

    @property
    def labels_are_settled(self) -> bool:
        """Whether every item with an assignment is in the table of labels."""
        return len(read_table(self.files.labels)) >= len(self.assignments())

    @property
    def updates(self) -> int:
        """Number of updates that count."""
        return int(self.written_note().get("updates", 0))

    # ------------------------------------------------------------ the review

    def read_state(self, number: int) -> pa.Table:
        """The labels that the events of a base are about."""
        path = self.state_file(number)
        if not path.is_file():
            raise InputError(f"{self} lacks {path.name}, which its review is about; restore it.")
        return read_table(path)

    def write_state(self, number: int, table: pa.Table) -> None:
        """Keep the labels that the events of a base will be about."""
        write_table(self.state_file(number), table)

    def states(self) -> list[int]:
        """Numbers of all bases that there ever were."""
        return sorted(int(path.stem) for path in (self.folder / STATES).glob("[0-9]*.parquet"))

    def state_file(self, number: int) -> Path:
        """Where the labels are that the events of a base are about."""
        return self.folder / STATES / f"{number:03d}.parquet"

    def fits(self) -> list[int]:
        """Numbers of all refits, those included that were killed or taken back."""
        return sorted(int(path.name) for path in (self.folder / FITS).glob("[0-9]*"))

    def later_labels(self) -> pa.Table:
        """Ids and labels of items that the run had already when they were labelled: for its next training."""
        return later_labels(read_table(self.files.labels))

    def keep_later_labels(self, ids: pa.StringArray, names: pa.StringArray) -> int:
        """Keep labels of items that the run has; those that it was given before are no news. Give their number."""
        table, n = with_later_labels(read_table(self.files.labels), ids, names)
        if n:
            write_table(self.files.labels, table)
        return n
