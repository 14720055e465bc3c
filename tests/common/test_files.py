"""The lock of a folder: whoever is refused is told by whom."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest

from ltgcd.common.errors import InputError
from ltgcd.common.files import LOCK, MOMENT, locked


def held_for_a_moment(folder: Path, then: Callable[[TextIO], None]) -> tuple[TextIO, threading.Timer]:
    """The lock, taken by somebody who has not said who it is, and who does something a little later."""
    file = (folder / LOCK).open("a+", encoding="utf-8")
    fcntl.flock(file, fcntl.LOCK_EX)
    timer = threading.Timer(3 * MOMENT, lambda: then(file))
    timer.start()
    return file, timer


def test_a_holder_that_has_only_just_come_is_named(tmp_path: Path) -> None:
    """The trial of two commands at once met the moment between the lock and the name in it."""

    def say(file: TextIO) -> None:
        file.write("ltgcd refine (process 7)\n")
        file.flush()

    file, timer = held_for_a_moment(tmp_path, say)
    with file, pytest.raises(InputError, match=r"written to by ltgcd refine \(process 7\)"), locked(tmp_path, "me"):
        pass
    timer.join()


def test_a_holder_that_is_just_going_is_waited_for(tmp_path: Path) -> None:
    _file, timer = held_for_a_moment(tmp_path, lambda file: file.close())
    with locked(tmp_path, "me"):
        assert "me (process" in (tmp_path / LOCK).read_text()
    timer.join()


def test_a_holder_that_never_says_who_it_is_is_another_process(tmp_path: Path) -> None:
    file, timer = held_for_a_moment(tmp_path, lambda _file: None)
    with file, pytest.raises(InputError, match="written to by another process"), locked(tmp_path, "me"):
        pass
    timer.join()
