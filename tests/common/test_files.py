"""The lock of a folder: whoever is refused is told by whom."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest

from ltgcd.common.errors import InputError
from ltgcd.common.files import LOCK, MOMENT, lock_file, locked


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


def test_a_lock_that_is_a_link_or_a_users_file_is_refused(tmp_path: Path) -> None:
    """Every command that takes a lock has emptied what a link of that name led to."""
    victim, run = tmp_path / "thesis.tex", tmp_path / "run"
    victim.write_text("precious")
    run.mkdir()
    lock = run / LOCK
    for plant in (lock.symlink_to, lock.hardlink_to, lambda _victim: lock.write_bytes(b"\xff my own notes")):
        plant(victim)  # type: ignore[operator]
        with pytest.raises(InputError, match="move it away"), locked(run, "me"):
            pass
        assert victim.read_text() == "precious" and lock.exists()
        lock.unlink()
    lock.symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="a link, or"), locked(run, "me"):
        pass
    assert not (tmp_path / "nowhere").exists()


def test_a_lock_that_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "b")
    for name in ("a", "b"):
        with pytest.raises(InputError, match="move it away"):
            lock_file(tmp_path / name)


def test_a_lock_is_not_handed_down_to_other_programs(tmp_path: Path) -> None:
    with lock_file(tmp_path / "lock") as file:
        assert not os.get_inheritable(file.fileno())


def test_what_a_killed_process_left_in_the_lock_is_no_holder(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("a command of a long name that was killed (process 123456)\n")
    with locked(tmp_path, "me"):
        assert (tmp_path / LOCK).read_text() == f"me (process {os.getpid()})\n"
    assert (tmp_path / LOCK).read_text() == ""


def test_a_folder_for_people_keeps_no_lock(tmp_path: Path) -> None:
    """What has the lock at its top is all ltgcd's own; whoever had it opened when it went is told so."""
    with locked(tmp_path, "me", leaves_lock=False):
        late = lock_file(tmp_path / LOCK)
    assert not list(tmp_path.iterdir()) and tmp_path.is_dir()
    with late, locked(tmp_path, "me"):
        assert not os.path.samestat(os.fstat(late.fileno()), (tmp_path / LOCK).stat())
