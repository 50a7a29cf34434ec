"""The embeddable table in a real browser, in a page of another origin."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.support.wait import WebDriverWait
from tests.browser.conftest import TIMEOUT_SECONDS
from tests.cli.running import run_to_end
from tests.serve.conftest import words_app

from millstream.log import EmbeddedLog
from millstream.producer import Producer
from millstream.serve.read_tokens import ReadTokens, new_grant
from millstream.serve.server import WebServer

pytestmark = pytest.mark.browser


@pytest.fixture
def shop() -> Iterator[Callable[[str], str]]:
    """Serve a page of another origin, and return a function that sets its content and returns its origin."""
    page = [b""]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(page[0])

        def log_message(self, format: str, *arguments: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()

    def show(content: str) -> str:
        page[0] = f"<!doctype html><title>shop</title>{content}".encode()
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield show
    server.shutdown()
    server.server_close()


def cells(driver: WebDriver) -> dict[str, str]:
    script = """const root = document.querySelector("millstream-table")?.shadowRoot;
        const rows = [...root?.querySelectorAll("tbody tr") ?? []];
        return rows.map((row) => [...row.cells].map((cell) => cell.textContent))"""
    return dict(driver.execute_script(script))


def test_a_page_of_another_site_shows_a_table_live(
    driver: WebDriver, server: WebServer, shop: Callable[[str], str]
) -> None:
    data_dir = server._directory.path
    origin = shop("")
    token = ReadTokens(data_dir).sign(new_grant(["words-app/words"], 600, [origin], "mi"))
    source = f"{server.url}/api/live/tables/words?app=words-app&prefix=mi&token={token}"
    script = f'<script src="{server.url}/embed/millstream-table.js"></script>'
    shop(f'{script}<millstream-table src="{source}"></millstream-table>')
    driver.get(origin)
    WebDriverWait(driver, TIMEOUT_SECONDS).until(lambda _: "mill" in cells(driver))
    before = int(cells(driver)["mill"])
    with EmbeddedLog(data_dir) as log, Producer(log, value=str) as producer:
        producer.send("lines", "mill|mint", key="x")
    run_to_end(words_app(data_dir))
    WebDriverWait(driver, TIMEOUT_SECONDS).until(lambda _: cells(driver) == {"mill": str(before + 1), "mint": "1"})
    state = driver.execute_script("return document.querySelector('millstream-table').getAttribute('state')")
    assert state == "live"
    driver.get("about:blank")
