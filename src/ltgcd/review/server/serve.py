"""Start the server: find a port, say where it is, open the browser, end cleanly."""

from __future__ import annotations

import errno
import gc
import logging
import socket
import threading
import webbrowser
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from ltgcd.common.errors import InputError
from ltgcd.review.server.app import make_app
from ltgcd.review.server.security import Access
from ltgcd.review.server.session import Session

PORT = 8765  # where it is looked for first, so that a page that was left open finds it again
TRIED = 20  # ports behind it
PATIENCE = 5  # seconds that open requests have to end


@dataclass(frozen=True, eq=False)
class ReviewServer:
    """A server that listens already; `serve` answers until it is told to stop.

    Attributes
    ----------
    access : Access
        Address and secret.
    session : Session
        The review.
    listener : socket
        Where it listens.
    """

    access: Access
    session: Session
    listener: socket.socket

    @property
    def url(self) -> str:
        """The address to open: its token is exchanged for a cookie at once."""
        return f"{self.access.url}?token={self.access.token}"

    def serve(self, *, opens_browser: bool = False) -> None:
        """Answer requests until Ctrl-C or SIGTERM; what was acknowledged is on the disk at any time."""
        config = uvicorn.Config(
            make_app(self.session, self.access),
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            lifespan="off",
            timeout_graceful_shutdown=PATIENCE,
        )
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        if opens_browser:
            threading.Thread(target=webbrowser.open, args=(self.url,), daemon=True).start()
        gc.freeze()  # what is there stays: to look through all of it for garbage now and then takes an edit 70 ms
        try:
            uvicorn.Server(config).run(sockets=[self.listener])
        finally:
            self.session.close()
            self.listener.close()


def open_server(folder: Path, host: str = "127.0.0.1", port: int | None = None) -> ReviewServer:
    """Listen, then read the run: whatever is wrong is one sentence before anything is served.

    Parameters
    ----------
    folder : path
        A finished run.
    host : str
        Address to listen at; other machines reach the server only if it is not a loopback one.
    port : int, optional
        Port; by default the first free one from `PORT` on.
    """
    listener = _listen(host, port)
    try:
        session = Session.open(folder)
    except BaseException:
        listener.close()
        raise
    return ReviewServer(Access(host, int(listener.getsockname()[1])), session, listener)


def _listen(host: str, port: int | None) -> socket.socket:
    tried = [port] if port is not None else [*range(PORT, PORT + TRIED), 0]
    for number in tried:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # With TCP named, asyncio sends small packets at once: else each answer waits 40 ms for the other side.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, number))
            listener.listen(128)
        except (OSError, OverflowError) as error:
            listener.close()
            if getattr(error, "errno", None) == errno.EADDRINUSE and number != tried[-1]:
                continue
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"{host}, port {number}, can't be listened at ({reason}); give another --port.") from error
        return listener
    raise AssertionError
