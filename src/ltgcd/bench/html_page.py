"""The page of results as one HTML file: sortable tables and every figure in it, nothing is fetched from anywhere."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

from ltgcd.bench.found import anchor
from ltgcd.bench.page import Block, Grid, Heading, Lines, Picture, Text

_NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?")
_MISSING = re.compile(r"^(–|not run)")


def as_html(blocks: Sequence[Block], pictures: Mapping[str, bytes]) -> str:
    """The page as HTML.

    Parameters
    ----------
    blocks : sequence of Block
        What it shows, in order.
    pictures : mapping
        File name of a `Picture` to the bytes of its SVG.
    """
    static = files("ltgcd.bench") / "static"
    style, script = ((static / name).read_text(encoding="utf-8") for name in ("results.css", "results.js"))
    title = next((block.text for block in blocks if isinstance(block, Heading)), "Results")
    heads = [block for block in blocks if isinstance(block, Heading) and block.level == 2]
    links = "".join(f'<li><a href="#{anchor(head.text)}">{inline(head.text)}</a></li>' for head in heads)
    body = "\n".join(_html(block, pictures) for block in blocks)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{html.escape(title)} · ltgcd</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<nav aria-label="Contents"><details open><summary>Contents</summary><ul>{links}</ul></details></nav>\n'
        f'<main>\n{body}\n</main>\n<p id="said" class="unseen" aria-live="polite"></p>\n'
        f"<script>\n{script}</script>\n</body>\n</html>\n"
    )


def _html(block: Block, pictures: Mapping[str, bytes]) -> str:
    if isinstance(block, Heading):
        return f'<h{block.level} id="{anchor(block.text)}">{inline(block.text)}</h{block.level}>'
    if isinstance(block, Text):
        return f"<p>{inline(block.text)}</p>"
    if isinstance(block, Lines):
        return "<ul>" + "".join(f"<li>{inline(item)}</li>" for item in block.items) + "</ul>"
    if isinstance(block, Picture):
        data = base64.b64encode(pictures[block.file]).decode()
        words = html.escape(block.words)
        return (
            f'<figure tabindex="0"><img alt="{words}" src="data:image/svg+xml;base64,{data}">'
            f"<figcaption>{words}.</figcaption></figure>"
        )
    return _table(block)


def _table(block: Grid) -> str:
    heads = "".join(
        f'<th scope="col"><button type="button">{inline(head) or "row"}</button></th>' for head in block.heads
    )
    lines = []
    for row in block.rows:
        first, *rest = row
        cells = "".join(f'<td data-v="{sort_value(cell)}">{inline(cell)}</td>' for cell in rest)
        lines.append(f'<tr><th scope="row" data-v="{sort_value(first)}">{inline(first)}</th>{cells}</tr>')
    name = html.escape(block.title)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{name}"><table><caption class="unseen">{name}'
        f"</caption><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def sort_value(cell: str) -> str:
    """What a cell is sorted by: its first number, nothing for what was not run, and its words otherwise."""
    plain = re.sub(r"[*`]", "", cell).strip()
    if not plain or _MISSING.match(plain):
        return ""
    found = _NUMBER.match(plain)
    return found.group().replace(",", "").replace("−", "-") if found else html.escape(plain.lower())


def inline(text: str) -> str:
    """Inline Markdown as HTML: code, bold, slanted and links; everything else is escaped."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        f"<code>{html.escape(part[1:-1])}</code>" if part.startswith("`") and len(part) > 1 else _emphasis(part)
        for part in parts
    )


def _emphasis(text: str) -> str:
    shown = html.escape(text, quote=False)
    shown = re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", r'<a href="\2">\1</a>', shown)
    shown = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", shown)
    return re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])", r"<em>\1</em>", shown)
