"""The whole loop with the keyboard alone, on real data and with everything real: discover, the server, the refit."""

from __future__ import annotations

import csv
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("starlette", reason="the server needs ltgcd[review]")

from chromium import browser  # noqa: F401 - a fixture
from test_review_page import wait_until

from ltgcd.data.sources import read_source
from ltgcd.review.server.serve import ReviewServer, open_server
from ltgcd.run.discover import discover_source

CLASSES, LARGEST = 8, 60  # of the collection; sizes fall from LARGEST on
LABELLED = 0.4  # of every second class


def some_of(path: Path, seed: int) -> Iterator[tuple[dict[str, Any], str, bool]]:
    """Rows of a table of a benchmark: a few classes of falling size, each row with its class and whether it is told."""
    table, random = pq.read_table(path), np.random.RandomState(seed)
    names = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]["label"]["names"]
    y = table.column("label").to_numpy()
    chosen = random.permutation(np.flatnonzero(np.bincount(y) >= LARGEST))[:CLASSES]
    for rank, label in enumerate(chosen):
        rows = random.permutation(np.flatnonzero(y == label))[: int(LARGEST / (rank + 1) ** 0.4)]
        for row in rows.tolist():
            told = rank % 2 == 0 and random.rand() < LABELLED
            yield {"row": row, **table.slice(row, 1).to_pylist()[0]}, names[label], told


def photos(data: Path, folder: Path) -> Path:
    for item, name, told in some_of(data / "plankton" / "train.parquet", 3):
        into = folder / "photos" / (name if told else "unlabelled")
        into.mkdir(parents=True, exist_ok=True)
        (into / f"{item['row']:05d}.jpg").write_bytes(item["image"]["bytes"])
    return folder / "photos"


