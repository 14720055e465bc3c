"""The site is built without a warning, and its tutorial runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import ROOT


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """A broken link, an option that is gone or a tutorial that fails is an error; `make docs` does the same."""
    options = ["-q", "-W", "--keep-going", "-b", "html", "-d", tmp_path / "trees"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, ROOT / "docs", tmp_path / "html"],
        capture_output=True,
        text=True,
        env=os.environ | {"JUPYTER_PLATFORM_DIRS": "1", "IPYTHONDIR": str(tmp_path / "ipython")},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    page = (tmp_path / "html" / "commands.html").read_text()
    from ltgcd.cli import GROUPS

    for name in (name for names in GROUPS.values() for name in names):
        assert f'id="ltgcd-{name}"' in page
    assert "@TRAINED@" not in page
    tutorial = (tmp_path / "html" / "tutorial-digits.html").read_text()
    assert len(re.findall(r'<img [^>]*src="_images/', tutorial)) == 5  # a chart for each plot of it
    assert "classes: 0 1 2 3 4 5" in tutorial
    python = (tmp_path / "html" / "python.html").read_text()
    for name in ("CategoryDiscovery.fit", "CategoryDiscovery.refine", "plot.sizes", "plot.progress"):
        assert f'id="ltgcd.{name}"' in python


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    entries = set(re.findall(r"<([\w-]+)>$", index, re.MULTILINE))
    assert entries | {"index"} == {path.stem for path in (ROOT / "docs").glob("*.md")}


def test_links_between_pages_resolve_in_the_repository() -> None:
    """On a forge the pages are read as they lie; only what the site makes itself may be missing there."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
    missing = []
    for page in pages:
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", page.read_text(encoding="utf-8")):
            is_made = link.startswith("_generated/") and page.name == "index.md"
            if "://" not in link and not is_made and not (page.parent / link).exists():
                missing.append(f"{page.name}: {link}")
    assert not missing
