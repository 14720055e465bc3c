"""What README and docs tell people to type works as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import ROOT


def test_the_python_of_the_readme_runs_as_it_is(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 1
    done = subprocess.run(
        [sys.executable, "-c", blocks[0]], cwd=tmp_path, capture_output=True, text=True, env=os.environ, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "['ant' 'bee' 'novel-001' 'novel-002']" in done.stdout
    assert (tmp_path / "page.html").is_file()


def test_every_command_that_is_named_exists() -> None:
    from ltgcd.cli import app

    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    commands |= {group.name for group in app.registered_groups}
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        named = set(re.findall(r"^ltgcd ([a-z-]+)", page.read_text(), re.MULTILINE))
        assert named <= {name.replace("_", "-").removesuffix("-page") for name in commands}, page


def test_the_readme_says_how_the_command_gets_on_the_path() -> None:
    before_first_use = (ROOT / "README.md").read_text().partition("\nltgcd discover")[0]
    assert "source .venv/bin/activate" in before_first_use
