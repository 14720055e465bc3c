"""The page as far as the server can tell."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from ltgcd.review.server.app import make_app
from ltgcd.review.server.security import Access
from ltgcd.review.server.session import Session

ACCESS = Access("127.0.0.1", 8765, "the-token")


class Answer:
    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self.status, self.body = status, body
        self.headers = {name.decode().lower(): value.decode() for name, value in headers}

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """The page, as far as the server can tell: one request at a time, with any headers, straight to the application."""

    def __init__(self, session: Session, access: Access = ACCESS) -> None:
        self.session, self.app, self.access = session, make_app(session, access), access

    def ask(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Answer:
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": quote(path).encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", self.access.port),
        }
        sent: list[Any] = []

        async def run() -> None:
            waiting = [{"type": "http.request", "body": body, "more_body": False}]

            async def receive() -> Any:
                return waiting.pop() if waiting else {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                sent.append(message)

            try:
                await self.app(scope, receive, send)
            except ArithmeticError:  # a bug that a test put in: Starlette answers it, then raises it for the log
                assert sent

        asyncio.run(run())
        content = b"".join(message.get("body", b"") for message in sent[1:])
        return Answer(sent[0]["status"], sent[0]["headers"], content)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.access.port}"

    @property
    def own(self) -> dict[str, str]:
        """Headers of the page's own reads."""
        return {"Host": self.host, "Cookie": f"{self.access.cookie}={self.access.token}"}

    @property
    def writes(self) -> dict[str, str]:
        """Headers of the page's own writes."""
        return {**self.own, "Content-Type": "application/json", "X-Ltgcd": "1", "Origin": f"http://{self.host}"}

    def get(self, path: str) -> Answer:
        return self.ask("GET", path, headers=self.own)

    def post(self, path: str, told: Any) -> Answer:
        return self.ask("POST", path, json.dumps(told).encode(), self.writes)

    def rows(self, path: str) -> list[int]:
        answer = self.get(path)
        assert answer.status == 200, answer.body
        found: list[int] = np.frombuffer(answer.body, "<i4").tolist()
        return found

    @property
    def seen(self) -> dict[str, int]:
        """What a page that has just looked sends with a change."""
        return seen(self.get("/api/state").json)

    def act(self, *events: dict[str, Any], key: str = "") -> Any:
        answer = self.post("/api/act", {"events": list(events), **self.seen, "key": key})
        assert answer.status == 200, answer.body
        return answer.json


def seen(state: dict[str, Any]) -> dict[str, int]:
    """Which state a page shows, of what the server has told it last."""
    return {key: state[key] for key in ("version", "base", "n")}


def open_client(run: Path) -> Client:
    return Client(Session.open(run))
