"""Panels in a real browser: what is written in them, that all of it is seen, undo, and a picture to look into."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from chromium import browser  # noqa: F401 - a fixture
from fake_server import FakeRun
from test_newcomer import LIKE
from test_page import open_page, pages  # noqa: F401 - fixtures
from test_review_page import SHOWN, Served, serve_page, wait_until  # noqa: F401 - a fixture

PHONE = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}


def test_no_panel_of_the_file_writes_what_is_not_there(open_page: Any) -> None:  # noqa: F811
    page = open_page().page
    page.keyboard.press("j")
    page.wait_for_function("document.querySelectorAll('#grid .cell').length > 0")
    for key in ("Enter", "m"):
        page.keyboard.press(key)
        page.locator("dialog footer button, dialog footer input").first.wait_for()
        assert "null" not in page.locator("dialog").inner_text(), key
        page.keyboard.press("Escape")
        page.locator("dialog").wait_for(state="detached")


def open_class(served: Served, *keys: str) -> None:
    served.press("j")
    wait_until(served.page, "document.querySelectorAll('#grid .cell').length > 0")
    served.press(*keys)
    served.page.locator("dialog footer *").first.wait_for()


@pytest.mark.parametrize("context", [{}, PHONE], ids=["wide", "phone"])
def test_names_are_offered_inside_of_a_panel_and_messages_lie_above_its_buttons(
    context: dict[str, Any],
    serve_page: Any,  # noqa: F811
) -> None:
    served = serve_page(FakeRun(n=300, classes=12, names=LIKE), **context)
    page = served.page
    open_class(served, "x", "ArrowRight", "x", "s")
    assert "null" not in page.locator("dialog").inner_text()  # where some items are selected
    served.press("Escape", "Escape", "s")
    page.locator("dialog .part").nth(1).wait_for()
    served.press("1", "r")

    def offered() -> None:
        options = page.locator("dialog .options")
        options.locator("[role=option]").nth(2).wait_for()
        panel, box = page.locator("dialog").bounding_box(), options.bounding_box()
        assert panel["x"] <= box["x"] and box["x"] + box["width"] <= panel["x"] + panel["width"]
        assert panel["y"] <= box["y"] and box["y"] + box["height"] <= panel["y"] + panel["height"]

    offered()
    for keys in (("Enter", "v"), ("m", "/")):
        page.keyboard.press("Escape")  # the box is given up, then the panel
        served.press("Escape", keys[0])
        page.locator("dialog .near-items .cell, dialog .half").first.wait_for()
        served.press(keys[1])
        offered()
    # In the panel that keeps its box, one gives it up and comes back to it.
    page.keyboard.press("Escape")
    wait_until(page, "document.activeElement.matches('dialog') && document.querySelector('dialog .options').hidden")
    served.press("/")
    offered()
    page.keyboard.press("Escape")
    served.press("Escape", "g")
    page.locator("dialog .cell").first.wait_for()
    served.press("Enter")
    served.said("added to")
    toast, foot = page.locator(".toast").bounding_box(), page.locator("dialog footer").bounding_box()
    assert toast["y"] + toast["height"] <= foot["y"]


def test_what_was_said_of_an_unsure_item_is_undone_where_it_was_said(serve_page: Any) -> None:  # noqa: F811
    served = serve_page(FakeRun(n=160, classes=6))
    run, page = served.run, served.page
    unsure = [int(row) for row in np.frombuffer(run.rows(None, "", "unsure", "doubtful"), "<i4")]
    served.press("q")
    for row in unsure[:2]:
        wait_until(page, SHOWN, run.ids[row])
        page.locator("dialog .answer").first.wait_for()
        served.press("1")
    wait_until(page, SHOWN, run.ids[unsure[2]])
    served.press("u")
    served.said("Undone")
    wait_until(page, SHOWN, run.ids[unsure[1]])
    assert run.review.given[unsure[:2]].tolist() == [True, False]
    served.press("U")
    served.said("Done again")
    assert run.review.given[unsure[:2]].all() and page.locator("dialog").count() == 1


def test_a_picture_is_looked_into(serve_page: Any) -> None:  # noqa: F811
    served = serve_page(FakeRun(n=160, classes=6))
    page = served.page
    open_class(served, "Enter")
    page.locator("dialog .near-items .tag").first.wait_for()
    assert page.locator("dialog .near-items .tag").first.inner_text() in served.run.review.class_names().values()
    picture, frame = page.locator("dialog .large img"), page.locator("dialog .large").bounding_box()
    foot = page.locator("dialog footer").bounding_box()
    assert frame["y"] < page.locator("dialog .answers").bounding_box()["y"] + 20
    assert frame["y"] + frame["height"] <= foot["y"], "all of it is above the buttons"

    def scale() -> float:
        return float(picture.evaluate("n => new DOMMatrix(getComputedStyle(n).transform).a"))

    page.mouse.move(frame["x"] + 60, frame["y"] + 60)
    page.mouse.wheel(0, -300)
    wait_until(page, "document.querySelector('dialog .large').classList.contains('zoomed')")
    large = scale()
    assert large > 1.5
    picture.and_(page.locator("[src*='size=8192']")).wait_for()  # with all its pixels
    box = picture.bounding_box()
    page.mouse.down()
    page.mouse.move(frame["x"] + 40, frame["y"] + 50, steps=3)
    page.mouse.up()
    moved = picture.bounding_box()
    assert (round(moved["x"] - box["x"]), round(moved["y"] - box["y"])) == (-20, -10)
    served.press("+")
    assert scale() > large
    served.press("0")
    assert scale() == 1
    served.press("+", "-", "-")
    assert scale() == 1 and picture.bounding_box() == {**frame}
    page.locator("dialog .large button", has_text="+").click()
    assert scale() == 1.5
