"""Who may talk to the server, and who may not."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pytest
from PIL import Image
from tests.review.server.client import ACCESS, Client, open_client
from tests.review.server.synthetic import make_run

from conftest import image_bytes
from ltgcd.data.items import ImageFiles
from ltgcd.review.server.security import HEADERS, Access, is_loopback
from ltgcd.review.server.serve import open_server

ADDRESSES = ["/", "/static/page.css", "/api/state", "/api/items", "/api/thumb/0", "/api/refine", "/nowhere"]
EDIT = b'{"events": [{"op": "junk", "rows": [0]}], "version": 0}'


def refused(client: Client, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> None:
    answer = client.ask(method, path, body, headers)
    assert answer.status == 403, (path, headers)
    assert answer.json["error"].endswith(".")
    assert "ltgcd-8765" not in answer.headers.get("set-cookie", "")
    assert client.get("/api/state").json["version"] == 0, "nothing was done"


@pytest.mark.parametrize("path", ADDRESSES)
def test_nothing_is_told_to_who_has_no_token(client: Client, path: str) -> None:
    refused(client, "GET", path, {"Host": client.host})
    refused(client, "GET", path, {"Host": client.host, "Cookie": f"{ACCESS.cookie}=wrong"})
    refused(client, "GET", path, {"Host": client.host, "Cookie": f"{ACCESS.cookie}="})
    refused(client, "GET", path, {"Host": client.host, "Cookie": "another=the-token"})
    refused(client, "GET", f"{path}?token=wrong", {"Host": client.host})
    if path != "/":
        refused(client, "GET", f"{path}?token=the-token", {"Host": client.host})


@pytest.mark.parametrize("path", ["/", "/?token=of-yesterday", "/nowhere"])
def test_a_person_without_the_token_reads_what_to_do(client: Client, path: str) -> None:
    asked = {"Host": client.host, "Sec-Fetch-Mode": "navigate", "Cookie": f"{ACCESS.cookie}=of-yesterday"}
    answer = client.ask("GET", path, headers=asked)
    assert (answer.status, answer.headers["content-type"]) == (403, "text/html; charset=utf-8")
    assert b"Open the address that <code>ltgcd review</code> printed last" in answer.body
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "host",
    ["evil.example:8765", "127.0.0.1", "127.0.0.1:80", "localhost:8766", "127.0.0.1:8765.evil.example", "", "8765"],
)
def test_another_host_is_refused_even_with_the_token(client: Client, host: str) -> None:
    for path in ADDRESSES:
        refused(client, "GET", path, {**client.own, "Host": host})
    refused(client, "GET", "/?token=the-token", {"Host": host})
    refused(client, "POST", "/api/act", {**client.writes, "Host": host, "Origin": f"http://{host}"}, EDIT)
    refused(client, "GET", "/api/state", {"Cookie": client.own["Cookie"]})


def test_the_token_is_exchanged_for_a_cookie_that_no_script_and_no_other_site_can_use(client: Client) -> None:
    answer = client.ask("GET", "/?token=the-token", headers={"Host": client.host})
    assert answer.status == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith("ltgcd-8765=the-token;")
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    linked = client.ask("GET", "/?token=the-token", headers={"Host": client.host, "Sec-Fetch-Site": "cross-site"})
    assert linked.status == 200, "after a redirect from another site a strict cookie would not be sent"
    assert b"refresh" in linked.body
    assert "set-cookie" in linked.headers
    for host in ("localhost:8765", "[::1]:8765"):
        assert client.ask("GET", "/api/state", headers={**client.own, "Host": host}).status == 200


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Origin", "http://evil.example"),
        ("Origin", "http://127.0.0.1:9999"),
        ("Origin", "https://127.0.0.1:8765"),
        ("Origin", "null"),
        ("Origin", None),
        ("X-Ltgcd", None),
        ("X-Ltgcd", "0"),
        ("Content-Type", None),
        ("Content-Type", "text/plain"),
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Content-Type", "multipart/form-data; boundary=application/json"),
        ("Cookie", None),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ],
)
def test_edits_come_from_the_page_alone(client: Client, header: str, value: str | None) -> None:
    headers = {**client.writes, header: value}
    sent = {name: told for name, told in headers.items() if told is not None}
    for path in ("/api/act", "/api/undo", "/api/redo", "/api/apply", "/api/refine", "/api/refine/accept"):
        refused(client, "POST", path, sent, EDIT)
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        refused(client, method, "/api/act", sent, EDIT)


def test_an_edit_of_the_page_itself_passes(client: Client) -> None:
    headers = {**client.writes, "Sec-Fetch-Site": "same-origin"}
    assert client.ask("POST", "/api/act", EDIT, headers).status == 200
    del headers["Origin"]
    assert client.ask("POST", "/api/act", EDIT, headers).status == 409, "it passed the door, and came too late"


def test_another_page_of_this_machine_may_not_read(client: Client) -> None:
    for site in ("same-site", "cross-site"):
        refused(client, "GET", "/api/state", {**client.own, "Sec-Fetch-Site": site})
    assert client.ask("GET", "/api/state", headers={**client.own, "Sec-Fetch-Site": "same-origin"}).status == 200


def test_every_answer_keeps_the_page_in(client: Client) -> None:
    answers = [client.get(path) for path in ADDRESSES] + [client.ask("GET", "/"), client.post("/api/act", {})]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert not any(name.startswith("access-control") for name in answer.headers)


def test_refusals_of_every_kind_keep_the_page_in_too(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """CSP and its kin are on every answer: found, not found, refused, too late, too large, wrong, broken."""
    assert client.ask("POST", "/api/act", EDIT, client.writes).status == 200
    monkeypatch.setattr(client.session, "history", lambda _limit: 1 / 0)
    asked = [
        (303, client.ask("GET", "/?token=the-token", headers={"Host": client.host})),
        (403, client.ask("GET", "/", headers={"Host": "evil.example:8765"})),
        (403, client.ask("POST", "/api/act", EDIT, {**client.writes, "Origin": "http://evil.example"})),
        (404, client.get("/api/nothing")),
        (404, client.get("/static/../page.py")),
        (404, client.ask("DELETE", "/api/act", b"", client.writes)),
        (409, client.ask("POST", "/api/act", EDIT, client.writes)),
        (413, client.ask("POST", "/api/act", EDIT, {**client.writes, "Content-Length": str(2**40)})),
        (422, client.get("/api/rows?code=999")),
        (500, client.get("/api/history")),
        (200, client.get("/api/export")),
        (200, client.get("/api/items")),
        (200, client.get("/static/page.css")),
    ]
    for status, answer in asked:
        assert answer.status == status
        assert {name: answer.headers.get(name.lower()) for name in HEADERS} == HEADERS, status
        assert not any(name.startswith("access-control") for name in answer.headers)
        assert "set-cookie" in answer.headers or status != 303
        assert b"Traceback" not in answer.body
        assert b"ZeroDivisionError" not in answer.body


def test_the_cookie_has_these_flags_and_no_others(client: Client) -> None:
    answer = client.ask("GET", "/?token=the-token", headers={"Host": client.host})
    name, *flags = [part.strip().lower() for part in answer.headers["set-cookie"].split(";")]
    assert name == "ltgcd-8765=the-token"
    assert sorted(flags) == ["httponly", "path=/", "samesite=strict"], "gone when the browser is closed, and no domain"


def test_it_listens_to_this_machine_alone(run_folder: Path) -> None:
    server = open_server(run_folder, port=0)
    try:
        assert server.listener.getsockname()[0] == "127.0.0.1"
        assert server.access.host == "127.0.0.1"
        assert len(server.access.token) >= 32
    finally:
        server.listener.close()


def test_a_link_in_the_source_shows_no_file_that_is_no_image(tmp_path: Path) -> None:
    """Items may be links, for people keep their pictures so; but what is no image is never sent, whatever it is."""
    photos, secret = tmp_path / "photos", tmp_path / "secret.txt"
    photos.mkdir()
    secret.write_text("the secret of somebody else " * 40)
    for row in range(40):
        (photos / f"{row:02d}.png").write_bytes(image_bytes(row))
    names = pa.array([f"{row:02d}.png" for row in range(40)])
    make_run(tmp_path / "run", n=40, items=lambda _true: ImageFiles(photos, names))
    for row, target in ((0, secret), (1, tmp_path), (2, tmp_path / "nothing"), (3, Path("/dev/zero"))):
        (photos / f"{row:02d}.png").unlink()
        (photos / f"{row:02d}.png").symlink_to(target)
    client = open_client(tmp_path / "run")
    for row in range(4):
        answer = client.get(f"/api/thumb/{row}?size=1024")
        assert answer.status == 200
        assert answer.headers["content-type"] == "image/webp"
        assert b"secret" not in answer.body
        assert Image.open(io.BytesIO(answer.body)).size == (64, 64), "a grey square"
    assert b"secret.txt" not in client.get("/api/state").body + client.get("/api/describe?rows=0,1,2,3").body
    client.session.close()


def test_a_huge_body_is_refused(client: Client) -> None:
    assert client.ask("POST", "/api/act", EDIT, {**client.writes, "Content-Length": str(2**40)}).status == 413
    assert client.ask("POST", "/api/act", b" " * (65 * 2**20), client.writes).status == 422
    assert client.seen["version"] == 0


def test_a_server_for_other_machines_answers_to_addresses_but_not_to_names() -> None:
    access = Access("0.0.0.0", 8000)
    assert access.is_own_host("192.168.1.7:8000")
    assert access.is_own_host("[fe80::1]:8000")
    assert not access.is_own_host("evil.example:8000")
    assert not access.is_own_host("192.168.1.7:8001")
    named = Access("box.example", 8000)
    assert named.is_own_host("BOX.example:8000")
    assert not named.is_own_host("192.168.1.7:8000")
    assert Access("::1", 80).url == "http://[::1]:80/"
    assert Access("0.0.0.0", 80).url == "http://127.0.0.1:80/"
    assert [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "box")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert Access("a", 1).token != Access("a", 1).token
    assert access.token not in repr(access)
