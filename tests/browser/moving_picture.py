"""A moving picture of the review page, for the README: the digits of scikit-learn, whose pictures may be shown.

ltgcd demo --out demo && python tests/browser/moving_picture.py demo docs/review.webp

A real server and a real Chromium; the run is copied first, so that it stays as it was.
"""

from __future__ import annotations

import argparse
import io
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from ltgcd.review.server.serve import open_server

WIDTH, HEIGHT = 1180, 720
# What is pressed or typed, what is waited for, and how long the picture stands, in milliseconds.
STORY: list[tuple[str, str, int]] = [
    ("", "", 2200),
    ("j", "#grid .cell", 1800),
    ("x", "#picked:not([hidden])", 700),
    ("ArrowRight", "", 350),
    ("x", "", 1100),
    ("a", ".toast", 2000),
    ("d", ".toast", 1500),
    ("r", ".namebox", 700),
    ("type:ni", "", 400),
    ("type:ne", "", 1000),
    ("Enter", ".toast", 1800),
    ("g", "dialog .tick", 2400),
    ("Escape", "", 300),
    ("j", "#grid .cell", 1400),
    ("m", "dialog .half", 2600),  # both are eights
    ("m", ".toast", 1800),
    ("r", ".namebox", 700),
    ("type:eight", "", 1000),
    ("Enter", ".toast", 1800),
    ("s", "dialog .part", 2200),
    ("Escape", "", 300),
    ("Enter", "dialog .near-items .cell", 2000),
    ("Escape", "", 300),
    ("h", "dialog .steps", 1700),
    ("Escape", "", 300),
    ("R", "#see-changes:not([hidden])", 1500),
    ("R", "dialog .diffs", 2800),
    ("click:Accept this fit", ".toast", 2200),  # no key accepts
]


def pictures(page: Any) -> tuple[list[Image.Image], list[int]]:
    """The frames of the story, and how long each stands."""
    frames, lengths = [], []
    for key, wanted, length in STORY:
        if key.startswith("type:"):
            page.keyboard.insert_text(key.removeprefix("type:"))
        elif key.startswith("click:"):
            page.get_by_role("button", name=key.removeprefix("click:")).click()
        elif key:
            name, _, times = key.partition("*")
            for _time in range(int(times or 1)):
                page.keyboard.press(name)
        if key == "Escape":
            page.locator("dialog").wait_for(state="detached")
        if wanted:
            page.locator(wanted).first.wait_for()
        page.wait_for_timeout(max(500, length))  # messages come and go as they do for a person
        frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
        lengths.append(length)
    return frames, lengths


def main(run: Path, out: Path) -> None:
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        shutil.copytree(run, Path(place) / "digits")
        server = open_server(Path(place) / "digits", port=0)
        threading.Thread(target=server.serve, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.set_default_timeout(60_000)
        page.goto(server.url)
        page.wait_for_selector("html[data-ready]")
        frames, lengths = pictures(page)
        browser.close()
        server.session.close()
    frames[0].save(out, save_all=True, append_images=frames[1:], duration=lengths, loop=0, quality=62, method=6)
    print(f"{out}: {len(frames)} pictures, {sum(lengths) / 1000:.0f} s, {out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    main(**vars(parser.parse_args()))
