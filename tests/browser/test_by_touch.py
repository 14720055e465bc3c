"""What has a key has a button: on a phone, and for whoever has no keyboard at hand; unsure items are accepted, too."""

from __future__ import annotations

from typing import Any

from chromium import browser  # noqa: F401 - a fixture
from fake_server import FakeRun
from test_page import open_page, pages  # noqa: F401 - fixtures
from test_review_page import serve_page, wait_until  # noqa: F401 - a fixture

PHONE = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True, "is_mobile": True}


def test_all_of_a_selection_is_done_by_tapping(serve_page: Any) -> None:  # noqa: F811
    served = serve_page(FakeRun(n=160, classes=6), **PHONE)
    page, bar = served.page, served.page.locator("#picked")
    served.press("j")
    wait_until(page, "document.querySelectorAll('#grid .cell').length > 8")
    rows = page.locator("#grid .cell").evaluate_all("n => n.sort((a, b) => a.at - b.at).map(c => +c.dataset.row)")
    for at in (1, 5):
        page.locator(f"#item-{rows[at]}").tap()
    bar.get_by_text("2 selected").wait_for()
    bar.locator("button", has_text="All between").tap()
    bar.get_by_text("5 selected").wait_for()
    bar.locator("button", has_text="Look").tap()
    page.locator("dialog .large img").wait_for()
    page.locator("dialog .close").first.tap()
    others = bar.locator("button").first
    n = int(others.inner_text().removeprefix("Accept other "))
    others.tap()
    served.said(f"Accepted {n} items")
    assert len(served.done()[-1][0]["rows"]) == n and not set(served.done()[-1][0]["rows"]) & set(rows[1:6])
    bar.locator("button", has_text="Duplicate").tap()
    served.said("5 items put to the junk (duplicate)")
    page.locator("#actions button", has_text="Select all").tap()
    wait_until(page, "document.querySelectorAll('#grid .cell[aria-selected=false]').length === 0")
    page.locator("#menu").tap()
    page.locator("dialog.menu button", has_text="Unsure items one by one").tap()
    page.locator("dialog .answer").first.wait_for()
    page.locator("dialog .close").first.tap()
    page.locator("#actions button", has_text="One by one").tap()
    page.locator("dialog .answer").first.wait_for()


def test_unsure_items_are_accepted_like_others(open_page: Any) -> None:  # noqa: F811
    opened = open_page("vector")
    page = opened.page
    opened.go_to("novel-004")
    accept = page.locator("#actions .primary")
    accept.get_by_text("Accept the 3 unsure").wait_for()
    assert "0 items" not in page.locator("#head").inner_text()
    page.keyboard.press("a")
    page.locator(".toast", has_text="Accepted 3 items of “novel-004”").wait_for()
    # Of any class, the line about them leads to them, and they are selected or confirmed at one go.
    opened.go_to("cat")
    unsure = [int(row) for row in range(10, 20)]
    lean = page.locator("#about")
    lean.locator("button", has_text="10 unsure items lean here").click()
    assert int(page.locator("#grid .cell.here").get_attribute("data-row")) in unsure
    lean.locator("button", has_text="select all").click()
    page.locator("#picked b", has_text="10 selected").wait_for()
    page.keyboard.press("Escape")
    lean.locator("button", has_text="confirm all").click()
    page.locator(".toast", has_text="Confirmed 10 items").wait_for()
    lean.locator("button", has_text="unsure").wait_for(state="detached")
