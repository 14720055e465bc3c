"""No command overwrites a file that ltgcd did not make itself, for that very purpose, as it still is."""

from __future__ import annotations

import errno
import io
import os
import resource
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from conftest import call_cli, fails, image_bytes
from ltgcd.common.checksums import bytes_are_as_written, is_as_written, table_checksum, with_checksum, write_table
from ltgcd.common.errors import InputError
from ltgcd.common.files import TEMPORARY, atomic_path, locked, with_metadata, write_json
from ltgcd.common.outputs import check_output, is_sealed, output_path, sealed_table
from ltgcd.data.npz import write_npz
from ltgcd.run.files import write_toml

SVG = b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"></svg>\n'


def parquet(**columns: object) -> bytes:
    out = io.BytesIO()
    pq.write_table(sealed_table(pa.table(columns), "thing"), out)
    return out.getvalue()


CONTENTS = {"page.html": b"<!doctype html>hello", "a.svg": SVG, "a.png": image_bytes(0), "t.parquet": parquet(a=[1, 2])}


@pytest.mark.parametrize("name", CONTENTS)
def test_only_what_we_made_for_the_same_purpose_is_replaced(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    for _ in range(2):  # the second one replaces the first
        check_output(path, "thing")
        with output_path(path, "thing") as temporary:
            temporary.write_bytes(CONTENTS[name])
    assert is_sealed(path, "thing")
    for other in ("another thing", None):
        with pytest.raises(InputError, match="there already"):
            check_output(path, other)
    whole = path.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 60)):  # changed by a person, or damaged
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        if name == "t.parquet" and is_sealed(path, "thing"):  # a bit that means nothing
            assert pq.read_table(path).equals(pq.read_table(pa.BufferReader(whole)))
            continue
        with pytest.raises(InputError, match="there already"):
            check_output(path, "thing")
    path.write_bytes(whole + b"and more")
    with pytest.raises(InputError):
        check_output(path, "thing")


def test_what_we_seal_is_still_what_it_was(tmp_path: Path) -> None:
    for name in ("a.png", "a.svg"):
        with output_path(tmp_path / name, "plot") as temporary:
            temporary.write_bytes(CONTENTS[name])
    with Image.open(tmp_path / "a.png") as image:
        image.load()
        assert image.text["ltgcd"].startswith("plot ")  # type: ignore[attr-defined]
    from xml.etree import ElementTree

    ElementTree.parse(tmp_path / "a.svg")


