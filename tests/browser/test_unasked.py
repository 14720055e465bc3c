"""The page does nothing unasked, and says why a key does nothing: a refine that ends, keys without a selection."""

from __future__ import annotations

from typing import Any

from chromium import browser  # noqa: F401 - a fixture
from fake_server import FakeRun
from test_review_page import Served, serve_page, wait_until  # noqa: F401 - a fixture

OPEN_NAMEBOX = "document.activeElement.classList.contains('namebox')"


def small() -> FakeRun:
    return FakeRun(n=160, classes=6)


def ready(served: Served) -> None:
    """A class is looked at, and its items are there."""
    served.press("j")
    wait_until(served.page, "document.querySelectorAll('#grid .cell').length > 0")


def test_a_refine_that_ends_takes_no_key_and_accepts_nothing(serve_page: Any) -> None:  # noqa: F811
    served = serve_page(small())
    page, dialog = served.page, served.page.locator("dialog")
    ready(served)
    served.press("R", "r")
    wait_until(page, OPEN_NAMEBOX)
    page.keyboard.type("at")
    served.said("The next fit is ready")
    # Whoever was typing goes on, and what these keys mean on the page they mean on.
    page.keyboard.type("at")
    assert page.locator(".namebox").input_value() == "atat" and dialog.count() == 0
    served.press("Escape", "t")
    wait_until(page, "document.body.classList.contains('contrast')")
    assert served.run.refining["state"] == "done"
    page.locator("#refine-line", has_text="The next fit is ready").wait_for()
    assert page.locator("#work .refine-label").inner_text() == "See the changes"
    page.locator(".toast button", has_text="See the changes (R)").click()
    dialog.locator(".diff").first.wait_for()
    for key in ("a", "t", "Enter"):
        served.press(key)
    page.wait_for_timeout(200)
    assert served.run.refining["state"] == "done" and dialog.is_visible()
    # What would move is looked at as a grid, and R comes back.
    assert "6 unsure items become sure" in dialog.inner_text()
    dialog.locator(".moved button", has_text="novel-009 → novel-007: 9").click()
    served.see("novel-009 → novel-007")
    wait_until(page, "document.querySelectorAll('#grid .cell').length === 9")
    served.press("R")
    dialog.locator("button", has_text="Accept this fit").focus()
    served.press("Enter")
    served.said("The fit is taken")
    page.locator(".entry", has_text="Changed by the last refine").click()
    wait_until(page, "document.querySelectorAll('#grid .cell').length === 12")
    # Before everything that can be undone was a refine: that is said, and B takes it back.
    served.press("u")
    served.said("Before this was a refine: undo it (B)?")
    served.press("B")
    served.said("The fit before the last refine is back")
    served.press("u")
    served.said("There is nothing to undo")


def test_a_key_that_does_nothing_says_why(serve_page: Any) -> None:  # noqa: F811
    served = serve_page(small())
    ready(served)
    for key in ("c", "n"):
        served.press(key)
        served.said("Nothing is selected: x selects the framed item.")
        served.page.locator(".toast .close").click()
    served.page.evaluate("location.hash = '#class-0'; location.reload()")
    served.page.wait_for_selector("html[data-ready]")
    served.press("f")
    served.said("None of its items looks different")
    assert served.done() == []
