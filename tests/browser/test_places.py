"""The way back to where one was, what is accepted, and the way to an item whose id is known."""

from __future__ import annotations

from typing import Any

from chromium import browser  # noqa: F401 - a fixture
from fake_server import FakeRun
from test_review_page import serve_page, wait_until  # noqa: F401 - a fixture

OTHER = "n => document.querySelector('#name').textContent !== n"


def test_the_way_back_leads_to_the_class_one_came_from(serve_page: Any) -> None:  # noqa: F811
    served = serve_page(FakeRun(n=160, classes=6))
    page = served.page
    served.press("j", "j")
    wait_until(page, "document.querySelectorAll('#grid .cell').length > 0")
    name = page.locator("#name").inner_text()
    served.press("Enter")
    page.locator("dialog .near-items .strip").wait_for()
    served.press("g")
    served.see("Most like it")
    served.press("j")
    served.see(name)
    # The browser's own way: back to what was found, to the class, to the one before, to the overview, and forth again.
    page.go_back()
    served.see("Most like it")
    page.go_back()
    served.see(name)
    page.go_back()
    wait_until(page, OTHER, name)
    page.go_back()
    wait_until(page, "!document.querySelector('#overview').hidden")
    page.go_forward()
    page.go_forward()
    served.see(name)
    page.reload()
    page.wait_for_selector("html[data-ready]")
    served.see(name)
    page.go_back()
    wait_until(page, OTHER, name)
    for order in ("large", "name"):
        page.select_option("#order", order)
        assert page.locator(".entry").first.get_attribute("aria-label") == "Overview"


def test_accepted_classes_have_a_head_and_an_id_leads_to_its_item(serve_page: Any) -> None:  # noqa: F811
    served = serve_page(FakeRun(n=160, classes=6))
    page, run = served.page, served.run
    served.press("j")
    wait_until(page, "document.querySelectorAll('#grid .cell').length > 0")
    served.press("a")
    served.said("Accepted")
    name = page.locator("#name").inner_text()
    assert page.locator(".entry.head").count() == 0, "the order stays as it is while one works"
    page.reload()
    page.wait_for_selector("html[data-ready]")
    head = page.locator(".entry.head")
    assert head.inner_text() == "Accepted (1)"
    names = page.locator(".entry").evaluate_all("n => n.map(e => e.querySelector('b')?.textContent ?? 'head')")
    assert names[names.index("head") + 1] == name
    served.see(name)
    served.press("k", "j")  # over the head, which is no place
    served.see(name)
    assert "% sure" in page.locator(".entry .facts-line").nth(1).inner_text()
    sure = (run.review.code != run.review.code[0]) & ~run.review.unsure
    row = int(sure.nonzero()[0][3])
    served.press("/")
    page.keyboard.insert_text(run.ids[row])
    served.press("Enter")
    served.see(run.review.class_names()[int(run.review.code[row])])
    wait_until(page, "r => document.querySelector('#grid .cell.here')?.dataset.row === r", str(row))
