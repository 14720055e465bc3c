"""Who may talk to the server, and who may not."""

from __future__ import annotations

import pytest
from tests.server.client import ACCESS, Client

from ltgcd.server.security import Access, is_loopback

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


def test_a_huge_body_is_refused(client: Client) -> None:
    assert client.ask("POST", "/api/act", EDIT, {**client.writes, "Content-Length": str(2**40)}).status == 413
    assert client.ask("POST", "/api/act", b" " * (65 * 2**20), client.writes).status == 422
    assert client.version == 0


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
