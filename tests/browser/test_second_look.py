"""What an audit of the page in a real browser found: names, grow, split, merge and the map say what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from chromium import browser  # noqa: F401 - a fixture
from fake_server import FakeRun
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


def test_grow_stops_ticking_where_its_promise_ends(serve_page: Any) -> None:  # noqa: F811
    served = serve_page()
    page, run = served.page, served.run
    one = large_novel(served)
    look_at(served, one["name"])
    cells = page.locator("dialog .cell")
    ticked = page.locator("dialog .cell[aria-selected=true]")
    run.chances = [0.99] * 5 + [0.3] * 400  # to the fifth 99 % are right, to the sixth 88 %
    served.press("g")
    cells.nth(11).wait_for()
    assert ticked.count() == 5
    assert [cells.nth(at).get_attribute("aria-label").split(", ")[-1] for at in (4, 5)] == [
        "99 % likely",
        "30 % likely",
    ]
    words = page.locator("dialog .panel-body").inner_text()
    assert "The first 5 are ticked: up to there at least 90 % are expected to be right." in words
    assert f"of {run.answer('/api/grow', {'code': str(one['code']), 'limit': '1'})['left']} that are left" in words
    served.press("Enter")
    until(served, lambda: len(served.done()) == 1)
    assert len(served.done()[0][0]["rows"]) == 5
    # Where nothing is promised, Enter takes nothing, and no page grows.
    run.chances = [0.4] * 400
    page.locator("dialog .why", has_text="None is ticked").wait_for()
    for _ in range(3):
        page.locator("dialog footer .primary", has_text="Take none").wait_for()
        served.press("Enter")
        served.said("Nothing was taken")
    assert len(served.done()) == 1 and cells.count() <= 12
    # Whoever ticks whole pages by hand gets larger ones, and at last some that are ticked.
    served.press("Escape", "g")
    page.locator("dialog footer .primary", has_text="Take none").wait_for()
    for n in (12, 24):
        wait_until(page, "n => document.querySelectorAll('dialog .cell').length === n", n)
        served.press("X")
        page.locator("dialog footer .primary", has_text=f"Take {n}, show twice as many").wait_for()
        served.press("Enter")
    wait_until(page, "document.querySelectorAll('dialog .cell').length === 48")
    assert ticked.count() == 48
    run.chances = [0.02] * 400  # what is hardly of it is not promised, whatever was said before
    served.press("Enter")
    page.locator("dialog .why", has_text="None is ticked").wait_for()


def test_a_part_of_texts_that_is_picked_is_in_sight_with_what_a_name_will_confirm(serve_page: Any) -> None:  # noqa: F811
    served = serve_page(FakeRun("text", n=1200, classes=9))
    page = served.page
    look_at(served, large_novel(served)["name"])
    served.press("s")
    parts = page.locator("dialog .part")
    parts.nth(3).wait_for()
    body = page.locator("dialog .panel-body").bounding_box()
    title = parts.nth(3).locator("h3")
    assert title.bounding_box()["y"] > body["y"] + body["height"], "else this shows nothing"
    served.press("4")
    page.locator("dialog h3 [aria-pressed=true]").wait_for()
    assert body["y"] - 1 <= title.bounding_box()["y"] < body["y"] + body["height"]
    ticked = parts.nth(3).locator(".cell[aria-selected=true]").count()
    assert f"also confirms the {ticked} that are shown and ticked" in page.locator("dialog footer").inner_text()


def test_split_counts_what_is_seen_and_an_undo_brings_the_parts_back(serve_page: Any) -> None:  # noqa: F811
    served = serve_page(FakeRun(n=1200, classes=9))
    page, run = served.page, served.run
    one = next(one for one in run.classes() if one["labelled"] > 4 and one["leaning"] > 1)
    look_at(served, one["name"])
    served.press("s")
    parts, titles = page.locator("dialog .part"), page.locator("dialog .part h3")
    parts.nth(3).wait_for()
    words = page.locator("dialog .panel-body p").first.inner_text()
    assert words.startswith(
        f"{one['size']} items and {one['leaning']} unsure ones that lean here. Framed ones are unsure"
    )
    told = titles.all_inner_texts()
    sizes = [int(text.split(". ")[1].split(" ")[0]) for text in told]
    assert sum(sizes) == one["size"] + one["leaning"]
    assert all("labelled or confirmed (not shown)" in text for text in told) and "unsure" in " ".join(told)
    # Unsure ones are not ticked, and the button counts what is.
    unsure, ticked = page.locator("dialog .cell[data-state=unsure]"), page.locator("dialog .cell[aria-selected=true]")
    assert unsure.count() > 0 and page.locator("dialog .cell[data-state=unsure][aria-selected=true]").count() == 0
    assert page.locator("dialog footer").inner_text().count(f"Confirm the {ticked.count()} ticked") == 1
    unsure.first.click()
    assert page.locator("dialog footer").inner_text().count(f"Confirm the {ticked.count()} ticked") == 1
    served.press("X")  # all of them at once
    assert ticked.count() == page.locator("dialog .cell").count()
    assert page.locator("dialog footer button", has_text="Tick all").count() == 0
    # Undo in the panel, by its key and by the message, brings the parts back.
    for undo in (lambda: served.press("u"), lambda: page.locator("dialog .toast button", has_text="Undo").click()):
        served.press("2", "Enter")
        parts.nth(3).wait_for(state="detached")
        served.said("is split")
        undo()
        served.said("Undone")
        parts.nth(3).wait_for()
        assert titles.all_inner_texts() == told
    served.press("U")
    served.said("Done again")
    served.press("Escape")


def test_what_is_one_part_is_not_split(serve_page: Any) -> None:  # noqa: F811
    run = FakeRun(n=400, classes=9)
    served = serve_page(run)
    one = large_novel(served)
    whole = run.answer
    run.answer = lambda path, q: (
        {"parts": [[0, 1]], "open": [[]], "alike": [[]]} if path == "/api/split" else whole(path, q)
    )
    look_at(served, one["name"])
    served.press("s")
    served.page.locator("dialog p", has_text="One part alone can't be split.").wait_for()
    assert served.page.locator("dialog footer button.primary").is_disabled()
    assert served.page.locator("dialog footer").inner_text().split() == ["Split", "Enter"]
    served.press("Enter")
    assert not served.done()


def test_a_merge_says_what_results_and_asks_about_what_the_source_tells_apart(serve_page: Any) -> None:  # noqa: F811
    served = serve_page(FakeRun(n=1200, classes=9))
    page = served.page
    known = [one for one in served.run.classes() if one["known"] and one["labelled"]]
    novel = large_novel(served)
    look_at(served, known[0]["name"])
    served.press("m")
    page.locator("dialog .half").nth(1).wait_for()
    other = next(one for one in known[1:] if one["name"] == page.locator("dialog .half h3 bdi").nth(1).inner_text())
    into, gone = (one["name"] for one in sorted((known[0], other), key=lambda one: -one["size"]))
    assert f"“{gone}” would become a part of “{into}”, which keeps its name." in page.locator("dialog").inner_text()
    button = page.locator("dialog footer .primary")
    assert button.inner_text().startswith(f"Merge into {into} ({known[0]['size'] + other['size']} items, ")
    served.press("m", "m", "Enter")
    alert = page.locator("dialog [role=alert]")
    assert alert.inner_text().startswith("The source labelled ") and not served.done()
    page.locator("dialog footer button", has_text="No").click()
    alert.wait_for(state="detached")
    served.press("y")
    assert not served.done(), "y answers the question, and nothing else"
    button.get_by_text("Merge into").wait_for()
    served.press("m", "y")
    served.said("is part of")
    look_at(served, novel["name"])
    served.press("m")
    page.locator("dialog .half").nth(1).wait_for()
    served.press("m")  # nobody has labelled both: no question
    until(served, lambda: len(served.done()) == 2)


STRONG = """() => {
  const c = document.querySelector('#points'), o = document.createElement('canvas'); o.width = c.width;
  o.height = c.height; const x = o.getContext('2d'); x.drawImage(c, 0, 0);
  const d = x.getImageData(0, 0, o.width, o.height).data;
  let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 240; return n; }"""


def test_the_map_and_the_grid_show_the_same_item(serve_page: Any) -> None:  # noqa: F811
    served = serve_page()
    page, run = served.page, served.run
    unsure = int(np.flatnonzero(run.review.unsure)[0])
    code = int(run.review.code[unsure])
    look_at(served, run.review.class_names()[code])
    ring, here = "document.querySelector('#over').dataset.ring", "document.querySelector('#grid .here')?.dataset.row"
    wait_until(page, f"{ring} !== undefined")
    before = page.evaluate(ring)
    page.evaluate("document.querySelector('#grid').focus()")
    served.press("ArrowRight")
    wait_until(page, f"before => {ring} !== before", before)
    served.press("End")  # the last one of the class is an unsure one
    wait_until(page, f"{here} !== undefined")
    row = int(page.evaluate(here))
    assert run.review.unsure[row]
    # A click where it stands on the map, from elsewhere, goes to that very item.
    box = page.locator("#over").bounding_box()
    page.wait_for_timeout(200)
    x, y = (float(part) for part in page.evaluate(ring).split())
    served.press("Home", "k")
    page.mouse.move(box["x"] + x, box["y"] + y)
    page.locator("#tip", has_text=run.ids[row]).wait_for()
    page.mouse.click(box["x"] + x, box["y"] + y)
    wait_until(page, f"row => {here} === row", str(row))
    assert page.evaluate("location.hash") == f"#class-{code}"
    assert page.evaluate("document.activeElement.id") == "grid"
    # Odd ones, and what is most like one of them, stand out.
    served.press("O")
    served.see("Odd ones")
    wait_until(page, f"({STRONG})() > 200")
    served.press("Enter")
    page.locator("dialog .near-items .strip").wait_for()
    served.press("g")
    page.locator("dialog").wait_for(state="detached")
    served.see("Most like it")
    wait_until(page, f"({STRONG})() > 20")


def test_a_check_says_why_what_was_confirmed_is_not_in_its_sample(serve_page: Any) -> None:  # noqa: F811
    served = serve_page()
    page, run = served.page, served.run
    one = next(one for one in run.classes() if one["labelled"])
    look_at(served, one["name"])
    served.press("p")
    verdict = page.locator("dialog .verdict", has_text="Nothing of this sample was checked yet")
    verdict.wait_for()
    assert f"the {one['labelled']} labelled were not drawn for it" in verdict.inner_text()
    served.press("Escape", "Enter")
    page.locator("dialog .near-items", has_text="Framed ones are unsure").wait_for()
