"""The images below a folder, and a sentence on what looks like an image and can't be read."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from ltgcd.common.errors import InputError
from ltgcd.data.images import image_suffix, is_image_name, is_unread_image_name
from ltgcd.data.regular_files import is_regular


class FoundImages(NamedTuple):
    """Paths of images below a folder, in the order of their names, and a sentence for each kind of file left out."""

    paths: list[str]
    notes: list[str]


def find_images(folder: Path) -> FoundImages:
    """Look for images below a folder. A link back to a folder above itself is not followed, nor a hidden folder."""

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename} can't be listed ({error.strerror}); allow it or move it away.") from error

    paths: list[str] = []
    special: list[str] = []
    unread: Counter[str] = Counter()
    above: dict[str, frozenset[tuple[int, int]]] = {str(folder): frozenset()}
    for where, folders, files in os.walk(folder, followlinks=True, onerror=refuse):
        status = Path(where).stat()
        here = above.pop(where) | {(status.st_dev, status.st_ino)}
        folders[:] = sorted(name for name in folders if not name.startswith(".") and not _is_one_of(where, name, here))
        above.update((os.path.join(where, name), here) for name in folders)  # noqa: PTH118 - the key of os.walk
        base = Path(where).relative_to(folder).as_posix()
        prefix = "" if base == "." else f"{base}/"
        for name in sorted(files):
            if is_unread_image_name(name):
                unread[image_suffix(name)] += 1
            elif is_image_name(name):
                (paths if is_regular(f"{where}/{name}") else special).append(prefix + name)
    return FoundImages(paths, [*_unread_note(unread, folder), *_special_note(special, folder)])


def _is_one_of(where: str, name: str, folders: frozenset[tuple[int, int]]) -> bool:
    status = Path(where, name).stat()
    return (status.st_dev, status.st_ino) in folders


def _unread_note(unread: Counter[str], folder: Path) -> list[str]:
    if not unread:
        return []
    listed = ", ".join(f"{n} {ending}" for ending, n in unread.most_common())
    return [f"{folder}: images of a format that is not read were left out ({listed}); save them as JPEG or PNG."]


def _special_note(special: list[str], folder: Path) -> list[str]:
    if not special:
        return []
    return [
        f"{folder}: {len(special)} images were left out, for they are no files, or links to nothing (for example "
        f"'{special[0]}')."
    ]
