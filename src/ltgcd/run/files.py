"""How a run writes and reads its files: whole or not there, each with a checksum of its own (`common.checksums`)."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from ltgcd.common.checksums import (
    bytes_are_as_written,
    checked_object,
    checked_text,
    text_is_as_written,
    unchecked_object,
)
from ltgcd.common.errors import InputError
from ltgcd.common.files import atomic_path, json_text
from ltgcd.data.items import Items, Vectors

DAMAGED = "is damaged; restore it, or start the run again in a new folder"


def write_toml(path: Path, value: dict[str, Any]) -> None:
    """Write a TOML file; its checksum is in a comment."""
    with atomic_path(path) as temporary:
        temporary.write_text(checked_text(tomli_w.dumps(value)), encoding="utf-8")


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, or say in a sentence that it is damaged."""
    try:
        text = path.read_bytes().decode()
        value = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path} {DAMAGED}.") from error
    if text_is_as_written(text) is False or not value:
        raise InputError(f"{path} {DAMAGED}.")
    return value


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    """Write a file of JSON, an object a line, each with its checksum."""
    with atomic_path(path) as temporary:
        temporary.write_text(_lines_text(lines), encoding="utf-8")


def _lines_text(lines: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(checked_object(line)) + "\n" for line in lines)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """What `write_lines` was given; no line if there is no such file."""
    try:
        lines = [json.loads(line) for line in path.read_bytes().decode().splitlines()]
    except FileNotFoundError:
        return []
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} {DAMAGED}.") from error
    if not all(isinstance(line, dict) for line in lines):
        raise InputError(f"{path} {DAMAGED}.")
    return [unchecked_object(line, path) for line in lines]


def readable_lines(path: Path) -> list[dict[str, Any]]:
    """Those of the lines that `write_lines` was given that are as they were written."""
    kept = []
    for text in path.read_bytes().splitlines() if path.is_file() else []:
        try:
            line = json.loads(text)
            unchecked = unchecked_object(line, path)
        except (ValueError, AttributeError, RecursionError, InputError):
            continue
        if unchecked != line:  # it has a checksum
            kept.append(unchecked)
    return kept


def file_is_as_written(path: Path) -> bool | None:
    """Whether every byte of a file that a run keeps is as it was written; None if it does not say."""
    if path.suffix in (".parquet", ".npz"):
        return bytes_are_as_written(path)
    text = path.read_bytes()
    try:
        if path.suffix == ".toml":
            return text_is_as_written(text.decode())
        if path.suffix == ".jsonl":
            return text == _lines_text(read_lines(path)).encode()
        value = json.loads(text)
        has_checksum = unchecked_object(value, path) != value
        return text == json_text(value).encode() if has_checksum else None
    except (ValueError, AttributeError, InputError):
        return False


def features_checksum(items: Items) -> str:
    """SHA-256 of embeddings, as the float32 that every method works in; other items have none."""
    if not isinstance(items, Vectors):
        return ""
    digest = hashlib.sha256(str(items.x.shape).encode())
    for start in range(0, len(items), 4096):
        digest.update(items.take(np.arange(start, min(start + 4096, len(items)))).tobytes())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Versions of what decides the figures."""
    packages = ("ltgcd", "numpy", "scipy", "scikit-learn", "torch", "faiss-cpu")
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in packages}}
