"""Read tokens: a page of another site reads the tables that its token names, and nothing else."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.running import run_to_end
from tests.serve.conftest import fill, words_app

from millstream.errors import DefinitionError
from millstream.foundation.storage import close_environments
from millstream.serve.address import WebAddress
from millstream.serve.read_tokens import KEY_FILE, ReadTokens, new_grant
from millstream.serve.server import WebServer

SHOP = "https://shop.example"
LIVE = "/api/live/tables/words?app=words-app&seconds=0.1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    data_dir = tmp_path_factory.mktemp("embedding") / "data"
    fill(data_dir)
    run_to_end(words_app(data_dir))
    server = WebServer(data_dir, address=WebAddress(port=0))
    yield server
    server.close()
    close_environments(data_dir)


def token(server: WebServer, *tables: str, seconds: float = 60, prefix: str = "") -> str:
    tokens = ReadTokens(server._directory.path)
    return tokens.sign(new_grant(tables or ("words-app/words",), seconds, (SHOP,), prefix))


def get(server: WebServer, path: str, **headers: str) -> tuple[int, str, dict[str, str]]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"{server.url}{path}", headers=named)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read().decode(), dict(response.headers.items())
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers.items())


def test_a_page_of_a_named_site_reads_a_named_table(server: WebServer) -> None:
    headers = {"origin": SHOP, "sec_fetch_site": "cross-site", "sec_fetch_dest": "empty"}
    status, body, answer = get(server, f"{LIVE}&prefix=mi&token={token(server)}", **headers)
    assert (status, answer["access-control-allow-origin"], answer["vary"]) == (200, SHOP, "origin")
    assert "event: state" in body
    assert '"key":"mill"' in body
    assert get(server, LIVE, authorization=f"Bearer {token(server)}")[0] == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/tables/words?app=words-app", 403),
        ("/api/live/tables/per_vendor?app=rides-app", 403),
        ("/api/live/tables/words", 403),
        ("/api/live/topics/lines", 403),
        ("/api/live/tables/words%2f..%2fx?app=words-app", 403),
        ("/api/csrf", 403),
        ("/", 403),
    ],
)
def test_nothing_else_can_be_read(server: WebServer, path: str, status: int) -> None:
    joint = "&" if "?" in path else "?"
    assert get(server, f"{path}{joint}token={token(server)}")[0] == status
    assert get(server, path)[0] in (200, 401), "without a token: the login page, or refused"


def test_other_sites_and_wrong_tokens_are_refused(server: WebServer) -> None:
    good = token(server)
    status, _, answer = get(server, f"{LIVE}&token={good}", origin="https://evil.example")
    assert status == 403
    assert "access-control-allow-origin" not in answer
    assert get(server, f"{LIVE}&token={token(server, seconds=-1)}")[0] == 401
    assert get(server, f"{LIVE}&token={good[:-2]}AA")[0] == 401
    assert get(server, f"{LIVE}&token=msr_x.y")[0] == 401


def test_a_prefix_limits_the_rows(server: WebServer) -> None:
    limited = token(server, prefix="mi")
    assert get(server, f"{LIVE}&prefix=mil&token={limited}")[0] == 200
    assert get(server, f"{LIVE}&prefix=the&token={limited}")[0] == 403
    assert get(server, f"{LIVE}&token={limited}")[0] == 403
    assert get(server, f"{LIVE}&prefix=mi&first=a&token={limited}")[0] == 403


def test_the_script_can_be_loaded_by_any_site(server: WebServer) -> None:
    status, body, answer = get(
        server, "/embed/millstream-table.js", sec_fetch_site="cross-site", sec_fetch_dest="script"
    )
    assert (status, answer["cross-origin-resource-policy"]) == (200, "cross-origin")
    assert "customElements.define" in body


def test_deleting_the_key_revokes_all_tokens(tmp_path: Path) -> None:
    tokens = ReadTokens(tmp_path)
    text = tokens.sign(new_grant(["a/t"], 60, [], ""))
    assert tokens.grant(text) is not None
    (tmp_path / KEY_FILE).unlink()
    assert tokens.grant(text) is None
    tokens.sign(new_grant(["a/t"], 60, [], ""))
    assert tokens.grant(text) is None


def test_wrong_grants_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="write APP/TABLE"):
        ReadTokens(tmp_path).sign(new_grant(["t"], 60, [], ""))
    with pytest.raises(DefinitionError, match="not an origin"):
        ReadTokens(tmp_path).sign(new_grant(["a/t"], 60, ["https://shop.example/page"], ""))
