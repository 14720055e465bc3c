"""A server for the page alone: the calls of 'ltgcd review' answered from made-up items, so that no run is needed.

python tests/browser/fake_server.py [--kind image|text|vector] [--n 2000] [--classes 24] [--port 8777]
"""

from __future__ import annotations

import argparse
import io
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pyarrow as pa
from PIL import Image, ImageDraw

from ltgcd.common.errors import InputError
from ltgcd.common.files import with_metadata
from ltgcd.output.report.page import served_page, static_folder
from ltgcd.review.state import begin, carried_out, replay

BINARY = "application/octet-stream"
POLICY = "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'"
HUES = ["#4e79a7", "#e0812b", "#5a9e4b", "#c94c50", "#8a6bb1", "#a0715e", "#d276ac", "#3d9a96", "#b3a12d"]


class FakeRun:
    """Blobs in the plane: classes of falling size, a third of them known; what people say is kept in memory."""

    def __init__(self, kind: str = "image", n: int = 2000, classes: int = 24, names: dict[int, str] | None = None):
        random = np.random.RandomState(0)
        self.kind, self.n, self.known = kind, n, max(1, classes // 3)
        share = 1 / np.arange(1, classes + 1) ** 0.9
        self.true = random.choice(classes, n, p=share / share.sum())
        self.true[:classes] = np.arange(classes)
        centres = random.randn(classes, 2) * 6
        self.xy = (centres[self.true] + random.randn(n, 2)).astype("<f4")
        confidence = random.beta(6, 1.6, n).astype(np.float32)
        self.labelled = (self.true < self.known) & (random.rand(n) < 0.3)
        status = np.where(self.true < self.known, "known", "novel").astype(object)
        status[(confidence < 0.5) & ~self.labelled] = "unsure"
        self.ids = [f"plate-{i // 500:03d}/roi-{i:06d}.png" for i in range(n)]
        known = [(names or {}).get(i, f"species {chr(65 + i % 26)}{i // 26 or ''}") for i in range(self.known)]
        table = pa.table({"id": self.ids, "label": self.true, "status": status.tolist(), "confidence": confidence})
        self.base = begin(with_metadata(table, {"k": classes}), tuple(known))
        self.done: list[list[Any]] = []
        self.undone: list[list[Any]] = []
        self.version, self.written = 0, 0
        self.refining: dict[str, Any] = {"state": "idle", "expected_seconds": 20}
        self.refined_at = 0
        self.added = 0  # items that the last update brought
        self.chances = [0.99] * n  # of what may make a class grow
        self.lock = threading.RLock()
        self.review = self.base

    # ------------------------------------------------------------ what is asked

    def classes(self) -> list[dict[str, Any]]:
        now, found = self.review, []
        sure, known = ~now.unsure & ~now.junk, now.known_classes()
        for code, name in now.class_names().items():
            inside, leaning = sure & (now.code == code), int((now.unsure & ~now.junk & (now.code == code)).sum())
            size, said = int(inside.sum()), int((inside & (now.given | self.labelled)).sum())
            if not size and not leaning:
                continue
            left = size - said
            mean = float(now.confidence[inside].mean()) if size else 0.4
            near = [[other, round(0.6 - 0.1 * i, 2)] for i, other in enumerate(sorted(known - {code})[:3])]
            found.append(
                {"code": code, "name": name, "known": code in known, "size": size, "leaning": leaning}
                | {"given": int((inside & now.given).sum()), "labelled": int((inside & self.labelled).sum())}
                | {"confidence": round(mean, 3), "coherence": 0.52, "suggested": f"near {name}", "nearest": near}
                | {"terms": ["card", "lost card", "pin"] if self.kind == "text" else [], "gain": left * (1.1 - mean)}
                | {"why": f"{round(left * (1 - mean))} of {left} unconfirmed may be wrong."}
                | {"contaminated": 0.31 if code == 1 else 0.0, "far": 9, "accepted": size > 0 and left == 0}
            )
        return sorted(found, key=lambda one: -one["gain"])

    def flags(self) -> np.ndarray:
        return (self.review.given | self.review.junk) * 1 + self.labelled * 2 + np.full(self.n, 4)

    def state(self) -> dict[str, Any]:
        status = self.review.status
        counts = {name: int((status == name).sum()) for name in ("known", "novel", "unsure", "junk")}
        counts |= {"given": int(self.review.given.sum()), "labelled": int(self.labelled.sum())}
        return {
            "mode": "server", "run": "made-up", "title": "Made-up plankton", "kind": self.kind, "n": self.n, "base": 0,
            "version": self.version, "changes": len(self.done), "undo": len(self.done), "redo": len(self.undone),
            "counts": counts, "k": {"k": 26, "sentence": "26 classes have items now."}, "classes": self.classes(),
            "refine": self.refining, "added": self.added,
            "unapplied": abs(len(self.done) - self.written),
            "next_code": self.review.next_code, "settled": int((self.flags() & 3 > 0).sum()),
        }  # fmt: skip

    def items(self) -> bytes:
        now = self.review
        parts = [b"LTG1", np.uint32(self.n).tobytes(), self.xy.tobytes(), now.code.astype("<i4").tobytes()]
        parts += [now.status_code.tobytes(), np.round(now.confidence * 255).astype(np.uint8).tobytes()]
        return b"".join([*parts, self.flags().astype(np.uint8).tobytes()])

    def rows(self, code: int | None, part: str, status: str | None, order: str) -> bytes:
        now = self.review
        if status == "odd":  # what was said of is no longer among them
            chosen = ~(self.labelled | now.given) & (np.arange(len(self.true)) % 7 == 0)
        elif status == "added":
            chosen = np.arange(self.n) >= self.n - self.added
        elif status:
            chosen = now.status == status
        else:
            chosen = (now.code == code) & ~now.junk & ((part in ("all", "far")) | (now.unsure == (part == "unsure")))
        rows = np.flatnonzero(chosen & ~now.unsure)[:9] if part == "far" else np.flatnonzero(chosen)
        return (
            rows[np.argsort(now.confidence[rows] * (-1 if order == "centre" else 1), kind="stable")]
            .astype("<i4")
            .tobytes()
        )

    def describe(self, rows: list[int]) -> list[dict[str, Any]]:
        words = "where is my new card it has not come for {} days and nobody answers when I call number {}"
        text = {"text": lambda row: {"text": words.format(self.true[row] + 2, row)}}.get(self.kind, lambda _row: {})
        return [{"row": row, "id": self.ids[row], **text(row)} for row in rows]

    def thumb(self, row: int, size: int) -> bytes:
        image = Image.new("RGB", (size, size), "#f4f4f2" if row % 9 else "#20242a")
        draw, hue, turn = (
            ImageDraw.Draw(image),
            HUES[self.true[row] % 9],
            np.random.RandomState(row).rand(4) * size * 0.2,
        )
        box = [size * 0.2 + turn[0], size * 0.2 + turn[1], size * 0.8 - turn[2], size * 0.8 - turn[3]]
        (draw.ellipse if self.true[row] % 2 else draw.rounded_rectangle)(
            box, **({} if self.true[row] % 2 else {"radius": size // 8}), fill=hue
        )
        out = io.BytesIO()
        image.save(out, "WEBP", quality=60)
        return out.getvalue()

    def near(self, row: int, n: int) -> np.ndarray:
        return np.argsort(((self.xy - self.xy[row]) ** 2).sum(axis=1), kind="stable")[1 : n + 1]

    def answer(self, path: str, q: dict[str, str]) -> Any:
        code, now = int(q.get("code", -1)), self.review
        own = np.flatnonzero((now.code == code) & ~now.unsure & ~now.junk)
        if path == "/api/neighbours":
            rows = self.near(int(q["row"]), int(q.get("n", 24)))
            return {"rows": rows.tolist(), "cosines": np.linspace(0.98, 0.7, len(rows)).round(2).tolist()}
        if path == "/api/merges":
            names = [
                other for other in now.class_names() if other != code and frozenset({other, code}) not in now.distinct
            ]
            return [
                {"code": code, "other": other, "similarity": 0.8 - 0.1 * i, "why": "Their centres are alike."}
                for i, other in enumerate(names[:3])
            ]
        if path == "/api/split":
            rows = np.flatnonzero((now.code == code) & ~now.junk)
            parts = np.array_split(rows[np.argsort(self.xy[rows, 0])], int(q.get("parts", 0)) or 4)
            others = [other for other in now.class_names() if other != code][:5]
            return {
                "parts": [part.tolist() for part in parts],
                "open": [part[~(now.given | self.labelled)[part]].tolist() for part in parts],
                "alike": [others] * len(parts),
                "separation": 0.41,
            }
        if path == "/api/grow":
            others = np.flatnonzero((now.code != code) | now.unsure)
            middle = self.xy[own].mean(axis=0) if len(own) else 0
            ranked = others[np.argsort(((self.xy[others] - middle) ** 2).sum(axis=1))]
            rows = ranked[: int(q["limit"])].tolist()
            return {"rows": rows, "chances": self.chances[: len(rows)], "left": len(ranked)}
        if path == "/api/search":
            return {"rows": [i for i, one in enumerate(self.ids) if q["q"].lower() in one][:1000], "classes": []}
        if path == "/api/audit":
            given = now.given[now.code == code]
            rows = np.random.RandomState(0).permutation(own[~now.given[own]])[:20]
            return {
                "rows": rows.tolist(),
                "checked": int(given.sum()),
                "right": int(given.sum()),
                "low": 0.8,
                "high": 1.0,
            }
        if path == "/api/news":
            fresh = self.version != int(q["version"])
            return {"base": 0, "sentence": "From elsewhere: something." if fresh else ""}
        if path == "/api/history":
            steps = [(events, True) for events in self.done] + [(events, False) for events in reversed(self.undone)]
            return [
                {"action": i + 1, "time": 1.79e9 + 60 * i, "author": "me", "active": active, "n": len(events)}
                | {"sentence": ", ".join(f"{event['op']} {len(event.get('rows', []))}" for event in events)}
                for i, (events, active) in enumerate(steps)
            ][::-1]
        is_done = self.refining["state"] == "done"
        return self.refining | ({"stale": self.version != self.refined_at} if is_done else {})

    # ------------------------------------------------------------ what is said

    def say(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        before = self.review
        if path == "/api/act":
            self.done.append(carried_out(before, body["events"], fresh=True)[0])
            self.undone = []
        elif path == "/api/undo":
            self.undone.append(self.done.pop())
        elif path == "/api/redo":
            self.done.append(self.undone.pop())
        elif path == "/api/apply":
            self.written = len(self.done)
        elif path.startswith("/api/refine"):
            diff = {
                "grown": [{"code": 1, "before": 10, "after": 14}],
                "vanished": [{"name": "novel-009", "code": 9, "before": 4, "after": 0}],
                "changed": 12,
                "kept": 5,
                "surer": 6,
                "moves": [{"from": "novel-009", "to": "novel-007", "codes": [8, 6], "n": 9, "sure": 4}],
            }
            self.refined_at = self.version
            self.refining = {
                "state": "idle" if path != "/api/refine" else "done",
                "expected_seconds": 20,
                "seconds": 3,
                "diff": diff,
                "changed": 12 if path == "/api/refine/accept" else 0,
                "can_undo": path == "/api/refine/accept",
            }
            return self.refining | ({"state": "running"} if path == "/api/refine" else {})
        self.review = replay(self.base, [event for events in self.done for event in events])
        self.version += 1
        now = self.review
        changed = np.flatnonzero(
            (before.code != now.code) | (before.status_code != now.status_code) | (before.given != now.given)
        )
        turned = {"/api/undo": self.undone, "/api/redo": self.done}.get(path, [])
        sentence = ", ".join(f"{event['op']} {len(event.get('rows', []))}" for event in turned[-1]) if turned else ""
        values = {
            "rows": changed,
            "codes": now.code[changed],
            "statuses": now.status_code[changed],
            "flags": self.flags()[changed],
        }
        return self.state() | {key: value.tolist() for key, value in values.items()} | {"sentence": sentence}


class Handler(BaseHTTPRequestHandler):
    run: FakeRun
    protocol_version = "HTTP/1.1"

    def send(self, body: Any, kind: str = "application/json", code: int = 200) -> None:
        data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(code)
        for key, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(data))),
            ("Content-Security-Policy", POLICY),
        ):
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        url, run = urlsplit(self.path), self.run
        q = {key: values[0] for key, values in parse_qs(url.query).items()}
        with run.lock:
            if url.path == "/":
                self.send(served_page("Made-up"), "text/html; charset=utf-8")
            elif url.path.startswith("/static/"):
                kind = "text/css" if url.path.endswith(".css") else "text/javascript"
                self.send((static_folder() / url.path.rsplit("/", 1)[1]).read_bytes(), kind)
            elif url.path == "/api/state":
                self.send(run.state())
            elif url.path == "/api/items":
                self.send(run.items(), BINARY)
            elif url.path == "/api/rows":
                body = run.rows(
                    int(q["code"]) if "code" in q else None,
                    q.get("part", "all"),
                    q.get("status"),
                    q.get("order", "doubtful"),
                )
                self.send(body, BINARY)
            elif url.path == "/api/refine/rows":
                self.send(np.arange(12, dtype="<i4").tobytes(), BINARY)
            elif url.path == "/api/refine/moves":
                n = 9 if "from" in q else 12
                sure = [0.3 + 0.05 * at for at in range(n)]
                self.send({"rows": [*range(n)], "codes": [77] * n, "confidence": sure, "names": {"77": "novel-077"}})
            elif url.path == "/api/describe":
                self.send(run.describe([int(row) for row in q["rows"].split(",")]))
            elif url.path.startswith("/api/thumb/"):
                side = min(1400, int(q.get("size", 96)))  # what it draws has no more pixels
                self.send(run.thumb(int(url.path.rsplit("/", 1)[1]), side), "image/webp")
            elif url.path.startswith("/api/neighbours/"):
                self.send(run.answer("/api/neighbours", q | {"row": url.path.rsplit("/", 1)[1]}))
            elif url.path.startswith("/api/"):
                self.send(run.answer(url.path, q))
            else:
                self.send({"error": "Nothing is there."}, code=404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.run.lock:
            if self.headers.get("X-Ltgcd") != "1":
                self.send({"error": "The header is missing."}, code=403)
            elif body.get("version", self.run.version) != self.run.version:
                self.send({"error": "Something was changed elsewhere.", "version": self.run.version}, code=409)
            else:
                try:
                    self.send(self.run.say(urlsplit(self.path).path, body))
                except InputError as error:
                    self.send({"error": str(error)}, code=422)

    def log_message(self, *_: Any) -> None:
        pass


def serve(run: FakeRun, port: int = 0) -> ThreadingHTTPServer:
    """A server in a thread of its own; its address is in `server_address`."""
    server = ThreadingHTTPServer(("127.0.0.1", port), type("Bound", (Handler,), {"run": run}))
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", default="image")
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--classes", type=int, default=24)
    parser.add_argument("--port", type=int, default=8777)
    given = parser.parse_args()
    serve(FakeRun(given.kind, given.n, given.classes), given.port)
    print(f"http://127.0.0.1:{given.port}/", flush=True)
    threading.Event().wait()
