"""What a page of results is made of, and the page as Markdown.

The tables, sentences and figures are put together once, as a list of blocks; this module writes them as Markdown,
`ltgcd.bench.html_page` as a web page. A text is inline Markdown: ``**bold**``, ``*slanted*``, code and links.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the title of the page."""

    level: int
    text: str


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Lines:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """A table: names of its columns, and its rows; `title` says what of, for whoever can't see what stands above it."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str


@dataclass(frozen=True)
class Picture:
    """A figure by its file, relative to the page; `words` say what it shows."""

    file: str
    words: str


Block = Heading | Text | Lines | Grid | Picture


def grid(heads: Iterable[str], rows: Iterable[Sequence[str]], title: str) -> Grid:
    """A table from any sequences; every row must be as wide as the head."""
    made = Grid(tuple(heads), tuple(tuple(row) for row in rows), title)
    assert all(len(row) == len(made.heads) for row in made.rows), made.title
    return made


def as_markdown(blocks: Iterable[Block]) -> str:
    """The page as Markdown."""
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def _markdown(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {block.text}"
    if isinstance(block, Text):
        return block.text
    if isinstance(block, Lines):
        return "\n".join(f"- {item}" for item in block.items)
    if isinstance(block, Picture):
        return f"![{block.words}]({block.file})"
    lines = ["| " + " | ".join(block.heads) + " |", "|---" * len(block.heads) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in block.rows)])
