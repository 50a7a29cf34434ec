"""Authentication, cross-site protection and security headers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.serve.conftest import HOST, Served, serving

from millstream.serve.credentials import Credentials
from millstream.serve.guard import MAX_BODY_BYTES
from millstream.serve.pages.routes import _PAGES
from millstream.serve.static import NAMES
from millstream.serve.web import OPERATIONS

READS = [
    *("/api/openapi.json", "/api/csrf", "/nowhere"),
    *(f"/static/{name}" for name in NAMES),
    *(path.replace("{topic}", "rides").replace("{app}", "a").replace("{table}", "b") for path in _PAGES),
    *(
        operation.path.replace("{key:key}", "key").replace("{", "").replace("}", "")
        for operation in OPERATIONS
        if operation.method == "GET"
    ),
]
WRITES = [operation.path.replace("{", "").replace("}", "") for operation in OPERATIONS if operation.method == "POST"]
TOKEN = "a" * 43


@pytest.fixture(scope="module")
def closed(filled_dir: Path) -> Iterator[Served]:
    served = serving(filled_dir, TOKEN)
    yield served
    served.site.watch.stop()
    served.site.directory.close()


@pytest.mark.parametrize("host", ["evil.test", "127.0.0.1.evil.test", "localhost.evil.test:80", "", "evil.test:8484"])
def test_an_unknown_host_is_rejected_everywhere(served: Served, host: str) -> None:
    for path in ("/", "/api/topics", "/static/style.css"):
        assert served.client.get(path, headers={"Host": host}).status_code == 400


@pytest.mark.parametrize("host", ["localhost", "localhost:9999", "127.0.0.1:1", "[::1]:8484", "LOCALHOST", "10.1.2.3"])
def test_ip_addresses_and_localhost_are_allowed_hosts(served: Served, host: str) -> None:
    assert served.client.get("/api/topics", headers={"Host": host}).status_code == 200


def test_an_allowed_host_name_is_accepted(filled_dir: Path) -> None:
    allowed = serving(filled_dir, hosts=("Mill.Test",))
    assert allowed.client.get("/", headers={"Host": "mill.test:80"}).status_code == 200
    allowed.site.directory.close()


@pytest.mark.parametrize("path", READS)
def test_nothing_can_be_read_without_the_token(closed: Served, path: str) -> None:
    for headers in (
        {},
        {"Authorization": f"Basic {TOKEN}"},
        {"Cookie": "millstream=x"},
    ):
        answer = closed.client.get(path, headers=headers)
        assert answer.status_code == 401
        assert TOKEN not in answer.text


@pytest.mark.parametrize("path", WRITES)
def test_nothing_can_be_changed_without_the_token(closed: Served, path: str) -> None:
    assert closed.client.post(path, json={}, headers={"X-CSRF-Token": closed.credentials.csrf}).status_code == 401


def test_the_token_is_accepted_as_header_and_as_cookie(closed: Served) -> None:
    assert closed.client.get("/api/topics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    came_in = closed.client.post(
        "/login", data={"token": TOKEN, "csrf": closed.credentials.csrf}, follow_redirects=False
    )
    assert came_in.status_code == 303
    cookie = came_in.headers["set-cookie"]
    assert TOKEN not in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert closed.client.get("/api/topics").status_code == 200
    assert TOKEN not in closed.client.get("/").text
    closed.client.cookies.clear()


def test_the_token_is_not_accepted_in_the_url(closed: Served) -> None:
    assert closed.client.get("/api/topics", params={"token": TOKEN}).status_code == 401


def test_failed_logins_are_limited(filled_dir: Path) -> None:
    closed = serving(filled_dir, TOKEN)
    form = {"token": "wrong", "csrf": closed.credentials.csrf}
    assert [closed.client.post("/login", data=form).status_code for _ in range(6)] == [401] * 5 + [429]
    right = {"token": TOKEN, "csrf": closed.credentials.csrf}
    assert closed.client.post("/login", data=right, follow_redirects=False).status_code == 429
    closed.site.directory.close()


def from_address(served: Served, address: str) -> TestClient:
    """Return a client of the same site at another address."""
    return TestClient(served.client.app, base_url=HOST, client=(address, 50000))


def test_wrong_bearer_tokens_are_limited_by_address(filled_dir: Path) -> None:
    closed = serving(filled_dir, TOKEN)
    wrong, right = {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {TOKEN}"}
    statuses = [closed.client.get("/api/topics", headers=wrong).status_code for _ in range(6)]
    assert statuses == [401] * 5 + [429]
    assert closed.client.get("/api/topics", headers=right).status_code == 429
    assert from_address(closed, "10.0.0.7").get("/api/topics", headers=right).status_code == 200
    closed.site.directory.close()


def test_failed_logins_of_another_address_do_not_keep_the_owner_out(filled_dir: Path) -> None:
    closed = serving(filled_dir, TOKEN)
    form = {"token": "wrong", "csrf": closed.credentials.csrf}
    attacker = from_address(closed, "10.0.0.66")
    assert [attacker.post("/login", data=form).status_code for _ in range(6)][-1] == 429
    right = {"token": TOKEN, "csrf": closed.credentials.csrf}
    assert closed.client.post("/login", data=right, follow_redirects=False).status_code == 303
    closed.site.directory.close()


def test_the_login_page_does_not_reveal_anything_derived_from_the_token() -> None:
    first, second = Credentials.new(TOKEN), Credentials.new(TOKEN)
    assert first.csrf != second.csrf
    assert first.cookie != second.cookie


def test_another_authorization_scheme_does_not_replace_the_csrf_token(own: Served) -> None:
    closed = serving(own.data_dir, TOKEN)
    closed.client.cookies.set("millstream-8484", closed.credentials.cookie)
    response = closed.client.post("/api/topics", json={"topic": "evil"}, headers={"Authorization": "Basic x"})
    closed.site.directory.close()
    assert (response.status_code, response.json()["error"]["code"]) == (403, "csrf")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_the_api_cannot_be_read_by_other_sites(served: Served, site: str) -> None:
    assert served.client.get("/api/topics", headers={"Sec-Fetch-Site": site}).status_code == 403
    assert served.client.get("/api/topics", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
    assert served.client.get("/topics", headers={"Sec-Fetch-Site": site}).status_code == 200  # a link to a page
    image = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": "image"}
    assert served.client.get("/topics", headers=image).status_code == 403


def test_a_cross_site_login_is_rejected(closed: Served) -> None:
    form = {"token": TOKEN, "csrf": "forged"}
    assert closed.client.post("/login", data=form, follow_redirects=False).status_code == 403
    right = {"token": TOKEN, "csrf": closed.credentials.csrf}
    assert closed.client.post("/login", data=right, headers={"Origin": "http://evil.test"}).status_code == 403


@pytest.mark.parametrize("path", WRITES)
def test_a_write_needs_the_csrf_token(served: Served, path: str) -> None:
    for headers in ({}, {"X-CSRF-Token": "x"}, {"X-CSRF-Token": served.credentials.csrf[:-1]}):
        assert served.client.post(path, json={}, headers=headers).json()["error"]["code"] == "csrf"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.test"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1:8484"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_cross_site_write_is_rejected(own: Served, headers: dict[str, str]) -> None:
    refused = own.post("/api/topics", {"topic": "evil"}, **headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "origin")
    assert own.log().topic_names() == ["lines"]


def test_a_write_from_our_own_page_is_accepted(own: Served) -> None:
    taken = own.post("/api/topics", {"topic": "good"}, Origin="http://127.0.0.1:8484")
    assert (taken.status_code, own.log().topic_names()) == (200, ["good", "lines"])


def test_a_bearer_token_needs_no_csrf_token(filled_dir: Path, own: Served) -> None:
    closed = serving(own.data_dir, TOKEN)
    taken = closed.client.post("/api/topics", json={"topic": "good"}, headers={"Authorization": f"Bearer {TOKEN}"})
    closed.site.directory.close()
    assert taken.status_code == 200


@pytest.mark.parametrize("path", WRITES)
def test_actions_are_post_only(served: Served, path: str) -> None:
    reads = {operation.path.replace("{", "").replace("}", "") for operation in OPERATIONS if operation.method == "GET"}
    if path not in reads:
        assert served.client.get(path).status_code in (404, 405)
    for method in ("PUT", "DELETE", "PATCH"):
        assert served.client.request(method, path, headers={"X-CSRF-Token": served.credentials.csrf}).status_code in (
            404,
            405,
        )


def test_a_body_that_is_not_json_is_rejected(own: Served) -> None:
    refused = own.client.post(
        "/api/topics",
        content=b'{"topic": "evil"}',
        headers={"X-CSRF-Token": own.credentials.csrf, "Content-Type": "text/plain"},
    )
    assert refused.status_code == 415


@pytest.mark.parametrize("path", ["/", "/api/topics", "/static/live.js", "/nowhere", "/api/topics/nowhere"])
def test_every_response_has_security_headers(served: Served, path: str) -> None:
    headers = served.client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


def test_a_cross_site_preflight_allows_nothing(served: Served) -> None:
    asked = {"Origin": "http://evil.test", "Access-Control-Request-Method": "POST"}
    answer = served.client.options("/api/topics", headers=asked)
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_large_body_is_rejected_with_and_without_content_length(own: Served) -> None:
    headers = {"X-CSRF-Token": own.credentials.csrf, "Content-Type": "application/json"}
    large = b'{"value": "' + b"x" * MAX_BODY_BYTES + b'"}'
    assert own.client.post("/api/topics/lines/records", content=large, headers=headers).status_code == 413

    def parts() -> Iterator[bytes]:
        yield from (large[at : at + 65536] for at in range(0, len(large), 65536))

    assert own.client.post("/api/topics/lines/records", content=parts(), headers=headers).status_code == 413
    assert sum(offsets.end for offsets in own.log().offsets("lines")) == 0
