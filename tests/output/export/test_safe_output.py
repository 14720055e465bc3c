"""Outputs are whole or not there, never over something, and never in the source."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from ltgcd.common.errors import InputError
from ltgcd.data.collection import Collection
from ltgcd.data.sources import read_source
from ltgcd.output.export import formats
from ltgcd.output.export.formats import FORMATS, check_export, export_items
from ltgcd.output.export.publish import PREFIX, private_folder, publish


@pytest.fixture
def photos(image_folder: Path) -> Collection:
    return read_source(image_folder).collection


@pytest.fixture
def assigned(photos: Collection) -> pa.Table:
    n = len(photos)
    columns = {"label": [0] * n, "name": ["cat"] * n, "status": ["known"] * n, "confidence": [0.5] * n}
    return pa.table({"id": photos.ids, **columns})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_is_written_into_the_source(
    form: str, assigned: pa.Table, photos: Collection, image_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(image_folder)
    before = names(image_folder)
    for out in (image_folder / "out", image_folder / "cat" / "out", tmp_path / "link" / "new" / "out"):
        with pytest.raises(InputError, match=r"lies in the source .* outside of the source"):
            check_export(form, out, source=image_folder)
        with pytest.raises(InputError, match="lies in the source"):
            export_items(assigned, photos, form, out, source=image_folder)
    assert names(image_folder) == before
    # Beside the source is fine, and so is the folder that a manifest lies in: it names its images one by one.
    manifest = image_folder / "list.csv"
    manifest.write_text("path\ncat/a.png\n")
    check_export(form, tmp_path / "photos-sorted", source=image_folder)
    check_export(form, image_folder / "out", source=manifest)


@pytest.mark.parametrize("form", FORMATS)
def test_a_planted_link_is_not_followed(
    form: str, assigned: pa.Table, photos: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should somebody foresee the name of the private folder: nothing is written where a link of that name leads."""
    victim, folder = tmp_path / "victim", tmp_path / "shared"
    for made in (victim, folder):
        made.mkdir()
    (victim / "output").write_text("mine")
    (folder / f"{PREFIX}planted.tmp").symlink_to(victim)
    monkeypatch.setattr("ltgcd.output.export.publish.secrets.token_hex", lambda _bytes: "planted")
    with pytest.raises(FileExistsError):
        export_items(assigned, photos, form, folder / "out.json")
    assert names(victim) == ["output"] and (victim / "output").read_text() == "mine"
    assert names(folder) == [f"{PREFIX}planted.tmp"]
    monkeypatch.undo()
    export_items(assigned, photos, form, folder / "out.json")
    assert names(victim) == ["output"] and (folder / "out.json").exists()


@pytest.mark.parametrize("form", FORMATS)
def test_half_written_is_not_there(
    form: str, assigned: pa.Table, photos: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed when all is written but not named: only a hidden folder is left. Stopped by an error: nothing is."""
    write = FORMATS[form]

    def fail(job: formats.Export, path: Path) -> int:
        write(job, path)
        assert names(tmp_path / "deep") != []
        assert all(name.startswith(PREFIX) for name in names(tmp_path / "deep"))
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        raise KeyboardInterrupt

    monkeypatch.setitem(FORMATS, form, fail)
    with pytest.raises(KeyboardInterrupt):
        export_items(assigned, photos, form, tmp_path / "deep" / "out")
    assert not (tmp_path / "deep").exists()


def test_a_kill_leaves_nothing_that_looks_finished(tmp_path: Path) -> None:
    program = """
import os, sys, signal
from pathlib import Path
import numpy as np, pyarrow as pa
from ltgcd.data.collection import Collection
from ltgcd.data.items import Texts
from ltgcd.output.export.formats import export_items
from ltgcd.output.export.files import FilePlacer

place, ids = FilePlacer._place, pa.array([str(i) for i in range(100)])
def place_and_die(self, content, target):
    place(self, content, target)
    if self.written == 70:
        os.kill(os.getpid(), signal.SIGKILL)
FilePlacer._place = place_and_die
columns = {"label": [0] * 100, "name": ["a"] * 100, "status": ["known"] * 100, "confidence": [0.5] * 100}
texts = Collection(ids, Texts(pa.array(["text"] * 100)), np.full(100, -1), ())
export_items(pa.table({"id": ids, **columns}), texts, "folders", Path(sys.argv[1]))
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "out")], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    (left,) = names(tmp_path)
    assert left.startswith(PREFIX)
    # The next one is not in its way.
    with private_folder(tmp_path / "out"):
        pass


def test_a_refused_export_makes_no_folders(assigned: pa.Table, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--source"):
        export_items(assigned, None, "coco", tmp_path / "a" / "b" / "out")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("links", [True, False])
def test_what_appears_meanwhile_is_kept(links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    out = tmp_path / "out.csv"
    with private_folder(out) as folder:
        (folder / "a").write_text("first")
        (folder / "b").write_text("second")
        publish([(folder / "a", tmp_path / "beside.xml"), (folder / "b", out)])
    assert (out.read_text(), (tmp_path / "beside.xml").read_text()) == ("second", "first")
    assert stat.S_IMODE(out.stat().st_mode) & 0o400
    out.write_text("mine")
    (tmp_path / "beside.xml").unlink()
    with pytest.raises(InputError, match="meanwhile"), private_folder(out) as folder:
        (folder / "a").write_text("first")
        (folder / "b").write_text("second")
        publish([(folder / "a", tmp_path / "beside.xml"), (folder / "b", out)])
    assert names(tmp_path) == ["out.csv"]
    assert out.read_text() == "mine"
    with pytest.raises(InputError, match="meanwhile"), private_folder(out) as folder:
        (folder / "set").mkdir()
        publish([(folder / "set", out)])
    assert out.read_text() == "mine"
