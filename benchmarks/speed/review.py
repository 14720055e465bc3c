"""Speed of the server of ``ltgcd review`` over HTTP, as a page sees it: 100,000 items × 64 numbers, 200 classes.

    python benchmarks/speed/review.py                        # 100,000 items
    python benchmarks/speed/review.py --n 1000000 --d 32     # "usable" with a million

The first state is timed from the first look at the run directory; the others are the median and the slowest of ten,
from the request to the last byte of the answer, and the CPU time of page and server together, which other work on the
machine does not change much. Every edit is on the disk before it is answered.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.server.synthetic import make_run

from ltgcd.server.serve import open_server

TIMES = 10


class Page:
    """A page that keeps its connection, as a browser does."""

    def __init__(self, port: int, token: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.headers = {"Cookie": f"ltgcd-{port}={token}", "Origin": f"http://127.0.0.1:{port}"}
        self.headers |= {"Content-Type": "application/json", "X-Ltgcd": "1"}
        self.version = 0

    def ask(self, path: str, **told: Any) -> bytes:
        body = json.dumps({**told, "version": self.version}) if told else None
        self.connection.request("POST" if told else "GET", path, body, self.headers)
        answer = self.connection.getresponse()
        found = answer.read()
        assert answer.status == 200, (path, answer.status, found[:200])
        if told:
            self.version = json.loads(found)["version"]
        return found


def timed(name: str, call: Any) -> None:
    taken, busy, sizes = [], [], []
    for number in range(TIMES):
        started, cpu = time.perf_counter(), time.process_time()
        sizes.append(len(call(number)))
        taken.append(1000 * (time.perf_counter() - started))
        busy.append(1000 * (time.process_time() - cpu))
    figures = f"{np.median(taken):9.1f}{max(taken):11.1f}{np.median(busy):8.1f}{np.median(sizes) / 1000:10.1f}"
    print(f"{name:34}{figures}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--d", type=int, default=64)
    parser.add_argument("--classes", type=int, default=200)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        make_run(run, asked.n, asked.d, asked.classes, asked.classes // 2)
        started, cpu = time.perf_counter(), time.process_time()
        server = open_server(run, port=0)
        threading.Thread(target=server.serve, daemon=True).start()
        page = Page(server.access.port, server.access.token)
        state = json.loads(page.ask("/api/state"))
        wall, busy = time.perf_counter() - started, time.process_time() - cpu
        print(f"{asked.n:,} items × {asked.d}, {asked.classes} classes; load of the machine {os.getloadavg()[0]:.1f}")
        print(f"first state, the run read included: {wall:.2f} s, of which {busy:.2f} s of CPU time\n")
        print(f"{'':34}{'median ms':>9}{'slowest ms':>11}{'CPU ms':>8}{'kB':>10}")
        code, other = state["classes"][0]["code"], state["classes"][1]["code"]
        rows = np.frombuffer(page.ask(f"/api/rows?code={code}"), "<i4").tolist()
        print(f"# the class that edits are about has {len(rows):,} items")
        timed("state", lambda _n: page.ask("/api/state"))
        timed("all items", lambda _n: page.ask("/api/items"))
        timed("rows of a class, doubtful first", lambda _n: page.ask(f"/api/rows?code={code}"))
        timed("24 items described", lambda _n: page.ask(f"/api/describe?rows={','.join(map(str, rows[:24]))}"))
        timed("neighbours of an item", lambda n: page.ask(f"/api/neighbours/{rows[n]}"))
        timed("merges", lambda _n: page.ask("/api/merges"))
        timed("split in 5", lambda _n: page.ask(f"/api/split?code={code}&parts=5"))
        timed("grow", lambda _n: page.ask(f"/api/grow?code={code}&limit=24"))
        timed("search", lambda n: page.ask(f"/api/search?q=00{n}2"))
        timed("audit", lambda _n: page.ask(f"/api/audit?code={code}"))
        one = [{"op": "assign", "rows": rows, "code": code}]
        timed("accept a class", lambda _n: page.ask("/api/act", events=one))
        timed("undo", lambda n: page.ask("/api/undo", key=f"u{n}"))
        timed("redo", lambda n: page.ask("/api/redo", key=f"r{n}"))
        few = [{"op": "assign", "rows": rows[:20], "code": other}]
        timed("move 20 items", lambda _n: page.ask("/api/act", events=few))
        timed("rename", lambda n: page.ask("/api/act", events=[{"op": "rename", "code": code, "name": f"name {n}"}]))
        smallest = [one["code"] for one in state["classes"] if not one["known"]][-TIMES:]
        timed(
            "merge two classes",
            lambda n: page.ask("/api/act", events=[{"op": "merge", "code": smallest[n], "into": code}]),
        )
        page.connection.close()


if __name__ == "__main__":
    main()
