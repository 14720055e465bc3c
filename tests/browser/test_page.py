"""The report page in a real browser: headless Chromium, from disk, with the network watched."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image, ImageDraw

from ltgcd.data.collection import Collection
from ltgcd.data.items import Texts, Vectors
from ltgcd.report.layout import Places
from ltgcd.report.page import Report, report_html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
EVIL = "<img src=x onerror=window.pwned=1></script><script>window.pwned=1</script>"
NAMES = ["cat", EVIL, "novel-001", "novel-002", "novel-003", "novel-004"]
SIZES = [30, 20, 25, 6, 1, 3]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    driver = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install '.[dev]'")
    if CHROMIUM is None:
        pytest.skip("no browser: install Debian's chromium, or put one on the PATH")
    with driver.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def write_page(folder: Path, kind: str) -> Path:
    """Two known classes, one with a hostile name; two novel categories, one of a single item, one of unsure items only.

    Ten items of the first class are unsure, too.
    """
    random = np.random.RandomState(0)
    true = np.repeat(np.arange(6), SIZES)
    n = len(true)
    x = (np.eye(6, 6)[true] * 4 + random.randn(n, 6) * 0.3).astype(np.float32)
    ids = [f"item {i} {EVIL}" if i == 0 else f"item-{i:03d}" for i in range(n)]
    status = np.where(true < 2, "known", "novel").astype(object)
    status[np.arange(10, 20)] = "unsure"
    status[true == 5] = "unsure"
    words = ["purr", "bark", "chirp", "hiss", "roar", "meow"]
    items: Any = Texts(pa.array([f"{words[t]} number {i} {EVIL}" for i, t in enumerate(true)]))
    collection = Collection(pa.array(ids), items if kind == "text" else Vectors(x), np.full(n, -1), tuple(NAMES[:2]))

    def pictures(rows: np.ndarray) -> list[Image.Image | None]:
        found: list[Image.Image | None] = []
        for row in rows.tolist():
            image = Image.new("RGB", (48, 48), ["#ccd", "#cdc", "#fdb", "#fcc", "#cff", "#eee"][true[row]])
            ImageDraw.Draw(image).text((8, 16), str(row), fill="black")
            found.append(image)
        return found

    assignments = pa.table(
        {
            "id": ids,
            "label": pa.array(true, pa.int64()),
            "name": [NAMES[t] for t in true],
            "status": status.tolist(),
            "confidence": random.uniform(0.4, 1, n).astype(np.float32),
        }
    )
    estimate = {
        "method": "peaks",
        "k": 5,
        "low": 4,
        "high": 7,
        "n_old": 2,
        "curve": [[k, -abs(k - 5)] for k in range(2, 12)],
    }
    report = Report(
        collection,
        x,
        assignments,
        Places(x[:, :2] + x[:, 2:4], n),
        k_estimate=estimate,
        calibration_error=0.076,
        calibration_chance=0.051,
        pictures=pictures if kind == "picture" else None,
        title="a <b>title</b>",
    )
    (folder / "page.html").write_text(report_html(report), encoding="utf-8")
    return folder / "page.html"


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: write_page(tmp_path_factory.mktemp(kind), kind) for kind in ("picture", "text", "vector")}


class Opened:
    """A page, and everything that went wrong on it."""

    def __init__(self, browser: Any, path: Path, **context: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        self.page = self.context.new_page()
        self.troubles: list[str] = []
        self.page.on("console", lambda message: self.troubles.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("dialog", lambda dialog: self.troubles.append(f"dialog {dialog.message}"))
        self.page.on("request", self._watch)
        self.page.set_default_timeout(120_000)  # a busy machine is no reason to fail
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready]")

    def _watch(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:")):
            self.troubles.append(f"network {request.url}")

    def cards(self) -> list[str]:
        """Labels of the cards in their order; those far below are filled only when one comes near."""
        labels: list[str] = self.page.locator(".card").evaluate_all("nodes => nodes.map(n => n.ariaLabel)")
        return labels


@pytest.fixture
def open_page(browser: Any, pages: dict[str, Path]) -> Iterator[Any]:
    opened: list[Opened] = []

    def start(kind: str = "picture", **context: Any) -> Opened:
        opened.append(Opened(browser, pages[kind], **context))
        return opened[-1]

    yield start
    for one in opened:
        # Whatever a test did, the page never failed, never reached for the network, never ran what the data brought.
        assert one.page.evaluate("window.pwned") is None
        assert one.page.locator("script").count() == 2
        assert one.troubles == []
        one.context.close()


@pytest.mark.parametrize("kind", ["picture", "text", "vector"])
def test_the_page_tells_its_story(kind: str, open_page: Any) -> None:
    page = open_page(kind).page
    assert page.locator("h1").inner_text() == "3 novel categories beside 2 known classes"
    assert page.locator("#title").inner_text() == "a <b>title</b>"
    lead = page.locator("#lead").inner_text()
    assert "about 5 classes in all, known and novel (90 % interval 4 to 7)" in lead
    assert "Of 100 items marked 80 %, expect 72 to 88 right" in lead
    assert "1 further category has only unsure items and is not counted." in lead
    facts = dict(
        zip(page.locator("#facts dt").all_text_contents(), page.locator("#facts dd").all_text_contents(), strict=True)
    )
    assert facts["Items"] == "85"
    assert facts["Estimated classes"] == "5 4–7"
    assert facts["Marked 80 %"] == "72–88 % right"
    assert facts["Imbalance λ"] == "25"  # ten of the thirty cats are unsure
    assert page.locator("#sizes .mark").count() == 5
    assert page.locator("#kcurve .band").count() == 1
    assert page.locator(".card").count() == 7
    assert page.locator("#count").inner_text() == "7 cards"


def test_one_run_shows_one_count(open_page: Any) -> None:
    """The headline, the facts, the filter and the cards behind it agree; so do the classes."""
    opened = open_page()
    page = opened.page
    facts = dict(
        zip(page.locator("#facts dt").all_text_contents(), page.locator("#facts dd").all_text_contents(), strict=True)
    )
    for value, name, n in (("novel", "Novel categories", 3), ("known", "Known classes", 2)):
        assert facts[name] == page.locator(f"#status button[value={value}] small").inner_text() == str(n)
        page.locator(f"#status button[value={value}]").click()
        assert len(opened.cards()) == n
    page.locator("#status button[value=unsure]").click()
    assert opened.cards() == ["Unsure items", "novel-004"]  # which has unsure items only
    page.locator(".card h3").nth(1).wait_for()
    assert page.locator(".card .chip").all_inner_texts() == ["unsure", "unsure items only"]


def test_the_queue_leads_with_what_is_worth_looking_at(open_page: Any) -> None:
    opened = open_page()
    assert opened.cards()[:3] == ["novel-001", "novel-002", "Unsure items"]
    assert set(opened.cards()[3:5]) == {"novel-003", "novel-004"}  # a single item, and unsure items alone
    assert opened.cards()[5:] == ["cat", EVIL]  # most unsure items lean towards cat
    for at in range(7):
        card = opened.page.locator(".card").nth(at)
        card.scroll_into_view_if_needed()
        opened.page.wait_for_function("n => n.querySelector('h3')", arg=card.element_handle())
        assert card.locator("h3").inner_text().startswith(opened.cards()[at])


def test_pictures_show(open_page: Any) -> None:
    page = open_page().page
    images = page.locator(".card img")
    page.wait_for_function("document.querySelectorAll('.card img').length > 30")
    widths = images.evaluate_all("nodes => Promise.all(nodes.map(n => n.decode().then(() => n.naturalWidth)))")
    assert all(width == 48 for width in widths)
    boxes = page.locator(".card").first.locator(".thumbs img").evaluate_all("n => n.map(i => i.clientWidth)")
    assert min(boxes) > 20


def test_texts_and_ids_show_where_there_is_no_picture(open_page: Any) -> None:
    page = open_page("text").page
    first = page.locator(".card").first
    first.locator("h3").wait_for()
    assert first.locator(".quotes li").first.inner_text().startswith("chirp number")
    assert first.locator(".terms li").first.inner_text() == "chirp"
    page = open_page("vector").page
    page.locator(".card h3").first.wait_for()
    assert page.locator(".card").first.locator(".ids li").first.inner_text().startswith("item-")
    assert page.locator(".card").first.locator(".near button").count() == 2


def test_filters_and_search(open_page: Any) -> None:
    opened = open_page()
    page = opened.page
    page.locator("#status button[value=novel]").click()
    assert set(opened.cards()) == {"novel-001", "novel-002", "novel-003"}
    assert page.locator("#count").inner_text() == "3 of 7 cards"
    page.select_option("#size", "1-1")
    assert opened.cards() == ["novel-003"]
    page.locator("#status button[value=known]").click()
    assert page.locator(".card").count() == 0
    assert page.locator("#none").is_visible()
    page.locator("#clear").click()
    assert page.locator(".card").count() == 7
    page.locator("#status button[value=unsure]").click()
    assert opened.cards() == ["Unsure items", "novel-004"]
    page.locator("#status button[value=all]").click()
    page.fill("#search", "NOVEL-002")
    assert opened.cards() == ["novel-002"]
    page.fill("#search", "item-081")  # the last item, which is the single one
    assert opened.cards() == ["novel-003"]
    page.fill("#search", "<img")
    assert EVIL in opened.cards()
    page.fill("#search", "")
    page.select_option("#order", "small")
    assert opened.cards()[:2] == ["novel-004", "novel-003"]
    page.select_option("#order", "large")
    assert opened.cards()[0] == "novel-001"


def test_the_keyboard(open_page: Any) -> None:
    page = open_page().page
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.locator(".card.active").get_attribute("id") == page.locator(".card").nth(1).get_attribute("id")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert page.locator(".card.active h3 bdi").inner_text() == "novel-001"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("cat")
    assert page.locator("#search").input_value() == "cat"  # the keys that move do not move while one types
    page.keyboard.press("Escape")
    assert page.locator("#search").input_value() == ""
    page.keyboard.press("Escape")
    assert page.locator(".card.active").count() == 0
    # Every control is reached by Tab and has a name.
    assert (
        page.evaluate(
            "[...document.querySelectorAll('button, input, select')].filter(n => !n.disabled && "
            "!(n.getAttribute('aria-label') || n.textContent.trim() || n.closest('label')?.textContent.trim())).length"
        )
        == 0
    )


def test_the_map_answers(open_page: Any) -> None:
    page = open_page().page
    canvas = page.locator("#map canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    colours = canvas.evaluate(
        "c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0; "
        "for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; }"
    )
    assert colours > 1000  # something is drawn
    found = False
    for step in range(400):
        x, y = (
            box["x"] + 20 + step % 20 * (box["width"] - 40) / 19,
            box["y"] + 20 + step // 20 * (box["height"] - 40) / 19,
        )
        page.mouse.move(x, y)
        if page.locator("#tip").is_visible():
            found = True
            break
    assert found
    assert "confident" in page.locator("#tip").inner_text()
    assert page.locator("#tip img").evaluate("n => n.decode().then(() => n.naturalWidth)") == 48
    page.mouse.click(x, y)
    assert page.locator(".card.active").count() == 1
    before = canvas.screenshot()
    page.get_by_label("Zoom in").click()
    page.wait_for_timeout(100)
    assert canvas.screenshot() != before
    page.get_by_label("Show all").click()
    page.locator("[data-colour=category]").click()
    assert "each class or category" in page.locator("#legend").inner_text()


def test_the_nearest_class_is_a_click_away(open_page: Any) -> None:
    page = open_page().page
    page.locator(".card").first.locator(".near button").first.click()
    assert page.locator(".card.active").count() == 1
    assert page.locator(".card.active .chip").inner_text() == "known"


@pytest.mark.parametrize("kind", ["picture", "text", "vector"])
def test_a_phone(kind: str, open_page: Any) -> None:
    page = open_page(kind, viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True).page
    assert page.evaluate("document.documentElement.scrollWidth") == 360  # nothing sticks out
    for selector in ("#map", ".card", "#sizes", "#kcurve", ".tools"):
        box = page.locator(selector).first.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
    page.locator("#status button[value=novel]").tap()
    assert page.locator(".card").count() == 3


def test_light_and_dark(open_page: Any) -> None:
    tones = []
    for scheme in ("light", "dark"):
        page = open_page(color_scheme=scheme).page
        tone = page.evaluate("getComputedStyle(document.body).backgroundColor")
        tones.append(sum(int(part) for part in tone[4:-1].split(",")))
        page.locator(".card h3").first.wait_for()
        ink = page.evaluate("getComputedStyle(document.querySelector('.card h3')).color")
        tones.append(sum(int(part) for part in ink[4:-1].split(",")))
    light, ink, dark, chalk = tones
    assert light > 700 > 150 > ink
    assert dark < 100 < 600 < chalk
