"""The routes of the server: parse, ask the session, answer as JSON or bytes. Every refusal is one sentence."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ltgcd.common.errors import InputError
from ltgcd.output.report.page import served_page, static_folder
from ltgcd.review.log import StaleError
from ltgcd.review.server import lookups
from ltgcd.review.server.refining import Refining
from ltgcd.review.server.security import Access, Guard
from ltgcd.review.server.session import Seen, Session

DESCRIBED = 500  # rows of one answer
LARGEST_PAGE = 5000
BINARY = "application/octet-stream"


def make_app(session: Session, access: Access) -> Guard:
    """The whole application, behind its guard."""
    refining = Refining(session)
    return Guard(
        Starlette(
            routes=[
                Route("/", page(session)),
                Route("/api/state", state(session, refining)),
                *(Route(f"/api{path}", _reading(answer, session)) for path, answer in READS.items()),
                *(Route(f"/api{path}", _writing(answer, session), methods=["POST"]) for path, answer in WRITES.items()),
                Route("/api/refine/rows", changed(refining)),
                Route("/api/refine/moves", moves(refining)),
                Route("/api/refine", _refining(refining), methods=["GET", "POST"]),
                Route("/api/refine/{end}", _refining(refining), methods=["POST"]),
                Mount("/static", StaticFiles(directory=str(static_folder()))),
            ],
            exception_handlers={
                InputError: _sentence,
                404: _not_there,
                405: _not_there,
                500: _bug,
            },
        ),
        access,
    )


def page(session: Session) -> Callable[[Request], Response]:
    """The page, which then asks for everything else."""
    return lambda _request: HTMLResponse(served_page(session.run.folder.resolve().name))


# ---------------------------------------------------------------- looking


def state(session: Session, refining: Refining) -> Callable[[Request], Response]:
    """All that the page shows at first."""
    return lambda _request: JSONResponse({**session.state(), "refine": refining.state()})


def items(session: Session, _request: Request) -> Response:
    """Columns of all items."""
    return Response(session.items(), media_type=BINARY)


def rows(session: Session, request: Request) -> Response:
    """Rows of a class, or of a status, in an order; or the odd ones, or those of the last update."""
    asked = request.query_params
    with session.lock:
        if asked.get("status") == "odd":
            found = lookups.odd_rows(session.described)
        elif asked.get("status") == "added":
            found = lookups.added_rows(session.described)
        elif "status" in asked:
            found = lookups.rows_of_status(session.described, asked["status"])
        else:
            order: Any = asked.get("order", "doubtful")
            found = lookups.rows_of_class(session.described, _number(request, "code"), asked.get("part", "all"), order)
    return Response(found.astype("<i4").tobytes(), media_type=BINARY)


def describe(session: Session, request: Request) -> Response:
    """What some rows are."""
    wanted = session.check_rows(_rows(request.query_params.get("rows", "")))
    with session.lock:
        return JSONResponse(lookups.described_rows(session.described, session.material, wanted))


def thumb(session: Session, request: Request) -> Response:
    """The picture of an item."""
    row = _path_row(session, request)
    made = session.thumbnails.picture(row, _number(request, "size", 96))
    if made is None:
        return JSONResponse({"error": "These items have no pictures."}, 404)
    # Kept by the browser for this server alone: each has a cookie of its own.
    return Response(made, media_type="image/webp", headers={"Cache-Control": "private, max-age=3600", "Vary": "Cookie"})


def neighbours(session: Session, request: Request) -> Response:
    """Items most like an item."""
    row = _path_row(session, request)
    return JSONResponse(lookups.neighbours_of(session.described, row, _number(request, "n", 24, least=1, most=1000)))


def merges(session: Session, request: Request) -> Response:
    """Pairs of classes that may be one."""
    code = _number(request, "code") if "code" in request.query_params else None
    with session.lock:
        return JSONResponse(lookups.merges(session.described, code))


def split(session: Session, request: Request) -> Response:
    """A class in parts."""
    code, parts = _number(request, "code"), _number(request, "parts", 0)
    with session.lock:
        return JSONResponse(lookups.split_of(session.described, code, parts or None))


def grow(session: Session, request: Request) -> Response:
    """More items like those of a class."""
    code, number = _number(request, "code"), _number(request, "page", 0, least=0, most=10**6)
    limit = _number(request, "limit", 24, least=1, most=LARGEST_PAGE)
    with session.lock:
        return JSONResponse(lookups.grown(session.described, session.material, code, number, limit))


def search(session: Session, request: Request) -> Response:
    """Items and classes that hold some words."""
    with session.lock:
        return JSONResponse(
            lookups.search(session.described, session.material, request.query_params.get("q", "")[:1000])
        )


def audit(session: Session, request: Request) -> Response:
    """A random sample of a class."""
    n = _number(request, "n", lookups.AUDITED, least=1, most=1000)
    return JSONResponse(session.audit(_number(request, "code"), n))


def history(session: Session, request: Request) -> Response:
    """What was done."""
    return JSONResponse(session.history(_number(request, "limit", 100, least=1, most=10_000)))


def news(session: Session, request: Request) -> Response:
    """What was done elsewhere since the page has looked; asked every few seconds."""
    return JSONResponse(session.news(_number(request, "version"), _number(request, "base"), _number(request, "n")))


def export(session: Session, _request: Request) -> Response:
    """The labels as a file."""
    headers = {"Content-Disposition": 'attachment; filename="labels.csv"'}
    return Response(session.export(), media_type="text/csv; charset=utf-8", headers=headers)


def changed(refining: Refining) -> Callable[[Request], Response]:
    """Rows that the last refit that was taken has moved."""
    return lambda _request: Response(refining.changed().astype("<i4").tobytes(), media_type=BINARY)


def moves(refining: Refining) -> Callable[[Request], Response]:
    """What the refit that waits would move: all of it, or from one class to another."""

    def answer(request: Request) -> Response:
        has_pair = {"from", "to"} <= set(request.query_params)
        pair = (_number(request, "from"), _number(request, "to")) if has_pair else None
        return JSONResponse(refining.moves(pair))

    return answer


# ---------------------------------------------------------------- changing


def act(session: Session, body: dict[str, Any]) -> dict[str, Any]:
    """Edits of one action."""
    events = body.get("events")
    if not isinstance(events, list) or not events or not all(isinstance(event, dict) for event in events):
        raise InputError("An action needs 'events', a list of edits.")
    return session.act(events, _seen(body), _key(body))


def undo(session: Session, body: dict[str, Any]) -> dict[str, Any]:
    """Take back the last action."""
    return session.undo(_seen(body), _key(body))


def redo(session: Session, body: dict[str, Any]) -> dict[str, Any]:
    """Do again what was taken back last."""
    return session.redo(_seen(body), _key(body))


def apply(session: Session, body: dict[str, Any]) -> dict[str, Any]:
    """Write the labels into the run."""
    return session.apply(_seen(body))


READS: dict[str, Callable[[Session, Request], Response]] = {
    "/items": items,
    "/rows": rows,
    "/describe": describe,
    "/thumb/{row}": thumb,
    "/neighbours/{row}": neighbours,
    "/merges": merges,
    "/split": split,
    "/grow": grow,
    "/search": search,
    "/audit": audit,
    "/history": history,
    "/news": news,
    "/export": export,
}
WRITES: dict[str, Callable[[Session, dict[str, Any]], dict[str, Any]]] = {
    "/act": act,
    "/undo": undo,
    "/redo": redo,
    "/apply": apply,
}


def _reading(answer: Callable[[Session, Request], Response], session: Session) -> Callable[[Request], Response]:
    """A route that looks at the session; Starlette runs it in a thread."""

    def endpoint(request: Request) -> Response:
        return answer(session, request)

    return endpoint


def _writing(answer: Callable[[Session, dict[str, Any]], dict[str, Any]], session: Session) -> Callable[[Request], Any]:
    """A route that changes the session; whoever has not seen the last change is told so."""

    async def endpoint(request: Request) -> Response:
        body = await _body(request)
        try:
            return JSONResponse(await run_in_threadpool(answer, session, body))
        except StaleError as error:
            return JSONResponse({"error": str(error), "version": session.held.version}, 409)

    return endpoint


def _refining(refining: Refining) -> Callable[[Request], Any]:
    """Begin a refit, look how far it is, take its result or throw it away."""

    async def endpoint(request: Request) -> Response:
        end = request.path_params.get("end")
        try:
            if request.method != "POST":
                return JSONResponse(refining.state())
            body = await _body(request)
            if end is None:
                return JSONResponse(await run_in_threadpool(refining.begin, _seen(body)))
            if end == "discard":
                return JSONResponse(await run_in_threadpool(refining.discard))
            ends = {"accept": refining.accept, "undo": refining.undo}
            return JSONResponse(await run_in_threadpool(ends[end], _seen(body))) if end in ends else _not_there(request)
        except StaleError as error:
            return JSONResponse({"error": str(error), "version": refining.session.held.version}, 409)

    return endpoint


# ---------------------------------------------------------------- parsing, refusing


async def _body(request: Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.body())
    except ClientDisconnect as error:
        raise InputError("The edit is too large, or was cut short; send it in parts.") from error
    except (ValueError, RecursionError) as error:
        raise InputError("What was sent is not JSON.") from error
    if not isinstance(body, dict):
        raise InputError("What was sent is not a JSON object.")
    return body


def _seen(body: dict[str, Any]) -> Seen:
    if "version" not in body:
        raise InputError("A change needs the 'version' of the state that it is about.")
    parts = {name: body[name] for name in Seen._fields if name in body}
    for name, part in parts.items():
        if not isinstance(part, int) or isinstance(part, bool):
            raise InputError(f"The '{name}' of the state that a change is about must be a whole number.")
    return Seen(**parts)


def _key(body: dict[str, Any]) -> str:
    key = body.get("key", "")
    if not isinstance(key, str) or len(key) > 100:
        raise InputError("The 'key' of a change is a text of at most 100 characters.")
    return key


def _number(request: Request, name: str, default: int | None = None, least: int = 0, most: int = 2**31 - 1) -> int:
    """A whole number of the query."""
    text = request.query_params.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 10 or not least <= int(text) <= most:
        raise InputError(f"'{name}' must be a whole number from {least} to {most}.")
    return int(text)


def _path_row(session: Session, request: Request) -> int:
    """The row in a path: digits and nothing else, and one that is there."""
    row = _rows(str(request.path_params["row"]))
    if len(row) != 1:
        raise InputError("Give one row.")
    return int(session.check_rows(row)[0])


def _rows(text: str) -> NDArray[np.int64]:
    parts = text.split(",") if text else []
    if len(parts) > DESCRIBED:
        raise InputError(f"At most {DESCRIBED} rows are described at a time.")
    if not all(part.isascii() and part.isdigit() and len(part) <= 10 for part in parts):
        raise InputError("Rows are whole numbers, with commas between them.")
    return np.array([int(part) for part in parts], dtype=np.int64)


def _sentence(_request: Request, error: Exception) -> Response:
    return JSONResponse({"error": " ".join(str(error).split())}, 422)


def _not_there(_request: Request, _error: Exception | None = None) -> Response:
    return JSONResponse({"error": "There is nothing at this address."}, 404)


def _bug(_request: Request, error: Exception) -> Response:
    traceback.print_exception(error)
    return JSONResponse({"error": "Something went wrong in the server; its terminal says what."}, 500)
