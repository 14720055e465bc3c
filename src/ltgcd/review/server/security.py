"""Who may talk to the server: the page that was opened with the printed address, on this machine, and nobody else.

- Another site that points its own name at this machine (DNS rebinding) sends a Host that is not ours: refused.
- Another site, or another program's page on this machine, has no token, and a cookie with SameSite=Strict is not sent
  along by it; a page of another port, which a browser counts as the same site, is told by Sec-Fetch-Site.
- A form can be sent from anywhere, but not as JSON, not with a header of its own, and not with our Origin.
- What the page loads can only come from here, so that a name with markup in it could load or send nothing.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
READS = ("GET", "HEAD")
LARGEST_BODY = 64 * 2**20  # bytes: an action may name a million rows


@dataclass(frozen=True)
class Access:
    """The address that the server is reached at, and the secret that opens it."""

    host: str
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def url(self) -> str:
        """The address to open, without the token."""
        host = "127.0.0.1" if _is_any(self.host) else f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/"

    @property
    def cookie(self) -> str:
        """Name of the cookie: a browser keeps cookies by host alone, and there may be two reviews at once."""
        return f"ltgcd-{self.port}"

    def is_own_host(self, host: str) -> bool:
        """Whether a Host header names this server.

        A server on all addresses may be called by any of them: an address, unlike a name, can't be pointed elsewhere.
        """
        name, _, port = host.lower().rpartition(":")
        if port != str(self.port):
            return False
        asked = self.host.lower()
        own = {"127.0.0.1", "localhost", "[::1]", asked, f"[{asked}]"}
        if not _is_any(self.host):
            return name in own
        return name in own | {socket.gethostname().lower()} or _is_address(name.strip("[]"))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_any(host: str) -> bool:
    return host in ("0.0.0.0", "::")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class Guard:
    """The door of the server: every request passes it, and every answer gets the headers that keep a page in.

    Parameters
    ----------
    app : ASGI application
        What is behind it.
    access : Access
        Address and secret.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it in one sentence."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send_guarded)
            return
        await self.app(scope, _bounded(receive), send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """What a request is answered with that may not pass; None for one that may."""
        headers = Headers(scope=scope)
        if len(headers.getlist("host")) != 1 or not self.access.is_own_host(headers["host"]):
            return refused("This server answers only under its own address; open the one that 'ltgcd review' printed.")
        if scope["path"] == "/" and scope["method"] in READS and b"token=" in scope["query_string"]:
            return self._exchange(scope)
        if not self._has_cookie(headers):
            sentence = "Open the address that 'ltgcd review' printed, with its token; this browser has none yet."
            return refused_page() if _is_navigation(headers) else refused(sentence)
        site = headers.get("sec-fetch-site")
        if site not in (None, "same-origin", "none"):
            return refused("Another page asks for this; only the page of 'ltgcd review' itself may.")
        return None if scope["method"] in READS else self._refused_write(headers)

    def _exchange(self, scope: Scope) -> Response:
        """Give the cookie for the token, and take the token out of the address bar."""
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not self._is_token(token):
            if _is_navigation(Headers(scope=scope)):
                return refused_page()
            return refused("The token is wrong: it is another one each time; open the address that was printed last.")
        answer: Response = RedirectResponse("/", status_code=303)
        if Headers(scope=scope).get("sec-fetch-site") in ("cross-site", "same-site"):
            # A link in another page, such as a terminal in the browser: after a redirect the cookie would not be sent.
            answer = HTMLResponse('<!doctype html><meta http-equiv="refresh" content="0;url=/"><title>ltgcd</title>')
        answer.set_cookie(self.access.cookie, self.access.token, httponly=True, samesite="strict", path="/")
        return answer

    def _has_cookie(self, headers: Headers) -> bool:
        try:
            held = SimpleCookie(headers.get("cookie", "")).get(self.access.cookie)
        except CookieError:
            return False
        return held is not None and self._is_token(held.value)

    def _is_token(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.access.token.encode())

    def _refused_write(self, headers: Headers) -> JSONResponse | None:
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return refused("Edits are sent as JSON (Content-Type: application/json).")
        if headers.get("x-ltgcd") != "1":
            return refused("Edits are sent with the header 'X-Ltgcd: 1'.")
        origin = headers.get("origin")
        own = f"http://{headers['host']}"
        if origin != own and not (origin is None and headers.get("sec-fetch-site") == "same-origin"):
            return refused("Edits are taken only from the page of 'ltgcd review' itself (Origin).")
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            return JSONResponse({"error": "The edit is too large; send it in parts."}, 413)
        return None


def _is_navigation(headers: Headers) -> bool:
    """Whether a person asks, by the address bar, a link or a reload: he reads a page, and no JSON."""
    return headers.get("sec-fetch-mode") == "navigate"


def refused_page() -> HTMLResponse:
    """The same answer for a person: in plain words what to do; it has nothing of the run in it."""
    return HTMLResponse(
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        '<meta name="viewport" content="width=device-width"><title>ltgcd review</title><h1>This page is closed</h1>'
        "<p>Its address has a key in it that is another one each time <code>ltgcd review</code> is started, and this "
        "browser does not have the one of now.</p><p>Open the address that <code>ltgcd review</code> printed last in "
        "its terminal, or start it again: it opens the page by itself. Nothing that was said is lost.</p></html>",
        403,
    )


def refused(sentence: str) -> JSONResponse:
    """The answer to whoever may not."""
    return JSONResponse({"error": sentence}, 403)


def _bounded(receive: Receive) -> Receive:
    """Stop reading a body that is longer than any edit: one sent in chunks does not say its length."""
    read = 0

    async def receive_bounded() -> Any:  # noqa: ANN401 - a message of the server
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > LARGEST_BODY:
            return {"type": "http.disconnect"}
        return message

    return receive_bounded
