"""The page while commands change its run: it says so by itself, shows what is there, and the history keeps it all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the server needs ltgcd[review]")

from chromium import (
    browser,  # noqa: F401 - a fixture
    impatient,
)
from fake_server import FakeRun, serve
from test_review_page import wait_until

from ltgcd.data.sources import read_source
from ltgcd.review.server.serve import open_server
from ltgcd.run.directory import Run
from ltgcd.run.discover import discover_source
from ltgcd.run.refine import refine_run
from ltgcd.run.relabel import relabel_run
from ltgcd.run.update import update_run

CENTRES = 4 * np.random.RandomState(7).randn(6, 12)


def source(path: Path, kinds: np.ndarray, prefix: str) -> Path:
    x = (CENTRES[kinds] + np.random.RandomState(len(kinds)).randn(len(kinds), 12)).astype(np.float32)
    y = np.where((kinds < 3) & (np.arange(len(kinds)) % 2 == 0), kinds, -1)
    np.savez(path, x=x, y=y, ids=[f"{prefix}{n}" for n in range(len(kinds))], class_names=["ant", "bee", "cat"])
    return path


def test_what_commands_do_is_told_and_stays_in_the_history(browser: Any, tmp_path: Path) -> None:  # noqa: F811
    kinds = np.repeat(np.arange(5), [60, 50, 40, 30, 30])
    discover_source(read_source(source(tmp_path / "x.npz", kinds, "i")), tmp_path / "run", rehearsals=1)
    run, server = Run(tmp_path / "run"), open_server(tmp_path / "run", port=0)
    threading.Thread(target=server.serve, daemon=True).start()
    context = impatient(browser.new_context(viewport={"width": 1280, "height": 800}))
    page, troubles = context.new_page(), list[str]()
    page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.set_default_timeout(60_000)
    said = tmp_path / "said.csv"
    try:
        page.goto(server.url)
        page.wait_for_selector("html[data-ready]")
        there = len(server.session.described.shown)
        assert f"{there} classes have items now; 3 of them known or confirmed. Estimated beforehand: about" in (
            page.locator("#lead").inner_text()
        )
        facts = dict(
            zip(page.locator("#facts dt").all_inner_texts(), page.locator("#facts dd").all_inner_texts(), strict=True)
        )
        assert {name.lower(): value for name, value in facts.items()}["classes now"] == str(there), "and no interval"
        said.write_text("id,label\ni1,bee\ni3,junk\n")
        relabel_run(run, said)
        page.locator(".toast", has_text="Changed elsewhere").wait_for()
        wait_until(page, "document.querySelector('#work .changes').textContent.startsWith('1 change')")
        said.write_text("category,name\nnovel-001,wasp\n")
        page.keyboard.press("h")  # an open panel is left alone
        page.locator("dialog[open] .steps li").first.wait_for()
        relabel_run(run, said)
        page.wait_for_timeout(1000)  # twice as long as the page needs to hear of it
        assert page.locator("dialog[open]").count() == 1
        assert page.locator(".toast").count() == 0
        page.keyboard.press("Escape")
        page.locator(".toast", has_text="novel-001 called wasp").wait_for()
        wait_until(page, "[...document.querySelectorAll('.entry bdi')].some(n => n.textContent === 'wasp')")
        refine_run(run).keep()
        page.locator(".toast", has_text="fitted again elsewhere").wait_for()
        page.keyboard.press("h")
        page.locator("dialog .steps li").nth(2).wait_for()
        lines = page.locator("dialog .steps li").all_inner_texts()
        assert lines[0].startswith("Refined") and "novel-001 called wasp" in lines[1] and "junk" not in lines[0]
        assert page.locator("dialog .steps li.past").count() == 3
        page.keyboard.press("B")
        page.locator(".toast", has_text="The fit before the last refine is back").wait_for()
        page.keyboard.press("h")
        page.locator("dialog .steps li").nth(2).wait_for()
        assert page.locator("dialog .steps li.past").count() == 0, "what was said can be undone again"
        page.keyboard.press("Escape")
        update_run(run, read_source(source(tmp_path / "more.npz", np.repeat([0, 5], 20), "j")))
        page.locator(".toast", has_text="Items were added elsewhere").wait_for()
        wait_until(page, "document.querySelector('#progress p').textContent.includes('of 250 labelled or confirmed')")
        assert troubles == []
    finally:
        context.close()
        server.listener.close()


def test_a_key_pressed_while_the_news_is_read_does_nothing(browser: Any) -> None:  # noqa: F811
    """What it is about was computed from what the page showed; the version would be that of the news."""
    run = FakeRun(n=300, classes=6)
    server, context = serve(run), impatient(browser.new_context(viewport={"width": 1280, "height": 800}))
    page = context.new_page()
    page.set_default_timeout(60_000)
    slow: list[Callable[[], None]] = []  # what a person does while the items are read

    def items(route: Any) -> None:
        answer = route.fetch()
        if slow:
            slow.pop()()
        route.fulfill(response=answer)

    def news(pressed: Callable[[], None]) -> None:
        slow.append(pressed)
        with run.lock:
            run.say("/api/act", {"events": [{"op": "junk", "rows": [int(np.flatnonzero(~run.review.junk)[0])]}]})

    try:
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        page.wait_for_selector("html[data-ready]")
        page.keyboard.press("j")
        wait_until(page, "document.querySelectorAll('#grid .cell').length > 0")
        page.route("**/api/items", items)
        news(lambda: page.keyboard.press("a"))
        page.locator(".toast", has_text="so this was not done").wait_for()
        assert [[event["op"] for event in events] for events in run.done] == [["junk"]]
        page.keyboard.press("a")
        page.locator(".toast", has_text="Accepted").wait_for()
        assert len(run.done) == 2
        # A panel that opens meanwhile, and a name that is about to be typed, are closed by what comes.
        for key in ("v", "r"):
            page.locator(".toast .close").click()
            news(lambda key=key: page.keyboard.press(key))  # type: ignore[misc]
            page.locator(".toast", has_text="From elsewhere").wait_for()
            assert page.locator("dialog[open], .namebox").count() == 0
        assert len(run.done) == 4
        # A name that is being typed is left alone, and refused.
        page.keyboard.press("r")
        page.keyboard.type("hornet")
        news(lambda: None)
        page.wait_for_timeout(1000)  # twice as long as the page needs to hear of it
        page.keyboard.press("Shift+Enter")
        page.locator(".toast", has_text="so this was not done").wait_for()
        assert len(run.done) == 5 and "hornet" not in run.review.class_names().values()
    finally:
        context.close()
        server.shutdown()
        server.server_close()


def test_a_panel_shows_what_was_said_just_before_it_was_opened(browser: Any) -> None:  # noqa: F811
    """On a busy machine the next key comes before the last one is answered; the history said that nothing was done."""
    run = FakeRun(n=300, classes=6)
    server, context = serve(run), browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(60_000)

    def late(route: Any) -> None:
        page.wait_for_timeout(400)
        route.continue_()

    try:
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        page.wait_for_selector("html[data-ready]")
        page.keyboard.press("j")
        wait_until(page, "document.querySelectorAll('#grid .cell').length > 0")
        page.route("**/api/act", late)
        page.keyboard.press("d")
        page.keyboard.press("h")
        page.locator("dialog .steps button, dialog .none").first.wait_for()
        assert page.locator("dialog .none").count() == 0
        assert page.locator("dialog .steps li").count() == 2, "the action, and what was before everything"
    finally:
        context.close()
        server.shutdown()
        server.server_close()
