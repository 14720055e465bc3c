"""Shards in this process and in workers: all done once, nothing lost, whoever dies or stops when."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import errands
import pytest
import torch

import ltgcd.common.engine.shards as engine
from ltgcd.common.engine.shards import in_processes, map_shards, processes_that_pay
from ltgcd.common.engine.threads import available_cores
from ltgcd.common.errors import InputError


class Heard:
    def __init__(self) -> None:
        self.items = 0
        self.sentences: list[str] = []

    def advance(self, items: int) -> None:
        self.items += items


def run(prepare: Callable[[], Callable], n: int = 6, workers: int | None = 2) -> Heard:
    heard = Heard()
    map_shards(prepare, iter(range(n)), 2 * n, workers=workers, advance=heard.advance, notify=heard.sentences.append)
    return heard


def done(folder: Path) -> dict[int, tuple[int, str]]:
    """Process and threads of each finished shard."""
    found = {}
    for path in folder.glob("done-*"):
        process, threads = path.read_text().split()
        found[int(path.name.removeprefix("done-"))] = (int(process), threads)
    return found


def left_behind(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def is_running(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def prepared(folder: Path) -> list[int]:
    return [int(path.name.rpartition("-")[2]) for path in folder.glob("prepared-by-*")]


def test_workers_do_every_shard_once_in_one_thread_each(tmp_path: Path) -> None:
    heard = run(partial(errands.make, tmp_path))
    made = done(tmp_path)
    assert sorted(made) == list(range(6))
    assert heard.items == 12
    assert os.getpid() not in prepared(tmp_path)
    assert {threads for _, threads in made.values()} == {"1"}
    assert not any(is_running(process) for process in prepared(tmp_path))
    assert heard.sentences == ["2 worker processes, of one thread each, share the work"]


@pytest.mark.parametrize("workers", [1, None])
def test_a_little_work_is_done_here_in_one_thread(tmp_path: Path, workers: int | None) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        threads = []

        def prepare() -> Callable[[int, errands.Advance], None]:
            def work(shard: int, advance: errands.Advance) -> None:
                threads.append(torch.get_num_threads())
                errands.errand(tmp_path, "", shard, advance)

            return work

        heard = run(prepare, workers=workers)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert threads == [1] * 6
    assert heard.items == 12
    assert {process for process, _ in done(tmp_path).values()} == {os.getpid()}
    assert heard.sentences == []


def test_by_default_workers_come_where_the_rest_would_take_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "available_cores", lambda: 2)
    # 6 s to start: 12 s of work take two workers just as long, and one more pays.
    assert [engine._workers_that_pay(seconds) for seconds in (0.0, 11.9, 12.1, 1e6)] == [1, 1, 2, 2]
    monkeypatch.setattr(engine, "available_cores", lambda: 1)
    assert engine._workers_that_pay(1e6) == 1
    monkeypatch.setattr(engine, "available_cores", lambda: 8)
    assert [engine._workers_that_pay(seconds) for seconds in (6.8, 6.9)] == [1, 8]
    monkeypatch.setattr(engine, "available_cores", lambda: 2)
    monkeypatch.setattr(engine, "START_SECONDS", 0.0)
    monkeypatch.setattr(engine, "SAID_SECONDS", 0.0)
    heard = run(partial(errands.make, tmp_path), workers=None)
    made = done(tmp_path)
    assert made.pop(0)[0] == os.getpid()
    assert os.getpid() not in {process for process, _ in made.values()}
    assert (sorted(made), heard.items) == ([1, 2, 3, 4, 5], 12)
    assert heard.sentences[0] == "the 10 others will take about 0 s"


def test_no_more_workers_than_a_container_has_time_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(64)))
    for quota, cores in (("max 100000", 64), ("250000 100000", 2), ("50000 100000", 1), ("nonsense", 64)):
        limit = tmp_path / f"cpu.max {quota}"  # a name of its own: a file is read once
        limit.write_text(quota)
        monkeypatch.setattr("ltgcd.common.engine.threads._QUOTA", limit)
        assert available_cores() == cores


def test_an_error_in_a_worker_is_raised_here(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^The third is broken\.$"):
        run(partial(errands.make, tmp_path, "input"))
    with pytest.raises(ZeroDivisionError, match="a bug") as caught:
        run(partial(errands.make, tmp_path, "bug"))
    assert "errands.py" in str(caught.value.__cause__)
    assert len({0, 1, 2} & set(done(tmp_path))) >= 2  # the other worker may have been at one of them
    assert not any(is_running(process) for process in prepared(tmp_path))


def test_a_worker_that_dies_is_told_of_and_its_shard_is_done_by_another(tmp_path: Path) -> None:
    heard = run(partial(errands.make, tmp_path, "die once"))
    assert sorted(done(tmp_path)) == list(range(6))
    assert heard.items == 12  # the item that it had reported is counted once
    assert heard.sentences[1:] == [
        "a worker process was killed (SIGKILL, maybe because memory ran out); what is finished is kept, and the rest "
        "goes on with 1"
    ]


def test_a_shard_that_nobody_survives_ends_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^2 worker processes died over the same part .* --workers 1\.$"):
        run(partial(errands.make, tmp_path, "die always"), workers=3)
    assert len({0, 1, 2} & set(done(tmp_path))) >= 1
    with pytest.raises(InputError, match=r"^The last worker process was killed .* fewer --workers\.$"):
        run(partial(errands.make, tmp_path, "die always"), workers=2)


@pytest.mark.parametrize("kind", ["local", "elsewhere"])
def test_what_can_not_be_sent_is_done_here(tmp_path: Path, kind: str) -> None:
    def prepare() -> Callable[[int, errands.Advance], None]:
        return errands.make(tmp_path)

    heard = run(prepare if kind == "local" else errands.OnlyHere(tmp_path, os.getpid()))
    assert {process for process, _ in done(tmp_path).values()} == {os.getpid()}
    assert (len(done(tmp_path)), heard.items) == (6, 12)
    assert re.fullmatch(r"worker processes can't be given this \(.+\); one process does it alone", heard.sentences[-1])


def test_what_a_worker_prints_goes_to_stderr_and_its_warnings_are_ours(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.warns(UserWarning, match="odd") as caught:
        heard = run(partial(errands.make, tmp_path, "talk"))
    assert {str(warning.message) for warning in caught} == {f"odd {shard}" for shard in range(6)}
    assert heard.items == 12
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("written") == 6


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_workers_never_outlive_their_parent_and_leave_nothing_half_written(tmp_path: Path, how: signal.Signals) -> None:
    """A script that has no ``if __name__ == "__main__"``, stopped while both workers are writing."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, errands; from functools import partial; from pathlib import Path\n"
        "from ltgcd.common.engine.shards import map_shards\n"
        "map_shards(partial(errands.make, Path(sys.argv[1]), 'slow'), iter(range(6)), 12, workers=2)\n"
    )
    folder = tmp_path / "out"
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])}
    parent = subprocess.Popen([sys.executable, script, folder], env=environment, stderr=subprocess.PIPE)
    _wait_for(lambda: len(left_behind(folder)) == 2)
    parent.send_signal(how)
    assert parent.wait(20) != 0
    _wait_for(lambda: not any(is_running(process) for process in prepared(folder)))
    assert len(prepared(folder)) == 2
    assert left_behind(folder) == []
    assert done(folder) == {}


