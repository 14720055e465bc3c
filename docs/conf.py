"""The documentation site: `make docs` builds docs/_build/html, and any warning stops it."""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "_ext"))

project, author = "ltgcd", "The ltgcd developers"
copyright = author
release = importlib.metadata.version("ltgcd")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "command_reference"]
exclude_patterns = ["_build", "_ext", "**.ipynb_checkpoints"]
html_theme = "furo"
html_title = "ltgcd"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1565a8", "color-brand-content": "#1565a8"},
    "dark_css_variables": {"color-brand-primary": "#7db8e8", "color-brand-content": "#7db8e8"},
}

myst_heading_anchors = 4
nb_execution_mode = "force"  # a tutorial that no longer runs is an error
nb_execution_raise_on_error = True
nb_execution_timeout = 180
nb_merge_streams = True

default_role = "code"  # `name` in a docstring
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings name the types in words
napoleon_google_docstring = False
napoleon_use_rtype = False

# ---------------------------------------------------------------- pages of the repository that are not in docs/

OUTSIDE = (
    "PAPER.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "benchmarks/README.md",
    "benchmarks/RESULTS.md",
    "benchmarks/class_number.md",
    "benchmarks/results/rehearsed.md",
    "benchmarks/results/rehearsed_start.md",
)
LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)\s]*)?\))")


def _page(path: Path) -> Path | None:
    """Where a file of the repository is on the site; None if it is no page."""
    inside = path.relative_to(ROOT).as_posix()
    if inside in OUTSIDE:
        return HERE / "_generated" / Path(inside).name
    return path if path.parent == HERE and path.suffix == ".md" else None


def _moved(text: str, old: Path, new: Path) -> str:
    """Markdown that was in one folder as it has to be in another: links lead to the site's pages, or to files."""

    def target(found: re.Match[str]) -> str:
        path = (old / found[2]).resolve()
        if not path.exists():
            return found[0]
        return f"{found[1]}{os.path.relpath(_page(path) or path, new)}{found[3]}"

    return LINK.sub(target, text)


def _copy_outside(_app: object) -> None:
    (HERE / "_generated").mkdir(exist_ok=True)
    for name in OUTSIDE:
        path = ROOT / name
        text = _moved(path.read_text(encoding="utf-8"), path.parent, HERE / "_generated")
        copy = HERE / "_generated" / path.name
        if not copy.is_file() or copy.read_text(encoding="utf-8") != text:  # what is as it was is not built again
            copy.write_text(text, encoding="utf-8")


def _relinked(_app: object, docname: str, source: list[str]) -> None:
    if "/" not in docname:
        source[0] = _moved(source[0], HERE, HERE)


def setup(app: object) -> None:
    """Sphinx asks for this name."""
    app.connect("builder-inited", _copy_outside)  # type: ignore[attr-defined]
    app.connect("source-read", _relinked)  # type: ignore[attr-defined]
