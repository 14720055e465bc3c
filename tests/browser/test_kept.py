"""What was said in a file is there after a reload; where the browser may keep nothing, it warns before it is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chromium import browser  # noqa: F401 - a fixture
from test_page import open_page, pages, write_page  # noqa: F401 - fixtures

CELLS = "document.querySelectorAll('#grid .cell').length > 0"


def test_edits_of_a_file_outlive_a_reload(open_page: Any, tmp_path: Path) -> None:  # noqa: F811
    opened = open_page("vector")
    page, changes = opened.page, opened.page.locator(".changes")
    opened.go_to("novel-001")
    page.wait_for_function(CELLS)
    page.keyboard.press("a")
    changes.get_by_text("1 change").wait_for()
    page.keyboard.press("Shift+X")
    page.keyboard.press("d")
    changes.get_by_text("2 changes").wait_for()
    page.keyboard.press("u")
    page.locator(".toast", has_text="Undone").wait_for()
    page.reload()
    page.wait_for_selector("html[data-ready]")
    page.locator(".toast", has_text="1 change from before is here again").wait_for()
    assert changes.inner_text() == "1 change"
    page.wait_for_function("document.querySelectorAll('#grid .cell[data-state=given]').length === 25")
    page.keyboard.press("U")  # what was undone can be done again, too
    changes.get_by_text("2 changes").wait_for()
    # Another file has none of it.
    other = write_page(tmp_path, "vector")
    other.write_text(other.read_text(encoding="utf-8").replace("novel-002", "novel-009"), encoding="utf-8")
    page.goto(other.as_uri())
    page.wait_for_selector("html[data-ready]")
    assert changes.inner_text() == "0 changes"


def test_edits_that_can_t_be_kept_are_not_lost_in_silence(open_page: Any) -> None:  # noqa: F811
    opened = open_page("vector")
    page = opened.page
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('The place is full.'); }; }")
    opened.go_to("novel-001")
    page.wait_for_function(CELLS)
    page.keyboard.press("a")
    page.locator(".changes", has_text="1 change").wait_for()
    lost = "!dispatchEvent(new Event('beforeunload', { cancelable: true }))"
    assert page.evaluate(lost)
    with page.expect_download():
        page.keyboard.press("D")
    assert not page.evaluate(lost), "it was downloaded"
