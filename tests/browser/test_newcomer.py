"""What somebody who meets the page for the first time stumbled over, in a real browser."""

from __future__ import annotations

from typing import Any

from chromium import browser  # noqa: F401 - a fixture
from fake_server import FakeRun
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
    assert options.all_inner_texts()[:3] == near, "before anything is typed: what is near"
    assert LIKE[1] not in options.all_inner_texts() and chosen.count() == 0
    page.keyboard.type("tunic")
    assert options.all_inner_texts() == [LIKE[3], "tunic"]
    assert chosen.all_inner_texts() == [LIKE[3]]
    served.press("Enter")
    served.said(f"Moved 1 item to “{LIKE[3]}”")
    assert [event["op"] for event in served.done()[-1]] == ["assign"]
    # Upper and lower case are the same, and a whole name comes before longer ones that hold it.
    look_at(served, LIKE[2])
    served.press("x", "v")
    page.keyboard.type("Copepod_Calanoid")
    assert chosen.all_inner_texts() == [LIKE[1]]
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
