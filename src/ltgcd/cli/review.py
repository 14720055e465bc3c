"""The command that opens a run in the browser: review."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ltgcd.cli.common import Json, report, say, status, stopped_by_sigterm

if TYPE_CHECKING:
    from ltgcd.review.server.serve import ReviewServer
    from ltgcd.run.directory import Run


def review(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a finished run.")],
    port: Annotated[int | None, typer.Option("--port", min=0, max=65535, help="Port (default: a free one).")] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    host: Annotated[
        str,
        typer.Option("--host", help="Address to listen at; by default only this machine can reach it."),
    ] = "127.0.0.1",
    export_events: Annotated[
        Path | None,
        typer.Option("--export-events", help="Write all that was said as JSON lines to this file, and start nothing."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Look at what was found, correct it, and refine it, in the browser. Every edit is kept at once; Ctrl-C ends it.

    \b
    Examples:
      ltgcd review runs/plankton
      ltgcd review runs/plankton --no-browser --port 8800 --json
      ltgcd review runs/plankton --export-events edits.jsonl
    """
    opened: list[ReviewServer] = []

    def work() -> dict[str, Any]:
        if export_events is not None:
            return _export(run, export_events)
        status(f"reading {run}")
        server = _open(run, host, port)
        opened.append(server)
        return {"url": server.url, "token": server.access.token, "run": str(run)}

    def show(result: dict[str, Any]) -> None:
        if "events" in result:
            say(f"{result['events']:,} events in {result['path']}.")
            return
        print(f"Review of {result['run']}: {result['url']}")
        say("Every edit is kept at once. Ctrl-C ends the server.")

    report(work, show, as_json)
    for server in opened:
        try:
            with stopped_by_sigterm():
                server.serve(opens_browser=not no_browser)
        except KeyboardInterrupt:  # how a server is meant to end
            pending = server.session.held.pending
            status(f"The review has ended, and everything is kept.{unapplied(pending, server.session.run)}")


def unapplied(pending: int, run: Run) -> str:
    """Where changes of the review are that were not applied yet, and where they are not; an empty text without any."""
    from ltgcd.output.report.sentences import plural

    if not pending:
        return ""
    return (
        f" {plural(pending, 'change is', 'changes are')} not applied yet: 'ltgcd export' and 'ltgcd report' have them, "
        f"{run.files.assignments} has not, until 'Apply' on the page or 'ltgcd refine {run}' writes it."
    )


def _open(run: Path, host: str, port: int | None) -> ReviewServer:
    from ltgcd.common.errors import InputError

    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InputError("'ltgcd review' needs a few packages more: pip install 'ltgcd[review]'.") from error
    from ltgcd.review.server.security import is_loopback
    from ltgcd.review.server.serve import open_server

    server = open_server(run, host, port)
    if not is_loopback(host):
        status(f"Other machines can reach {host}: give the address only to whom you trust, for nothing is encrypted.")
    return server


def _export(run: Path, out: Path) -> dict[str, Any]:
    import json

    from ltgcd.common.files import atomic_path
    from ltgcd.common.outputs import check_output
    from ltgcd.review.server.history import event_lines
    from ltgcd.run.directory import Run
    from ltgcd.run.reviewed import RunReview

    check_output(out)
    events = event_lines(RunReview.open(Run.open(run)).log.kept())
    with atomic_path(out, replaces=lambda: False) as temporary:
        temporary.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    return {"events": len(events), "path": str(out), "run": str(run)}