def _wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")


@pytest.mark.parametrize("trouble", ["", "die once"])
def test_results_come_back_in_the_order_of_the_jobs(tmp_path: Path, trouble: str) -> None:
    """Also where the process of one of them has died. A process shows no progress of its own, and uses one core."""
    heard = Heard()
    jobs = [5, 3, 1, 4]
    found = in_processes(partial(errands.square, tmp_path, trouble), jobs, 2, advance=heard.advance)
    assert [result for result, *_ in found] == [25, 9, 1, 16]
    assert all(process != os.getpid() for _, process, *_ in found)
    assert not any(is_shown for _, _, is_shown, _ in found)
    assert {cores for *_, cores in found} == {1}
    assert heard.items == 4


def test_processes_only_where_they_end_sooner() -> None:
    assert processes_that_pay(4, 1000.0, 2) == 2
    assert processes_that_pay(4, 1000.0, 64) == 4, "no more than there are jobs"
    assert processes_that_pay(1, 1000.0, 8) == 1
    assert processes_that_pay(4, engine.START_SECONDS, 4) == 1
    assert processes_that_pay(3, 2.9 * engine.START_SECONDS, 2) == 1, "three jobs take two processes two turns"
    assert processes_that_pay(3, 3.1 * engine.START_SECONDS, 2) == 2
