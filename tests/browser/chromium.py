"""One headless Chromium for all tests of the page."""

from __future__ import annotations

import atexit
import functools
import shutil
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@functools.cache
def chromium() -> Any:
    """The browser, started by the first test that needs it; a test without one is skipped."""
    driver = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install '.[dev]'")
    if CHROMIUM is None:
        pytest.skip("no browser: install Debian's chromium, or put one on the PATH")
    playwright = driver.sync_playwright().start()
    atexit.register(playwright.stop)
    return playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