def tickets(data: Path, folder: Path) -> Path:
    with (folder / "tickets.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["id", "text", "label"])
        for item, name, told in some_of(data / "banking77" / "train.parquet", 3):
            out.writerow([f"ticket-{item['row']}", item["text"], name if told else ""])
    return folder / "tickets.csv"


class Keyboard:
    """A person without a mouse; the place of the keyboard is never lost."""

    def __init__(self, page: Any, server: ReviewServer) -> None:
        self.page, self.server = page, server
        self.troubles: list[str] = []
        page.on("console", lambda message: self.troubles.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.set_default_timeout(120_000)
        page.goto(server.url)
        page.wait_for_selector("html[data-ready]")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            self.page.wait_for_timeout(40)

    def panel(self, words: str = "") -> None:
        self.page.locator("dialog", has_text=words).wait_for()

    def closed(self) -> None:
        self.page.locator("dialog").wait_for(state="detached")

    def said(self, words: str) -> None:
        """A message, which a screen reader reads out, too."""
        self.page.locator("#toasts[role=status] .toast", has_text=words).first.wait_for()
        wait_until(self.page, "document.activeElement !== document.body")

    def go_to(self, code: int) -> None:
        """To a class, by typing its name."""
        name = self.names[code]
        self.press("/")
        self.page.keyboard.insert_text(name)
        self.press("Enter")
        wait_until(self.page, "n => document.querySelector('#name').textContent === n", name)
        wait_until(self.page, "document.querySelectorAll('#grid .cell').length > 0")
        wait_until(self.page, "document.activeElement?.id === 'grid'")
        self.press("Escape")

    @property
    def review(self) -> Any:
        return self.server.session.held.review

    @property
    def names(self) -> dict[int, str]:
        found: dict[int, str] = self.review.class_names()
        return found

    def sizes(self) -> dict[int, int]:
        described = self.server.session.described
        return {code: int(described.sizes[code]) for code in described.shown}


@pytest.mark.parametrize("kind", ["image", "text"])
def test_the_loop_on_real_data(kind: str, browser: Any, real_data: Path, tmp_path: Path) -> None:  # noqa: F811
    source = (photos if kind == "image" else tickets)(real_data, tmp_path)
    discover_source(read_source(source), tmp_path / "run", rehearsals=1, k=CLASSES)
    server = open_server(tmp_path / "run", port=0)
    serving = threading.Thread(target=server.serve, daemon=True)
    serving.start()
    context = browser.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    hands = Keyboard(context.new_page(), server)
    page = hands.page
    try:
        novel = [code for code, size in hands.sizes().items() if not server.session.described.known[code] and size > 9]
        first, second = novel[0], novel[1]
        # Accept all but two; these are junk.
        hands.go_to(first)
        size = hands.sizes()[first]
        hands.press("x", "ArrowRight", "x", "a")
        hands.said(f"Accepted {size - 2} items")
        assert hands.review.given.sum() == size - 2
        hands.press("d")
        hands.said("2 items put to the junk")
        assert hands.review.junk.sum() == 2
        # Name it.
        hands.press("r")
        page.keyboard.insert_text("what I call it")
        hands.press("Enter")
        hands.said("is called “what I call it” now")
        assert hands.names[first] == "what I call it"
        # Split another one in parts, and give it the last of them back.
        hands.go_to(second)
        before = len(hands.names)
        hands.press("s")
        page.locator("dialog .part").nth(1).wait_for()
        hands.press("Enter")
        hands.said("is split")
        parted, part = len(hands.names), max(hands.names)
        assert parted > before
        hands.press("m")
        hands.panel("are these the same?")
        page.locator("dialog .half, dialog .namefield").nth(1).wait_for()
        hands.press("/")
        page.keyboard.insert_text(hands.names[part])
        hands.press("Enter")
        page.locator("dialog[open] .half h3", has_text=hands.names[part]).first.wait_for()
        hands.press("m")
        hands.said("is part of")
        assert len(hands.names) == parted - 1
        # Move one item, and see it there.
        hands.press("ArrowDown", "x", "v")
        hands.panel("Move 1 item to")
        page.keyboard.insert_text("what I call it")
        hands.press("Enter")
        hands.said("Moved 1 item to")
        moved = int(np.flatnonzero(hands.review.given & (hands.review.code == first))[0])
        assert (hands.review.code[hands.review.given] == first).sum() == size - 1
        # Grow: nothing is promised, so nothing is ticked; one of what is proposed does not belong, the others do.
        hands.go_to(first)
        given = int(hands.review.given.sum())
        hands.press("g")
        wait_until(page, "document.querySelectorAll('dialog .cell').length >= 3")
        shown = page.locator("dialog .cell").count()
        assert page.locator("dialog .cell[aria-selected=true]").count() == 0
        hands.press("X", "x", "Enter")
        hands.said(f"{shown - 1} item")
        hands.press("Escape")
        hands.closed()
        assert hands.review.given.sum() == given + shown - 1
        # Undo and redo, to the same labels.
        after = hands.review.table()
        hands.press("u")
        hands.said("Undone: ")
        assert hands.review.given.sum() == given
        hands.press("U")
        hands.said("Done again: ")
        assert hands.review.table().equals(after)
        # Fit again, look at the difference, take it; then have the fit before it back, and take it away once more.
        hands.press("R")
        hands.said("The next fit is ready")
        hands.press("R")
        hands.panel("What the next fit changes")
        confirmed = np.flatnonzero(hands.review.given)
        held = hands.review.code[confirmed]
        page.locator("dialog button", has_text="Accept this fit").focus()  # nothing is accepted without it
        hands.press("Enter")
        hands.said("The fit is taken")
        assert (hands.review.code[confirmed] == held).all(), "what was confirmed stays"
        assert hands.names[first] == "what I call it"
        hands.press("h")
        page.locator("dialog button", has_text="Undo the last refine").wait_for()
        hands.press("B")
        hands.said("The fit before the last refine is back")
        assert hands.review.table().select(["id", "label", "given"]).equals(after.select(["id", "label", "given"]))
        # The labels as a file.
        with page.expect_download() as download:
            hands.press("E")
        download.value.save_as(tmp_path / "labels.csv")
        rows = list(csv.DictReader((tmp_path / "labels.csv").open()))
        assert len(rows) == len(hands.review)
        assert rows[moved]["label"] == "what I call it"
        assert sum(row["status"] == "junk" for row in rows) == 2
        assert hands.troubles == []
    finally:
        context.close()
        server.listener.close()


def test_real_data_is_of_both_kinds(real_data: Path, tmp_path: Path) -> None:
    assert read_source(photos(real_data, tmp_path)).collection.items.kind == "image"
    found = read_source(tickets(real_data, tmp_path)).collection
    assert found.items.kind == "text"
    assert isinstance(found.ids, pa.StringArray)
