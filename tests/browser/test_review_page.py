"""The page with a server behind it, in a real browser: the whole loop by keyboard, by mouse, and against each other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from chromium import browser  # noqa: F401 - a fixture
from fake_server import FakeRun, serve

EVIL = "<img src=x onerror=window.pwned=1></script><script>window.pwned=1</script>"
RTL = "\u202egnirts\u202c \u2066x"
LONG = "x" * 10_000
COUNTED = """window.asked = 0; { const real = fetch;
  window.fetch = (...a) => { window.asked++; return real(...a).finally(() => { window.asked--; }); }; }"""
SHOWN = "id => document.querySelector('dialog .id code')?.textContent === id"


def wait_until(page: Any, expression: str, arg: Any = None) -> None:
    """Wait until an expression is true; the page's policy keeps Playwright's own way (eval) from working."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if page.evaluate(expression, arg):
            return
        page.wait_for_timeout(20)
    pytest.fail(f"never true: {expression}")


def settle(page: Any) -> None:
    """No answer is waited for, and nothing moves any more."""
    page.wait_for_timeout(40)
    wait_until(page, "!asked && !document.querySelector('dialog .wait') && !document.getAnimations().length")
    page.wait_for_timeout(20)


class Served:
    """A page of a made-up run, and everything that went wrong on it."""

    def __init__(self, chromium: Any, run: FakeRun, **context: Any) -> None:
        self.run, self.server = run, serve(run)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        self.context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **context})
        self.context.add_init_script(COUNTED)
        self.troubles: list[str] = []
        self.page = self.open()

    def open(self) -> Any:
        """One more tab."""
        page = self.context.new_page()
        page.on("console", lambda message: self.troubles.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.set_default_timeout(60_000)
        page.goto(self.url)
        page.wait_for_selector("html[data-ready]")
        return page

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            if key == "Escape":  # a panel closes a moment later, which is nothing to a person
                self.page.locator("dialog").wait_for(state="detached")

    def see(self, name: str) -> None:
        wait_until(self.page, "n => document.querySelector('#name').textContent === n", arg=name)
        wait_until(self.page, "document.querySelectorAll('#grid .cell').length > 0")

    def said(self, words: str) -> None:
        self.page.locator(".toast", has_text=words).first.wait_for()

    def done(self) -> list[Any]:
        return self.run.done

    def class_named(self, name: str) -> dict[str, Any]:
        return next(one for one in self.run.classes() if one["name"] == name)


@pytest.fixture
def serve_page(browser: Any) -> Iterator[Any]:  # noqa: F811 - a fixture
    served: list[Served] = []

    def start(run: FakeRun | None = None, **context: Any) -> Served:
        served.append(Served(browser, run or FakeRun(n=400, classes=9), **context))
        return served[-1]

    yield start
    for one in served:
        assert one.page.evaluate("window.pwned") is None
        assert [trouble for trouble in one.troubles if "409" not in trouble and "422" not in trouble] == []
        one.context.close()
        one.server.shutdown()


def test_the_loop_by_keyboard_alone(serve_page: Any) -> None:
    served = serve_page()
    first = next(one for one in served.run.classes() if not one["labelled"])
    served.page.evaluate("code => { location.hash = `#class-${code}`; location.reload(); }", first["code"])
    served.page.wait_for_selector("html[data-ready]")
    served.see(first["name"])
    # Accept all but two, which are not of it.
    served.press("x", "ArrowRight", "x", "a")
    said = first["size"] - first["labelled"] - 2  # what the source labelled needs no second word
    served.said(f"Accepted {said} item")
    assert served.class_named(first["name"])["given"] == said
    served.press("n")
    served.said("2 items are not")
    assert served.done()[-1][0]["op"] == "reject"
    assert served.class_named(first["name"])["accepted"]
    # Rename.
    novel = next(one for one in served.run.classes() if not one["known"] and one["size"] > 20)
    served.press("/")
    served.page.keyboard.type(novel["name"])
    served.press("Enter")
    served.see(novel["name"])
    served.press("r")
    served.page.keyboard.type("Copepod")
    served.press("Enter")
    served.see("Copepod")
    assert served.class_named("Copepod")["known"]
    # Split in three by the proposal: two more categories.
    n = len(served.run.classes())
    served.press("s")
    served.page.locator("dialog .part").nth(1).wait_for()
    served.page.locator("dialog .part").nth(3).wait_for()
    served.press("ArrowLeft")  # three instead of four
    served.page.locator("dialog .part").nth(3).wait_for(state="detached")
    served.page.locator("dialog .part").nth(2).wait_for()
    served.press("Enter")
    served.said("is split")
    assert len(served.run.classes()) == n + 2
    # Merge with the most alike.
    served.press("m")
    served.page.locator("dialog .half").nth(1).wait_for()
    served.press("n")
    served.said("stay apart")
    assert served.done()[-1][0]["op"] == "distinct"
    served.press("m")
    served.said("is part of")
    assert len(served.run.classes()) == n + 1
    # Move one item to a class that is not there yet, then another to the junk; undo both, redo one.
    wait_until(served.page, "document.querySelectorAll('#grid .cell').length > 0")
    served.press("v")
    served.page.keyboard.type("Siphonophore")
    served.press("Enter")
    served.said("Moved 1 item to")
    assert served.class_named("Siphonophore")["size"] == 1
    before = served.run.review.table()
    served.press("d")
    served.said("put to the junk")
    assert served.run.state()["counts"]["junk"] == 1
    served.press("u")
    served.said("Undone: junk 1.")
    assert served.run.review.table().equals(before)
    served.press("u")
    served.said("Undone: create 0, assign 1.")
    served.press("U")
    served.said("Done again: create 0, assign 1.")
    assert served.run.review.table().equals(before)
    # Grow: one candidate is unticked; the rest are taken, and twice as many come.
    code, size = served.run.classes()[0]["code"], served.run.classes()[0]["size"]
    served.page.evaluate("code => { location.hash = `#class-${code}`; location.reload(); }", code)
    served.page.wait_for_selector("html[data-ready]")
    wait_until(served.page, "document.querySelectorAll('#grid .cell').length > 0")
    served.press("g")
    wait_until(served.page, "document.querySelectorAll('dialog .cell').length === 12")
    served.press("x", "Enter")
    wait_until(served.page, "document.querySelectorAll('dialog .cell').length === 24")
    assert next(one for one in served.run.classes() if one["code"] == code)["size"] == size + 11
    served.press("Backspace")
    wait_until(served.page, "document.querySelectorAll('dialog .cell').length === 12")
    served.press("Escape")
    # Check a sample, look at the history, apply, refine.
    served.press("p")
    wait_until(served.page, "document.querySelectorAll('dialog .cell').length > 0")
    served.press("ArrowRight", "x", "Enter")
    served.said("Checked")
    assert {event["op"] for event in served.done()[-1]} == {"assign", "reject"}
    served.page.locator("dialog .verdict", has_text="precision").wait_for()
    served.press("Escape", "h")
    served.page.locator("dialog .steps li").first.wait_for()
    assert served.page.locator("dialog .steps li").count() == len(served.done()) + 1
    served.press("Escape", "A")
    served.said("Written to the run")
    served.page.locator(".changes", has_text=f"{len(served.done())} changes, applied").wait_for()
    served.press("R")
    served.said("The next fit is ready")
    served.press("R")
    served.page.locator("dialog", has_text="12 items change their class").wait_for()
    assert served.page.locator("dialog .diff.vanished li").inner_text() == "novel-009: 4 → 0"
    served.page.locator("dialog button", has_text="Accept this fit").focus()
    served.press("Enter")
    served.said("The fit is taken")


def test_a_class_is_made_of_odd_ones_by_keyboard(serve_page: Any) -> None:
    """O shows them, Enter one of them large, g what is most like it in the grid; x and v make the class."""
    served = serve_page()
    page = served.page
    served.press("O")
    served.see("Odd ones")
    assert page.evaluate("location.hash") == "#odd"
    served.press("ArrowRight", "Enter")
    page.locator("dialog .near-items .strip").wait_for()
    served.press("g")
    page.locator("dialog").wait_for(state="detached")
    served.see("Most like it")
    served.press("Home", "x", "ArrowRight", "x", "v")
    page.keyboard.type("brand new")
    served.press("Enter")
    served.said("Moved 2 items to “brand new”")
    assert served.class_named("brand new")["size"] == 2
    served.press("O")
    served.see("Odd ones")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    served.see("Odd ones")


def test_the_mouse_selects_by_click_range_and_box(serve_page: Any) -> None:
    served = serve_page()
    page = served.page
    page.locator(".entry").nth(1).click()
    wait_until(page, "document.querySelectorAll('#grid .cell').length > 20")
    rows = page.locator("#grid .cell").evaluate_all("n => n.sort((a, b) => a.at - b.at).map(c => +c.dataset.row)")
    cell = lambda at: page.locator(f"#item-{rows[at]}")  # noqa: E731
    cell(1).click()
    cell(4).click(modifiers=["Shift"])
    page.locator("#picked b", has_text="4 selected").wait_for()
    cell(2).click()
    page.locator("#picked b", has_text="3 selected").wait_for()
    page.keyboard.press("Escape")
    columns = page.locator("#grid .cell").evaluate_all("n => new Set(n.map(c => c.getBoundingClientRect().left)).size")
    box = [0, 1, columns, columns + 1]  # two of the first line and two of the second
    a, b = cell(0).bounding_box(), cell(columns + 1).bounding_box()
    page.mouse.move(a["x"] + 5, a["y"] + 5)
    page.mouse.down()
    page.mouse.move(b["x"] + 20, b["y"] + 20, steps=5)
    page.mouse.up()
    page.locator("#picked b", has_text="4 selected").wait_for()
    assert sorted(page.locator("#grid [aria-selected=true]").evaluate_all("n => n.map(c => c.at)")) == box
    page.locator("#picked button", has_text="Junk").click()
    served.said("4 items put to the junk")
    assert np.flatnonzero(served.run.review.junk).tolist() == sorted(rows[at] for at in box)
    page.locator(".toast button", has_text="Undo").first.click()
    served.said("Undone: junk 4.")
    assert not served.run.review.junk.any()
    cell(3).dblclick()
    page.locator("dialog .near-items .cell").first.wait_for()
    assert page.locator("dialog .large img").evaluate("n => n.decode().then(() => n.naturalWidth)") == 1024


def test_two_tabs_overwrite_nothing(serve_page: Any) -> None:
    served = serve_page()
    other = served.open()
    for page in (served.page, other):
        page.locator(".entry").nth(1).click()
        wait_until(page, "document.querySelectorAll('#grid .cell').length > 0")
    other.keyboard.press("a")
    other.locator(".toast", has_text="Accepted").wait_for()
    served.press("d")
    served.said("Something was changed elsewhere")
    assert len(served.done()) == 1
    served.page.locator(".changes", has_text="1 change").wait_for()
    served.press("d")  # now that it has been seen
    served.said("put to the junk")
    assert len(served.done()) == 2


@pytest.mark.parametrize("name", [EVIL, RTL, LONG], ids=["script", "rtl", "long"])
def test_strange_names_do_nothing(name: str, serve_page: Any) -> None:
    served = serve_page(FakeRun(n=300, classes=6, names={0: name}))
    page = served.page
    page.locator(".entry").nth(1).click()
    wait_until(page, "document.querySelectorAll('#grid .cell').length > 0")
    for keys in (["m"], ["s"], ["g"], ["h"], ["v"], ["Enter"], ["?"]):
        served.press(*keys)
        page.locator("dialog").wait_for()
        box = page.locator("dialog").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 1280
        served.press("Escape")
        page.locator("dialog").wait_for(state="detached")
    served.press("r")
    page.keyboard.insert_text(name + "!")
    served.press("Enter")
    served.said("is called")
    assert name + "!" in served.run.review.class_names().values()
    assert page.evaluate("document.documentElement.scrollWidth") == 1280
    assert page.locator("#head").bounding_box()["height"] < 400
    assert page.locator("img[src=x]").count() == 0


@pytest.mark.parametrize("kind", ["text", "vector"])
def test_texts_and_vectors_have_the_same_page(kind: str, serve_page: Any) -> None:
    served = serve_page(FakeRun(kind, n=300, classes=6))
    served.press("j")
    wait_until(served.page, "document.querySelector('#grid .cell .line')?.textContent.length > 0")
    line = served.page.locator("#grid .cell .line").first.inner_text()
    assert line.startswith("where is my new card" if kind == "text" else "plate-000/roi-")
    served.press("ArrowDown", "x", "Enter")
    served.page.locator("dialog .near-items .cell").first.wait_for()
    served.press("Escape", "c")
    served.said("Confirmed 1 item")


def test_a_hundred_thousand_items_scroll(serve_page: Any) -> None:
    """Of one category with most of them, only what is in sight is in the document."""
    served = serve_page(FakeRun("vector", n=100_000, classes=3))
    page = served.page
    assert page.locator("#map .caption p").inner_text().startswith("100,000")
    page.keyboard.press("j")
    wait_until(page, "document.querySelectorAll('#grid .cell').length > 0")
    assert page.locator("#grid .cell").count() < 300
    page.evaluate("document.querySelector('#centre').scrollTop = 1e7")
    wait_until(page, "[...document.querySelectorAll('#grid .cell')].some(c => c.at > 40000)")
    assert page.locator("#grid .cell").count() < 300
    page.keyboard.press("X")
    page.locator("#picked b", has_text=",").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("Home")
    wait_until(page, "document.querySelector('#centre').scrollTop < 500")


def test_parts_of_a_class_are_given_to_others_and_confirmed(serve_page: Any) -> None:
    served = serve_page()
    one = next(one for one in served.run.classes() if not one["labelled"] and one["size"] > 20)
    served.page.evaluate("code => { location.hash = `#class-${code}`; location.reload(); }", one["code"])
    served.page.wait_for_selector("html[data-ready]")
    served.see(one["name"])
    served.press("s")
    served.page.locator("dialog .part").nth(3).wait_for()
    # Two parts belong together, and are the first class beside; one of the shown items is not.
    served.press("2", "3")
    served.page.locator("dialog .part").nth(1).locator(".cell").first.click()
    other = served.page.locator("dialog footer button").first.inner_text().split("\n")[0]
    served.press("f")
    served.said("went to")
    split, merge, assign = served.done()[-1]
    assert (split["op"], merge["op"], assign["op"]) == ("split", "merge", "assign")
    assert assign["code"] == merge["into"] == served.class_named(other)["code"]
    rows = split["parts"][0]
    assert set(assign["rows"]) < set(rows), "what is not shown, or unticked, goes with them and is not confirmed"
    assert served.page.locator("dialog .part").count() == 2, "the others are still there"
    # Of what is left, all that is shown is of this class.
    served.press("a")
    served.said("confirmed")
    (assign,) = served.done()[-1]
    assert assign["op"] == "assign" and assign["code"] == one["code"] and not set(assign["rows"]) & set(rows)
    served.page.locator("dialog").wait_for(state="detached")


def test_unsure_items_one_by_one_are_answered_by_a_number(serve_page: Any) -> None:
    """A number is an action: its own class confirms, another one moves, an arrow leaves one out; undo takes it back."""
    served = serve_page()
    unsure = [int(row) for row in np.frombuffer(served.run.rows(None, "", "unsure", "doubtful"), "<i4")]
    served.press("q")
    answers = served.page.locator("dialog .answer")
    answers.first.wait_for()
    assert 2 <= answers.count() <= 5

    def shown() -> str:
        return served.page.locator("dialog .id code").inner_text()

    assert shown() == served.run.ids[unsure[0]], "the least sure one comes first"
    own = int(served.run.review.code[unsure[0]])
    served.press("1")
    served.said("1 item confirmed as")
    assert served.done()[-1] == [{"op": "assign", "rows": [unsure[0]], "code": own}]
    wait_until(served.page, SHOWN, served.run.ids[unsure[1]])
    served.press("ArrowRight")  # this one is left out
    wait_until(served.page, SHOWN, served.run.ids[unsure[2]])
    answers.nth(1).wait_for()
    second = answers.nth(1).locator("b").inner_text()
    served.press("2")
    served.said(f"1 item moved to “{second}”")
    assert served.run.review.given[unsure[2]] and not served.run.review.given[unsure[1]]
    assert served.run.review.class_names()[int(served.run.review.code[unsure[2]])] == second
    wait_until(served.page, SHOWN, served.run.ids[unsure[3]])
    answers.first.wait_for()
    answers.first.click()
    served.said("1 item confirmed as")
    assert served.run.review.given[unsure[3]]
    wait_until(served.page, SHOWN, served.run.ids[unsure[4]])
    served.press("v")
    served.page.keyboard.type("Salp")
    served.press("Enter")  # a class of that name is made, and the next item comes
    served.said("Moved 1 item to “Salp”")
    wait_until(served.page, SHOWN, served.run.ids[unsure[5]])
    served.press("d")
    served.said("1 item put to the junk")
    wait_until(served.page, SHOWN, served.run.ids[unsure[6]])
    assert served.run.review.junk[unsure[5]]
    served.press("Escape", "u")
    served.said("Undone")
    assert not served.run.review.junk[unsure[5]]


def test_the_last_unsure_item_closes_the_questions(serve_page: Any) -> None:
    served = serve_page()
    unsure = np.frombuffer(served.run.rows(None, "", "unsure", "doubtful"), "<i4")
    served.press("q")
    served.page.locator("dialog .answer").first.wait_for()
    for row in unsure:
        wait_until(served.page, SHOWN, served.run.ids[row])
        served.page.locator("dialog .answer").first.wait_for()
        served.press("1")
    served.page.locator("dialog").wait_for(state="detached")
    served.said("That was the last one here")
    assert served.run.review.given[unsure].all()
