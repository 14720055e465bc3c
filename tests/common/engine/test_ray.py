"""Shards on Ray: three nodes on this machine, an actor that dies, a driver that is killed and started again."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import errands
import numpy as np
import pyarrow.parquet as pq
import pytest

from ltgcd.common.engine import ray_cluster, ray_together, shards
from ltgcd.common.engine.ray_together import run_together
from ltgcd.common.engine.rows import Sharing, by_rows, on_cluster, shared
from ltgcd.common.engine.shards import map_shards
from ltgcd.common.errors import InputError
from ltgcd.data.collection import Collection, Source
from ltgcd.data.items import Vectors
from ltgcd.discovery import labelling
from ltgcd.discovery.labelling import said_of
from ltgcd.features.backbones import load_backbone
from ltgcd.features.embed import embed
from ltgcd.features.views import VectorViews
from ltgcd.graph import knn
from ltgcd.graph.knn import knn_graph
from ltgcd.run.directory import Run
from ltgcd.run.discover import Embedding, discover_source
from ltgcd.run.predict import predict_source
from ltgcd.training.config import changed
from ltgcd.training.fit import fit_model
from ltgcd.training.methods import METHODS
from ltgcd.training.model import FittedModel
from ltgcd.training.problem import Problem

HERE = str(Path(__file__).parent)
LOOPBACK = "127.0.0.2"  # Ray takes 127.0.0.1 in an address for the outer one of the machine


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[str]:
    """A cluster of three nodes of one core each; its address."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    before = dict(os.environ)
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "PYTHONPATH": os.pathsep.join([HERE, *sys.path]),
    }
    node = {"num_cpus": 1, "node_ip_address": LOOPBACK, "object_store_memory": 80 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(**node)
    ray.init(address=cluster.address, log_to_driver=False, configure_logging=False, _node_ip_address=LOOPBACK)
    yield cluster.address
    ray.shutdown()
    cluster.shutdown()
    os.environ.clear()
    os.environ |= before


def finished(folder: Path) -> dict[int, int]:
    """Process that did each finished shard."""
    return {int(p.name.removeprefix("done-")): int(p.read_text().split()[0]) for p in folder.glob("done-*")}


def on_ray(folder: Path, trouble: str = "", n: int = 9, workers: int | None = None) -> tuple[int, list[str]]:
    items, sentences = [], []
    map_shards(
        partial(errands.make, folder, trouble),
        iter(range(n)),
        2 * n,
        cluster="auto",
        workers=workers,
        advance=items.append,
        notify=sentences.append,
    )
    return sum(items), sentences


def test_shards_are_shared_by_the_nodes(three_nodes: str, tmp_path: Path) -> None:
    items, sentences = on_ray(tmp_path)
    assert items == 18
    assert sentences == ["3 Ray actors, of one thread each, share the work"]
    assert set(finished(tmp_path)) == set(range(9))
    assert os.getpid() not in finished(tmp_path).values()


def test_an_actor_that_is_killed_loses_nothing(three_nodes: str, tmp_path: Path) -> None:
    items, sentences = on_ray(tmp_path, "die once")
    assert items == 18
    assert set(finished(tmp_path)) == set(range(9))
    assert sum("died" in sentence for sentence in sentences) == 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_what_goes_wrong_is_told_as_it_is_in_one_process(three_nodes: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="The third is broken"):
        on_ray(tmp_path, "input", workers=1)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        on_ray(tmp_path, "bug", workers=1)
    with pytest.raises(InputError, match="2 actors died over the same part"):
        on_ray(tmp_path, "die always", workers=1)


def test_engines_agree_to_the_last_bit_and_go_on_with_each_other(three_nodes: str, tmp_path: Path) -> None:
    """60,000 vectors by one process, by two, by Ray, and by Ray after one process was stopped half-way."""
    x = np.random.RandomState(0).randn(60_000, 16).astype(np.float32)
    source = Source(_collection(x), None)
    trunk = load_backbone("embeddings", dim=16)
    found = {}
    for name, how in {"one": {"workers": 1}, "two": {"workers": 2}, "ray": {"cluster": "auto"}}.items():
        found[name] = embed(source, trunk, tmp_path / name, **how)
    first = found["one"].source.collection.items
    for path in (tmp_path / "one").glob("shard-*[13579].*"):
        path.unlink()
    again = embed(source, trunk, tmp_path / "one", cluster="auto", workers=1)
    assert 0 < again.embedded < 60_000
    assert isinstance(first, Vectors)
    for other in (found["two"], found["ray"], again):
        assert isinstance(other.source.collection.items, Vectors)
        assert np.array_equal(first.x, other.source.collection.items.x)


@pytest.mark.parametrize(("n", "exact"), [(8000, True), (20_000, False)])
def test_neighbours_found_on_three_nodes_are_those_of_one_process(
    three_nodes: str, tmp_path: Path, n: int, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All pairs of 8,000 vectors, and the cells of 20,000, in blocks of 2,048: by one process, by Ray, by two."""
    monkeypatch.setattr(knn, "QUERIES", 2048)
    random = np.random.RandomState(0)
    x = random.randn(300, 32)[random.randint(300, size=n)] + random.randn(n, 32)
    alone = knn_graph(x, 10, exact=exact)
    found = {}
    with on_cluster("auto", tmp_path / "ray", lambda _sentence: None):
        found["ray"] = knn_graph(x, 10, exact=exact)
    assert not (tmp_path / "ray").exists()
    with shared(Sharing(tmp_path / "two", workers=2)):
        found["two"] = knn_graph(x, 10, exact=exact)
    for graph in found.values():
        assert graph.exact is exact
        np.testing.assert_array_equal(graph.indices, alone.indices)
        np.testing.assert_array_equal(graph.similarities, alone.similarities)


def test_rows_of_an_actor_that_is_killed_are_done_by_another(three_nodes: str, tmp_path: Path) -> None:
    x, sentences = np.random.RandomState(0).randn(64, 3), []
    with on_cluster("auto", tmp_path / "ray", sentences.append):
        found = [sums for _, (sums, _) in by_rows(partial(errands.sums, tmp_path, "die"), {"x": x}, 64, 8, "summing")]
    np.testing.assert_array_equal(np.concatenate(found), x.sum(axis=1))
    assert sum("died" in sentence for sentence in sentences) == 1


def test_a_discovery_on_a_cluster_is_that_of_one_process(
    three_nodes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels, confidences and the number of classes to the last bit, and those of new items."""
    monkeypatch.setattr(knn, "QUERIES", 256)
    monkeypatch.setattr(labelling, "LABELLED", 256)
    random = np.random.RandomState(0)
    true = random.randint(6, size=1200)
    x = (3 * np.eye(6, 12)[true] + random.randn(1200, 12)).astype(np.float32)
    y = np.where((true < 4) & (random.rand(1200) < 0.5), true, -1)
    held = _collection(x)
    source = Source(Collection(held.ids, held.items, y, ("a", "b", "c", "d")), None)
    tables, new = {}, {}
    for cluster in (None, "auto"):
        folder = tmp_path / str(cluster)
        said: list[str] = []
        discover_source(source, folder, rehearsals=0, embedding=Embedding(cluster=cluster), notify=said.append)
        assert any("Ray actors" in sentence for sentence in said) is (cluster is not None)
        run = Run(folder)
        tables[cluster] = run.assignments()
        assert not (folder / "shared").exists()
        predict_source(run, _unlabelled(x[:700] + 0.1), tmp_path / f"{cluster}.parquet", cluster=cluster)
        new[cluster] = pq.read_table(tmp_path / f"{cluster}.parquet")
    assert tables["auto"].equals(tables[None])
    assert new["auto"].equals(new[None])


def embedded(folder: Path, cluster: str | None, notify: Callable[[str], None]) -> list[np.ndarray]:
    x = np.random.RandomState(0).randn(3000, 16).astype(np.float32)
    done = embed(_unlabelled(x), load_backbone("embeddings", dim=16), folder, cluster=cluster, notify=notify)
    assert isinstance(done.source.collection.items, Vectors)
    return [done.source.collection.items.x]


def neighbours(exact: bool, folder: Path, cluster: str | None, notify: Callable[[str], None]) -> list[np.ndarray]:
    random = np.random.RandomState(0)
    x = np.repeat(random.randn(40, 24), 150, axis=0) + 0.5 * random.randn(6000, 24)
    with on_cluster(cluster, folder, notify):
        graph = knn_graph(x, 10, exact=exact)
    assert graph.exact is exact
    return [graph.indices, graph.similarities]


def labelled(folder: Path, cluster: str | None, notify: Callable[[str], None]) -> list[np.ndarray]:
    x = np.random.RandomState(0).randn(1500, 12).astype(np.float32)
    with on_cluster(cluster, folder, notify):
        return list(said_of(small_model(), VectorViews(x)))


@cache
def small_model() -> FittedModel:
    true = np.repeat(np.arange(4), 30)
    x = (3 * np.eye(4, 12)[true] + np.random.RandomState(0).randn(120, 12)).astype(np.float32)
    problem = Problem(x, np.where((true < 2) & (np.arange(120) % 2 == 0), true, -1), 2, 4, 0)
    experiment = changed(METHODS["ltgcd"].preset("frozen"), {"schedule.epochs": 1})
    return fit_model(problem, experiment).fitted


@pytest.mark.parametrize(
    ("stage", "moment"),
    [
        (embedded, "advance"),
        (partial(neighbours, True), "advance"),
        (partial(neighbours, False), "begin"),
        (labelled, "begin"),
    ],
    ids=["embedding", "neighbours among all pairs", "neighbours in cells", "labelling"],
)
def test_an_actor_killed_in_a_real_stage_changes_no_bit(
    three_nodes: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stage: Callable[[Path, str | None, Callable[[str], None]], list[np.ndarray]],
    moment: str,
) -> None:
    """In the middle of its work, before the first of it, or when all but the message is done."""
    monkeypatch.setattr(knn, "QUERIES", 1024)
    monkeypatch.setattr(labelling, "LABELLED", 256)
    alone = stage(tmp_path / "alone", None, lambda _sentence: None)
    run, marker = shards.run_on_ray, tmp_path / "died"
    monkeypatch.setattr(
        shards,
        "run_on_ray",  # with one actor, and the one that comes after it
        lambda prepare, parts, cluster, _workers, *rest: run(
            partial(errands.killed_once, prepare, marker, moment), parts, cluster, 1, *rest
        ),
    )
    sentences: list[str] = []
    found = stage(tmp_path / "ray", "auto", sentences.append)
    assert marker.exists()
    assert sum("a Ray actor died" in sentence for sentence in sentences) == 1
    for a, b in zip(found, alone, strict=True):
        np.testing.assert_array_equal(a, b)


def _unlabelled(x: np.ndarray) -> Source:
    return Source(_collection(x), None)


def _collection(x: np.ndarray) -> Collection:
    import pyarrow as pa

    ids = pa.array([f"i{i}" for i in range(len(x))])
    return Collection(ids, Vectors(x), np.full(len(x), -1, dtype=np.int64), ())


DRIVER = """
import sys
from functools import partial
from pathlib import Path
import ray
import errands
from ltgcd.common.engine.shards import map_shards
ray.init(address=sys.argv[2], log_to_driver=False, configure_logging=False, _node_ip_address="127.0.0.2")
folder = Path(sys.argv[1])
left = [n for n in range(9) if not (folder / f"done-{n}").exists()]
map_shards(partial(errands.make, folder, sys.argv[3]), iter(left), 2 * len(left), cluster="auto")
"""


def test_a_driver_that_is_killed_is_started_again(three_nodes: str, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    (tmp_path / "done-0").write_text("1 1")
    driver = [sys.executable, "-c", DRIVER, str(tmp_path), three_nodes]
    process = subprocess.Popen([*driver, "slow"], stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not list(tmp_path.glob("prepared-by-*")) and time.monotonic() < until:
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while ray.available_resources().get("CPU", 0) < 3 and time.monotonic() < until:
        time.sleep(0.2)  # its actors end with it
    assert set(finished(tmp_path)) == {0}
    subprocess.run([*driver, ""], check=True, timeout=120)
    assert set(finished(tmp_path)) == set(range(9))
    assert finished(tmp_path)[0] == 1  # and what was there has been left alone


def test_more_that_train_together_than_there_are_cores_are_refused(three_nodes: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has 3 cores, but --workers 4"):
        run_together(errands.refuse, "auto", 4, tmp_path / "shared", 60, lambda _sentence: None)
    assert not (tmp_path / "shared").exists()


def test_what_two_refuse_that_compute_together_is_refused_once(three_nodes: str, tmp_path: Path) -> None:
    """Through the cluster; nothing is left behind."""
    said: list[str] = []
    with pytest.raises(InputError, match=r"^Both refuse this\.$"):
        run_together(errands.refuse, "auto", 2, tmp_path / "shared", 60, said.append)
    assert said == ["2 processes of the cluster train together"]
    assert not list((tmp_path / "shared").iterdir())


def test_a_bug_in_one_that_computes_with_others_is_told_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # which is set for good in a process of its own
    heard: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    (tmp_path / ray_together.CALL).write_bytes(pickle.dumps(errands.bug))
    with pytest.raises(ZeroDivisionError):
        ray_together._work(tmp_path, str(Path.cwd()), heard)
    assert heard.get() == ("sentence", "half a line, and the rest")
    told = ray_together._Told(lambda _sentence: None)
    told.hear([heard.get()])
    with pytest.raises(ZeroDivisionError, match="a bug") as caught:
        told.raise_error()
    assert "errands.py" in str(caught.value.__cause__)


def test_what_is_no_cluster_is_said_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="'dask' is no cluster"):
        ray_cluster.check_cluster("dask")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'ltgcd\[ray\]'"):
        ray_cluster.check_cluster("ray")
