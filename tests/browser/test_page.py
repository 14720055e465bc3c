"""The report page in a real browser: headless Chromium, from disk, with the network watched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from chromium import browser  # noqa: F401 - a fixture
from PIL import Image, ImageDraw

from ltgcd.common.files import with_metadata
from ltgcd.data.collection import Collection
from ltgcd.data.items import Texts, Vectors
from ltgcd.output.report.layout import Places
from ltgcd.output.report.page import Report, report_html
from ltgcd.review.corrections import edits_of, read_corrections
from ltgcd.review.state import begin, replay

EVIL = "<img src=x onerror=window.pwned=1></script><script>window.pwned=1</script>"
NAMES = ["cat", EVIL, "novel-001", "novel-002", "novel-003", "novel-004"]
SIZES = [30, 20, 25, 6, 1, 3]


class Numbered(NamedTuple):
    """Pictures of numbers, in a colour for each class."""

    numbers: np.ndarray
    classes: np.ndarray

    def __call__(self, rows: np.ndarray) -> list[Image.Image | None]:
        found: list[Image.Image | None] = []
        for row in rows.tolist():
            image = Image.new("RGB", (48, 48), ["#ccd", "#cdc", "#fdb", "#fcc", "#cff", "#eee"][self.classes[row]])
            ImageDraw.Draw(image).text((8, 16), str(self.numbers[row]), fill="black")
            found.append(image)
        return found

    def select(self, rows: np.ndarray) -> Numbered:
        return Numbered(self.numbers[rows], self.classes[rows])


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
        pictures=Numbered(np.arange(n), true) if kind == "picture" else None,
        title="a <b>title</b>",
    )
    (folder / "page.html").write_text(report_html(report), encoding="utf-8")
    return folder / "page.html"


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: write_page(tmp_path_factory.mktemp(kind), kind) for kind in ("picture", "text", "vector")}


class Opened:
    """A page, and everything that went wrong on it."""

    def __init__(self, chromium: Any, path: Path, **context: Any) -> None:
        self.context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        self.page = self.context.new_page()
        self.troubles: list[str] = []
        self.page.on("console", lambda message: self.troubles.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("dialog", lambda dialog: self.troubles.append(f"dialog {dialog.message}"))
        self.page.on("request", self._watch)
        self.page.set_default_timeout(60_000)  # a busy machine is no reason to fail
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready]")

    def _watch(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:")):
            self.troubles.append(f"network {request.url}")

    def entries(self) -> list[str]:
        """Labels of the entries of the queue in their order."""
        labels: list[str] = self.page.locator(".entry").evaluate_all("nodes => nodes.map(n => n.ariaLabel)")
        return labels

    def go_to(self, name: str) -> None:
        """Look at a class by a click in the queue, and wait for its items."""
        self.page.locator(".entry bdi").get_by_text(name, exact=True).first.click()
        self.page.wait_for_function("document.querySelectorAll('#grid .cell').length > 0")

    def cells(self) -> list[int]:
        rows: list[int] = self.page.locator("#grid .cell").evaluate_all(
            "n => n.map(c => [c.at, +c.dataset.row]).sort((a, b) => a[0] - b[0]).map(c => c[1])"
        )
        return rows


@pytest.fixture
def open_page(browser: Any, pages: dict[str, Path]) -> Iterator[Any]:  # noqa: F811 - a fixture
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
    assert "72 to 88 of 100 items marked 80 % were right" in lead
    assert "1 further category has only unsure items and is not counted." in lead
    facts = dict(
        zip(page.locator("#facts dt").all_text_contents(), page.locator("#facts dd").all_text_contents(), strict=True)
    )
    assert facts["Items"] == "85"
    assert facts["Estimated classes"] == "5 4–7"
    assert facts["Items marked 80 %: right in rehearsals"] == "72–88 %"
    assert facts["Largest class : smallest"] == "25 : 1"  # ten of the thirty cats are unsure
    assert page.locator("#sizes .mark").count() == 5
    assert page.locator("#kcurve .band").count() == 1
    assert page.locator(".entry").count() == 8  # six classes, the overview and the unsure items
    assert page.locator("#count").inner_text() == "6 classes and categories"


def test_one_run_shows_one_count(open_page: Any) -> None:
    """The headline, the facts, the filter and the entries behind it agree; so do the classes."""
    opened = open_page()
    page = opened.page
    facts = dict(
        zip(page.locator("#facts dt").all_text_contents(), page.locator("#facts dd").all_text_contents(), strict=True)
    )
    for value, name, n in (("novel", "Novel categories", 3), ("known", "Known classes", 2)):
        assert facts[name] == page.locator(f"#status button[value={value}] small").inner_text() == str(n)
        page.locator(f"#status button[value={value}]").click()
        assert len(opened.entries()) == n
    page.locator("#status button[value=unsure]").click()
    assert opened.entries() == ["novel-004", "Unsure items"]  # the first has unsure items only
    opened.go_to("novel-004")
    assert page.locator("#badges .chip").all_inner_texts() == ["unsure items only"]


def test_the_queue_leads_with_what_is_worth_looking_at(open_page: Any) -> None:
    opened = open_page()
    # By what a look gains, as the served page has it: categories that nobody has looked at, classes in some doubt, and
    # then a category of unsure items alone and one of a single item, which are worth a look each, and no more.
    assert opened.entries()[:3] == ["Overview", "novel-001", "novel-002"]
    assert set(opened.entries()[3:5]) == {"cat", EVIL}
    assert set(opened.entries()[5:7]) == {"novel-003", "novel-004"}
    assert opened.entries()[7:] == ["Unsure items"]
    for name in opened.entries()[1:]:
        opened.page.keyboard.press("j")
        opened.page.wait_for_function("n => document.querySelector('#name').textContent === n", arg=name)


def test_pictures_show_and_every_item_is_in_the_grid(open_page: Any) -> None:
    opened = open_page()
    opened.go_to("novel-001")
    page = opened.page
    assert sorted(opened.cells()) == list(range(50, 75))
    assert page.locator("#heads .section h3").all_inner_texts() == ["25 items, least sure first"]
    sides = page.locator("#grid img").evaluate_all(
        "n => Promise.all(n.map(i => i.decode().then(() => i.naturalWidth)))"
    )
    assert sides == [48] * 25
    assert min(page.locator("#grid img").evaluate_all("n => n.map(i => i.clientWidth)")) > 40
    confidence = page.locator("#grid .cell").evaluate_all(
        "n => n.sort((a, b) => a.at - b.at).map(c => parseInt(c.ariaLabel.match(/(\\d+) % confident/)[1]))"
    )
    assert confidence == sorted(confidence)
    doubtful = opened.cells()
    page.keyboard.press("o")
    page.wait_for_function("document.querySelector('#heads .section').textContent.includes('centre')")
    assert sorted(opened.cells()) == sorted(doubtful) != opened.cells()
    page.keyboard.press("o")
    opened.go_to("cat")
    page.locator("#heads .section", has_text="lean here").wait_for()
    assert page.locator("#heads .section h3").all_inner_texts() == [
        "20 items, least sure first",
        "10 unsure items lean here",
    ]


def test_texts_and_ids_show_where_there_is_no_picture(open_page: Any) -> None:
    opened = open_page("text")
    opened.go_to("novel-001")
    opened.page.locator("#grid .line", has_text="chirp number").first.wait_for()  # a line is there before its text
    assert opened.page.locator("#grid .line").first.inner_text().startswith("chirp number")
    assert opened.page.locator(".terms li").first.inner_text() == "chirp"
    opened = open_page("vector")
    opened.go_to("novel-001")
    opened.page.locator("#grid .line", has_text="item-").first.wait_for()
    assert opened.page.locator("#grid .line").first.inner_text().startswith("item-")
    assert opened.page.locator(".near button").count() == 2


def test_filters_and_search(open_page: Any) -> None:
    opened = open_page()
    page = opened.page
    page.locator("#status button[value=novel]").click()
    assert set(opened.entries()) == {"novel-001", "novel-002", "novel-003"}
    assert page.locator("#count").inner_text() == "3 of 6 classes and categories"
    page.select_option("#size", "1-1")
    assert opened.entries() == ["novel-003"]
    page.locator("#status button[value=known]").click()
    assert page.locator(".entry").count() == 0
    assert page.locator("#none").is_visible()
    page.locator("#clear").click()
    assert page.locator(".entry").count() == 8

    def search(typed: str, found: list[str]) -> None:
        page.fill("#search", typed)
        page.wait_for_function(
            "n => JSON.stringify([...document.querySelectorAll('.entry')].map(e => e.ariaLabel)) === n",
            arg=json.dumps(found, ensure_ascii=False, separators=(",", ":")),
        )

    search("NOVEL-002", ["novel-002"])
    search("item-081", ["Items found", "novel-003"])  # the last item, which is the single one
    page.locator(".entry").first.click()
    page.wait_for_function("document.querySelectorAll('#grid .cell').length === 1")
    page.fill("#search", "<img")
    page.wait_for_function("n => [...document.querySelectorAll('.entry')].some(e => e.ariaLabel === n)", arg=EVIL)
    page.fill("#search", "")
    page.select_option("#order", "small")
    assert opened.entries()[:3] == ["Overview", "novel-004", "novel-003"]
    page.select_option("#order", "large")
    assert opened.entries()[:2] == ["Overview", "novel-001"]


def test_the_keyboard(open_page: Any) -> None:
    page = open_page().page
    page.keyboard.press("ArrowDown")  # where there is no grid, arrows go through the queue
    page.keyboard.press("j")
    assert page.locator(".entry[aria-selected=true] bdi").inner_text() == "novel-002"
    page.keyboard.press("k")
    assert page.locator(".entry[aria-selected=true] bdi").inner_text() == "novel-001"
    page.wait_for_function("document.querySelectorAll('#grid .cell').length === 25")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("x")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    page.locator("#picked b", has_text="3 selected").wait_for()
    page.keyboard.press("Escape")
    page.locator("#picked").wait_for(state="hidden")
    page.keyboard.press("Enter")
    assert page.locator("dialog .id code").inner_text().startswith("item-")
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    page.keyboard.press("?")
    assert page.locator("dialog .keylist").first.locator("li", has_text="Accept all 25").count() == 1
    _here, elsewhere, of_review = page.locator("dialog .keylist").all()
    assert "Download corrections.csv" in elsewhere.inner_text() and "Split" not in elsewhere.inner_text()
    assert all(word in of_review.inner_text() for word in ("Split", "Grow", "Refine", "Undo the last refine"))
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("cat")
    assert page.locator("#search").input_value() == "cat"  # the keys that act do not act while one types
    page.keyboard.press("Escape")
    assert page.locator("#search").input_value() == ""
    # Every control has a name.
    assert (
        page.evaluate(
            "[...document.querySelectorAll('button, input, select')].filter(n => !n.disabled && "
            "!(n.getAttribute('aria-label') || n.textContent.trim() || n.closest('label')?.textContent.trim())).length"
        )
        == 0
    )


def test_edits_become_a_file_that_relabel_understands(open_page: Any, tmp_path: Path) -> None:
    """Rename, accept all but one, move that one, junk, merge, undo and redo: the file says what the page shows."""
    opened = open_page()
    page = opened.page
    opened.go_to("novel-001")
    page.keyboard.press("r")
    page.keyboard.type("songbird, small")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('#name').textContent === 'songbird, small'")
    first = opened.cells()[0]
    page.keyboard.press("x")
    page.keyboard.press("a")
    page.locator(".changes", has_text="2 changes").wait_for()
    assert page.locator("#about .why").inner_text() == "24 of its 25 items are confirmed."
    page.keyboard.press("v")
    page.keyboard.type("=1+1")  # a formula, for a spreadsheet
    page.keyboard.press("Enter")
    page.locator(".changes", has_text="3 changes").wait_for()
    opened.go_to("novel-002")
    second = opened.cells()[0]
    page.keyboard.press("d")
    page.locator(".changes", has_text="4 changes").wait_for()
    page.keyboard.press("u")
    page.locator(".changes", has_text="3 changes").wait_for()
    page.keyboard.press("U")
    page.locator(".changes", has_text="4 changes").wait_for()
    opened.go_to("novel-003")
    page.keyboard.press("r")
    page.keyboard.type("cat")
    page.keyboard.press("Enter")  # the name of another class: the two side by side
    page.locator("dialog .half").nth(1).wait_for()
    page.keyboard.press("m")
    page.locator(".changes", has_text="5 changes").wait_for()
    with page.expect_download() as caught:
        page.keyboard.press("D")
    caught.value.save_as(tmp_path / "corrections.csv")
    assert '"\'=1+1"' in (tmp_path / "corrections.csv").read_text(), "no cell is a formula"

    n = sum(SIZES)
    status = ["known" if t < 2 else "novel" for t in np.repeat(np.arange(6), SIZES)]
    ids = [f"item {i} {EVIL}" if i == 0 else f"item-{i:03d}" for i in range(n)]
    base = pa.table({"id": ids, "label": np.repeat(np.arange(6), SIZES), "status": status, "confidence": [0.5] * n})
    review = begin(with_metadata(base, {"k": 6}), tuple(NAMES[:2]))
    edits = edits_of(read_corrections(tmp_path / "corrections.csv"), review)
    assert edits.refused == []
    after = replay(review, edits.events).table().to_pydict()
    assert after["name"][first] == "=1+1"
    songbirds = [after["name"][i] for i in range(50, 75) if i != first]
    assert set(songbirds) == {"songbird, small"}
    assert sum(after["given"][50:75]) == 25
    assert after["status"][second] == "junk"
    assert after["name"][81] == "cat"


def test_ids_are_copied(open_page: Any) -> None:
    opened = open_page(permissions=["clipboard-read", "clipboard-write"])
    opened.go_to("novel-003")
    opened.page.keyboard.press("i")
    opened.page.locator(".toast", has_text="Copied 1 id.").wait_for()
    assert opened.page.evaluate("navigator.clipboard.readText()") == "item-081"


def test_the_map_answers(open_page: Any) -> None:
    page = open_page().page
    page.wait_for_timeout(300)
    box = page.locator("#over").bounding_box()
    # Something is drawn, by WebGL or without.
    colours = page.evaluate(
        "() => { const c = document.querySelector('#points'), o = document.createElement('canvas'); o.width = c.width;"
        " o.height = c.height; const x = o.getContext('2d'); x.drawImage(c, 0, 0);"
        " const d = x.getImageData(0, 0, o.width, o.height).data;"
        " let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; }"
    )
    assert colours > 800
    found = False
    for step in range(900):
        x, y = (
            box["x"] + 15 + step % 30 * (box["width"] - 30) / 29,
            box["y"] + 15 + step // 30 * (box["height"] - 30) / 29,
        )
        page.mouse.move(x, y)
        if page.locator("#tip").is_visible():
            found = True
            break
    assert found
    assert "confident" in page.locator("#tip").inner_text()
    assert page.locator("#tip img").evaluate("n => n.decode().then(() => n.naturalWidth)") == 48
    page.mouse.click(x, y)
    page.wait_for_function("document.body.dataset.view !== 'overview'")
    before = page.locator("#points").screenshot()
    page.get_by_label("Zoom in").click()
    page.wait_for_timeout(200)
    assert page.locator("#points").screenshot() != before
    page.get_by_label("Show all").click()
    page.locator("[data-colour=category]").click()
    assert "each class or category" in page.locator("#legend").inner_text()


def test_a_lasso_selects_everything_inside(open_page: Any) -> None:
    page = open_page().page
    page.keyboard.press("l")
    box = page.locator("#over").bounding_box()
    corners = [(2, 2), (box["width"] - 3, 2), (box["width"] - 3, box["height"] - 3), (2, box["height"] - 3), (2, 3)]
    for at, (x, y) in enumerate(corners):
        page.mouse.move(box["x"] + x, box["y"] + y, steps=3)
        if at == 0:
            page.mouse.down()
    page.mouse.up()
    page.locator("#picked b", has_text="85 selected").wait_for()
    assert page.locator("#name").inner_text() == "Lasso"
    page.locator(".pick", has_text="novel-001").click()
    page.locator("#picked b", has_text="25 selected").wait_for()
    page.keyboard.press("d")
    page.locator(".entry", has_text="Junk").wait_for()


def test_the_nearest_class_is_a_click_away(open_page: Any) -> None:
    opened = open_page()
    opened.go_to("novel-001")
    opened.page.locator(".near button").first.click()
    opened.page.locator("#badges .chip", has_text="known").wait_for()


@pytest.mark.parametrize("kind", ["picture", "text", "vector"])
def test_a_phone(kind: str, open_page: Any) -> None:
    page = open_page(kind, viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True).page
    assert page.evaluate("document.documentElement.scrollWidth") == 360  # nothing sticks out
    for selector in ("#map", "#sizes", "#kcurve", ".top", "#facts"):
        box = page.locator(selector).first.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
    page.locator("#queuebutton").tap()
    page.locator("#status button[value=novel]").tap()
    assert page.locator(".entry").count() == 3
    page.locator(".entry").first.tap()
    page.wait_for_function("document.querySelectorAll('#grid .cell').length > 3")
    assert not page.locator("#queue").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    lefts = page.locator("#grid .cell").evaluate_all("n => new Set(n.map(c => c.getBoundingClientRect().left)).size")
    assert lefts == {"picture": 3, "text": 1, "vector": 1}[kind]
    page.locator("#grid .cell").first.tap()
    page.locator("#picked b", has_text="1 selected").wait_for()


def test_light_and_dark(open_page: Any) -> None:
    tones = []
    for scheme in ("light", "dark"):
        page = open_page(color_scheme=scheme).page
        tone = page.evaluate("getComputedStyle(document.body).backgroundColor")
        tones.append(sum(int(part) for part in tone[4:-1].split(",")))
        ink = page.evaluate("getComputedStyle(document.querySelector('h1')).color")
        tones.append(sum(int(part) for part in ink[4:-1].split(",")))
    light, ink, dark, chalk = tones
    assert light > 700 > 150 > ink
    assert dark < 100 < 600 < chalk
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(247, 246, 243)"
