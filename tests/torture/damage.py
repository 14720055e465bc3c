"""Damage a file of a run, then run any command: it answers as if nothing had happened, or says what is damaged."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from .commands import Done, run
from .problems import PHOTOS, PROBLEMS, REFINE, RUN, STORED, UNDO, UNREFINE, World, reviewed
from .promise import LOST, SILENT, Labels, broken, check_end, check_kept, check_untouched, labels_of, snapshot

COMMANDS = ("report", "predict", "update", "export", "evaluate", "again", "check", "check")
REVIEW = ("relabel", UNDO, REFINE, UNREFINE)  # these change labels as they should
STATES: tuple[tuple[str, ...], ...] = ((), ("a",), ("a", "b"), ("r",), ("a", "r"), ("r", REFINE), ("r", REFINE, "s"))
# Damage that leaves another file: checksums and the list of the run's files tell.
CHANGED = (": flip", ": truncate", ": zeros", ": swap", ": cut", ": exchange")
# What is not the run's own state: predictions of other items, what SQLite does not use of its file, a lock.
LOOSE = ("predictions.parquet", "review.db", ".ltgcd.lock")
# Words with which a command tells that it noticed.
NOTICED = ("damaged", "rebuilt", "restored", "checksum", "can't be read", "missing", "drawn again", "made again")


def flip(path: Path, random: random.Random) -> None:
    """Turn a few bits over."""
    blob = bytearray(path.read_bytes())
    for _ in range(random.choice((1, 1, 1, 3, 20))):
        blob[random.randrange(len(blob))] ^= 1 << random.randrange(8)
    path.write_bytes(bytes(blob))


def truncate(path: Path, random: random.Random) -> None:
    """Cut the end off."""
    blob = path.read_bytes()
    path.write_bytes(blob[: random.randrange(len(blob))])


def empty(path: Path, random: random.Random) -> None:
    """Leave nothing in it, as a full disk does."""
    path.write_bytes(b"")


def delete(path: Path, random: random.Random) -> None:
    """Remove it."""
    path.unlink()


def zeros(path: Path, random: random.Random) -> None:
    """Fill a part with zeros, as a crash of the file system does."""
    blob = bytearray(path.read_bytes())
    start = random.randrange(len(blob))
    end = min(len(blob), start + random.randint(1, 600))
    blob[start:end] = bytes(end - start)
    path.write_bytes(bytes(blob))


def swap(path: Path, random: random.Random) -> None:
    """Let it and another file of the run take each other's place."""
    others = [other for other in _files(path.parent) if other != path]
    if not others:
        delete(path, random)
        return
    other = random.choice(others)
    mine, its = path.read_bytes(), other.read_bytes()
    path.write_bytes(its)
    other.write_bytes(mine)


