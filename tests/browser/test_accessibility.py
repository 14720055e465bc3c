"""What a screen reader is told, what can be read in light and in dark, and what moves: the tree of the real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import browser  # noqa: F401 - a fixture
from fake_server import FakeRun
from test_review_page import Served, settle, wait_until

NAMED = {"button", "link", "textbox", "searchbox", "combobox", "listbox", "option", "slider", "dialog", "progressbar"}
NAMED |= {"img", "image", "navigation", "region", "toolbar", "group", "search", "figure", "list"}
MAY_BE_PLAIN = {"list", "group", "figure", "region"}  # where an element makes the role by itself
VIEWS = {
    "overview": [],
    "class": ["j"],
    "selected": ["j", "x", "ArrowRight", "x"],
    "merge": ["j", "m"],
    "split": ["j", "s"],
    "grow": ["j", "g"],
    "check": ["j", "p"],
    "detail": ["j", "Enter"],
    "move": ["j", "x", "v"],
    "rename": ["j", "r"],
    "history": ["j", "d", "h"],
    "keys": ["?"],
}
CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")


@pytest.fixture
def view(browser: Any) -> Iterator[Any]:  # noqa: F811
    served: list[Served] = []

    def start(keys: list[str], kind: str = "image", **context: Any) -> Served:
        one = Served(browser, FakeRun(kind, n=300, classes=7), **context)
        served.append(one)
        for key in keys:
            one.page.keyboard.press(key)
            one.page.wait_for_timeout(60)
        settle(one.page)
        return one

    yield start
    for one in served:
        one.context.close()
        one.server.shutdown()


def tree(served: Served) -> list[dict[str, Any]]:
    """The nodes that a screen reader sees, each with its role and name."""
    session = served.context.new_cdp_session(served.page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    return [
        {"role": node["role"]["value"], "name": node.get("name", {}).get("value", "").strip()}
        for node in nodes
        if not node.get("ignored")
    ]


def test_everything_that_can_be_used_has_a_name(view: Any) -> None:
    """One view after the other on one page, which is at its overview before each."""
    served = view([])
    for name, keys in VIEWS.items():
        served.page.reload()
        served.page.wait_for_selector("html[data-ready]")
        for key in keys:
            served.page.keyboard.press(key)
            served.page.wait_for_timeout(60)
        settle(served.page)
        nodes = tree(served)
        nameless = {node["role"] for node in nodes if node["role"] in NAMED - MAY_BE_PLAIN and not node["name"]}
        assert nameless == set(), name
        assert sum(node["role"] == "main" for node in nodes) <= 1, name
        if served.page.locator("dialog").count():
            assert any(node["role"] == "dialog" and node["name"] for node in nodes), name
            assert served.page.evaluate("document.activeElement.closest('dialog') !== null"), "the focus is in it"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["image", "text"])
def test_texts_can_be_read_in_both_schemes(kind: str, scheme: str, view: Any) -> None:
    served = view([], kind, color_scheme=scheme)
    for keys in (
        [],
        ["j"],
        ["x"],
        ["a"],
        ["m"],
        ["Escape", "g"],
        ["Escape", "Enter"],
        ["Escape", "h"],
        ["Escape", "?"],
    ):
        for key in keys:
            served.page.keyboard.press(key)
            settle(served.page)
        assert served.page.evaluate(CONTRAST) == [], (scheme, keys)


def test_the_main_views_read_as_what_they_are(view: Any) -> None:
    served = view(["j", "x"])
    page = served.page
    first = served.run.classes()[0]
    queue = page.locator("#queue").aria_snapshot()
    assert '- navigation "Classes and categories"' in queue
    assert '- searchbox "Search names, terms, item ids and texts"' in queue
    assert '- listbox "Queue"' in queue
    assert f'- option "{first["name"]}" [selected]' in queue
    centre = page.locator("#centre").aria_snapshot()
    assert f'- heading "{first["name"]}" [level=2]' in centre
    assert '- toolbar "Actions"' in centre
    assert '- listbox "Items"' in centre
    grid = page.locator("#grid").aria_snapshot()
    assert "heading" not in grid, "nothing but items is in the list of items"
    assert grid.count("- option ") == page.locator("#grid .cell").count()
    assert grid.count("[selected]") == 1
    bar = page.locator("#picked").aria_snapshot()
    assert '- toolbar "What to do with the selected items"' in bar
    assert "1 selected" in bar
    active = page.locator("#grid").get_attribute("aria-activedescendant")
    assert page.locator(f"#{active}").get_attribute("aria-posinset") == "1"
    page.keyboard.press("ArrowRight")
    assert page.locator("#grid").get_attribute("aria-activedescendant") != active
    assert page.locator("#progress").get_attribute("aria-valuetext").endswith("labelled or confirmed")


def test_what_an_action_did_is_announced_and_the_place_is_kept(view: Any) -> None:
    served = view(["j"])
    page = served.page
    assert page.locator("#toasts").get_attribute("aria-live") == "polite"
    for key, words in (("x", None), ("d", "put to the junk"), ("u", "Undone: junk 1."), ("U", "Done again: junk 1.")):
        page.keyboard.press(key)
        if words:
            page.locator("#toasts .toast", has_text=words).first.wait_for()
        assert page.evaluate("document.activeElement.id") == "grid"
    for key in ("m", "s", "g", "p", "Enter", "h", "?"):
        page.keyboard.press(key)
        page.locator("dialog").wait_for()
        page.keyboard.press("Escape")
        page.locator("dialog").wait_for(state="detached")
        wait_until(page, "document.activeElement.id === 'grid'")
    ring = "getComputedStyle(document.querySelector('#grid .here'), '::after').borderTopStyle"
    assert page.evaluate(ring) == "solid", "where the keyboard stands is seen"


def test_nothing_moves_for_who_wants_that(view: Any) -> None:
    moving = "getComputedStyle(document.querySelector('#progress i')).transitionDuration"
    assert view([]).page.evaluate(moving) == "0.3s"
    assert view([], reduced_motion="reduce").page.evaluate(moving) == "0s"
