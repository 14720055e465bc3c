from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the server needs ltgcd[review]")

from tests.review.server.client import Client, open_client
from tests.review.server.synthetic import make_run


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    make_run(tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def client(run_folder: Path) -> Iterator[Client]:
    client = open_client(run_folder)
    yield client
    client.session.close()
