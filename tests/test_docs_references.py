"""What the source says of the documents, and the documents of the source, can be looked up."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "ltgcd"
METHODS = ROOT / "docs" / "methods.md"

# "docs/methods.md §6.3 a, b and f, §7.1" and "docs/methods.md §3–5"; brackets around a letter make no difference.
LETTERS = r"(?:[ ]\(?[a-m]\)?(?:(?:,| and|, and)[ ]\(?[a-m]\)?)*(?![\w]))?"
SECTION = rf"§\d+(?:\.\d+)*{LETTERS}(?:–§?\d+(?:\.\d+)*)?"
REFERENCE = re.compile(rf"docs/methods\.md[\s,:()`]*({SECTION}(?:(?:,| and|, and|;)[ ]{SECTION})*)")
# The documents that the source must not rest on: they are not shipped.
NOT_SHIPPED = re.compile(r"METHODS(?:\.md)?,? §|METHODS\.md|FINDINGS|DESIGN\.md|STACK\.md")


def text_of(path: Path) -> str:
    """Text with every run of white space, and the marks of a comment that goes on, as one space."""
    return re.sub(r"\s+(?:#\s+)?", " ", path.read_text(encoding="utf-8"))


def sections(reference: str) -> Iterator[str]:
    """Sections that a reference names: "6.3 a", "6.3 b", "7.1"; a range is all of its whole numbers."""
    for part in re.findall(SECTION, reference):
        number, last = re.fullmatch(r"§([\d.]*\d)[^–]*(?:–§?([\d.]+))?", part).groups()
        letters = re.findall(r"(?<![\w])[a-m](?![\w])", part)
        if last:
            yield from (str(n) for n in range(int(number), int(last) + 1))
        elif letters:
            yield from (f"{number} {letter}" for letter in letters)
        else:
            yield number


def headings() -> set[str]:
    """Numbers of the headings of docs/methods.md, and of the paragraphs by letter that begin with theirs in bold."""
    text = METHODS.read_text(encoding="utf-8")
    numbered = re.findall(r"^#+ §(\d+(?:\.\d+)*) ", text, flags=re.M)
    lettered = re.findall(r"^- \*\*§(\d+(?:\.\d+)* [a-m])\. ", text, flags=re.M)
    assert len(numbered + lettered) == len({*numbered, *lettered})
    return {*numbered, *lettered}


def files() -> list[Path]:
    folders = [path for name in ("src", "tests", "benchmarks", "docs") for path in (ROOT / name).rglob("*")]
    own = Path(__file__).resolve()
    return [
        path
        for path in [*folders, *ROOT.glob("*.md")]
        if path.suffix in {".py", ".md", ".toml", ".html", ".js"} and path.resolve() != own
    ]


def test_references_are_read_as_they_are_written() -> None:
    written = {
        "docs/methods.md §2.": ["2"],
        "(paper §3.2, docs/methods.md §6.1, §7.1)": ["6.1", "7.1"],
        "docs/methods.md §6.3 a, b and f; everywhere": ["6.3 a", "6.3 b", "6.3 f"],
        "docs/methods.md §6.3 (c): counts": ["6.3 c"],
        "docs/methods.md §3–5)": ["3", "4", "5"],
        "[docs/methods.md](docs/methods.md) §6.4 stands": ["6.4"],
        "docs/methods.md §6.3 as a whole": ["6.3"],
    }
    for text, expected in written.items():
        found = [s for match in REFERENCE.finditer(text) for s in sections(match[1])]
        assert found == expected, text


def test_every_section_that_is_referred_to_exists() -> None:
    known = headings()
    missing = [
        f"{path.relative_to(ROOT)}: §{section}"
        for path in files()
        for match in REFERENCE.finditer(text_of(path))
        for section in sections(match[1])
        if section not in known
    ]
    assert not missing
    assert {"1.5", "6.3 a", "6.3 m", "7.1", "10.2"} <= known


def test_sections_refer_to_sections_that_exist() -> None:
    text = METHODS.read_text(encoding="utf-8")
    assert {s for part in re.findall(SECTION, text) for s in sections(part)} <= headings()


def test_the_source_rests_on_no_document_that_is_not_shipped() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in sorted(SOURCE.rglob("*.py"))
        for match in NOT_SHIPPED.finditer(text_of(path))
    ]
    assert not found


def defined(path: Path) -> set[str]:
    """Names that a module defines at its top, and the methods of its classes as Class.name."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{m.name}" for m in node.body if isinstance(m, ast.FunctionDef)}
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return names


@pytest.mark.parametrize("page", ["docs/methods.md", "PAPER.md"])
def test_the_places_in_the_source_that_a_page_names_exist(page: str) -> None:
    """A room, a module of a room, and what a module defines: `training/losses.py:info_nce`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir()}
    missing = []
    for place, name in re.findall(r"\b((?:\w+/)+\w+\.py)(?::([\w.]*\w))?", text):
        folder = ROOT if place.startswith(("src/", "benchmarks/")) else SOURCE
        path = folder / place
        if not path.is_file() or (name and name not in defined(path)):
            missing.append(f"{place}:{name}")
    missing += [f"{room}/" for room in re.findall(r"`(\w+)/", text) if room not in rooms | {"benchmarks", "src"}]
    assert not missing


def test_every_room_is_in_the_map_of_the_package() -> None:
    """The docstring of `ltgcd` is where a newcomer begins; its rooms stand in the order of the layers."""
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    modules = [name.strip().split(".")[1:] for layer in reversed(layers) for name in re.split("[|:]", layer)]
    rooms = list(dict.fromkeys(room for room, *_ in modules))
    text = ast.get_docstring(ast.parse((SOURCE / "__init__.py").read_text())) or ""
    told = [name.removesuffix(".py") for name in re.findall(r"^``(\w+(?:\.py)?)``", text, flags=re.M)]
    there = {path.stem for path in SOURCE.iterdir() if not path.name.startswith("__") and path.suffix != ".typed"}
    assert there == {*rooms}
    assert told == rooms
    # Of a room that stands in two layers, every file has its place.
    for room in {room for room, *rest in modules if rest}:
        files = {path.stem for path in (SOURCE / room).iterdir() if not path.name.startswith("__")}
        assert files == {rest[0] for name, *rest in modules if name == room}
