"""What the pages tell people to type is a command with options that exist, and code that runs."""

from __future__ import annotations

import re
import shlex
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from conftest import ROOT, WIDE
from ltgcd.cli import app

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TYPED = re.compile(r"^(?: {4})?(ltgcd .+)$", re.MULTILINE)
# Their blocks are run by the tests of these rooms, and README's by tests/test_readme.py.
ELSEWHERE = {
    "README.md": "tests/test_readme.py",
    "own-backbone.md": "tests/features/test_backbone_names.py",
    "own-method.md": "tests/training/test_own_method.py",
}


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def lines_of(text: str) -> list[str]:
    return [re.split(r"\s+#\s|\s+\(", line)[0].strip() for line in TYPED.findall(text)]


def every_line() -> list[tuple[str, str]]:
    """(page, line) of all commands in blocks, and of the examples in the help of the commands."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        typed = "\n".join([*blocks(page, "bash"), *re.findall(r"(?:^ {4}\S.*\n)+", text, re.MULTILINE)])
        found += [(page.name, line) for line in lines_of(typed)]
    for name, command in commands(typer.main.get_command(app), "ltgcd"):
        examples = re.sub(r"^\s+", "", command.help or "", flags=re.MULTILINE)
        found += [(f"{name} --help", line) for line in lines_of(examples)]
    return found


def commands(command: Any, name: str) -> list[tuple[str, Any]]:
    below = [one for part, it in getattr(command, "commands", {}).items() for one in commands(it, f"{name} {part}")]
    return [(name, command), *below]


def check(line: str) -> None:
    """Parse a line as the command would, options, types and number of arguments, and run nothing."""
    words, command, name = shlex.split(line)[1:], typer.main.get_command(app), "ltgcd"
    if "--version" in words or "--help" in words:
        return
    while hasattr(command, "commands") and words and words[0] in command.commands:
        command, name, words = command.commands[words[0]], words[0], words[1:]
    assert name != "ltgcd", f"there is no such command: {line}"
    command.make_context(name, list(words))


def test_there_are_many_lines() -> None:
    assert len(every_line()) > 80


@pytest.mark.parametrize(("page", "line"), sorted({*every_line()}))
def test_a_line_is_a_command_with_options_that_exist(page: str, line: str) -> None:
    try:
        check(line)
    except Exception as error:  # Typer brings a click of its own in some versions
        said = error.format_message() if hasattr(error, "format_message") else repr(error)
        pytest.fail(f"{page}: {line}: {said}")


@pytest.mark.parametrize("line", ["ltgcd discoverr x", "ltgcd discover x --nope", "ltgcd export run --format csv"])
def test_a_wrong_line_would_be_found(line: str) -> None:
    with pytest.raises(Exception) as found:
        check(line)
    assert isinstance(found.value, AssertionError) or hasattr(found.value, "format_message")


# ---------------------------------------------------------------- Python


def vectors_of(n: int) -> np.ndarray:
    return (np.eye(4, 16)[np.arange(n) % 4] * 6 + np.random.RandomState(0).randn(n, 16)).astype(np.float32)


def labels_of(n: int) -> list[str | None]:
    return [["ant", "bee"][i % 4] if i % 4 < 2 and i < n // 2 else None for i in range(n)]


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **parts: Any) -> None:
    """A module that tests do without: 100 MB, or weights from the network."""
    module = types.ModuleType(name)
    for part, value in parts.items():
        setattr(module, part, value)
    monkeypatch.setitem(sys.modules, name, module)


class Encoder:
    """What a SentenceTransformer is used for: `encode` takes texts or images and gives an array."""

    def __init__(self, name: str) -> None:
        assert name in ("clip-ViT-B-32", "paraphrase-multilingual-MiniLM-L12-v2")

    def encode(self, inputs: list[Any], batch_size: int = 32) -> np.ndarray:
        assert all(isinstance(one, str | Image.Image) for one in inputs)
        return vectors_of(len(inputs))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if page.name in ELSEWHERE:
        assert page.name in (ROOT / ELSEWHERE[page.name]).read_text()
        return
    space: dict[str, Any] = {}
    if page.name == "embeddings.md":
        import torch

        paths = [tmp_path / f"{row}.png" for row in range(80)]
        for path in paths:
            Image.new("RGB", (8, 8)).save(path)
        data = types.SimpleNamespace(
            resolve_model_data_config=lambda net: {"input_size": (3, 8, 8)},
            create_transform=lambda input_size, is_training: lambda image: torch.zeros(input_size),
        )
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 16))
        stand_in(monkeypatch, "sentence_transformers", SentenceTransformer=Encoder)
        stand_in(monkeypatch, "timm", create_model=lambda *_, pretrained, num_classes: net, data=data)
        space = {"vectors": vectors_of(80), "labels": labels_of(80), "paths": paths, "texts": ["a"] * 80}
    elif page.name == "walkthrough.md":
        space = {"embeddings": vectors_of(8), "labels": [0, 1, -1, -1] * 2, "names": list("abcdefgh")}
    elif page.name == "review.md":
        import pandas

        import ltgcd

        ids = ["img-0012.png", "img-0044.png", *(f"img-{row}.png" for row in range(78))]
        x = pandas.DataFrame(np.concatenate([vectors_of(80), np.zeros((80, 1))], axis=1), index=ids)
        model = ltgcd.CategoryDiscovery(n_classes=5, rehearsals=0, epochs=2).fit(x, labels_of(80))
        space = {"model": model, "pandas": pandas}
    elif page.name == "export.md":

        class Dataset:
            @classmethod
            def from_dir(cls, folder: str, kind: str) -> Dataset:
                return cls()

            def export(self, **_: Any) -> None: ...

        names = ("FiftyOneImageClassificationDataset", "COCODetectionDataset", "ImageClassificationDirectoryTree")
        kinds = types.SimpleNamespace(**{name: name for name in names})
        stand_in(monkeypatch, "fiftyone", Dataset=Dataset, types=kinds)  # the real one: `make test-clients`
    else:
        pytest.fail(f"say here what {page.name} needs, so that its Python can be run")
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), space)  # our own pages
    if page.name == "embeddings.md":
        assert (tmp_path / "page.html").is_file()
        assert np.load("mine.npz")["y"].tolist()[:4] == [0, 1, -1, -1]
        assert space["vectors"].shape == (80, 16)
    if page.name == "review.md":
        assert space["model"].refinement_["refused"] == []


# ---------------------------------------------------------------- the quick start, as it stands


def test_the_quick_start_works_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands on made-up photos; the page of a review is opened by the tests of the server."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.RandomState(0)
    for kind, name in enumerate(["copepod", "diatom", "unlabelled", "unlabelled"]):
        for number in range(12):
            folders = [name, "unlabelled"] if kind < 2 else [name]
            for folder in folders:
                path = Path("photos", folder, f"{kind}-{number}-{folder[0]}.png")
                path.parent.mkdir(parents=True, exist_ok=True)
                stripes = np.zeros((24, 24, 3))
                stripes[:, :: kind + 2] = np.eye(4, 3)[kind] * 200 + 50
                Image.fromarray((stripes + rng.randint(0, 30, stripes.shape)).clip(0, 255).astype(np.uint8)).save(path)
    Path("november").mkdir()
    Image.new("RGB", (24, 24), "white").save("november/new.png")
    ran = []
    for line in lines_of("\n".join(blocks(ROOT / "docs" / "quickstart.md", "bash"))):
        words = shlex.split(line)[1:]
        if words[0] == "review":
            continue
        done = CliRunner(env=WIDE).invoke(app, words)
        assert done.exit_code == 0, f"{line}: {done.output}"
        ran.append(words[0])
    assert ran == ["doctor", "inspect", "discover", "refine", "export", "export", "update"]
    assert Path("run/report.html").is_file()
    assert Path("run/assignments.parquet").is_file()
    assert Path("labels.csv").read_text().startswith('"id","label"')
    assert Path("sorted/copepod").is_dir()