def cut(path: Path, random: random.Random) -> None:
    """Take lines off its end, as an editor or a sync that stopped does."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: random.randrange(len(lines))]))


def folder(path: Path, random: random.Random) -> None:
    """Put a folder in its place."""
    path.unlink()
    path.mkdir()


def rewrite(path: Path, random: random.Random) -> None:
    """Read and write it with another tool, which keeps what it understands."""
    if path.suffix == ".parquet":
        _rewrite_parquet(path, random)
    elif path.suffix == ".npz":
        with np.load(path) as held:
            arrays = {name: held[name] for name in held.files}
        if random.random() < 0.5 and "ids" in arrays:
            order = np.random.RandomState(random.randrange(2**32)).permutation(len(arrays["ids"]))
            arrays = {k: v[order] if v.ndim and len(v) == len(order) else v for k, v in arrays.items()}
        np.savez_compressed(path, **arrays)
    elif path.suffix == ".json":
        path.write_text(json.dumps(json.loads(path.read_text())))
    elif path.suffix in (".toml", ".jsonl", ".html"):
        text = path.read_text()
        choice = random.randrange(3)
        changed = (text.replace("\n", "\r\n"), "\ufeff" + text, text.rstrip("\n"))[choice]
        path.write_text(changed, newline="")
    else:
        truncate(path, random)


def _rewrite_parquet(path: Path, random: random.Random) -> None:
    table = pq.read_table(path, use_threads=False)
    kind = random.choice(("pandas", "sorted", "no metadata", "large strings", "categories"))
    if kind in ("pandas", "categories"):
        frame = table.to_pandas(use_threads=False)
        if kind == "categories":
            frame = frame.astype({name: "category" for name in frame if frame[name].dtype.kind not in "iuf"})
        frame.attrs = {}
        pq.write_table(pa.Table.from_pandas(pd.DataFrame(frame), preserve_index=False, nthreads=1), path)
        return
    if kind == "sorted":
        table = table.take(np.random.RandomState(random.randrange(2**32)).permutation(len(table)))
    elif kind == "large strings":
        form = [pa.field(f.name, pa.large_string() if f.type == pa.string() else f.type) for f in table.schema]
        table = table.cast(pa.schema(form, metadata=table.schema.metadata))
    else:
        table = table.replace_schema_metadata(None)
    pq.write_table(table, path)


def exchange(path: Path, donor: Path) -> None:
    """Put a whole file of the same kind in its place: an older one, or one of another run."""
    path.write_bytes(donor.read_bytes())


DAMAGES: tuple[Callable[[Path, random.Random], None], ...] = (
    flip,
    flip,
    flip,
    truncate,
    empty,
    delete,
    zeros,
    swap,
    cut,
    folder,
    rewrite,
    rewrite,
)


def draw_damage(random: random.Random, run: Path, others: Callable[[], Sequence[Path]] = tuple) -> str:
    """Damage a file of a run; returns what was done. `others` gives runs that a file may be taken from."""
    path = random.choice([path for path in _files(run) if path.stat().st_size])
    change, before = random.choice(DAMAGES), path.read_bytes()
    if random.random() < 0.15:
        donors = [donor for other in others() if (donor := other / path.relative_to(run)).is_file()]
        if donors:
            exchange(path, random.choice(donors))
            return f"{path.relative_to(run)}: {'unchanged' if path.read_bytes() == before else 'exchange'}"
    change(path, random)
    if path.is_file() and path.read_bytes() == before:
        return f"{path.relative_to(run)}: unchanged"
    return f"{path.relative_to(run)}: {change.__name__}"


def _files(folder: Path) -> list[Path]:
    """All files of a run, but the lock of its features, which says nothing."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in files if path.name != ".ltgcd.lock" or path.parent == folder)


def trial(random: random.Random, folder: Path, world: World) -> int:
    """One damaged file and one or two commands."""
    problem = world.draw(random)
    steps = random.choice(STATES[:3] if problem == PHOTOS else STATES)
    if "r" in steps:
        problem = reviewed(problem)
    world.copy(folder, problem, steps)
    old, labels = labels_of(folder / RUN), (folder / RUN / "assignments.parquet").read_bytes()
    done = draw_damage(random, folder / RUN, lambda: _others(random, world, problem, steps))
    name = done.split(":")[0]
    damaged = snapshot(folder / RUN)
    at = folder / RUN / "assignments.parquet"
    kept = at.is_file() and at.read_bytes() == labels  # they may also have changed places with what is named
    review = (*(("relabel",) if "r" not in steps else ()), *((UNDO,) if steps[-1:] in (("r",), ("s",)) else ()))
    review += ((REFINE,) if "r" in steps and random.random() < 0.3 else ()) + ((UNREFINE,) if REFINE in steps else ())
    for command in random.sample((*COMMANDS, *(review if problem != PHOTOS else ())), random.randint(1, 2)):
        arguments, made = _arguments(world, problem, command)
        if arguments is None:
            continue
        own = (folder / RUN, folder / made, folder / "p.features")
        users = snapshot(folder, own)
        held = snapshot(folder / RUN)
        ended = run(*arguments, cwd=folder)
        story = f"{ended.command} [{done}, after {'+'.join(steps) or 'no update'}]"
        check_end(ended)
        check_untouched(users, snapshot(folder, own), story)
        if command == "check":
            is_there = held == damaged  # else the command before may have made the file again
            _check_found(random, folder, done if is_there else "", old, kept, ended, story)
            continue
        if ended.code == 2:
            _check_refused(folder / RUN, held, story)
            continue
        said = any(word in (ended.err + ended.out).lower() for word in NOTICED)
        if command not in REVIEW and (name != "assignments.parquet" or command in ("update", "again")):
            _check_labels(folder / RUN, old, story)
        if not said:
            _check_answer(world, problem, steps, command, arguments, made, folder, ended, story)
        if command in REVIEW:
            break
        if command == "update" and "b" not in steps:
            steps = (*steps, "b")  # the next command is compared with a run that has them, too
    return 1


def _others(random: random.Random, world: World, problem: str, steps: tuple[str, ...]) -> list[Path]:
    """Runs that a file may be taken from: the same one before its last steps, and another one."""
    if problem in (PHOTOS, STORED):
        return [world.made(problem, steps[:n]) / RUN for n in range(len(steps))]
    another = f"vectors-{(int(problem.split('-')[1]) + random.randrange(1, PROBLEMS)) % PROBLEMS}"
    return [world.made(problem, steps[: random.randrange(len(steps) + 1)]) / RUN, world.made(another) / RUN]


