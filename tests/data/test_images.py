"""Which files are images, and that none of them can start a program, wait for ever or shout (DEFECTS 109, 117-119)."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, features

from conftest import image_bytes
from ltgcd.common.errors import InputError
from ltgcd.data.images import FORMATS, IMAGE_SUFFIXES, decode, image_ending, image_size
from ltgcd.data.items import ImageFiles
from ltgcd.data.sources import read_source

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n0 0 moveto\nshowpage\n%%EOF\n"


def encoded(form: str) -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(out, form)
    return out.getvalue()


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "AVIF" or features.check("avif")])
def test_every_format_is_read_and_its_ending_is_that_of_an_image(form: str) -> None:
    assert decode(encoded(form)).size == (8, 8)
    assert image_ending(encoded(form)) in IMAGE_SUFFIXES


def test_a_program_in_an_image_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ghostscript stands for all: EPS is no format of ours, whatever the file is called."""
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(InputError, match="no image of a format that is read"):
        decode(EPS)
    (tmp_path / "a.png").write_bytes(EPS)
    assert image_ending(EPS) == ".bin"
    assert image_size(tmp_path / "a.png") == (0, 0)
    assert not (tmp_path / "started").exists()


def test_endings_that_are_read_and_endings_that_are_named(image_folder: Path) -> None:
    said: list[str] = []
    (image_folder / "cat" / "x.JFIF").write_bytes(image_bytes(1, form="JPEG"))
    for name in ("a.heic", "b.HEIC", "c.svg", "notes.txt", ".hidden.heic"):
        (image_folder / "dog" / name).write_bytes(b"whatever")
    ids = read_source(image_folder, notify=said.append).collection.ids.to_pylist()
    assert "cat/x.JFIF" in ids
    assert len(ids) == 6
    assert len(said) == 1
    assert "photos: images of a format that is not read were left out (2 .heic, 1 .svg); save them as" in said[0]


def test_a_folder_of_nothing_but_other_formats(tmp_path: Path) -> None:
    (tmp_path / "a.heic").write_bytes(b"whatever")
    with pytest.raises(InputError, match=r"holds no image that can be read: images of .* \(1 \.heic\); save them"):
        read_source(tmp_path)


def test_what_is_no_file_is_never_waited_for(image_folder: Path) -> None:
    os.mkfifo(image_folder / "cat" / "pipe.png")
    (image_folder / "cat" / "gone.png").symlink_to("nowhere")
    (image_folder / "dog" / "linked.png").symlink_to("../cat/a.png")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(image_folder / "dog" / "socket.png"))
        said: list[str] = []
        ids = read_source(image_folder, notify=said.append).collection.ids.to_pylist()
    assert len(ids) == 6
    assert "dog/linked.png" in ids
    assert len(said) == 1
    assert "3 images were left out, for they are no files, or links to nothing (for example 'cat/gone.png')" in said[0]
    files = ImageFiles(image_folder, read_source(image_folder, notify=said.append).collection.ids)
    (image_folder / "cat" / "a.png").unlink()
    os.mkfifo(image_folder / "cat" / "a.png")  # it was a file when we looked
    assert files.take(np.array([0])) == [b""]


def test_large_images_are_read_without_a_word() -> None:
    """In a process of its own, for pytest has its own filters of warnings."""
    program = (
        "import io\nfrom PIL import Image\nfrom ltgcd.data.images import decode\n"
        "out = io.BytesIO()\nImage.new('1', (10000, 9000)).save(out, 'PNG')\nprint(decode(out.getvalue()).size)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "(10000, 9000)\n"
    assert done.stderr == ""
