"""A page sends edits without pause, and the server is killed at random moments: is everything kept that it was told?

    python -m tests.review.server.kills --kills 50 --seed 0

After each kill the server is started again, and the page sends once more, under the same key, what it had no answer to.
Then all labels must be those of a plain list of what was sent, each action once, and undo must give the states before.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.review.server.synthetic import make_run

from ltgcd.review.server.serve import open_server

N, K = 240, 8


class Server:
    """A real server in a process of its own, and one page that talks to it.

    By default the process is a fork of this one, which has imported everything: it starts in a moment. With `command`
    it is what a person types.
    """

    def __init__(self, run: Path, *, command: bool = False) -> None:
        self.process = _Command(run) if command else _Fork(run)
        self.told: dict[str, str] = json.loads(self.process.line)
        self.port = int(self.told["url"].split(":")[2].split("/")[0])
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)  # kept, as a browser does

    def ask(self, method: str, path: str, told: Any = None) -> tuple[int, Any]:
        connection = self.connection
        headers = {"Cookie": f"ltgcd-{self.port}={self.told['token']}"}
        if method == "POST":
            headers |= {"Content-Type": "application/json", "X-Ltgcd": "1", "Origin": f"http://127.0.0.1:{self.port}"}
        connection.request(method, path, None if told is None else json.dumps(told), headers)
        answer = connection.getresponse()
        body = answer.read()
        return answer.status, body if path == "/api/items" else json.loads(body)

    def labels(self) -> list[tuple[int, bool]]:
        """Class of each item, and whether it was taken out."""
        _status, block = self.ask("GET", "/api/items")
        code = np.frombuffer(block, "<i4", N, 8 + 8 * N)
        status = np.frombuffer(block, "u1", N, 8 + 12 * N)
        return list(zip(code.tolist(), (status == 3).tolist(), strict=True))

    def stop(self, number: int = signal.SIGKILL) -> int:
        self.connection.close()
        self.process.send_signal(number)
        return self.process.wait()


class _Command:
    def __init__(self, run: Path) -> None:
        command = [sys.executable, "-m", "ltgcd", "review", str(run), "--no-browser", "--port", "0", "--json"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.line = self._process.stdout.readline()
        self.send_signal = self._process.send_signal

    def wait(self) -> int:
        self.out, self.err = self._process.communicate(timeout=60)
        return self._process.returncode


class _Fork:
    def __init__(self, run: Path) -> None:
        reads, writes = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            try:
                server = open_server(run, port=0)
                os.write(writes, json.dumps({"url": server.url, "token": server.access.token}).encode())
                os.close(writes)
                server.serve()
            finally:
                os._exit(0)
        os.close(writes)
        with os.fdopen(reads) as told:
            self.line = told.read()

    def send_signal(self, number: int) -> None:
        os.kill(self._pid, number)

    def wait(self) -> int:
        return os.waitpid(self._pid, 0)[1]


def some_action(random: np.random.RandomState) -> dict[str, Any]:
    rows = random.choice(N, random.randint(1, 12), replace=False).tolist()
    return (
        {"op": "junk", "rows": rows}
        if random.rand() < 0.2
        else {"op": "assign", "rows": rows, "code": int(random.randint(K))}
    )


def applied(labels: list[tuple[int, bool]], event: dict[str, Any]) -> list[tuple[int, bool]]:
    """What an action should come to, by a plain loop."""
    after = list(labels)
    for row in event["rows"]:
        after[row] = (event.get("code", after[row][0]), event["op"] == "junk")
    return after


def trial(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill a server `kills` times; an error if anything was lost, done twice or mixed up."""
    random = np.random.RandomState(seed)
    make_run(folder, n=N, k=K)
    server = Server(folder)
    states = [server.labels()]  # after each action, the first before any
    waiting: dict[str, Any] | None = None  # sent, and not answered
    sent = lost_answers = kept_without_answer = 0
    between = []  # edits that were acknowledged before each kill
    for _kill in range(kills):
        kill_at, acknowledged, slowest = int(random.randint(5, 41)), 0, 0.01
        killing = threading.Thread()
        version = server.ask("GET", "/api/state")[1]["version"]
        try:
            while True:
                if acknowledged == kill_at:  # at any moment of the next two edits or so
                    delay = float(random.uniform(0.0, 2 * slowest))
                    killing = threading.Timer(delay, server.process.send_signal, (signal.SIGKILL,))
                    killing.start()
                event = some_action(random)
                waiting = {"events": [event], "version": version, "key": f"{seed}-{sent}"}
                sent += 1
                began = time.perf_counter()
                status, answer = server.ask("POST", "/api/act", waiting)
                assert status == 200
                slowest = max(slowest, time.perf_counter() - began)
                version = answer["version"]
                states.append(applied(states[-1], event))
                waiting = None
                acknowledged += 1
        except (OSError, http.client.HTTPException):
            killing.join()
            server.process.wait()
            server.connection.close()
            between.append(acknowledged)
        server = Server(folder)
        if waiting is not None:
            lost_answers += 1
            kept_without_answer += server.ask("GET", "/api/state")[1]["version"] > waiting["version"]
            for _twice in range(2):  # a page may even send it once more
                status, _answer = server.ask("POST", "/api/act", waiting)
                assert status == 200, _answer
            states.append(applied(states[-1], waiting["events"][0]))
            waiting = None
        assert server.labels() == states[-1], "labels after a kill are not those of what was sent"
        steps = server.ask("GET", "/api/history?limit=10000")[1]
        assert sum(step["active"] for step in steps) == len(states) - 1, "an action is lost, or there twice"
        back = int(random.randint(0, min(4, len(states))))
        for _undo in range(back):
            version = server.ask("GET", "/api/state")[1]["version"]
            assert server.ask("POST", "/api/undo", {"version": version, "key": f"u{seed}-{time.time()}"})[0] == 200
            states.pop()
            assert server.labels() == states[-1], "undo after a kill does not give the state before"
    server.stop()
    return {
        "kills": kills,
        "sent": sent,
        "acknowledged between kills": round(float(np.mean(between)), 1),
        "without an answer": lost_answers,
        "of these kept": kept_without_answer,
        "lost": 0,
        "twice": 0,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as place:
        print(trial(Path(place) / "run", asked.kills, asked.seed))
