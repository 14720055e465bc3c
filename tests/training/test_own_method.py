"""The page on adding a method: its code block is a method that runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from conftest import ROOT, train
from ltgcd.data.digits import digits_source
from ltgcd.training import methods


def test_the_page_shows_a_method_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "own-method.md").read_text(), re.DOTALL)
    names: dict = {}
    exec(block, names)
    monkeypatch.setitem(methods.METHODS, names["METHOD"].name, names["METHOD"])
    source = digits_source()
    changes = {"schedule.epochs": 2}
    mine = train(source, tmp_path / "mine", method="even-simgcd", k=10, changes=changes)
    same = train(source, tmp_path / "same", method="simgcd", k=10, changes={**changes, "entropy_weight": 4.0})
    assert mine["method"] == "even-simgcd"
    assert mine["balanced_acc"] == same["balanced_acc"]


def test_its_own_losses_are_what_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    from ltgcd.training.fit import fit_model
    from ltgcd.training.methods import simgcd
    from ltgcd.training.problem import Problem

    def build(*_arguments: object) -> None:
        raise RuntimeError("my own code")

    mine = dataclasses.replace(simgcd.METHOD, name="mine", build=build)
    monkeypatch.setitem(methods.METHODS, "mine", mine)
    x = np.random.RandomState(0).randn(30, 4).astype(np.float32)
    with pytest.raises(RuntimeError, match="my own code"):
        fit_model(Problem(x, np.where(np.arange(30) < 10, np.arange(30) % 2, -1), 2, 3), mine.preset("frozen"))
