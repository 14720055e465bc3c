"""The picture of the README: the report of a demo run, as Chromium shows it.

python tests/browser/picture.py RUN docs/report.png     (RUN: the --out of 'ltgcd demo')
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from ltgcd.common.files import read_json, read_metadata
from ltgcd.data.digits import digits_source
from ltgcd.report.page import write_report
from ltgcd.report.pictures import pixel_pictures
from ltgcd.run.directory import read_assignments, read_config

WIDTH, HEIGHT = 1360, 1110


def main(run: Path, out: Path) -> None:
    seed = read_config(run)["run"]["random_state"]
    source, assignments = digits_source(seed=seed), read_assignments(run)
    estimate = run / "k_estimate.json"
    with tempfile.TemporaryDirectory() as folder:
        page = write_report(
            Path(folder),
            source,
            source.collection.items.x,
            assignments,
            k_estimate=read_json(estimate) if estimate.is_file() else None,
            calibration_error=read_metadata(assignments.schema).get("calibration_error"),
            pictures=pixel_pictures(source.collection.items.x),
            seed=seed,
            title="ltgcd demo",
        )
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=1.5)
            tab.set_default_timeout(300_000)  # a busy machine is no reason to fail
            tab.goto(page.as_uri())
            tab.wait_for_selector("html[data-ready]")
            tab.wait_for_timeout(1500)
            shot = tab.screenshot()
            browser.close()
    with Image.open(io.BytesIO(shot)) as image:  # few colours, so a palette loses nothing that one would see
        image.convert("RGB").quantize(192, dither=Image.Dither.NONE).save(out, optimize=True)
    print(f"{out}: {out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
