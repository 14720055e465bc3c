"""Keep a fitted collection as a run directory, and read it again: `CategoryDiscovery.save` and ``load``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import read_metadata, with_metadata
from ltgcd.data.collection import UNLABELLED, Collection, Source, positions
from ltgcd.data.items import Vectors
from ltgcd.data.python_labels import KINDS, check_can_be_kept, kind_of, with_novel_labels
from ltgcd.data.row_ids import ROWS, ids_from_text, kind_of_ids
from ltgcd.discovery.fitted_collection import FittedCollection
from ltgcd.discovery.task import DiscoveryConfig
from ltgcd.run.directory import Run
from ltgcd.run.labels import LABEL_CODES, codes_of_labels
from ltgcd.run.made_classes import with_made_classes
from ltgcd.run.predict import RunModel, load_run_model
from ltgcd.run.report import appended_classes
from ltgcd.run.suggested import with_suggestions
from ltgcd.run.train import config_of_run, described_calibrations, described_estimate, kept_estimate, run_config
from ltgcd.training.model import FittedModel


def save_fitted(
    folder: Path | str,
    held: FittedCollection,
    config: DiscoveryConfig,
    parameters: dict[str, Any],
    columns: Sequence[str],
    ids: Sequence[str] | None = None,
) -> Path:
    """Write a run directory, which every command takes.

    Parameters
    ----------
    folder : path
        A new folder, or one that holds the very same run.
    held : FittedCollection
        The items and the model.
    config : DiscoveryConfig
        What was run.
    parameters : dict
        Those of `CategoryDiscovery`.
    columns : sequence of str
        Names of the columns of X, where it was a DataFrame.
    ids : sequence of str, length N, optional
        Ids of the items; by default their own.
    """
    check_can_be_kept(held.classes)
    if parameters["unlabelled"] is not None:
        check_can_be_kept([parameters["unlabelled"]], "What stands for an unlabelled item,")
    run, decisive = Run(folder), run_config(config, None)
    decisive["estimator"] = {
        "classes": held.names(),
        "kind": kind_of(held.classes),
        "kinds": [kind_of([label]) for label in held.classes],  # a class that was named later may be of another kind
        "parameters": _plain(parameters),
        "columns": list(columns),
        "ids": kind_of_ids(held.ids if ids is None else ids),
    }
    spoken_of = held.known.copy()
    spoken_of[held.given[held.given != UNLABELLED]] = True
    known = np.flatnonzero(spoken_of)
    names = tuple(held.names()[code] for code in known)
    place = np.full(len(held.classes) + 1, UNLABELLED)  # the last one is that of -1
    place[known] = np.arange(len(known))
    collection = Collection(held.ids_or(ids), Vectors(held.x), place[held.given], names)
    run.check_free()
    with run.lock("CategoryDiscovery.save"):
        run.check_not_updated()  # what a command has added since is not put back
        run.check_not_reviewed()
        run.begin(decisive, Source(collection, None))
        tensors, description = held.fitted.state()
        note: dict[str, Any] = {"class_names": held.names()[: held.n_old], "dim": int(held.x.shape[1])}
        note |= described_calibrations(held.calibrations)
        if held.features_key is not None:
            note["features"] = {key: value for key, value in held.features_key.items() if value is not None}
        run.write_model(tensors, {**description, "note": note})
        run.write_features(collection.ids, held.x)
        if held.estimate is not None:
            run.write_estimate(described_estimate(held.estimate, collection.ids, held.n_old))
        table = with_suggestions(held.table(ids), held.collection(ids=ids), held.x, held.given)
        note = {**read_metadata(table.schema), LABEL_CODES: known.tolist()}
        run.write_assignments(with_metadata(table, note))
    return run.folder


class Loaded(NamedTuple):
    """What a run directory tells `CategoryDiscovery`.

    Its parameters, the configuration that was run, the columns of X, the items with the model.
    """

    parameters: dict[str, Any]
    config: DiscoveryConfig
    columns: list[str]
    held: FittedCollection


def load_fitted(folder: Path | str, weights: Path | str | None = None) -> Loaded:
    """Read a run directory: what `save_fitted` wrote, or a finished run of ``ltgcd discover``.

    Parameters
    ----------
    folder : path
        The run.
    weights : path, optional
        Backbone weights, for a run whose last stage was trained with others than the usual ones.
    """
    run = Run.open(folder)
    config, model = run.config(), load_run_model(run, Path(weights) if weights is not None else None)
    table, features, labels = run.assignments(), run.features(), run.labels()
    if features is None:
        raise InputError(f"{folder} keeps no features of its items, which a model needs to be updated.")
    ids = table.column("id").combine_chunks()
    at = positions(ids, labels.ids, f"the labels of {run}", "restore them")
    note = read_metadata(table.schema)
    codes = np.asarray(table.column("label").to_numpy(), dtype=np.int64)
    status = table.column("status").to_numpy(zero_copy_only=False)
    x = features.of(ids, run)
    model, _ = with_made_classes(run, model, codes[status != "junk"], x[status != "junk"])
    kept, fitted = config.get("estimator") or {}, model.fitted
    known = model.classes.is_known(model.codes)
    found = model.index_of(codes)
    # What the labels say, and over it what people said in a review.
    of_label = codes_of_labels(labels.class_names, {"n_old": len(labels.class_names), **note}, model.classes)
    given = model.index_of(np.append(of_label, UNLABELLED)[labels.y[at]])
    if "given" in table.column_names:
        given = np.where(np.asarray(table.column("given")) & (status != "junk"), found, given)
    held = FittedCollection(
        fitted=fitted,
        classes=_classes(model, known, kept),
        known=known,
        x=x,
        given=given,
        labels=np.where(found == UNLABELLED, 0, found),  # of junk whose class is gone
        confidence=np.asarray(table.column("confidence").to_numpy(), dtype=np.float32),
        unsure=np.asarray(status == "unsure", dtype=np.bool_),
        ids=_ids(ids.to_pylist(), kept.get("ids", "str")),
        estimate=kept_estimate(run),
        calibration_off=(note.get("calibration_error"), note.get("calibration_chance")),
        features_key=model.features,
        junk=np.asarray(status == "junk", dtype=np.bool_) if (status == "junk").any() else None,
        next_number=model.classes.next_number,
        calibrations=model.calibrations,
        appended=appended_classes(note, run.estimate()),
        source=labels.y[at],
    )
    parameters = {
        "unlabelled": None,
        **(kept.get("parameters") or _parameters(config, fitted)),
    }  # what is missing was None
    ran = replace(config_of_run(run), rehearsals=int(config.get("rehearsals", 0)))
    return Loaded(parameters, ran, list(kept.get("columns") or ()), held)


def _ids(ids: list[str], kind: str) -> list[Any] | None:
    """Ids as the user has them; None where they are the numbers of the rows."""
    found = ids_from_text(ids, kind)
    return None if kind == ROWS and found == list(range(len(found))) else found


def _classes(model: RunModel, known: NDArray[np.bool_], kept: dict[str, Any]) -> list[Any]:
    """The label of each class as the user has it; what commands have added since has the name that they gave it."""
    kind, texts = kept.get("kind", "str"), list(kept.get("classes", ()))
    kinds = kept.get("kinds", [kind] * len(texts))
    # By its code, for runs that were saved with 1 and "1"; a class that was taken out and made again has another.
    labels = [KINDS[of](text) for text, of in zip(texts, kinds, strict=True)]
    own = dict(zip(texts, labels, strict=True))
    classes: list[Any] = []
    for code, name, is_known in zip(model.codes.tolist(), model.class_names, known, strict=True):
        if code < len(texts) and texts[code] == name:
            classes.append(labels[code])
        elif name in own:
            classes.append(own[name])
        elif is_known or kind == "str":
            classes.append(name)
        else:
            classes = with_novel_labels(classes, model.fitted.n_old, len(classes) + 1)
    return classes


def _parameters(config: dict[str, Any], fitted: FittedModel) -> dict[str, Any]:
    """Parameters of a run that a command made, as far as `CategoryDiscovery` has them."""
    return {
        "n_classes": fitted.k if config.get("k") == "auto" else config["k"],
        "method": config["method"],
        "rehearsals": config.get("rehearsals", 0),
        "labels_from": config.get("labels_from", "collection"),
        "unlabelled": UNLABELLED,
        "random_state": config.get("random_state", 0),
    }


def _plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters as TOML can hold them: no numbers of NumPy's, and None left out."""
    return {
        name: _plain(value) if isinstance(value, dict) else value.item() if isinstance(value, np.generic) else value
        for name, value in parameters.items()
        if value is not None
    }
