"""Labels that people gave in other tools, from the JSON files that these tools export.

An item is known by the ``item_id`` that ``ltgcd export`` gave the tool; file names are not looked at, for two items may
have the same. Read are

- Label Studio: its exports "JSON" (annotations by people; predictions are no labels) and "JSON-MIN";
- FiftyOne: ``labels.json`` of a FiftyOneImageClassificationDataset (exported with ``include_attributes=True``, or it
  says of no label which item it is about), or ``samples.json`` of a FiftyOneDataset;
- COCO: ``labels.json`` with one category an image, as FiftyOne, CVAT and others write it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from ltgcd.common.errors import InputError
from ltgcd.data.regular_files import check_regular

UNSURE = "unsure"  # the category of an export that is no class
CONTROL = "category"  # name of the choices in the interface that an export comes with


class Answer(NamedTuple):
    """What one entry of a tool's file says: which item it is about, and its labels; None where that can't be told."""

    item: str | None
    labels: list[str | None]


class ToolLabels(NamedTuple):
    """Labels from a tool.

    Attributes
    ----------
    tool : str
        Which tool's layout the file has.
    table : pyarrow.Table
        ``id, label``, both text; a null label says that someone left the item unsure.
    notes : list of str
        A sentence for each kind of entry that could not be used.
    """

    tool: str
    table: pa.Table
    notes: list[str]


def read_tool_labels(path: Path) -> ToolLabels:
    """Read what people labelled in Label Studio, FiftyOne or a COCO tool.

    Parameters
    ----------
    path : path
        A ``.json`` file that the tool exported.
    """
    check_regular(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path} can't be read ({error.strerror}); give a .json file.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON; export it again from the tool.") from error
    tool, answers = _answers(content, path)
    table, notes = combine(answers)
    if not table["id"]:
        why = " ".join(notes) or "Nobody has labelled anything in it; label some items and export again."
        raise InputError(f"{path} has no label that can be used. {why}")
    try:
        columns = {name: pa.array(column, pa.string()) for name, column in table.items()}
    except UnicodeEncodeError as error:
        raise InputError(f"{path} has a name that is not UTF-8 ({error.object!r}); correct it in the tool.") from error
    return ToolLabels(tool, pa.table(columns), notes)


def combine(answers: list[Answer]) -> tuple[dict[str, list[str | None]], list[str]]:
    """One label an item, and a sentence for each kind of entry that gives none."""
    given: dict[str, set[str]] = {}
    nameless, unlisted, several = 0, 0, []
    for item, labels in answers:
        if item is None:
            nameless += bool(labels)
        elif None in labels:
            unlisted += 1
        elif labels:
            given.setdefault(item, set()).update(label for label in labels if label is not None)
    chosen: dict[str, str | None] = {}
    for item, found in given.items():
        if len(found) > 1:
            several.append(item)
        else:
            (label,) = found
            chosen[item] = None if label == UNSURE else label
    notes = []
    if nameless:
        notes.append(
            f"{nameless} entries don't say which item they are about (item_id) and were left out; give the tool what "
            "'ltgcd export' wrote, and export from FiftyOne with include_attributes=True."
        )
    if unlisted:
        notes.append(f"{unlisted} entries are of a class that the file has no name for, and were left out.")
    if several:
        notes.append(
            f"{len(several)} items have several different labels and were left out (for example '{several[0]}'); "
            "agree on one in the tool."
        )
    return {"id": list(chosen), "label": list(chosen.values())}, notes


# ---------------------------------------------------------------- one layout each


def label_studio_answers(tasks: list[Any]) -> Iterator[Answer]:
    """Choices of people in Label Studio's export "JSON" (a task with its annotations) or "JSON-MIN" (a flat row)."""
    for task in map(_mapping, tasks):
        full = "annotations" in task or "data" in task
        data = _mapping(task.get("data")) if full else task
        item, original = _text(data.get("item_id")), _mapping(data.get("class_names"))
        found = [_annotated(_mapping(one)) for one in _list(task.get("annotations"))] if full else [_flat(task)]
        for choices in found or [[]]:
            # Names that the interface could not show stand for what the export says they are.
            yield Answer(item, [_text(original.get(choice)) or choice for choice in choices])


