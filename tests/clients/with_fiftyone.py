"""FiftyOne and pycocotools load what `run.py` exported; a person's changes are exported back. Runs in their own .venv.

``python with_fiftyone.py FOLDER``: FOLDER holds the exports and ``expected.json`` (item_id -> category).
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path
from typing import Any

import fiftyone as fo
from pycocotools.coco import COCO


def main(folder: Path) -> None:
    expected: dict[str, str] = json.loads((folder / "expected.json").read_text())
    changes: dict[str, str] = json.loads((folder / "changes.json").read_text())
    fo.config.show_progress_bars = False
    tool = f"fiftyone {fo.__version__}"

    dataset = fo.Dataset.from_dir(str(folder / "fiftyone"), fo.types.FiftyOneImageClassificationDataset)
    found = dict(zip(dataset.values("ground_truth.item_id"), dataset.values("ground_truth.label"), strict=True))
    assert found == expected, found
    dataset.compute_metadata()
    assert all(dataset.values("metadata.width"))
    print(f"{tool}: FiftyOneImageClassificationDataset, {len(dataset)} images, {len(set(found.values()))} labels")
    for sample in dataset:
        if sample.ground_truth.item_id in changes:
            sample.ground_truth.label = changes[sample.ground_truth.item_id]
            sample.save()
    field: dict[str, Any] = {"label_field": "ground_truth", "export_media": False}
    form = fo.types.FiftyOneImageClassificationDataset
    dataset.export(labels_path=str(folder / "fiftyone.json"), dataset_type=form, include_attributes=True, **field)
    dataset.export(export_dir=str(folder / "back"), dataset_type=fo.types.FiftyOneDataset, export_media=False)

    kinds = ["detections", "segmentations"]
    boxes = fo.Dataset.from_dir(str(folder / "coco"), fo.types.COCODetectionDataset, label_types=kinds)
    found = {}
    for sample in boxes:
        (box,), (outline,) = sample.detections.detections, sample.segmentations.detections
        assert box.bounding_box == [0, 0, 1, 1]
        assert outline.mask.all()
        found[box.item_id] = box.label
        if box.item_id in changes:
            box.label = changes[box.item_id]
            sample.save()
    assert found == expected, found
    print(f"{tool}: COCODetectionDataset, {len(boxes)} images, each with a box and a mask")
    coco = fo.types.COCODetectionDataset
    boxes.export(labels_path=str(folder / "coco.json"), dataset_type=coco, label_field="detections")

    tree = fo.Dataset.from_dir(str(folder / "folders"), fo.types.ImageClassificationDirectoryTree)
    names = tree.distinct("ground_truth.label")
    print(f"{tool}: ImageClassificationDirectoryTree, {len(tree)} images, {len(names)} labels")
    assert len(tree) == len(expected)

    with redirect_stdout(io.StringIO()):
        direct = COCO(str(folder / "coco" / "labels.json"))
    masks = [direct.annToMask(annotation) for annotation in direct.loadAnns(direct.getAnnIds())]
    assert len(masks) == len(expected)
    assert all(mask.all() for mask in masks)
    print(f"pycocotools {version('pycocotools')}: {len(direct.getImgIds())} images, {len(masks)} masks of whole images")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
