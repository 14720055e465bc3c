"""What ltgcd promises, as checks: how a command ends, what it prints, and what it leaves alone."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from pathlib import Path
from typing import NoReturn

import pyarrow.parquet as pq

from .commands import Done

TRACEBACK, HANG, LOST, SILENT, OTHER = "traceback", "hang", "lost or mixed up", "silent difference", "other"
SORTS = (TRACEBACK, HANG, LOST, SILENT, OTHER)
# A Python warning as Python prints it: no sentence for a user.
RAW_WARNING = re.compile(r"^\S+\.py:\d+: \w*Warning: .*", re.MULTILINE)
HOLDER = re.compile(r"being written to by ltgcd [\w-]+|process \d+")
Labels = dict[str, tuple[int, str, str]]  # id -> label, name, status


class Broken(AssertionError):
    """A promise was not kept: of which sort, and how."""

    def __init__(self, sort: str, what: str) -> None:
        super().__init__(f"{sort}: {what}")
        self.sort, self.what = sort, what


def broken(sort: str, what: str) -> NoReturn:
    raise Broken(sort, what)


def check_end(done: Done, *, allowed: tuple[int, ...] = (0, 2)) -> Done:
    """A command ends in time with 0 or 2, without a traceback, and says what it has to say in the agreed form."""
    if done.hung:
        broken(HANG, str(done))
    # Of Python's own start, before the first line of ltgcd, nobody can promise anything.
    if "Traceback (most recent call last)" in done.err and not (done.killed and "/ltgcd/" not in done.err):
        broken(TRACEBACK, str(done))
    if done.code not in allowed:
        broken(OTHER, f"exit code {done.code}: {done}")
    if found := RAW_WARNING.search(done.err):
        broken(OTHER, f"a raw Python warning ({found.group()[:200]}): {done.command}")
    for text, stream in ((done.out, "stdout"), (done.err, "stderr")):
        if raw := re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text):
            broken(OTHER, f"control character {raw.group()!r} raw on {stream}: {done}")
    if done.code == 2 and not finds_damage(done):
        check_refusal(done)
    if "--json" in done.arguments and done.code in (0, 2):
        _one_json_object(done)
    return done


def finds_damage(done: Done) -> bool:
    """Whether this is an answer of ``ltgcd check`` that names what is wrong with a run."""
    return done.arguments[0] == "check" and done.code == 2 and '"sound": false' in done.out


def check_refusal(done: Done) -> str:
    """The sentence that bad input was refused with."""
    lines = done.err.strip().splitlines()
    sentence = lines[-1] if lines else ""
    if "Usage:" in done.err:  # a wrong option is the parser's to tell
        return sentence
    if not sentence.startswith("Error: ") or not sentence.endswith((".", "?")):
        broken(OTHER, f"refused without one clear sentence: {done}")
    return sentence


def _one_json_object(done: Done) -> None:
    def no_number(name: str) -> NoReturn:
        raise ValueError(name)

    try:
        value = json.loads(done.out, parse_constant=no_number)
    except ValueError as error:
        broken(OTHER, f"stdout is not one JSON object ({error}): {done.command} printed {done.out[:300]!r}")
    if not isinstance(value, dict) or (done.code == 2 and not {"error", "sound"} & set(value)):
        broken(OTHER, f"stdout is not the JSON object of a command that exits {done.code}: {done.out[:300]!r}")


def names_holder(done: Done) -> bool:
    """Whether a refusal says who holds the run."""
    return done.code == 2 and bool(HOLDER.search(done.err))


# ---------------------------------------------------------------- files and labels


def snapshot(folder: Path, leave: tuple[Path, ...] = ()) -> dict[str, str]:
    """Kind and checksum of everything under a folder, without following links; `leave` is left out."""
    seen: dict[str, str] = {}
    for at, folders, files in os.walk(folder):
        here = Path(at)
        folders[:] = sorted(name for name in folders if here / name not in leave)
        for name in [*folders, *files]:
            path = here / name
            if path in leave:
                continue
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                what = f"link to {path.readlink()!r}"
            elif stat.S_ISREG(mode):
                what = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                what = f"mode {stat.S_IFMT(mode):o}"
            seen[os.fsencode(path.relative_to(folder)).decode(errors="backslashreplace")] = what
    return seen


def check_untouched(before: dict[str, str], after: dict[str, str], done: str) -> None:
    """The user's own files are what they were, and nothing is new beside them."""
    if gone := sorted(set(before) - set(after)):
        broken(LOST, f"{done} removed {gone[:5]}")
    if changed := sorted(name for name in before if before[name] != after[name]):
        broken(LOST, f"{done} changed {changed[:5]}, which it did not make")
    if new := sorted(set(after) - set(before)):
        broken(OTHER, f"{done} left {new[:5]} outside of what it was told to write")


def labels_of(run: Path, name: str = "assignments.parquet") -> Labels:
    """Label, name and status of every item of a run, read by another tool than ltgcd."""
    table = pq.read_table(run / name, columns=["id", "label", "name", "status"], use_threads=False)
    rows = table.to_pylist()
    labels = {row["id"]: (row["label"], row["name"], row["status"]) for row in rows}
    if len(labels) != len(rows):
        broken(LOST, f"{run.name}/{name} has {len(rows) - len(labels)} ids twice")
    return labels


def check_kept(old: Labels, now: Labels, done: str) -> None:
    """Every old item is there with its old label."""
    if gone := sorted(set(old) - set(now)):
        broken(LOST, f"{done}: {len(gone)} items are gone, for instance {gone[:3]}")
    if other := [name for name in old if old[name] != now[name]]:
        first = other[0]
        broken(LOST, f"{done}: {len(other)} old labels changed, for instance {first}: {old[first]} -> {now[first]}")


def check_same(wanted: Labels, found: Labels, done: str) -> None:
    """Labels are those of the reference, item by item."""
    if set(wanted) != set(found):
        missing, extra = sorted(set(wanted) - set(found))[:3], sorted(set(found) - set(wanted))[:3]
        broken(LOST, f"{done}: items differ from the reference: missing {missing}, extra {extra}")
    if other := [name for name in wanted if wanted[name] != found[name]]:
        first = other[0]
        broken(
            SILENT,
            f"{done}: {len(other)} of {len(wanted)} labels differ from an uninterrupted run, for instance {first}: "
            f"{wanted[first]} became {found[first]}",
        )