def test_a_table_that_another_tool_edited_is_theirs(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(parquet(id=["a", "b"], label=[1, 2]))
    table = pq.read_table(path)
    pq.write_table(table, path)  # the same again
    check_output(path, "thing")
    pq.write_table(table.set_column(1, "label", pa.array([1, 1])), path)  # metadata kept, values corrected
    with pytest.raises(InputError, match="nobody has changed"):
        check_output(path, "thing")


def test_sources_folders_links_and_what_ltgcd_keeps(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for path in (tmp_path / "photos" / "k.png", tmp_path / "photos" / "deep" / "k.png"):
        with pytest.raises(InputError, match="lies in the source"):
            check_output(path, "plot", (None, tmp_path / "photos"))
    source = tmp_path / "source.npz"
    source.write_bytes(b"x")
    with pytest.raises(InputError, match="is the source itself"):
        check_output(source, "plot", (source,))
    with pytest.raises(InputError, match="is a folder"):
        check_output(tmp_path / "photos", "plot")
    (tmp_path / "link.png").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="there already"):
        check_output(tmp_path / "link.png", "plot")
    run = tmp_path / "run"
    run.mkdir()
    (run / "kept").write_text("")
    with locked(run, "me"):
        pass
    with pytest.raises(InputError, match="what is its own"):
        check_output(run / "deep" / "new.parquet", "plot")
    check_output(run / "new.parquet", "plot", belongs_to=run)
    check_output(tmp_path / "new.png", "plot", (source, tmp_path / "photos"))


def test_what_someone_makes_meanwhile_is_kept(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="meanwhile"), output_path(tmp_path / "a.html", "page") as temporary:
        temporary.write_text("<p>ours")
        (tmp_path / "a.html").write_text("theirs")
    assert (tmp_path / "a.html").read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_temporary_files_are_new_and_not_to_be_foreseen(tmp_path: Path) -> None:
    names = set()
    old = os.umask(0o022)
    try:
        for _ in range(3):
            with atomic_path(tmp_path / "file") as temporary:
                names.add(temporary.name)
                assert temporary.is_file() and temporary.name.endswith(TEMPORARY)
                temporary.write_text("x")
    finally:
        os.umask(old)
    assert len(names) == 3
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with atomic_path(tmp_path / "link") as temporary:
        temporary.write_text("ours")
    assert (tmp_path / "elsewhere").read_text() == "mine"
    with atomic_path(tmp_path / ("ü" * 127)) as temporary:  # 254 bytes
        temporary.write_text("long")


def test_a_link_at_the_temporary_name_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should somebody foresee the name after all: a file that is not new is not written to."""
    monkeypatch.setattr("ltgcd.common.files.secrets.token_hex", lambda _bytes: "f" * 16)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f".file.{'f' * 16}{TEMPORARY}").symlink_to(victim)
    with pytest.raises(FileExistsError), atomic_path(tmp_path / "file") as temporary:
        temporary.write_text("ours")
    assert victim.read_text() == "mine" and not (tmp_path / "file").exists()


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="full") as caught, atomic_path(tmp_path / "big.npz"):
        raise OSError(28, "full")
    assert caught.value.filename == str(tmp_path / "big.npz")


@pytest.mark.parametrize("name", ["table.parquet", "archive.npz", "text.json", "config.toml"])
def test_whatever_is_written_to_a_full_disk_names_its_file(name: str, tmp_path: Path) -> None:
    """Not the temporary one, nor none: Arrow, NumPy and Python each say it in another way."""
    words = np.random.RandomState(0).randint(0, 2**31, 30_000)
    writers: dict[str, Callable[[Path], None]] = {
        "table.parquet": lambda path: write_table(path, pa.table({"n": words})),
        "archive.npz": lambda path: write_npz(path, {"x": words}),
        "text.json": lambda path: write_json(path, words.tolist()),
        "config.toml": lambda path: write_toml(path, {"n": words.tolist()}),
    }
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, limit[1]))  # a write beyond it fails, as on a full disk
    try:
        with pytest.raises(OSError, match="large") as caught:
            writers[name](tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert caught.value.filename == str(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_command_on_a_full_disk_says_which_file(npz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    source, out = npz(), tmp_path / "k.png"
    monkeypatch.setattr(os, "fsync", full)
    sentence = fails("estimate-k", source, "--plot", out)
    assert sentence.startswith(f"{out} can't be read or written (No space left on device)"), sentence
    assert not list(tmp_path.glob("*k.png*"))


def test_a_folder_that_was_made_for_nothing_goes_again(tmp_path: Path) -> None:
    with pytest.raises(InputError), locked(tmp_path / "run", "me"):
        raise InputError("refused")
    assert not (tmp_path / "run").exists()


def test_checksums_of_tables_do_not_depend_on_how_they_are_stored() -> None:
    table = pa.table({"id": ["a", None, "ccc"], "n": pa.array([1, 2, None]), "b": [b"x", b"", None], "t": [True] * 3})
    parts = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert table_checksum(parts) == table_checksum(table)
    for other in (
        table.set_column(0, "id", pa.array(["a", "", "ccc"])),
        table.set_column(0, "id", pa.array(["ac", None, "cc"])),
        table.rename_columns(["i", "n", "b", "t"]),
        table.set_column(1, "n", pa.array([1, 2, 0])),
        table.take([1, 0, 2]),
    ):
        assert table_checksum(other) != table_checksum(table)
    kept = with_checksum(with_metadata(table, {"k": 3}))
    assert is_as_written(kept) and is_as_written(table) is None
    assert not is_as_written(with_metadata(kept, {"k": 4, "checksum": "0"}))
    assert with_checksum(kept).schema.metadata == kept.schema.metadata


def test_a_checksum_of_all_bytes_covers_every_byte(tmp_path: Path) -> None:
    table, archive = tmp_path / "t.parquet", tmp_path / "a.npz"
    write_table(table, with_metadata(pa.table({"id": ["ltgcd.sha256", "b"], "n": [1, 2]}), {"k": "ltgcd.sha256"}))
    write_npz(archive, {"x": np.arange(3.0), "ids": np.array(["a", "b", "c"])})
    for path in (table, archive):
        whole = path.read_bytes()
        assert bytes_are_as_written(path)
        for at in range(len(whole)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
            assert not bytes_are_as_written(path), at
        for other in (whole[:-1], whole + b"\0", whole[1:]):
            path.write_bytes(other)
            assert not bytes_are_as_written(path)
        path.write_bytes(whole)
    assert np.load(archive)["x"].tolist() == [0, 1, 2] and pq.read_table(table).column("n").to_pylist() == [1, 2]
    pq.write_table(pa.table({"a": [1]}), table)
    np.savez(archive, x=np.zeros(2))
    assert bytes_are_as_written(table) is None and bytes_are_as_written(archive) is None


def test_what_a_killed_process_left_is_swept_and_what_one_at_work_holds_is_not(tmp_path: Path) -> None:
    out = tmp_path / "p.html"
    left = [tmp_path / f".p.html.{number:016x}{TEMPORARY}" for number in range(2)]
    others = [tmp_path / f".q.html.{0:016x}{TEMPORARY}", tmp_path / f".p.html.mine{TEMPORARY}"]
    for path in (*left, *others):
        path.write_text("half")
    with atomic_path(out) as at_work, output_path(out, "page") as temporary:  # the first is someone else's
        temporary.write_text("<!doctype html>")
        assert at_work.exists() and not any(path.exists() for path in left)
    assert all(path.exists() for path in others)


def test_ctrl_c_while_cleaning_up_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unlink, calls = Path.unlink, iter([KeyboardInterrupt])

    def interrupted(self: Path, missing_ok: bool = False) -> None:
        for error in calls:
            raise error
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_path(tmp_path / "x"):
        raise InputError("refused")
    assert not list(tmp_path.iterdir())


def test_links_in_a_circle_are_no_traceback(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    check_output(tmp_path / "out", None, (loop,))
    with pytest.raises(InputError, match="there already"):
        check_output(loop)


def test_estimate_k_never_draws_over_a_photo(npz, tmp_path: Path) -> None:
    source, photo = npz(), tmp_path / "photo.png"
    photo.write_bytes(image_bytes(3))
    assert "photo.png is there already" in fails("estimate-k", source, "--plot", photo)
    assert photo.read_bytes() == image_bytes(3)


def test_no_command_writes_over_what_it_did_not_make(npz: Callable[..., Path], tmp_path: Path) -> None:
    source, run, folder = npz(), tmp_path / "run", tmp_path / "folder"
    assert call_cli("discover", source, "--k", 3, "--out", run).code == 0
    mine, inside = tmp_path / "mine.parquet", folder / "thesis.parquet"
    folder.mkdir()
    for path in (mine, inside):
        path.write_bytes(b"the user's own work")
    commands: dict[str, tuple[object, ...]] = {
        "split": ("split", source, "--out"),
        "embed": ("embed", source, "--out"),
        "discover": ("discover", source, "--k", 3, "--out"),
        "train": ("train", source, "--k", 3, "--epochs", 1, "--out"),
        "demo": ("demo", "--out"),
        "predict": ("predict", run, source, "--out"),
        "export": ("export", run, "--format", "parquet", "--out"),
        "refine": ("refine", run, "--out"),
        "events": ("review", run, "--export-events"),
        "plot": ("estimate-k", source, "--plot"),
    }
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != ".ltgcd.lock"}
    for name, command in commands.items():
        # A file, a folder with one, a source, a file of the run; a file that would be in the run.
        for out in (mine, folder, source, run / "assignments.parquet", run / "new"):
            done = call_cli(*command, out)
            assert done.code == 2 and done.err.count("Error: ") == 1, (name, out, done)
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != ".ltgcd.lock"}
    assert after == before


def test_nothing_is_written_into_features_nor_into_what_was_copied_without_hidden_files(npz, tmp_path: Path) -> None:
    """A foreign file in a folder of features was taken for a damaged shard by the next 'embed', and removed."""
    source, features, run = npz(), tmp_path / "features", tmp_path / "run"
    assert call_cli("embed", source, "--out", features).code == 0
    assert call_cli("train", source, "--k", 3, "--epochs", 1, "--out", run).code == 0
    for kept in (features, run):
        copied = kept.with_name(f"{kept.name}-copied")
        shutil.copytree(kept, copied, ignore=shutil.ignore_patterns(".*"))
        for folder in (kept, copied):
            before = sorted(path.name for path in folder.rglob("*"))
            for arguments in (
                ("predict", run, source, "--out", folder / "shard-00001.parquet"),
                ("estimate-k", source, "--plot", folder / "k.png"),
                ("embed", source, "--out", folder / "more"),
                ("export", run, "--format", "csv", "--out", folder / "labels.csv"),
            ):
                assert "where ltgcd keeps what is its own" in fails(*arguments), (folder, arguments)
            assert sorted(path.name for path in folder.rglob("*")) == before


def test_a_users_own_configuration_does_not_make_a_folder_ours(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('title = "my page"\n\n[run]\nfast = true\n')
    (tmp_path / "features.json").write_text('{"format": "wide", "dark mode": true}')
    check_output(tmp_path / "new.parquet", "predictions")


def test_no_folder_is_made_inside_of_the_source(image_folder: Path, npz, tmp_path: Path) -> None:
    """A run in a folder of photos was read with them the next time: as a class of its name."""
    features, whole = tmp_path / "features", tmp_path / "whole"
    assert call_cli("embed", npz(), "--out", features).code == 0
    shutil.copytree(image_folder, whole, ignore=shutil.ignore_patterns("unlabelled", "*.txt"))
    (tmp_path / "link").symlink_to(image_folder)
    before = sorted(tmp_path.rglob("*"))
    for command, source, out in (
        ("discover", image_folder, image_folder / "run"),
        ("discover", image_folder, tmp_path / "link" / "new" / "run"),
        ("discover", tmp_path / "link", image_folder),
        ("embed", image_folder, image_folder / "cat" / "features"),
        ("train", features, features / "run"),
        ("split", whole, whole / "split"),
    ):
        assert "the source" in fails(command, source, "--out", out), (command, out)
    csv = tmp_path / "labels.csv"
    csv.write_text("id,label\ncat/a.png,cat\n")
    assert "labels.csv is the source itself" in fails("discover", image_folder, "--labels", csv, "--out", csv)
    csv.unlink()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_with_the_name_of_a_dataset_is_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cifar10").mkdir()
    sentence = fails("split", "cifar10", "--data", tmp_path / "none", "--out", "cifar10/split")
    assert "ltgcd datasets get cifar10" in sentence and "the source" not in sentence
