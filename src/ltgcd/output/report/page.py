"""The report: one HTML page that a person would rather look at than read, and can correct the run on.

The report is the page of ``ltgcd review`` without a server: a template with the style sheets, the modules in one
script and one block of JSON. Nothing that comes from the data is ever markup: the block has no ``<``, the script makes
elements and sets their text, and a content policy with the hashes of our own script and style keeps everything else
from running or from reaching the network. `served_page` is the same page for a server, which serves `static_folder`.
"""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.metadata
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.data.collection import Collection, imbalance_factor
from ltgcd.output.report.assigned import STATUSES, Assigned
from ltgcd.output.report.cards import make_cards
from ltgcd.output.report.categories import assigned_figures
from ltgcd.output.report.columns import item_columns
from ltgcd.output.report.layout import Places
from ltgcd.output.report.pictures import Pictures, collection_pictures
from ltgcd.output.report.sentences import (
    MARKED,
    Counts,
    calibration_sentence,
    count_categories,
    estimate_sentence,
    expected_right,
    not_counted,
    number,
    plural,
    right_of_hundred,
)

STYLES = ("page.css", "more.css")
POLICY = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; script-src {}; style-src {}"
IMPORT = re.compile(r'^import \{ ([^}]+) \} from "\./([\w-]+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?:async function|function|class|const) ([\w$]+)", re.MULTILINE)
KINDS = {"image": ("image", "images"), "text": ("text", "texts"), "vector": ("item", "items")}


@dataclass(frozen=True, eq=False)
class Report:
    """All that a report is made of.

    Attributes
    ----------
    collection : Collection
        The items to show, with the labels that were given; bare vectors are shown by their ids.
    features : ndarray, shape (N, D)
        Features of the collection's items, in its order.
    assignments : pyarrow.Table
        ``id, label, name, status, confidence``, in any order; items without an assignment are left out, and the page
        says so.
    places : Places
        Where the collection's items are on the map, see `ltgcd.output.report.layout.places_on_map`.
    k_estimate : dict or None
        Result of the estimate of the class number: ``method, k, low, high, n_old, curve, evidence``; None where the
        number was given.
    calibration_error, calibration_chance, refined : float or None, float or None, bool
        See `ltgcd.output.report.sentences.calibration_sentence`.
    appended : int
        Classes that later items have added to those that were estimated.
    pictures : callable or None
        Images of some rows of the collection, for vectors that have a picture; images are found without it.
    seed : int or None
        Seed of the discovery.
    title : str
        Name of the report.
    y : ndarray of int64, shape (N,), or None
        All labels of the source, -1 for none, where the collection knows only those of the fit.
    """

    collection: Collection
    features: NDArray[np.floating]
    assignments: pa.Table
    places: Places
    k_estimate: dict[str, Any] | None = None
    calibration_error: float | None = None
    calibration_chance: float | None = None
    refined: bool = False
    appended: int = 0
    pictures: Pictures | None = None
    seed: int | None = None
    title: str = "ltgcd"
    y: NDArray[np.int64] | None = None


def report_html(report: Report, progress: Callable[[str], None] = lambda _stage: None) -> str:
    """The page as text; `progress` is called with the name of each stage as it starts."""
    collection, n = report.collection, len(report.collection)
    progress("looking at the categories")
    assigned, figures = assigned_figures(collection, report.features, report.assignments, report.y)
    if np.shape(report.places.xy) != (n, 2):
        raise InputError(f"Places on the map must have the shape ({n}, 2), not {np.shape(report.places.xy)}.")
    closeness, is_far = figures.closeness()[assigned.rows], figures.is_far[assigned.rows]
    cards, shown = make_cards(assigned, figures, closeness)
    progress("writing the page")
    places = np.asarray(report.places.xy, dtype=np.float32)[assigned.rows]
    pictures = report.pictures or collection_pictures(collection)
    data = {
        "meta": page_facts(report, assigned),
        "k": k_curve(report.k_estimate),
        "categories": cards,
        **item_columns(collection, assigned, shown, closeness, is_far, places, pictures),
    }
    return render(data)


def render(data: dict[str, Any]) -> str:
    """The page as one file that needs no server."""
    style = "".join((static_folder() / name).read_text(encoding="utf-8") for name in STYLES)
    script = one_script("start-file")
    policy = POLICY.format(_hash(script), _hash(style))
    block = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        block = block.replace(character, f"\\u{ord(character):04x}")
    return _fill_in(
        TITLE=html.escape(data["meta"]["title"]),
        HEAD=f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>',
        END=f'<script type="application/json" id="data">{block}</script>\n<script>{script}</script>',
    )


def served_page(title: str, static: str = "/static/") -> str:
    """The page as a server sends it: styles and modules are asked for below `static`, and everything else by them."""
    links = "".join(f'<link rel="stylesheet" href="{static}{name}">\n' for name in STYLES)
    # All at once, not one after another as each is found to import the next.
    links += "".join(f'<link rel="modulepreload" href="{static}{name}.js">\n' for name in modules_of("start-server"))
    end = f'<script type="module" src="{static}start-server.js"></script>'
    return _fill_in(TITLE=html.escape(title), HEAD=links, END=end)


def static_folder() -> Traversable:
    """Where the page's styles and modules are."""
    return resources.files("ltgcd.output.report") / "static"


def modules_of(entry: str) -> dict[str, str]:
    """A module and all that it imports, by name: what another one needs comes before it."""
    texts: dict[str, str] = {}

    def add(name: str) -> None:
        if name not in texts:
            text = (static_folder() / f"{name}.js").read_text(encoding="utf-8")
            for _, needed in IMPORT.findall(text):
                add(needed)
            texts[name] = text

    add(entry)
    return texts


def one_script(entry: str) -> str:
    """A module and all that it imports as one script: each is a function that gives what it exports."""
    script = '"use strict";\nconst modules = {};\n'
    for name, text in modules_of(entry).items():
        given = ", ".join(EXPORT.findall(text))
        body = EXPORT.sub(lambda found: found[0].removeprefix("export "), text)
        body = IMPORT.sub(lambda found: f'const {{ {found[1]} }} = modules["{found[2]}"];', body)
        script += f'modules["{name}"] = (() => {{\n{body}return {{ {given} }};\n}})();\n'
    return script


def _fill_in(**parts: str) -> str:
    """The template with its parts, put in from the left, so that no part is ever searched for the next one's mark."""
    page, rest = "", (static_folder() / "page.html").read_text(encoding="utf-8")
    for mark, part in parts.items():
        before, _, rest = rest.partition(f"@{mark}@")
        page += before + part
    return page + rest


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# ---------------------------------------------------------------- the header and the chart of the class number


def page_facts(report: Report, assigned: Assigned) -> dict[str, Any]:
    """What the header says; sentences are written here, so that the commands can say the same."""
    collection = report.collection
    sizes = np.bincount(assigned.members[assigned.members >= 0], minlength=len(assigned.labels)).astype(np.int64)
    statuses = np.bincount(assigned.status, minlength=len(STATUSES))
    counts = count_categories(report.assignments, collection.n_old)
    return {
        "title": report.title,
        "n": len(assigned.rows),
        "left_out": len(collection) - len(assigned.rows),
        "laid_out": report.places.laid_out,
        "counts": asdict(counts),
        "status": {name: int(count) for name, count in zip(STATUSES, statuses, strict=True)},
        "lead": " ".join(lead_sentences(report, assigned, counts)),
        "imbalance": round(imbalance_factor(sizes), 1),
        **facts_of_fit(
            report.k_estimate, report.calibration_error, report.calibration_chance, report.seed, report.refined
        ),
    }


def facts_of_fit(
    k_estimate: dict[str, Any] | None,
    error: float | None,
    chance: float | None,
    seed: int | None,
    refined: bool = False,
) -> dict[str, Any]:
    """What is known of a fit apart from its items: the estimate, what its confidences are worth, the seed."""
    return {
        **{key: number((k_estimate or {}).get(key)) for key in ("k", "low", "high")},
        "confidences": calibration_sentence(error, chance, refined),
        "marked": MARKED,
        "right": None if refined else right_of_hundred(error),
        "seed": seed,
        "version": importlib.metadata.version("ltgcd"),
    }


def lead_sentences(report: Report, assigned: Assigned, counts: Counts) -> list[str]:
    """The sentences under the headline."""
    n, labelled = len(assigned.rows), int(report.collection.labelled[assigned.rows].sum())
    found = [f"{plural(n, *KINDS[report.collection.items.kind])}, {labelled:,} of them labelled."]
    found.append(estimate_sentence(report.k_estimate, report.appended))
    evidence = (report.k_estimate or {}).get("evidence") or {}
    if sampled := evidence.get("sampled"):
        found.append(f"That number was {sampled}.")
    if caution := evidence.get("fallback"):
        found.append(f"Careful with that number: {caution}.")
    found += not_counted(counts)
    found.append(expected_right(report.calibration_error, report.refined))
    return [sentence for sentence in found if sentence]


def k_curve(k_estimate: dict[str, Any] | None) -> dict[str, Any] | None:
    """Points of the chart of the class number; None where there is no estimate."""
    if not k_estimate or number(k_estimate.get("k")) is None:
        return None
    points = [[number(k), number(score)] for k, score in k_estimate.get("curve") or []]
    evidence = k_estimate.get("evidence") or {}
    return {
        "score": "log-likelihood" if "known_share" in evidence else "accuracy on labelled items, %",
        "curve": [point for point in points if None not in point],
        "n_old": number(k_estimate.get("n_old")),
    }