def _annotated(annotation: dict[str, Any]) -> list[str]:
    """What an annotation chose; nothing if it was skipped."""
    if annotation.get("was_cancelled"):
        return []
    results = [one for one in map(_mapping, _list(annotation.get("result"))) if one.get("type") == "choices"]
    ours = [one for one in results if one.get("from_name") == CONTROL]
    return [choice for one in ours or results for choice in _texts(_mapping(one.get("value")).get("choices"))]


def _flat(row: dict[str, Any]) -> list[str]:
    """What a row of JSON-MIN chose: a name, or a mapping with several."""
    chosen = row.get(CONTROL)
    return _texts(chosen.get("choices") if isinstance(chosen, dict) else chosen)


def fiftyone_answers(content: dict[str, Any]) -> Iterator[Answer]:
    """Labels of a FiftyOneImageClassificationDataset: a number of a class or its name, with attributes or without."""
    classes = _list(content.get("classes"))
    for entry in _mapping(content.get("labels")).values():
        item: str | None = None
        labels: list[str | None] = []
        for one in entry if isinstance(entry, list) else [entry]:
            target = one.get("label") if isinstance(one, dict) else one
            item = item or _text(_mapping(_mapping(one).get("attributes")).get("item_id"))
            if isinstance(target, int) and classes:
                labels.append(_text(classes[target]) if 0 <= target < len(classes) else None)
            else:
                labels += _texts(target)
        yield Answer(item, labels)


def fiftyone_sample_answers(samples: list[Any]) -> Iterator[Answer]:
    """Labels of a FiftyOneDataset: whatever field of a sample holds a label with an item_id."""
    for sample in map(_mapping, samples):
        for value in sample.values():
            fields = _mapping(value)
            for one in map(_mapping, _list(fields.get("classifications") or fields.get("detections")) or [fields]):
                if "label" in one and "item_id" in one:
                    yield Answer(_text(one["item_id"]), [*_texts(one["label"])])


def coco_answers(content: dict[str, Any]) -> Iterator[Answer]:
    """Categories of the images of a COCO file. FiftyOne keeps what was an annotation's attributes beside its box."""
    categories = {_text(one.get("id")): _text(one.get("name")) for one in map(_mapping, content["categories"])}
    items = {_text(one.get("id")): _text(one.get("item_id")) for one in map(_mapping, content["images"])}
    for annotation in map(_mapping, content["annotations"]):
        told = annotation.get("item_id") or _mapping(annotation.get("attributes")).get("item_id")
        item = _text(told) or items.get(_text(annotation.get("image_id")))
        yield Answer(item, [categories.get(_text(annotation.get("category_id")))])


def _answers(content: object, path: Path) -> tuple[str, list[Answer]]:
    """Tell the layouts apart by what they can't be without."""
    if isinstance(content, list):
        return "Label Studio", list(label_studio_answers(content))
    if isinstance(content, dict):
        if all(isinstance(content.get(key), list) for key in ("images", "annotations", "categories")):
            return "COCO", list(coco_answers(content))
        if isinstance(content.get("labels"), dict):
            return "FiftyOne", list(fiftyone_answers(content))
        if isinstance(content.get("samples"), list):
            return "FiftyOne", list(fiftyone_sample_answers(content["samples"]))
    raise InputError(
        f"{path} is not a file of labels that can be read; give Label Studio's export as JSON, or FiftyOne's "
        "labels.json or samples.json."
    )


# ---------------------------------------------------------------- values of any kind, as people's files have them


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str | None:
    """A name or an id; numbers are as good as names. None for anything else, and for nothing."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) or None


def _texts(value: object) -> list[str]:
    return [text for one in (value if isinstance(value, list) else [value]) if (text := _text(one)) is not None]