def _check_found(
    random: random.Random, folder: Path, damage: str, old: Labels, kept: bool, done: Done, story: str
) -> None:
    """``check`` sees that bits were changed; what it repairs is as it was, and what it can't repair it leaves.

    `kept` says that the file of the labels is not what was damaged.
    """
    if done.code == 0 and done.json["sound"] and damage.endswith(CHANGED) and not damage.startswith(LOOSE):
        broken(SILENT, f"{story} finds nothing")
    if done.code == 0 or random.random() < 0.5:
        return
    repaired = check_end(run("check", RUN, "--repair", "--json", cwd=folder))
    if kept:
        _check_labels(folder / RUN, old, f"{story}, then --repair")
    if repaired.code == 0:
        check_end(run("check", RUN, "--json", cwd=folder), allowed=(0,))
        _check_labels(folder / RUN, old, f"{story}, then --repair")


def _check_refused(run: Path, held: dict[str, str], story: str) -> None:
    """A command that refuses leaves the files of the run as they are: there may be a way to save them."""
    now = snapshot(run)
    changed = [name for name in held if not name.startswith(".") and now.get(name) != held[name]]
    if lost := [
        name for name in changed if name in ("assignments.parquet", "split.parquet", "config.toml", "items.npz")
    ]:
        broken(LOST, f"{story} refused, but changed or removed {lost}")


def _check_labels(run: Path, old: Labels, story: str) -> None:
    try:
        now = labels_of(run)
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        broken(LOST, f"{story} ended well, but the assignments can't be read: {error}")
    check_kept(old, now, story)


def _arguments(world: World, problem: str, command: str) -> tuple[tuple[str, ...] | None, str]:
    base = ("--source", "base.npz") if world.start(problem)[0] == "train" else ()
    new = world.source(problem, "b")
    if command == "again":
        return world.start(problem), RUN
    if command == "update":
        return world.update(problem, "b"), RUN
    if command in REVIEW:
        return world.step(problem, "r" if command == "relabel" else command), RUN
    if command == "predict":
        return ("predict", RUN, new, "--out", "p.parquet", "--json"), "p.parquet"
    if command == "export":
        return ("export", RUN, "--format", "csv", "--out", "labels.csv", "--json"), "labels.csv"
    if command == "report":
        return ("report", RUN, *base, "--json"), RUN
    if command == "evaluate":
        return (None if problem in (PHOTOS, STORED) else ("evaluate", RUN, "--json")), RUN
    return ("check", RUN, "--json"), RUN


_kept: dict[tuple[str, ...], object] = {}


def _check_answer(
    world: World,
    problem: str,
    steps: tuple[str, ...],
    command: str,
    arguments: tuple[str, ...],
    made: str,
    folder: Path,
    done: Done,
    story: str,
) -> None:
    """An answer without a word of damage is the answer of the whole run."""
    key = (problem, *steps, "then", *arguments)
    if key not in _kept:
        at = folder.parent / "whole"
        world.copy(at, problem, steps)
        whole = check_end(run(*arguments, cwd=at))
        _kept[key] = _answer(at, command, made, whole) if whole.code == 0 else "refused"
        shutil.rmtree(at)
    found = _answer(folder, command, made, done)
    if found != _kept[key]:
        broken(SILENT, f"{story} answers differently and says nothing: {_first_difference(_kept[key], found)}")


def _answer(folder: Path, command: str, made: str, done: Done) -> object:
    if command == "predict":
        return labels_of(folder, made)
    if command == "export":
        lines = (folder / made).read_text().splitlines()
        return [lines[0], *sorted(lines[1:])]
    if command in ("update", "again", *REVIEW):
        try:
            return labels_of(folder / RUN)
        except (OSError, KeyError, ValueError, pa.ArrowException) as error:
            return repr(error)
    answer = done.json
    if command == "evaluate":
        return answer
    return answer.get("n") if command == "report" else None


def _first_difference(wanted: object, found: object) -> str:
    if isinstance(wanted, dict) and isinstance(found, dict):
        keys = [key for key in {**wanted, **found} if wanted.get(key) != found.get(key)]
        return f"{len(keys)} differ, {keys[0]}: {wanted.get(keys[0])} became {found.get(keys[0])}"
    if isinstance(wanted, list) and isinstance(found, list):
        return f"{sorted(set(wanted) - set(found))[:2]} became {sorted(set(found) - set(wanted))[:2]}"
    return f"{str(wanted)[:200]} became {str(found)[:200]}"
