"""`Run`: a run directory, from a free folder to a reviewed and updated run.

It is told in three files, each a class that the next one builds on: the folder and its lock (`run.folder`), what is
fitted, with the table of labels (`run.fitted`), and here the items, the page, updates and the review. The names of its
files are in `run.paths`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.checksums import write_table
from ltgcd.common.errors import InputError
from ltgcd.common.files import atomic_path, read_metadata
from ltgcd.common.outputs import is_sealed, output_path
from ltgcd.data.collection import Collection
from ltgcd.data.items import Kind
from ltgcd.data.npz import read_npz, write_npz
from ltgcd.data.parquet import read_table
from ltgcd.features.cache import is_feature_folder, sealed_in
from ltgcd.output.report.sentences import plural
from ltgcd.review.log import EventLog
from ltgcd.run.files import file_is_as_written
from ltgcd.run.fitted import FittedRun
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
from ltgcd.run.labels import later_labels, with_later_labels, with_updates
from ltgcd.run.paths import EMBEDDED, PROTOTYPES, STATES
from ltgcd.run.reviewed import with_review

if TYPE_CHECKING:
    from ltgcd.output.report.layout import Places

PAGE = "report"  # what the page is sealed as, see `ltgcd.common.outputs`


class Run(FittedRun):
    """A run directory; making the object touches no file.

    Attributes
    ----------
    folder : path
        Where it is.
    """

    # ------------------------------------------------------------ every item's label

    def assignments(self) -> pa.Table:
        """Label, name, status and confidence of every item; `read_metadata` of its schema tells k and more.

        With everything that people have said about them, also what no command has written there yet.
        """
        return with_review(self, self.written_assignments())

    def assignments_note(self) -> dict[str, Any]:
        """What is noted beside the assignments: k, updates, names that people gave; empty before they are there."""
        return read_metadata(self.assignments().schema) if self.finished else {}

    def class_count(self, note: dict[str, Any] | None = None) -> int:
        """Number of classes, empty ones included; a sentence where another tool rewrote the assignments.

        `note` is what is noted beside the assignments, where these were read already.
        """
        k = (self.assignments_note() if note is None else note).get("k")
        if not isinstance(k, int):
            raise InputError(
                f"{self.files.assignments} was rewritten by another tool and no longer says how many classes and "
                "updates the run has; restore it, or start the run again in a new folder."
            )
        return k

    def check_not_updated(self) -> None:
        """Refuse to write a run again that has got more items since, or that was reviewed and has lost its labels."""
        if not self.finished and self.states():
            raise InputError(
                f"{self.files.assignments} is missing, and people have reviewed this run: made again it would not have "
                "what they said; restore it, or start again in a new folder with --out."
            )
        if self.finished and self.class_count() and self.updates:
            raise InputError(
                f"{self} has been updated {plural(self.updates, 'time', 'times')} since it was finished; add to it "
                "with 'ltgcd update', draw its page with 'ltgcd report', or start again in a new folder with --out."
            )

    def check_not_reviewed(self) -> None:
        """Refuse to write labels again about which people have said something, which would not be in them."""
        if self.states() or EventLog(self.files.review).version():
            raise InputError(
                f"{self} has been reviewed since it was written, and written again it would lose what people said; "
                "save to a new folder, or load it (CategoryDiscovery.load) and go on from there."
            )

    # ------------------------------------------------------------ what is kept of the items

    def features(self) -> Features | None:
        """Features of the run's items, if it keeps them."""
        return read_features(self.contents.held(self.files.features))

    def write_features(self, ids: pa.StringArray, x: NDArray[np.floating]) -> None:
        """Keep the features (N, D) of all items."""
        with self.contents.writing(self.files.features):
            write_features(self.files.features, ids, x)

    @property
    def kind(self) -> Kind:
        """What the run is one of: images, texts or embeddings."""
        return read_kind(self.contents.held(self.files.items))

    def items(self) -> Collection | None:
        """The images or texts of the run, without labels; None for embeddings, or if they can't be found."""
        return read_items(self.contents.held(self.files.items))

    def digests(self, ids: pa.StringArray) -> pa.StringArray | None:
        """Digests of the content of some of the run's images or texts; None for embeddings, or if it keeps none."""
        return read_digests(self.contents.held(self.files.items), ids) if self.files.items.is_file() else None

    def write_items(self, collection: Collection) -> None:
        """Keep where the images of the run are, or what its texts say."""
        with self.contents.writing(self.files.items, self.files.images):
            write_items(self.files.items, collection, self.files.images)

    def add_items(self, ids: pa.StringArray, new: Collection, number: int) -> None:
        """Add the images or texts of an update to those of the run's `ids`."""
        self.contents.held(self.files.items)
        with self.contents.writing(self.files.items):
            add_items(self.files.items, ids, new, self._update(number) / "images")

    def places(self) -> tuple[pa.StringArray, Places] | None:
        """Ids and places on the map, if the run keeps a map that is whole."""
        from ltgcd.output.report.layout import Places  # noqa: PLC0415 - scikit-learn takes a second to import

        if not self.files.map.is_file() or not file_is_as_written(self.files.map):
            return None
        try:
            arrays = read_npz(self.contents.held(self.files.map))
            places = Places(arrays["places"], int(arrays["laid_out"]))
            return pa.array(arrays["ids"].tolist(), pa.string()), places
        except (InputError, KeyError, TypeError):
            return None

    def write_places(self, ids: pa.StringArray, places: Places) -> None:
        """Keep where each item stands on the map."""
        arrays = {"ids": np.array(ids.to_pylist()), "places": np.asarray(places.xy, dtype=np.float32)}
        with self.contents.writing(self.files.map):
            write_npz(self.files.map, {**arrays, "laid_out": np.array(places.laid_out)})

    # ------------------------------------------------------------ the page

    def write_report(self, html: str) -> None:
        """Write the page."""
        with self.contents.writing(self.report), output_path(self.report, PAGE, is_own=True) as temporary:
            temporary.write_text(html, encoding="utf-8")

    @property
    def report_is_current(self) -> bool:
        """Whether the page is whole, and was drawn after the labels were written."""
        is_whole = is_sealed(self.report, PAGE) and not self.contents.is_other(self.report)
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

    def feature_folders(self) -> list[Path]:
        """What the backbone made of the run's items, of those that it began with and of those of each update."""
        return [folder for folder in self.embedded_folders() if is_feature_folder(folder)]

    def embedded_folders(self) -> list[Path]:
        """Where `feature_folders` are, also of those that have lost what makes them one."""
        folders = [self.embedded, *(self.update_features(number) for number in range(1, self.updates + 1))]
        return [folder for folder in folders if folder.is_dir()]

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

    def drop_update_features(self, number: int) -> None:
        """Remove what the backbone made for an update that had nothing to add."""
        shutil.rmtree(self.update_features(number), ignore_errors=True)
        if not any(self._update(number).iterdir()):
            self._update(number).rmdir()

    def write_update(self, number: int, labels: pa.Table, appended: dict[str, NDArray[Any]]) -> None:
        """Keep what is an update's own: labels that came with it, and prototypes of the classes it appends.

        It counts only when the assignments say so; what an update that was killed here left behind gives way.
        """
        import torch  # noqa: PLC0415 - it takes longer to import than most commands take

        from ltgcd.training.checkpoints import write_tensors  # noqa: PLC0415

        path, given = self._prototypes(number), self._update(number) / self.files.labels.name
        with self.contents.writing(path, given):
            if appended:
                write_tensors(path, {name: torch.from_numpy(array) for name, array in appended.items()}, {})
            else:
                path.unlink(missing_ok=True)
            write_table(given, labels)

    def read_update(self, number: int) -> dict[str, NDArray[Any]] | None:
        """Prototypes, prior and sizes of the classes that an update appended, or None."""
        from ltgcd.training.checkpoints import read_tensors  # noqa: PLC0415 - torch, as above

        path = self._prototypes(number)
        if not path.is_file():
            return None
        tensors, _ = read_tensors(self.contents.held(path))
        return {name: tensor.numpy() for name, tensor in tensors.items()}

    def _prototypes(self, number: int) -> Path:
        return self._update(number) / PROTOTYPES

    def settle_labels(self) -> None:
        """Bring the table of labels up to the assignments: the labels of an update are added after it counts."""
        held = self._labels_table()
        missing, number, parts = len(self.assignments()) - len(held), self.updates, list[pa.Table]()
        if missing <= 0:
            return
        # From the last update on: what is settled already need not be read again, and may be damaged.
        while missing > 0 and number > 0:
            part = read_table(self.contents.held(self._update(number) / self.files.labels.name))
            is_new = pc.invert(pc.is_in(part.column("id"), held.column("id").cast(pa.string()).combine_chunks()))
            missing, number, parts = missing - (pc.sum(is_new).as_py() or 0), number - 1, [part, *parts]
        self._write_labels_table(with_updates(held, parts))

    def _labels_table(self) -> pa.Table:
        return read_table(self.contents.held(self.files.labels))

    def _write_labels_table(self, table: pa.Table) -> None:
        with self.contents.writing(self.files.labels):
            write_table(self.files.labels, table)

    @property
    def labels_are_settled(self) -> bool:
        """Whether every item with an assignment is in the table of labels."""
        return len(self._labels_table()) >= len(self.assignments())

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
        table = read_table(self.contents.held(path))
        if "k" not in read_metadata(table.schema):
            raise InputError(
                f"{path} was rewritten by another tool and no longer says which classes there are; restore it."
            )
        return table

    def write_state(self, number: int, table: pa.Table, encoded: bytes | None = None) -> None:
        """Keep the labels that the events of a base will be about; `encoded` is the file, where it was made before."""
        path = self.state_file(number)
        with self.contents.writing(path):
            if encoded is None:
                write_table(path, table)
                return
            with atomic_path(path) as temporary:
                temporary.write_bytes(encoded)

    def states(self) -> list[int]:
        """Numbers of all bases that there ever were."""
        return sorted(int(path.stem) for path in (self.folder / STATES).glob("[0-9]*.parquet"))

    def state_file(self, number: int) -> Path:
        """Where the labels are that the events of a base are about."""
        return self.folder / STATES / f"{number:03d}.parquet"

    def later_labels(self) -> pa.Table:
        """Ids and labels of items that the run had already when they were labelled: for its next training."""
        return later_labels(self._labels_table())

    def keep_later_labels(self, ids: pa.StringArray, names: pa.StringArray) -> int:
        """Keep labels of items that the run has; those that it was given before are no news. Give their number."""
        table, n = with_later_labels(self._labels_table(), ids, names)
        if n:
            self._write_labels_table(table)
        return n
