"""The wheel alone is enough: installed where the checkout is not, the commands work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

from conftest import ROOT, cpu_of_children


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `python -m build --wheel` does, by the build tools that are here instead of fetched ones."""
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.glob("ltgcd-*.whl")
    return path


@pytest.fixture(scope="module")
def command(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment that holds the wheel; what it depends on is read from ours, not fetched again."""
    folder = tmp_path_factory.mktemp("empty") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    # Its own packages come first, and no .pth file of ours is read: the checkout is not on its path.
    (packages / "ours.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")) + "\n")
    python = folder / "bin" / "python"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "bin" / "ltgcd"


def ltgcd(command: Path, *words: str, folder: Path) -> dict:
    done = subprocess.run(
        [command, *words, "--json"], cwd=folder, capture_output=True, text=True, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def test_the_wheel_holds_the_page_the_types_and_the_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        about = archive.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
    static = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/ltgcd/output/report/static").iterdir()}
    assert static <= names
    assert "ltgcd/py.typed" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/ltgcd").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == sources
    assert not [name for name in names if name.startswith(("tests/", "docs/", "benchmarks/"))]
    for extra in ("plot", "review", "text", "vit", "openvino", "ray", "docs"):
        assert f"Provides-Extra: {extra}\n" in about


def test_demo_discover_and_review_run_from_the_wheel(command: Path, tmp_path: Path) -> None:
    where = subprocess.run(
        [command.parent / "python", "-c", "import ltgcd; print(ltgcd.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    ).stdout
    assert where.startswith(str(command.parents[1])), where
    assert str(ROOT / "src") not in where
    before = cpu_of_children()
    result = ltgcd(command, "demo", folder=tmp_path)
    assert cpu_of_children() - before < 60
    assert Path(tmp_path, result["report"]).is_file()

    kind = np.arange(80) % 4
    x = np.eye(4, 8)[kind] * 6 + np.random.RandomState(0).randn(80, 8)
    np.savez(tmp_path / "mine.npz", x=x, y=np.where((kind < 2) & (np.arange(80) < 40), kind, -1))
    result = ltgcd(command, "discover", "mine.npz", "--k", "4", "--out", "run", folder=tmp_path)
    assert (result["k"], result["n_old"]) == (4, 2)

    server = subprocess.Popen(
        [command, "review", "run", "--no-browser", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())  # the key becomes a cookie
        with browser.open(url, timeout=30) as page:
            assert b"start-server.js" in page.read()
    finally:
        server.terminate()
        server.wait(timeout=30)
