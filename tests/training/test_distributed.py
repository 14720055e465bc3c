"""Which process this is: only a whole torchrun environment counts, and a stray variable silences nothing."""

from __future__ import annotations

import pytest

from ltgcd.common.processes import is_first_process, rank_and_size
from ltgcd.training.distributed import World, join_world

WHOLE = {"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1"}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in WHOLE:
        monkeypatch.delenv(name, raising=False)


def test_torchrun_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in WHOLE.items():
        monkeypatch.setenv(name, value)
    assert rank_and_size() == (3, 4)
    assert not is_first_process()
    monkeypatch.setenv("RANK", "0")
    assert is_first_process()


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"RANK": "3"},
        {"RANK": "3", "WORLD_SIZE": "4"},
        {"RANK": "3", "MASTER_ADDR": "127.0.0.1"},
        {"WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1"},
        {**WHOLE, "RANK": "first"},
        {**WHOLE, "WORLD_SIZE": ""},
        {**WHOLE, "RANK": "7"},
    ],
)
def test_anything_less_is_one_process(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert is_first_process()
    assert join_world() == World()
