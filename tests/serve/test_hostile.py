"""Keys, values, headers and errors never become part of a page's code."""

from __future__ import annotations

import logging
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient
from tests.serve.conftest import HOSTILE, Served

from millstream.broker import Output
from millstream.foundation.blocks import block_of
from millstream.foundation.text import printable
from millstream.log import EmbeddedLog
from millstream.serve.api.tables import _escape_formula
from millstream.serve.api.topics import Done
from millstream.serve.operations import Operation

PAGES = [
    *("/", "/topology?app=rides-app", "/topics", "/topics/lines", "/topics/rides", "/topics/lines?view=table"),
    *("/topics/rides-app.dead-letters", "/topics/counts", "/topics/vendors?view=table", "/tables"),
    *("/tables/words-app/words", "/tables/rides-app/per_vendor", "/tables/rides-app/per_zone", "/groups"),
    *("/time?app=rides-app", "/dead-letters?app=rides-app", "/dead-letters?app=words-app", "/alerts"),
]
ALLOWED_SCRIPT = re.compile(r"/static/\w+\.js\?v=[0-9a-f]{12}")


class Reader(HTMLParser):
    """Records what a browser would run or load."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name.startswith("on") or name == "style" or name == "srcdoc":
                self.problems.append(f"{tag} {name}={value}")
            if name in ("href", "src", "action", "data-action") and not (value or "").startswith(("/", "#")):
                self.problems.append(f"{tag} {name}={value}")
            if name in ("href", "src", "action", "data-action") and (value or "").startswith("//"):
                self.problems.append(f"{tag} {name}={value}")
        source = dict(attrs).get("src")
        if tag == "script" and not (source and ALLOWED_SCRIPT.fullmatch(source)):
            self.problems.append(f"script {attrs}")
        if tag in ("iframe", "object", "embed", "base", "style"):
            self.problems.append(tag)


def check(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    assert reader.problems == []
    assert not set(page) & set("\x00\x07\x1b\u202e"), "invisible characters must be escaped"
    return reader


@pytest.mark.parametrize("path", PAGES)
def test_pages_with_hostile_data_contain_only_our_code(served: Served, path: str) -> None:
    check(served.page(path))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_parameters_are_shown_as_text(served: Served, text: str) -> None:
    for path in (
        f"/topics/lines?key={quote(text)}",
        f"/topics/lines?where={quote(text)}",
        f"/topics/lines?start={quote(text)}",
        f"/topics/{quote(text, safe='')}",
        f"/tables/words-app/words?key={quote(text)}",
        f"/tables/words-app/words?prefix={quote(text)}",
        f"/tables/{quote(text, safe='')}/x",
        f"/time?app=rides-app&table=per_zone&key={quote(text)}&time={quote(text)}",
        f"/dead-letters?app={quote(text)}",
        f"/groups/{quote(text, safe='')}",
    ):
        answer = served.client.get(path)
        assert answer.status_code in (200, 400, 404), path
        if answer.headers["content-type"].startswith("text/html"):
            check(answer.text)
        else:
            assert answer.json()["error"]["code"] in ("http", "host")


def test_hostile_rows_are_found_under_their_keys(served: Served) -> None:
    for word in HOSTILE:
        response = served.get(f"/api/tables/words/{quote(word, safe='')}")
        assert [(row["key"], row["value"]) for row in response["rows"]] == [(word, 1)]


def test_an_alert_with_hostile_fields_is_shown_as_text(own: Served, served: Served) -> None:
    rule = {"name": "a", "app": "rides-app", "what": "table", "table": HOSTILE[0], "key": HOSTILE[1]}
    assert served.post("/api/alerts", {**rule, "to": HOSTILE[2]}).status_code == 400
    assert served.post("/api/alerts", {**rule, "to": f"https://x.test/{HOSTILE[0]}"}).status_code == 200
    check(served.page("/alerts"))
    assert served.post("/api/alerts/a/delete", {"confirm": "a"}).status_code == 200


def test_exported_text_is_not_a_formula(own: Served) -> None:
    assert [_escape_formula(text) for text in ("=1+1", "@SUM(A1)", "+x", "-x", "-5", "-1.5", "text")] == [
        "'=1+1", "'@SUM(A1)", "'+x", "'-x", "-5", "-1.5", "text",
    ]  # fmt: skip


def test_an_error_cannot_inject_lines_into_the_log(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("evil\nERROR forged line \x1b[31m")

    operation = Operation(method="GET", path="/x", summary="", handler=broken, result=Done)
    with caplog.at_level(logging.ERROR):
        client = TestClient(Starlette(routes=[operation.route(served.site)]))
        assert client.get("/x").status_code == 500
    (record,) = caplog.records
    assert "\n" not in record.getMessage()
    assert "\x1b" not in record.getMessage()
    assert printable("a\nb") == r"a\nb"


def test_deep_json_and_odd_numbers_are_not_internal_errors(own: Served, tmp_path: Path) -> None:
    deep = [b"[" * depth + b"]" * depth for depth in (65, 980, 990)]
    with EmbeddedLog(tmp_path / "data") as log:
        log.append([Output("lines", 0, block_of([None] * 3, deep, [0] * 3))])
    records = own.client.get("/api/topics/lines/records").json()["records"]
    assert sorted(len(record["value"]) for record in records) == [130, 1960, 1980]
    for text, status in (("value > 1e999", 200), ("value > 1\u0663", 400)):
        assert own.client.get("/api/topics/lines/records", params={"where": text}).status_code == status
