"""A headless Chromium for the tests of the page: one for each file, ended with it (its driver keeps a loop running)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    driver = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install '.[dev]'")
    if CHROMIUM is None:
        pytest.skip("no browser: install Debian's chromium, or put one on the PATH")
    with driver.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def impatient(context: Any) -> Any:
    """The same context, whose pages ask what is new ten times as often: a test need not wait as a person would."""
    context.add_init_script("{ const every = setInterval; window.setInterval = (ask, ms) => every(ask, ms / 10); }")
    return context
