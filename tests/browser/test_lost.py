"""The server is gone, or another one: the page says so, shows nothing under a wrong name, and goes on by itself."""

from __future__ import annotations

from typing import Any

from chromium import browser  # noqa: F401 - a fixture
from fake_server import FakeRun
from test_review_page import serve_page, wait_until  # noqa: F401 - a fixture

CELLS = "document.querySelectorAll('#grid .cell').length > 0"


def test_without_a_server_nothing_is_shown_under_a_wrong_name(serve_page: Any) -> None:  # noqa: F811
    served = serve_page(FakeRun(n=160, classes=6))
    page, line = served.page, served.page.locator("#connection")
    served.press("j")
    wait_until(page, CELLS)
    first = page.locator("#name").inner_text()
    served.context.set_offline(True)
    served.press("j")
    told = "again, and go on in the page that it opens; nothing that was said is lost."
    line.get_by_text(f"Not connected: start ltgcd review made-up {told}").wait_for()
    assert page.locator("#name").inner_text() != first
    wait_until(page, f"!({CELLS})")
    assert "does not answer" in page.locator("#empty").inner_text()
    served.context.set_offline(False)
    line.wait_for(state="hidden")
    wait_until(page, CELLS)
    served.said("Connected again.")
    # Another start of the server has another key.
    page.route("**/api/**", lambda route: route.fulfill(status=403, json={"error": "No token."}))
    served.press("k")
    line.get_by_text("was started again since this page was opened").wait_for()
    page.unroute("**/api/**")
    line.wait_for(state="hidden")
    assert served.done() == []
    assert all("ERR_INTERNET" in one or "403" in one for one in served.troubles), served.troubles
    served.troubles.clear()  # the browser itself tells of each request that failed
