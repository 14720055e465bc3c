"""What somebody who meets the page for the first time stumbled over, in a real browser."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from chromium import browser  # noqa: F401 - a fixture
from fake_server import FakeRun
from PIL import Image
from test_review_page import Served, serve_page, wait_until  # noqa: F401 - a fixture

LIKE = {
    0: "copepod_calanoid_eggs",
    1: "copepod_calanoid",
    2: "copepod_cyclopoid_oithona_eggs",
    3: "tunicate_salp_chains",
}


def look_at(served: Served, name: str) -> None:
    served.press("/")
    served.page.keyboard.insert_text(name)
    served.press("Enter")
    served.see(name)
    served.page.locator("#actions [data-key=a]").wait_for()  # its items are there
    served.press("Escape")


def test_a_name_is_never_cut_to_that_of_another_class(serve_page: Any) -> None:  # noqa: F811
    served = serve_page(FakeRun(n=400, classes=12, names=LIKE))
    page = served.page
    look_at(served, LIKE[2])
    served.press("x")
    button = page.locator("#picked button[data-key=n]")
    assert button.inner_text().startswith("Not copepod_cyc…oithona_eggs")
    assert button.get_attribute("title") == button.get_attribute("aria-label") == f"Not {LIKE[2]}"
    served.press("Enter")
    button = page.locator("dialog footer button", has_text="Not ")
    assert "…" in button.inner_text() and button.get_attribute("aria-label") == f"Not {LIKE[2]}"
    served.press("Escape")
    # In the queue, however narrow it is, the ending is seen.
    entry = page.locator(".entry[aria-selected=true]")
    assert entry.locator("bdi").evaluate("n => n.textContent") == LIKE[2]
    end, row = entry.locator(".ends span").last.bounding_box(), entry.bounding_box()
    assert end["x"] + end["width"] <= row["x"] + row["width"]
    # The classes beside a part: their names, or both ends of them.
    look_at(served, LIKE[0])
    served.press("s")
    page.locator("dialog .part").nth(1).wait_for()
    served.press("1")
    shown = [text.split("\n")[0] for text in page.locator("dialog footer button").all_inner_texts()]
    assert shown[:2] == [LIKE[1], "copepod_cyclo…d_oithona_eggs"]


def test_enter_takes_the_class_that_fits_and_makes_one_where_none_does(serve_page: Any) -> None:  # noqa: F811
    served = serve_page(FakeRun(n=400, classes=12, names=LIKE))
    page = served.page
    options, chosen = (
        page.locator("dialog [role=option] bdi"),
        page.locator("dialog [role=option][aria-selected=true] bdi"),
    )
    look_at(served, LIKE[1])
    served.press("x", "v")
    options.first.wait_for()
    near = [served.run.review.class_names()[code] for code, _ in served.class_named(LIKE[1])["nearest"]]
    assert options.all_text_contents()[:3] == near, "before anything is typed: what is near"
    assert LIKE[1] not in options.all_text_contents() and chosen.count() == 0
    page.keyboard.type("tunic")
    assert options.all_text_contents() == [LIKE[3], "tunic"]
    assert chosen.all_text_contents() == [LIKE[3]]
    served.press("Enter")
    served.said(f"Moved 1 item to “{LIKE[3]}”")
    assert [event["op"] for event in served.done()[-1]] == ["assign"]
    # Upper and lower case are the same, and a whole name comes before longer ones that hold it.
    look_at(served, LIKE[2])
    served.press("x", "v")
    page.keyboard.type("Copepod_Calanoid")
    assert chosen.all_text_contents() == [LIKE[1]]
    served.press("Enter")
    served.said(f"Moved 1 item to “{LIKE[1]}”")
    # What nobody has is made: because nothing fits, by its entry, or with Shift.
    for typed, keys in (("salpa", ["Enter"]), ("salp", ["ArrowUp", "Enter"]), ("sal", ["Shift+Enter"])):
        served.press("x", "v")
        page.keyboard.type(typed)
        served.press(*keys)
        served.said(f"Moved 1 item to “{typed}”")
        assert [event["op"] for event in served.done()[-1]] == ["create", "assign"]
        wait_until(page, "document.querySelector('#picked').hidden")


def test_a_name_that_is_mended_is_taken_as_it_is_typed(serve_page: Any) -> None:  # noqa: F811
    served = serve_page(FakeRun(n=400, classes=12, names=LIKE))
    look_at(served, LIKE[3])
    served.press("r")
    served.page.keyboard.type("copepod")
    served.press("Enter")
    served.see("copepod")
    # A category without a name is more likely one of the classes that there are: both are shown first.
    novel = next(one["name"] for one in served.run.classes() if not one["known"] and one["size"] > 5)
    look_at(served, novel)
    served.press("r")
    served.page.keyboard.type("cyclop")
    served.press("Enter")
    served.page.locator("dialog .half h3", has_text=LIKE[2]).wait_for()
    served.press("Escape")


def test_one_message_at_a_time_and_changes_are_those_in_force(serve_page: Any) -> None:  # noqa: F811
    served = serve_page()
    page = served.page
    changes, toasts = page.locator(".changes"), page.locator("#toasts .toast")
    served.press("j")
    wait_until(page, "document.querySelectorAll('#grid .cell').length > 0")
    served.press("d")
    served.said("1 item put to the junk")
    served.press("y")
    served.said("(duplicate)")
    assert toasts.count() == 1 and changes.inner_text() == "2 changes"
    served.press("u")
    served.said("Undone: junk 1.")
    assert toasts.count() == 1 and changes.inner_text() == "1 change"
    assert toasts.locator("button", has_text="Undo").count() == 0, "what is undone is not offered to be undone"
    served.press("A")
    served.said("Written to the run")
    assert toasts.count() == 1 and changes.inner_text() == "1 change, applied"
    assert page.locator("#work button", has_text="Apply").is_disabled()


def test_the_items_that_look_different_are_selected_by_a_click_or_a_key(serve_page: Any) -> None:  # noqa: F811
    served = serve_page(FakeRun(n=400, classes=9, names=LIKE))
    page = served.page
    picked = page.locator("#picked b")
    assert page.locator(".entry .badge.warn").all_inner_texts() == ["9 look different"]
    look_at(served, LIKE[1])
    for use in (lambda: page.locator("#badges .chip.warn").click(), lambda: served.press("f")):
        use()
        picked.get_by_text("9 selected").wait_for()
        assert page.evaluate("document.activeElement.id") == "grid"
        served.press("Escape")
    look_at(served, LIKE[0])
    assert page.locator("#badges .chip.warn").count() == 0
    page.locator(".entry .badge.warn").click()
    served.see(LIKE[1])
    picked.get_by_text("9 selected").wait_for()


def test_export_history_and_keys_are_reached_on_a_phone_too(serve_page: Any) -> None:  # noqa: F811
    served = serve_page()
    with served.page.expect_download() as caught:
        served.page.locator("#work button", has_text="Export").click()
    assert caught.value.suggested_filename == "labels.csv"
    phone = serve_page(viewport={"width": 390, "height": 844}, color_scheme="dark", has_touch=True)
    page = phone.page
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    for words, title in (("History", "History"), ("Keys", "Keys")):
        page.locator("#menu").tap()
        page.locator("dialog.menu button", has_text=words).tap()
        page.locator("dialog h2", has_text=title).wait_for()
        phone.press("Escape")
    page.locator("#menu").tap()
    with page.expect_download():
        page.locator("dialog.menu button", has_text="Export").tap()
    # A bar that goes on to the right looks like it, until one is there.
    phone.press("j")
    bar = page.locator("#actions")
    bar.locator("[data-key=p]").wait_for()
    wait_until(page, "document.querySelector('#actions').classList.contains('goes-on')")
    bar.evaluate("n => { n.scrollLeft = 1e4; }")
    wait_until(page, "!document.querySelector('#actions').classList.contains('goes-on')")


def test_the_last_refine_is_taken_back_by_a_key_of_its_own(serve_page: Any) -> None:  # noqa: F811
    served = serve_page()
    served.run.refining |= {"can_undo": True}
    served.page.reload()
    served.page.wait_for_selector("html[data-ready]")
    served.press("h")
    button = served.page.locator("dialog button", has_text="Undo the last refine")
    button.wait_for()
    assert button.get_attribute("aria-keyshortcuts") == "B"
    served.press("R")
    assert button.is_visible(), "R is refine, and nothing else"
    served.press("B")
    served.said("The fit before the last refine is back")


def test_what_is_confirmed_is_said_without_an_interval(serve_page: Any) -> None:  # noqa: F811
    served = serve_page()
    page = served.page
    one = next(one for one in served.run.classes() if not one["labelled"] and one["size"] > 20)
    look_at(served, one["name"])
    served.press("?")
    assert "Confirm 0" not in page.locator("dialog .keylist").last.inner_text()
    served.press("Escape", "p")
    verdict = page.locator("dialog .verdict")
    verdict.get_by_text("Nothing of it was confirmed yet.").wait_for()
    served.press("Enter")
    verdict.get_by_text("95 % interval").wait_for()
    served.press("Escape", "a")
    served.said("Accepted")
    served.press("p")
    verdict.wait_for()
    size = one["size"]
    assert (
        verdict.inner_text() == f"All {size} items are confirmed or corrected, and {size} were right: 100 % precision."
    )


def test_the_ring_of_the_queue_lies_above_its_entries(serve_page: Any) -> None:  # noqa: F811
    served = serve_page()
    page = served.page
    page.locator("#search").focus()
    page.locator("#entries").evaluate("n => n.focus({ focusVisible: true })")
    box = page.locator("#entries").bounding_box()
    shot = page.screenshot(clip={"x": box["x"] + 1, "y": box["y"] + 4, "width": 1, "height": 200})
    colours = np.unique(np.asarray(Image.open(io.BytesIO(shot)).convert("RGB")).reshape(-1, 3), axis=0)
    assert len(colours) == 1, "unbroken along all of them"
    # At the end of the overview there is no line without words.
    assert page.locator("#overview footer").is_hidden()


def test_the_second_of_two_clicks_is_not_for_the_bar_that_the_first_has_brought_up(serve_page: Any) -> None:  # noqa: F811
    served = serve_page(FakeRun(n=400, classes=4, names=LIKE))
    page = served.page
    look_at(served, LIKE[0])
    served.press("x")
    box = page.locator("#picked button[data-key=c]").bounding_box()
    served.press("Escape")
    place = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    assert page.evaluate("([x, y]) => Boolean(document.elementFromPoint(x, y).closest('#grid'))", place)
    page.mouse.dblclick(*place)
    page.locator("dialog[open]").wait_for()
    assert served.done() == [], "it is looked at, and nothing is confirmed"
    served.press("Escape")
    served.press("x")
    page.locator("#picked button[data-key=c]").click()
    served.said("Confirmed")


def test_what_is_picked_by_hand_and_split_off_is_confirmed_there(serve_page: Any) -> None:  # noqa: F811
    served = serve_page(FakeRun(n=400, classes=12, names=LIKE))
    look_at(served, LIKE[1])
    served.press("x", "ArrowRight", "x", "S")
    served.said(f"2 items of “{LIKE[1]}”: “novel-")
    split, assign = served.done()[-1]
    assert (split["op"], assign["op"]) == ("split", "assign")
    assert len(split["parts"][0]) == 2 and set(assign["rows"]) == set(split["parts"][0])
    review = served.run.review
    assert review.given[assign["rows"]].all() and (review.code[assign["rows"]] == assign["code"]).all()


def test_a_category_that_was_named_is_not_gone_from_the_headline(serve_page: Any) -> None:  # noqa: F811
    served = serve_page(FakeRun(n=400, classes=12, names=LIKE))
    page = served.page
    before = page.locator("#headline").inner_text()
    novel = int(before.split()[0])
    look_at(served, "novel-001")
    served.press("r")
    page.locator("input.namebox").wait_for()
    page.keyboard.type("heap of sand")
    served.press("Enter")
    served.said("heap of sand")
    page.locator(".entry", has_text="Overview").click()
    wait_until(page, "document.querySelector('#headline').textContent.includes('1 with a name')")
    headline = page.locator("#headline").inner_text().replace("\n", " ")
    assert headline.startswith(f"{novel - 1} novel categories and 1 with a name")
    assert headline.split("beside")[1] == before.replace("\n", " ").split("beside")[1]


def test_a_fit_that_can_no_longer_be_taken_is_made_again_with_one_button(serve_page: Any) -> None:  # noqa: F811
    served = serve_page(FakeRun(n=400, classes=12, names=LIKE))
    page = served.page
    look_at(served, LIKE[0])
    served.press("x", "d")
    served.said("put to the junk")
    served.press("R")
    page.locator("#see-changes:not([hidden])").wait_for()
    served.press("R")
    page.get_by_role("button", name="Accept this fit").wait_for()
    served.press("Escape", "ArrowRight", "x", "d")
    served.said("put to the junk")
    served.press("R")
    again = page.get_by_role("button", name="Refine again")
    again.wait_for()
    assert page.get_by_role("button", name="Accept this fit").count() == 0
    assert "can't be taken any more" in page.locator("dialog").inner_text()
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route) if route.request.method == "POST" else route.fallback()

    page.route("**/api/refine", hold)
    again.click()
    wait_until(page, "document.querySelector('#see-changes').hidden")  # at once, not with the answer
    served.press("R")
    served.said("It is running")
    assert page.locator("dialog").count() == 0
    assert len(held) == 1, "a key began a second refit"
    held[0].continue_()
    page.locator("#see-changes:not([hidden])").wait_for()
    served.press("R")
    page.get_by_role("button", name="Accept this fit").wait_for()


def test_what_the_last_update_brought_is_a_lane_that_an_address_leads_to(serve_page: Any) -> None:  # noqa: F811
    run = FakeRun(n=400, classes=4)
    run.added = 25
    served = serve_page(run)
    page = served.page
    lane = page.locator(".entry", has_text="Added by the last update")
    assert lane.locator(".facts-line").inner_text() == "25 items"
    lane.click()
    wait_until(page, "document.querySelectorAll('#grid .cell').length === 25")
    assert page.locator("#name").inner_text() == "Added by the last update"
    page.reload()
    wait_until(page, "document.querySelectorAll('#grid .cell').length === 25")
    page.locator("#grid .cell").first.click()
    served.press("x", "d")
    served.said("put to the junk")
