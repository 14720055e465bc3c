"""Speed of the server of ``ltgcd review`` over HTTP, as a page sees it: 100,000 items × 64 numbers, 200 classes.

    python benchmarks/speed/review.py                        # 100,000 items
    python benchmarks/speed/review.py --n 1000000 --d 32     # "usable" with a million
    python benchmarks/speed/review.py --browser              # the page in Chromium, too: first view, frames of the map

The first state is timed from the first look at the run directory; the others are the median and the slowest of ten,
from the request to the last byte of the answer, and the CPU time of page and server together, which other work on the
machine does not change much. Every edit is on the disk before it is answered. Edits go on and on, as a person's do, of
other items each time; the log has more than a hundred events at the end.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.review.server.synthetic import make_run

from ltgcd.review.server.serve import open_server

TIMES = 10
LASSO = 50_000  # items
IDLE = 3.0  # seconds after which a connection is made anew


class Page:
    """A page that keeps its connection, as a browser does."""

    def __init__(self, port: int, token: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.headers = {"Cookie": f"ltgcd-{port}={token}", "Origin": f"http://127.0.0.1:{port}"}
        self.headers |= {"Content-Type": "application/json", "X-Ltgcd": "1"}
        self.seen, self.last = dict[str, int](), 0.0

    def ask(self, path: str, **told: Any) -> bytes:
        if told and not self.seen:
            state = json.loads(self.ask("/api/state"))
            self.seen = {key: state[key] for key in ("version", "base", "n")}
        body = json.dumps({**told, **self.seen}) if told else None
        if not self.connection.sock or time.monotonic() - self.last > IDLE:  # the server has closed it
            self.connection.close()
        self.last = time.monotonic()
        self.connection.request("POST" if told else "GET", path, body, self.headers)
        answer = self.connection.getresponse()
        found = answer.read()
        assert answer.status == 200, (path, answer.status, found[:200])
        if told:
            self.seen["version"] = json.loads(found)["version"]
        return found


def timed(name: str, call: Any) -> None:
    taken, busy, sizes = [], [], []
    for number in range(TIMES):
        started, cpu = time.perf_counter(), time.process_time()
        sizes.append(len(call(number)))
        taken.append(1000 * (time.perf_counter() - started))
        busy.append(1000 * (time.process_time() - cpu))
    figures = f"{np.median(taken):9.1f}{max(taken):11.1f}{np.median(busy):8.1f}{np.median(sizes) / 1000:10.1f}"
    print(f"{name:34}{figures}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--d", type=int, default=64)
    parser.add_argument("--classes", type=int, default=200)
    parser.add_argument("--browser", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        make_run(run, asked.n, asked.d, asked.classes, asked.classes // 2)
        started, cpu = time.perf_counter(), time.process_time()
        server = open_server(run, port=0)
        threading.Thread(target=server.serve, daemon=True).start()
        page = Page(server.access.port, server.access.token)
        state = json.loads(page.ask("/api/state"))
        wall, busy = time.perf_counter() - started, time.process_time() - cpu
        print(f"{asked.n:,} items × {asked.d}, {asked.classes} classes; load of the machine {os.getloadavg()[0]:.1f}")
        print(f"first state, the run read included: {wall:.2f} s, of which {busy:.2f} s of CPU time\n")
        print(f"{'':34}{'median ms':>9}{'slowest ms':>11}{'CPU ms':>8}{'kB':>10}")
        code, other = state["classes"][0]["code"], state["classes"][1]["code"]
        rows = np.frombuffer(page.ask(f"/api/rows?code={code}"), "<i4").tolist()
        print(f"# the class that edits are about has {len(rows):,} items")
        timed("state", lambda _n: page.ask("/api/state"))
        timed("all items", lambda _n: page.ask("/api/items"))
        timed("rows of a class, doubtful first", lambda _n: page.ask(f"/api/rows?code={code}"))
        timed("24 items described", lambda _n: page.ask(f"/api/describe?rows={','.join(map(str, rows[:24]))}"))
        timed("neighbours of an item", lambda n: page.ask(f"/api/neighbours/{rows[n]}"))
        timed("merges", lambda _n: page.ask("/api/merges"))
        timed("split in 5", lambda _n: page.ask(f"/api/split?code={code}&parts=5"))
        timed("grow", lambda _n: page.ask(f"/api/grow?code={code}&limit=24"))
        timed("search", lambda n: page.ask(f"/api/search?q=00{n}2"))
        timed("audit", lambda _n: page.ask(f"/api/audit?code={code}"))
        timed("history", lambda _n: page.ask("/api/history?limit=200"))
        timed("labels as a file", lambda _n: page.ask("/api/export"))
        started, cpu = time.perf_counter(), time.process_time()
        page.ask("/api/act", events=[{"op": "junk", "rows": rows[-1:]}])
        wall, busy = 1000 * (time.perf_counter() - started), 1000 * (time.process_time() - cpu)
        print(f"{'the first edit of all, junk':34}{wall:9.1f}{wall:11.1f}{busy:8.1f}", flush=True)
        by_size = sorted(state["classes"], key=lambda one: -one["size"])
        large = [one["code"] for one in by_size[:TIMES]]
        members = {c: np.frombuffer(page.ask(f"/api/rows?code={c}"), "<i4").tolist() for c in large}
        n_large = int(np.median([len(part) for part in members.values()]))
        print(f"# the ten largest classes have {n_large:,} items (median)")
        timed(
            "accept a class",
            lambda n: page.ask("/api/act", events=[{"op": "assign", "rows": members[large[n]], "code": large[n]}]),
        )
        timed("undo", lambda n: page.ask("/api/undo", key=f"u{n}"))
        timed("redo", lambda n: page.ask("/api/redo", key=f"r{n}"))
        few = lambda n: rows[20 * n : 20 * n + 20]  # noqa: E731
        timed("move 20 items", lambda n: page.ask("/api/act", events=[{"op": "assign", "rows": few(n), "code": other}]))
        timed("junk 20 items", lambda n: page.ask("/api/act", events=[{"op": "junk", "rows": few(n)}]))
        timed(
            "20 items are not of a class",
            lambda n: page.ask("/api/act", events=[{"op": "reject", "rows": few(n), "code": other}]),
        )
        timed("take back what was said of 20", lambda n: page.ask("/api/act", events=[{"op": "clear", "rows": few(n)}]))
        timed("rename", lambda n: page.ask("/api/act", events=[{"op": "rename", "code": code, "name": f"name {n}"}]))
        timed(
            "never merge",
            lambda n: page.ask("/api/act", events=[{"op": "distinct", "code": large[n], "other": large[n - 1]}]),
        )
        timed(
            "split, taken",
            lambda n: page.ask(
                "/api/act",
                events=[{"op": "split", "code": large[n], "parts": [members[large[n]][100:200]]}],
            ),
        )
        random = np.random.RandomState(0)
        caught = [random.permutation(asked.n)[: min(LASSO, asked.n // 2)].tolist() for _ in range(TIMES)]
        timed(
            f"move a lasso of {len(caught[0]):,} items",
            lambda n: page.ask("/api/act", events=[{"op": "assign", "rows": caught[n], "code": large[n]}]),
        )
        timed("undo that", lambda n: page.ask("/api/undo", key=f"l{n}"))
        smallest = [one["code"] for one in state["classes"] if not one["known"]][-TIMES:]
        timed(
            "merge two classes",
            lambda n: page.ask("/api/act", events=[{"op": "merge", "code": smallest[n], "into": code}]),
        )
        timed("history, after all that", lambda _n: page.ask("/api/history?limit=200"))
        page.connection.close()
        if asked.browser:
            in_browser(server.url)


SPENT = """window.spent = [];
const frame = window.requestAnimationFrame.bind(window);
window.requestAnimationFrame = (work) => frame((now) => {
  const began = performance.now(); work(now); window.spent.push(performance.now() - began);
});"""
RENDERER = """() => { const gl = document.createElement("canvas").getContext("webgl2");
  return gl.getParameter(gl.getExtension("WEBGL_debug_renderer_info").UNMASKED_RENDERER_WEBGL); }"""
FRAMES = """() => new Promise((done) => {
  const over = document.querySelector("#over"), box = over.getBoundingClientRect(), found = [];
  let before = performance.now(), n = 0;
  function frame(now) {
    found.push(now - before); before = now;
    const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 };
    over.dispatchEvent(new WheelEvent("wheel", { ...at, cancelable: true, deltaY: n % 120 < 60 ? -40 : 40 }));
    if (++n < 240) requestAnimationFrame(frame); else done(found.slice(10).sort((a, b) => a - b));
  }
  requestAnimationFrame(frame);
})"""


def in_browser(url: str) -> None:
    """The first view of the page, and the map while it is zoomed in and out, in a headless Chromium."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for again in ("first", "second"):
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.add_init_script(SPENT)
            started = time.perf_counter()
            page.goto(url)
            page.wait_for_selector("html[data-ready]")
            print(f"page ready in Chromium, the {again} time: {time.perf_counter() - started:.2f} s")
        page.evaluate("window.spent = []")
        frames, spent = page.evaluate(FRAMES), sorted(page.evaluate("window.spent"))
        layer = page.locator("#points").get_attribute("data-layer")
        drawn = page.locator("#map .caption p").inner_text()
        late = 100 * sum(frame > 25 for frame in frames) / len(frames)
        print(
            f"map ({drawn}, {layer}) zoomed in and out: {np.median(frames):.1f} ms a frame (median), "
            f"{frames[int(0.95 * len(frames))]:.1f} (95 %), {late:.0f} % of frames late; of these the page's own work "
            f"is {np.median(spent):.1f} ms a frame, {spent[int(0.95 * len(spent))]:.1f} (95 %), the rest is drawing by "
            f"{page.evaluate(RENDERER)}"
        )
        browser.close()


if __name__ == "__main__":
    main()
