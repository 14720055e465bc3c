"""A picture of a report as Chromium shows it, for the README and for looking at it.

python tests/browser/picture.py PAGE OUT.png [--width 1360] [--height 1110] [--dark] [--whole]

PAGE is the report of 'ltgcd demo' for the README's docs/report.png.
"""

from __future__ import annotations

import argparse
import io
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright


def picture(page: Path, out: Path, *, width: int, height: int, dark: bool, whole: bool) -> None:
    """Save what the window shows, or with `whole` the page from top to bottom."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(
            viewport={"width": width, "height": height},
            device_scale_factor=1 if whole else 1.5,
            color_scheme="dark" if dark else "light",
        )
        tab.set_default_timeout(300_000)  # a busy machine is no reason to fail
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector("html[data-ready]")
        tab.wait_for_timeout(1500)
        shot = tab.screenshot(full_page=whole)
        browser.close()
    with Image.open(io.BytesIO(shot)) as image:  # few colours, so a palette loses nothing that one would see
        image.convert("RGB").quantize(192, dither=Image.Dither.NONE).save(out, optimize=True)
    print(f"{out}: {out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--width", type=int, default=1360)
    parser.add_argument("--height", type=int, default=1110)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--whole", action="store_true")
    picture(**vars(parser.parse_args()))
