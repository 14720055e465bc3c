"""What an audit of the page in a real browser found: names, grow, split, merge and the map say what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chromium import browser  # noqa: F401 - a fixture
from test_newcomer import look_at
from test_review_page import Served, serve_page, wait_until  # noqa: F401 - a fixture


def large_novel(served: Served) -> dict[str, Any]:
    return next(one for one in served.run.classes() if not one["known"] and one["size"] > 20)


def until(served: Served, holds: Callable[[], bool]) -> None:
    """Wait for something that only the server knows."""
    for _ in range(600):
        if holds():
            return
        served.page.wait_for_timeout(50)
    raise AssertionError("it never came")


def test_junk_is_junk_in_every_box_and_a_number_is_no_name(serve_page: Any) -> None:  # noqa: F811
    served = serve_page()
    page, run = served.page, served.run
    one, names = large_novel(served), set(run.review.class_names().values())
    look_at(served, one["name"])
    served.press("x", "v")
    page.keyboard.type("Junk")
    option = page.locator("dialog [role=option][aria-selected=true]")
    assert option.inner_text().replace("\n", " ") == "junk takes them out"
    served.press("Enter")
    served.said("1 item put to the junk")
    wait_until(page, "document.querySelector('#picked').hidden")
    served.press("s")
    page.locator("dialog .part").nth(3).wait_for()
    served.press("2", "r")
    page.keyboard.type("junk")
    served.press("Enter")
    served.said("put to the junk")
    served.press("Escape", "r")
    page.keyboard.type("novel-777")
    served.press("Enter")
    served.said("a number is given once")
    assert set(run.review.class_names().values()) == names
    served.press("Escape", "r")
    page.keyboard.type("JUNK")
    served.press("Enter")
    until(served, lambda: len(served.done()) == 3)
    assert run.review.junk[run.review.code == one["code"]].all()
    assert set(run.review.class_names().values()) == names
