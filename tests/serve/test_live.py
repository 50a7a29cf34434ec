"""Server-sent events, from a real server over a real socket."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.requests import ClientDisconnect
from tests.cli.running import run_to_end
from tests.serve.conftest import fill, words_app

from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.producer import Producer
from millstream.serve.address import WebAddress
from millstream.serve.api import live
from millstream.serve.server import WebServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WebServer]:
    data_dir = tmp_path / "data"
    fill(data_dir)
    run_to_end(words_app(data_dir))
    server = WebServer(data_dir, address=WebAddress(port=0), requires_token=False)
    yield server
    server.close()
    close_environments(data_dir)


def events(server: WebServer, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the events of a stream; the first line shows that it is open."""
    with urllib.request.urlopen(f"{server.url}{path}", timeout=60) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        name = ""
        for raw in stream:
            line = raw.decode().rstrip("\n")
            if line.startswith(":"):
                yield "alive", None
            elif line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))


def send(server: WebServer, *lines: str) -> None:
    with EmbeddedLog(server._directory.path) as log, Producer(log, value=str) as producer:
        for line in lines:
            producer.send("lines", line, key=line)


def test_new_records_are_sent_as_they_arrive(server: WebServer) -> None:
    stream = events(server, "/api/live/topics/lines?where=key+startswith+'n'&seconds=60")
    assert next(stream) == ("alive", None)
    send(server, "other", "new <script>")
    name, event = next(stream)
    assert (name, [record["value"] for record in event["records"]], event["skipped"]) == (
        "records",
        ["new <script>"],
        0,
    )


def test_of_too_many_records_the_newest_are_sent_and_the_others_counted(server: WebServer) -> None:
    stream = events(server, "/api/live/topics/lines?seconds=60")
    assert next(stream) == ("alive", None)
    with EmbeddedLog(server._directory.path) as log, Producer(log, value=str, linger="1 s") as producer:
        for number in range(3000):
            producer.send("lines", f"{number}", key="same", partition=0)
    shown = skipped = 0
    while shown + skipped < 3000:
        _, event = next(stream)
        assert len(event["records"]) <= 200
        shown, skipped = shown + len(event["records"]), skipped + event["skipped"]
    assert skipped > 0


def test_of_large_records_the_newest_are_sent_and_the_others_counted(
    server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_MAX_BYTES", 2_500)
    stream = events(server, "/api/live/topics/lines?seconds=60")
    assert next(stream) == ("alive", None)
    with EmbeddedLog(server._directory.path) as log, Producer(log, value=str, linger="1 s") as producer:
        for number in range(10):
            producer.send("lines", f"{number}{'x' * 1_000}", key="same", partition=0)
    received: list[str] = []
    skipped = 0
    while len(received) + skipped < 10:
        _, event = next(stream)
        received += [record["value"][0] for record in event["records"]]
        skipped += event["skipped"]
    assert received[-1] == "9"
    assert skipped > 0


def test_progress_is_sent_when_a_topic_grows(server: WebServer) -> None:
    stream = events(server, "/api/live/progress?seconds=60")
    _, before = next(stream)
    send(server, "more")
    _, after = next(stream)
    assert after["topics"]["lines"] == before["topics"]["lines"] + 1
    assert after["apps"] == before["apps"] == {"words-app": before["apps"]["words-app"]}


def test_all_rows_of_a_table_are_sent_and_then_those_that_change(server: WebServer) -> None:
    stream = events(server, "/api/live/tables/words?app=words-app&prefix=mi&seconds=60")
    name, event = next(stream)
    assert (name, event["rows"][0]["key"], event["rows"][0]["value"]) == ("state", "mill", 11)
    send(server, "mill|mint")
    run_to_end(words_app(server._directory.path))
    event = next(data for name, data in stream if name == "rows")
    assert {row["key"]: row["value"] for row in event["changed"]} == {"mill": 12, "mint": 1}


def test_a_stream_of_an_unknown_topic_is_rejected_at_once(server: WebServer) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{server.url}/api/live/topics/nowhere", timeout=60)
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(f"{server.url}/api/live/topics/lines?where=(", timeout=60)


def test_a_stream_ends_when_its_time_is_up(server: WebServer) -> None:
    assert list(events(server, "/api/live/topics/lines?seconds=0.1")) == [("alive", None)]


def test_a_client_that_disconnects_before_the_first_event_frees_its_stream() -> None:
    async def receive() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(_: object) -> None:
        raise OSError("the connection is closed")

    async def events() -> AsyncIterator[bytes]:
        yield b": alive\n\n"

    scope = {"type": "http", "method": "GET", "headers": [], "asgi": {"spec_version": "2.4"}}
    for _ in range(live._MAX_STREAMS + 1):
        response = live.stream_response(events())
        assert response.status_code == 200
        with suppress(ClientDisconnect):
            anyio.run(response, scope, receive, send)
